//! PURE: what a request's marks are, and what the measures made of them mean. No clock, no IO, no allocation per event.

mod event;
mod outcome;
mod record;
mod slo;
mod stamp;

pub use event::{Channel, EventFacts, Fragment, MAX_FRAGMENTS, Usage};
pub use outcome::{Ending, Outcome};
pub use record::{Degraded, Record, TokenCounts, TokenSource};
pub use slo::{Bound, Bounds, HeaderBounds, ItlBounds, Match, Policy, Slo, Undefined};
pub use stamp::Stamp;
