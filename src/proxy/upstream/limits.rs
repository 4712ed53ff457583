//! The proxy's own time limits of one exchange. With none configured nothing is armed; with some there is one timer, and it is
//! moved when it fires, not on every chunk.

use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::time::Sleep;

use super::error::Limit;
use super::marks::Marks;
use crate::clock;
use crate::config;
use crate::measure::Stamp;

/// How far the response has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Progress {
    /// No final head yet.
    Waiting,
    /// Head, but no byte of the body.
    Head,
    /// Body under way.
    Body,
}

pub(super) struct Limits {
    first_byte: Option<u64>,
    idle: Option<u64>,
    total: Option<u64>,
    started: Stamp,
    pub(super) progress: Progress,
    timer: Option<(Stamp, Pin<Box<Sleep>>)>,
}

impl Limits {
    pub(super) fn new(config: &config::Upstream, started: Stamp) -> Self {
        let nanos = |limit: Option<Duration>| limit.map(|d| u64::try_from(d.as_nanos()).unwrap_or(u64::MAX));
        Self {
            first_byte: nanos(config.first_byte_timeout),
            idle: nanos(config.idle_timeout),
            total: nanos(config.total_timeout),
            started,
            progress: Progress::Waiting,
            timer: None,
        }
    }

    /// When the exchange began.
    pub(super) const fn started(&self) -> Stamp {
        self.started
    }

    /// What is left of the total limit.
    pub(super) fn total_left(&self) -> Option<Duration> {
        self.total
            .map(|total| Duration::from_nanos(self.started.plus(total).since(clock::now())))
    }

    /// Resolves when a limit has passed. Call it after everything that could have moved the exchange on.
    pub(super) fn poll(&mut self, cx: &mut Context<'_>, marks: &Marks) -> Poll<Limit> {
        if self.first_byte.is_none() && self.idle.is_none() && self.total.is_none() {
            return Poll::Pending;
        }
        loop {
            let Some((due, limit)) = self.due(marks) else {
                return Poll::Pending;
            };
            let (armed, sleep) = match &mut self.timer {
                Some(timer) => timer,
                none => none.insert((due, sleep_until(due))),
            };
            if *armed > due {
                sleep.set(tokio::time::sleep(until(due)));
                *armed = due;
            }
            ready!(sleep.as_mut().poll(cx));
            if clock::now() >= due {
                return Poll::Ready(limit);
            }
            sleep.set(tokio::time::sleep(until(due)));
            *armed = due;
        }
    }

    /// The next limit to pass, as things stand.
    fn due(&self, marks: &Marks) -> Option<(Stamp, Limit)> {
        let total = self.total.map(|limit| (self.started.plus(limit), Limit::Total));
        let first = match (self.first_byte, marks.sent_at()) {
            (Some(limit), Some(sent)) if self.progress < Progress::Body => Some((sent.plus(limit), Limit::FirstByte)),
            _ => None,
        };
        let idle = match (self.idle, marks.read_at()) {
            (Some(limit), Some(read)) if self.progress > Progress::Waiting => Some((read.plus(limit), Limit::Idle)),
            _ => None,
        };
        [total, first, idle].into_iter().flatten().min_by_key(|(due, _)| *due)
    }
}

fn until(due: Stamp) -> Duration {
    Duration::from_nanos(due.since(clock::now()))
}

fn sleep_until(due: Stamp) -> Pin<Box<Sleep>> {
    Box::pin(tokio::time::sleep(until(due)))
}
