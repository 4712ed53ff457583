//! Reads recorded streams: what came in which read, and when.
//!
//! - *JSON lines*: a `{"meta": {"path": …}}` line, then `{"t_ns": …, "b64": …}` per socket read (nanoseconds since the request
//!   began, raw HTTP/1.1 bytes with head and chunked framing), then `{"end": "eof" | "client_abort" | …}`.
//! - *`.stream`*: this project's fixtures, see `super::stream_file`.
//! - *Plain*: the body alone, as `curl -N` prints it. It has no times, so only counts can be explained.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

use super::{http1, stream_file};
use crate::measure::profile::{Api, Read, Recording};

/// The largest recording that is read, bytes.
pub const MAX_BYTES: usize = 256 << 20;

/// A recorded reply and what is known about it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Recorded {
    /// The stream.
    pub recording: Recording,
    /// Request path without query, when recorded.
    pub path: Option<String>,
    /// Status of the reply.
    pub status: Option<u16>,
    /// Content type of the reply.
    pub content_type: Option<String>,
    /// Content coding of the body, when it has one: then only the proxy's own reader can read it.
    pub content_encoding: Option<String>,
    /// Whether the recording has times; else every read stands at 0.
    pub timed: bool,
    /// Whether the body ended the way HTTP says it should.
    pub complete: bool,
    /// Whether it was the client that cut it off.
    pub client_left: bool,
}

impl Recorded {
    /// Says what the recording does not: the path of the request, which names the API.
    pub fn set_path(&mut self, path: &str) {
        let path = path.split('?').next().unwrap_or(path);
        self.recording.api = match path.ends_with("/completions") && !path.ends_with("/chat/completions") {
            true => Api::Completions,
            false => Api::Chat,
        };
        self.path = Some(path.to_owned());
    }

    /// By the path where there is one, else by what the events call themselves.
    pub(super) fn settle_api(&mut self, path: Option<&str>) {
        if let Some(path) = path {
            self.set_path(path);
        } else if self
            .recording
            .reads
            .iter()
            .any(|r| contains(&r.bytes, b"\"text_completion\""))
        {
            self.recording.api = Api::Completions;
        }
    }
}

/// Why a file is not a recording, where, and what to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordedError {
    /// Line of the file, from 1; none where the whole is meant.
    pub line: Option<usize>,
    /// What is wrong.
    pub what: String,
    /// How to mend it.
    pub mend: &'static str,
}

impl fmt::Display for RecordedError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(line) = self.line {
            write!(f, "line {line}: ")?;
        }
        write!(f, "{}; {}", self.what, self.mend)
    }
}

impl std::error::Error for RecordedError {}

pub(super) fn error(line: Option<usize>, what: impl Into<String>, mend: &'static str) -> RecordedError {
    RecordedError {
        line,
        what: what.into(),
        mend,
    }
}

/// Reads a recording in any of the formats above.
pub fn parse(bytes: &[u8]) -> Result<Recorded, RecordedError> {
    if bytes.trim_ascii().is_empty() {
        return Err(error(
            None,
            "the file is empty",
            "record a stream first, for example with `curl -N`",
        ));
    }
    if bytes.len() > MAX_BYTES {
        return Err(error(
            None,
            format!("the file is over {} MiB", MAX_BYTES >> 20),
            "cut it down to one reply",
        ));
    }
    let first = bytes.split(|b| *b == b'\n').next().unwrap_or_default();
    match serde_json::from_slice::<Value>(first) {
        Ok(line) if line.get("meta").is_some() || line.get("t_ns").is_some() => capture(bytes),
        _ if stream_file::is_one(bytes) => stream_file::parse(bytes),
        _ if bytes.starts_with(b"data:") || contains(bytes, b"\ndata:") => Ok(plain(bytes)),
        _ => Err(error(
            None,
            "neither JSON lines with `t_ns` and `b64`, nor a `.stream` file, nor an event stream with `data:`",
            "give a recording of a streamed reply",
        )),
    }
}

fn plain(bytes: &[u8]) -> Recorded {
    let recording = Recording {
        reads: vec![Read {
            at_ns: 0,
            bytes: bytes.to_vec(),
        }],
        ..Recording::default()
    };
    let mut recorded = Recorded {
        recording,
        complete: true,
        ..Recorded::default()
    };
    recorded.settle_api(None);
    recorded
}

