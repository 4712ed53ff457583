//! From the end of one exchange to the beginning of the next: the client's connection waits for a request.

use std::future::{Future, poll_fn};
use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use http::Method;
use httparse::Header;
use tokio::io::AsyncRead;

use super::answer::{linger, refuse};
use super::head::{self, Request, RequestHead};
use super::pending::{READ_SIZE, poll_read_with};
use super::start::Unstarted;
use super::terms::End;
use super::transfer::Transfer;
use super::{Between, Relay, Step};
use crate::clock;
use crate::lifecycle::Phase;
use crate::measure::{Ending, Stamp};
use crate::observe::Exchange;
use crate::proxy::connection::ClientStream;
use crate::proxy::upstream::SendError;

impl Relay {
    /// Waits for a client's next request, of which `read` is there already, and begins to send it.
    pub(in crate::proxy) async fn next<C: ClientStream>(self: Arc<Self>, mut client: C, mut read: Vec<u8>) -> Step<C> {
        loop {
            let parsed = {
                let mut next = pin!(self.next_head(&mut client, &mut read));
                // Looked at, not waited for: to register with the watch and leave it again is 500 instructions a request.
                poll_fn(|cx| match next.as_mut().poll(cx) {
                    Poll::Pending if self.phase.now() >= Phase::Closing => Poll::Ready(None),
                    parsed => parsed.map(Some),
                })
                .await
            };
            let (head, t0, mut observed) = match parsed {
                Some(Ok(Some(plain))) => plain,
                Some(Ok(None)) => return Step::Http1(client, read.into()),
                // The client left; or it is idle or within a head, which does not hold up a drain.
                Some(Err(_)) | None => return Step::Closed,
            };
            match self.start(&mut client, &mut read, &head, t0, &mut observed).await {
                Ok(started) => return Step::Exchange(Transfer::new(client, read, observed, started, &self.counters)),
                Err(Unstarted { kept: true }) => {}
                Err(Unstarted { kept: false }) => return Step::Closed,
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

    /// Goes on behind an exchange that came to `end`; none: the connection is done with.
    pub(in crate::proxy) fn after<C: ClientStream>(self: &Arc<Self>, transfer: Transfer<C>, end: &End) -> Option<Between<C>> {
        let relay = Arc::clone(self);
        let Transfer {
            mut observed,
            let_in,
            upstream,
            mut client,
            next,
            body_left,
            terms,
            ..
        } = transfer;
        match *end {
            End::Complete { reusable } => {
                if reusable {
                    self.pool.put(upstream);
                } else {
                    drop(upstream);
                }
                if body_left > 0 {
                    return Some(Box::pin(async move {
                        linger(&mut client).await;
                        drop((observed, let_in));
                        Step::Closed
                    }));
                }
                // Before the close, if there is one: who sees it may come again at once, and must find a slot.
                drop((observed, let_in));
                (!terms.close).then(|| Box::pin(relay.next(client, next)) as Between<C>)
            }
            End::ClientGone => {
                observed.finish(clock::now(), Ending::ClientGone);
                drop((observed, let_in));
                None
            }
            End::Aborted(ending) => {
                observed.finish(clock::now(), ending);
                drop((observed, let_in));
                None
            }
            End::NoHead(failure) => {
                drop(upstream);
                Some(Box::pin(async move {
                    let error = SendError::from(failure);
                    let kept = refuse(&mut client, &mut observed, &error, terms.is_head, body_left > 0, terms.close).await;
                    drop((observed, let_in));
                    if kept { relay.next(client, next).await } else { Step::Closed }
                }))
            }
        }
    }
}
