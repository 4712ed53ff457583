//! The response body on its way down: the same frames, each shown to the exchange first.
//!
//! Exactly once: the exchange sits in one `Option` that every ending takes. It ends when the body has ended at construction, when it
//! says so after a data frame, with trailers or `None`, with an error, and with the drop (where the exchange finishes itself; so it
//! does outside, when there was never a head). When a client has seen the end of its body, the record exists.
//!
//! After an error of the upstream the client must be cut off, never given a clean end. But what came before it belongs to the
//! client: the error is held until hyper has written that.
//!
//! Fairness: a frame costs a unit of tokio's budget per [`BYTES_PER_UNIT`], so that a stream whose source and sink are always
//! ready lets others run.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use tokio::task::coop;

use super::client::{Client, UnderWay};
use super::counters::Counters;
use super::upstream;
use crate::clock;
use crate::lifecycle::Tracked;
use crate::measure::{Ending, Stamp};
use crate::observe::Exchange;

/// Body bytes that count as one step of a task (a task has 128 between two yields).
const BYTES_PER_UNIT: usize = 16 * 1024;

/// A frame that was there at once, this long after the one before was handed on, had been waiting for the client, ns.
const CLIENT_LIMITED_NS: u64 = 10_000_000;

/// A response body that knows when it was read.
pub(super) trait Stamped: Body<Data = Bytes> {
    /// When the read that brought the latest frame was taken from the socket.
    fn read_at(&self) -> Stamp;
    /// Whose fault an error is.
    fn ending(error: &Self::Error) -> Ending;
}

impl Stamped for upstream::Body {
    fn read_at(&self) -> Stamp {
        Self::read_at(self)
    }

    fn ending(error: &upstream::BodyError) -> Ending {
        error.ending()
    }
}

/// What must live until the reply's last byte: dropped, it takes the request off the counts, after its record was made.
#[derive(Debug)]
pub(super) struct Guards {
    pub(super) client: Arc<Client>,
    _under_way: UnderWay,
    _in_flight: Option<Tracked>,
}

impl Guards {
    /// One more request on `client`, counted by `in_flight`; none: it is only turned away.
    pub(super) fn new(client: &Arc<Client>, in_flight: Option<Tracked>) -> Self {
        Self {
            client: Arc::clone(client),
            _under_way: client.begin(),
            _in_flight: in_flight,
        }
    }
}

/// A metered response body.
pub(super) struct MeteredBody<B: Body> {
    body: B,
    exchange: Option<Exchange>,
    /// When the latest frame was handed on, if no poll has found the upstream empty since.
    handed: Option<Stamp>,
    /// The error held back, and whether an HTTP/2 connection was given its turn.
    failed: Option<B::Error>,
    yielded: bool,
    guards: Guards,
    counters: Arc<Counters>,
}

impl<B: Stamped> MeteredBody<B> {
    pub(super) fn new(body: B, exchange: Exchange, guards: Guards, counters: Arc<Counters>) -> Self {
        let mut this = Self {
            body,
            exchange: Some(exchange),
            handed: None,
            failed: None,
            yielded: false,
            guards,
            counters,
        };
        this.guards.client.hand();
        if this.body.is_end_stream() {
            this.finish(clock::now(), Ending::Complete);
        }
        this
    }

    fn finish(&mut self, at: Stamp, ending: Ending) {
        if let Some(mut exchange) = self.exchange.take() {
            exchange.finish(at, ending);
        }
    }

    fn data(&mut self, at: Stamp, bytes: &[u8]) {
        let Some(exchange) = &mut self.exchange else { return };
        if self.handed.is_some_and(|handed| at.since(handed) > CLIENT_LIMITED_NS) {
            exchange.client_limited();
        }
        exchange.chunk(at, bytes);
        if self.body.is_end_stream() {
            self.finish(at, Ending::Complete);
        }
        let now = clock::now();
        self.counters.overhead_chunk.record(now.since(at));
        self.handed = Some(now);
    }

    /// Gives the error once hyper has written what came before it.
    fn poll_failure(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        ready!(self.guards.client.poll_flushed(&mut self.yielded, cx));
        Poll::Ready(self.failed.take().map(Err))
    }
}

#[warn(clippy::missing_trait_methods)]
impl<B> Body for MeteredBody<B>
where
    B: Stamped + Unpin,
    B::Error: Unpin,
{
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        let this = self.get_mut();
        if this.failed.is_some() {
            return this.poll_failure(cx);
        }
        let step = ready!(coop::poll_proceed(cx));
        let Poll::Ready(item) = Pin::new(&mut this.body).poll_frame(cx) else {
            this.handed = None;
            return Poll::Pending;
        };
        step.made_progress();
        match item {
            Some(Ok(frame)) => {
                this.guards.client.hand();
                if let Some(bytes) = frame.data_ref() {
                    this.data(this.body.read_at(), bytes);
                    charge(cx, bytes.len());
                } else {
                    if let (Some(exchange), Some(trailers)) = (&mut this.exchange, frame.trailers_ref()) {
                        exchange.trailers(trailers);
                    }
                    this.finish(clock::now(), Ending::Complete);
                }
                Poll::Ready(Some(Ok(frame)))
            }
            None => {
                this.finish(clock::now(), Ending::Complete);
                Poll::Ready(None)
            }
            Some(Err(error)) => {
                this.finish(clock::now(), B::ending(&error));
                this.failed = Some(error);
                this.poll_failure(cx)
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.failed.is_none() && self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl<B: Body> fmt::Debug for MeteredBody<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MeteredBody")
            .field("open", &self.exchange.is_some())
            .finish_non_exhaustive()
    }
}

/// Takes the budget of a large frame; the frame itself goes on in any case.
fn charge(cx: &mut Context<'_>, bytes: usize) {
    for _ in 0..bytes / BYTES_PER_UNIT {
        match coop::poll_proceed(cx) {
            Poll::Ready(step) => step.made_progress(),
            Poll::Pending => return,
        }
    }
}

#[cfg(test)]
mod tests;
