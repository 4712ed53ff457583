//! A client that speaks raw bytes and stamps what it reads.

use goodput_proxy::clock;
use goodput_proxy::measure::Stamp;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::upstream::{Io, dechunk};

/// One connection to the proxy.
pub struct Client {
    io: Option<Box<dyn Io>>,
    buf: Vec<u8>,
    /// Every read so far: when, and how many bytes.
    pub reads: Vec<(Stamp, usize)>,
    raw: Vec<u8>,
}

/// A response as it came over the wire.
#[derive(Clone, Debug)]
pub struct Reply {
    /// The raw head with the empty line.
    pub head: String,
    /// The body without framing.
    pub body: Vec<u8>,
    /// Whether the body ended the way HTTP/1.1 says.
    pub complete: bool,
    /// The raw bytes after the head.
    pub raw_body: Vec<u8>,
}

impl Reply {
    /// The status code.
    pub fn status(&self) -> u16 {
        self.head
            .split(' ')
            .nth(1)
            .and_then(|s| s.get(..3))
            .and_then(|s| s.parse().ok())
            .expect("a status line")
    }

    /// Every value of header `name`, in order.
    pub fn headers(&self, name: &str) -> Vec<&str> {
        self.head
            .lines()
            .skip(1)
            .filter_map(|l| l.split_once(':'))
            .filter(|(n, _)| n.eq_ignore_ascii_case(name))
            .map(|(_, v)| v.trim())
            .collect()
    }

    /// The only value of header `name`.
    pub fn header(&self, name: &str) -> Option<&str> {
        let values = self.headers(name);
        (values.len() == 1).then(|| values[0])
    }

    /// The body as text.
    pub fn text(&self) -> String {
        String::from_utf8(self.body.clone()).expect("a UTF-8 body")
    }
}

impl Client {
    /// Speaks over `io`.
    pub fn new(io: Box<dyn Io>) -> Self {
        Self {
            io: Some(io),
            buf: Vec::new(),
            reads: Vec::new(),
            raw: Vec::new(),
        }
    }

    fn io(&mut self) -> &mut Box<dyn Io> {
        self.io.as_mut().expect("the connection is open")
    }

    /// Writes `bytes` in one write.
    pub async fn send(&mut self, bytes: impl AsRef<[u8]>) {
        self.io().write_all(bytes.as_ref()).await.expect("the proxy reads");
        self.io().flush().await.expect("the proxy reads");
    }

    /// Like [`Client::send`], when the proxy may have closed already.
    pub async fn try_send(&mut self, bytes: impl AsRef<[u8]>) -> std::io::Result<()> {
        self.io().write_all(bytes.as_ref()).await
    }

    /// Ends the write side.
    pub async fn fin(&mut self) {
        let _ = self.io().shutdown().await;
    }

    /// Leaves: with a reset where the transport knows one.
    pub fn reset(&mut self) {
        if let Some(mut io) = self.io.take() {
            io.abort();
        }
    }

    /// Reads once; 0 at the end, and also when the connection was reset.
    pub async fn read(&mut self) -> usize {
        let mut part = vec![0; 65536];
        let n = self.io().read(&mut part).await.unwrap_or(0);
        if n > 0 {
            self.reads.push((clock::now(), n));
            self.buf.extend_from_slice(&part[..n]);
            self.raw.extend_from_slice(&part[..n]);
        }
        n
    }

    /// Reads until `text` has come; panics at the end of the stream.
    pub async fn read_until(&mut self, text: &str) {
        while !self.buf.windows(text.len()).any(|w| w == text.as_bytes()) {
            assert!(
                self.read().await > 0,
                "ended before {text:?}: {:?}",
                String::from_utf8_lossy(&self.buf)
            );
        }
    }

    /// Drops up to `n` of the bytes read so far; gives how many.
    pub fn take(&mut self, n: usize) -> usize {
        let n = n.min(self.buf.len());
        self.buf.drain(..n);
        n
    }

    /// Everything read so far and not taken by a reply.
    pub fn seen(&self) -> &[u8] {
        &self.buf
    }

    /// The next response head; none when the connection ended before.
    pub async fn head(&mut self) -> Option<String> {
        loop {
            if let Some(end) = self.buf.windows(4).position(|w| w == b"\r\n\r\n") {
                let head: Vec<u8> = self.buf.drain(..end + 4).collect();
                return Some(String::from_utf8_lossy(&head).into_owned());
            }
            if self.read().await == 0 {
                return None;
            }
        }
    }

