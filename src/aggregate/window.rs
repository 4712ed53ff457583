//! Rolling windows as differences of cumulative counts. The recording side knows no window.
//!
//! Every tick compares a series' cumulative cells with those of the tick before; the difference goes into one open step per window,
//! and a step that has lasted long enough ([`STEPS`] to a window) is closed into a ring. A window is the sum of its closed and open
//! steps that lie wholly inside it, and of what came since the last tick; so it covers between 11/12 and all of its length, nothing
//! is counted twice, and with irregular ticks it covers less rather than anything older. Step boundaries are common to all series
//! and a step without samples is not stored: a quiet series costs nothing. A busy one holds, per window, at most 12 closed steps
//! and an open one of 16 bytes a touched cell (some 60 to 100 cells a measure).

use std::collections::VecDeque;
use std::sync::Arc;

use super::histogram::Cells;
use super::setup::WindowSetup;
use crate::measure::Stamp;

/// Steps of a window.
pub const STEPS: u64 = 12;

/// The step boundaries of every window.
#[derive(Debug)]
pub struct Clock {
    windows: Vec<Window>,
    last_tick: Stamp,
}

#[derive(Debug)]
struct Window {
    name: Arc<str>,
    length_ns: u64,
    /// Start of the open step.
    open: Stamp,
    /// Starts of the closed steps, oldest first.
    closed: VecDeque<Stamp>,
}

/// One series' share of every window.
#[derive(Debug)]
pub struct Steps {
    /// The cumulative cells at the last tick.
    baseline: Cells,
    windows: Vec<Ring>,
}

#[derive(Debug, Default)]
struct Ring {
    open: Cells,
    /// (start, samples) of closed steps, oldest first.
    closed: VecDeque<(Stamp, Cells)>,
}

/// What one tick closes: for each window the start of the step that ends now, if one does.
#[derive(Debug)]
pub struct Tick {
    now: Stamp,
    closes: Vec<Option<Stamp>>,
}

impl Clock {
    /// Windows that start empty at `now`.
    pub fn new(windows: &[WindowSetup], now: Stamp) -> Self {
        let windows = windows.iter().map(|w| Window {
            name: Arc::clone(&w.name),
            length_ns: w.length_ns,
            open: now,
            closed: VecDeque::new(),
        });
        Self {
            windows: windows.collect(),
            last_tick: now,
        }
    }

    /// How many windows there are.
    pub fn windows(&self) -> usize {
        self.windows.len()
    }

    /// The label of window `w`.
    pub fn name(&self, w: usize) -> &Arc<str> {
        &self.windows[w].name
    }

    /// How often to tick so that the shortest window keeps its granularity, nanoseconds.
    pub fn tick_every_ns(&self) -> u64 {
        let shortest = self.windows.iter().map(|w| w.length_ns).min();
        (shortest.unwrap_or(60_000_000_000) / STEPS / 5).max(1)
    }

    /// Moves on to `now`; every series must then [`Steps::absorb`] the tick.
    pub fn tick(&mut self, now: Stamp) -> Tick {
        let now = now.max(self.last_tick);
        self.last_tick = now;
        let closes = self.windows.iter_mut().map(|w| {
            let due = now.since(w.open) >= w.length_ns / STEPS;
            due.then(|| {
                let start = std::mem::replace(&mut w.open, now);
                w.closed.push_back(start);
                let floor = floor(now, w.length_ns);
                while w.closed.front().is_some_and(|s| *s < floor) {
                    w.closed.pop_front();
                }
                start
            })
        });
        Tick {
            now,
            closes: closes.collect(),
        }
    }

    /// How long window `w` reaches back from `now`, nanoseconds: from the oldest boundary inside it.
    pub fn covered_ns(&self, w: usize, now: Stamp) -> u64 {
        let (window, now) = (&self.windows[w], now.max(self.last_tick));
        let floor = floor(now, window.length_ns);
        let boundaries = window.closed.iter().copied().chain([window.open, self.last_tick]);
        boundaries.filter(|s| *s >= floor).min().map_or(0, |start| now.since(start))
    }
}

impl Steps {
    /// Nothing yet, for `windows` windows.
    pub fn new(windows: usize) -> Self {
        Self {
            baseline: Cells::new(),
            windows: (0..windows).map(|_| Ring::default()).collect(),
        }
    }

