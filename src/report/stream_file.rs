//! The `.stream` format of this project's fixtures: a reply's body as text that people can read and edit.
//!
//! ```text
//! # a comment; `: POST /v1/chat/completions, 200` in one names path and status
//! content-type: text/event-stream
//! end: eof                          (or cut: the body broke off)
//! @ 264567311                       a read, nanoseconds since the request began; its bytes follow
//! |data: {...}                      a line that ends with LF
//! -data: {"cut                      bytes without LF
//! ~\r\n                             bytes with escapes: \\ \r \n \xNN
//! ```

use super::recorded::{Recorded, RecordedError, coded, error};
use crate::measure::profile::{Read, Recording};

const LINE: &str = "lines are `# comment`, `key: value`, `@ nanoseconds`, or bytes after `|`, `-` or `~`";

/// Whether `bytes` look like this format.
pub(super) fn is_one(bytes: &[u8]) -> bool {
    bytes.starts_with(b"@ ") || memchr::memmem::find(bytes, b"\n@ ").is_some()
}

/// Reads one.
pub(super) fn parse(bytes: &[u8]) -> Result<Recorded, RecordedError> {
    let mut recorded = Recorded {
        timed: true,
        complete: true,
        ..Recorded::default()
    };
    let mut reads: Vec<Read> = Vec::new();
    let mut path = None;
    for (index, line) in bytes.split(|b| *b == b'\n').enumerate() {
        let wrong = |what: String| error(Some(index + 1), what, LINE);
        let Some((mark, rest)) = line.split_first() else { continue };
        match (mark, reads.last_mut()) {
            (b'#', _) => {
                if let Some((found, status)) = request_of(&String::from_utf8_lossy(rest)) {
                    path = Some(found);
                    recorded.status = status;
                }
            }
            (b'@', last) => {
                let at_ns = std::str::from_utf8(rest).ok().and_then(|s| s.trim().parse().ok());
                let at_ns: u64 = at_ns.ok_or_else(|| wrong("the time after `@` is not a whole number".into()))?;
                if last.is_some_and(|last| last.at_ns > at_ns) {
                    return Err(wrong(format!("the read at {at_ns} lies before the one before it")));
                }
                reads.push(Read {
                    at_ns,
                    bytes: Vec::new(),
                });
            }
            (b'|', Some(read)) => {
                read.bytes.extend_from_slice(rest);
                read.bytes.push(b'\n');
            }
            (b'-', Some(read)) => read.bytes.extend_from_slice(rest),
            (b'~', Some(read)) => unescape(rest, &mut read.bytes).map_err(|what| wrong(what.into()))?,
            (b'|' | b'-' | b'~', None) => return Err(wrong("bytes before the first `@`".into())),
            (_, None) => header(&mut recorded, &String::from_utf8_lossy(line)).map_err(|what| wrong(what.into()))?,
            (_, Some(_)) => return Err(wrong("a line that is none of these".into())),
        }
    }
    recorded.recording = Recording {
        closed_ns: reads.last().map_or(0, |r| r.at_ns),
        reads,
        ..Recording::default()
    };
    recorded.settle_api(path.as_deref());
    Ok(recorded)
}

fn header(recorded: &mut Recorded, line: &str) -> Result<(), &'static str> {
    let (key, value) = line.split_once(": ").ok_or("a line that is none of these")?;
    match key {
        "content-type" => recorded.content_type = Some(value.to_owned()),
        "content-encoding" => recorded.content_encoding = coded(value),
        "end" => recorded.complete = value == "eof",
        // Other keys are for other readers of the fixtures.
        _ => {}
    }
    Ok(())
}

/// Path and status in a comment like `name: POST /v1/chat/completions, 200 OK`.
fn request_of(comment: &str) -> Option<(String, Option<u16>)> {
    let (_, request) = comment.split_once("POST ")?;
    let (path, rest) = request.split_once([',', ' ']).unwrap_or((request, ""));
    let status = rest.split([' ', ',']).find_map(|word| word.parse().ok());
    path.starts_with('/').then(|| (path.to_owned(), status))
}

fn unescape(mut text: &[u8], out: &mut Vec<u8>) -> Result<(), &'static str> {
    const ESCAPES: &str = r"an escape other than \\ \r \n \xNN";
    while let Some((byte, rest)) = text.split_first() {
        text = rest;
        if *byte != b'\\' {
            out.push(*byte);
            continue;
        }
        let (kind, rest) = text.split_first().ok_or(ESCAPES)?;
        text = rest;
        match kind {
            b'\\' => out.push(b'\\'),
            b'r' => out.push(b'\r'),
            b'n' => out.push(b'\n'),
            b'x' => {
                let (digits, rest) = text.split_at_checked(2).ok_or(ESCAPES)?;
                let digits = std::str::from_utf8(digits).map_err(|_| ESCAPES)?;
                out.push(u8::from_str_radix(digits, 16).map_err(|_| ESCAPES)?);
                text = rest;
            }
            _ => return Err(ESCAPES),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = "# made by hand\n# chat: POST /v1/completions, 200 OK\ncontent-type: text/event-stream\n\
                        asked-to-stream: true\nend: cut\n@ 100\n|data: a\n-da\n@ 250\n~ta: \\xe4\\\\\\r\\n\n|\n";

    #[test]
    fn reads_headers_and_escapes_come_back() {
        let got = parse(FILE.as_bytes()).unwrap();
        let read = |at_ns, bytes: &[u8]| Read {
            at_ns,
            bytes: bytes.to_vec(),
        };
        assert_eq!(
            got.recording.reads,
            [read(100, b"data: a\nda"), read(250, b"ta: \xe4\\\r\n\n")]
        );
        assert_eq!((got.recording.closed_ns, got.complete, got.timed), (250, false, true));
        assert_eq!((got.path.as_deref(), got.status), (Some("/v1/completions"), Some(200)));
        assert_eq!(got.content_type.as_deref(), Some("text/event-stream"));
    }

    #[test]
    fn what_is_wrong_is_said_with_its_line() {
        let line = |file: &str| parse(file.as_bytes()).unwrap_err().line;
        assert_eq!(line("|data: a\n@ 1\n"), Some(1));
        assert_eq!(line("@ 5\n@ 4\n"), Some(2));
        assert_eq!(line("@ x\n"), Some(1));
        assert_eq!(line("@ 5\n~\\q\n"), Some(2));
        assert_eq!(line("@ 5\nhello\n"), Some(2));
    }
}
