//! What the proxy measures, end to end: scripted replies in, exact records, series and scrapes out, on both ways.

mod cardinality;
mod choices;
mod clock;
mod exposition;
mod gauges;
mod histograms;
mod itl_tpot;
mod outcome;
mod protocols;
mod scrape_size;
mod ttft;
mod usage;

use std::time::Duration;

use goodput_proxy::aggregate::{Measure, SeriesSnapshot};
use goodput_proxy::observe::Summary;

use super::exposition::parser::{Parsed, lint, parse};
use super::rig::{Rig, Step, Way, chat, chunk, last_chunk, post, sse_head};

/// Milliseconds as nanoseconds.
pub(crate) const MS: u64 = 1_000_000;

/// A chat event with this `delta` of choice 0, as one HTTP chunk.
fn delta(delta: &str) -> Step {
    chunk(format!(
        "data: {{\"choices\":[{{\"index\":0,\"delta\":{delta},\"finish_reason\":null}}]}}\n\n"
    ))
}

/// An SSE event with this JSON, as one HTTP chunk.
fn event(json: &str) -> Step {
    chunk(format!("data: {json}\n\n"))
}

/// A whole SSE reply: the head at once, these steps, the end.
pub(crate) fn sse(steps: impl IntoIterator<Item = Step>) -> Vec<Step> {
    let mut script = vec![sse_head()];
    script.extend(steps);
    script.push(last_chunk());
    script
}

/// The rig after one streaming chat request over these steps.
async fn stream(way: Way, steps: impl IntoIterator<Item = Step>) -> Rig {
    stream_of(way, chat(), steps).await
}

/// The rig after `request` was answered by an SSE stream of these steps.
async fn stream_of(way: Way, request: impl AsRef<[u8]>, steps: impl IntoIterator<Item = Step>) -> Rig {
    let rig = Rig::new(way, vec![sse(steps)]);
    let reply = rig.client().call(request).await;
    assert!(reply.complete);
    rig
}

/// A streaming request to `path`.
fn ask(path: &str) -> String {
    post(path, r#"{"model":"m","stream":true}"#)
}

/// Lets `ms` pass. On the paused clock this waits for nothing: time jumps there once everything that can run has run.
pub(crate) async fn pass(ms: u64) {
    tokio::time::sleep(Duration::from_millis(ms)).await;
}

/// The samples of `measure` as (sum in ms, count).
fn samples(series: &SeriesSnapshot, measure: Measure) -> (f64, u64) {
    let histogram = &series.histograms[measure.index()];
    (histogram.sum as f64 / MS as f64, histogram.count)
}

/// TTFT, visible TTFT, TPOT, stall, E2E.
fn times(record: &Summary) -> (Option<f64>, Option<f64>, Option<f64>, Option<f64>, f64) {
    (
        record.ttft_ms,
        record.visible_ttft_ms,
        record.tpot_ms,
        record.stall_ms,
        record.e2e_ms,
    )
}

/// Output tokens and where they came from.
fn tokens(record: &Summary) -> (Option<u64>, Option<&'static str>) {
    (record.output_tokens, record.token_source)
}

/// A scrape, read strictly and linted.
pub(crate) async fn scraped(rig: &Rig) -> Vec<Parsed> {
    let families = parse(&rig.metrics().await);
    lint(&families);
    families
}

/// The value of the one sample `name` that has these labels, among others; none when there is none.
pub(crate) fn value(families: &[Parsed], name: &str, labels: &[(&str, &str)]) -> Option<f64> {
    let lines = families.iter().flat_map(|family| &family.samples);
    let mut found = lines.filter(|line| line.name == name && labels.iter().all(|(key, value)| line.label(key) == *value));
    let value = found.next()?.value;
    assert_eq!(found.next(), None, "{name} {labels:?} is not one sample");
    Some(value)
}
