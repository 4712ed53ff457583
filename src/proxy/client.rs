//! One client connection: what its IO, its requests and its task tell each other, and the IO itself.
//!
//! Over HTTP/1.1 everything here is polled by one task, so relaxed atomics are enough; over HTTP/2 each request has a task of its
//! own, and only the counts are used.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::{Buf, Bytes};
use http::{HeaderMap, StatusCode};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Sleep, sleep};

use super::connection::ClientStream;
use super::counters::Counters;
use super::error;
use super::head_watch::HeadWatch;
use super::presence::Presence;

/// Most bytes of informational heads that wait for the client's socket; more are dropped and counted.
const INFORMATIONAL_CAP: usize = 16 * 1024;

/// What one client connection's parts share.
#[derive(Debug, Default)]
pub(super) struct Client {
    /// HTTP/2: requests share the connection.
    multiplexed: bool,
    /// Requests whose head was parsed so far.
    requests: AtomicUsize,
    /// Requests not yet answered to the last byte.
    under_way: AtomicUsize,
    /// hyper has begun to write a message's bytes and not yet written all it holds.
    writing: AtomicBool,
    /// Something was given to hyper that it has not written yet.
    handed: AtomicBool,
    /// The head just parsed had both framings.
    both_framings: AtomicBool,
    /// A request body was given up before its end: the connection cannot carry another request.
    upload_cut: AtomicBool,
    /// An HTTP/1.0 client, for which a clean close may be the end of a body.
    old: AtomicBool,
    /// It has become a tunnel: an end of the client's side is for the other end to see.
    tunnel: AtomicBool,
    informational: Mutex<Vec<u8>>,
    has_informational: AtomicBool,
}

/// A request under way on a connection.
#[derive(Debug)]
pub(super) struct UnderWay(Arc<Client>);

impl Client {
    /// An HTTP/2 client.
    pub(super) fn multiplexed() -> Self {
        Self {
            multiplexed: true,
            ..Self::default()
        }
    }

    /// A request's head was parsed.
    pub(super) fn begin(self: &Arc<Self>) -> UnderWay {
        self.requests.fetch_add(1, Relaxed);
        self.under_way.fetch_add(1, Relaxed);
        UnderWay(Arc::clone(self))
    }

    pub(super) fn has_begun(&self) -> bool {
        self.requests.load(Relaxed) > 0
    }

    /// Nothing to answer.
    pub(super) fn is_quiet(&self) -> bool {
        self.under_way.load(Relaxed) == 0
    }

    /// A head or frame goes to hyper now.
    pub(super) fn hand(&self) {
        self.handed.store(true, Relaxed);
    }

    /// hyper has written all it was given.
    pub(super) fn written(&self) {
        self.handed.store(false, Relaxed);
    }

    /// The socket took everything handed so far. An HTTP/2 connection writes when it likes and is always taken to have.
    fn is_flushed(&self) -> bool {
        self.multiplexed || !self.handed.load(Relaxed)
    }

    /// Whether an error may end the reply now: what came before it is with the socket. Over HTTP/2 that has had its turn
    /// (`yielded`); over HTTP/1.1 hyper flushes after a poll and then polls again, at once or when the socket takes more.
    pub(super) fn poll_flushed(&self, yielded: &mut bool, cx: &mut Context<'_>) -> Poll<()> {
        if self.is_flushed() && (!self.multiplexed || *yielded) {
            return Poll::Ready(());
        }
        if self.multiplexed {
            *yielded = true;
            cx.waker().wake_by_ref();
        }
        Poll::Pending
    }

    /// Whether the head just parsed had both framings; asking clears it.
    pub(super) fn take_both_framings(&self) -> bool {
        !self.multiplexed && self.both_framings.swap(false, Relaxed)
    }

    /// The request came from an HTTP/1.0 client.
    pub(super) fn mark_old(&self) {
        self.old.store(true, Relaxed);
    }

