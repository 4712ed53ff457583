//! Counts what is under way, and tells when nothing is.
//!
//! One atomic each way for a request or a connection; waiting costs something only while somebody waits (drain).

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::Notify;

/// A count of things under way, shared by all who add to it.
#[derive(Clone, Debug, Default)]
pub struct Tracker(Arc<Inner>);

#[derive(Debug, Default)]
struct Inner {
    count: AtomicUsize,
    empty: Notify,
}

/// One thing under way; its drop takes it off the count, whatever the reason.
#[derive(Debug)]
pub struct Tracked(Arc<Inner>);

impl Tracker {
    /// Adds one.
    pub fn enter(&self) -> Tracked {
        self.0.count.fetch_add(1, Ordering::Relaxed);
        Tracked(Arc::clone(&self.0))
    }

    /// Adds one unless `limit` are under way; without a limit always.
    pub fn enter_within(&self, limit: Option<usize>) -> Option<Tracked> {
        let Some(limit) = limit else {
            return Some(self.enter());
        };
        let one_more = |count| (count < limit).then_some(count + 1);
        let entered = self.0.count.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_more);
        entered.ok().map(|_| Tracked(Arc::clone(&self.0)))
    }

    /// How many are under way.
    pub fn count(&self) -> usize {
        self.0.count.load(Ordering::Acquire)
    }

    /// Resolves when nothing is under way, at once when nothing is now.
    pub async fn empty(&self) {
        loop {
            let notified = self.0.empty.notified();
            tokio::pin!(notified);
            // Registered before the look, so that a drop in between is not missed.
            notified.as_mut().enable();
            if self.count() == 0 {
                return;
            }
            notified.await;
        }
    }
}

impl Drop for Tracked {
    fn drop(&mut self) {
        if self.0.count.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.0.empty.notify_waiters();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn within_a_limit_as_many_are_let_in_and_a_refused_one_does_not_count() {
        let tracker = Tracker::default();
        let (a, _b) = (tracker.enter_within(Some(2)).unwrap(), tracker.enter_within(Some(2)).unwrap());
        assert!(tracker.enter_within(Some(2)).is_none());
        assert_eq!(tracker.count(), 2);
        drop(a);
        let _c = tracker.enter_within(Some(2)).unwrap();
        let _d = tracker.enter_within(None).unwrap();
        assert_eq!(tracker.count(), 3);
    }

    #[tokio::test(start_paused = true)]
    async fn empty_waits_for_the_last_guard() {
        let tracker = Tracker::default();
        let (a, b) = (tracker.enter(), tracker.enter());
        assert_eq!(tracker.count(), 2);
        let waiting = tokio::spawn({
            let tracker = tracker.clone();
            async move { tracker.empty().await }
        });
        tokio::task::yield_now().await;
        drop(a);
        tokio::task::yield_now().await;
        assert!(!waiting.is_finished());
        drop(b);
        waiting.await.unwrap();
        assert_eq!(tracker.count(), 0);
        tracker.empty().await;
    }
}
