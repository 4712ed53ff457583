//! Who asks for the end, and the order in which it comes.
//!
//! `/drain`, or a first signal: readiness falls ([`Phase::Draining`]) while new work is still taken for the delay, so that load
//! balancers notice; then no new connections ([`Phase::Closing`]) and what is under way is finished; at the deadline, or with a
//! second signal, the rest is cut ([`Phase::Stopped`]). The clock starts with whichever came first. Only a signal ends the
//! process: a drained sidecar that left by itself would be restarted.

use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{Instant, sleep_until, timeout_at};

use super::{Lifecycle, Phase, PhaseWatch, Tracker};
use crate::config::Drain;

/// How far somebody wants the process to go.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Wish {
    Run,
    Drain,
    Stop,
    StopAtOnce,
}

/// Asks for drain or stop. Cheap to clone; wishes only grow.
#[derive(Clone, Debug)]
pub struct Shutdown(watch::Sender<Wish>);

/// How the process came to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// Nothing was left under way.
    Clean,
    /// The deadline passed; this many requests were cut.
    Deadline(usize),
    /// A second signal; this many requests were cut.
    Interrupted(usize),
}

impl Default for Shutdown {
    fn default() -> Self {
        Self(watch::Sender::new(Wish::Run))
    }
}

impl Shutdown {
    /// Nothing asked for yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Begins draining, without an end to the process.
    pub fn drain(&self) {
        self.raise(Wish::Drain);
    }

    /// A signal: the first asks for a graceful stop, the second for one at once.
    pub fn signal(&self) {
        let stopping = *self.0.borrow() >= Wish::Stop;
        self.raise(if stopping { Wish::StopAtOnce } else { Wish::Stop });
    }

    fn raise(&self, wish: Wish) {
        self.0.send_if_modified(|now| {
            let more = wish > *now;
            if more {
                *now = wish;
            }
            more
        });
    }

    /// For `/drain`: begins draining and resolves with the number of requests still under way, 0 as soon as nothing is once new
    /// connections are no longer taken, else when delay and timeout have passed.
    pub async fn drained(&self, mut phase: PhaseWatch, under_way: &UnderWay, drain: Drain) -> usize {
        self.drain();
        let finished = async {
            phase.reached(Phase::Closing).await;
            under_way.requests.empty().await;
        };
        let _ = timeout_at(after(drain.delay) + drain.timeout, finished).await;
        under_way.requests.count()
    }

    async fn wished(&self, wish: Wish) {
        // The sender is `self`: it cannot be gone.
        let _ = self.0.subscribe().wait_for(|w| *w >= wish).await;
    }
}

/// Everything that draining waits for.
#[derive(Clone, Debug, Default)]
pub struct UnderWay {
    /// Requests not yet answered to the last byte.
    pub requests: Tracker,
    /// Client connections; idle ones close by themselves once the phase is [`Phase::Closing`].
    pub connections: Tracker,
}

/// Runs the sequence of this module once asked to, and resolves with [`Phase::Stopped`] reached.
pub async fn run(lifecycle: Lifecycle, shutdown: Shutdown, under_way: UnderWay, drain: Drain) -> Exit {
    shutdown.wished(Wish::Drain).await;
    lifecycle.advance(Phase::Draining);
    let closing = after(drain.delay);
    let deadline = closing + drain.timeout;
    tracing::info!(in_flight = under_way.requests.count(), delay = ?drain.delay, timeout = ?drain.timeout, "draining");

    let sequence = async {
        sleep_until(closing).await;
        lifecycle.advance(Phase::Closing);
        shutdown.wished(Wish::Stop).await;
        let finished = async {
            under_way.requests.empty().await;
            under_way.connections.empty().await;
        };
        timeout_at(deadline, finished).await.is_ok()
    };
    let exit = tokio::select! {
        biased;
        () = shutdown.wished(Wish::StopAtOnce) => Exit::Interrupted(under_way.requests.count()),
        finished = sequence => if finished { Exit::Clean } else { Exit::Deadline(under_way.requests.count()) },
    };
    lifecycle.advance(Phase::Stopped);
    exit
}

