//! Server-sent events, framed as the WHATWG rules say and without keeping them: the bytes of `data` go straight on.
//!
//! Line ends are LF, CR or CR LF and may be cut by a read anywhere; at most one space after the colon is dropped; the lines of one
//! event are joined by LF; a byte order mark opens a stream at most once; an event that the stream ends within is not dispatched.
//! A CR ends its line at once, so that no event waits for the LF of a later read.
//!
//! One addition: older llama-server sends its error as a field of its own (`error: {…}`), which by the rules is no event at all.
//!
//! Cap: of a line other than `data` only the first bytes are looked at; one longer than [`MAX_LINE`] is reported once.

use memchr::memchr2;

/// The longest line that is not `data` (a comment, an id) and not worth a report. Such a line costs no memory at any length.
pub(crate) const MAX_LINE: u64 = 16 * 1024 * 1024;

/// What an event calls itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Name {
    /// Anything but an error.
    #[default]
    Message,
    /// `event: error`, or an `error:` field.
    Error,
}

/// Takes what the lines say.
pub(crate) trait Handler {
    /// The length of the data of a whole event that `bytes` begin with, where the handler knows it by its bytes: it then need not be
    /// searched for its line end.
    fn known(&mut self, _bytes: &[u8]) -> Option<usize> {
        None
    }
    /// The event that [`Handler::known`] has just found is complete.
    fn again(&mut self) {}
    /// A piece of the event's data; an LF between two `data` lines is a piece too.
    fn data(&mut self, bytes: &[u8]);
    /// The event is complete: the blank line was read.
    fn end(&mut self, name: Name);
    /// A line other than `data` is longer than [`MAX_LINE`].
    fn oversize(&mut self);
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Matching the byte order mark; how many bytes matched.
    Mark(usize),
    LineStart,
    /// In the field's name.
    Field,
    /// Behind the colon, where one space is dropped.
    ValueStart,
    Value,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Field {
    Data,
    Event,
    Error,
    /// Comments, `id`, `retry` and what nobody knows.
    Other,
}

/// The framing of one stream.
#[derive(Debug)]
pub(crate) struct Sse {
    state: State,
    /// The last byte was a CR that ended a line: an LF now belongs to it.
    after_cr: bool,
    field: Field,
    /// The start of the field's name, then of the value of `event`.
    head: [u8; Self::HEAD],
    head_len: usize,
    line_len: u64,
    has_data: bool,
    /// An `error:` field was seen: an event even without data.
    own_error: bool,
    name: Name,
}

const MARK: &[u8] = b"\xEF\xBB\xBF";

impl Sse {
    /// Enough to tell every name that matters from every longer one.
    const HEAD: usize = 8;

    pub(crate) const fn new() -> Self {
        Self {
            state: State::Mark(0),
            after_cr: false,
            field: Field::Other,
            head: [0; Self::HEAD],
            head_len: 0,
            line_len: 0,
            has_data: false,
            own_error: false,
            name: Name::Message,
        }
    }

    /// The next bytes of the stream.
    pub(crate) fn feed<H: Handler>(&mut self, mut bytes: &[u8], handler: &mut H) {
        while let Some((&byte, rest)) = bytes.split_first() {
            if self.after_cr {
                self.after_cr = false;
                if byte == b'\n' {
                    bytes = rest;
                    continue;
                }
            }
            match self.state {
                State::Mark(matched) if MARK.get(matched) == Some(&byte) => {
                    self.state = if matched + 1 == MARK.len() {
                        State::LineStart
                    } else {
                        State::Mark(matched + 1)
                    };
                    bytes = rest;
                }
                State::Mark(0) => self.state = State::LineStart,
                State::Mark(_) => {
                    // Part of a mark and then something else: the start of a name that no field has.
                    self.start_line();
                    self.head_len = Self::HEAD;
                }
                State::LineStart => bytes = self.line(bytes, handler),
                State::Field => bytes = self.field_name(bytes, handler),
                State::ValueStart => {
                    self.state = State::Value;
                    if byte == b' ' {
                        bytes = rest;
                    }
                }
                State::Value => bytes = self.value(bytes, handler),
            }
        }
    }

    fn start_line(&mut self) {
        self.state = State::Field;
        self.head_len = 0;
        self.line_len = 0;
    }

