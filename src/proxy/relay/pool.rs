//! Idle upstream connections of the relay, newest first: at most `max`, each for at most `keep`, as in [`super::super::upstream`],
//! but as bare sockets, since the relay reads and writes them itself.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, ReadBuf};

use crate::clock;
use crate::measure::Stamp;
use crate::proxy::upstream::BoxIo;

pub(super) struct Pool {
    max: usize,
    keep: u64,
    idle: Mutex<Idle>,
}

#[derive(Default)]
struct Idle {
    /// Oldest first, with the moment they went idle.
    sockets: VecDeque<(Stamp, BoxIo)>,
    reaping: bool,
}

impl Pool {
    pub(super) fn new(max: usize, keep: Duration) -> Self {
        Self {
            max,
            keep: u64::try_from(keep.as_nanos()).unwrap_or(u64::MAX),
            idle: Mutex::default(),
        }
    }

    /// The newest connection that the server has not closed. Those it has are dropped on the way.
    pub(super) async fn take(&self) -> Option<BoxIo> {
        loop {
            let (since, mut socket) = self.lock().sockets.pop_back()?;
            if clock::now().since(since) < self.keep && poll_fn(|cx| Poll::Ready(is_quiet(&mut socket, cx))).await {
                return Some(socket);
            }
        }
    }

    /// Keeps `socket`, which must be between two exchanges. At the cap the oldest one is closed.
    pub(super) fn put(self: &Arc<Self>, socket: BoxIo) {
        if self.max == 0 || self.keep == 0 {
            return;
        }
        let now = clock::now();
        let mut idle = self.lock();
        let surplus = if idle.sockets.len() >= self.max {
            idle.sockets.pop_front()
        } else {
            None
        };
        idle.sockets.push_back((now, socket));
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
            .sockets
            .iter()
            .take_while(|(since, _)| now.since(*since) >= self.keep)
            .count();
        let closing: Vec<_> = idle.sockets.drain(..expired).collect();
        let next = idle
            .sockets
            .front()
            .map(|(since, _)| Duration::from_nanos(since.plus(self.keep).since(now)));
        idle.reaping = next.is_some();
        drop(idle);
        drop(closing);
        next
    }

    fn lock(&self) -> MutexGuard<'_, Idle> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether the server has neither closed nor said anything out of turn.
fn is_quiet(socket: &mut BoxIo, cx: &mut Context<'_>) -> bool {
    let mut byte = [0u8; 1];
    Pin::new(socket).poll_read(cx, &mut ReadBuf::new(&mut byte)).is_pending()
}
