//! The `goodput` profile: a recording read by the very decoder and meter that read live traffic.

use super::recorded::Recorded;
use crate::measure::profile::{Answer, Api, CountedFrom, Figure, Gaps};
use crate::measure::{Degraded, Ending, EventFacts, GapSink, ItlBounds, Meter, Outcome, ReplyKind, Stamp, TokenSource};
use crate::wire::{Decoder, EventSink, Format, Terminal, format_for};

/// TTFT in words.
pub(super) const TTFT: &str = "first token-bearing event on any channel (content, reasoning, tool call, refusal) - request head";
/// E2E in words.
pub(super) const E2E: &str = "response body ended - request head";
/// `n` in words.
pub(super) const N: &str = "usage wherever it arrives, else token-bearing events";

/// What the proxy measures for `recorded`.
pub(super) fn answer(recorded: &Recorded) -> Answer {
    let recording = &recorded.recording;
    let content_type = recorded.content_type.as_deref().unwrap_or("text/event-stream");
    let format = format(recorded);
    let mut decoder = Decoder::new(
        Some(format),
        Some(content_type),
        recorded.content_encoding.as_deref(),
        Some(true),
    );
    let mut reader = Reader {
        meter: Meter::new(Stamp::from_nanos(0), ItlBounds::NONE),
        gaps: Vec::new(),
        degraded: None,
    };
    let begun = Stamp::from_nanos(recording.reads.first().map_or(0, |r| r.at_ns));
    let kind = match (decoder.is_reading(), decoder.is_stream(), format.terminal) {
        (false, ..) => ReplyKind::Unread,
        (true, false, _) => ReplyKind::Whole,
        (true, true, Terminal::Signal) => ReplyKind::Stream,
        (true, true, Terminal::CleanEnd) => ReplyKind::OpenEnded,
    };
    reader
        .meter
        .head(begun, recorded.status.unwrap_or(200), kind, decoder.is_stream());
    for read in &recording.reads {
        let at = Stamp::from_nanos(read.at_ns);
        reader.meter.byte(at);
        decoder.feed(at, &read.bytes, &mut reader);
    }
    let end = Stamp::from_nanos(recording.closed_ns);
    let ending = match recorded.complete {
        true => Ending::Complete,
        false if recorded.client_left => Ending::ClientGone,
        false => Ending::UpstreamReset,
    };
    if ending == Ending::Complete
        && let Some(whole) = decoder.finish(end, &mut reader)
    {
        reader.meter.whole(&whole.usage, whole.has_output, whole.error);
    }
    let Reader { meter, gaps, degraded } = reader;
    let record = meter.finish(end, ending, None);
    Answer {
        ttft_ns: record.ttft_ns(),
        e2e_ns: Some(record.e2e_ns()),
        n: Some(record.tokens.output),
        counted_from: Some(match record.tokens.source {
            TokenSource::Usage => CountedFrom::Usage,
            TokenSource::Events => CountedFrom::Events,
        }),
        per_token: vec![Figure {
            name: "TPOT",
            formula: "(last token-bearing event - first) / (n - k), k tokens in the first event",
            ns: record.decode().map(|(span, divisor)| span as f64 / divisor as f64),
        }],
        gaps: Some(Gaps {
            name: "ITL",
            formula: "gap / tokens of the later event, once per token, per choice",
            ns: gaps,
        }),
        failed: (record.outcome != Outcome::Ok).then(|| format!("outcome {}", record.outcome.name())),
        notes: degraded.map(|why| why.name()).into_iter().collect(),
        ..Answer::default()
    }
}

/// The server's own count of output tokens, when it gave one.
pub(super) fn usage(recorded: &Recorded) -> Option<u64> {
    let answer = answer(recorded);
    answer.n.filter(|_| answer.counted_from == Some(CountedFrom::Usage))
}

fn format(recorded: &Recorded) -> &'static Format {
    let by_api = match recorded.recording.api {
        Api::Chat => "/v1/chat/completions",
        Api::Completions => "/v1/completions",
    };
    let known = recorded.path.as_deref().and_then(format_for).or_else(|| format_for(by_api));
    known.unwrap_or(crate::wire::FORMATS[0])
}

struct Reader {
    meter: Meter,
    gaps: Vec<u64>,
    degraded: Option<Degraded>,
}

impl EventSink for Reader {
    fn event(&mut self, at: Stamp, facts: &EventFacts) {
        self.meter.event(at, facts, &mut Sink(&mut self.gaps));
    }

    fn model(&mut self, _name: &str) {}

    fn degraded(&mut self, why: Degraded) {
        self.degraded.get_or_insert(why);
        self.meter.unread();
    }
}

/// Spreads a gap over the tokens of its event.
struct Sink<'a>(&'a mut Vec<u64>);

/// Most ITL samples one event may add.
const MAX_TOKENS_AN_EVENT: u64 = 65_536;

impl GapSink for Sink<'_> {
    fn gap(&mut self, gap_ns: u64, tokens: u64) {
        let tokens = tokens.clamp(1, MAX_TOKENS_AN_EVENT);
        self.0.extend((0..tokens).map(|_| gap_ns / tokens));
    }

    fn tokens(&mut self, _n: u64) {}
}
