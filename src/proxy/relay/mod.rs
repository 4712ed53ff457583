//! The short way: an HTTP/1.1 client and an HTTP/1.1 upstream, both sockets read and written in place by one task.
//!
//! Most of a streaming proxy's cost is the system calls and wake-ups per chunk. Here one read of the upstream becomes one write to
//! the client, with the chunk framing as it came, and the tap reads beside it. The relay understands plain requests only (see
//! [`head`]): at the first byte of anything else (HTTP/2, upgrades, expectations, chunked uploads, odd or malformed heads) it
//! hands the connection, with what it has read, to the full server and never sees it again.
//!
//! Invariants are those of the full path: bytes unchanged, nothing held back, a second send only of what was never sent, a broken
//! reply never looks whole, one record per request.

mod answer;
mod chunked;
pub(crate) mod fuzz;
mod head;
mod limits;
mod pending;
mod terms;
mod transfer;
mod upload;

use std::fmt;
use std::future::{Future, poll_fn};
use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use http::{Method, StatusCode};
use httparse::Header;
use tokio::io::{AsyncRead, AsyncWrite};

use self::answer::{linger, refuse};
use self::head::{Request, RequestHead};
use self::limits::Deadlines;
pub(in crate::proxy) use self::pending::poll_read_with;
use self::pending::{Pending, READ_SIZE};
use self::terms::{End, Overhead, Terms};
use self::transfer::Transfer;
use super::connection::ClientStream;
use super::counters::Counters;
use super::error::Refusal;
use super::pool::Pool;
use super::presence::Presence;
use super::upstream::{BoxIo, SendError, Upstream};
use crate::clock;
use crate::config::{self, Config, Protocol};
use crate::lifecycle::{Phase, PhaseWatch, Tracker};
use crate::measure::{Ending, Stamp};
use crate::observe::{Exchange, Observer, RequestTap};

/// What all connections share.
pub(in crate::proxy) struct Relay {
    observer: Arc<Observer>,
    server: Upstream,
    pool: Arc<Pool<BoxIo>>,
    upstream: config::Upstream,
    header_timeout: Duration,
    max_head: usize,
    max_fields: usize,
    half_close: bool,
    max_requests: Option<usize>,
    requests: Tracker,
    counters: Arc<Counters>,
}

impl fmt::Debug for Relay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Relay").finish_non_exhaustive()
    }
}

/// What became of a connection.
pub(in crate::proxy) enum Left<C> {
    /// It is done with.
    Closed,
    /// The full server must take it, beginning with these bytes.
    Full(C, Vec<u8>),
}

impl Relay {
    /// The relay for a checked configuration; none where every exchange needs the full server.
    pub(in crate::proxy) fn new(
        config: &Config,
        observer: &Arc<Observer>,
        upstream: &Upstream,
        requests: &Tracker,
        counters: &Arc<Counters>,
    ) -> Option<Self> {
        // TLS keeps bytes of its own that only a flush sends, which the relay never does.
        if !config.relay || config.upstream.protocol != Protocol::Http1 || config.upstream.tls.is_some() || config.inject_usage {
            return None;
        }
        Some(Self {
            observer: Arc::clone(observer),
            server: upstream.clone(),
            pool: Arc::new(Pool::new(config.upstream.pool_max_idle, config.upstream.pool_idle_timeout)),
            upstream: config.upstream.clone(),
            header_timeout: config.limits.header_timeout,
            max_head: config.limits.max_header_bytes,
            max_fields: config.limits.max_headers,
            half_close: config.half_close,
            max_requests: config.limits.max_requests,
            requests: requests.clone(),
            counters: Arc::clone(counters),
        })
    }

    /// Serves a client's connection for as long as its requests are plain, or until the phase ends it. `read` is what was read of
    /// it already.
    pub(in crate::proxy) async fn serve<C>(&self, mut client: C, mut read: Vec<u8>, phase: PhaseWatch) -> Left<C>
    where
        C: ClientStream,
    {
        let handed_on = {
            let serving = pin!(self.requests(&mut client, &mut read, &phase));
            phase.unless_reached(Phase::Stopped, serving).await
        };
        match handed_on {
            Some(true) => Left::Full(client, read),
            Some(false) | None => Left::Closed,
        }
    }

