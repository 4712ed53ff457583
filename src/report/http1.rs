//! Takes the HTTP/1.1 framing off a recorded reply, read by read.

use crate::measure::profile::Read;

/// Most header fields of a recorded reply.
const MAX_HEADERS: usize = 100;

/// A reply without its framing.
#[derive(Debug)]
pub(super) struct Reply {
    /// Status of the final head.
    pub(super) status: u16,
    headers: Vec<(String, String)>,
    /// Body reads; a read that brought framing only is gone.
    pub(super) reads: Vec<Read>,
    /// When the body was over: its last byte, or the last read of the recording.
    pub(super) closed_ns: u64,
    /// The framing says the body is whole.
    pub(super) complete: bool,
    /// The body ends with the connection.
    pub(super) until_close: bool,
}

impl Reply {
    /// The value of header `name` (lower case).
    pub(super) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(n, _)| n == name).map(|(_, value)| value.as_str())
    }
}

/// Where the body's framing stands.
enum Body {
    /// `content-length`: bytes to come.
    Length(u64),
    /// Until the connection closes.
    Close,
    /// Chunked, at a chunk's head.
    ChunkHead(Vec<u8>),
    /// Chunked, bytes of this chunk (and its line end) to come.
    Chunk { data: u64, line_end: u64 },
    /// Over; trailers are skipped.
    Done,
}

/// The reply in `raw` reads from a socket.
pub(super) fn unframe(raw: &[Read]) -> Result<Reply, String> {
    let mut head = Vec::new();
    for (index, read) in raw.iter().enumerate() {
        head.extend_from_slice(&read.bytes);
        while let Some((status, headers, length)) = parse_head(&head)? {
            let rest = head.split_off(length);
            if !(100..200).contains(&status) {
                return body(status, headers, &rest, &raw[index..]);
            }
            head = rest;
        }
    }
    Err("the reply's head is not complete".into())
}

type Head = (u16, Vec<(String, String)>, usize);

fn parse_head(bytes: &[u8]) -> Result<Option<Head>, String> {
    let mut fields = [httparse::EMPTY_HEADER; MAX_HEADERS];
    let mut head = httparse::Response::new(&mut fields);
    match head.parse(bytes) {
        Err(e) => Err(format!("the reply's head is not HTTP/1.1 ({e})")),
        Ok(httparse::Status::Partial) => Ok(None),
        Ok(httparse::Status::Complete(length)) => {
            let field = |h: &httparse::Header<'_>| {
                (
                    h.name.to_ascii_lowercase(),
                    String::from_utf8_lossy(h.value).trim().to_owned(),
                )
            };
            Ok(Some((
                head.code.unwrap_or_default(),
                head.headers.iter().map(field).collect(),
                length,
            )))
        }
    }
}

/// `rest` is what followed the head in the first of `raw`.
fn body(status: u16, headers: Vec<(String, String)>, rest: &[u8], raw: &[Read]) -> Result<Reply, String> {
    let last = raw.last().map_or(0, |r| r.at_ns);
    let mut reply = Reply {
        status,
        headers,
        reads: Vec::new(),
        closed_ns: last,
        complete: false,
        until_close: false,
    };
    let mut framing = match (reply.header("transfer-encoding"), reply.header("content-length")) {
        (Some(coding), _) if coding.to_ascii_lowercase().ends_with("chunked") => Body::ChunkHead(Vec::new()),
        (_, Some(length)) => Body::Length(
            length
                .parse()
                .map_err(|_| format!("content-length `{length}` is not a number"))?,
        ),
        _ => Body::Close,
    };
    reply.until_close = matches!(framing, Body::Close);
    for (index, read) in raw.iter().enumerate() {
        let mut bytes = if index == 0 { rest } else { read.bytes.as_slice() };
        let mut data = Vec::new();
        while !bytes.is_empty() && !matches!(framing, Body::Done) {
            bytes = step(&mut framing, bytes, &mut data)?;
        }
        if !data.is_empty() {
            reply.reads.push(Read {
                at_ns: read.at_ns,
                bytes: data,
            });
        }
        if matches!(framing, Body::Done | Body::Length(0)) {
            reply.complete = true;
            reply.closed_ns = read.at_ns;
            break;
        }
    }
    Ok(reply)
}

/// Consumes a piece of `bytes`, returns the rest.
fn step<'a>(framing: &mut Body, bytes: &'a [u8], data: &mut Vec<u8>) -> Result<&'a [u8], String> {
    let take = |left: u64| usize::try_from(left).unwrap_or(usize::MAX).min(bytes.len());
    match framing {
        Body::Close => {
            data.extend_from_slice(bytes);
            Ok(&[])
        }
        Body::Length(0) | Body::Done => Ok(&[]),
        Body::Length(left) => {
            let n = take(*left);
            data.extend_from_slice(&bytes[..n]);
            *left -= n as u64;
            Ok(&bytes[n..])
        }
        Body::Chunk { data: 0, line_end } => {
            let n = take(*line_end);
            *line_end -= n as u64;
            if *line_end == 0 {
                *framing = Body::ChunkHead(Vec::new());
            }
            Ok(&bytes[n..])
        }
        Body::Chunk { data: left, .. } => {
            let n = take(*left);
            data.extend_from_slice(&bytes[..n]);
            *left -= n as u64;
            Ok(&bytes[n..])
        }
        Body::ChunkHead(line) => {
            let n = bytes.iter().position(|b| *b == b'\n').map_or(bytes.len(), |at| at + 1);
            line.extend_from_slice(&bytes[..n]);
            match httparse::parse_chunk_size(line) {
                Ok(httparse::Status::Partial) => {}
                Ok(httparse::Status::Complete((_, 0))) => *framing = Body::Done,
                Ok(httparse::Status::Complete((_, size))) => *framing = Body::Chunk { data: size, line_end: 2 },
                Err(_) => return Err("the reply's chunked framing is broken".into()),
            }
            Ok(&bytes[n..])
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn replay(whole: &[u8], cut: usize) -> Reply {
        let reads = whole.chunks(cut).enumerate().map(|(i, b)| Read {
            at_ns: i as u64,
            bytes: b.to_vec(),
        });
        unframe(&reads.collect::<Vec<_>>()).unwrap()
    }

    #[test]
    fn framing_comes_off_at_every_cut() {
        let chunked = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2;x=y\r\nde\r\n0\r\n\r\n";
        let length = b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 503 Busy\r\nContent-Length: 5\r\n\r\nabcdeHTTP";
        for cut in 1..=chunked.len() {
            for (whole, status) in [(chunked.as_slice(), 200), (length.as_slice(), 503)] {
                let reply = replay(whole, cut);
                assert_eq!(
                    reply.reads.iter().flat_map(|r| r.bytes.clone()).collect::<Vec<_>>(),
                    b"abcde",
                    "cut {cut}"
                );
                assert_eq!((reply.status, reply.complete), (status, true));
            }
        }
    }

    #[test]
    fn a_short_body_is_not_complete() {
        assert!(!replay(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nabc", 7).complete);
        let open = replay(b"HTTP/1.1 200 OK\r\n\r\nabc", 7);
        assert!(open.until_close && !open.complete);
    }

    #[test]
    fn what_is_not_http_is_an_error() {
        assert!(
            unframe(&[Read {
                at_ns: 0,
                bytes: b"hello there\r\n\r\n".to_vec()
            }])
            .is_err()
        );
        assert!(unframe(&[]).is_err());
    }
}
