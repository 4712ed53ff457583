//! PURE: what a request's marks are, and what the measures made of them mean. No clock, no IO, no allocation per event.

mod bound_set;
mod choices;
mod event;
mod gaps;
mod glob;
pub mod grpc;
mod judge;
mod meter;
mod outcome;
pub mod profile;
mod record;
mod slo;
mod stamp;
mod verdict;

pub use bound_set::BoundSet;
pub use event::{Channel, EventFacts, Fragment, MAX_FRAGMENTS, Usage};
pub use gaps::GapSink;
pub use glob::glob;
pub use judge::{Asked, AskedBounds, Live, Overdue, effective, judge, overdue};
pub use meter::{Meter, ReplyKind};
pub use outcome::{Ending, Outcome, Seen, decide};
pub use record::{Degraded, Record, TokenCounts, TokenSource};
pub use slo::{Bound, Bounds, HeaderBounds, ItlBounds, Match, Policy, Slo, Undefined};
pub use stamp::Stamp;
pub use verdict::{Excluded, Judgement, Verdict};
