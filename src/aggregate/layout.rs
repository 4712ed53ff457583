//! The cells of one histogram: the native grid cut further at every classic edge.
//!
//! A sample touches one cell and nothing else, so the native buckets, the classic buckets and the count, each a sum of cells, are
//! exact and agree with each other even while streams record. Shared by every histogram of one measure on one route.

use std::sync::Arc;

use super::grid::{Unit, native_edges};

/// Distinct keys of [`key`].
const KEYS: usize = 1920;

/// Where the values of a histogram fall.
#[derive(Debug)]
pub struct Layout {
    /// Largest value of each cell, ascending: cell 0 holds exactly 0, the last one ends at `u64::MAX`.
    uppers: Box<[u64]>,
    /// The native bucket of each cell (of cell 0: unused).
    native: Box<[i32]>,
    /// The classic bucket of each cell.
    classic: Box<[u16]>,
    /// The classic edges.
    edges: Arc<[u64]>,
    /// The first cell that a value with this key can be in.
    starts: Box<[u16]>,
}

impl Layout {
    /// Most classic edges; further ones are left out. Far above what any bucket list and its SLO bounds need.
    pub const MAX_EDGES: usize = 256;

    /// A layout with the native grid of `unit` and these classic edges, in any order.
    pub fn new(unit: Unit, edges: impl IntoIterator<Item = u64>) -> Self {
        let mut edges: Vec<u64> = edges.into_iter().filter(|e| (1..u64::MAX).contains(e)).collect();
        edges.sort_unstable();
        edges.dedup();
        edges.truncate(Self::MAX_EDGES);
        let grid = native_edges(unit);
        let mut uppers: Vec<u64> = grid
            .iter()
            .map(|(_, upper)| *upper)
            .chain(edges.iter().copied())
            .chain([0])
            .collect();
        uppers.sort_unstable();
        uppers.dedup();
        let native = uppers
            .iter()
            .map(|u| grid[grid.partition_point(|(_, upper)| upper < u)].0)
            .collect();
        let classic = uppers.iter().map(|u| edges.partition_point(|edge| edge < u) as u16).collect();
        let starts = (0..KEYS)
            .map(|k| uppers.partition_point(|u| *u < smallest(k)) as u16)
            .collect();
        Self {
            uppers: uppers.into(),
            native,
            classic,
            edges: edges.into(),
            starts,
        }
    }

    /// How many cells there are.
    pub fn cells(&self) -> usize {
        self.uppers.len()
    }

    /// The classic edges, ascending, without +Inf.
    pub fn edges(&self) -> &Arc<[u64]> {
        &self.edges
    }

    /// The cell of `value`.
    pub fn cell(&self, value: u64) -> usize {
        let mut cell = usize::from(self.starts[key(value)]);
        // Ends at the last cell, whose upper edge is u64::MAX; a key spans 1/32 of a doubling, so this is a step or two.
        while self.uppers[cell] < value {
            cell += 1;
        }
        cell
    }

    /// The cell of `other` that holds the largest value of `cell`: where its samples count once the classic edges are those of
    /// `other`. Exact for every edge that both have.
    pub(super) fn cell_in(&self, cell: usize, other: &Self) -> usize {
        other.cell(self.uppers[cell])
    }

    /// The native bucket of `cell`; none for the cell of exact zeros.
    pub fn native(&self, cell: usize) -> Option<i32> {
        (cell > 0).then(|| self.native[cell])
    }

    /// The classic bucket of `cell`.
    pub fn classic(&self, cell: usize) -> usize {
        usize::from(self.classic[cell])
    }

    /// The value of the `nth` (1-based) of `count` samples in `cell`, as if they were spread evenly over it.
    pub fn value(&self, cell: usize, nth: u64, count: u64) -> u64 {
        if cell == 0 {
            return 0;
        }
        let (below, upper) = (self.uppers[cell - 1], self.uppers[cell]);
        if upper == u64::MAX {
            return below; // above the grid: at least this much
        }
        let (width, count) = (u128::from(upper - below), 2 * u128::from(count.max(1)));
        let part = (width * (2 * u128::from(nth) - 1)).div_ceil(count);
        below + part.clamp(1, width) as u64
    }
}

