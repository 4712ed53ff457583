//! PURE: what is asserted of heads and chunked coding on the short way for any bytes (see [`crate::fuzzing`]).

use super::chunked::Chunked;
use super::head::{self, Framing, Limits, Request};
use crate::fuzzing::pieces;

/// The longest head whose every prefix is tried.
const SHORT: usize = 2048;

/// A plain request is one head to any reader, and so is every response that is passed on.
pub(crate) fn relay_head(data: &[u8]) {
    let Some((pick, bytes)) = data.split_first() else { return };
    request(bytes);
    let most = if pick & 4 == 4 { 128 } else { usize::MAX };
    response(bytes, pick & 1 == 1, pick & 2 == 2, most);
}

fn request(bytes: &[u8]) {
    let mut fields = 0;
    let Request::Plain(head) = head::request(bytes, |_, seen| fields = seen.len()) else {
        return;
    };
    for len in 0..head.len.min(SHORT) {
        let before = head::request(&bytes[..len], |_, _| {});
        assert!(
            matches!(before, Request::Partial),
            "{len} of {} bytes are {before:?}",
            head.len
        );
    }
    let mut rest = bytes.to_vec();
    let out = head.take(&mut rest, 0);
    assert_eq!(rest, bytes[head.len..], "what follows stays");
    let lines = lines(&out);
    let names = |name: &str| {
        lines
            .iter()
            .filter(|(known, _)| known.eq_ignore_ascii_case(name.as_bytes()))
            .count()
    };
    assert_eq!(names("host"), 1);
    for gone in [
        "connection",
        "keep-alive",
        "transfer-encoding",
        "upgrade",
        "proxy-connection",
        "expect",
        "trailer",
    ] {
        assert_eq!(names(gone), 0, "{gone} goes on");
    }
    assert!(values(&lines, "te").iter().all(|te| te.eq_ignore_ascii_case(b"trailers")));
    let lengths: Vec<_> = values(&lines, "content-length");
    assert!(lengths.len() <= 1);
    assert_eq!(head.length, lengths.first().map_or(0, |v| number(v)));
    assert_eq!(
        lines.len() + usize::from(out.len() < head.len),
        fields,
        "only Connection is left out"
    );
}

fn response(bytes: &[u8], to_head: bool, close: bool, most: usize) {
    let mut out = Vec::new();
    let limits = Limits {
        bytes: most,
        fields: 100,
    };
    let mut seen = 0;
    let read = head::response(bytes, to_head, close, limits, &mut out, |_, _| seen += 1);
    let Ok(Some(head)) = read else {
        assert!(out.is_empty() && seen == 0, "part of a head that is not passed on");
        return;
    };
    assert!(seen == 1 && head.len <= bytes.len().min(limits.bytes));
    let lines = lines(&out);
    let (lengths, codings) = (values(&lines, "content-length"), values(&lines, "transfer-encoding"));
    match head.framing {
        Framing::Length(n) => assert!(lengths.iter().all(|v| number(v) == n) && lengths.len() == 1 && codings.is_empty()),
        Framing::Chunked(_) | Framing::Eof => assert!(lengths.is_empty() && codings.len() == 1 && chunked_value(&codings)),
        Framing::None => assert!(lengths.len() <= 1 && (lengths.is_empty() || codings.is_empty())),
    }
    let connection = values(&lines, "connection");
    assert_eq!(connection.len(), usize::from(close && head.status >= 200));
    assert!(values(&lines, "upgrade").is_empty() && values(&lines, "keep-alive").is_empty());
}

fn chunked_value(codings: &[&[u8]]) -> bool {
    codings.iter().all(|value| value.eq_ignore_ascii_case(b"chunked"))
}

/// The fields of a head as the strictest reader sees them: CRLF only, no empty name, nothing after the empty line.
fn lines(head: &[u8]) -> Vec<(&[u8], &[u8])> {
    let inner = head.strip_suffix(b"\r\n\r\n").expect("a head ends with an empty line");
    let mut lines = inner
        .split(|b| *b == b'\n')
        .map(|line| line.strip_suffix(b"\r").unwrap_or(line));
    let count = inner.iter().filter(|b| **b == b'\r').count();
    assert_eq!(count, inner.windows(2).filter(|w| w == b"\r\n").count(), "a bare CR");
    assert_eq!(count, inner.iter().filter(|b| **b == b'\n').count(), "a bare LF");
    assert!(!inner.contains(&0), "a NUL");
    let start = lines.next().unwrap_or_default();
    assert!(!start.is_empty());
    lines
        .map(|line| {
            let colon = line.iter().position(|b| *b == b':').expect("a name ends with a colon");
            let name = &line[..colon];
            assert!(
                !name.is_empty() && name.iter().all(|b| b.is_ascii_graphic() && *b != b'('),
                "{name:?}"
            );
            (name, line[colon + 1..].trim_ascii())
        })
        .collect()
}

