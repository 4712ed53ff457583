//! One exchange over two sockets in one task: the upload, the reply and the watch for the client's leaving are polled together.
//!
//! Whatever one read brought leaves in one write, chunk framing included, and is shown to the tap after that write (before it only
//! for the last bytes, so that the record exists when the client sees the end). One buffer per thread is read into; bytes stay with
//! a stream only while its peer is slow, at most [`READ_SIZE`] of them each way, and then nothing more is read: backpressure.

use std::cell::RefCell;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::Sleep;

use super::head::{self, BadHead, Framing};
use super::limits::Deadlines;
use crate::clock;
use crate::measure::{Ending, Stamp};
use crate::observe::{Exchange, RequestTap};
use crate::proxy::counters::Counters;
use crate::proxy::upstream::{BoxIo, Limit};

/// Most bytes of one read.
pub(super) const READ_SIZE: usize = 64 * 1024;

/// Reads handled in one poll before others get their turn.
const TURNS: usize = 16;

/// Most bytes of a next request kept while a reply is under way. Past it the client is no longer read, nor its leaving seen.
const PIPELINE_CAP: usize = 64 * 1024;

/// Empty buffers above this are given back, so that a quiet stream holds nothing.
const KEEP_CAPACITY: usize = 1024;

thread_local! {
    static READ: RefCell<Box<[u8]>> = RefCell::new(vec![0; READ_SIZE].into_boxed_slice());
}

/// How an exchange over the relay ended.
#[derive(Debug)]
pub(super) enum End {
    /// The reply is through. `reusable`: the upstream connection may serve again; `uploaded`: so may the client's.
    Complete { reusable: bool, uploaded: bool },
    /// The client is gone.
    ClientGone,
    /// Nothing reached the client yet: the proxy answers by itself.
    NoHead(Failure),
    /// The reply broke off: the client must see an aborted body.
    Aborted(Ending),
}

/// Why there is no reply to pass on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Failure {
    /// The connection ended before a head.
    Closed,
    /// What came is no response head.
    Head(BadHead),
    /// The head is larger than allowed.
    TooLarge,
    /// One of the proxy's limits.
    Timeout(Limit),
}

/// What the exchange must know of its request and of the configuration.
#[derive(Clone, Copy, Debug)]
pub(super) struct Terms {
    /// The request was HEAD.
    pub(super) is_head: bool,
    /// The client's connection closes after the reply.
    pub(super) close: bool,
    /// Serve on after the client's FIN.
    pub(super) half_close: bool,
    /// Largest response head.
    pub(super) max_head: usize,
    /// Most response fields.
    pub(super) max_fields: usize,
}

/// What the proxy itself adds.
#[derive(Debug)]
pub(super) struct Overhead<'a> {
    counters: &'a Counters,
    /// What the request cost before it went out, ns.
    spent: u64,
}

impl<'a> Overhead<'a> {
    pub(super) fn new(counters: &'a Counters, spent: u64) -> Self {
        Self { counters, spent }
    }

    fn head(&self, at: Stamp) {
        self.counters.overhead_request.record(self.spent + clock::now().since(at));
    }

    fn chunk(&self, at: Stamp) {
        self.counters.overhead_chunk.record(clock::now().since(at));
    }
}

/// The exchange under way.
pub(super) struct Transfer<'a, C> {
    pub(super) client: &'a mut C,
    pub(super) upstream: &'a mut BoxIo,
    pub(super) observed: &'a mut Exchange,
    pub(super) request_tap: RequestTap,
    /// Bytes for the upstream that its socket did not take yet.
    pub(super) up: Pending,
    /// Request body bytes still to be read from the client.
    pub(super) body_left: u64,
    /// Bytes read beyond the request: the next one.
    pub(super) next: &'a mut Vec<u8>,
    pub(super) terms: Terms,
    pub(super) deadlines: Deadlines,
    overhead: Overhead<'a>,
    timer: Option<Pin<Box<Sleep>>>,
    state: Reply,
    /// Bytes for the client that its socket did not take yet.
    down: Pending,
    sent: bool,
    /// The upstream takes no more of the request: what it says is still read.
    upload_broken: bool,
    client_fin: bool,
    /// Set once the reply is over; what is pending still goes out.
    over: Option<End>,
}

/// How far the reply is.
enum Reply {
    /// Bytes of an incomplete head.
    Head(Vec<u8>),
    Body {
        framing: Framing,
        reusable: bool,
    },
}

/// A buffer with a position; empty most of the time.
#[derive(Debug, Default)]
pub(super) struct Pending {
    bytes: Vec<u8>,
    from: usize,
}

