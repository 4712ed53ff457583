use super::*;
use crate::measure::{
    Bound, BoundSet, Bounds, Excluded, HeaderBounds, Judgement, Outcome, Record, Slo, TokenCounts, TokenSource, Verdict,
};
use crate::measure::{Match, Policy, Undefined};

const MS: u64 = 1_000_000;
const S: u64 = 1_000 * MS;

fn at(seconds: u64) -> Stamp {
    Stamp::from_nanos(seconds * S)
}

fn slo(name: &str, bounds: Bounds) -> Slo {
    Slo {
        name: name.into(),
        when: Match::default(),
        bounds,
        objective: 0.99,
        undefined: Undefined::Pass,
        client_error: Policy::Exclude,
        cancelled: Policy::Judge,
        header_bounds: None,
    }
}

fn setup() -> Setup {
    let bounds = Bounds {
        ttft_ns: Some(200 * MS),
        tpot_ns: Some(17 * MS),
        ..Bounds::default()
    };
    Setup {
        routes: vec![
            RouteSetup {
                name: "chat".into(),
                apis: vec!["chat"],
                has_models: true,
                slos: vec![slo("fast", bounds)],
            },
            RouteSetup {
                name: "other".into(),
                apis: vec!["other"],
                has_models: false,
                slos: Vec::new(),
            },
        ],
        windows: [("1m", 60 * S), ("5m", 300 * S)]
            .map(|(name, length_ns)| WindowSetup {
                name: name.into(),
                length_ns,
            })
            .into(),
        models: LabelPolicy {
            allow: Vec::new(),
            cap: 2,
        },
        tenants: None,
    }
}

fn aggregates() -> Aggregates {
    Aggregates::new(&setup(), at(0))
}

/// A stream of `tokens` tokens with this TTFT and TPOT.
fn record(ttft_ms: u64, tpot_ms: u64, tokens: u64) -> Record {
    let t0 = at(1);
    let first = t0.plus(ttft_ms * MS);
    let last = first.plus(tpot_ms * MS * (tokens - 1));
    Record {
        t0,
        t_sent: Some(t0.plus(MS)),
        t_head: Some(first),
        t_byte: Some(first),
        t_first: Some(first),
        t_visible: Some(first),
        t_last: Some(last),
        t_end: last,
        streaming: true,
        status: Some(200),
        outcome: Outcome::Ok,
        read: true,
        tokens: TokenCounts {
            output: tokens,
            first_event: 1,
            prompt: Some(12),
            reasoning: None,
            cached: None,
            source: TokenSource::Usage,
        },
        token_events: tokens,
        stall_ns: Some(tpot_ms * MS),
        itl_count: tokens - 1,
        itl_over: [0; 4],
        client_limited: false,
        finish_reason_seen: true,
    }
}

fn finished(record: &Record, judgement: Judgement) -> Finished<'_> {
    Finished {
        record,
        api: "chat",
        verdict: Some(Verdict { slo: 0, judgement }),
        tokens_counted: 0,
        trace: None,
    }
}

fn bad(bounds: &[Bound]) -> Judgement {
    Judgement::Bad {
        broken: bounds.iter().copied().collect::<BoundSet>(),
        outcome_bad: false,
    }
}

fn scrape(aggregates: &Aggregates, now: Stamp) -> Snapshot {
    aggregates.snapshot(now, |_| InFlight::default())
}

fn only<'a>(snapshot: &'a Snapshot, route: &str, model: &str) -> &'a SeriesSnapshot {
    let mut found = snapshot.series.iter().filter(|s| &*s.route == route && &*s.model == model);
    let series = found.next().expect("the series exists");
    assert!(found.next().is_none(), "one series per label set");
    series
}

fn of(series: &SeriesSnapshot, measure: Measure) -> &HistogramSnapshot {
    &series.histograms[measure.index()]
}

