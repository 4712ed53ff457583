//! Idle HTTP/1.1 connections, newest first. At most `max` are kept, each for at most `keep`: shorter than the server's own
//! keep-alive, so that a request does not meet a connection that is being closed. What has passed its time is closed by a reaper
//! task that lives only while there is something to close.

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

/// A connection between two exchanges.
pub(super) trait Kept: Send + 'static {
    /// Whether the server has neither closed it nor said anything out of turn. Never blocks.
    fn is_idle(&mut self, cx: &mut Context<'_>) -> bool;
}

impl Kept for Socket {
    fn is_idle(&mut self, cx: &mut Context<'_>) -> bool {
        let mut byte = [0u8; 1];
        Pin::new(self).poll_read(cx, &mut ReadBuf::new(&mut byte)).is_pending()
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
            let fresh = clock::now().since(since) < self.keep;
            if fresh && poll_fn(|cx| Poll::Ready(conn.is_idle(cx))).await {
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
