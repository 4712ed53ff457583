//! One exchange over two sockets in one task: the upload, the reply and the watch for the client's leaving are polled together.
//!
//! Whatever one read brought leaves in one write, chunk framing included, and is shown to the tap after that write (before it only
//! for the last bytes, so that the record exists when the client sees the end). One buffer per thread is read into; bytes stay with
//! a stream only while its peer is slow, at most one read's worth each way (a [`Portion`] up, [`READ_SIZE`] down), and then nothing
//! more is read: backpressure.

use std::cell::RefCell;
use std::ops::Range;
use std::sync::Arc;
use std::task::{Context, Poll};

use http::StatusCode;
use httparse::Header;
use tokio::task::coop;

use super::head::{self, BadHead, Framing};
use super::limits::{Deadlines, Timer};
use super::pending::{Pending, READ_SIZE, poll_read, poll_read_with, with_buffer};
use super::start::Started;
use super::terms::{End, Failure, Terms};
use super::upload::{Portion, UPLOAD_SHARE};
use crate::clock;
use crate::lifecycle::Tracked;
use crate::measure::{Ending, Stamp};
use crate::observe::{Exchange, RequestTap};
use crate::proxy::connection::ClientStream;
use crate::proxy::counters::Counters;
use crate::proxy::presence::Presence;
use crate::proxy::upstream::{Limit, Socket};

/// Reads handled in one poll before others get their turn.
const TURNS: usize = 16;

/// Most bytes of a next request kept while a reply is under way. Past it the client is no longer read; see [`Presence`].
const PIPELINE_CAP: usize = 64 * 1024;

thread_local! {
    /// Where the payload of one read of chunked coding lies: found before the bytes are passed on, shown to the tap behind that.
    /// One a thread; a read has at most one stretch for every six of its bytes.
    static STRETCHES: RefCell<Vec<Range<usize>>> = const { RefCell::new(Vec::new()) };
}

/// The exchange under way. It owns all that a chunk needs, in one place: what lies in places of its own is a cache miss each, for
/// every chunk of hundreds of streams. The fields are dropped in their order: the record exists before the sockets close.
pub(in crate::proxy) struct Transfer<C> {
    pub(super) observed: Exchange,
    pub(super) let_in: Tracked,
    pub(super) upstream: Socket,
    pub(super) client: C,
    pub(super) request_tap: RequestTap,
    /// Bytes for the upstream that its socket did not take yet.
    pub(super) up: Pending,
    /// Request body bytes still to be read from the client.
    pub(super) body_left: u64,
    /// Bytes read beyond the request: the next one.
    pub(super) next: Vec<u8>,
    pub(super) terms: Terms,
    pub(super) deadlines: Deadlines,
    /// What the request cost before it went out, ns.
    spent: u64,
    counters: Arc<Counters>,
    timer: Timer,
    state: Reply,
    /// Bytes for the client that its socket did not take yet.
    down: Pending,
    pub(super) sent: bool,
    /// The upstream takes no more of the request: what it says is still read.
    pub(super) upload_broken: bool,
    /// How much of the upload is read next.
    pub(super) portion: Portion,
    client_fin: bool,
    /// A read of the client was in vain, and nothing of it was asked since: its socket holds the waker.
    client_awaited: bool,
    presence: Presence,
    /// Set once the reply is over; what is pending still goes out.
    pub(super) over: Option<End>,
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

impl<C: ClientStream> Transfer<C> {
    pub(super) fn new(client: C, next: Vec<u8>, observed: Exchange, started: Started, counters: &Arc<Counters>) -> Self {
        Self {
            observed,
            let_in: started.let_in,
            upstream: started.upstream,
            client,
            request_tap: started.request_tap,
            up: started.up,
            body_left: started.body_left,
            next,
            terms: started.terms,
            deadlines: started.deadlines,
            spent: started.spent,
            counters: Arc::clone(counters),
            timer: Timer::default(),
            state: Reply::Head(Vec::new()),
            down: Pending::default(),
            sent: false,
            upload_broken: false,
            portion: Portion::default(),
            client_fin: false,
            client_awaited: false,
            presence: Presence::default(),
            over: None,
        }
    }

