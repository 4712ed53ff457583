//! The life of the process as one value that everyone can watch.

pub mod descriptors;
mod shutdown;
pub mod signal;
mod tracker;

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::sync::watch;
use tokio::task::coop;

pub use shutdown::{Exit, Shutdown, UnderWay, run};
pub use tracker::{Tracked, Tracker};

/// Where the process is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Phase {
    /// Not yet serving.
    Starting,
    /// Serving.
    Ready,
    /// Readiness is gone, still serving, so that load balancers notice.
    Draining,
    /// No new connections; only what is under way is finished.
    Closing,
    /// The deadline passed or a second signal came: what is left is cut.
    Stopped,
}

/// A cheap view of the present [`Phase`].
#[derive(Clone, Debug)]
pub struct PhaseWatch(watch::Receiver<Phase>);

impl PhaseWatch {
    /// The present phase.
    pub fn now(&self) -> Phase {
        *self.0.borrow()
    }

    /// Resolves once `phase` (or a later one) is reached; never, when the process ends before.
    pub async fn reached(&mut self, phase: Phase) {
        // An error means the sender is gone, and the process with it.
        if self.0.wait_for(|p| *p as u8 >= phase as u8).await.is_err() {
            std::future::pending::<()>().await;
        }
    }

    /// For work that goes on until `phase` is reached.
    pub fn until(&self, phase: Phase) -> Until {
        let (mut watch, mut seen) = (self.clone(), self.clone());
        seen.0.mark_unchanged();
        Until {
            seen,
            waits: false,
            over: false,
            reached: Box::pin(async move { watch.reached(phase).await }),
        }
    }
}

/// The end that a phase puts to work. For work that wakes often: a wake-up costs one look at the watch's version instead of its
/// lock (4 % of the instructions of a relayed chunk).
pub struct Until {
    seen: PhaseWatch,
    /// It has been asked once, and wakes the task.
    waits: bool,
    /// It has come.
    over: bool,
    reached: Pin<Box<dyn Future<Output = ()> + Send>>,
}

impl Until {
    /// What `work` gives, or none when the phase is reached first; `work` goes first when both are ready. It is polled after every
    /// change of the phase, whichever. One piece of work may follow another. To be polled by one task only.
    pub fn poll<T>(&mut self, cx: &mut Context<'_>, work: impl FnOnce(&mut Context<'_>) -> Poll<T>) -> Poll<Option<T>> {
        // The first time before `work` looks at the phase, so that no change after that look goes without a wake-up.
        let first = !self.waits;
        if first {
            self.ask(cx);
        }
        if let Poll::Ready(done) = work(cx) {
            return Poll::Ready(Some(done));
        }
        // It waits with this task's waker, which stays the same: until something has changed it has nothing new to say.
        if !first && self.seen.0.has_changed().unwrap_or(true) {
            self.ask(cx);
        }
        if self.over { Poll::Ready(None) } else { Poll::Pending }
    }

    fn ask(&mut self, cx: &mut Context<'_>) {
        // Once it has come it must not be asked again. A task that has used up its turn is told to come again, and nothing waits.
        self.over = self.over || self.reached.as_mut().poll(cx).is_ready();
        self.waits = self.waits || coop::has_budget_remaining();
    }
}

impl fmt::Debug for Until {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Until").finish_non_exhaustive()
    }
}

/// The one place that moves the phase on.
#[derive(Clone, Debug)]
pub struct Lifecycle(watch::Sender<Phase>);

impl Lifecycle {
    /// Begins in [`Phase::Starting`].
    pub fn new() -> Self {
        Self(watch::Sender::new(Phase::Starting))
    }

    /// A view for one more reader.
    pub fn watch(&self) -> PhaseWatch {
        PhaseWatch(self.0.subscribe())
    }

    /// Moves on to `phase`; going back is ignored.
    pub fn advance(&self, phase: Phase) {
        self.0.send_if_modified(|now| {
            let later = phase as u8 > *now as u8;
            if later {
                *now = phase;
            }
            later
        });
    }
}