/// `delay` from now on the clock of tokio's timers.
#[expect(clippy::disallowed_methods, reason = "a deadline for a timer, not a measurement")]
fn after(delay: Duration) -> Instant {
    Instant::now() + delay
}

#[cfg(test)]
mod tests {
    use super::*;

    const DRAIN: Drain = Drain {
        delay: Duration::from_secs(5),
        timeout: Duration::from_secs(300),
    };

    struct Running {
        lifecycle: Lifecycle,
        shutdown: Shutdown,
        under_way: UnderWay,
        task: tokio::task::JoinHandle<Exit>,
    }

    fn start() -> Running {
        let (lifecycle, shutdown, under_way) = (Lifecycle::new(), Shutdown::new(), UnderWay::default());
        lifecycle.advance(Phase::Ready);
        let task = tokio::spawn(run(lifecycle.clone(), shutdown.clone(), under_way.clone(), DRAIN));
        Running {
            lifecycle,
            shutdown,
            under_way,
            task,
        }
    }

    #[expect(clippy::disallowed_methods, reason = "asserts on tokio's paused clock")]
    fn now() -> Instant {
        Instant::now()
    }

    #[tokio::test(start_paused = true)]
    async fn readiness_falls_first_and_the_end_comes_with_the_last_request() {
        let r = start();
        let begun = now();
        let request = r.under_way.requests.enter();
        r.shutdown.signal();
        tokio::task::yield_now().await;
        assert_eq!(r.lifecycle.watch().now(), Phase::Draining);
        r.lifecycle.watch().reached(Phase::Closing).await;
        assert_eq!(now() - begun, Duration::from_secs(5));
        tokio::time::sleep(Duration::from_secs(60)).await;
        assert!(!r.task.is_finished());
        drop(request);
        assert_eq!(r.task.await.unwrap(), Exit::Clean);
        assert_eq!(now() - begun, Duration::from_secs(65));
        assert_eq!(r.lifecycle.watch().now(), Phase::Stopped);
    }

    #[tokio::test(start_paused = true)]
    async fn the_deadline_cuts_what_is_left() {
        let r = start();
        let begun = now();
        let _request = r.under_way.requests.enter();
        r.shutdown.signal();
        assert_eq!(r.task.await.unwrap(), Exit::Deadline(1));
        assert_eq!(now() - begun, Duration::from_secs(305));
    }

    #[tokio::test(start_paused = true)]
    async fn a_second_signal_stops_at_once() {
        let r = start();
        let begun = now();
        let _request = r.under_way.requests.enter();
        r.shutdown.signal();
        r.shutdown.signal();
        assert_eq!(r.task.await.unwrap(), Exit::Interrupted(1));
        assert_eq!(now() - begun, Duration::ZERO);
    }

    #[tokio::test(start_paused = true)]
    async fn drained_answers_when_the_last_request_ended() {
        let r = start();
        let request = r.under_way.requests.enter();
        tokio::spawn(async move {
            tokio::time::sleep(Duration::from_secs(20)).await;
            drop(request);
        });
        let begun = now();
        assert_eq!(r.shutdown.drained(r.lifecycle.watch(), &r.under_way, DRAIN).await, 0);
        assert_eq!(now() - begun, Duration::from_secs(20));
        assert!(!r.task.is_finished());
    }

    #[tokio::test(start_paused = true)]
    async fn drained_gives_up_at_the_deadline_and_says_how_many_are_left() {
        let r = start();
        let _request = r.under_way.requests.enter();
        let begun = now();
        assert_eq!(r.shutdown.drained(r.lifecycle.watch(), &r.under_way, DRAIN).await, 1);
        assert_eq!(now() - begun, Duration::from_secs(305));
    }

    #[tokio::test(start_paused = true)]
    async fn a_drained_process_stays_until_a_signal_and_then_leaves_without_another_delay() {
        let r = start();
        r.shutdown.drain();
        r.lifecycle.watch().reached(Phase::Closing).await;
        tokio::time::sleep(Duration::from_secs(3600)).await;
        assert!(!r.task.is_finished());
        let asked = now();
        r.shutdown.signal();
        assert_eq!(r.task.await.unwrap(), Exit::Clean);
        assert_eq!(now() - asked, Duration::ZERO);
    }
}
