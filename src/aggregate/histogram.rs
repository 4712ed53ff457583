//! Cumulative histograms over the cells of a [`Layout`]: a plain one for values that come once a request (under the series' lock)
//! and an atomic one for values that come with every token or chunk (no lock, straight from the streams).
//!
//! Counts are exact, merge and subtract exactly, and a value outside the grid is counted in the cell at its end. A quantile is the
//! nearest rank `ceil(q * n)`. `sum` wraps around after 584 years of summed time, which a scraper takes for a counter reset.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use super::layout::Layout;
use super::snapshot::{Exemplar, HistogramSnapshot};

/// A sparse copy of cells: (id, count), ascending, only non-empty ones.
pub type Cells = Vec<(u32, u64)>;

/// A histogram for one writer at a time. Holds only the range of cells that was ever touched.
#[derive(Clone, Debug)]
pub struct Histogram {
    layout: Arc<Layout>,
    first: usize,
    cells: Vec<u64>,
    sum: u64,
}

impl Histogram {
    /// An empty histogram; allocates with the first sample.
    pub const fn new(layout: Arc<Layout>) -> Self {
        Self {
            layout,
            first: 0,
            cells: Vec::new(),
            sum: 0,
        }
    }

    /// Counts `value` once and returns its cell.
    pub fn record(&mut self, value: u64) -> usize {
        let cell = self.layout.cell(value);
        *self.slot(cell) += 1;
        self.sum = self.sum.wrapping_add(value);
        cell
    }

    /// Adds every sample of `other`, which must have the same layout.
    pub fn merge(&mut self, other: &Self) {
        debug_assert_eq!(self.layout.edges(), other.layout.edges());
        for (cell, count) in other.touched() {
            *self.slot(cell) += count;
        }
        self.sum = self.sum.wrapping_add(other.sum);
    }

    /// Takes away every sample of `earlier`, a former state of this histogram.
    pub fn subtract(&mut self, earlier: &Self) {
        for (cell, count) in earlier.touched() {
            let slot = self.slot(cell);
            *slot = slot.saturating_sub(count);
        }
        self.sum = self.sum.wrapping_sub(earlier.sum);
    }

    /// The same samples over the edges of `layout` (see [`Layout::cell_in`]).
    pub(super) fn recast(&self, layout: &Arc<Layout>) -> Self {
        let mut recast = Self::new(Arc::clone(layout));
        for (cell, count) in self.touched() {
            *recast.slot(self.layout.cell_in(cell, layout)) += count;
        }
        recast.sum = self.sum;
        recast
    }

    /// Where its values fall.
    pub fn layout(&self) -> &Arc<Layout> {
        &self.layout
    }

    /// Sum of all values.
    pub fn sum(&self) -> u64 {
        self.sum
    }

    /// Number of samples.
    pub fn count(&self) -> u64 {
        self.cells.iter().sum()
    }

    /// Appends the non-empty cells to `out`, each id raised by `offset`.
    pub fn copy_cells(&self, offset: u32, out: &mut Cells) {
        out.extend(self.touched().map(|(cell, count)| (offset + cell as u32, count)));
    }

    /// A copy as native and classic buckets, without exemplars.
    pub fn snapshot(&self) -> HistogramSnapshot {
        let mut cells = Cells::new();
        self.copy_cells(0, &mut cells);
        histogram_snapshot(&self.layout, &cells, 0, self.sum, Vec::new())
    }

    /// The value at `q` by nearest rank, within one cell's width; none when empty.
    pub fn quantile(&self, q: f64) -> Option<u64> {
        let mut cells = Cells::new();
        self.copy_cells(0, &mut cells);
        quantile(&self.layout, &cells, self.count(), q)
    }

    fn touched(&self) -> impl Iterator<Item = (usize, u64)> + '_ {
        let numbered = self.cells.iter().enumerate().filter(|(_, count)| **count > 0);
        numbered.map(|(i, count)| (self.first + i, *count))
    }

    /// The count of `cell`, widening the range held as needed.
    fn slot(&mut self, cell: usize) -> &mut u64 {
        if self.cells.is_empty() {
            self.first = cell;
        }
        if cell < self.first {
            self.cells.splice(0..0, std::iter::repeat_n(0, self.first - cell));
            self.first = cell;
        }
        let at = cell - self.first;
        if at >= self.cells.len() {
            self.cells.resize(at + 1, 0);
        }
        &mut self.cells[at]
    }
}

/// A histogram that any number of streams record into at once. One read-modify-write per addition and one for the sum.
#[derive(Debug)]
pub struct AtomicHistogram {
    layout: Arc<Layout>,
    /// Allocated with the first sample: an idle series costs nothing.
    cells: OnceLock<Box<[AtomicU64]>>,
    sum: AtomicU64,
}

