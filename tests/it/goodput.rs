//! Goodput end to end: scripted requests in, exact verdicts, counters and windows out, on both ways.

mod bounds;
mod selection;
mod verdicts;
mod windows;

use goodput_proxy::aggregate::{SeriesSnapshot, SloSnapshot};
use goodput_proxy::observe::Summary;

use super::measured::{pass, scraped, sse, value};
use super::rig::{DONE, Rig, Step, Way, chunk, content, finish, usage, wait};

/// A configuration whose chat route has these SLOs (YAML flow, one each).
fn with(slos: &[&str]) -> String {
    format!("routes: [{{name: chat, slos: [{}]}}]", slos.join(", "))
}

/// A stream whose tokens come at these times (ms), all finished at the last; its usage says `completion` tokens.
fn tokens(at: &[u64], completion: u64) -> Vec<Step> {
    let mut steps = Vec::new();
    let mut before = 0;
    for at in at {
        steps.extend([wait(at - before), chunk(content("x"))]);
        before = *at;
    }
    steps.extend([chunk(finish()), chunk(usage(10, completion)), chunk(DONE)]);
    sse(steps)
}

/// What `slo` counted over all series of the chat route.
fn slo(rig: &Rig, name: &str) -> SloSnapshot {
    let all = chat_series(rig);
    let mut counted = all.iter().filter_map(|s| s.slos.iter().find(|slo| &*slo.slo == name));
    let mut sum = counted.next().expect("a configured SLO").clone();
    for other in counted {
        sum.evaluated += other.evaluated;
        sum.good += other.good;
        sum.bad += other.bad;
        for (sum, other) in [
            (&mut sum.violations, &other.violations),
            (&mut sum.sole_violations, &other.sole_violations),
        ] {
            sum.iter_mut().zip(other).for_each(|((_, n), (_, more))| *n += more);
        }
        sum.excluded
            .iter_mut()
            .zip(&other.excluded)
            .for_each(|((_, n), (_, more))| *n += more);
    }
    sum
}

fn chat_series(rig: &Rig) -> Vec<SeriesSnapshot> {
    rig.snapshot().series.into_iter().filter(|s| &*s.route == "chat").collect()
}

/// Non-zero counts by name.
fn counts<T: Copy>(all: &[(T, u64)], name: impl Fn(T) -> &'static str) -> Vec<(&'static str, u64)> {
    all.iter()
        .filter(|(_, n)| *n > 0)
        .map(|(what, n)| (name(*what), *n))
        .collect()
}

/// SLO, verdict and broken bounds of a record.
fn verdict(record: &Summary) -> (Option<&str>, Option<&str>, &[&str]) {
    (record.slo.as_deref(), record.verdict, &record.broken)
}

/// The record of one request over `script` under `config`.
async fn one(way: Way, config: &str, request: &str, script: Vec<Step>) -> Summary {
    let rig = Rig::configured(way, config, vec![script]);
    rig.client().call(request).await;
    rig.record()
}

/// `request` with one more header line.
fn with_header(request: &str, line: &str) -> String {
    request.replacen("\r\n", &format!("\r\n{line}\r\n"), 1)
}
