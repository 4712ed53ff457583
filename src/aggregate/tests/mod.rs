//! The aggregates as a whole: what a request leaves behind, and what a scrape sees of it.

mod counts;
mod labels;
mod reconfigure;
mod windows;

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
                reads: true,
                slos: vec![slo("fast", bounds)],
            },
            RouteSetup {
                name: "other".into(),
                apis: vec!["other"],
                has_models: false,
                reads: false,
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
        tokens_shown: 0,
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
