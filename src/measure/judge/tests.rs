mod matching;

use super::*;
use crate::measure::{Match, TokenCounts, TokenSource};

const MS: u64 = 1_000_000;

fn ms(t: u64) -> Stamp {
    Stamp::from_nanos(t * MS)
}

/// A good stream: first token at 200 ms, 11 tokens, TPOT 20 ms, end at 450 ms.
fn record() -> Record {
    Record {
        t0: ms(0),
        t_sent: None,
        t_head: Some(ms(10)),
        t_byte: Some(ms(20)),
        t_first: Some(ms(200)),
        t_visible: Some(ms(200)),
        t_last: Some(ms(400)),
        t_end: ms(450),
        streaming: true,
        status: Some(200),
        outcome: Outcome::Ok,
        read: true,
        tokens: TokenCounts {
            output: 11,
            first_event: 1,
            prompt: Some(100),
            reasoning: None,
            cached: None,
            source: TokenSource::Usage,
        },
        token_events: 11,
        stall_ns: Some(30 * MS),
        itl_count: 10,
        itl_over: [0; ItlBounds::MAX],
        client_limited: false,
        finish_reason_seen: true,
    }
}

fn slo(bounds: Bounds) -> Slo {
    Slo {
        name: "s".into(),
        when: Match::default(),
        bounds,
        objective: 0.99,
        undefined: Undefined::Pass,
        client_error: Policy::Exclude,
        cancelled: Policy::Judge,
        header_bounds: None,
    }
}

fn only(bound: Bound, ns: u64) -> Bounds {
    let mut bounds = Bounds::default();
    let place = match bound {
        Bound::Ttft => &mut bounds.ttft_ns,
        Bound::Tpot => &mut bounds.tpot_ns,
        Bound::ItlP99 => &mut bounds.itl_p99_ns,
        Bound::Stall => &mut bounds.stall_ns,
        Bound::E2e => &mut bounds.e2e_ns,
    };
    *place = Some(ns);
    bounds
}

fn verdict(record: &Record, slo: Slo) -> Judgement {
    let slos = [slo];
    judge(record, &Asked::default(), &slos, &ItlBounds::of(&slos))
        .unwrap()
        .judgement
}

fn broke(bounds: &[Bound]) -> Judgement {
    Judgement::Bad {
        broken: bounds.iter().copied().collect(),
        outcome_bad: false,
    }
}

fn failed(bounds: &[Bound]) -> Judgement {
    Judgement::Bad {
        broken: bounds.iter().copied().collect(),
        outcome_bad: true,
    }
}

#[test]
fn a_value_equal_to_its_bound_meets_it_and_one_nanosecond_more_does_not() {
    for (bound, value) in [
        (Bound::Ttft, 200 * MS),
        (Bound::Tpot, 20 * MS),
        (Bound::Stall, 30 * MS),
        (Bound::E2e, 450 * MS),
    ] {
        assert_eq!(verdict(&record(), slo(only(bound, value))), Judgement::Good, "{bound:?}");
        assert_eq!(verdict(&record(), slo(only(bound, value - 1))), broke(&[bound]), "{bound:?}");
    }
}

#[test]
fn tpot_is_compared_without_rounding() {
    let mut r = record();
    // 200 ms over 10 tokens and 1 ns: 20 000 000.1 ns a token, which an integer division would round to the bound.
    r.t_last = Some(ms(400).plus(1));
    assert_eq!(r.tpot_ns(), Some(20 * MS));
    assert_eq!(verdict(&r, slo(only(Bound::Tpot, 20 * MS))), broke(&[Bound::Tpot]));
}

#[test]
fn a_huge_tpot_bound_does_not_overflow() {
    assert_eq!(verdict(&record(), slo(only(Bound::Tpot, u64::MAX))), Judgement::Good);
}

#[test]
fn itl_p99_is_the_nearest_rank() {
    // (samples, above the bound, met): one of a hundred may lie above, of 99 none may.
    for (count, over, met) in [
        (1, 0, true),
        (1, 1, false),
        (99, 0, true),
        (99, 1, false),
        (100, 1, true),
        (100, 2, false),
        (101, 1, true),
        (101, 2, false),
        (200, 2, true),
        (200, 3, false),
    ] {
        let mut r = record();
        (r.itl_count, r.itl_over[0]) = (count, over);
        let expected = if met { Judgement::Good } else { broke(&[Bound::ItlP99]) };
        assert_eq!(verdict(&r, slo(only(Bound::ItlP99, 25 * MS))), expected, "{over} of {count}");
    }
}

#[test]
fn the_sample_counters_agree_with_the_sorted_percentile() {
    for n in 1..=250_u64 {
        for bound in 0..=n {
            // Samples 1..=n; their p99 by nearest rank is the ceil(0.99 n)-th.
            let p99 = (99 * n).div_ceil(100);
            let mut r = record();
            (r.itl_count, r.itl_over[0]) = (n, n - bound);
            assert_eq!(itl_p99_meets(&r, 0), Some(p99 <= bound), "n {n}, bound {bound}");
        }
    }
}

