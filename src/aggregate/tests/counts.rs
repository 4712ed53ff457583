//! What one series counts.

use super::*;
use crate::measure::GapSink;

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
fn tokens_counted_while_streaming_are_corrected_upwards_only() {
    let aggregates = aggregates();
    let series = aggregates.series(0, None, None, true);
    series.tokens(8);
    series.tokens_from(5, TokenSource::Events);
    let record = record(100, 10, 11);
    series.apply(&Finished {
        tokens_counted: 8,
        tokens_shown: 5,
        ..finished(&record, Judgement::Good)
    });
    series.tokens(20);
    series.apply(&Finished {
        tokens_counted: 20,
        ..finished(&record, Judgement::Good)
    });
    let snapshot = scrape(&aggregates, at(2));
    let chat = only(&snapshot, "chat", "unknown");
    assert_eq!((chat.output_tokens, chat.rates[0].output_tokens), ([6 + 20, 5], 31));
}

#[test]
fn gaps_of_several_tokens_are_as_many_itl_samples_and_one_inter_chunk() {
    let aggregates = aggregates();
    let series = aggregates.series(0, None, None, true);
    series.gaps(30 * MS, 3, 1);
    series.gaps(0, 2, 1);
    let snapshot = scrape(&aggregates, at(2));
    let chat = only(&snapshot, "chat", "unknown");
    let (itl, chunk) = (of(chat, Measure::Itl), of(chat, Measure::InterChunk));
    assert_eq!((itl.count, itl.zero, itl.sum), (5, 2, 30 * MS));
    assert_eq!((chunk.count, chunk.zero, chunk.sum), (2, 1, 30 * MS));
    let edge = itl.edges.iter().position(|e| *e == 10 * MS).expect("10 ms is an edge");
    assert_eq!((itl.counts[edge], itl.counts[0]), (3, 2));
}

#[test]
fn gaps_put_together_count_as_each_by_itself() {
    let heard = [(30 * MS, 3), (0, 1), (0, 1), (0, 2), (0, 2), (30 * MS, 3), (7 * MS + 1, 2)];
    let (one_by_one, together) = (aggregates(), aggregates());
    let series = one_by_one.series(0, None, None, true);
    heard.iter().for_each(|(gap, tokens)| {
        series.gaps(*gap, *tokens, 1);
        series.tokens(*tokens);
    });
    let series = together.series(0, None, None, true);
    let mut burst = Burst::default();
    for read in heard.chunks(4) {
        let mut sink = burst.towards(&series);
        read.iter().for_each(|(gap, tokens)| {
            sink.gap(*gap, *tokens);
            sink.tokens(*tokens);
        });
        drop(sink);
        burst.flush(&series);
    }
    let said = |aggregates: &Aggregates| {
        let snapshot = scrape(aggregates, at(2));
        let chat = only(&snapshot, "chat", "unknown");
        let [itl, chunk] = [Measure::Itl, Measure::InterChunk].map(|measure| {
            let h = of(chat, measure);
            (h.count, h.zero, h.sum, h.counts.clone(), h.native.clone())
        });
        (itl, chunk, chat.rates[0].output_tokens)
    };
    let expected = said(&one_by_one);
    assert_eq!((expected.0.0, expected.1.0, expected.2), (14, 7, 14));
    assert_eq!(said(&together), expected);
}

#[test]
fn classic_native_and_count_agree() {
    let aggregates = aggregates();
    let series = aggregates.series(0, None, None, true);
    for gap in [0, 1, 953, 954, 10 * MS, 10 * MS + 1, 9_000 * S, u64::MAX] {
        series.gaps(gap, 1, 1);
    }
    let snapshot = scrape(&aggregates, at(2));
    let itl = of(only(&snapshot, "chat", "unknown"), Measure::Itl);
    assert_eq!(itl.count, 8);
    assert_eq!(itl.counts.iter().sum::<u64>(), 8);
    assert_eq!(itl.zero + itl.native.iter().map(|(_, n)| n).sum::<u64>(), 8);
    assert!(itl.native.is_sorted_by(|a, b| a.0 < b.0));
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
fn replies_that_could_not_be_read_are_counted_by_reason() {
    let aggregates = aggregates();
    aggregates.degraded(Degraded::Malformed);
    aggregates.degraded(Degraded::Malformed);
    let snapshot = scrape(&aggregates, at(1));
    let counted: Vec<_> = Degraded::ALL.iter().zip(snapshot.degraded).filter(|(_, n)| *n > 0).collect();
    assert_eq!(counted, [(&Degraded::Malformed, 2)]);
}
