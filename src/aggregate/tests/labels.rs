//! Which series exist.

use super::*;

#[test]
fn everything_known_at_start_exists_at_0() {
    let snapshot = scrape(&aggregates(), at(0));
    let labels: Vec<_> = snapshot.series.iter().map(|s| (&*s.route, &*s.model)).collect();
    assert_eq!(labels, [("chat", "other"), ("chat", "unknown"), ("other", "unknown")]);
    let chat = only(&snapshot, "chat", "unknown");
    assert_eq!(chat.requests.len(), 2 * Outcome::ALL.len());
    assert!(chat.requests.iter().all(|(labels, n)| labels.api == "chat" && *n == 0));
    let slo = &chat.slos[0];
    assert_eq!((slo.evaluated, slo.good, slo.bad), (0, 0, 0));
    assert_eq!(slo.violations, [(Bound::Ttft, 0), (Bound::Tpot, 0)]);
    assert_eq!(slo.sole_violations, slo.violations);
    let reasons: Vec<_> = Excluded::ALL.iter().map(|r| (r.name(), 0)).collect();
    assert_eq!(slo.excluded, reasons);
    assert_eq!(chat.rolling, []);
    assert_eq!(slo.windows.iter().map(SloWindow::ratio).collect::<Vec<_>>(), [None, None]);
}

#[test]
fn allow_listed_models_and_tenants_exist_from_the_start() {
    let mut setup = setup();
    setup.models.allow = vec!["a".into(), "b".into()];
    setup.tenants = Some(LabelPolicy {
        allow: vec!["t".into()],
        cap: 1,
    });
    let snapshot = scrape(&Aggregates::new(&setup, at(0)), at(0));
    let labels: Vec<_> = snapshot
        .series
        .iter()
        .map(|s| (&*s.route, &*s.model, s.tenant.as_deref()))
        .collect();
    assert_eq!(
        labels,
        [
            ("chat", "a", Some("t")),
            ("chat", "b", Some("t")),
            ("chat", "other", Some("t")),
            ("chat", "unknown", Some("t")),
            ("other", "unknown", Some("t"))
        ]
    );
}

#[test]
fn an_allow_listed_model_has_every_histogram_at_0_and_a_fallback_once_it_is_met() {
    let mut setup = setup();
    setup.models.allow = vec!["a".into()];
    let aggregates = Aggregates::new(&setup, at(0));
    let measures = |model: &str| {
        let snapshot = scrape(&aggregates, at(1));
        let series = only(&snapshot, "chat", model).clone();
        assert_eq!(series.histograms.len(), Measure::ALL.len());
        let bucketed = series.histograms.iter().filter(|h| h.counts.len() == h.edges.len() + 1);
        (bucketed.count(), series.e2e_by_output.len())
    };
    assert_eq!(measures("a"), (11, 5));
    assert_eq!((measures("other"), measures("unknown")), ((0, 0), (0, 0)));
    let refused = record(100, 10, 5);
    aggregates
        .series(0, Some("refused"), None, false)
        .apply(&finished(&refused, Judgement::Good));
    assert_eq!((measures("other"), measures("unknown")), ((11, 5), (0, 0)));
}

#[test]
fn a_route_whose_replies_are_not_read_has_no_measure_of_tokens() {
    let aggregates = aggregates();
    let unread = Record {
        read: false,
        ..record(100, 10, 5)
    };
    aggregates.series(1, None, None, true).apply(&Finished {
        verdict: None,
        ..finished(&unread, Judgement::Good)
    });
    let snapshot = scrape(&aggregates, at(1));
    let series = only(&snapshot, "other", "unknown");
    let has: Vec<_> = Measure::ALL.into_iter().filter(|m| series.has(*m)).collect();
    assert_eq!(has, [Measure::Ttfb, Measure::E2e, Measure::Upload]);
    assert_eq!((of(series, Measure::E2e).count, series.e2e_by_output.len()), (1, 0));
}

#[test]
fn routes_with_the_same_edges_share_their_layouts() {
    let mut setup = setup();
    setup.routes[1].slos.clear();
    let aggregates = Aggregates::new(&setup, at(0));
    let registry = lock(&aggregates.registry);
    let [chat, other] = &registry.shapes[..] else {
        panic!("two routes")
    };
    assert!(Arc::ptr_eq(chat.layout(Measure::E2e), other.layout(Measure::E2e)));
    assert!(Arc::ptr_eq(chat.layout(Measure::Ttfb), chat.layout(Measure::VisibleTtft)));
    assert!(
        !Arc::ptr_eq(chat.layout(Measure::Ttft), other.layout(Measure::Ttft)),
        "a bound is an edge"
    );
}

#[test]
fn bounds_a_request_may_bring_have_their_violations_at_0() {
    let mut setup = setup();
    setup.routes[0].slos[0].bounds = Bounds {
        e2e_ns: Some(S),
        ..Bounds::default()
    };
    setup.routes[0].slos[0].header_bounds = Some(HeaderBounds { min_ns: 1, max_ns: S });
    let snapshot = scrape(&Aggregates::new(&setup, at(0)), at(0));
    let slo = &only(&snapshot, "chat", "unknown").slos[0];
    assert_eq!(slo.violations, [(Bound::Ttft, 0), (Bound::Tpot, 0), (Bound::E2e, 0)]);
}

#[test]
fn model_names_are_bounded_per_route_and_the_overflow_is_counted() {
    let aggregates = aggregates();
    for i in 0..10_000 {
        aggregates.series(0, Some(&format!("refused-{i}")), None, false);
    }
    for model in ["a", "b", "c", "a"] {
        aggregates.series(0, Some(model), None, true);
    }
    let snapshot = scrape(&aggregates, at(1));
    let models: Vec<_> = snapshot
        .series
        .iter()
        .filter(|s| &*s.route == "chat")
        .map(|s| &*s.model)
        .collect();
    assert_eq!(models, ["a", "b", "other", "unknown"]);
    assert_eq!((snapshot.models_overflowed, snapshot.tenants_overflowed), (10_001, 0));
}

#[test]
fn without_a_tenant_policy_a_tenant_is_no_label() {
    let aggregates = aggregates();
    assert_eq!(aggregates.series(0, None, Some("acme"), true).tenant(), None);
}

#[test]
fn past_the_most_series_new_combinations_are_other() {
    let mut setup = setup();
    setup.models.cap = 100;
    setup.tenants = Some(LabelPolicy {
        allow: Vec::new(),
        cap: 100,
    });
    let aggregates = Aggregates::new(&setup, at(0));
    for (model, tenant) in (0..100).flat_map(|m| (0..100).map(move |t| (m, t))) {
        aggregates.series(0, Some(&format!("m{model}")), Some(&format!("t{tenant}")), true);
    }
    assert_eq!(aggregates.all().len(), Aggregates::MAX_SERIES + 1);
    let folded = aggregates.series(0, Some("m99"), Some("t99"), true);
    assert_eq!((&**folded.model(), folded.tenant().map(|t| &**t)), ("other", Some("other")));
    let kept = aggregates.series(0, Some("m0"), Some("t0"), true);
    assert_eq!((&**kept.model(), kept.tenant().map(|t| &**t)), ("m0", Some("t0")));
}

#[test]
fn a_series_keeps_its_handle() {
    let aggregates = aggregates();
    let (a, b) = (
        aggregates.series(0, Some("m"), None, true),
        aggregates.series(0, Some("m"), None, false),
    );
    assert!(Arc::ptr_eq(&a, &b));
}
