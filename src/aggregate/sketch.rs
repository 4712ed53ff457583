//! Quantiles of one measure over one window of little traffic, as values that were really observed.
//!
//! The `quantiles` crate's CKMS serves here, within what holds for it. Once it has merged entries its published bound does not:
//! it takes the number of entries below a value for the value's rank, so that what it inserts among merged ones is known less well
//! than it says, and answers were seen 4 ranks beyond the bound. So its error is set to where it merges nothing: the answers are
//! exact, at no more memory, which it takes for [`CAP`] entries at once. Past those it would begin a second block, whose counts it
//! gets wrong; and never `+=`, which loses weights. A window is therefore three staggered streams: every value goes into each, the
//! oldest is read, and they are emptied in turn, so the answer covers between 5/8 and 15/16 of the window. Values are integers:
//! nothing non-finite gets in, and up to 2^53 (104 days) each is a float of its own.
//!
//! A stream costs 33 KB once it holds a value and nothing before; a stream past its cap, and one that finds the shared budget
//! spent, gives its memory back and stays silent until it is emptied: the histogram answers then.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use quantiles::ckms::CKMS;

use super::histogram::nearest_rank;
use super::snapshot::QUANTILES;
use crate::measure::Stamp;

/// Most inserts of one stream.
const CAP: u64 = 2048;
/// Most streams with memory of their own at a time, over all series: 34 MB.
pub const MAX_STREAMS: usize = 1024;
/// Rank error of the sketch. Two neighbours are merged at a rank whose double, times this, is at least 2: none below [`CAP`] is.
const ERROR: f64 = 0.5 / CAP as f64;
/// Staggered streams of a window.
const STREAMS: usize = 3;

/// How many more streams may take memory; shared by all series.
#[derive(Clone, Debug)]
pub struct Budget(Arc<AtomicUsize>);

impl Budget {
    /// Room for `streams`.
    pub fn new(streams: usize) -> Self {
        Self(Arc::new(AtomicUsize::new(streams)))
    }

    fn take(&self) -> Option<Slot> {
        let taken = self
            .0
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1));
        taken.ok().map(|_| Slot(Arc::clone(&self.0)))
    }
}

/// One stream's share of the budget.
#[derive(Debug)]
struct Slot(Arc<AtomicUsize>);

impl Drop for Slot {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

/// The staggered streams of one measure over one window.
#[derive(Debug)]
pub struct Sketch {
    length_ns: u64,
    turned: Stamp,
    budget: Budget,
    streams: [Stream; STREAMS],
}

#[derive(Debug)]
struct Stream {
    start: Stamp,
    holds: Holds,
}

#[derive(Debug)]
enum Holds {
    Nothing,
    Values(Box<Values>),
    /// More than it may, or no budget.
    TooMuch,
}

#[derive(Debug)]
struct Values {
    ckms: CKMS<f64>,
    _slot: Slot,
}

impl Sketch {
    /// An empty sketch for a window of `length_ns`.
    pub fn new(length_ns: u64, budget: Budget, now: Stamp) -> Self {
        let stream = || Stream {
            start: now,
            holds: Holds::Nothing,
        };
        Self {
            length_ns,
            turned: now,
            budget,
            streams: [stream(), stream(), stream()],
        }
    }

    /// Takes in one value.
    pub fn insert(&mut self, value: u64) {
        for stream in &mut self.streams {
            stream.insert(value, &self.budget);
        }
    }

    /// Empties the stream whose turn it is, and any that reaches further back than the window.
    pub fn tick(&mut self, now: Stamp) {
        // Just below a third, so that ticks that come late do not make the oldest stream outlive the window.
        if now.since(self.turned) >= self.length_ns / 16 * 5 {
            self.turned = now;
            if let Some(oldest) = self.streams.iter_mut().min_by_key(|s| s.start) {
                oldest.reset(now);
            }
        }
        for stream in &mut self.streams {
            if now.since(stream.start) > self.length_ns {
                stream.reset(now);
            }
        }
    }

