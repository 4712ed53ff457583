//! What rolls, and what is under way.

use super::*;

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
fn rolling_quantiles_of_few_requests_are_observed_values() {
    let aggregates = aggregates();
    let series = aggregates.series(0, None, None, true);
    series.apply(&finished(&record(500, 10, 11), Judgement::Good));
    series.gaps(10 * MS, 1, 1);
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
fn a_series_that_comes_late_loses_no_sample_at_the_next_tick() {
    let aggregates = aggregates();
    aggregates.tick(at(1000));
    let series = aggregates.series(0, Some("late"), None, true);
    series.apply(&finished(&record(500, 10, 11), Judgement::Good));
    aggregates.tick(at(1001));
    series.apply(&finished(&record(700, 10, 11), Judgement::Good));
    let snapshot = scrape(&aggregates, at(1001));
    let rolling = &only(&snapshot, "chat", "late").rolling;
    let ttft = rolling
        .iter()
        .find(|r| r.measure == Measure::Ttft && &*r.window == "1m")
        .expect("samples");
    assert_eq!((ttft.quantiles, ttft.count), ([500 * MS, 700 * MS, 700 * MS, 700 * MS], 2));
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
fn two_threads_and_a_scraper_lose_nothing() {
    let aggregates = aggregates();
    let series = aggregates.series(0, None, None, true);
    let record = record(100, 10, 11);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                for i in 0..2000 {
                    series.gaps(i * MS % (700 * MS), 2, 1);
                    series.tokens(1);
                    series.tokens_from(1, TokenSource::Events);
                    series.apply(&Finished {
                        tokens_counted: 1,
                        tokens_shown: 1,
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
        (4000, [40_000, 4000], 4000)
    );
    assert_eq!((chat.rates[0].requests, chat.rates[0].output_tokens), (4000, 44_000));
}
