//! PURE: what is kept of many records: cumulative histograms and counters per series, and rolling windows as differences of
//! snapshots. Time is an argument; a scrape reads a [`Snapshot`] and formats it elsewhere.

mod snapshot;

pub use snapshot::*;