impl AtomicHistogram {
    /// An empty histogram.
    pub const fn new(layout: Arc<Layout>) -> Self {
        Self {
            layout,
            cells: OnceLock::new(),
            sum: AtomicU64::new(0),
        }
    }

    /// Counts `value` once.
    pub fn record(&self, value: u64) {
        self.record_n(value, 1);
    }

    /// Counts `value` `n` times in one addition.
    pub fn record_n(&self, value: u64, n: u64) {
        if n == 0 {
            return;
        }
        self.allocated()[self.layout.cell(value)].fetch_add(n, Ordering::Relaxed);
        self.sum.fetch_add(value.wrapping_mul(n), Ordering::Relaxed);
    }

    /// Moves every sample to `to`, each to its place there (see [`Layout::cell_in`]); none is lost or counted twice while streams
    /// record.
    pub(super) fn drain_into(&self, to: &Self) {
        let cells = self.cells.get().map_or(&[][..], |cells| cells);
        for (cell, count) in cells.iter().enumerate() {
            let count = count.swap(0, Ordering::Relaxed);
            if count > 0 {
                to.allocated()[self.layout.cell_in(cell, &to.layout)].fetch_add(count, Ordering::Relaxed);
            }
        }
        to.sum.fetch_add(self.sum.swap(0, Ordering::Relaxed), Ordering::Relaxed);
    }

    fn allocated(&self) -> &[AtomicU64] {
        self.cells
            .get_or_init(|| (0..self.layout.cells()).map(|_| AtomicU64::new(0)).collect())
    }

    /// Where its values fall.
    pub fn layout(&self) -> &Arc<Layout> {
        &self.layout
    }

    /// Sum of all values; while streams record it may be a sample ahead of or behind the cells.
    pub fn sum(&self) -> u64 {
        self.sum.load(Ordering::Relaxed)
    }

    /// Appends the non-empty cells to `out`, each id raised by `offset`.
    pub fn copy_cells(&self, offset: u32, out: &mut Cells) {
        let cells = self.cells.get().map_or(&[][..], |cells| cells);
        let loaded = cells
            .iter()
            .enumerate()
            .map(|(cell, count)| (offset + cell as u32, count.load(Ordering::Relaxed)));
        out.extend(loaded.filter(|(_, count)| *count > 0));
    }

    /// A copy as native and classic buckets.
    pub fn snapshot(&self) -> HistogramSnapshot {
        let mut cells = Cells::new();
        self.copy_cells(0, &mut cells);
        histogram_snapshot(&self.layout, &cells, 0, self.sum(), Vec::new())
    }
}

/// The part of `all` that starts at `offset`, as native and classic buckets.
pub(super) fn histogram_snapshot(
    layout: &Layout,
    all: &[(u32, u64)],
    offset: u32,
    sum: u64,
    exemplars: Vec<Option<Exemplar>>,
) -> HistogramSnapshot {
    let start = all.partition_point(|(id, _)| *id < offset);
    let end = all.partition_point(|(id, _)| *id < offset + layout.cells() as u32);
    let mut snapshot = HistogramSnapshot {
        edges: Arc::clone(layout.edges()),
        counts: vec![0; layout.edges().len() + 1],
        native: Vec::new(),
        zero: 0,
        sum,
        count: 0,
        exemplars,
    };
    for (id, count) in &all[start..end] {
        let cell = (id - offset) as usize;
        snapshot.count += count;
        snapshot.counts[layout.classic(cell)] += count;
        match (layout.native(cell), snapshot.native.last_mut()) {
            (None, _) => snapshot.zero += count,
            (Some(index), Some((last, in_last))) if *last == index => *in_last += count,
            (Some(index), _) => snapshot.native.push((index, *count)),
        }
    }
    snapshot
}

/// The value at `q` by nearest rank over `cells`, whose ids are cells of `layout` and whose counts sum to `count`.
pub(super) fn quantile(layout: &Layout, cells: &[(u32, u64)], count: u64, q: f64) -> Option<u64> {
    let rank = nearest_rank(q, count)?;
    let mut below = 0;
    for (id, in_cell) in cells {
        if rank <= below + in_cell {
            return Some(layout.value(*id as usize, rank - below, *in_cell));
        }
        below += in_cell;
    }
    None
}

/// `ceil(q * n)` in 1..=n; none when n is 0. A product that misses an integer only by its rounding counts as that integer.
pub(super) fn nearest_rank(q: f64, n: u64) -> Option<u64> {
    let exact = q * n as f64;
    let rank = (exact - exact * 4.0 * f64::EPSILON).ceil() as u64;
    (n > 0).then(|| rank.clamp(1, n))
}

#[cfg(test)]
mod tests;
