//! Reads one reply's body as it streams by: content coding, framing, format. Pure, inline, and without keeping any of it.

use super::events::Events;
use super::facts::{Reader, Tables, Visit};
use super::inflate::Inflate;
use super::scan::{Ended, Scanner};
use super::sse::{self, Sse};
use super::{EventSink, Format, WholeFacts, ndjson};
use crate::measure::{Degraded, Stamp};

/// The reader of one reply. Its size is fixed but for the window of a compressed body; it holds no content past the last few
/// bytes of a string that a read has cut, and of a stream the bytes around the last event's text.
#[derive(Debug)]
pub struct Decoder {
    inflate: Option<Inflate>,
    body: Body,
    stream: bool,
}

/// In place, not boxed: of each box that a chunk has to visit, the first look is a cache miss.
#[derive(Debug)]
enum Body {
    Sse(Sse, Events),
    Lines(Events),
    Whole(Scanner, Reader, &'static Tables),
    /// Not read.
    Opaque,
}

/// How a content type frames its body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Framing {
    Sse,
    Lines,
    Whole,
    Opaque,
}

impl Decoder {
    /// A reader for a reply with these headers (several lines of one name joined by commas). `requested` is what the request said
    /// about `stream`. Without a format nothing but [`Decoder::is_stream`] is known of the reply.
    pub fn new(
        format: Option<&'static Format>,
        content_type: Option<&str>,
        content_encoding: Option<&str>,
        requested: Option<bool>,
    ) -> Self {
        let lines = format.is_some_and(|f| f.lines);
        let framing = framing(content_type, lines, requested);
        let body = match (framing, format) {
            (Framing::Sse, Some(format)) => Body::Sse(Sse::new(), Events::new(format)),
            (Framing::Lines, Some(format)) => Body::Lines(Events::new(format)),
            (Framing::Whole, Some(format)) => Body::Whole(Scanner::new(), Reader::new(format), Tables::of(format)),
            (Framing::Opaque, _) | (_, None) => Body::Opaque,
        };
        let inflate = match body {
            Body::Opaque => None,
            Body::Sse(..) | Body::Lines(_) | Body::Whole(..) => content_encoding.and_then(Inflate::for_encoding),
        };
        Self {
            inflate,
            body,
            stream: matches!(framing, Framing::Sse | Framing::Lines),
        }
    }

    /// Whether the reply is a stream: TTFT, TPOT and ITL exist.
    pub fn is_stream(&self) -> bool {
        self.stream
    }

    /// Whether the reply's content is (still) read; else its tokens are unknown, not 0.
    pub fn is_reading(&self) -> bool {
        !matches!(self.body, Body::Opaque) && self.inflate.as_ref().is_none_or(Inflate::is_readable)
    }

    /// One read's worth of body, taken from the upstream at `at`.
    pub fn feed<S: EventSink>(&mut self, at: Stamp, bytes: &[u8], sink: &mut S) {
        let body = &mut self.body;
        match &mut self.inflate {
            None => body.feed(at, bytes, sink),
            Some(inflate) => {
                if let Err(why) = inflate.feed(bytes, |plain| body.feed(at, plain, sink)) {
                    sink.degraded(why);
                }
            }
        }
    }

    /// The body ended cleanly at `at`. For a whole reply, what it said; none when it was a stream or could not be read.
    pub fn finish<S: EventSink>(&mut self, at: Stamp, sink: &mut S) -> Option<WholeFacts> {
        if !self.is_reading() {
            return None;
        }
        match &mut self.body {
            // An event without its blank line is not dispatched.
            Body::Sse(..) | Body::Opaque => None,
            Body::Lines(events) => {
                events.end(at, false, sink);
                None
            }
            Body::Whole(scanner, reader, tables) => match scanner.finish(&tables.whole, &mut Visit::new(reader, sink)) {
                Ended::Value => Some(reader.whole()),
                Ended::Blank => None,
                Ended::Broken => {
                    sink.degraded(Degraded::Malformed);
                    None
                }
            },
        }
    }
}

impl Body {
    fn feed<S: EventSink>(&mut self, at: Stamp, bytes: &[u8], sink: &mut S) {
        match self {
            Self::Sse(framing, events) => framing.feed(bytes, &mut Stamped { events, at, sink }),
            Self::Lines(events) => ndjson::feed(bytes, &mut Stamped { events, at, sink }),
            Self::Whole(scanner, reader, tables) => scanner.feed(&tables.whole, bytes, &mut Visit::new(reader, sink)),
            Self::Opaque => {}
        }
    }
}

/// The events of one read: they share its time.
struct Stamped<'a, S> {
    events: &'a mut Events,
    at: Stamp,
    sink: &'a mut S,
}

impl<S: EventSink> sse::Handler for Stamped<'_, S> {
    #[inline]
    fn known(&mut self, bytes: &[u8]) -> Option<usize> {
        self.events.known(bytes)
    }

    #[inline]
    fn again(&mut self) {
        self.events.again(self.at, self.sink);
    }

    #[inline]
    fn data(&mut self, bytes: &[u8]) {
        self.events.data(bytes, self.sink);
    }

    fn end(&mut self, name: sse::Name) {
        self.events.end(self.at, name == sse::Name::Error, self.sink);
    }

    fn oversize(&mut self) {
        self.sink.degraded(Degraded::Oversize);
    }
}

impl<S: EventSink> ndjson::Handler for Stamped<'_, S> {
    #[inline]
    fn data(&mut self, bytes: &[u8]) {
        self.events.data(bytes, self.sink);
    }

    fn end(&mut self) {
        self.events.end(self.at, false, self.sink);
    }
}

/// Media types are compared without case and parameters. `lines` says that the format's streams are lines of JSON and that it
/// streams unless asked not to.
fn framing(content_type: Option<&str>, lines: bool, requested: Option<bool>) -> Framing {
    let streams = requested.unwrap_or(lines);
    let json = if lines && streams { Framing::Lines } else { Framing::Whole };
    let Some(content_type) = content_type else {
        return if streams && !lines { Framing::Sse } else { json };
    };
    let media_type = content_type.split(';').next().unwrap_or_default().trim();
    let is = |names: &[&str]| names.iter().any(|n| media_type == *n || media_type.eq_ignore_ascii_case(n));
    if is(&["text/event-stream"]) {
        Framing::Sse
    } else if is(&[
        "application/x-ndjson",
        "application/ndjson",
        "application/jsonl",
        "application/x-jsonlines",
    ]) {
        Framing::Lines
    } else if is(&["application/json"]) {
        json
    } else if media_type.len() > 5 && media_type.to_ascii_lowercase().ends_with("+json") {
        Framing::Whole
    } else {
        Framing::Opaque
    }
}

#[cfg(test)]
mod tests;
