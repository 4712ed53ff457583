//! Judging: which SLO a request falls under, and whether it met it.
//!
//! The first SLO of the route that matches decides. A finished request is judged by its record alone ([`judge`]); one under way is
//! looked at through the few facts known so far ([`overdue`]).

use super::glob::glob;
use super::{
    Bound, BoundSet, Bounds, Excluded, HeaderBounds, ItlBounds, Judgement, Outcome, Policy, Record, Slo, Stamp, Undefined,
    Verdict,
};

/// What the request itself said that an SLO may ask about; resolved once, when its head was read.
#[derive(Clone, Copy, Debug, Default)]
pub struct Asked<'a> {
    /// The model as the client wrote it.
    pub model: Option<&'a str>,
    /// The configured tenant header's value.
    pub tenant: Option<&'a str>,
    /// For each SLO of the route, whether its header condition holds. May be short: a missing entry does not hold.
    pub headers: &'a [bool],
    /// Bounds the request brought along.
    pub bounds: AskedBounds,
}

/// The bounds a request asked for in headers, nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AskedBounds {
    /// TTFT.
    pub ttft_ns: Option<u64>,
    /// TPOT.
    pub tpot_ns: Option<u64>,
}

/// What is known of a request under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Live {
    /// Request head parsed.
    pub t0: Stamp,
    /// First token-bearing event.
    pub t_first: Option<Stamp>,
    /// Last token-bearing event so far.
    pub t_last: Option<Stamp>,
    /// The largest gap so far.
    pub stall_ns: Option<u64>,
    /// Whether the reply is a stream or, before its head, whether one was asked for.
    pub streaming: bool,
    /// Output tokens counted so far.
    pub output_tokens: u64,
}

/// A request under way that can no longer be good.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Overdue {
    /// The SLO it counts under: the first that can still match.
    pub slo: usize,
    /// That SLO's bounds which it is past.
    pub broken: BoundSet,
}

/// The verdict of the first SLO that matches; none when no SLO is meant for the request.
///
/// * A bound is met when its measure is `<=` the limit; TPOT is compared without rounding.
/// * A broken bound makes a request bad whatever is undefined beside it; `undefined: exclude` applies when nothing is broken.
/// * Of a request that did not end `ok`, also what was overdue at its end counts as broken: a client that left before the first
///   token, later than the TTFT bound, has seen that bound broken.
pub fn judge(record: &Record, asked: &Asked<'_>, slos: &[Slo], itl: &ItlBounds) -> Option<Verdict> {
    let slo = slos.iter().enumerate().position(|(i, slo)| {
        fits(slo, i, asked, record.streaming)
            && within(slo.when.prompt_tokens.as_ref(), record.tokens.prompt)
            && within(slo.when.output_tokens.as_ref(), output_tokens(record))
    })?;
    Some(Verdict {
        slo,
        judgement: judge_by(&slos[slo], record, asked, itl),
    })
}

/// Whether a request under way can no longer be good, and under which SLO that counts.
///
/// SLOs that can still match are looked at in order, up to the first that is certain to: token counts are not final, so a
/// condition on prompt tokens stays open, and one on output tokens until they exceed its range. Only when the request is past a
/// bound of every one of them is it overdue. TPOT and ITL percentiles are known at the end only and never make a request overdue.
pub fn overdue(now: Stamp, live: &Live, asked: &Asked<'_>, slos: &[Slo]) -> Option<Overdue> {
    let mut first = None;
    for (i, slo) in slos.iter().enumerate() {
        if !fits(slo, i, asked, live.streaming) {
            continue;
        }
        let output = slo.when.output_tokens.as_ref();
        if output.is_some_and(|range| live.output_tokens > *range.end()) {
            continue;
        }
        let broken = past(now, live, &effective(slo, &asked.bounds));
        if broken.is_empty() {
            return None;
        }
        first = first.or(Some(Overdue { slo: i, broken }));
        if output.is_none() && slo.when.prompt_tokens.is_none() {
            break;
        }
    }
    first
}

/// The bounds in force for one request: the SLO's own, replaced by the request's where the SLO allows that, within its range.
pub fn effective(slo: &Slo, asked: &AskedBounds) -> Bounds {
    let Some(HeaderBounds { min_ns, max_ns }) = slo.header_bounds else {
        return slo.bounds;
    };
    // Not `clamp`, which panics on an empty range.
    let limited = |ns: u64| ns.max(min_ns).min(max_ns);
    Bounds {
        ttft_ns: asked.ttft_ns.map(limited).or(slo.bounds.ttft_ns),
        tpot_ns: asked.tpot_ns.map(limited).or(slo.bounds.tpot_ns),
        ..slo.bounds
    }
}

/// Whether the conditions that are known from the start hold.
fn fits(slo: &Slo, index: usize, asked: &Asked<'_>, streaming: bool) -> bool {
    let when = &slo.when;
    let model = when
        .model
        .as_ref()
        .is_none_or(|pattern| asked.model.is_some_and(|name| glob(pattern, name)));
    let tenant = when
        .tenant
        .as_ref()
        .is_none_or(|tenant| asked.tenant == Some(tenant.as_str()));
    let header = when.header.is_none() || asked.headers.get(index).copied().unwrap_or(false);
    let stream = when.streaming.is_none_or(|wanted| wanted == streaming);
    model && tenant && header && stream
}