    pub(super) fn is_old(&self) -> bool {
        self.old.load(Relaxed)
    }

    /// The connection switches protocols.
    pub(super) fn mark_tunnel(&self) {
        self.tunnel.store(true, Relaxed);
    }

    pub(super) fn cut_upload(&self) {
        self.upload_cut.store(true, Relaxed);
    }

    pub(super) fn is_upload_cut(&self) -> bool {
        self.upload_cut.load(Relaxed)
    }

    /// Queues an informational head for the socket, ahead of whatever comes later. False when there is no room.
    pub(super) fn inform(&self, status: StatusCode, headers: &HeaderMap) -> bool {
        let mut head = Vec::with_capacity(256);
        head.extend_from_slice(b"HTTP/1.1 ");
        head.extend_from_slice(status.as_str().as_bytes());
        head.push(b' ');
        head.extend_from_slice(status.canonical_reason().unwrap_or_default().as_bytes());
        head.extend_from_slice(b"\r\n");
        for (name, value) in headers {
            head.extend_from_slice(name.as_str().as_bytes());
            head.extend_from_slice(b": ");
            head.extend_from_slice(value.as_bytes());
            head.extend_from_slice(b"\r\n");
        }
        head.extend_from_slice(b"\r\n");
        let mut queue = self.informational.lock().unwrap_or_else(PoisonError::into_inner);
        let fits = queue.len() + head.len() <= INFORMATIONAL_CAP;
        if fits {
            queue.extend_from_slice(&head);
            self.has_informational.store(true, Relaxed);
        }
        fits
    }

    fn take_informational(&self) -> Option<Bytes> {
        if !self.has_informational.swap(false, Relaxed) {
            return None;
        }
        let mut queue = self.informational.lock().unwrap_or_else(PoisonError::into_inner);
        Some(Bytes::from(std::mem::take(&mut *queue)))
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        self.0.under_way.fetch_sub(1, Relaxed);
    }
}

/// The connection's IO below hyper's HTTP/1 server: holds each head to its time limit from its first byte on, writes informational
/// heads where no message is cut by them, and the proxy's own reply where hyper refuses a head with a bare one.
pub(super) struct Http1Io<I> {
    io: I,
    client: Arc<Client>,
    counters: Arc<Counters>,
    watch: HeadWatch,
    head_limit: Duration,
    head_timer: Option<Pin<Box<Sleep>>>,
    /// An informational head being written.
    informing: Bytes,
    /// The rest of the proxy's own reply that goes out instead of what hyper is writing.
    instead: Bytes,
    /// An end of the client's side is its leaving.
    fin: bool,
    /// hyper waits for the client's next bytes, and so hears of its end.
    reading: bool,
    /// Asked where it does not.
    presence: Presence,
}

impl<I> Http1Io<I> {
    pub(super) fn new(io: I, client: Arc<Client>, counters: Arc<Counters>, head_limit: Duration, half_close: bool) -> Self {
        let watch = HeadWatch::default();
        Self {
            io,
            client,
            counters,
            watch,
            head_limit,
            head_timer: None,
            informing: Bytes::new(),
            instead: Bytes::new(),
            fin: !half_close,
            reading: false,
            presence: Presence::default(),
        }
    }

    pub(super) fn into_inner(self) -> I {
        self.io
    }

    fn arrived(&mut self, bytes: &[u8]) {
        if self.client.is_upload_cut() {
            self.watch.stop();
        } else if self.watch.is_after() && self.client.under_way.load(Relaxed) == 0 {
            self.watch.next();
        }
        if self.watch.is_after() {
            return;
        }
        if self.watch.feed(bytes) {
            self.client.both_framings.store(true, Relaxed);
        }
        if !self.watch.is_within() {
            self.head_timer = None;
        } else if self.head_timer.is_none() {
            self.head_timer = Some(Box::pin(sleep(self.head_limit)));
        }
    }
}

