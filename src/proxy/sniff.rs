//! Which HTTP a client speaks, told from its first bytes: HTTP/2 with prior knowledge, or HTTP/1.
//!
//! A connection that sends nothing may stay (clients open them ahead of need), but never holds up a drain; one that sends a
//! part of the HTTP/2 preface and stops is held to the head's time limit.

use std::future::poll_fn;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::{Buf, Bytes};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::timeout;

use super::connection::ClientStream;
use super::relay::poll_read_with;

/// What an HTTP/2 connection begins with (RFC 9113 3.4).
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// First read: large enough that an ordinary request head comes whole.
const FIRST_READ: usize = 8 * 1024;

/// What a client speaks, with the bytes read to find out.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Sniffed {
    Http1(Bytes),
    Http2(Bytes),
    /// Gone without a byte.
    Nothing,
    /// It took too long over the preface.
    TooSlow,
}

/// Reads until the protocol is known. `limit` runs from the first byte.
pub(super) async fn sniff<I: AsyncRead + Unpin>(io: &mut I, limit: Duration) -> io::Result<Sniffed> {
    let mut bytes = Vec::new();
    if !read_on(io, &mut bytes).await? {
        return Ok(Sniffed::Nothing);
    }
    if is_open(&bytes) {
        let rest = async {
            while is_open(&bytes) && read_on(io, &mut bytes).await? {}
            Ok::<_, io::Error>(())
        };
        match timeout(limit, rest).await {
            Ok(done) => done?,
            Err(_) => return Ok(Sniffed::TooSlow),
        }
    }
    let http2 = bytes.starts_with(PREFACE);
    let bytes = Bytes::from(bytes);
    Ok(if http2 { Sniffed::Http2(bytes) } else { Sniffed::Http1(bytes) })
}

/// Reads once, through the thread's buffer: a connection that says nothing holds none of its own. Whether anything came.
async fn read_on<I: AsyncRead + Unpin>(io: &mut I, bytes: &mut Vec<u8>) -> io::Result<bool> {
    let read = poll_fn(|cx| poll_read_with(io, cx, FIRST_READ, |_, more| bytes.extend_from_slice(more)));
    Ok(read.await?.is_some())
}

/// More bytes are needed to tell.
fn is_open(bytes: &[u8]) -> bool {
    bytes.len() < PREFACE.len() && PREFACE.starts_with(bytes)
}

/// IO that gives `prefix` before what it reads.
#[derive(Debug)]
pub(super) struct Prefixed<I> {
    prefix: Bytes,
    io: I,
}

impl<I> Prefixed<I> {
    pub(super) fn new(prefix: Bytes, io: I) -> Self {
        Self { prefix, io }
    }

    pub(super) fn into_inner(self) -> I {
        self.io
    }
}

impl<I: ClientStream> ClientStream for Prefixed<I> {
    const UNBUFFERED: bool = I::UNBUFFERED;

    fn reset_on_close(&self) {
        self.io.reset_on_close();
    }

    fn is_gone(&self, fin: bool) -> bool {
        self.io.is_gone(fin)
    }
}

impl<I: AsyncRead + Unpin> AsyncRead for Prefixed<I> {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        if this.prefix.has_remaining() {
            let n = this.prefix.len().min(buf.remaining());
            buf.put_slice(&this.prefix.split_to(n));
            if this.prefix.is_empty() {
                // Lets the first read's buffer go.
                this.prefix = Bytes::new();
            }
            return Poll::Ready(Ok(()));
        }
        Pin::new(&mut this.io).poll_read(cx, buf)
    }
}

impl<I: AsyncWrite + Unpin> AsyncWrite for Prefixed<I> {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.get_mut().io).poll_write(cx, buf)
    }

    fn poll_write_vectored(self: Pin<&mut Self>, cx: &mut Context<'_>, bufs: &[IoSlice<'_>]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.get_mut().io).poll_write_vectored(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().io).poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().io).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    const LIMIT: Duration = Duration::from_secs(30);

    async fn sniffed(parts: &[&[u8]]) -> Sniffed {
        let (mut client, mut server) = tokio::io::duplex(1024);
        let task = tokio::spawn(async move { sniff(&mut server, LIMIT).await.unwrap() });
        for part in parts {
            client.write_all(part).await.unwrap();
            tokio::task::yield_now().await;
        }
        task.await.unwrap()
    }

    #[tokio::test(start_paused = true)]
    async fn the_protocol_is_known_at_the_first_byte_that_tells() {
        assert_eq!(sniffed(&[b"GET"]).await, Sniffed::Http1(Bytes::from_static(b"GET")));
        assert_eq!(sniffed(&[b"P", b"OS"]).await, Sniffed::Http1(Bytes::from_static(b"POS")));
        assert_eq!(sniffed(&[b"\r\n"]).await, Sniffed::Http1(Bytes::from_static(b"\r\n")));
        let whole = [&PREFACE[..10], &PREFACE[10..], b"more"].concat();
        assert_eq!(sniffed(&[&whole]).await, Sniffed::Http2(Bytes::from(whole.clone())));
        assert_eq!(
            sniffed(&[&PREFACE[..10], &PREFACE[10..]]).await,
            Sniffed::Http2(Bytes::from_static(PREFACE))
        );
    }

    #[tokio::test(start_paused = true)]
    async fn half_a_preface_is_cut_at_the_limit() {
        assert_eq!(sniffed(&[&PREFACE[..5]]).await, Sniffed::TooSlow);
    }

    #[tokio::test(start_paused = true)]
    async fn a_prefix_is_read_first() {
        let (mut client, server) = tokio::io::duplex(64);
        client.write_all(b"lo").await.unwrap();
        drop(client);
        let mut all = String::new();
        Prefixed::new(Bytes::from_static(b"hel"), server)
            .read_to_string(&mut all)
            .await
            .unwrap();
        assert_eq!(all, "hello");
    }
}
