//! What a scrape says: golden texts, the table of families, a linter's checks, and that all formats tell the same numbers.

pub(crate) mod parser;
mod protobuf;
mod scripted;

use std::collections::{BTreeMap, BTreeSet};

use goodput_proxy::aggregate::{SeriesSnapshot, Snapshot};
use goodput_proxy::config::{Config, File, Sources, Syntax};
use goodput_proxy::expose::families::{FAMILIES, FamilyDef, Kind};
use goodput_proxy::expose::{Configured, Format, ProxyStats, render};

use self::protobuf::decode;
use parser::{Line, Parsed, lint, parse};
use scripted::{AWKWARD, model, series, slo_window, snapshot, with_tenants};

fn text(snapshot: Snapshot, format: Format) -> String {
    String::from_utf8(render(&model(snapshot), format).expect("rendered")).expect("text")
}

fn family<'a>(parsed: &'a [Parsed], name: &str) -> Option<&'a Parsed> {
    parsed.iter().find(|family| family.name == name)
}

/// The sample `name` of which these labels, among others, hold.
fn value(parsed: &[Parsed], name: &str, labels: &[(&str, &str)]) -> Option<f64> {
    let matches = |line: &&Line| line.name == name && labels.iter().all(|(key, value)| line.label(key) == *value);
    parsed
        .iter()
        .flat_map(|family| &family.samples)
        .find(matches)
        .map(|line| line.value)
}

#[test]
fn the_text_is_the_golden_text() {
    let golden = include_str!("../fixtures/exposition/metrics.txt").replace("{VERSION}", env!("CARGO_PKG_VERSION"));
    assert_eq!(text(snapshot(), Format::Text), golden);
}

#[test]
fn the_openmetrics_text_is_the_golden_text() {
    let golden = include_str!("../fixtures/exposition/openmetrics.txt").replace("{VERSION}", env!("CARGO_PKG_VERSION"));
    assert_eq!(text(snapshot(), Format::OpenMetrics), golden);
}

#[test]
fn every_family_of_the_table_appears_with_exactly_its_labels() {
    for (snapshot, tenant) in [(snapshot(), false), (with_tenants(), true)] {
        let parsed = parse(&text(snapshot, Format::Text));
        let names: Vec<_> = parsed.iter().map(|family| family.name.as_str()).collect();
        assert_eq!(names, FAMILIES.iter().map(|def| def.name).collect::<Vec<_>>());
        for (family, def) in parsed.iter().zip(FAMILIES) {
            assert_eq!(
                (family.kind.as_str(), family.help.as_str()),
                (if def.is_untyped() { "untyped" } else { def.kind.name() }, def.help),
                "{}",
                def.name
            );
            for line in &family.samples {
                assert_eq!(
                    line.labels.keys().map(String::as_str).collect::<BTreeSet<_>>(),
                    labels_of(def, line, tenant),
                    "{line:?}"
                );
            }
        }
    }
}

fn labels_of(def: &FamilyDef, line: &Line, tenant: bool) -> BTreeSet<&'static str> {
    let bucket = line.name.ends_with("_bucket").then_some("le");
    def.label_names(tenant).into_iter().chain(bucket).collect()
}

#[test]
fn a_linter_finds_nothing_in_either_text() {
    for make in [snapshot, with_tenants, Snapshot::default] {
        lint(&parse(&text(make(), Format::Text)));
        lint(&parse(&text(make(), Format::OpenMetrics)));
    }
}

#[test]
fn an_awkward_model_name_survives_every_format() {
    for format in [Format::Text, Format::OpenMetrics] {
        let parsed = parse(&text(snapshot(), format));
        assert_eq!(
            value(&parsed, "goodput_in_flight", &[("model", AWKWARD), ("route", "chat")]),
            Some(5.0)
        );
    }
    let decoded = decode(&snapshot());
    let in_flight = decoded.iter().find(|f| f.name == "goodput_in_flight").expect("in flight");
    assert!(
        in_flight.metric[0]
            .label
            .iter()
            .any(|pair| pair.name == "model" && pair.value == AWKWARD)
    );
}