impl<I: AsyncWrite + Unpin> Http1Io<I> {
    /// Writes queued informational heads; only called when hyper has nothing unwritten.
    fn poll_inform(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        loop {
            while self.informing.has_remaining() {
                let written = ready!(Pin::new(&mut self.io).poll_write(cx, &self.informing))?;
                if written == 0 {
                    return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
                }
                self.informing.advance(written);
            }
            match self.client.take_informational() {
                Some(heads) => self.informing = heads,
                None => return Poll::Ready(Ok(())),
            }
        }
    }

    /// Before bytes of hyper's: whatever informs goes first, unless a message is half written.
    fn poll_before_write(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.client.writing.load(Relaxed) {
            return Poll::Ready(Ok(()));
        }
        ready!(self.poll_inform(cx))?;
        self.client.writing.store(true, Relaxed);
        Poll::Ready(Ok(()))
    }

    /// Writes the proxy's own reply, if `buf` is a refusal that hyper made by itself: of a reply it was handed, something would be
    /// unwritten. False: `buf` is to be written.
    fn poll_instead(&mut self, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<bool>> {
        if self.instead.is_empty() {
            // Nor may there be a request under way: what flows in a tunnel is nobody's reply.
            let its_own = self.client.is_flushed() && self.client.is_quiet();
            match error::instead_of(buf).filter(|_| its_own) {
                Some(reply) => self.instead = reply,
                None => return Poll::Ready(Ok(false)),
            }
        }
        while self.instead.has_remaining() {
            let written = ready!(Pin::new(&mut self.io).poll_write(cx, &self.instead))?;
            if written == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            self.instead.advance(written);
        }
        Poll::Ready(Ok(true))
    }
}

impl<I: ClientStream> Http1Io<I> {
    /// Ready when the client of a request under way is gone and hyper, which has no room for more of its bytes, does not read.
    fn poll_left(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if self.reading || self.client.is_quiet() || self.client.tunnel.load(Relaxed) {
            return Poll::Pending;
        }
        self.presence.poll_gone(cx, &mut self.io, self.fin)
    }
}

impl<I: AsyncRead + Unpin> AsyncRead for Http1Io<I> {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let before = buf.filled().len();
        this.reading = false;
        if let Poll::Ready(read) = Pin::new(&mut this.io).poll_read(cx, buf) {
            read?;
            this.arrived(&buf.filled()[before..]);
            return Poll::Ready(Ok(()));
        }
        this.reading = true;
        if let Some(timer) = &mut this.head_timer {
            ready!(timer.as_mut().poll(cx));
            this.head_timer = None;
            this.counters.header_timeouts.add();
            return Poll::Ready(Err(io::Error::new(
                io::ErrorKind::TimedOut,
                "request head not complete in time",
            )));
        }
        Poll::Pending
    }
}

impl<I: ClientStream> AsyncWrite for Http1Io<I> {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        ready!(this.poll_before_write(cx))?;
        if ready!(this.poll_instead(cx, buf))? {
            return Poll::Ready(Ok(buf.len()));
        }
        Pin::new(&mut this.io).poll_write(cx, buf)
    }

    fn poll_write_vectored(self: Pin<&mut Self>, cx: &mut Context<'_>, bufs: &[IoSlice<'_>]) -> Poll<io::Result<usize>> {
        if let [only] = bufs {
            return self.poll_write(cx, only);
        }
        let this = self.get_mut();
        ready!(this.poll_before_write(cx))?;
        Pin::new(&mut this.io).poll_write_vectored(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }

    /// hyper calls this when it has no unwritten byte, and in every turn of its loop while a request is being served.
    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        this.client.writing.store(false, Relaxed);
        this.client.written();
        ready!(this.poll_inform(cx))?;
        if this.poll_left(cx).is_ready() {
            return Poll::Ready(Err(io::ErrorKind::ConnectionReset.into()));
        }
        Pin::new(&mut this.io).poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().io).poll_shutdown(cx)
    }
}
