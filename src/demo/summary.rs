//! PURE: what a demo run came to, from the proxy's own aggregates and records. Nothing here was measured by the generator, except
//! the line that says so.

use std::fmt::Write as _;
use std::time::Duration;

use super::traffic::Tally;
use crate::aggregate::{HistogramSnapshot, Measure, Snapshot};
use crate::measure::{Bound, Bounds, Outcome};
use crate::report::{Align, Table};

/// TPOT bounds of the last table, ms.
const TIGHTER_MS: [u64; 6] = [30, 25, 20, 15, 10, 8];

/// One judged or unjudged request of the proxy's records.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Finished {
    /// Time per output token, ms.
    pub(super) tpot_ms: Option<f64>,
    /// Whether an SLO evaluated it.
    pub(super) evaluated: bool,
    /// Whether its outcome was `ok`.
    pub(super) ok: bool,
    /// The bounds it broke.
    pub(super) broken: Vec<&'static str>,
}

/// Everything the summary is made of.
#[derive(Debug)]
pub(super) struct Facts<'a> {
    /// The proxy's aggregates at the end.
    pub(super) snapshot: &'a Snapshot,
    /// The proxy's records.
    pub(super) finished: &'a [Finished],
    /// The bounds requests were judged by.
    pub(super) bounds: Bounds,
    /// How long it ran.
    pub(super) took: Duration,
    /// What the clients saw.
    pub(super) tally: Tally,
    /// Requests the engine received.
    pub(super) received: u64,
}

/// The SLO counters of all series together.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Judged {
    /// Evaluated requests.
    pub(super) evaluated: u64,
    /// Good ones.
    pub(super) good: u64,
    /// Not evaluated.
    pub(super) excluded: u64,
    /// Per bound: broken, and broken alone.
    pub(super) broken: Vec<(Bound, u64, u64)>,
}

impl Judged {
    /// Adds up `snapshot`.
    pub(super) fn of(snapshot: &Snapshot) -> Self {
        let slos = || snapshot.series.iter().flat_map(|s| &s.slos);
        let sum = |of: fn(&crate::aggregate::SloSnapshot) -> u64| slos().map(of).sum();
        let by_bound = |bound, list: fn(&crate::aggregate::SloSnapshot) -> &[(Bound, u64)]| -> Option<u64> {
            let counts = slos().flat_map(list).filter(|(b, _)| *b == bound).map(|(_, n)| *n);
            counts.fold(None, |sum, n| Some(sum.unwrap_or(0) + n))
        };
        let broken = |bound| {
            let all = by_bound(bound, |s| &s.violations)?;
            Some((bound, all, by_bound(bound, |s| &s.sole_violations).unwrap_or(0)))
        };
        Self {
            evaluated: sum(|s| s.evaluated),
            good: sum(|s| s.good),
            excluded: sum(|s| s.excluded.iter().map(|(_, n)| n).sum()),
            broken: Bound::ALL.into_iter().filter_map(broken).collect(),
        }
    }

    /// good / evaluated.
    pub(super) fn ratio(&self) -> Option<f64> {
        (self.evaluated > 0).then(|| self.good as f64 / self.evaluated as f64)
    }
}

/// Finished requests by outcome, only those that occurred.
pub(super) fn outcomes(snapshot: &Snapshot) -> Vec<(Outcome, u64)> {
    let requests = || snapshot.series.iter().flat_map(|s| &s.requests);
    let count = |outcome| {
        requests()
            .filter(|(labels, _)| labels.outcome == outcome)
            .map(|(_, n)| *n)
            .sum::<u64>()
    };
    Outcome::ALL
        .into_iter()
        .map(|o| (o, count(o)))
        .filter(|(_, n)| *n > 0)
        .collect()
}