fn capture(bytes: &[u8]) -> Result<Recorded, RecordedError> {
    const READ: &str = "a read is {\"t_ns\": nanoseconds, \"b64\": \"…\"}";
    let (mut raw, mut path, mut end) = (Vec::new(), None, None);
    for (index, line) in bytes.split(|b| *b == b'\n').enumerate() {
        let number = Some(index + 1);
        if line.trim_ascii().is_empty() {
            continue;
        }
        let line: Value = serde_json::from_slice(line).map_err(|e| error(number, format!("not JSON ({e})"), READ))?;
        if let Some(meta) = line.get("meta") {
            path = meta
                .get("path")
                .and_then(Value::as_str)
                .map(|p| p.split('?').next().unwrap_or(p).to_owned());
        } else if let Some(how) = line.get("end") {
            end = how.as_str().map(str::to_owned);
        } else {
            let at_ns = line
                .get("t_ns")
                .and_then(Value::as_u64)
                .ok_or_else(|| error(number, "no whole number `t_ns`", READ))?;
            let b64 = line
                .get("b64")
                .and_then(Value::as_str)
                .ok_or_else(|| error(number, "no string `b64`", READ))?;
            let bytes = STANDARD
                .decode(b64)
                .map_err(|e| error(number, format!("`b64` is not base64 ({e})"), READ))?;
            if raw.last().is_some_and(|last: &Read| last.at_ns > at_ns) {
                return Err(error(
                    number,
                    format!("`t_ns` {at_ns} lies before the read before it"),
                    "keep the reads in order",
                ));
            }
            raw.push(Read { at_ns, bytes });
        }
    }
    let reply = http1::unframe(&raw).map_err(|what| error(None, what, "record one HTTP/1.1 reply from its first byte"))?;
    let mut recorded = Recorded {
        status: Some(reply.status),
        content_type: reply.header("content-type").map(str::to_owned),
        content_encoding: reply.header("content-encoding").and_then(coded),
        complete: reply.complete || (reply.until_close && end.as_deref() == Some("eof")),
        client_left: end.as_deref() == Some("client_abort"),
        recording: Recording {
            api: Api::default(),
            reads: reply.reads,
            closed_ns: reply.closed_ns,
        },
        path: None,
        timed: true,
    };
    recorded.settle_api(path.as_deref());
    Ok(recorded)
}

/// A content coding that is one.
pub(super) fn coded(written: &str) -> Option<String> {
    (!written.eq_ignore_ascii_case("identity")).then(|| written.to_owned())
}

fn contains(bytes: &[u8], what: &[u8]) -> bool {
    memchr::memmem::find(bytes, what).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(at_ns: u64, bytes: &str) -> String {
        format!("{{\"t_ns\": {at_ns}, \"b64\": \"{}\"}}\n", STANDARD.encode(bytes))
    }

    #[test]
    fn a_capture_loses_head_and_chunked_framing_and_keeps_its_times() {
        let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n";
        let file = [
            "{\"meta\": {\"path\": \"/v1/completions?x=1\"}}\n".to_owned(),
            line(10, &format!("{head}6\r\nda")),
            line(20, "ta:1\r\n1\r\n2\r\n"),
            line(30, "0\r\n\r\n"),
            "{\"end\": \"eof\"}\n".to_owned(),
        ];
        let got = parse(file.concat().as_bytes()).unwrap();
        let read = |at_ns, s: &str| Read {
            at_ns,
            bytes: s.as_bytes().to_vec(),
        };
        assert_eq!(got.recording.reads, [read(10, "da"), read(20, "ta:12")]);
        assert_eq!((got.recording.closed_ns, got.recording.api), (30, Api::Completions));
        assert_eq!((got.status, got.timed, got.complete), (Some(200), true, true));
    }

    #[test]
    fn an_error_says_where_and_how_to_mend_it() {
        let file = format!("{{\"meta\": {{}}}}\n{}{{\"t_ns\": 5}}\n", line(10, "x"));
        let got = parse(file.as_bytes()).unwrap_err().to_string();
        assert_eq!(
            got,
            "line 3: no string `b64`; a read is {\"t_ns\": nanoseconds, \"b64\": \"…\"}"
        );
        let back = format!("{}{}", line(10, "x"), line(9, "y"));
        assert_eq!(parse(back.as_bytes()).unwrap_err().line, Some(2));
        assert!(parse(b" \n").unwrap_err().to_string().contains("empty"));
        assert!(parse(b"hello").is_err());
    }

    #[test]
    fn a_plain_event_stream_has_no_times() {
        let got = parse(b"data: {\"object\":\"text_completion\"}\n\n").unwrap();
        assert!(!got.timed);
        assert_eq!(got.recording.api, Api::Completions);
    }
}