#[test]
fn everything_known_at_start_exists_at_0() {
    let snapshot = scrape(&aggregates(), at(0));
    let labels: Vec<_> = snapshot.series.iter().map(|s| (&*s.route, &*s.model)).collect();
    assert_eq!(labels, [("chat", "unknown"), ("other", "unknown")]);
    let chat = only(&snapshot, "chat", "unknown");
    assert_eq!(chat.requests.len(), 2 * Outcome::ALL.len());
    assert!(chat.requests.iter().all(|(labels, n)| labels.api == "chat" && *n == 0));
    assert_eq!(chat.histograms.len(), Measure::ALL.len());
    assert!(
        chat.histograms
            .iter()
            .all(|h| h.count == 0 && h.counts.len() == h.edges.len() + 1)
    );
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
            ("other", "unknown", Some("t"))
        ]
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
fn a_request_fills_every_measure_it_has() {
    let aggregates = aggregates();
    let series = aggregates.series(0, Some("m"), None, true);
    let record = record(200, 10, 11);
    series.apply(&finished(&record, Judgement::Good));
    let snapshot = scrape(&aggregates, at(2));
    let m = only(&snapshot, "chat", "m");
    let sums: Vec<_> = m.histograms.iter().map(|h| (h.count, h.sum)).collect();
    let expected = [
        (1, 200 * MS), // TTFT
        (1, 200 * MS), // TTFB
        (1, 200 * MS), // visible
        (1, 10 * MS),  // TPOT
        (0, 0),        // ITL and
        (0, 0),        // inter-chunk come from the running stream
        (1, 10 * MS),  // stall
        (1, 300 * MS), // E2E
        (1, MS),       // upload
        (1, 12),
        (1, 11),
    ];
    assert_eq!(sums, expected);
    assert_eq!((m.output_tokens, m.prompt_tokens, m.good_tokens), ([11, 0], 12, 11));
    let classes: Vec<_> = m.e2e_by_output.iter().map(|(label, h)| (*label, h.count)).collect();
    assert_eq!(
        classes,
        [("<=64", 1), ("<=256", 0), ("<=1024", 0), ("<=4096", 0), (">4096", 0)]
    );
    let nonzero: Vec<_> = m.requests.iter().filter(|(_, n)| *n > 0).collect();
    let labels = RequestLabels {
        api: "chat",
        streaming: true,
        outcome: Outcome::Ok,
    };
    assert_eq!(nonzero, [&(labels, 1)]);
}

#[test]
fn a_unary_reply_leaves_only_what_it_has() {
    let aggregates = aggregates();
    let mut record = record(200, 10, 11);
    record.streaming = false;
    record.stall_ns = None;
    aggregates
        .series(0, None, None, true)
        .apply(&finished(&record, Judgement::Good));
    let snapshot = scrape(&aggregates, at(2));
    let series = only(&snapshot, "chat", "unknown");
    let sampled: Vec<_> = Measure::ALL.into_iter().filter(|m| of(series, *m).count > 0).collect();
    assert_eq!(
        sampled,
        [
            Measure::Ttfb,
            Measure::E2e,
            Measure::Upload,
            Measure::PromptTokens,
            Measure::OutputTokens
        ]
    );
}

#[test]
fn the_tokens_of_an_unread_reply_are_unknown_not_0() {
    let aggregates = aggregates();
    let mut record = record(200, 10, 11);
    record.read = false;
    aggregates
        .series(0, None, None, true)
        .apply(&finished(&record, Judgement::Good));
    let snapshot = scrape(&aggregates, at(2));
    let series = only(&snapshot, "chat", "unknown");
    assert_eq!(
        (series.output_tokens, series.prompt_tokens, series.good_tokens),
        ([0, 0], 0, 0)
    );
    assert_eq!(
        (
            of(series, Measure::OutputTokens).count,
            of(series, Measure::PromptTokens).count
        ),
        (0, 0)
    );
    assert!(series.e2e_by_output.iter().all(|(_, h)| h.count == 0));
    assert_eq!(of(series, Measure::E2e).count, 1);
}

#[test]
fn a_bound_is_an_edge_and_belongs_to_the_bucket_below_it() {
    let aggregates = aggregates();
    let series = aggregates.series(0, None, None, true);
    for nanos in [0, 1] {
        let mut record = record(200, 10, 2);
        record.t_first = record.t_first.map(|t| t.plus(nanos));
        record.t_last = record.t_last.map(|t| t.plus(nanos));
        series.apply(&finished(&record, Judgement::Good));
    }
    let snapshot = scrape(&aggregates, at(2));
    let ttft = of(only(&snapshot, "chat", "unknown"), Measure::Ttft);
    let edge = ttft.edges.iter().position(|e| *e == 200 * MS).expect("the bound is an edge");
    assert_eq!((ttft.counts[edge], ttft.counts[edge + 1]), (1, 1));
    let tpot = of(only(&snapshot, "chat", "unknown"), Measure::Tpot);
    assert!(tpot.edges.contains(&(17 * MS)));
    let other = of(only(&snapshot, "other", "unknown"), Measure::Ttft);
    assert!(!other.edges.contains(&(200 * MS)), "another route's bound is no edge here");
}