fn values<'a>(lines: &[(&'a [u8], &'a [u8])], name: &str) -> Vec<&'a [u8]> {
    let of_name = lines.iter().filter(|(known, _)| known.eq_ignore_ascii_case(name.as_bytes()));
    of_name.map(|(_, value)| *value).collect()
}

fn number(value: &[u8]) -> u64 {
    let text = std::str::from_utf8(value).expect("digits");
    text.parse().expect("digits")
}

/// Chunked coding ends, breaks and holds the same payload at any cut, and what an unhurried reading of the whole finds.
pub(crate) fn chunked(data: &[u8]) {
    let Some((cut, bytes)) = data.split_first() else { return };
    let (mut coding, mut payload, mut at, mut end) = (Chunked::default(), Vec::new(), 0, Ok(None));
    for piece in pieces(bytes, *cut) {
        end = match coding.feed(piece, |p| payload.extend_from_slice(&piece[p])) {
            Ok(taken) => Ok(taken.map(|n| at + n)),
            Err(bad) => Err(at + bad.at),
        };
        if end != Ok(None) {
            break;
        }
        at += piece.len();
    }
    let (mut expected, mut rest) = (Vec::new(), bytes);
    let outcome = loop {
        match chunk(rest) {
            Some(Ok((body, after))) if !body.is_empty() => {
                expected.extend_from_slice(body);
                rest = after;
            }
            Some(Ok((_, trailers))) => break trailer(trailers).map(|end| end.map(|after| bytes.len() - after.len())),
            Some(Err(())) => break Err(()),
            None => break Ok(None),
        }
    };
    match (end, outcome) {
        (Ok(Some(end)), outcome) => {
            assert_eq!(outcome, Ok(Some(end)));
            assert_eq!(payload, expected);
        }
        (Err(at), _) => assert!(at < bytes.len() && outcome != Ok(Some(at))),
        (Ok(None), outcome) => assert!(!matches!(outcome, Ok(Some(_))), "the end at {outcome:?} was not seen"),
    }
    if let Err(at) = end {
        // What came before the offence is sound, whatever follows.
        assert_eq!(Chunked::default().feed(&bytes[..at], |_| {}), Ok(None));
    }
}

/// A chunk's payload and what follows the chunk, or an offence.
type Split<'a> = Result<(&'a [u8], &'a [u8]), ()>;

/// A chunk and what follows it; none while it is not whole. The last one is empty.
fn chunk(bytes: &[u8]) -> Option<Split<'_>> {
    let line_end = bytes.iter().position(|b| *b == b'\n')?;
    let Some(line) = bytes[..line_end].strip_suffix(b"\r") else {
        return Some(Err(()));
    };
    let digits = line.iter().take_while(|b| b.is_ascii_hexdigit()).count();
    let extension = &line[digits..];
    let sound =
        (1..=15).contains(&digits) && !line.contains(&b'\r') && matches!(extension.first(), None | Some(b';' | b' ' | b'\t'));
    let size = std::str::from_utf8(&line[..digits])
        .ok()
        .and_then(|d| u64::from_str_radix(d, 16).ok());
    let Some(size) = size.filter(|_| sound) else {
        return Some(Err(()));
    };
    let (size, rest) = (usize::try_from(size).ok()?, &bytes[line_end + 1..]);
    if size == 0 {
        return Some(Ok((&[], rest)));
    }
    let (body, after) = rest.split_at_checked(size)?;
    match after.split_first_chunk::<2>() {
        Some((b"\r\n", after)) => Some(Ok((body, after))),
        Some(_) => Some(Err(())),
        None => None,
    }
}

/// What follows the trailer section; none while it is not whole.
fn trailer(mut bytes: &[u8]) -> Result<Option<&[u8]>, ()> {
    loop {
        let Some(end) = bytes.iter().position(|b| *b == b'\n') else {
            return Ok(None);
        };
        let line = bytes[..end].strip_suffix(b"\r").ok_or(())?;
        if line.contains(&b'\r') {
            return Err(());
        }
        bytes = &bytes[end + 1..];
        if line.is_empty() {
            return Ok(Some(bytes));
        }
    }
}
