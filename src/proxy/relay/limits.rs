//! The optional time limits of one exchange over the relay, on one timer; without any limit there is no timer at all.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::time::{Sleep, sleep};

use crate::clock;
use crate::config;
use crate::measure::Stamp;
use crate::proxy::upstream::Limit;

/// The limits in force and the moments they count from.
#[derive(Clone, Copy, Debug)]
pub(super) struct Deadlines {
    first_byte: Option<Duration>,
    idle: Option<Duration>,
    total: Option<Duration>,
    t0: Stamp,
    sent: Option<Stamp>,
    /// The last read of the final head or its body.
    read: Option<Stamp>,
    /// Something of the body has come.
    begun: bool,
}

impl Deadlines {
    /// The configured limits for an exchange that began at `t0`.
    pub(super) fn new(config: &config::Upstream, t0: Stamp) -> Self {
        Self {
            first_byte: config.first_byte_timeout,
            idle: config.idle_timeout,
            total: config.total_timeout,
            t0,
            sent: None,
            read: None,
            begun: false,
        }
    }

    /// The request is out.
    pub(super) fn sent(&mut self, at: Stamp) {
        self.sent = Some(at);
    }

    /// The final head came at `at`.
    pub(super) fn head(&mut self, at: Stamp) {
        self.read = Some(at);
    }

    /// Something of the body came at `at`.
    pub(super) fn body(&mut self, at: Stamp) {
        self.read = Some(at);
        self.begun = true;
    }

    /// What is left of the limit of the whole exchange.
    pub(super) fn total_left(&self) -> Option<Duration> {
        let spent = Duration::from_nanos(clock::now().since(self.t0));
        self.total.map(|total| total.saturating_sub(spent))
    }

    /// The limit that passes first, and when. While the client takes nothing the upstream is not read, and not to blame.
    fn next(&self, client_limited: bool) -> Option<(Stamp, Limit)> {
        let at = |from: Option<Stamp>, limit: Option<Duration>, which| {
            let nanos = u64::try_from(limit?.as_nanos()).unwrap_or(u64::MAX);
            Some((from?.plus(nanos), which))
        };
        let of_upstream = |limit: Option<Duration>| limit.filter(|_| !client_limited);
        [
            at(
                self.sent,
                of_upstream(self.first_byte).filter(|_| !self.begun),
                Limit::FirstByte,
            ),
            at(self.read, of_upstream(self.idle), Limit::Idle),
            at(Some(self.t0), self.total, Limit::Total),
        ]
        .into_iter()
        .flatten()
        .min_by_key(|(when, _)| *when)
    }

    /// Ready with the limit that has passed; to be asked after everything that could have moved the exchange on. Registers for the
    /// next one.
    pub(super) fn poll(&self, timer: &mut Timer, client_limited: bool, cx: &mut Context<'_>) -> Poll<Limit> {
        let Some((when, limit)) = self.next(client_limited) else {
            return Poll::Pending;
        };
        // Every read moves the idle limit on, and setting a timer costs more than a chunk: one that is set for an earlier moment
        // wakes once in vain, and is set anew then.
        if timer.is_set(when, cx) {
            return Poll::Pending;
        }
        let left = Duration::from_nanos(when.since(clock::now()));
        if left.is_zero() || timer.set(when, left, cx) {
            return Poll::Ready(limit);
        }
        Poll::Pending
    }
}

/// The one timer of an exchange; costs nothing until it is set.
#[derive(Debug, Default)]
pub(super) struct Timer(Option<(Stamp, Pin<Box<Sleep>>)>);

impl Timer {
    /// Whether it will wake the task at `when` or before.
    fn is_set(&mut self, when: Stamp, cx: &mut Context<'_>) -> bool {
        match &mut self.0 {
            Some((set, sleep)) => *set <= when && sleep.as_mut().poll(cx).is_pending(),
            None => false,
        }
    }

    /// Sets it for `when`, which is `left` from now. Whether that has passed already.
    fn set(&mut self, when: Stamp, left: Duration, cx: &mut Context<'_>) -> bool {
        let (set, timer) = self.0.get_or_insert_with(|| (when, Box::pin(sleep(left))));
        if *set != when {
            *set = when;
            timer.set(sleep(left));
        }
        timer.as_mut().poll(cx).is_ready()
    }
}
