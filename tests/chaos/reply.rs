//! A response as it comes in, however it is framed.

use std::io;

use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;

/// A response so far.
#[derive(Debug, Default)]
pub struct Reply {
    pub status: u16,
    pub head: String,
    pub body: Vec<u8>,
    /// It ended the way HTTP/1.1 says.
    pub complete: bool,
}

impl Reply {
    /// Reads the next response; `seen` is asked after each read whether to go on. None: the connection ended before a head.
    pub async fn read(
        stream: &mut TcpStream,
        buf: &mut Vec<u8>,
        mut seen: impl FnMut(usize) -> bool,
    ) -> io::Result<Option<Self>> {
        let mut reply = Self::default();
        while reply.status < 200 {
            let Some(end) = buf.windows(4).position(|w| w == b"\r\n\r\n") else {
                if stream.read_buf(buf).await? == 0 {
                    return Ok(None);
                }
                continue;
            };
            reply.head = String::from_utf8_lossy(&buf[..end + 4]).to_ascii_lowercase();
            buf.drain(..end + 4);
            reply.status = reply.head.get(9..12).and_then(|s| s.parse().ok()).unwrap_or(999);
        }
        let length: Option<usize> = reply.field("content-length").and_then(|n| n.parse().ok());
        let chunked = reply.field("transfer-encoding").is_some();
        let mut at = 0;
        loop {
            if chunked {
                while let Some((data, after)) = chunk(&buf[at..]) {
                    let last = data.is_empty();
                    reply.body.extend_from_slice(data);
                    at = buf.len() - after;
                    if last {
                        buf.drain(..at);
                        reply.complete = true;
                        return Ok(Some(reply));
                    }
                }
            } else if let Some(length) = length.filter(|length| buf.len() >= *length) {
                reply.body = buf.drain(..length).collect();
                reply.complete = true;
                return Ok(Some(reply));
            }
            if !seen(reply.body.len().max(buf.len())) {
                return Ok(Some(reply));
            }
            // What came before a reset counts; so does that it was one.
            if !matches!(stream.read_buf(buf).await, Ok(n) if n > 0) {
                reply.complete = !chunked && length.is_none();
                if !chunked {
                    reply.body = std::mem::take(buf);
                }
                return Ok(Some(reply));
            }
        }
    }

    /// The value of field `name`, in lower case.
    pub fn field(&self, name: &str) -> Option<&str> {
        self.head.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "))
    }
}

/// The data of a whole chunk, empty for the last, and how many bytes follow it.
fn chunk(bytes: &[u8]) -> Option<(&[u8], usize)> {
    let line = bytes.windows(2).position(|w| w == b"\r\n")?;
    let size = std::str::from_utf8(&bytes[..line]).ok()?;
    let size = usize::from_str_radix(size, 16).expect("the proxy sends sound chunks");
    let rest = &bytes[line + 2..];
    let after = rest.get(size..size + 2)?;
    assert_eq!(after, b"\r\n", "the proxy sends sound chunks");
    Some((&rest[..size], rest.len() - size - 2))
}
