//! What the metrics are called, what they mean, and how they are written.
//!
//! [`families`] is the one table of names, types, labels and help. A snapshot of the aggregates, the proxy's own counters and the
//! configuration become one [`model::Model`]; every format (text 0.0.4, OpenMetrics, protobuf) is a rendering of that model, so
//! they cannot disagree. Nothing here does IO but [`process`], which reads `/proc`.

pub mod families;
mod stats;

pub use families::reference;
pub use stats::ProxyStats;
