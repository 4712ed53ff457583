//! A JSON string that was cut by a read or has escapes: decoded piece by piece into a small buffer.

use super::{MAX_TEXT, bytes};

/// What the string is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    /// A key in a watched object.
    Key,
    /// A value in a watched container.
    Value {
        /// Whether anyone wants its text.
        watched: bool,
    },
    /// Anything within an unwatched container.
    Skipped,
}

/// How far a piece brought it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Progress {
    /// It goes on.
    More,
    /// Closed.
    Ended,
    /// No string.
    Broken,
}

#[derive(Clone, Copy, Debug)]
enum Escape {
    None,
    Backslash,
    /// Digits seen of `\uXXXX` and their value.
    Hex(u8, u16),
}

/// A string under way.
#[derive(Debug)]
pub(super) struct Text {
    role: Role,
    escape: Escape,
    /// A high surrogate that waits for its low one.
    high: Option<u16>,
    wire_len: u64,
    len: usize,
    overflow: bool,
    buf: [u8; MAX_TEXT],
}

impl Text {
    pub(super) const fn new() -> Self {
        Self {
            role: Role::Skipped,
            escape: Escape::None,
            high: None,
            wire_len: 0,
            len: 0,
            overflow: false,
            buf: [0; MAX_TEXT],
        }
    }

    /// A new string begins after its opening quote.
    pub(super) fn start(&mut self, role: Role) {
        self.role = role;
        self.escape = Escape::None;
        self.high = None;
        self.wire_len = 0;
        self.len = 0;
        self.overflow = false;
    }

    pub(super) const fn role(&self) -> Role {
        self.role
    }

    /// Bytes between the quotes as they came.
    pub(super) const fn wire_len(&self) -> u64 {
        self.wire_len
    }

    /// The decoded text; none when longer than [`MAX_TEXT`].
    pub(super) fn get(&self) -> Option<&[u8]> {
        (!self.overflow).then(|| &self.buf[..self.len])
    }

    /// Takes bytes from `at` on; the index after the last one taken.
    pub(super) fn feed(&mut self, bytes: &[u8], mut at: usize) -> (usize, Progress) {
        while at < bytes.len() {
            match self.escape {
                Escape::None => {
                    let end = bytes::string_end(bytes, at);
                    self.push(&bytes[at..end]);
                    self.wire_len += (end - at) as u64;
                    at = end;
                    match bytes.get(at) {
                        None => break,
                        Some(b'"') => {
                            self.flush_surrogate();
                            return (at + 1, Progress::Ended);
                        }
                        Some(b'\\') => self.escape = Escape::Backslash,
                        Some(_) => return (at, Progress::Broken),
                    }
                }
                Escape::Backslash => {
                    self.escape = Escape::None;
                    match bytes[at] {
                        b'u' => self.escape = Escape::Hex(0, 0),
                        b'n' => self.push(b"\n"),
                        b't' => self.push(b"\t"),
                        b'r' => self.push(b"\r"),
                        b'b' => self.push(b"\x08"),
                        b'f' => self.push(b"\x0C"),
                        byte @ (b'"' | b'\\' | b'/') => self.push(&[byte]),
                        _ => return (at, Progress::Broken),
                    }
                }
                Escape::Hex(seen, value) => {
                    let Some(digit) = char::from(bytes[at]).to_digit(16) else {
                        return (at, Progress::Broken);
                    };
                    let value = value << 4 | u16::try_from(digit).unwrap_or(0);
                    self.escape = if seen == 3 {
                        self.unit(value);
                        Escape::None
                    } else {
                        Escape::Hex(seen + 1, value)
                    };
                }
            }
            self.wire_len += 1;
            at += 1;
        }
        (at, Progress::More)
    }

    /// A UTF-16 unit from an escape.
    fn unit(&mut self, unit: u16) {
        if let (Some(high), 0xDC00..=0xDFFF) = (self.high, unit) {
            self.high = None;
            let code = 0x1_0000 + (u32::from(high & 0x3FF) << 10) + u32::from(unit & 0x3FF);
            self.push_char(char::from_u32(code));
            return;
        }
        self.flush_surrogate();
        match unit {
            0xD800..=0xDBFF => self.high = Some(unit),
            _ => self.push_char(char::from_u32(u32::from(unit))),
        }
    }

    fn flush_surrogate(&mut self) {
        if self.high.take().is_some() {
            self.push_char(None);
        }
    }

    fn push_char(&mut self, c: Option<char>) {
        let mut utf8 = [0; 4];
        let c = c.unwrap_or(char::REPLACEMENT_CHARACTER).encode_utf8(&mut utf8);
        self.push(c.as_bytes());
    }

    fn push(&mut self, piece: &[u8]) {
        if piece.is_empty() || self.overflow || matches!(self.role, Role::Skipped | Role::Value { watched: false }) {
            return;
        }
        if self.high.take().is_some() {
            self.push(char::REPLACEMENT_CHARACTER.encode_utf8(&mut [0; 4]).as_bytes());
        }
        match self.buf.get_mut(self.len..self.len + piece.len()) {
            Some(place) => {
                place.copy_from_slice(piece);
                self.len += piece.len();
            }
            None => self.overflow = true,
        }
    }
}
