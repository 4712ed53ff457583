//! A small snapshot in which every family has a sample, and every number can be told from the others.

use std::sync::Arc;

use goodput_proxy::aggregate::{
    Exemplar, HistogramSnapshot, Measure, RequestLabels, Rolling, SeriesSnapshot, SloSnapshot, SloWindow, Snapshot,
};
use goodput_proxy::expose::model::Target;
use goodput_proxy::expose::{Configured, Model, ProcessSample, ProxyStats};
use goodput_proxy::measure::{Bound, Bounds, Outcome};

/// Quote, backslash, newline, and a character of two bytes.
pub(super) const AWKWARD: &str = "a\"b\\c\n\u{e9}";
pub(super) const MS: u64 = 1_000_000;

/// A histogram of `values` (ns, or tokens) with these classic edges.
pub(super) fn histogram(edges: &[u64], values: &[u64], is_time: bool) -> HistogramSnapshot {
    let mut counts = vec![0; edges.len() + 1];
    let mut native = std::collections::BTreeMap::new();
    for value in values {
        counts[edges.partition_point(|edge| edge < value)] += 1;
        if *value > 0 {
            let unit = if is_time { *value as f64 / 1e9 } else { *value as f64 };
            *native.entry((unit.log2() * 32.0).ceil() as i32).or_insert(0) += 1;
        }
    }
    HistogramSnapshot {
        edges: edges.into(),
        counts,
        native: native.into_iter().collect(),
        zero: values.iter().filter(|v| **v == 0).count() as u64,
        sum: values.iter().sum(),
        count: values.len() as u64,
        exemplars: Vec::new(),
    }
}

pub(super) fn slo_window(window: &str, evaluated: u64, good: u64, overdue: u64) -> SloWindow {
    SloWindow {
        window: window.into(),
        seconds: 60.0,
        evaluated,
        good,
        overdue,
        good_tokens: good * 30,
    }
}

pub(super) fn series(route: &str, model: &str) -> SeriesSnapshot {
    let times = [50 * MS, 250 * MS];
    let mut histograms: Vec<_> = Measure::ALL
        .iter()
        .map(|measure| {
            if measure.is_time() {
                histogram(&times, &[], true)
            } else {
                histogram(&[1, 100], &[7], false)
            }
        })
        .collect();
    let mut ttft = histogram(&times, &[0, 50 * MS, 51 * MS, 300 * MS], true);
    let trace_id = "4bf92f3577b34da6a3ce929d0e0e4736".into();
    ttft.exemplars = vec![
        None,
        None,
        Some(Exemplar {
            trace_id,
            value: 300 * MS,
            unix_seconds: 1_700_000_000.25,
        }),
    ];
    histograms[Measure::Ttft.index()] = ttft;

    let labels = |outcome| RequestLabels {
        api: "chat",
        streaming: true,
        outcome,
    };
    SeriesSnapshot {
        route: route.into(),
        model: model.into(),
        tenant: None,
        reads: true,
        requests: vec![(labels(Outcome::Ok), 4), (labels(Outcome::UpstreamError), 0)],
        histograms,
        e2e_by_output: vec![
            ("<=64", histogram(&times, &[40 * MS], true)),
            (">64", histogram(&times, &[], true)),
        ],
        output_tokens: [120, 8],
        prompt_tokens: 77,
        slos: vec![SloSnapshot {
            slo: "short".into(),
            evaluated: 4,
            good: 3,
            bad: 1,
            excluded: vec![("client_error", 2)],
            violations: vec![(Bound::Ttft, 1), (Bound::E2e, 1)],
            sole_violations: vec![(Bound::Ttft, 0), (Bound::E2e, 0)],
            windows: vec![slo_window("1m", 4, 3, 2), slo_window("5m", 0, 0, 0)],
        }],
        rolling: vec![Rolling {
            measure: Measure::Ttft,
            window: "1m".into(),
            quantiles: [50 * MS, 300 * MS, 300 * MS, 300 * MS],
            count: 4,
        }],
        good_tokens: 90,
        in_flight: 5,
        overdue: vec![(Bound::Ttft, 2), (Bound::E2e, 0)],
        stalled: 1,
        ..SeriesSnapshot::default()
    }
}

pub(super) fn snapshot() -> Snapshot {
    Snapshot {
        series: vec![series("chat", AWKWARD)],
        degraded: [1, 0, 2, 0, 0],
        models_overflowed: 3,
        ..Snapshot::default()
    }
}

pub(super) fn reference() -> Configured {
    let bounds = Bounds {
        ttft_ns: Some(250 * MS),
        e2e_ns: Some(3_000 * MS),
        ..Bounds::default()
    };
    Configured {
        targets: vec![Target {
            route: "chat".into(),
            slo: "short".into(),
            bounds,
            objective: 0.99,
        }],
        profile: "goodput".into(),
    }
}

pub(super) fn stats() -> ProxyStats {
    ProxyStats {
        connections_open: 2,
        connections: 11,
        accept_errors: 1,
        tls_handshake_errors: 15,
        header_timeouts: 3,
        heads_malformed: 4,
        heads_too_large: 5,
        informational_dropped: 6,
        upgrades: 7,
        upstream_attempts: 12,
        upstream_connects: 8,
        upstream_connect_errors: 9,
        reloads_taken: 13,
        reloads_refused: 14,
        last_reload_refused: true,
        overhead_request: Some(histogram(&[20_000, 50_000], &[15_000, 60_000], true)),
        overhead_chunk: Some(histogram(&[20_000, 50_000], &[5_000], true)),
    }
}

pub(super) fn process() -> ProcessSample {
    ProcessSample {
        cpu_seconds: Some(1.25),
        resident_bytes: Some(20_971_520.0),
        open_fds: Some(20.0),
        max_fds: Some(1024.0),
        threads: Some(4.0),
        start_seconds: Some(1_700_000_000.5),
    }
}

pub(super) fn model(snapshot: Snapshot) -> Model {
    Model::build(snapshot, stats(), &reference(), true, &process())
}

pub(super) fn with_tenants() -> Snapshot {
    let of = |tenant: &str| SeriesSnapshot {
        tenant: Some(Arc::from(tenant)),
        ..series("chat", "m")
    };
    Snapshot {
        series: vec![of("a"), of("other")],
        ..Snapshot::default()
    }
}
