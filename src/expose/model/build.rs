//! Snapshot, counters and configuration become a [`Model`]: which number of the aggregates goes into which family.

use super::builder::{Builder, EdgeCache, number, seconds};
use super::{Configured, Model, Value};
use crate::aggregate::{Measure, SeriesSnapshot, SloSnapshot, SloWindow, Snapshot};
use crate::expose::process::ProcessSample;
use crate::expose::stats::ProxyStats;
use crate::measure::{Bound, Degraded, TokenSource};

/// A family's name and what fills it.
type Row<T> = (&'static str, T);
type CountOf = fn(&SloSnapshot) -> u64;
type BoundsOf = fn(&SloSnapshot) -> &[(Bound, u64)];
type WindowValue = fn(&SloWindow) -> Option<f64>;

impl Model {
    /// Puts everything together; `ready` is whether the readiness probe answers 200.
    pub fn build(snapshot: Snapshot, stats: ProxyStats, configured: &Configured, ready: bool, process: &ProcessSample) -> Self {
        let mut build = Builder::new();
        let mut edges = EdgeCache::default();
        let mut series = snapshot.series;
        requests_and_tokens(&mut build, &mut series);
        slos(&mut build, &mut series);
        histograms(&mut build, &mut edges, &mut series);
        gauges(&mut build, &mut series);
        reference_lines(&mut build, configured);

        let degraded = Degraded::ALL.iter().zip(snapshot.degraded);
        build.process(
            "goodput_tap_degraded_total",
            degraded.map(|(why, n)| (vec![why.name().into()], number(n))),
        );
        let overflow = [("model", snapshot.models_overflowed), ("tenant", snapshot.tenants_overflowed)];
        build.process(
            "goodput_proxy_label_overflow_total",
            overflow.map(|(label, n)| (vec![label.into()], number(n))),
        );
        build.process("goodput_proxy_ready", [(vec![], number(u64::from(ready)))]);
        for (name, label, n) in stats.numbers() {
            build.process(name, [(label.into_iter().map(Into::into).collect(), number(n))]);
        }
        for (stage, overhead) in [("request", stats.overhead_request), ("chunk", stats.overhead_chunk)] {
            let sample = overhead.map(|h| (vec![stage.into()], Value::Histogram(edges.exposed(h, true))));
            build.process("goodput_overhead_seconds", sample);
        }
        for (name, value) in process.families() {
            build.process(name, [(vec![], Value::Number(value))]);
        }
        build.finish()
    }
}

fn requests_and_tokens(build: &mut Builder, series: &mut [SeriesSnapshot]) {
    build.series("goodput_requests_total", series, |s, put| {
        for (labels, n) in &s.requests {
            let streaming = if labels.streaming { "true" } else { "false" };
            put(
                &[labels.api.into(), streaming.into(), labels.outcome.name().into()],
                number(*n),
            );
        }
    });
    build.series("goodput_good_tokens_total", series, |s, put| {
        if s.reads {
            put(&[], number(s.good_tokens));
        }
    });
    build.series("goodput_output_tokens_total", series, |s, put| {
        if s.reads {
            for (source, n) in [TokenSource::Usage, TokenSource::Events].iter().zip(s.output_tokens) {
                put(&[source.name().into()], number(n));
            }
        }
    });
    build.series("goodput_prompt_tokens_total", series, |s, put| {
        if s.reads {
            put(&[], number(s.prompt_tokens));
        }
    });
}

fn slos(build: &mut Builder, series: &mut [SeriesSnapshot]) {
    let counters: [Row<CountOf>; 3] = [
        ("goodput_slo_evaluated_total", |slo| slo.evaluated),
        ("goodput_slo_good_total", |slo| slo.good),
        ("goodput_slo_bad_total", |slo| slo.bad),
    ];
    for (name, value) in counters {
        build.series(name, series, |s, put| {
            s.slos.iter().for_each(|slo| put(&[(&slo.slo).into()], number(value(slo))));
        });
    }

    build.series("goodput_slo_excluded_total", series, |s, put| {
        for slo in &s.slos {
            slo.excluded
                .iter()
                .for_each(|(reason, n)| put(&[(&slo.slo).into(), (*reason).into()], number(*n)));
        }
    });
    let by_bound: [Row<BoundsOf>; 2] = [
        ("goodput_slo_violations_total", |slo| &slo.violations),
        ("goodput_slo_sole_violations_total", |slo| &slo.sole_violations),
    ];
    for (name, counts) in by_bound {
        build.series(name, series, |s, put| {
            for slo in &s.slos {
                counts(slo)
                    .iter()
                    .for_each(|(bound, n)| put(&[(&slo.slo).into(), bound.name().into()], number(*n)));
            }
        });
    }
    let by_window: [Row<WindowValue>; 3] = [
        ("goodput_ratio", SloWindow::ratio),
        ("goodput_rate", |window| per_second(window, window.good)),
        ("goodput_good_tokens_rate", |window| per_second(window, window.good_tokens)),
    ];
    for (name, value) in by_window {
        build.series(name, series, |s, put| {
            for slo in &s.slos {
                for window in &slo.windows {
                    if let Some(value) = value(window) {
                        put(&[(&slo.slo).into(), (&window.window).into()], Value::Number(value));
                    }
                }
            }
        });
    }
}

/// A window in which nothing was judged says nothing: a 0 would look like an outage.
fn per_second(window: &SloWindow, n: u64) -> Option<f64> {
    (window.seconds > 0.0 && window.ratio().is_some()).then(|| n as f64 / window.seconds)
}

/// The histogram families and their measures.
const MEASURES: [Row<Measure>; Measure::ALL.len()] = [
    ("goodput_ttft_seconds", Measure::Ttft),
    ("goodput_ttfb_seconds", Measure::Ttfb),
    ("goodput_visible_ttft_seconds", Measure::VisibleTtft),
    ("goodput_tpot_seconds", Measure::Tpot),
    ("goodput_itl_seconds", Measure::Itl),
    ("goodput_inter_chunk_seconds", Measure::InterChunk),
    ("goodput_stall_seconds", Measure::Stall),
    ("goodput_e2e_seconds", Measure::E2e),
    ("goodput_upload_seconds", Measure::Upload),
    ("goodput_prompt_tokens", Measure::PromptTokens),
    ("goodput_output_tokens", Measure::OutputTokens),
];

fn histograms(build: &mut Builder, edges: &mut EdgeCache, series: &mut [SeriesSnapshot]) {
    for (name, measure) in MEASURES {
        build.series(name, series, |s, put| {
            if s.has(measure) {
                let histogram = &mut s.histograms[measure.index()];
                put(
                    &[],
                    Value::Histogram(edges.exposed(std::mem::take(histogram), measure.is_time())),
                );
            }
        });
    }
    build.series("goodput_e2e_by_output_seconds", series, |s, put| {
        for (range, histogram) in &mut s.e2e_by_output {
            put(
                &[(*range).into()],
                Value::Histogram(edges.exposed(std::mem::take(histogram), true)),
            );
        }
    });
}

/// [`crate::aggregate::QUANTILES`] as label values.
const QUANTILE_LABELS: [&str; 4] = ["0.5", "0.9", "0.95", "0.99"];

fn gauges(build: &mut Builder, series: &mut [SeriesSnapshot]) {
    build.series("goodput_rolling_seconds", series, |s, put| {
        for rolling in s.rolling.iter().filter(|r| r.measure.is_time() && r.count > 0) {
            for (quantile, ns) in QUANTILE_LABELS.iter().zip(rolling.quantiles) {
                let labels = [rolling.measure.name().into(), (*quantile).into(), (&rolling.window).into()];
                put(&labels, Value::Number(seconds(ns)));
            }
        }
    });
    build.series("goodput_in_flight", series, |s, put| put(&[], number(s.in_flight)));
    build.series("goodput_overdue", series, |s, put| {
        s.overdue
            .iter()
            .for_each(|(bound, n)| put(&[bound.name().into()], number(*n)));
    });
    build.series("goodput_stalled", series, |s, put| put(&[], number(s.stalled)));
}

fn reference_lines(build: &mut Builder, configured: &Configured) {
    let targets = configured.targets.iter().flat_map(|t| {
        let bounds = Bound::ALL.iter().filter_map(|bound| Some((bound, t.bounds.get(*bound)?)));
        bounds.map(|(bound, ns)| {
            (
                vec![(&t.route).into(), (&t.slo).into(), bound.name().into()],
                Value::Number(seconds(ns)),
            )
        })
    });
    build.process("goodput_slo_target_seconds", targets);
    let objectives = configured
        .targets
        .iter()
        .map(|t| (vec![(&t.route).into(), (&t.slo).into()], Value::Number(t.objective)));
    build.process("goodput_slo_objective_ratio", objectives);
    let info = vec![env!("CARGO_PKG_VERSION").into(), (&configured.profile).into()];
    build.process("goodput_build_info", [(info, number(1))]);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::aggregate::QUANTILES;

    #[test]
    fn the_quantile_labels_are_those_of_the_aggregates() {
        assert_eq!(QUANTILES.map(|quantile| quantile.to_string()), QUANTILE_LABELS);
    }

    #[test]
    fn every_measure_has_a_family_that_ends_in_its_unit() {
        for (at, (name, measure)) in MEASURES.into_iter().enumerate() {
            assert_eq!(measure.index(), at);
            assert!(
                name.ends_with(if measure.is_time() { "_seconds" } else { "_tokens" }),
                "{name}"
            );
        }
    }
}