#[test]
fn every_broken_bound_is_named() {
    let bounds = Bounds {
        ttft_ns: Some(199 * MS),
        tpot_ns: Some(19 * MS),
        itl_p99_ns: None,
        stall_ns: Some(30 * MS),
        e2e_ns: Some(400 * MS),
    };
    let v = verdict(&record(), slo(bounds));
    assert_eq!(v, broke(&[Bound::Ttft, Bound::Tpot, Bound::E2e]));
}

#[test]
fn a_bound_without_a_sample_follows_the_undefined_policy() {
    let mut unary = record();
    (unary.streaming, unary.t_first, unary.t_visible, unary.t_last) = (false, None, None, None);
    let both = |undefined, e2e| Slo {
        undefined,
        ..slo(Bounds {
            ttft_ns: Some(MS),
            e2e_ns: Some(e2e),
            ..Bounds::default()
        })
    };
    assert_eq!(verdict(&unary, both(Undefined::Pass, 500 * MS)), Judgement::Good);
    assert_eq!(verdict(&unary, both(Undefined::Fail, 500 * MS)), broke(&[Bound::Ttft]));
    assert_eq!(
        verdict(&unary, both(Undefined::Exclude, 500 * MS)),
        Judgement::Excluded(Excluded::Undefined)
    );
    assert_eq!(
        verdict(&unary, both(Undefined::Exclude, MS)),
        broke(&[Bound::E2e]),
        "what is broken is bad whatever is unknown beside it"
    );
}

#[test]
fn every_outcome_counts_as_the_contract_says() {
    for outcome in Outcome::ALL {
        let mut r = record();
        r.outcome = outcome;
        let expected = match outcome {
            Outcome::Ok => Judgement::Good,
            Outcome::ClientError => Judgement::Excluded(Excluded::ClientError),
            Outcome::ClientCancelled => Judgement::Excluded(Excluded::Cancelled),
            Outcome::Rejected => Judgement::Excluded(Excluded::Rejected),
            _ => failed(&[]),
        };
        assert_eq!(verdict(&r, slo(only(Bound::E2e, 450 * MS))), expected, "{outcome:?}");
    }
}

#[test]
fn an_undefined_bound_never_excludes_a_failure() {
    let mut r = record();
    (r.outcome, r.t_first, r.t_last) = (Outcome::UpstreamReset, None, None);
    let strict = Slo {
        undefined: Undefined::Exclude,
        ..slo(only(Bound::Tpot, MS))
    };
    assert_eq!(verdict(&r, strict), failed(&[]));
}

#[test]
fn the_policies_of_client_errors_and_cancels_can_be_changed() {
    let with = |outcome, client_error, cancelled| {
        let mut r = record();
        r.outcome = outcome;
        let slo = Slo {
            client_error,
            cancelled,
            ..slo(only(Bound::E2e, 450 * MS))
        };
        verdict(&r, slo)
    };
    assert_eq!(with(Outcome::ClientError, Policy::Bad, Policy::Judge), failed(&[]));
    assert_eq!(with(Outcome::ClientCancelled, Policy::Exclude, Policy::Bad), failed(&[]));
    assert_eq!(
        with(Outcome::ClientCancelled, Policy::Exclude, Policy::Exclude),
        Judgement::Excluded(Excluded::Cancelled)
    );
}

#[test]
fn a_client_that_left_after_a_bound_was_broken_is_a_bad_request() {
    let gone = |t_first: Option<u64>, t_end: u64, bounds| {
        let mut r = record();
        r.outcome = Outcome::ClientCancelled;
        (r.t_first, r.t_visible, r.t_last) = (t_first.map(ms), None, t_first.map(ms));
        (r.stall_ns, r.itl_count, r.tokens.output) = (None, 0, u64::from(t_first.is_some()));
        r.t_end = ms(t_end);
        verdict(&r, slo(bounds))
    };
    let excluded = Judgement::Excluded(Excluded::Cancelled);
    let ttft = only(Bound::Ttft, 200 * MS);
    assert_eq!(gone(None, 200, ttft), excluded, "not yet impatience");
    assert_eq!(gone(None, 201, ttft), failed(&[Bound::Ttft]));
    assert_eq!(gone(Some(300), 301, ttft), failed(&[Bound::Ttft]), "it came, but late");
    assert_eq!(gone(Some(100), 9_000, ttft), excluded);
    let stall = only(Bound::Stall, 500 * MS);
    assert_eq!(gone(Some(100), 600, stall), excluded);
    assert_eq!(gone(Some(100), 601, stall), failed(&[Bound::Stall]), "silent for too long");
    assert_eq!(gone(None, 451, only(Bound::E2e, 450 * MS)), failed(&[Bound::E2e]));
}

#[test]
fn a_failure_that_came_late_also_broke_the_bounds_it_was_past() {
    let mut r = record();
    (r.outcome, r.t_first, r.t_last, r.stall_ns) = (Outcome::Timeout, None, None, None);
    r.t_end = ms(60_000);
    let bounds = Bounds {
        ttft_ns: Some(200 * MS),
        tpot_ns: Some(MS),
        e2e_ns: Some(100_000 * MS),
        ..Bounds::default()
    };
    assert_eq!(verdict(&r, slo(bounds)), failed(&[Bound::Ttft]));
}