/// The goodput ratio had the TPOT bound been `tpot_ms`, everything else as it was; none without evaluated requests.
pub(super) fn ratio_with_tpot(finished: &[Finished], tpot_ms: f64) -> Option<f64> {
    let evaluated = finished.iter().filter(|f| f.evaluated);
    let good = |f: &&Finished| {
        let others = f.broken.iter().all(|b| *b == Bound::Tpot.name());
        f.ok && others && f.tpot_ms.is_none_or(|ms| ms <= tpot_ms)
    };
    let all = evaluated.clone().count();
    (all > 0).then(|| evaluated.filter(good).count() as f64 / all as f64)
}

/// The value at `q` by nearest rank of the histograms of `measure` over all series, within 1.1 %: the middle of its native bucket.
/// Seconds.
pub(super) fn quantile(snapshot: &Snapshot, measure: Measure, q: f64) -> Option<f64> {
    let all = || snapshot.series.iter().filter_map(|s| s.histograms.get(measure.index()));
    let count: u64 = all().map(|h| h.count).sum();
    let rank = ((q * count as f64).ceil() as u64).clamp(1, count.max(1));
    let mut buckets = std::collections::BTreeMap::new();
    for (index, n) in all().flat_map(|h| &h.native) {
        *buckets.entry(*index).or_insert(0) += n;
    }
    let mut seen: u64 = all().map(|h| h.zero).sum();
    if count == 0 {
        return None;
    }
    if seen >= rank {
        return Some(0.0);
    }
    let per_octave = f64::from(1 << HistogramSnapshot::SCHEMA);
    buckets.into_iter().find_map(|(index, n)| {
        seen += n;
        (seen >= rank).then(|| ((f64::from(index) - 0.5) / per_octave).exp2())
    })
}

/// The summary, for people.
pub(super) fn render(facts: &Facts<'_>) -> String {
    let judged = Judged::of(facts.snapshot);
    let outcomes = outcomes(facts.snapshot);
    let mut out = String::new();
    headline(&mut out, facts, &outcomes);
    out.push('\n');
    out.push_str(&latencies(facts.snapshot).text());
    out.push('\n');
    goodput(&mut out, facts, &judged);
    let list: Vec<String> = outcomes.iter().map(|(o, n)| format!("{} {n}", o.name())).collect();
    let _ = writeln!(out, "outcomes    {}", list.join(", "));
    tighter(&mut out, facts);
    cross_check(&mut out, facts, &outcomes);
    let _ = writeln!(out, "\n{}", hint(&judged));
    out
}

fn headline(out: &mut String, facts: &Facts<'_>, outcomes: &[(Outcome, u64)]) {
    let requests: u64 = outcomes.iter().map(|(_, n)| n).sum();
    let seconds = facts.took.as_secs_f64();
    let tokens: u64 = facts.snapshot.series.iter().flat_map(|s| s.output_tokens).sum();
    let _ = writeln!(
        out,
        "{seconds:.1} s, {requests} requests ({:.1}/s), {tokens} output tokens ({:.0}/s)",
        requests as f64 / seconds,
        tokens as f64 / seconds
    );
}

fn latencies(snapshot: &Snapshot) -> Table {
    let columns = ["", "mean", "P50", "P90", "P99", "samples"].map(|name| (name, Align::Right));
    let mut table = Table::new(&columns);
    for (name, measure) in [
        ("TTFT", Measure::Ttft),
        ("TPOT", Measure::Tpot),
        ("ITL", Measure::Itl),
        ("E2E", Measure::E2e),
    ] {
        let all = || snapshot.series.iter().filter_map(|s| s.histograms.get(measure.index()));
        let (sum, count) = all().fold((0, 0), |(sum, count), h| (sum + h.sum, count + h.count));
        let mean = (count > 0).then(|| sum as f64 / count as f64 / 1e9);
        let at = |q| quantile(snapshot, measure, q);
        let times = [mean, at(0.5), at(0.9), at(0.99)].map(milliseconds);
        table.row([name.to_owned()].into_iter().chain(times).chain([count.to_string()]));
    }
    table
}