    /// From the start of a line.
    #[inline]
    fn line<'b, H: Handler>(&mut self, bytes: &'b [u8], handler: &mut H) -> &'b [u8] {
        match bytes {
            [b'\n', rest @ ..] => {
                self.blank_line(handler);
                rest
            }
            [b'\r', rest @ ..] => {
                self.after_cr = true;
                self.blank_line(handler);
                rest
            }
            // The common case, whole in one read.
            [b'd', b'a', b't', b'a', b':', rest @ ..] if !rest.is_empty() => {
                let value = rest.strip_prefix(b" ").unwrap_or(rest);
                if let Some(behind) = self.known(value, handler) {
                    return behind;
                }
                self.start_data(handler);
                self.state = State::Value;
                self.value(value, handler)
            }
            // A comment, most often a ping.
            [b':', rest @ ..] => {
                self.start_line();
                self.state = State::Value;
                self.value(rest, handler)
            }
            _ => {
                self.start_line();
                bytes
            }
        }
    }

    /// What follows the event, when all of it is a line of data that the handler knows and the blank line behind.
    #[inline]
    fn known<'b, H: Handler>(&self, bytes: &'b [u8], handler: &mut H) -> Option<&'b [u8]> {
        if self.has_data || self.own_error || self.name != Name::Message {
            return None;
        }
        let len = handler.known(bytes)?;
        let behind = bytes[len..]
            .strip_prefix(b"\n\n")
            .or_else(|| bytes[len..].strip_prefix(b"\r\n\r\n"))?;
        handler.again();
        Some(behind)
    }

    fn blank_line<H: Handler>(&mut self, handler: &mut H) {
        self.state = State::LineStart;
        if self.has_data || self.own_error {
            handler.end(self.name);
        }
        self.has_data = false;
        self.own_error = false;
        self.name = Name::Message;
    }

    fn start_data<H: Handler>(&mut self, handler: &mut H) {
        self.field = Field::Data;
        if self.has_data {
            handler.data(b"\n");
        }
        self.has_data = true;
    }

    fn end_line(&mut self, ending: u8) {
        if self.field == Field::Event {
            self.name = if self.head() == b"error" { Name::Error } else { Name::Message };
        }
        self.field = Field::Other;
        self.state = State::LineStart;
        self.after_cr = ending == b'\r';
    }

    fn head(&self) -> &[u8] {
        &self.head[..self.head_len]
    }

    /// Keeps the start of a name or value; one that does not fit fills the place, so it equals nothing that matters.
    fn keep(&mut self, piece: &[u8]) {
        for byte in piece.iter().take(Self::HEAD - self.head_len) {
            self.head[self.head_len] = *byte;
            self.head_len += 1;
        }
    }

    fn count<H: Handler>(&mut self, len: usize, handler: &mut H) {
        let before = self.line_len;
        self.line_len = before.saturating_add(len as u64);
        if before <= MAX_LINE && self.line_len > MAX_LINE {
            handler.oversize();
        }
    }

    fn field_name<'b, H: Handler>(&mut self, bytes: &'b [u8], handler: &mut H) -> &'b [u8] {
        let end = bytes.iter().position(|b| matches!(b, b':' | b'\n' | b'\r'));
        let piece = &bytes[..end.unwrap_or(bytes.len())];
        self.keep(piece);
        self.count(piece.len(), handler);
        let Some(end) = end else { return &[] };
        self.field = match self.head() {
            b"data" => Field::Data,
            b"event" => Field::Event,
            b"error" => Field::Error,
            _ => Field::Other,
        };
        if self.field == Field::Data {
            self.start_data(handler);
        }
        self.head_len = 0;
        match bytes[end] {
            b':' => self.state = State::ValueStart,
            // A name without a colon has an empty value.
            ending => self.end_line(ending),
        }
        &bytes[end + 1..]
    }

    #[inline]
    fn value<'b, H: Handler>(&mut self, bytes: &'b [u8], handler: &mut H) -> &'b [u8] {
        let end = memchr2(b'\n', b'\r', bytes);
        let piece = &bytes[..end.unwrap_or(bytes.len())];
        match self.field {
            Field::Data => {
                if !piece.is_empty() {
                    handler.data(piece);
                }
            }
            Field::Event => {
                self.keep(piece);
                self.count(piece.len(), handler);
            }
            Field::Error => {
                if !piece.is_empty() {
                    self.own_error = true;
                    self.name = Name::Error;
                }
                self.count(piece.len(), handler);
            }
            Field::Other => self.count(piece.len(), handler),
        }
        let Some(end) = end else { return &[] };
        self.end_line(bytes[end]);
        &bytes[end + 1..]
    }
}

#[cfg(test)]
mod tests;
