//! PURE: chunked coding read strictly as it passes, a few bytes of state, any split.
//!
//! Only what RFC 9112 7.1 allows: hexadecimal size, optional extensions, CRLF everywhere. A bare LF, an empty size or a size over
//! 16 digits is malformed: two hops that read it differently would disagree on where a body ends.

use std::ops::Range;

/// Longest extension part of one size line, and longest trailer section, bytes.
const MAX_LINE: u32 = 16 * 1024;

/// Where in the coding the bytes are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Chunked {
    state: State,
    /// Bytes left of the present chunk, or its size while that is read.
    left: u64,
    /// Digits of the size, or bytes of extensions or trailers, so far.
    seen: u32,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    #[default]
    Size,
    Extension,
    SizeLf,
    Data,
    DataCr,
    DataLf,
    /// At the start of a trailer line (or the closing empty line).
    Trailer,
    TrailerLine,
    TrailerLf,
    EndLf,
    End,
}

/// The bytes are not chunked coding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Malformed {
    /// How many bytes before the offence were sound.
    pub(super) at: usize,
}

impl Chunked {
    /// Takes the next bytes and tells `payload` where each stretch of payload lies, none of them empty. Gives the number of bytes
    /// taken once the coding's end was among them, none while it goes on.
    pub(super) fn feed(&mut self, bytes: &[u8], mut payload: impl FnMut(Range<usize>)) -> Result<Option<usize>, Malformed> {
        let mut at = 0;
        while at < bytes.len() {
            if self.state == State::Data {
                let take = usize::try_from(self.left).unwrap_or(usize::MAX).min(bytes.len() - at);
                payload(at..at + take);
                at += take;
                self.left -= take as u64;
                if self.left == 0 {
                    self.state = State::DataCr;
                    // The two line ends and the size between them, byte by byte, cost more than all else here: where they lie
                    // whole and plain they are read at once.
                    if bytes[at..].starts_with(b"\r\n") {
                        at += 2;
                        (self.state, self.seen) = (State::Size, 0);
                    }
                }
                continue;
            }
            if self.state == State::Size
                && self.seen == 0
                && let Some((size, len)) = plain_size(&bytes[at..])
            {
                at += len;
                (self.state, self.left) = (State::Data, size);
                continue;
            }
            self.state = self.step(bytes[at]).ok_or(Malformed { at })?;
            at += 1;
            if self.state == State::End {
                return Ok(Some(at));
            }
        }
        Ok(None)
    }

    fn step(&mut self, byte: u8) -> Option<State> {
        Some(match (self.state, byte) {
            (State::Size, b'\r') if self.seen > 0 => State::SizeLf,
            (State::Size, b';' | b' ' | b'\t') if self.seen > 0 => {
                self.seen = 0;
                State::Extension
            }
            (State::Size, _) => {
                let digit = char::from(byte).to_digit(16)?;
                self.seen += 1;
                if self.seen > 15 {
                    return None;
                }
                self.left = self.left * 16 + u64::from(digit);
                State::Size
            }
            (State::Extension, b'\r') => State::SizeLf,
            (State::Extension, b'\n') => return None,
            (State::Extension, _) => self.within_line(State::Extension)?,
            (State::SizeLf, b'\n') => {
                self.seen = 0;
                if self.left == 0 { State::Trailer } else { State::Data }
            }
            (State::DataCr, b'\r') => State::DataLf,
            (State::DataLf, b'\n') => {
                self.seen = 0;
                State::Size
            }
            (State::Trailer, b'\r') => State::EndLf,
            (State::Trailer, b'\n') => return None,
            (State::Trailer, _) => self.within_line(State::TrailerLine)?,
            (State::TrailerLine, b'\r') => State::TrailerLf,
            (State::TrailerLine, b'\n') => return None,
            (State::TrailerLine, _) => self.within_line(State::TrailerLine)?,
            (State::TrailerLf, b'\n') => State::Trailer,
            (State::EndLf, b'\n') => State::End,
            _ => return None,
        })
    }

    fn within_line(&mut self, state: State) -> Option<State> {
        self.seen += 1;
        (self.seen <= MAX_LINE).then_some(state)
    }
}

/// The size line at the start of `bytes` and its length: up to seven digits, not 0, and CRLF; none for any other.
#[inline]
fn plain_size(bytes: &[u8]) -> Option<(u64, usize)> {
    let mut size = 0;
    for (len, byte) in bytes.iter().take(8).enumerate() {
        let digit = match byte {
            b'0'..=b'9' => byte - b'0',
            b'a'..=b'f' => byte - b'a' + 10,
            b'A'..=b'F' => byte - b'A' + 10,
            b'\r' if size > 0 && bytes.get(len + 1) == Some(&b'\n') => return Some((size, len + 2)),
            _ => return None,
        };
        size = size << 4 | u64::from(digit);
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn whole(bytes: &[u8]) -> (Result<Option<usize>, Malformed>, Vec<u8>) {
        let mut out = Vec::new();
        let end = Chunked::default().feed(bytes, |p| out.extend_from_slice(&bytes[p]));
        (end, out)
    }

    const BODY: &[u8] = b"5\r\nhello\r\n00A;name=\"v\"\r\n, wide wor\r\n2\r\nld\r\n0\r\nX-Tokens: 5\r\nY: 6\r\n\r\n";

    #[test]
    fn payload_is_the_same_at_every_split() {
        for cut in 0..=BODY.len() {
            let (mut chunked, mut out) = (Chunked::default(), Vec::new());
            let first = chunked.feed(&BODY[..cut], |p| out.extend_from_slice(&BODY[p])).unwrap();
            let second = if cut < BODY.len() {
                chunked
                    .feed(&BODY[cut..], |p| out.extend_from_slice(&BODY[cut..][p]))
                    .unwrap()
            } else {
                first
            };
            assert_eq!(out, b"hello, wide world", "cut at {cut}");
            assert_eq!(
                second,
                Some(BODY.len() - if cut < BODY.len() { cut } else { 0 }),
                "cut at {cut}"
            );
        }
    }

    #[test]
    fn what_follows_the_end_is_not_taken() {
        let (end, out) = whole(b"1\r\na\r\n0\r\n\r\nHTTP/1.1 200 OK\r\n");
        assert_eq!((end, out.as_slice()), (Ok(Some(11)), &b"a"[..]));
    }

    #[test]
    fn anything_two_hops_could_read_differently_is_malformed() {
        for bad in [
            &b"5\nhello\r\n0\r\n\r\n"[..],
            b"5;a\n=b\r\nhello\r\n0\r\n\r\n",
            b"5\r\nhello\n0\r\n\r\n",
            b"5\r\nhello0\r\n\r\n",
            b"\r\nhello\r\n",
            b"-5\r\nhello\r\n",
            b"0x5\r\nhello\r\n",
            b"5\r\nhello\r\n0\r\n\n",
            b"5\r\nhello\r\n0\r\nX: 1\n\r\n",
            b"fffffffffffffffff\r\n",
        ] {
            assert!(whole(bad).0.is_err(), "{:?}", String::from_utf8_lossy(bad));
        }
    }

    #[test]
    fn endless_extensions_and_trailers_are_cut_at_their_cap() {
        let mut long = b"5;".to_vec();
        long.resize(MAX_LINE as usize + 8, b'x');
        assert!(whole(&long).0.is_err());
        let mut long = b"0\r\n".to_vec();
        for _ in 0..3000 {
            long.extend_from_slice(b"X: 123\r\n");
        }
        assert!(whole(&long).0.is_err());
    }
}
