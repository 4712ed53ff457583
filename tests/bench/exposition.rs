//! What a scrape costs: a model built and rendered in every format, for about 10 000 sample lines. Fails past the budget.

use std::hint::black_box;

use goodput_proxy::aggregate::{
    HistogramSnapshot, Measure, RequestLabels, Rolling, SeriesSnapshot, SloSnapshot, SloWindow, Snapshot,
};
use goodput_proxy::clock;
use goodput_proxy::expose::{Configured, Format, Model, ProcessSample, ProxyStats, render};
use goodput_proxy::measure::{Bound, Outcome};

/// Most milliseconds that one scrape of 10 000 lines may take.
const BUDGET_MS: f64 = 50.0;
const RUNS: usize = 20;

fn histogram() -> HistogramSnapshot {
    let edges: Vec<u64> = (0..26)
        .map(|i| 1_000_000_u64 << (i / 2))
        .map(|e| e + e / 3)
        .scan(0, |last, e| {
            *last = e.max(*last + 1);
            Some(*last)
        })
        .collect();
    let native: Vec<(i32, u64)> = (-200..-40).map(|index| (index, 27)).collect();
    let count = 160 * 27;
    let mut counts = vec![count / 27; 27];
    counts[26] = 160;
    HistogramSnapshot {
        edges: edges.into(),
        counts,
        native,
        zero: 0,
        sum: 9_876_543_210,
        count,
        exemplars: Vec::new(),
    }
}

fn series(at: usize) -> SeriesSnapshot {
    let requests = Outcome::ALL.iter().map(|o| {
        (
            RequestLabels {
                api: "chat",
                streaming: true,
                outcome: *o,
            },
            12_345,
        )
    });
    let bounds: Vec<_> = Bound::ALL.iter().map(|bound| (*bound, 17)).collect();
    let window = |name: &str| SloWindow {
        window: name.into(),
        seconds: 300.0,
        evaluated: 1000,
        good: 900,
        overdue: 1,
        good_tokens: 9,
    };
    let rolling = |measure| Rolling {
        measure,
        window: "5m".into(),
        quantiles: [1_234_567, 2_345_678, 3_456_789, 4_567_890],
        count: 1000,
    };
    SeriesSnapshot {
        route: "chat".into(),
        model: format!("organisation/model-{at}-instruct").into(),
        requests: requests.collect(),
        histograms: Measure::ALL.iter().map(|_| histogram()).collect(),
        e2e_by_output: ["<=64", "<=256", "<=1024", ">1024"]
            .map(|range| (range, histogram()))
            .to_vec(),
        output_tokens: [123_456_789, 0],
        slos: vec![SloSnapshot {
            slo: "default".into(),
            evaluated: 1000,
            good: 900,
            bad: 100,
            excluded: vec![("client_error", 1), ("client_cancelled", 2)],
            violations: bounds.clone(),
            sole_violations: bounds.clone(),
            windows: ["1m", "5m", "30m"].map(window).to_vec(),
        }],
        rolling: Measure::ALL.iter().map(|measure| rolling(*measure)).collect(),
        overdue: bounds,
        ..SeriesSnapshot::default()
    }
}

fn main() {
    let snapshot = Snapshot {
        series: (0..20).map(series).collect(),
        ..Snapshot::default()
    };
    let mut over = false;
    for format in [Format::Text, Format::OpenMetrics, Format::Protobuf] {
        let mut best = f64::MAX;
        let mut bytes = 0;
        for _ in 0..RUNS {
            let copy = snapshot.clone();
            let start = clock::now();
            let model = Model::build(
                copy,
                ProxyStats::default(),
                &Configured::default(),
                true,
                &ProcessSample::read(),
            );
            let out = black_box(render(&model, format).expect("rendered"));
            best = best.min(clock::now().since(start) as f64 / 1e6);
            bytes = out.len();
            if format == Format::Text {
                let lines = out.split(|b| *b == b'\n').filter(|l| !l.is_empty() && !l.starts_with(b"#"));
                let lines = lines.count();
                assert!((10_000..11_000).contains(&lines), "{lines} lines");
            }
        }
        println!("{format:?}: {best:.2} ms (best of {RUNS}), {bytes} bytes");
        over |= best > BUDGET_MS;
    }
    assert!(!over, "a scrape takes more than {BUDGET_MS} ms");
}