/// Order-preserving: the value itself up to 63, then its leading six bits and their position.
fn key(value: u64) -> usize {
    if value < 64 {
        return value as usize;
    }
    let exponent = value.ilog2() as usize;
    ((exponent - 4) << 5) | ((value >> (exponent - 5)) & 31) as usize
}

/// The smallest value with this key.
fn smallest(key: usize) -> u64 {
    if key < 64 {
        return key as u64;
    }
    let exponent = (key >> 5) + 4;
    (32 | (key as u64 & 31)) << (exponent - 5)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_keep_the_order_and_know_their_smallest_value() {
        for k in 0..KEYS {
            assert_eq!(key(smallest(k)), k);
            assert!(k == 0 || key(smallest(k) - 1) == k - 1);
        }
        assert_eq!(key(u64::MAX), KEYS - 1);
    }

    #[test]
    fn a_cell_holds_what_lies_above_the_one_below_and_up_to_its_edge() {
        for layout in [
            Layout::new(Unit::Nanoseconds, [200_000_000, 1, 5]),
            Layout::new(Unit::Count, [50, 7, 1000]),
        ] {
            for cell in 1..layout.cells() {
                let (below, upper) = (layout.uppers[cell - 1], layout.uppers[cell]);
                assert_eq!(
                    (layout.cell(below), layout.cell(below + 1), layout.cell(upper)),
                    (cell - 1, cell, cell)
                );
            }
            assert_eq!(layout.cell(0), 0);
        }
    }

    #[test]
    fn an_edge_is_inclusive_and_the_next_value_is_above_it() {
        let layout = Layout::new(Unit::Nanoseconds, [200_000_000]);
        assert_eq!(layout.classic(layout.cell(200_000_000)), 0);
        assert_eq!(layout.classic(layout.cell(200_000_001)), 1);
    }

    #[test]
    fn native_buckets_do_not_change_with_classic_edges() {
        let (plain, cut) = (
            Layout::new(Unit::Nanoseconds, []),
            Layout::new(Unit::Nanoseconds, [200_000_000, 201_000_000]),
        );
        for value in [
            1,
            953,
            954,
            199_999_999,
            200_000_000,
            200_000_001,
            201_000_000,
            202_000_000,
            1_000_000_000,
            1_000_000_001,
        ] {
            assert_eq!(plain.native(plain.cell(value)), cut.native(cut.cell(value)), "{value}");
        }
        assert_eq!(plain.native(plain.cell(1_000_000_000)), Some(0));
        assert_eq!(plain.native(plain.cell(1_000_000_001)), Some(1));
        assert_eq!(plain.native(plain.cell(0)), None);
    }

    #[test]
    fn small_counts_come_back_exactly() {
        let layout = Layout::new(Unit::Count, []);
        for n in 0..=45 {
            assert_eq!(layout.value(layout.cell(n), 1, 1), n);
        }
    }

    #[test]
    fn values_outside_the_grid_are_counted_at_its_ends() {
        let layout = Layout::new(Unit::Nanoseconds, []);
        assert_eq!(layout.native(layout.cell(1)), Some(-640));
        assert_eq!(layout.native(layout.cell(8_192_000_000_000)), Some(416));
        assert_eq!(layout.native(layout.cell(8_192_000_000_001)), Some(417));
        let top = layout.cell(u64::MAX);
        assert_eq!(layout.native(top), Some(417));
        assert_eq!(layout.value(top, 1, 1), 8_192_000_000_000);
    }

    #[test]
    fn edges_past_the_cap_are_left_out() {
        let layout = Layout::new(Unit::Count, 1..=1000);
        assert_eq!(layout.edges().len(), Layout::MAX_EDGES);
    }
}