#[test]
fn an_empty_window_has_no_sample_and_nothing_is_ever_nan() {
    let mut idle = series("chat", "m");
    idle.rolling.clear();
    idle.slos[0].windows = vec![slo_window("1m", 0, 0, 0)];
    let text = text(
        Snapshot {
            series: vec![idle],
            ..Snapshot::default()
        },
        Format::Text,
    );
    assert!(!text.contains("NaN") && !text.contains(" inf"), "{text}");
    let parsed = parse(&text);
    for name in [
        "goodput_ratio",
        "goodput_rate",
        "goodput_good_tokens_rate",
        "goodput_rolling_seconds",
    ] {
        assert!(family(&parsed, name).is_none(), "{name} has no data");
    }
    assert_eq!(value(&parsed, "goodput_ttfb_seconds_count", &[]), Some(0.0));
}

#[test]
fn a_backend_that_hangs_shows_as_goodput_0_and_not_as_silence() {
    let mut hung = series("chat", "m");
    hung.slos[0].windows = vec![slo_window("1m", 0, 0, 3)];
    let parsed = parse(&text(
        Snapshot {
            series: vec![hung],
            ..Snapshot::default()
        },
        Format::Text,
    ));
    assert_eq!(
        value(&parsed, "goodput_ratio", &[("slo", "short"), ("window", "1m")]),
        Some(0.0)
    );
    assert_eq!(
        value(&parsed, "goodput_rate", &[("slo", "short"), ("window", "1m")]),
        Some(0.0)
    );
}

#[test]
fn a_window_that_has_just_begun_gives_a_ratio_but_no_rate() {
    let mut young = series("chat", "m");
    young.slos[0].windows[0].seconds = 0.0;
    let parsed = parse(&text(
        Snapshot {
            series: vec![young],
            ..Snapshot::default()
        },
        Format::Text,
    ));
    assert_eq!(value(&parsed, "goodput_ratio", &[("window", "1m")]), Some(0.5));
    assert!(family(&parsed, "goodput_rate").is_none());
}

#[test]
fn known_children_exist_at_0() {
    let parsed = parse(&text(snapshot(), Format::Text));
    assert_eq!(
        value(&parsed, "goodput_requests_total", &[("outcome", "upstream_error")]),
        Some(0.0)
    );
    assert_eq!(
        value(&parsed, "goodput_tap_degraded_total", &[("reason", "panic")]),
        Some(0.0)
    );
}

#[test]
fn evaluated_good_and_bad_have_equal_label_sets() {
    let parsed = parse(&text(with_tenants(), Format::Text));
    let labels = |name| {
        family(&parsed, name)
            .expect(name)
            .samples
            .iter()
            .map(|line| line.labels.clone())
            .collect::<BTreeSet<_>>()
    };
    let evaluated = labels("goodput_slo_evaluated_total");
    assert_eq!(evaluated.len(), 2);
    assert_eq!(
        (&evaluated, &evaluated),
        (&labels("goodput_slo_good_total"), &labels("goodput_slo_bad_total"))
    );
}

#[test]
fn openmetrics_ends_once_names_units_and_has_exemplars_where_text_has_none() {
    let (open, plain) = (text(snapshot(), Format::OpenMetrics), text(snapshot(), Format::Text));
    assert!(open.ends_with("\n# EOF\n") && open.matches("# EOF").count() == 1);
    let parsed = parse(&open);
    let names: BTreeSet<_> = parsed.iter().map(|family| family.name.as_str()).collect();
    assert_eq!(names.len(), parsed.len(), "family names are unique");
    assert_eq!(family(&parsed, "goodput_ttft_seconds").expect("ttft").unit, "seconds");
    assert!(
        parsed
            .iter()
            .all(|family| family.unit.is_empty() || family.name.ends_with(&format!("_{}", family.unit)))
    );
    let exemplars: Vec<_> = parsed
        .iter()
        .flat_map(|f| &f.samples)
        .filter_map(|line| line.exemplar.as_deref())
        .collect();
    assert_eq!(
        exemplars,
        ["{trace_id=\"4bf92f3577b34da6a3ce929d0e0e4736\"} 0.3 1700000000.250"]
    );
    assert!(!plain.contains("# EOF") && !plain.contains("# UNIT") && !plain.contains("trace_id"));
}