    /// The values at [`QUANTILES`] and how many samples they rest on; none when there are none, or too many.
    pub fn quantiles(&self, now: Stamp) -> Option<([u64; 4], u64)> {
        let oldest = self.streams.iter().min_by_key(|s| s.start)?;
        match &oldest.holds {
            Holds::Values(values) if now.since(oldest.start) <= self.length_ns => {
                let count = values.ckms.count() as u64;
                let mut answer = [0; 4];
                for (value, q) in answer.iter_mut().zip(QUANTILES) {
                    // The share times the count is the rank again, but for less than the half that the crate allows.
                    let rank = nearest_rank(q, count)?;
                    *value = values.ckms.query(rank as f64 / count as f64)?.1 as u64;
                }
                Some((answer, count))
            }
            Holds::Nothing | Holds::Values(..) | Holds::TooMuch => None,
        }
    }
}

impl Stream {
    fn insert(&mut self, value: u64, budget: &Budget) {
        if matches!(self.holds, Holds::Nothing) {
            self.holds = match budget.take() {
                Some(slot) => Holds::Values(Box::new(Values {
                    ckms: CKMS::new(ERROR),
                    _slot: slot,
                })),
                None => Holds::TooMuch,
            };
        }
        if let Holds::Values(values) = &mut self.holds {
            if values.ckms.count() as u64 >= CAP {
                self.holds = Holds::TooMuch;
            } else {
                values.ckms.insert(value as f64);
            }
        }
    }

    fn reset(&mut self, now: Stamp) {
        self.start = now;
        self.holds = Holds::Nothing;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: u64 = 1_000_000_000;

    fn at(seconds: u64) -> Stamp {
        Stamp::from_nanos(seconds * S)
    }

    fn sketch(budget: usize) -> Sketch {
        Sketch::new(60 * S, Budget::new(budget), at(0))
    }

    #[test]
    fn one_sample_is_every_quantile() {
        let mut s = sketch(3);
        s.insert(500_000_000);
        assert_eq!(s.quantiles(at(1)), Some(([500_000_000; 4], 1)));
    }

    #[test]
    fn ranks_are_ceilings() {
        let mut s = sketch(3);
        for v in [7, 3] {
            s.insert(v);
        }
        assert_eq!(s.quantiles(at(1)), Some(([3, 7, 7, 7], 2)));
        let mut s = sketch(3);
        (1..=101).for_each(|v| s.insert(v * 37 % 101 + 1));
        assert_eq!(s.quantiles(at(1)), Some(([51, 91, 96, 100], 101)));
    }

    #[test]
    fn no_sample_is_no_answer() {
        assert_eq!(sketch(3).quantiles(at(1)), None);
    }

    #[test]
    fn a_full_stream_is_exact_and_one_more_silences_it() {
        let mut s = sketch(3);
        (0..CAP).for_each(|v| s.insert(v * 769 % CAP + 1));
        assert_eq!(s.quantiles(at(1)), Some(([1024, 1844, 1946, 2028], CAP)));
        s.insert(1);
        assert_eq!(s.quantiles(at(1)), None);
    }

    #[test]
    fn streams_take_turns_and_old_values_leave() {
        let mut s = sketch(3);
        s.insert(1);
        for now in 1..=40 {
            s.tick(at(now));
        }
        s.insert(9);
        assert_eq!(s.quantiles(at(40)).map(|(_, n)| n), Some(2));
        for now in 41..=60 {
            s.tick(at(now));
        }
        assert_eq!(s.quantiles(at(60)), Some(([9; 4], 1)));
        for now in 61..=120 {
            s.tick(at(now));
        }
        assert_eq!(s.quantiles(at(120)), None);
    }

    #[test]
    fn after_a_pause_of_the_ticker_nothing_older_than_the_window_answers() {
        let mut s = sketch(3);
        s.insert(1);
        assert_eq!(s.quantiles(at(61)), None);
        s.tick(at(200));
        s.insert(2);
        assert_eq!(s.quantiles(at(201)), Some(([2; 4], 1)));
    }

    #[test]
    fn a_spent_budget_silences_and_a_reset_gives_it_back() {
        let budget = Budget::new(3);
        let mut first = Sketch::new(60 * S, budget.clone(), at(0));
        let mut second = Sketch::new(60 * S, budget.clone(), at(0));
        first.insert(1);
        second.insert(2);
        assert_eq!(first.quantiles(at(1)), Some(([1; 4], 1)));
        assert_eq!(second.quantiles(at(1)), None);
        drop(first);
        second.tick(at(100));
        second.insert(3);
        assert_eq!(second.quantiles(at(101)), Some(([3; 4], 1)));
        drop(second);
        assert_eq!(budget.0.load(Ordering::Relaxed), 3);
    }
}