impl Default for Lifecycle {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use std::future::{pending, poll_fn};
    use std::pin::pin;

    use super::*;

    async fn unless_stopped<T>(watch: &PhaseWatch, mut work: Pin<&mut impl Future<Output = T>>) -> Option<T> {
        let mut until = watch.until(Phase::Stopped);
        poll_fn(|cx| until.poll(cx, |cx| work.as_mut().poll(cx))).await
    }

    #[tokio::test]
    async fn work_goes_on_until_the_phase_is_reached() {
        let lifecycle = Lifecycle::new();
        let watch = lifecycle.watch();
        let mut polls = 0;
        let mut work = pin!(poll_fn(|cx| {
            polls += 1;
            match polls {
                1 => lifecycle.advance(Phase::Ready),
                2 => lifecycle.advance(Phase::Closing),
                3 => lifecycle.advance(Phase::Stopped),
                _ => {}
            }
            cx.waker().wake_by_ref();
            Poll::<()>::Pending
        }));
        assert_eq!(unless_stopped(&watch, work.as_mut()).await, None);
        assert_eq!(polls, 3);
    }

    #[tokio::test]
    async fn a_phase_reached_wakes_work_that_never_does() {
        let lifecycle = Lifecycle::new();
        let watch = lifecycle.watch();
        let stopping = async {
            tokio::task::yield_now().await;
            lifecycle.advance(Phase::Stopped);
        };
        let work = pin!(pending::<()>());
        let (cut, ()) = tokio::join!(unless_stopped(&watch, work), stopping);
        assert_eq!(cut, None);
    }

    #[tokio::test]
    async fn work_that_is_ready_goes_before_the_phase() {
        let lifecycle = Lifecycle::new();
        lifecycle.advance(Phase::Stopped);
        let done = unless_stopped(&lifecycle.watch(), pin!(async { 7 })).await;
        assert_eq!(done, Some(7));
    }

    #[tokio::test]
    async fn work_behind_work_that_was_ready_is_cut_all_the_same() {
        for before_the_view in [true, false] {
            let lifecycle = Lifecycle::new();
            let stop = |now: bool| now.then(|| lifecycle.advance(Phase::Stopped));
            stop(before_the_view);
            let mut until = lifecycle.watch().until(Phase::Stopped);
            stop(!before_the_view);
            assert_eq!(poll_fn(|cx| until.poll(cx, |_| Poll::Ready(1))).await, Some(1));
            for _ in 0..2 {
                let cut = poll_fn(|cx| Poll::Ready(until.poll(cx, |_| Poll::<()>::Pending))).await;
                assert_eq!(cut, Poll::Ready(None), "stopped before the view: {before_the_view}");
            }
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_phase_wakes_work_that_began_in_a_turn_used_up() {
        let lifecycle = Lifecycle::new();
        let mut until = lifecycle.watch().until(Phase::Stopped);
        let work = tokio::spawn(async move {
            while coop::has_budget_remaining() {
                coop::consume_budget().await;
            }
            poll_fn(|cx| until.poll(cx, |_| Poll::<()>::Pending)).await
        });
        tokio::time::sleep(std::time::Duration::from_millis(1)).await;
        lifecycle.advance(Phase::Stopped);
        let cut = tokio::time::timeout(std::time::Duration::from_secs(1), work).await;
        assert_eq!(cut.expect("it was woken").expect("it ended"), None);
    }

    #[tokio::test(start_paused = true)]
    async fn work_is_polled_after_every_change_also_one_right_behind_its_first_look() {
        let lifecycle = Lifecycle::new();
        let watch = lifecycle.watch();
        let mut looks = 0;
        let work = pin!(poll_fn(|_| {
            looks += 1;
            let seen = watch.now();
            if looks == 1 {
                lifecycle.advance(Phase::Closing);
            }
            if seen >= Phase::Closing {
                Poll::Ready(())
            } else {
                Poll::Pending
            }
        }));
        let ended = tokio::time::timeout(std::time::Duration::from_secs(1), unless_stopped(&watch, work)).await;
        assert_eq!((ended, looks), (Ok(Some(())), 2));
    }
}