#[test]
fn a_tpot_that_no_whole_nanosecond_meets_is_above_its_bound() {
    let aggregates = aggregates();
    let mut record = record(100, 17, 3);
    record.t_last = record.t_last.map(|t| t.plus(1));
    aggregates
        .series(0, None, None, true)
        .apply(&finished(&record, bad(&[Bound::Tpot])));
    let snapshot = scrape(&aggregates, at(2));
    let tpot = of(only(&snapshot, "chat", "unknown"), Measure::Tpot);
    let edge = tpot.edges.iter().position(|e| *e == 17 * MS).expect("the bound is an edge");
    assert_eq!(tpot.counts[edge + 1], 1);
}

#[test]
fn every_judged_request_is_good_or_bad_and_every_bound_counts() {
    let aggregates = aggregates();
    let series = aggregates.series(0, None, None, true);
    let record = record(100, 10, 11);
    let outcome_bad = Judgement::Bad {
        broken: [Bound::Ttft].into_iter().collect(),
        outcome_bad: true,
    };
    for judgement in [
        Judgement::Good,
        bad(&[Bound::Ttft]),
        bad(&[Bound::Ttft, Bound::Tpot]),
        bad(&[Bound::Tpot]),
        outcome_bad,
        Judgement::Excluded(Excluded::Cancelled),
    ] {
        series.apply(&finished(&record, judgement));
    }
    let snapshot = scrape(&aggregates, at(2));
    let slo = &only(&snapshot, "chat", "unknown").slos[0];
    assert_eq!((slo.evaluated, slo.good, slo.bad), (5, 1, 4));
    assert_eq!(slo.violations, [(Bound::Ttft, 3), (Bound::Tpot, 2)]);
    assert_eq!(slo.sole_violations, [(Bound::Ttft, 1), (Bound::Tpot, 1)]);
    assert!(slo.excluded.contains(&("cancelled", 1)));
    assert_eq!(
        (slo.windows[0].evaluated, slo.windows[0].good, slo.windows[0].good_tokens),
        (5, 1, 11)
    );
}

#[test]
fn overdue_requests_lower_the_ratio_but_no_counter() {
    let aggregates = aggregates();
    let record = record(100, 10, 11);
    let series = aggregates.series(0, None, None, true);
    (0..3).for_each(|_| series.apply(&finished(&record, Judgement::Good)));
    let snapshot = aggregates.snapshot(at(2), |s| match &**s.route() {
        "chat" => InFlight {
            requests: 5,
            overdue: vec![(Bound::Ttft, 1)],
            overdue_by_slo: vec![1],
            stalled: 2,
        },
        _ => InFlight::default(),
    });
    let chat = only(&snapshot, "chat", "unknown");
    assert_eq!(
        (chat.in_flight, chat.stalled, &chat.overdue[..]),
        (5, 2, &[(Bound::Ttft, 1)][..])
    );
    assert_eq!((chat.slos[0].evaluated, chat.slos[0].windows[0].ratio()), (3, Some(0.75)));
    assert_eq!(only(&snapshot, "other", "unknown").in_flight, 0);
}

#[test]
fn a_hanging_backend_shows_as_0_and_an_idle_one_as_nothing() {
    let aggregates = aggregates();
    let overdue = |n| {
        let snapshot = aggregates.snapshot(at(2), |_| InFlight {
            overdue_by_slo: vec![n],
            ..InFlight::default()
        });
        only(&snapshot, "chat", "unknown").slos[0].windows[0].ratio()
    };
    assert_eq!((overdue(4), overdue(0)), (Some(0.0), None));
}