fn milliseconds(seconds: Option<f64>) -> String {
    match seconds.map(|s| s * 1e3) {
        None => "-".to_owned(),
        Some(ms) if ms >= 100.0 => format!("{ms:.0} ms"),
        Some(ms) => format!("{ms:.1} ms"),
    }
}

fn goodput(out: &mut String, facts: &Facts<'_>, judged: &Judged) {
    let bounds = Bound::ALL.into_iter().filter_map(|b| Some((b, facts.bounds.get(b)?)));
    let bounds: Vec<String> = bounds
        .map(|(b, ns)| format!("{} <= {} ms", b.name(), ns as f64 / 1e6))
        .collect();
    let _ = writeln!(out, "SLO         {}", bounds.join(", "));
    let ratio = percent(judged.ratio());
    let rate = judged.good as f64 / facts.took.as_secs_f64();
    let (good, evaluated, excluded) = (judged.good, judged.evaluated, judged.excluded);
    let _ = writeln!(
        out,
        "goodput     {ratio}: {good} of {evaluated} judged, {rate:.1} good requests/s; {excluded} not judged"
    );
    let broken: Vec<String> = judged
        .broken
        .iter()
        .map(|(b, n, alone)| format!("{} {n} ({alone} alone)", b.name()))
        .collect();
    let _ = writeln!(out, "broken by   {}", broken.join(", "));
}

fn tighter(out: &mut String, facts: &Facts<'_>) {
    let mut columns = vec![("had TPOT been <=", Align::Left)];
    columns.extend(["30 ms", "25 ms", "20 ms", "15 ms", "10 ms", "8 ms"].map(|name| (name, Align::Right)));
    let mut table = Table::new(&columns);
    let ratios = TIGHTER_MS.map(|ms| percent(ratio_with_tpot(facts.finished, ms as f64)));
    table.row(["goodput".to_owned()].into_iter().chain(ratios));
    let _ = write!(out, "\n{}", table.text());
}

fn percent(ratio: Option<f64>) -> String {
    ratio.map_or_else(|| "-".to_owned(), |r| format!("{:.1} %", r * 100.0))
}

fn cross_check(out: &mut String, facts: &Facts<'_>, outcomes: &[(Outcome, u64)]) {
    let tally = &facts.tally;
    let proxy: u64 = outcomes.iter().map(|(_, n)| n).sum();
    let first = tally.mean_first().map(|d| d.as_secs_f64());
    let _ = write!(
        out,
        "\ncross-check clients sent {} ({} complete, {} refused, {} broken, {} left), the proxy recorded {proxy}, the engine received \
         {}; clients' mean time to first bytes {}",
        tally.sent,
        tally.complete,
        tally.refused,
        tally.broken,
        tally.left,
        facts.received,
        milliseconds(first)
    );
    if tally.skipped > 0 {
        let _ = write!(out, "; {} not sent, since too many were under way", tally.skipped);
    }
    out.push('\n');
}

/// What to try next, by what broke most.
fn hint(judged: &Judged) -> String {
    let worst = judged
        .broken
        .iter()
        .max_by_key(|(_, n, _)| *n)
        .filter(|(_, n, _)| *n * 20 > judged.evaluated);
    let try_next = match worst.map(|(bound, ..)| *bound) {
        None => {
            "--rate 40 (queues build up), or --spike 0.01 --slo \"ttft=500ms,tpot=30ms,stall=50ms\" (one token in a hundred is slow)"
        }
        Some(Bound::Ttft) => "a lower --rate: first tokens wait for other prompts",
        Some(Bound::Tpot) => "a lower --rate: each token waits for the whole batch",
        Some(Bound::ItlP99 | Bound::Stall) => "the same without that bound: TPOT, an average, hides slow tokens",
        Some(Bound::E2e) => "an E2E bound for short outputs only: E2E grows with the length of the output",
    };
    format!("Next: {try_next}.\nYour own server: goodput-proxy --upstream http://127.0.0.1:8000 --slo \"ttft=500ms,tpot=30ms\"")
}

#[cfg(test)]
mod tests;
