//! Reads one reply's body as it streams by: content coding, framing, format.

use super::{EventSink, Format, WholeFacts};
use crate::measure::Stamp;

/// The reader of one reply. Fixed size but for the window of a compressed stream; keeps no content.
#[derive(Debug)]
pub struct Decoder {
    stream: bool,
}

impl Decoder {
    /// A reader for a reply with these headers. `requested` is what the request said about `stream`; without a format nothing but
    /// [`Decoder::is_stream`] is known of the reply.
    pub fn new(
        format: Option<&'static Format>,
        content_type: Option<&str>,
        content_encoding: Option<&str>,
        requested: Option<bool>,
    ) -> Self {
        let _ = (format, content_encoding, requested);
        Self {
            stream: content_type.is_some_and(|t| t.starts_with("text/event-stream")),
        }
    }

    /// Whether the reply is a stream: TTFT, TPOT and ITL exist.
    pub fn is_stream(&self) -> bool {
        self.stream
    }

    /// Whether the reply's content is read at all; else its tokens are unknown, not 0.
    pub fn is_reading(&self) -> bool {
        false
    }

    /// One read's worth of body, taken from the upstream at `at`.
    pub fn feed<S: EventSink>(&mut self, at: Stamp, bytes: &[u8], sink: &mut S) {
        let _ = (at, bytes, sink);
    }

    /// The body ended cleanly at `at`. For a whole reply, what it said; none when it was a stream or could not be read.
    pub fn finish<S: EventSink>(&mut self, at: Stamp, sink: &mut S) -> Option<WholeFacts> {
        let _ = (at, sink);
        None
    }
}