    /// One request after another. Must be polled after every change of the phase. Whether the full server must go on from here.
    async fn requests<C>(&self, client: &mut C, read: &mut Vec<u8>, phase: &PhaseWatch) -> bool
    where
        C: ClientStream,
    {
        loop {
            let parsed = {
                let mut next = pin!(self.next_head(client, read));
                // Looked at, not waited for: to register with the watch and leave it again is 500 instructions a request.
                poll_fn(|cx| match next.as_mut().poll(cx) {
                    Poll::Pending if phase.now() >= Phase::Closing => Poll::Ready(None),
                    parsed => parsed.map(Some),
                })
                .await
            };
            let (head, t0, mut observed) = match parsed {
                Some(Ok(Some(plain))) => plain,
                Some(Ok(None)) => return true,
                // The client left; or it is idle or within a head, which does not hold up a drain.
                Some(Err(_)) | None => return false,
            };
            let closing = phase.now() >= Phase::Closing;
            let let_in = self.requests.enter_within(self.max_requests);
            let kept = if let_in.is_some() {
                self.exchange(client, read, &head, t0, &mut observed, closing).await
            } else {
                turn_away(client, read, &head, &mut observed, closing).await
            };
            drop(observed);
            drop(let_in);
            if !kept {
                return false;
            }
        }
    }

