//! Idle HTTP/1.1 connections, newest first. At most `max` are kept, each for at most `keep`: shorter than the server's own
//! keep-alive, so that a request does not meet a connection that is being closed. What has passed its time is closed by a reaper
//! task that lives only while there is something to close.
//!
//! A server that goes away closes them all, and the reactor hears of it in its next turn. A request that was put on such a connection
//! is lost when it cannot be sent twice, so whoever takes one that has lain for [`ASK_AFTER`] asks the system itself.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, ReadBuf};

use super::upstream::Socket;
use crate::clock;
use crate::measure::Stamp;

/// How long a connection lies before it is worth a system call to ask what became of it, ns: under load one is used again at once, and
/// what the reactor has not heard of it is younger than this.
const ASK_AFTER: u64 = 1_000_000;

/// A connection between two exchanges.
pub(super) trait Kept: Send + 'static {
    /// Whether the server has neither closed it nor said anything out of turn, as far as the reactor has heard or, with `ask`, the
    /// system knows. Never blocks.
    fn is_idle(&mut self, cx: &mut Context<'_>, ask: bool) -> bool;
}

impl Kept for Socket {
    fn is_idle(&mut self, cx: &mut Context<'_>, ask: bool) -> bool {
        let mut byte = [0u8; 1];
        let heard = Pin::new(&mut *self).poll_read(cx, &mut ReadBuf::new(&mut byte)).is_ready();
        !(heard || ask && self.has_news())
    }
}

pub(super) struct Pool<T> {
    max: usize,
    keep: u64,
    idle: Mutex<Idle<T>>,
}

struct Idle<T> {
    /// Oldest first, with the moment they went idle.
    conns: VecDeque<(Stamp, T)>,
    reaping: bool,
}

impl<T: Kept> Pool<T> {
    pub(super) fn new(max: usize, keep: Duration) -> Self {
        Self {
            max,
            keep: u64::try_from(keep.as_nanos()).unwrap_or(u64::MAX),
            idle: Mutex::new(Idle {
                conns: VecDeque::new(),
                reaping: false,
            }),
        }
    }

    /// The newest connection that is still good. Those that are not are closed on the way.
    pub(super) async fn take(&self) -> Option<T> {
        loop {
            let (since, mut conn) = self.lock().conns.pop_back()?;
            let lain = clock::now().since(since);
            let ask = lain >= ASK_AFTER;
            if lain < self.keep && poll_fn(|cx| Poll::Ready(conn.is_idle(cx, ask))).await {
                return Some(conn);
            }
        }
    }

    /// Keeps `conn`, which must be idle. At the cap the oldest one is closed.
    pub(super) fn put(self: &Arc<Self>, conn: T) {
        if self.max == 0 || self.keep == 0 {
            return;
        }
        let now = clock::now();
        let mut idle = self.lock();
        let surplus = if idle.conns.len() >= self.max {
            idle.conns.pop_front()
        } else {
            None
        };
        idle.conns.push_back((now, conn));
        let start_reaper = !std::mem::replace(&mut idle.reaping, true);
        drop(idle);
        drop(surplus);
        if start_reaper {
            let pool = Arc::downgrade(self);
            let mut next = Some(Duration::from_nanos(self.keep));
            tokio::spawn(async move {
                while let Some(wait) = next {
                    tokio::time::sleep(wait).await;
                    next = pool.upgrade().and_then(|pool| pool.reap());
                }
            });
        }
    }

    /// Closes what has passed its time. Gives the wait until there is more to do; none: nothing is left, and the reaper ends.
    fn reap(&self) -> Option<Duration> {
        let now = clock::now();
        let mut idle = self.lock();
        let expired = idle
            .conns
            .iter()
            .take_while(|(since, _)| now.since(*since) >= self.keep)
            .count();
        let closing: Vec<_> = idle.conns.drain(..expired).collect();
        let next = idle
            .conns
            .front()
            .map(|(since, _)| Duration::from_nanos(since.plus(self.keep).since(now)));
        idle.reaping = next.is_some();
        drop(idle);
        drop(closing);
        next
    }

    fn lock(&self) -> MutexGuard<'_, Idle<T>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.lock().conns.len()
    }
}

#[cfg(test)]
mod tests {
    use tokio::net::{TcpListener, TcpStream, UnixStream};

    use super::*;

    #[tokio::test]
    async fn a_connection_that_ended_since_the_reactor_last_looked_is_not_given_out() {
        for reset in [false, true] {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let address = listener.local_addr().unwrap();
            let (ours, theirs) = tokio::join!(TcpStream::connect(address), listener.accept());
            let (ours, (theirs, _)) = (ours.unwrap(), theirs.unwrap());
            let pool = Arc::new(Pool::new(1, Duration::from_secs(4)));
            pool.put(Socket::Tcp(ours));
            tokio::time::pause();
            tokio::time::advance(Duration::from_nanos(ASK_AFTER)).await;
            if reset {
                socket2::SockRef::from(&theirs).set_linger(Some(Duration::ZERO)).unwrap();
            }
            drop(theirs);
            // Nothing was awaited since, so only the system knows.
            assert!(pool.take().await.is_none(), "reset: {reset}");
            tokio::time::resume();
        }
    }

    #[tokio::test]
    async fn nor_is_one_over_a_unix_socket() {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let pool = Arc::new(Pool::new(1, Duration::from_secs(4)));
        pool.put(Socket::Unix(ours));
        tokio::time::pause();
        tokio::time::advance(Duration::from_nanos(ASK_AFTER)).await;
        drop(theirs);
        assert!(pool.take().await.is_none());
    }

    #[tokio::test]
    async fn a_connection_that_has_lain_quietly_is_given_out() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let ours = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let pool = Arc::new(Pool::new(1, Duration::from_secs(4)));
        pool.put(Socket::Tcp(ours));
        tokio::time::pause();
        tokio::time::advance(Duration::from_nanos(ASK_AFTER)).await;
        assert!(pool.take().await.is_some());
    }
}
