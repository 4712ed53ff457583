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

/// A histogram that any number of streams record into at once. One read-modify-write per sample and one for the sum.
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

    /// Counts `value` `n` times: the `n` tokens of one event share its gap.
    pub fn record_n(&self, value: u64, n: u64) {
        if n == 0 {
            return;
        }
        let cells = self
            .cells
            .get_or_init(|| (0..self.layout.cells()).map(|_| AtomicU64::new(0)).collect());
        cells[self.layout.cell(value)].fetch_add(n, Ordering::Relaxed);
        self.sum.fetch_add(value.wrapping_mul(n), Ordering::Relaxed);
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
mod tests {
    use super::super::grid::Unit;
    use super::*;

    const MS: u64 = 1_000_000;

    fn layout() -> Arc<Layout> {
        Arc::new(Layout::new(Unit::Nanoseconds, [100 * MS, 200 * MS]))
    }

    #[test]
    fn the_rank_is_the_ceiling() {
        for (q, n, rank) in [
            (0.5, 1, 1),
            (0.99, 1, 1),
            (0.99, 100, 99),
            (0.99, 101, 100),
            (0.9, 10, 9),
            (0.95, 20, 19),
            (0.5, 2, 1),
            (1.0, 7, 7),
        ] {
            assert_eq!(nearest_rank(q, n), Some(rank), "ceil({q} * {n})");
        }
        assert_eq!(nearest_rank(0.5, 0), None);
    }

    #[test]
    fn of_one_sample_every_quantile_is_the_same_and_within_its_cell() {
        let mut h = Histogram::new(layout());
        h.record(500 * MS);
        assert_eq!(h.quantile(0.5), h.quantile(0.99));
        let value = h.quantile(0.5).unwrap();
        assert!(value.abs_diff(500 * MS) < 6 * MS, "{value}");
    }

    #[test]
    fn p99_of_101_samples_is_the_100th() {
        let mut h = Histogram::new(layout());
        (0..99).for_each(|_| {
            h.record(10 * MS);
        });
        h.record(1000 * MS);
        h.record(9000 * MS);
        let p99 = h.quantile(0.99).unwrap();
        assert!(p99.abs_diff(1000 * MS) < 12 * MS, "{p99}");
    }

    #[test]
    fn an_empty_histogram_has_no_quantile() {
        assert_eq!(Histogram::new(layout()).quantile(0.5), None);
    }

    #[test]
    fn a_quantile_never_crosses_a_classic_edge() {
        let mut h = Histogram::new(layout());
        h.record(200 * MS);
        assert!(h.quantile(0.5).unwrap() <= 200 * MS);
        let mut h = Histogram::new(layout());
        h.record(200 * MS + 1);
        assert!(h.quantile(0.5).unwrap() > 200 * MS);
    }

    #[test]
    fn subtracting_a_former_state_leaves_what_came_since() {
        let mut h = Histogram::new(layout());
        h.record(150 * MS);
        let earlier = h.clone();
        h.record(20 * MS);
        h.subtract(&earlier);
        assert_eq!((h.count(), h.sum()), (1, 20 * MS));
    }

    #[test]
    fn saturated_values_are_counted() {
        let mut h = Histogram::new(layout());
        for value in [0, 1, 20_000_000 * MS, u64::MAX] {
            h.record(value);
        }
        assert_eq!(h.count(), 4);
        assert_eq!(h.quantile(1.0), Some(8_192_000 * MS));
        assert_eq!(h.quantile(0.25), Some(0));
    }

    #[test]
    fn an_atomic_histogram_holds_what_a_plain_one_would() {
        let (atomic, mut plain) = (AtomicHistogram::new(layout()), Histogram::new(layout()));
        for value in [0, 3, 5 * MS, 5 * MS, 200 * MS, 70_000 * MS] {
            atomic.record(value);
            plain.record(value);
        }
        let (mut a, mut b) = (Cells::new(), Cells::new());
        atomic.copy_cells(7, &mut a);
        plain.copy_cells(7, &mut b);
        assert_eq!((a, atomic.sum()), (b, plain.sum()));
    }

    #[test]
    fn no_tokens_are_no_sample() {
        let atomic = AtomicHistogram::new(layout());
        atomic.record_n(5, 0);
        let mut cells = Cells::new();
        atomic.copy_cells(0, &mut cells);
        assert_eq!(cells, []);
    }

    #[test]
    fn two_threads_lose_nothing() {
        let atomic = AtomicHistogram::new(layout());
        std::thread::scope(|scope| {
            for seed in 0..2_u64 {
                let atomic = &atomic;
                scope.spawn(move || (0..50_000).for_each(|i| atomic.record_n((i * 7 + seed) % 1000 * MS, 2)));
            }
        });
        let mut cells = Cells::new();
        atomic.copy_cells(0, &mut cells);
        assert_eq!(cells.iter().map(|(_, n)| n).sum::<u64>(), 200_000);
        let sum: u64 = (0..2_u64)
            .flat_map(|seed| (0..50_000).map(move |i| (i * 7 + seed) % 1000 * MS * 2))
            .sum();
        assert_eq!(atomic.sum(), sum);
    }
}