fn within(range: Option<&std::ops::RangeInclusive<u64>>, count: Option<u64>) -> bool {
    range.is_none_or(|range| count.is_some_and(|n| range.contains(&n)))
}

/// Output tokens as a condition sees them. A failure that carried none has 0, so that errors do not slip past every SLO with
/// such a condition; a good reply that was not read is unknown.
fn output_tokens(record: &Record) -> Option<u64> {
    if record.read {
        Some(record.tokens.output)
    } else {
        (record.outcome != Outcome::Ok).then_some(0)
    }
}

fn judge_by(slo: &Slo, record: &Record, asked: &Asked<'_>, itl: &ItlBounds) -> Judgement {
    let bounds = effective(slo, &asked.bounds);
    let mut broken = BoundSet::EMPTY;
    let mut undefined = BoundSet::EMPTY;
    for bound in Bound::ALL {
        let Some(limit) = bounds.get(bound) else { continue };
        match meets(record, bound, limit, itl) {
            Some(true) => {}
            Some(false) => broken.insert(bound),
            None => undefined.insert(bound),
        }
    }
    // What was overdue at the end counts only for requests that did not end well: of those that did, every measure is known.
    let broken_by_end = broken.union(past(record.t_end, &so_far(record), &bounds));
    let bad = Judgement::Bad {
        broken: broken_by_end,
        outcome_bad: true,
    };
    let by_policy = |policy, reason| match policy {
        Policy::Bad => bad,
        Policy::Judge if !broken_by_end.is_empty() => bad,
        Policy::Judge | Policy::Exclude => Judgement::Excluded(reason),
    };
    match record.outcome {
        Outcome::Ok => judge_ok(slo, broken, undefined),
        Outcome::Rejected => Judgement::Excluded(Excluded::Rejected),
        Outcome::ClientError => by_policy(slo.client_error, Excluded::ClientError),
        Outcome::ClientCancelled => by_policy(slo.cancelled, Excluded::Cancelled),
        Outcome::Empty
        | Outcome::Overloaded
        | Outcome::UpstreamError
        | Outcome::StreamError
        | Outcome::Unterminated
        | Outcome::UpstreamReset
        | Outcome::UpstreamUnreachable
        | Outcome::Timeout
        | Outcome::Drained => bad,
    }
}

fn judge_ok(slo: &Slo, mut broken: BoundSet, undefined: BoundSet) -> Judgement {
    if !undefined.is_empty() {
        match slo.undefined {
            Undefined::Pass => {}
            Undefined::Fail => broken = broken.union(undefined),
            Undefined::Exclude if broken.is_empty() => return Judgement::Excluded(Excluded::Undefined),
            Undefined::Exclude => {}
        }
    }
    if broken.is_empty() {
        Judgement::Good
    } else {
        Judgement::Bad {
            broken,
            outcome_bad: false,
        }
    }
}

/// Whether a finished request met one bound; none when its measure has no sample.
fn meets(record: &Record, bound: Bound, limit: u64, itl: &ItlBounds) -> Option<bool> {
    match bound {
        Bound::Ttft => record.ttft_ns().map(|ns| ns <= limit),
        // Without dividing: rounding would let a TPOT just above the bound pass.
        Bound::Tpot => record
            .decode()
            .map(|(span, divisor)| u128::from(span) <= u128::from(limit) * u128::from(divisor)),
        Bound::ItlP99 => itl_p99_meets(record, itl.position(limit)?),
        Bound::Stall => record.stall_ns.map(|ns| ns <= limit),
        Bound::E2e => Some(record.e2e_ns() <= limit),
    }
}

/// The nearest-rank p99 of `count` samples is within a bound exactly when at most `count - ceil(0.99 * count)` lie above it.
fn itl_p99_meets(record: &Record, watched: usize) -> Option<bool> {
    let count = record.itl_count;
    let rank = u64::try_from((u128::from(count) * 99).div_ceil(100)).unwrap_or(count);
    (count > 0).then(|| record.itl_over[watched] <= count - rank)
}

/// The bounds that an unfinished request is past: no token yet, or the first came late; silent too long, or was once; under way
/// too long.
fn past(now: Stamp, live: &Live, bounds: &Bounds) -> BoundSet {
    let exceeds = |limit: Option<u64>, ns: u64| limit.is_some_and(|limit| ns > limit);
    let mut broken = BoundSet::EMPTY;
    if live.streaming && exceeds(bounds.ttft_ns, live.t_first.unwrap_or(now).since(live.t0)) {
        broken.insert(Bound::Ttft);
    }
    let silent = live.t_last.map_or(0, |last| now.since(last));
    if live.streaming && exceeds(bounds.stall_ns, silent.max(live.stall_ns.unwrap_or(0))) {
        broken.insert(Bound::Stall);
    }
    if exceeds(bounds.e2e_ns, now.since(live.t0)) {
        broken.insert(Bound::E2e);
    }
    broken
}

fn so_far(record: &Record) -> Live {
    Live {
        t0: record.t0,
        t_first: record.t_first,
        t_last: record.t_last,
        stall_ns: record.stall_ns,
        streaming: record.streaming,
        output_tokens: record.tokens.output,
    }
}

#[cfg(test)]
mod tests;
