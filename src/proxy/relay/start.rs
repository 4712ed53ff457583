//! The beginning of an exchange: let in, connected, its first bytes sent.

use std::future::poll_fn;
use std::pin::Pin;
use std::task::Poll;

use tokio::io::AsyncWrite;

use super::Relay;
use super::answer::refuse;
use super::head::{self, RequestHead};
use super::limits::Deadlines;
use super::pending::{Pending, READ_SIZE, poll_read_with};
use super::terms::Terms;
use crate::clock;
use crate::lifecycle::{Phase, Tracked};
use crate::measure::{Ending, Stamp};
use crate::observe::{Exchange, RequestTap};
use crate::proxy::connection::ClientStream;
use crate::proxy::error::Refusal;
use crate::proxy::presence::Presence;
use crate::proxy::upstream::{SendError, Socket};

/// An exchange whose request is on its way.
pub(super) struct Started {
    pub(super) let_in: Tracked,
    pub(super) upstream: Socket,
    pub(super) request_tap: RequestTap,
    /// Bytes for the upstream that its socket did not take yet.
    pub(super) up: Pending,
    /// Request body bytes still to be read from the client.
    pub(super) body_left: u64,
    pub(super) terms: Terms,
    pub(super) deadlines: Deadlines,
    /// What the request cost before it went out, ns.
    pub(super) spent: u64,
}

/// An exchange that ended before it began: answered by the proxy, or left by the client.
pub(super) struct Unstarted {
    /// The client's connection can serve another request.
    pub(super) kept: bool,
}

impl Relay {
    /// Begins the exchange of `head`, of whose request `read` holds what is read.
    pub(super) async fn start<C: ClientStream>(
        &self,
        client: &mut C,
        read: &mut Vec<u8>,
        head: &RequestHead,
        t0: Stamp,
        observed: &mut Exchange,
    ) -> Result<Started, Unstarted> {
        let closing = self.phase.now() >= Phase::Closing;
        let is_head = &read[head.method.clone()] == b"HEAD";
        let close = head.close || closing;
        let ready = head.ready(read);
        let body_left = head.length - ready as u64;
        let Some(let_in) = self.requests.enter_within(self.max_requests) else {
            drop(head.take(read, ready));
            let kept = refuse(client, observed, Refusal::TooManyRequests, is_head, body_left > 0, close).await;
            return Err(Unstarted { kept });
        };

        let tap = observed.request_tap();
        tap.chunk(&read[head.len..head.len + ready]);
        let mut first = head.take(read, ready);

        let deadlines = Deadlines::new(&self.upstream, t0);
        let spent = clock::now().since(t0);
        let (upstream, taken) = match self.connect(client, read, body_left, &tap, &first, &deadlines).await {
            Ok(connected) => connected,
            Err(Unsent::ClientGone) => {
                observed.finish(clock::now(), Ending::ClientGone);
                return Err(Unstarted { kept: false });
            }
            Err(Unsent::NoConnection(error)) => {
                if matches!(error, SendError::Unreachable(_)) {
                    self.counters.upstream_connect_errors.add();
                }
                let kept = refuse(client, observed, &error, is_head, body_left > 0, close).await;
                return Err(Unstarted { kept });
            }
        };
        first.drain(..taken);
        Ok(Started {
            let_in,
            upstream,
            request_tap: tap,
            up: Pending::new(first),
            body_left,
            terms: Terms {
                is_head,
                close,
                half_close: self.half_close,
                one_worker: self.one_worker,
                head: head::Limits {
                    bytes: self.upstream.max_header_bytes,
                    fields: self.upstream.max_headers,
                },
            },
            deadlines,
            spent,
        })
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
    ) -> Result<(Socket, usize), Unsent>
    where
        C: ClientStream,
    {
        if let Some(mut socket) = self.pool.take().await {
            self.attempt(tap);
            match poll_fn(|cx| Poll::Ready(Pin::new(&mut socket).poll_write(cx, first))).await {
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
