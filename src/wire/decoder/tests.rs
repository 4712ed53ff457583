//! What the decoder makes of streams and replies that have gone wrong elsewhere.

mod chat;
mod formats;
mod framing;

use super::*;
use crate::measure::{Channel, EventFacts, Usage};
use crate::wire::FORMATS;

#[derive(Debug, Default)]
struct Seen {
    events: Vec<(u64, EventFacts)>,
    models: Vec<String>,
    degraded: Vec<Degraded>,
}

impl EventSink for Seen {
    fn event(&mut self, at: Stamp, facts: &EventFacts) {
        self.events.push((at.as_nanos(), *facts));
    }

    fn model(&mut self, name: &str) {
        self.models.push(name.to_owned());
    }

    fn degraded(&mut self, why: Degraded) {
        self.degraded.push(why);
    }
}

impl Seen {
    /// Times of the token-bearing events, with choice and channel.
    fn tokens(&self) -> Vec<(u64, u32, Channel)> {
        let fragments =
            |(at, facts): &(u64, EventFacts)| facts.fragments().map(|f| (*at, f.choice, f.channel)).collect::<Vec<_>>();
        self.events.iter().flat_map(fragments).collect()
    }

    fn usages(&self) -> Vec<Usage> {
        self.events.iter().filter_map(|(_, f)| f.usage).collect()
    }

    fn has_error(&self) -> bool {
        self.events.iter().any(|(_, f)| f.error)
    }

    fn has_terminal(&self) -> bool {
        self.events.iter().any(|(_, f)| f.terminal)
    }

    fn finished(&self) -> Vec<u32> {
        self.events.iter().flat_map(|(_, f)| f.finished().to_vec()).collect()
    }
}

fn format(name: &str) -> &'static Format {
    FORMATS.iter().find(|f| f.name == name).expect("a format of that name")
}

/// What an SSE stream of `format` says when each piece is a read, at 1, 2, 3, …
fn sse(name: &str, reads: &[&str]) -> Seen {
    let mut decoder = Decoder::new(Some(format(name)), Some("text/event-stream"), None, Some(true));
    let mut seen = Seen::default();
    for (at, read) in (1..).zip(reads) {
        decoder.feed(Stamp::from_nanos(at), read.as_bytes(), &mut seen);
    }
    assert_eq!(decoder.finish(Stamp::from_nanos(99), &mut seen), None);
    seen
}

/// A stream of chat chunks, each event its own read.
fn chat(events: &[&str]) -> Seen {
    let reads: Vec<String> = events.iter().map(|e| format!("data: {e}\n\n")).collect();
    sse("openai_chat", &reads.iter().map(String::as_str).collect::<Vec<_>>())
}

fn whole(name: &str, content_type: &str, body: &str) -> (Option<WholeFacts>, Seen) {
    let mut decoder = Decoder::new(Some(format(name)), Some(content_type), None, Some(false));
    let mut seen = Seen::default();
    decoder.feed(Stamp::from_nanos(1), body.as_bytes(), &mut seen);
    (decoder.finish(Stamp::from_nanos(2), &mut seen), seen)
}

const TEXT: Channel = Channel::Text;

#[test]
fn a_reader_is_small() {
    // glibc serves up to 1,032 bytes from a list of the thread's own, more at ten times the cost: a whole reply's is made and freed
    // at once. A stream's is held as long as the stream.
    let (whole, stream) = (size_of::<(Scanner, Reader, &Tables)>(), size_of::<(Sse, Events)>());
    println!("whole: {whole}, stream: {stream}");
    assert!(whole <= 1032 && stream <= 1280, "{whole}, {stream} bytes");
}