    /// The same steps with every id replaced by its entry in `ids`; several ids may become one, and their order stays.
    pub(super) fn renumbered(&self, ids: &[u32]) -> Self {
        let renumber = |cells: &Cells| {
            let mut out = Cells::with_capacity(cells.len());
            for (id, count) in cells {
                let id = ids[*id as usize];
                match out.last_mut() {
                    Some((last, sum)) if *last == id => *sum += count,
                    _ => out.push((id, *count)),
                }
            }
            out
        };
        let ring = |ring: &Ring| Ring {
            open: renumber(&ring.open),
            closed: ring.closed.iter().map(|(start, cells)| (*start, renumber(cells))).collect(),
        };
        Self {
            baseline: renumber(&self.baseline),
            windows: self.windows.iter().map(ring).collect(),
        }
    }

    /// Takes in the cumulative `cells` as of `tick`.
    pub fn absorb(&mut self, clock: &Clock, tick: &Tick, cells: &[(u32, u64)]) {
        let fresh = difference(cells, &self.baseline);
        if !fresh.is_empty() {
            self.baseline.clear();
            self.baseline.extend_from_slice(cells);
        }
        for ((ring, window), closes) in self.windows.iter_mut().zip(&clock.windows).zip(&tick.closes) {
            if !fresh.is_empty() {
                ring.open = sum(&ring.open, &fresh);
            }
            if let Some(start) = *closes
                && !ring.open.is_empty()
            {
                let mut step = std::mem::take(&mut ring.open);
                step.shrink_to_fit();
                ring.closed.push_back((start, step));
            }
            let floor = floor(tick.now, window.length_ns);
            while ring.closed.front().is_some_and(|(start, _)| *start < floor) {
                ring.closed.pop_front();
            }
        }
    }

    /// Adds what lies within window `w` at `now` to `totals`, one place per cell id; `cells` are the cumulative cells of now.
    /// Says whether there was anything.
    pub fn add_window(&self, clock: &Clock, w: usize, now: Stamp, cells: &[(u32, u64)], totals: &mut [u64]) -> bool {
        let (window, ring, now) = (&clock.windows[w], &self.windows[w], now.max(clock.last_tick));
        let floor = floor(now, window.length_ns);
        let mut any = false;
        let mut add = |step: &[(u32, u64)]| {
            any |= !step.is_empty();
            for (id, count) in step {
                totals[*id as usize] += count;
            }
        };
        ring.closed
            .iter()
            .filter(|(start, _)| *start >= floor)
            .for_each(|(_, step)| add(step));
        if window.open >= floor {
            add(&ring.open);
        }
        if clock.last_tick >= floor {
            add(&difference(cells, &self.baseline));
        }
        any
    }
}

/// The start of a window that ends at `now`.
fn floor(now: Stamp, length_ns: u64) -> Stamp {
    Stamp::from_nanos(now.as_nanos().saturating_sub(length_ns))
}

/// `later - earlier`, without what is 0. Both ascend by id; counts never fall.
fn difference(later: &[(u32, u64)], earlier: &[(u32, u64)]) -> Cells {
    let mut earlier = earlier.iter().peekable();
    let left = later.iter().map(|(id, count)| {
        while earlier.next_if(|(e, _)| e < id).is_some() {}
        let before = earlier.next_if(|(e, _)| e == id).map_or(0, |(_, c)| *c);
        (*id, count.saturating_sub(before))
    });
    left.filter(|(_, count)| *count > 0).collect()
}

/// `a + b`. Both ascend by id.
fn sum(a: &[(u32, u64)], b: &[(u32, u64)]) -> Cells {
    let mut out = Cells::with_capacity(a.len() + b.len());
    let (mut a, mut b) = (a.iter().copied().peekable(), b.iter().copied().peekable());
    while let (Some((x, m)), Some((y, n))) = (a.peek().copied(), b.peek().copied()) {
        out.push(match x.cmp(&y) {
            std::cmp::Ordering::Less => (x, m),
            std::cmp::Ordering::Greater => (y, n),
            std::cmp::Ordering::Equal => (x, m + n),
        });
        a.next_if(|(id, _)| *id <= y);
        b.next_if(|(id, _)| *id <= x);
    }
    out.extend(a.chain(b));
    out
}

#[cfg(test)]
mod tests;