#[test]
fn tokens_counted_while_streaming_are_corrected_upwards_only() {
    let aggregates = aggregates();
    let series = aggregates.series(0, None, None, true);
    series.tokens(8, TokenSource::Events);
    let record = record(100, 10, 11);
    series.apply(&Finished {
        tokens_counted: 8,
        ..finished(&record, Judgement::Good)
    });
    series.tokens(20, TokenSource::Events);
    series.apply(&Finished {
        tokens_counted: 20,
        ..finished(&record, Judgement::Good)
    });
    let snapshot = scrape(&aggregates, at(2));
    assert_eq!(only(&snapshot, "chat", "unknown").output_tokens, [3, 28]);
}

#[test]
fn gaps_of_several_tokens_are_as_many_itl_samples_and_one_inter_chunk() {
    let aggregates = aggregates();
    let series = aggregates.series(0, None, None, true);
    series.gap(30 * MS, 3);
    series.gap(0, 2);
    let snapshot = scrape(&aggregates, at(2));
    let chat = only(&snapshot, "chat", "unknown");
    let (itl, chunk) = (of(chat, Measure::Itl), of(chat, Measure::InterChunk));
    assert_eq!((itl.count, itl.zero, itl.sum), (5, 2, 30 * MS));
    assert_eq!((chunk.count, chunk.zero, chunk.sum), (2, 1, 30 * MS));
    let edge = itl.edges.iter().position(|e| *e == 10 * MS).expect("10 ms is an edge");
    assert_eq!((itl.counts[edge], itl.counts[0]), (3, 2));
}

#[test]
fn classic_native_and_count_agree() {
    let aggregates = aggregates();
    let series = aggregates.series(0, None, None, true);
    for gap in [0, 1, 953, 954, 10 * MS, 10 * MS + 1, 9_000 * S, u64::MAX] {
        series.gap(gap, 1);
    }
    let snapshot = scrape(&aggregates, at(2));
    let itl = of(only(&snapshot, "chat", "unknown"), Measure::Itl);
    assert_eq!(itl.count, 8);
    assert_eq!(itl.counts.iter().sum::<u64>(), 8);
    assert_eq!(itl.zero + itl.native.iter().map(|(_, n)| n).sum::<u64>(), 8);
    assert!(itl.native.is_sorted_by(|a, b| a.0 < b.0));
}

#[test]
fn rolling_quantiles_of_few_requests_are_observed_values() {
    let aggregates = aggregates();
    let series = aggregates.series(0, None, None, true);
    series.apply(&finished(&record(500, 10, 11), Judgement::Good));
    series.gap(10 * MS, 1);
    let snapshot = scrape(&aggregates, at(2));
    let rolling = &only(&snapshot, "chat", "unknown").rolling;
    let find = |measure, window: &str| rolling.iter().find(|r| r.measure == measure && &*r.window == window);
    let ttft = find(Measure::Ttft, "1m").expect("a sample");
    assert_eq!((ttft.quantiles, ttft.count), ([500 * MS; 4], 1));
    assert_eq!(find(Measure::E2e, "5m").map(|r| r.quantiles), Some([600 * MS; 4]));
    let itl = find(Measure::Itl, "1m").expect("a sample");
    assert!(
        itl.quantiles[0] <= 10 * MS && itl.quantiles[0] > 9_700_000,
        "{:?}",
        itl.quantiles
    );
    assert_eq!(find(Measure::OutputTokens, "1m"), None, "counts have no rolling quantiles");
}

#[test]
fn past_the_sketch_the_histogram_answers() {
    let aggregates = aggregates();
    let series = aggregates.series(0, None, None, true);
    let record = record(500, 10, 11);
    (0..3000).for_each(|_| series.apply(&finished(&record, Judgement::Good)));
    let snapshot = scrape(&aggregates, at(2));
    let rolling = &only(&snapshot, "chat", "unknown").rolling;
    let ttft = rolling.iter().find(|r| r.measure == Measure::Ttft).expect("samples");
    assert_eq!(ttft.count, 3000);
    assert!(
        ttft.quantiles.iter().all(|q| q.abs_diff(500 * MS) < 11 * MS),
        "{:?}",
        ttft.quantiles
    );
}