#[test]
fn all_formats_tell_the_same_numbers() {
    let flat = |format| {
        let parsed = parse(&text(snapshot(), format));
        let lines = parsed.into_iter().flat_map(|family| family.samples);
        lines
            .map(|line| ((line.name, numbers_in_labels(line.labels)), line.value))
            .collect::<BTreeMap<_, _>>()
    };
    let plain = flat(Format::Text);
    assert_eq!(plain, flat(Format::OpenMetrics));

    let mut decoded = BTreeMap::new();
    for family in decode(&snapshot()) {
        let def = FAMILIES.iter().find(|def| def.name == family.name).expect("a row");
        assert_eq!((family.help.as_str(), family.unit.as_str()), (def.help, def.unit));
        for metric in &family.metric {
            let labels: BTreeMap<_, _> = metric
                .label
                .iter()
                .map(|pair| (pair.name.clone(), pair.value.clone()))
                .collect();
            let mut put = |name: String, le: Option<f64>, value: f64| {
                let le = le.map(|le| ("le".to_owned(), le.to_string()));
                let labels = numbers_in_labels(labels.clone().into_iter().chain(le).collect());
                assert_eq!(decoded.insert((name, labels), value), None);
            };
            match def.kind {
                Kind::Counter => put(family.name.clone(), None, metric.counter.expect("a counter").value),
                Kind::Gauge => put(family.name.clone(), None, metric.gauge.expect("a gauge").value),
                Kind::Histogram => {
                    let h = metric.histogram.as_ref().expect("a histogram");
                    put(format!("{}_sum", family.name), None, h.sample_sum);
                    put(format!("{}_count", family.name), None, h.sample_count as f64);
                    for bucket in &h.bucket {
                        put(
                            format!("{}_bucket", family.name),
                            Some(bucket.upper_bound),
                            bucket.cumulative_count as f64,
                        );
                    }
                }
            }
        }
    }
    assert_eq!(decoded, plain);
}

/// `le` as the formats may write it differently (`1`, `1.0`).
fn numbers_in_labels(mut labels: BTreeMap<String, String>) -> BTreeMap<String, String> {
    if let Some(le) = labels.get_mut("le") {
        *le = le.parse::<f64>().expect("an edge").to_string();
    }
    labels
}

#[test]
fn at_the_very_start_the_process_already_tells_about_itself() {
    let start = goodput_proxy::expose::Model::build(
        Snapshot {
            series: vec![SeriesSnapshot::default()],
            ..Snapshot::default()
        },
        ProxyStats::default(),
        &scripted::reference(),
        false,
        &scripted::process(),
    );
    let parsed = parse(&String::from_utf8(render(&start, Format::Text).expect("rendered")).expect("text"));
    lint(&parsed);
    assert_eq!(value(&parsed, "goodput_proxy_ready", &[]), Some(0.0));
    assert_eq!(
        value(&parsed, "goodput_slo_objective_ratio", &[("route", "chat"), ("slo", "short")]),
        Some(0.99)
    );
    assert_eq!(value(&parsed, "goodput_build_info", &[("profile", "goodput")]), Some(1.0));
}

#[test]
fn slos_of_one_name_on_two_routes_give_distinct_reference_lines() {
    let text = "routes:\n\
                - {name: a, paths: [/v1/chat/completions], slos: [{name: fast, ttft: 200ms}]}\n\
                - {name: b, paths: [/v1/completions], slos: [{name: fast, ttft: 900ms, objective: 0.9}]}\n";
    let file = Some(File {
        name: "test".into(),
        text: text.into(),
        syntax: Syntax::Yaml,
    });
    let config = Config::load(&Sources {
        file,
        ..Sources::default()
    })
    .expect("valid");
    let model = goodput_proxy::expose::Model::build(
        Snapshot::default(),
        ProxyStats::default(),
        &Configured::new(&config),
        true,
        &scripted::process(),
    );
    let parsed = parse(&String::from_utf8(render(&model, Format::Text).expect("rendered")).expect("text"));
    lint(&parsed);
    let target = |route| {
        value(
            &parsed,
            "goodput_slo_target_seconds",
            &[("route", route), ("slo", "fast"), ("bound", "ttft")],
        )
    };
    assert_eq!((target("a"), target("b")), (Some(0.2), Some(0.9)));
    let objective = |route| value(&parsed, "goodput_slo_objective_ratio", &[("route", route), ("slo", "fast")]);
    assert_eq!((objective("a"), objective("b")), (Some(0.99), Some(0.9)));
}