    /// Moves the exchange on; ready once.
    pub(in crate::proxy) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<End> {
        // Once asked in vain, the client's socket wakes the task by itself.
        let mut client_quiet = self.client_awaited && self.client.is_quiet();
        let body_left = self.body_left;
        for _ in 0..TURNS {
            let (mut moved, mut end) = self.poll_upload(cx);
            if end.is_none() {
                let down = self.poll_reply(cx);
                moved |= down.0;
                end = down.1;
            }
            if end.is_none() && !client_quiet {
                let watch = self.poll_client(cx);
                client_quiet = !watch.0 && self.body_left == 0;
                moved |= watch.0;
                end = watch.1;
            }
            match end {
                Some(end) => return Poll::Ready(end),
                None if !moved => return self.poll_limits(cx),
                None if body_left - self.body_left >= UPLOAD_SHARE => break,
                None => {}
            }
        }
        cx.waker().wake_by_ref();
        self.poll_limits(cx)
    }

    /// Ready when a limit has passed that the reply, if it is not through, was held to.
    fn poll_limits(&mut self, cx: &mut Context<'_>) -> Poll<End> {
        if self.over.is_some() {
            return Poll::Pending;
        }
        let client_limited = !self.down.is_empty();
        self.deadlines
            .poll(&mut self.timer, client_limited, cx)
            .map(|limit| self.timed_out(limit))
    }

    fn timed_out(&self, limit: Limit) -> End {
        match self.state {
            Reply::Head(_) if !self.down.is_partly_written() => End::NoHead(Failure::Timeout(limit)),
            // Also within an informational head: an answer of our own cannot follow half of one.
            Reply::Head(_) | Reply::Body { .. } => End::Aborted(Ending::Timeout),
        }
    }

    /// Takes what there is of the reply.
    fn poll_reply(&mut self, cx: &mut Context<'_>) -> (bool, Option<End>) {
        match self.down.poll_flush(cx, &mut self.client) {
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
        with_buffer(READ_SIZE, |buffer| match poll_read(&mut self.upstream, cx, buffer) {
            Poll::Pending => (false, None),
            Poll::Ready(Ok(Some(bytes))) => (true, self.read(cx, bytes)),
            Poll::Ready(ended) => (true, self.upstream_ended(cx, ended.is_ok())),
        })
    }

    /// Bytes of the reply, read just now.
    fn read(&mut self, cx: &mut Context<'_>, bytes: &[u8]) -> Option<End> {
        let at = clock::now();
        let before_head = matches!(self.state, Reply::Head(_));
        let end = self.take(cx, at, bytes);
        let handed_on = matches!(end, None | Some(End::Complete { .. } | End::Aborted(_)));
        if handed_on && matches!(self.state, Reply::Body { .. }) {
            let took = clock::now().since(at);
            if before_head {
                self.counters.overhead_request.record(self.spent + took);
            } else {
                self.counters.overhead_chunk.record(took);
            }
        }
        end
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
            let (terms, observed, down) = (self.terms, &mut self.observed, self.down.tail());
            // An early reply amid the upload: whatever becomes of it, the client is told that this connection carries no other
            // request. One that is read whole but not sent on whole costs the upstream's connection only.
            let close = terms.close || self.body_left > 0;
            let read = head::response(bytes, terms.is_head, close, terms.head, down, |status, fields| {
                if status >= 200 {
                    show_head(observed, at, status, fields);
                }
            });
            let head = match read {
                Ok(Some(head)) => head,
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
            self.terms.close = close;
            self.state = Reply::Body {
                framing: head.framing,
                reusable: head.reusable,
            };
            self.deadlines.head(at);
            if head.framing == Framing::None {
                return self.complete(cx, at, &[], bytes.is_empty());
            }
            return if bytes.is_empty() { None } else { self.body(cx, at, bytes) };
        }
    }

    /// Body bytes: passes them on as they are and shows the payload to the tap.
    fn body(&mut self, cx: &mut Context<'_>, at: Stamp, bytes: &[u8]) -> Option<End> {
        self.deadlines.body(at);
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
                let written = self.down.write(cx, &mut self.client, bytes);
                self.observed.chunk(at, bytes);
                written.err().map(|_| End::ClientGone)
            }
            Framing::Eof => {
                let mut framed = format!("{:x}\r\n", bytes.len()).into_bytes();
                framed.extend_from_slice(bytes);
                framed.extend_from_slice(b"\r\n");
                let written = self.down.write(cx, &mut self.client, &framed);
                self.observed.chunk(at, bytes);
                written.err().map(|_| End::ClientGone)
            }
            Framing::Chunked(_) => self.chunked(cx, at, bytes),
        }
    }

