//! The life of the process as one value that everyone can watch.

mod shutdown;
pub mod signal;
mod tracker;

use tokio::sync::watch;

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
