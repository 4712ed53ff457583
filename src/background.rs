//! Threads beside the data path that give way to it.
//!
//! A sidecar often has one core. There, a thread that renders a scrape may keep the core until its slice is over, however many
//! chunks wait. Measured with `cargo run --release --example cost -- scrape probes --pin`, a scrape of 10,300 lines every 100 ms:
//! on a machine crowded with other work the p99 of a chunk's delay rose by 1.7 ms [0.6..1.9] at equal priority, by 0.7 [0.4..0.8]
//! at 10, and not at 19, the lowest (-0.1 [-0.2..0.1]). On a quiet one no difference is to be seen: at every priority it rose by 0.1
//! to 0.2 ms, less than the rounds differ. Probes and ticks get more than the lowest: answered at 19, `/livez` took up to 0.8 s on
//! the crowded machine, at 10 a quarter of a second.
//!
//! Scrapes, probes and ticks do so beside one worker only: it sleeps while it waits for a lock that such a thread holds, which then
//! has the core. Of several workers on too few cores, one would wait for that lock, and the lock's holder for all the others.

use std::thread;

use rustix::process::{getpriority_process, setpriority_process};

/// The lowest priority there is.
const LOWEST: i32 = 19;

/// How far a thread's priority goes below what it was started with, in steps of nice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rank {
    /// Stays beside the data path.
    Equal,
    /// Answers and ticks: little work, which must not wait for long.
    Below,
    /// Work of milliseconds for which nobody is in a hurry.
    Last,
}

impl Rank {
    /// `self` where one worker does the data path's work, else [`Self::Equal`].
    pub const fn beside(self, workers: usize) -> Self {
        if workers <= 1 { self } else { Self::Equal }
    }

    const fn steps(self) -> i32 {
        match self {
            Self::Equal => 0,
            Self::Below => 10,
            Self::Last => LOWEST,
        }
    }

    /// Gives the calling thread this rank, and the threads that it starts. A system that refuses (seccomp) or that cannot lower a
    /// single thread leaves it as it is: the proxy works all the same.
    pub fn take(self) {
        // Elsewhere than on Linux this would be the whole process.
        if self == Self::Equal || !cfg!(target_os = "linux") {
            return;
        }
        let lowered = getpriority_process(None).and_then(|now| setpriority_process(None, (now + self.steps()).min(LOWEST)));
        if let Err(error) = lowered {
            tracing::debug!(%error, rank = ?self, "a thread beside the data path keeps its priority");
        }
    }

    /// What `start` gives; the threads that it starts have this rank, the calling one keeps its own.
    pub fn starting<T: Send>(self, start: impl FnOnce() -> T + Send) -> T {
        let starting = thread::scope(|scope| {
            let lowered = move || {
                self.take();
                start()
            };
            scope.spawn(lowered).join()
        });
        starting.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    fn now() -> i32 {
        getpriority_process(None).expect("a priority")
    }

    #[test]
    fn a_rank_is_taken_by_the_thread_and_those_it_starts_alone() {
        let before = now();
        for (rank, steps) in [(Rank::Equal, 0), (Rank::Below, 10), (Rank::Last, 19)] {
            let lowered = thread::spawn(move || {
                rank.take();
                (now(), thread::spawn(now).join().unwrap())
            });
            let expected = (before + steps).min(LOWEST);
            assert_eq!(lowered.join().unwrap(), (expected, expected), "{rank:?}");
        }
        assert_eq!(Rank::Last.starting(|| thread::spawn(now).join().unwrap()), LOWEST);
        assert_eq!(now(), before);
    }

    #[test]
    fn beside_several_workers_none_gives_way() {
        assert_eq!(Rank::Last.beside(1), Rank::Last);
        assert_eq!(Rank::Last.beside(2), Rank::Equal);
    }
}