    /// The next whole response to a request that was not HEAD.
    pub async fn reply(&mut self) -> Reply {
        let head = self.head().await.expect("a response head");
        let mut reply = Reply {
            head,
            body: Vec::new(),
            complete: false,
            raw_body: Vec::new(),
        };
        let status = reply.status();
        if status < 200 || status == 204 || status == 304 {
            reply.complete = true;
            return reply;
        }
        let chunked = reply
            .headers("transfer-encoding")
            .iter()
            .any(|v| v.eq_ignore_ascii_case("chunked"));
        let length = reply.header("content-length").map(|v| v.parse::<usize>().expect("a number"));
        loop {
            if chunked {
                if let Some((body, used)) = dechunk(&self.buf) {
                    reply.body = body;
                    reply.raw_body = self.buf.drain(..used).collect();
                    reply.complete = true;
                    return reply;
                }
            } else if let Some(n) = length.filter(|n| self.buf.len() >= *n) {
                reply.body = self.buf.drain(..n).collect();
                reply.raw_body.clone_from(&reply.body);
                reply.complete = true;
                return reply;
            }
            if self.read().await == 0 {
                reply.raw_body = std::mem::take(&mut self.buf);
                reply.complete = !chunked && length.is_none();
                reply.body = if chunked {
                    partial_chunks(&reply.raw_body)
                } else {
                    reply.raw_body.clone()
                };
                return reply;
            }
        }
    }

    /// Reads a chunked body, whose head was taken already, to its end.
    pub async fn rest_of_stream(&mut self) -> Vec<u8> {
        loop {
            if let Some((body, used)) = dechunk(&self.buf) {
                self.buf.drain(..used);
                return body;
            }
            assert!(self.read().await > 0, "the stream ended early");
        }
    }

    /// Reads a chunked body to its end and gives its length; keeps none of it, for long ones.
    pub async fn rest_of_stream_len(&mut self) -> usize {
        let mut len = 0;
        loop {
            while let Some(line) = self.buf.windows(2).position(|w| w == b"\r\n") {
                let size = std::str::from_utf8(&self.buf[..line]).expect("a size line");
                let size = usize::from_str_radix(size, 16).expect("a size in hex");
                while self.buf.len() < line + size + 4 {
                    assert!(self.read().await > 0, "the stream ended early");
                }
                self.buf.drain(..line + size + 4);
                len += size;
                if size == 0 {
                    return len;
                }
            }
            assert!(self.read().await > 0, "the stream ended early");
        }
    }

    /// Sends one request and reads its reply.
    pub async fn call(&mut self, request: impl AsRef<[u8]>) -> Reply {
        self.send(request).await;
        self.reply().await
    }

    /// Reads `len` body bytes of a reply with a length, and drops them; gives how many came.
    pub async fn rest_len(&mut self, len: usize) -> usize {
        let mut got = self.take(len);
        while got < len && self.read().await > 0 {
            got += self.take(len - got);
        }
        got
    }

    /// Reads to the end of the connection, for `ms` milliseconds at most.
    pub async fn rest_within(&mut self, ms: u64) -> Vec<u8> {
        let _ = tokio::time::timeout(std::time::Duration::from_millis(ms), async { while self.read().await > 0 {} }).await;
        std::mem::take(&mut self.buf)
    }

    /// Reads to the end of the connection.
    pub async fn rest(&mut self) -> Vec<u8> {
        while self.read().await > 0 {}
        std::mem::take(&mut self.buf)
    }
}

/// A JSON POST with a length.
pub fn post(path: &str, body: &str) -> String {
    format!(
        "POST {path} HTTP/1.1\r\nHost: llm\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    )
}

/// A streaming chat request.
pub fn chat() -> String {
    post(
        "/v1/chat/completions",
        r#"{"model":"m","stream":true,"messages":[{"role":"user","content":"hi"}]}"#,
    )
}

/// What of a cut-off chunked body had come.
fn partial_chunks(raw: &[u8]) -> Vec<u8> {
    let mut whole = raw.to_vec();
    let mut body = Vec::new();
    loop {
        let Some(line) = whole.windows(2).position(|w| w == b"\r\n") else {
            return body;
        };
        let Ok(size) = usize::from_str_radix(std::str::from_utf8(&whole[..line]).unwrap_or("x").trim(), 16) else {
            return body;
        };
        let from = line + 2;
        let to = (from + size).min(whole.len());
        body.extend_from_slice(&whole[from..to]);
        if to < from + size || whole.len() < to + 2 {
            return body;
        }
        whole.drain(..to + 2);
    }
}