    fn chunked(&mut self, cx: &mut Context<'_>, at: Stamp, bytes: &[u8]) -> Option<End> {
        STRETCHES.with_borrow_mut(|stretches| {
            let Reply::Body {
                framing: Framing::Chunked(chunked),
                ..
            } = &mut self.state
            else {
                return None;
            };
            stretches.clear();
            let fed = chunked.feed(bytes, |stretch| stretches.push(stretch));
            let payload = stretches.iter().map(|stretch| &bytes[stretch.clone()]);
            match fed {
                Ok(None) => {
                    let written = self.down.write(cx, &mut self.client, bytes);
                    self.observed.chunks(at, payload);
                    written.err().map(|_| End::ClientGone)
                }
                Ok(Some(end)) => {
                    self.observed.chunks(at, payload);
                    self.complete(cx, at, &bytes[..end], end == bytes.len())
                }
                Err(bad) => {
                    self.observed.chunks(at, payload);
                    self.abort(cx, at, Ending::UpstreamReset, &bytes[..bad.at])
                }
            }
        })
    }

    /// The reply is whole with these last bytes; `clean` when nothing follows them.
    fn complete(&mut self, cx: &mut Context<'_>, at: Stamp, last: &[u8], clean: bool) -> Option<End> {
        self.observed.finish(at, Ending::Complete);
        let reusable = matches!(self.state, Reply::Body { reusable: true, .. }) && clean && self.sent;
        self.last(cx, End::Complete { reusable }, last)
    }

    /// The reply broke off. What came before still goes to the client.
    fn abort(&mut self, cx: &mut Context<'_>, at: Stamp, ending: Ending, last: &[u8]) -> Option<End> {
        self.observed.finish(at, ending);
        self.last(cx, End::Aborted(ending), last)
    }

    fn last(&mut self, cx: &mut Context<'_>, end: End, bytes: &[u8]) -> Option<End> {
        if self.down.write(cx, &mut self.client, bytes).is_err() {
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
        if self.client_fin {
            return (false, None);
        }
        let held_back = !self.up.is_empty() || self.upload_broken;
        if self.next.len() >= PIPELINE_CAP || (self.body_left > 0 && held_back) {
            let gone = self
                .presence
                .poll_gone(cx, &mut self.client, !self.terms.half_close)
                .is_ready();
            return (gone, gone.then_some(End::ClientGone));
        }
        if self.body_left > 0 {
            // The upload reads.
            return (false, None);
        }
        let next = &mut self.next;
        let read = poll_read_with(&mut self.client, cx, PIPELINE_CAP - next.len(), |_, bytes| {
            next.extend_from_slice(bytes);
        });
        // A task that has used up its turn is told to come again without a look at the socket. And of several workers another one
        // may have the wake-up for what was just read still to give: it would take the waker left here with it.
        self.client_awaited = self.terms.one_worker && read.is_pending() && coop::has_budget_remaining();
        match read {
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

/// The final response head, as the observer takes it.
fn show_head(observed: &mut Exchange, at: Stamp, status: u16, fields: &[Header<'_>]) {
    let status = StatusCode::from_u16(status).unwrap_or(StatusCode::BAD_GATEWAY);
    observed.head(at, status, fields);
}
