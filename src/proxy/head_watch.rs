//! PURE: follows the client's bytes through each HTTP/1 request head, beside hyper's own parser, for two things hyper does not
//! tell: when a head's first byte came (so that an idle connection is not held to the head's time limit), and whether the head
//! had both a length and chunked coding (hyper silently drops the length).
//!
//! A pipelined head that came in one read with the body before it is not seen. hyper itself is safe there: chunked wins, the
//! length is removed and the connection closes after the reply.

/// Longest field name that matters, and one more to tell a longer one apart.
const NAME_CAP: usize = "transfer-encoding".len() + 1;

/// Where in a head the bytes are. Constant memory.
#[derive(Debug, Default)]
pub(super) struct HeadWatch {
    state: State,
    name: [u8; NAME_CAP],
    name_len: usize,
    /// The line so far is a name only, or nothing.
    in_name: bool,
    line_empty: bool,
    request_line: bool,
    has_length: bool,
    has_coding: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    /// No byte of the next head yet; empty lines before it do not count (RFC 9112 2.2).
    #[default]
    Before,
    Within,
    After,
    /// A request body was left unread: where the next head would begin is not known, and hyper closes anyway.
    Off,
}

impl HeadWatch {
    /// A head has begun and is not complete.
    pub(super) fn is_within(&self) -> bool {
        self.state == State::Within
    }

    /// Whether bytes are of interest at all.
    pub(super) fn is_after(&self) -> bool {
        matches!(self.state, State::After | State::Off)
    }

    /// The request is done: what comes next is a new head.
    pub(super) fn next(&mut self) {
        if self.state == State::After {
            *self = Self::default();
        }
    }

    /// Stops for good.
    pub(super) fn stop(&mut self) {
        self.state = State::Off;
    }

    /// Takes the next bytes; true once, when they complete a head that has both framings.
    pub(super) fn feed(&mut self, bytes: &[u8]) -> bool {
        let mut rest = bytes;
        if self.state == State::Before {
            let Some(first) = rest.iter().position(|b| !matches!(b, b'\r' | b'\n')) else {
                return false;
            };
            rest = &rest[first..];
            self.state = State::Within;
            self.request_line = true;
        }
        while self.state == State::Within && !rest.is_empty() {
            let (line, ended, after) = match memchr::memchr(b'\n', rest) {
                Some(at) => (&rest[..at], true, &rest[at + 1..]),
                None => (rest, false, &rest[rest.len()..]),
            };
            self.part_of_line(line);
            if ended {
                self.end_of_line();
            }
            rest = after;
        }
        self.state == State::After && !bytes.is_empty() && std::mem::take(&mut self.has_length) && self.has_coding
    }

    fn part_of_line(&mut self, part: &[u8]) {
        if self.request_line || !self.in_name {
            return;
        }
        for &byte in part {
            if byte == b':' {
                let name = &self.name[..self.name_len];
                self.has_length |= name.eq_ignore_ascii_case(b"content-length");
                self.has_coding |= name.eq_ignore_ascii_case(b"transfer-encoding");
                self.in_name = false;
                self.line_empty = false;
                return;
            }
            if byte != b'\r' {
                self.line_empty = false;
            }
            if self.name_len < NAME_CAP {
                self.name[self.name_len] = byte;
                self.name_len += 1;
            } else {
                self.in_name = false;
                return;
            }
        }
    }

    fn end_of_line(&mut self) {
        if !self.request_line && self.line_empty {
            self.state = State::After;
        }
        self.request_line = false;
        self.in_name = true;
        self.line_empty = true;
        self.name_len = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOTH: &[u8] =
        b"\r\nPOST / HTTP/1.1\r\nHost: a\r\ncontent-LENGTH: 4\r\nX: transfer-encoding: x\r\nTransfer-Encoding:chunked\r\n\r\n";
    const ONE: &[u8] =
        b"POST /content-length: HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\nx-transfer-encoding: b\r\ntransfer-encoding-x: b\r\n\r\nbody";

    #[test]
    fn both_framings_are_found_at_every_split() {
        for cut in 0..=BOTH.len() {
            let mut watch = HeadWatch::default();
            let found = [watch.feed(&BOTH[..cut]), watch.feed(&BOTH[cut..])];
            assert!(found[0] || found[1], "cut at {cut}");
            assert!(watch.is_after());
            assert!(!watch.feed(b"more"), "told once");
        }
    }

    #[test]
    fn one_framing_is_not_both_at_any_split() {
        for cut in 0..=ONE.len() {
            let mut watch = HeadWatch::default();
            assert!(!watch.feed(&ONE[..cut]) && !watch.feed(&ONE[cut..]), "cut at {cut}");
            assert!(watch.is_after());
        }
    }

    #[test]
    fn a_head_begins_with_its_first_byte_and_ends_with_the_empty_line() {
        let mut watch = HeadWatch::default();
        watch.feed(b"\r\n");
        assert!(!watch.is_within());
        watch.feed(b"GET / HT");
        assert!(watch.is_within());
        watch.feed(b"TP/1.1\nHost: a\n\n");
        assert!(watch.is_after());
        watch.next();
        assert!(!watch.is_within() && !watch.is_after());
        watch.feed(b"G");
        assert!(watch.is_within());
        watch.stop();
        watch.next();
        watch.feed(b"ET / HTTP/1.1\r\nContent-Length: 1\r\nTransfer-Encoding: x\r\n\r\n");
        assert!(watch.is_after());
    }
}
