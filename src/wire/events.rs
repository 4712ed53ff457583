//! One JSON event after another, from pieces: the scanner, the format's reader and the `[DONE]` that is no JSON.
//!
//! Cap: what comes after [`MAX_EVENT`] bytes of one event is not read; the event is reported as oversize and the next one is read
//! again. Memory does not depend on it: it bounds the work spent on an event that never ends.

use super::EventSink;
use super::facts::{Reader, Tables, Visit};
use super::format::Format;
use super::frame::Frame;
use super::scan::{Ended, Scanner};
use crate::measure::{Degraded, Stamp};

/// The longest event that is read.
pub(crate) const MAX_EVENT: u64 = 16 * 1024 * 1024;

const DONE: &[u8] = b"[DONE]";

/// What the event under way is, told by its first bytes: JSON, or `[DONE]`, the end marker of OpenAI-style streams, which an array may
/// begin like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Marker {
    /// Nothing but white space so far.
    Unknown,
    /// So many bytes of it matched.
    Partial(usize),
    /// All of it; white space may follow.
    Done,
    /// It is something else.
    Json,
    /// The last event again; white space may follow.
    Again,
    /// That, and then something that may not follow.
    Broken,
}

/// Reads the events of one stream.
#[derive(Debug)]
pub(crate) struct Events {
    tables: &'static Tables,
    scanner: Scanner,
    reader: Reader,
    marker: Marker,
    len: u64,
    /// That of the last event, as long as `reader` holds what it said.
    frame: Frame,
}

impl Events {
    pub(crate) fn new(format: &'static Format) -> Self {
        Self {
            tables: Tables::of(format),
            scanner: Scanner::new(),
            reader: Reader::new(format),
            marker: Marker::Unknown,
            len: 0,
            frame: Frame::default(),
        }
    }

    /// The length of the whole event that `bytes` begin with, when it says what the last one said; between events only.
    #[inline]
    pub(crate) fn known(&self, bytes: &[u8]) -> Option<usize> {
        self.frame.recall(bytes).filter(|len| *len as u64 <= MAX_EVENT)
    }

    /// The event that [`Self::known`] has found is complete.
    #[inline]
    pub(crate) fn again<S: EventSink>(&mut self, at: Stamp, sink: &mut S) {
        self.frame.met();
        sink.event(at, self.reader.said());
    }

    /// A piece of the event under way.
    #[inline]
    pub(crate) fn data<S: EventSink>(&mut self, bytes: &[u8], sink: &mut S) {
        let before = self.len;
        self.len = before.saturating_add(bytes.len() as u64);
        if before == 0 {
            if self.known(bytes) == Some(bytes.len()) {
                self.marker = Marker::Again;
                return;
            }
            self.begin();
        } else if self.marker != Marker::Again {
            // What was learned was not all of it.
            self.frame.forget();
        }
        if self.len > MAX_EVENT {
            if before <= MAX_EVENT {
                sink.degraded(Degraded::Oversize);
            }
            return;
        }
        let json = match (self.marker, bytes) {
            (Marker::Json, _) => bytes,
            (Marker::Again, _) => {
                if !bytes.iter().all(is_blank) {
                    self.marker = Marker::Broken;
                }
                return;
            }
            (Marker::Broken, _) => return,
            (Marker::Unknown, [b'{', ..]) => {
                self.marker = Marker::Json;
                return self.open(bytes, sink);
            }
            _ => self.match_marker(bytes, sink),
        };
        self.scan(json, sink);
    }

    /// Forgets the last event.
    fn begin(&mut self) {
        self.scanner.reset();
        self.reader.reset();
        self.frame.forget();
        self.marker = Marker::Unknown;
    }

    /// The first piece of an object, most often all of it.
    #[inline]
    fn open<S: EventSink>(&mut self, json: &[u8], sink: &mut S) {
        let mut visit = Visit::new(&mut self.reader, sink);
        self.scanner.feed(&self.tables.event, json, &mut visit);
        if self.len == json.len() as u64
            && self.frame.is_learning()
            && self.scanner.is_done()
            && let Some(text) = visit.texts.only(json)
        {
            self.frame.learn(json, text);
        }
    }

    #[inline]
    fn scan<S: EventSink>(&mut self, json: &[u8], sink: &mut S) {
        let reader = &mut self.reader;
        self.scanner.feed(&self.tables.event, json, &mut Visit::new(reader, sink));
    }

    /// Matches the marker; returns what is JSON after all.
    fn match_marker<'b, S: EventSink>(&mut self, bytes: &'b [u8], sink: &mut S) -> &'b [u8] {
        for (at, byte) in bytes.iter().enumerate() {
            let blank = is_blank(byte);
            let matched = match self.marker {
                Marker::Unknown if blank => continue,
                Marker::Done if blank => continue,
                Marker::Unknown => 0,
                Marker::Partial(matched) => matched,
                Marker::Done => DONE.len(),
                Marker::Json | Marker::Again | Marker::Broken => return &bytes[at..],
            };
            if DONE.get(matched) == Some(byte) {
                self.marker = if matched + 1 == DONE.len() {
                    Marker::Done
                } else {
                    Marker::Partial(matched + 1)
                };
                continue;
            }
            self.marker = Marker::Json;
            self.scan(&DONE[..matched], sink);
            return &bytes[at..];
        }
        &[]
    }

    /// The event is complete, by the read at `at`. `is_error` says that its framing calls it an error.
    pub(crate) fn end<S: EventSink>(&mut self, at: Stamp, is_error: bool, sink: &mut S) {
        if self.len == 0 {
            // Most often a blank line.
            if !is_error {
                return;
            }
            self.begin();
        }
        if let Marker::Partial(matched) = self.marker {
            self.scan(&DONE[..matched], sink);
        }
        let len = std::mem::take(&mut self.len);
        let ended = match self.marker {
            Marker::Again => Ended::Value,
            Marker::Broken => Ended::Broken,
            _ => self
                .scanner
                .finish(&self.tables.event, &mut Visit::new(&mut self.reader, sink)),
        };
        if len > MAX_EVENT {
            // Reported when it passed the cap.
        } else if is_error {
            if ended != Ended::Value {
                self.reader.reset();
            }
            let facts = match self.marker {
                Marker::Again => self.reader.said_as_error(),
                _ => self.reader.error_event(),
            };
            sink.event(at, facts);
        } else if self.marker == Marker::Done {
            self.reader.reset();
            sink.event(at, self.reader.terminal_event());
        } else {
            match ended {
                Ended::Value if self.marker == Marker::Again => return self.again(at, sink),
                Ended::Value => return sink.event(at, self.reader.event()),
                Ended::Blank => {}
                Ended::Broken => sink.degraded(Degraded::Malformed),
            }
        }
        self.frame.forget();
    }
}

const fn is_blank(byte: &u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\n' | b'\r')
}