#[test]
fn windows_forget_and_counters_do_not() {
    let aggregates = aggregates();
    let series = aggregates.series(0, None, None, true);
    for now in 1..=30 {
        series.apply(&finished(&record(100, 10, 11), Judgement::Good));
        aggregates.tick(at(now));
    }
    let rates = |now| {
        let snapshot = scrape(&aggregates, at(now));
        let chat = only(&snapshot, "chat", "unknown").clone();
        let windows: Vec<_> = chat.rates.iter().map(|r| (r.requests, r.output_tokens, r.seconds)).collect();
        (
            chat.slos[0].evaluated,
            windows,
            chat.rolling.iter().any(|r| &*r.window == "1m"),
        )
    };
    assert_eq!(rates(30), (30, vec![(30, 330, 30.0), (30, 330, 30.0)], true));
    (31..=100).for_each(|now| aggregates.tick(at(now)));
    assert_eq!(rates(100), (30, vec![(0, 0, 60.0), (30, 330, 100.0)], false));
    (101..=400).for_each(|now| aggregates.tick(at(now)));
    let (evaluated, windows, _) = rates(400);
    assert_eq!((evaluated, windows[1].0), (30, 0));
}

#[test]
fn exemplars_stand_for_broken_bounds_only_and_the_newest_wins() {
    let aggregates = aggregates();
    let series = aggregates.series(0, None, None, true);
    let record = record(300, 10, 11);
    for (judgement, id) in [
        (bad(&[Bound::Ttft]), "aa"),
        (bad(&[Bound::Ttft]), "bb"),
        (Judgement::Good, "cc"),
        (bad(&[Bound::Ttft]), "longer than any trace id can ever be"),
    ] {
        series.apply(&Finished {
            trace: Some((id, 17.5)),
            ..finished(&record, judgement)
        });
    }
    let snapshot = scrape(&aggregates, at(2));
    let chat = only(&snapshot, "chat", "unknown");
    let ttft = of(chat, Measure::Ttft);
    let kept: Vec<_> = ttft
        .exemplars
        .iter()
        .enumerate()
        .filter_map(|(i, e)| Some((i, e.clone()?)))
        .collect();
    let bucket = ttft.edges.partition_point(|e| *e < 300 * MS);
    let exemplar = Exemplar {
        trace_id: "bb".into(),
        value: 300 * MS,
        unix_seconds: 17.5,
    };
    assert_eq!(kept, [(bucket, exemplar)]);
    assert_eq!(ttft.exemplars.len(), ttft.counts.len());
    assert_eq!(of(chat, Measure::OutputTokens).exemplars, []);
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

#[test]
fn replies_that_could_not_be_read_are_counted_by_reason() {
    let aggregates = aggregates();
    aggregates.degraded(Degraded::Malformed);
    aggregates.degraded(Degraded::Malformed);
    let snapshot = scrape(&aggregates, at(1));
    let counted: Vec<_> = Degraded::ALL.iter().zip(snapshot.degraded).filter(|(_, n)| *n > 0).collect();
    assert_eq!(counted, [(&Degraded::Malformed, 2)]);
}

#[test]
fn two_threads_and_a_scraper_lose_nothing() {
    let aggregates = aggregates();
    let series = aggregates.series(0, None, None, true);
    let record = record(100, 10, 11);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                for i in 0..2000 {
                    series.gap(i * MS % (700 * MS), 2);
                    series.tokens(1, TokenSource::Events);
                    series.apply(&Finished {
                        tokens_counted: 11,
                        ..finished(&record, Judgement::Good)
                    });
                }
            });
        }
        scope.spawn(|| {
            for now in 1..=30 {
                aggregates.tick(at(now));
                let snapshot = scrape(&aggregates, at(now));
                let slo = &only(&snapshot, "chat", "unknown").slos[0];
                assert_eq!(slo.good + slo.bad, slo.evaluated);
                assert_eq!(
                    slo.windows[0].evaluated, slo.evaluated,
                    "everything lies within the minute, once"
                );
            }
        });
    });
    let snapshot = scrape(&aggregates, at(31));
    let chat = only(&snapshot, "chat", "unknown");
    assert_eq!(
        (of(chat, Measure::Itl).count, of(chat, Measure::InterChunk).count),
        (8000, 4000)
    );
    assert_eq!(
        (of(chat, Measure::E2e).count, chat.output_tokens, chat.slos[0].good),
        (4000, [0, 4000], 4000)
    );
    assert_eq!((chat.rates[0].requests, chat.rates[0].output_tokens), (4000, 4000));
}