    /// Reads up to a whole head. None: not a plain one. An error: the connection is over.
    async fn next_head<C>(&self, client: &mut C, read: &mut Vec<u8>) -> io::Result<Option<(RequestHead, Stamp, Exchange)>>
    where
        C: AsyncRead + Unpin,
    {
        let mut begun: Option<Stamp> = None;
        loop {
            if !read.is_empty() {
                let mut exchange = None;
                let parsed = head::request(read, |head, fields| {
                    // The full server answers one that is too large, and counts it.
                    if head.len <= self.max_head && fields.len() <= self.max_fields {
                        let t0 = clock::now();
                        exchange = Some((t0, self.begin(t0, read, head, fields)));
                    }
                });
                match parsed {
                    Request::Plain(head) => return Ok(exchange.map(|(t0, observed)| (head, t0, observed))),
                    Request::NotPlain => return Ok(None),
                    Request::Partial if read.len() > self.max_head => return Ok(None),
                    Request::Partial => {}
                }
            }
            let fresh = read.is_empty();
            let more = poll_fn(|cx| poll_read_with(client, cx, READ_SIZE, |_, bytes| read.extend_from_slice(bytes)));
            let more = if fresh {
                more.await?
            } else {
                // Only a head that has begun is held to the limit.
                let from = *begun.get_or_insert_with(clock::now);
                let left = self
                    .header_timeout
                    .saturating_sub(Duration::from_nanos(clock::now().since(from)));
                match tokio::time::timeout(left, more).await {
                    Ok(more) => more?,
                    Err(_) => {
                        self.counters.header_timeouts.add();
                        return Err(io::ErrorKind::TimedOut.into());
                    }
                }
            };
            if more.is_none() {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
    }

    fn begin(&self, t0: Stamp, read: &[u8], head: &RequestHead, fields: &[Header<'_>]) -> Exchange {
        // invariant: a plain head's method is one of seven tokens and its target is ASCII.
        let method = Method::from_bytes(&read[head.method.clone()]).unwrap_or_default();
        let target = std::str::from_utf8(&read[head.target.clone()]).unwrap_or("/");
        // A plain target has no fragment.
        let path = memchr::memchr(b'?', target.as_bytes()).map_or(target, |query| &target[..query]);
        self.observer.begin(t0, &method, path, fields)
    }

    /// One exchange. Whether the client's connection can serve another.
    async fn exchange<C>(
        &self,
        client: &mut C,
        read: &mut Vec<u8>,
        head: &RequestHead,
        t0: Stamp,
        observed: &mut Exchange,
        closing: bool,
    ) -> bool
    where
        C: ClientStream,
    {
        let tap = observed.request_tap();
        let is_head = &read[head.method.clone()] == b"HEAD";
        let ready = head.ready(read);
        tap.chunk(&read[head.len..head.len + ready]);
        let mut first = head.take(read, ready);
        let body_left = head.length - ready as u64;

        let close = head.close || closing;
        let deadlines = Deadlines::new(&self.upstream, t0);
        let spent = clock::now().since(t0);
        let (mut upstream, taken) = match self.connect(client, read, body_left, &tap, &first, &deadlines).await {
            Ok(connected) => connected,
            Err(Unsent::ClientGone) => {
                observed.finish(clock::now(), Ending::ClientGone);
                return false;
            }
            Err(Unsent::NoConnection(error)) => {
                if matches!(error, SendError::Unreachable(_)) {
                    self.counters.upstream_connect_errors.add();
                }
                return refuse(client, observed, &error, is_head, body_left > 0, close).await;
            }
        };
        first.drain(..taken);
        let terms = Terms {
            is_head,
            close,
            half_close: self.half_close,
            head: head::Limits {
                bytes: self.upstream.max_header_bytes,
                fields: self.upstream.max_headers,
            },
        };
        let up = Pending::new(first);
        let mut transfer = Transfer::new(
            client,
            &mut upstream,
            observed,
            tap,
            up,
            body_left,
            read,
            terms,
            deadlines,
            Overhead::new(&self.counters, spent),
        );
        let end = poll_fn(|cx| transfer.poll(cx)).await;
        let (body_left, close) = (transfer.body_left, transfer.terms.close);
        drop(transfer);
        match end {
            End::Complete { reusable } => {
                if reusable {
                    self.pool.put(upstream);
                } else {
                    drop(upstream);
                }
                if body_left > 0 {
                    Box::pin(linger(client)).await;
                }
                body_left == 0 && !close
            }
            End::ClientGone => {
                observed.finish(clock::now(), Ending::ClientGone);
                false
            }
            End::Aborted(ending) => {
                observed.finish(clock::now(), ending);
                false
            }
            End::NoHead(failure) => {
                drop(upstream);
                refuse(client, observed, &SendError::from(failure), is_head, body_left > 0, close).await
            }
        }
    }

    fn attempt(&self, tap: &RequestTap) {
        tap.attempt();
        self.counters.upstream_attempts.add();
    }

    /// A connection that took the first bytes of the request, and how many. A reused one that took none is replaced, once.
    async fn connect<C>(
        &self,
        client: &mut C,
        next: &mut Vec<u8>,
        body_left: u64,
        tap: &RequestTap,
        first: &[u8],
        deadlines: &Deadlines,
    ) -> Result<(BoxIo, usize), Unsent>
    where
        C: ClientStream,
    {
        if let Some(mut socket) = self.pool.take().await {
            self.attempt(tap);
            match poll_fn(|cx| Poll::Ready(std::pin::Pin::new(&mut socket).poll_write(cx, first))).await {
                Poll::Ready(Ok(taken)) if taken > 0 => return Ok((socket, taken)),
                Poll::Pending => return Ok((socket, 0)),
                // Nothing of it was taken: it was provably never sent.
                Poll::Ready(_) => {}
            }
        }
        let connecting = self.server.connect(deadlines.total_left());
        // Boxed: every exchange has room for this future, and few need it.
        let watched = Box::pin(async {
            tokio::select! {
                connected = connecting => Some(connected),
                () = gone(client, next, body_left > 0, self.half_close) => None,
            }
        });
        match watched.await {
            None => Err(Unsent::ClientGone),
            Some(Ok(socket)) => {
                self.attempt(tap);
                self.counters.upstream_connects.add();
                Ok((socket, 0))
            }
            Some(Err(error)) => Err(Unsent::NoConnection(error)),
        }
    }
}

enum Unsent {
    ClientGone,
    NoConnection(SendError),
}

/// Answers a request past `limits.max_requests`. Whether the connection can serve another.
async fn turn_away<C>(client: &mut C, read: &mut Vec<u8>, head: &RequestHead, observed: &mut Exchange, closing: bool) -> bool
where
    C: ClientStream,
{
    let is_head = &read[head.method.clone()] == b"HEAD";
    let ready = head.ready(read);
    drop(head.take(read, ready));
    let uploading = head.length > ready as u64;
    refuse(
        client,
        observed,
        Refusal::TooManyRequests,
        is_head,
        uploading,
        head.close || closing,
    )
    .await
}

/// Resolves when the client is gone. With `uploading` its bytes are the upload's business and are not read.
async fn gone<C: ClientStream>(client: &mut C, next: &mut Vec<u8>, uploading: bool, half_close: bool) {
    while !uploading && !half_close && next.len() < READ_SIZE {
        let read =
            poll_fn(|cx| poll_read_with(client, cx, READ_SIZE - next.len(), |_, bytes| next.extend_from_slice(bytes))).await;
        if !matches!(read, Ok(Some(()))) {
            return;
        }
    }
    let mut presence = Presence::default();
    poll_fn(|cx| presence.poll_gone(cx, client, !half_close)).await;
}

/// The final response head, as the observer takes it.
fn show_head(observed: &mut Exchange, at: Stamp, status: u16, fields: &[Header<'_>]) {
    let status = StatusCode::from_u16(status).unwrap_or(StatusCode::BAD_GATEWAY);
    observed.head(at, status, fields);
}