impl Pending {
    pub(super) fn new(bytes: Vec<u8>) -> Self {
        Self { bytes, from: 0 }
    }

    fn is_empty(&self) -> bool {
        self.from == self.bytes.len()
    }

    fn push(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// Writes what is pending. Ready once nothing is.
    fn poll_flush<W: AsyncWrite + Unpin + ?Sized>(&mut self, cx: &mut Context<'_>, to: &mut W) -> Poll<std::io::Result<()>> {
        while !self.is_empty() {
            match Pin::new(&mut *to).poll_write(cx, &self.bytes[self.from..]) {
                Poll::Ready(Ok(0)) => return Poll::Ready(Err(std::io::ErrorKind::WriteZero.into())),
                Poll::Ready(Ok(n)) => self.from += n,
                Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
                Poll::Pending => return Poll::Pending,
            }
        }
        self.from = 0;
        if self.bytes.capacity() > KEEP_CAPACITY {
            self.bytes = Vec::new();
        } else {
            self.bytes.clear();
        }
        Poll::Ready(Ok(()))
    }

    /// Writes `bytes` behind what is pending and keeps what the socket does not take. The error is the socket's.
    fn write<W: AsyncWrite + Unpin + ?Sized>(&mut self, cx: &mut Context<'_>, to: &mut W, bytes: &[u8]) -> std::io::Result<()> {
        if self.is_empty() {
            let taken = match Pin::new(&mut *to).poll_write(cx, bytes) {
                Poll::Ready(written) => written?,
                Poll::Pending => 0,
            };
            self.push(&bytes[taken..]);
            return Ok(());
        }
        self.push(bytes);
        match self.poll_flush(cx, to) {
            Poll::Ready(flushed) => flushed,
            Poll::Pending => Ok(()),
        }
    }
}

/// Reads once into the thread's buffer and hands the bytes on; `Ready(Ok(None))` at the end of the stream.
pub(super) fn poll_read_with<R: AsyncRead + Unpin + ?Sized, T>(
    io: &mut R,
    cx: &mut Context<'_>,
    limit: usize,
    then: impl FnOnce(&mut Context<'_>, &[u8]) -> T,
) -> Poll<std::io::Result<Option<T>>> {
    READ.with_borrow_mut(|buffer| {
        let limit = limit.min(buffer.len());
        let mut read = ReadBuf::new(&mut buffer[..limit]);
        match Pin::new(io).poll_read(cx, &mut read) {
            Poll::Pending => Poll::Pending,
            Poll::Ready(Err(error)) => Poll::Ready(Err(error)),
            Poll::Ready(Ok(())) if read.filled().is_empty() => Poll::Ready(Ok(None)),
            Poll::Ready(Ok(())) => Poll::Ready(Ok(Some(then(cx, read.filled())))),
        }
    })
}

impl<'a, C: AsyncRead + AsyncWrite + Unpin> Transfer<'a, C> {
    #[expect(clippy::too_many_arguments, reason = "the parts of one exchange, named where it is made")]
    pub(super) fn new(
        client: &'a mut C,
        upstream: &'a mut BoxIo,
        observed: &'a mut Exchange,
        request_tap: RequestTap,
        up: Pending,
        body_left: u64,
        next: &'a mut Vec<u8>,
        terms: Terms,
        deadlines: Deadlines,
        overhead: Overhead<'a>,
    ) -> Self {
        Self {
            client,
            upstream,
            observed,
            request_tap,
            up,
            body_left,
            next,
            terms,
            deadlines,
            overhead,
            timer: None,
            state: Reply::Head(Vec::new()),
            down: Pending::default(),
            sent: false,
            upload_broken: false,
            client_fin: false,
            over: None,
        }
    }

    /// Moves the exchange on; ready once.
    pub(super) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<End> {
        for _ in 0..TURNS {
            if let Poll::Ready(limit) = self.deadlines.poll(&mut self.timer, cx) {
                return Poll::Ready(self.timed_out(limit));
            }
            let (mut moved, mut end) = self.poll_upload(cx);
            if end.is_none() {
                let down = self.poll_reply(cx);
                moved |= down.0;
                end = down.1;
            }
            if end.is_none() {
                let watch = self.poll_client(cx);
                moved |= watch.0;
                end = watch.1;
            }
            match end {
                Some(end) => return Poll::Ready(end),
                None if !moved => return Poll::Pending,
                None => {}
            }
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }

    fn timed_out(&mut self, limit: Limit) -> End {
        match self.state {
            Reply::Head(_) => End::NoHead(Failure::Timeout(limit)),
            Reply::Body { .. } => End::Aborted(Ending::Timeout),
        }
    }

    /// Sends what there is of the request.
    fn poll_upload(&mut self, cx: &mut Context<'_>) -> (bool, Option<End>) {
        if self.sent || self.upload_broken || self.over.is_some() {
            return (false, None);
        }
        match self.up.poll_flush(cx, &mut **self.upstream) {
            Poll::Pending => return (false, None),
            Poll::Ready(Err(_)) => {
                // An early reply (413) may be waiting to be read: it decides.
                self.upload_broken = true;
                return (true, None);
            }
            Poll::Ready(Ok(())) => {}
        }
        if self.body_left == 0 {
            self.sent = true;
            let now = clock::now();
            self.deadlines.sent(now);
            self.request_tap.sent(now);
            return (true, None);
        }
        let limit = usize::try_from(self.body_left).unwrap_or(READ_SIZE);
        let (up, upstream, tap) = (&mut self.up, &mut *self.upstream, &self.request_tap);
        let read = poll_read_with(self.client, cx, limit, |cx, bytes| {
            let written = up.write(cx, &mut **upstream, bytes);
            tap.chunk(bytes);
            (bytes.len(), written.is_ok())
        });
        match read {
            Poll::Pending => (false, None),
            Poll::Ready(Ok(Some((n, written)))) => {
                self.body_left -= n as u64;
                self.upload_broken = !written;
                (true, None)
            }
            // The request can never be completed.
            Poll::Ready(Ok(None) | Err(_)) => (true, Some(End::ClientGone)),
        }
    }

    /// Takes what there is of the reply.
    fn poll_reply(&mut self, cx: &mut Context<'_>) -> (bool, Option<End>) {
        match self.down.poll_flush(cx, self.client) {
            Poll::Pending => {
                self.observed.client_limited();
                return (false, None);
            }
            Poll::Ready(Err(_)) => return (true, Some(End::ClientGone)),
            Poll::Ready(Ok(())) => {}
        }
        if let Some(end) = self.over.take() {
            return (true, Some(end));
        }
        let mut upstream = std::mem::replace(self.upstream, Box::new(tokio::io::empty()));
        let read = poll_read_with(&mut *upstream, cx, READ_SIZE, |cx, bytes| {
            let at = clock::now();
            self.deadlines.read(at);
            let before_head = matches!(self.state, Reply::Head(_));
            let end = self.take(cx, at, bytes);
            if end.is_none() && matches!(self.state, Reply::Body { .. }) {
                if before_head {
                    self.overhead.head(at);
                } else {
                    self.overhead.chunk(at);
                }
            }
            end
        });
        *self.upstream = upstream;
        match read {
            Poll::Pending => (false, None),
            Poll::Ready(Ok(Some(end))) => (true, end),
            Poll::Ready(ended) => (true, self.upstream_ended(cx, ended.is_ok())),
        }
    }

    /// Bytes of the reply, read at `at`.
    fn take(&mut self, cx: &mut Context<'_>, at: Stamp, bytes: &[u8]) -> Option<End> {
        let Reply::Head(seen) = &mut self.state else {
            return self.body(cx, at, bytes);
        };
        if seen.is_empty() {
            return self.heads(cx, at, bytes);
        }
        let mut whole = std::mem::take(seen);
        whole.extend_from_slice(bytes);
        self.heads(cx, at, &whole)
    }

    /// As many heads as `bytes` begins with (informational ones come first), and what follows the last.
    fn heads(&mut self, cx: &mut Context<'_>, at: Stamp, mut bytes: &[u8]) -> Option<End> {
        loop {
            let (terms, observed, down) = (self.terms, &mut *self.observed, &mut self.down.bytes);
            let read = head::response(bytes, terms.is_head, terms.close, terms.max_fields, down, |status, fields| {
                if status >= 200 {
                    super::show_head(observed, at, status, fields);
                }
            });
            let head = match read {
                Ok(Some(head)) if head.len > terms.max_head => return Some(End::NoHead(Failure::TooLarge)),
                Ok(Some(head)) => head,
                Ok(None) if bytes.len() > terms.max_head => return Some(End::NoHead(Failure::TooLarge)),
                Ok(None) => {
                    self.state = Reply::Head(bytes.to_vec());
                    return None;
                }
                Err(bad) => return Some(End::NoHead(Failure::Head(bad))),
            };
            bytes = &bytes[head.len..];
            if head.status == 101 {
                // No upgrade was asked for.
                return Some(End::NoHead(Failure::Head(BadHead::Malformed)));
            }
            if head.status < 200 {
                if bytes.is_empty() {
                    self.state = Reply::Head(Vec::new());
                    return None;
                }
                continue;
            }
            self.state = Reply::Body {
                framing: head.framing,
                reusable: head.reusable,
            };
            if head.framing == Framing::None {
                return self.complete(cx, at, &[], bytes.is_empty());
            }
            return if bytes.is_empty() { None } else { self.body(cx, at, bytes) };
        }
    }

    /// Body bytes: passes them on as they are and shows the payload to the tap.
    fn body(&mut self, cx: &mut Context<'_>, at: Stamp, bytes: &[u8]) -> Option<End> {
        let Reply::Body { framing, .. } = &mut self.state else {
            return None;
        };
        match framing {
            Framing::None => None,
            Framing::Length(left) => {
                let take = usize::try_from(*left).unwrap_or(usize::MAX).min(bytes.len());
                *left -= take as u64;
                if *left == 0 {
                    self.observed.chunk(at, &bytes[..take]);
                    return self.complete(cx, at, &bytes[..take], take == bytes.len());
                }
                let written = self.down.write(cx, self.client, bytes);
                self.observed.chunk(at, bytes);
                written.err().map(|_| End::ClientGone)
            }
            Framing::Eof => {
                let mut framed = format!("{:x}\r\n", bytes.len()).into_bytes();
                framed.extend_from_slice(bytes);
                framed.extend_from_slice(b"\r\n");
                let written = self.down.write(cx, self.client, &framed);
                self.observed.chunk(at, bytes);
                written.err().map(|_| End::ClientGone)
            }
            Framing::Chunked(chunked) => {
                let mut ahead = *chunked;
                match ahead.feed(bytes, |_| {}) {
                    Ok(None) => {
                        let written = self.down.write(cx, self.client, bytes);
                        // The same bytes were sound a moment ago.
                        let _ = chunked.feed(bytes, |payload| self.observed.chunk(at, payload));
                        written.err().map(|_| End::ClientGone)
                    }
                    Ok(Some(end)) => {
                        let _ = chunked.feed(bytes, |payload| self.observed.chunk(at, payload));
                        self.complete(cx, at, &bytes[..end], end == bytes.len())
                    }
                    Err(bad) => {
                        let _ = chunked.feed(&bytes[..bad.at], |payload| self.observed.chunk(at, payload));
                        self.abort(cx, at, Ending::UpstreamReset, &bytes[..bad.at])
                    }
                }
            }
        }
    }

    /// The reply is whole with these last bytes; `clean` when nothing follows them.
    fn complete(&mut self, cx: &mut Context<'_>, at: Stamp, last: &[u8], clean: bool) -> Option<End> {
        self.observed.finish(at, Ending::Complete);
        let reusable = matches!(self.state, Reply::Body { reusable: true, .. }) && clean && self.sent;
        self.last(
            cx,
            End::Complete {
                reusable,
                uploaded: self.sent && !self.client_fin,
            },
            last,
        )
    }

    /// The reply broke off. What came before still goes to the client.
    fn abort(&mut self, cx: &mut Context<'_>, at: Stamp, ending: Ending, last: &[u8]) -> Option<End> {
        self.observed.finish(at, ending);
        self.last(cx, End::Aborted(ending), last)
    }

    fn last(&mut self, cx: &mut Context<'_>, end: End, bytes: &[u8]) -> Option<End> {
        if self.down.write(cx, self.client, bytes).is_err() {
            return Some(End::ClientGone);
        }
        if self.down.is_empty() {
            return Some(end);
        }
        self.over = Some(end);
        None
    }

    fn upstream_ended(&mut self, cx: &mut Context<'_>, orderly: bool) -> Option<End> {
        let at = clock::now();
        match &self.state {
            Reply::Head(_) => Some(End::NoHead(Failure::Closed)),
            Reply::Body {
                framing: Framing::Eof, ..
            } if orderly => self.complete(cx, at, b"0\r\n\r\n", false),
            Reply::Body { .. } => self.abort(cx, at, Ending::UpstreamReset, &[]),
        }
    }

    /// Watches for the client's leaving once its request is read, and keeps what it sends ahead.
    fn poll_client(&mut self, cx: &mut Context<'_>) -> (bool, Option<End>) {
        if self.body_left > 0 || self.client_fin || self.next.len() >= PIPELINE_CAP {
            return (false, None);
        }
        let next = &mut *self.next;
        match poll_read_with(self.client, cx, PIPELINE_CAP - next.len(), |_, bytes| {
            next.extend_from_slice(bytes)
        }) {
            Poll::Pending => (false, None),
            Poll::Ready(Ok(Some(()))) => (true, None),
            Poll::Ready(Ok(None)) if self.terms.half_close => {
                self.client_fin = true;
                (true, None)
            }
            Poll::Ready(Ok(None) | Err(_)) => (true, Some(End::ClientGone)),
        }
    }
}
