//! The only clock read in the crate.
//!
//! Everything else takes the time as an argument, so that a test on tokio's paused clock sees exact durations.

use std::sync::OnceLock;
use std::time::Duration;

use crate::measure::Stamp;

/// How far before the first call the anchor lies: paused test clocks differ, and none may fall before it.
const BEFORE: Duration = Duration::from_secs(365 * 24 * 60 * 60);

/// The present moment on the monotonic clock, in nanoseconds since a year before the first call in this process.
///
/// Follows `tokio::time::pause` in tests; outside a runtime it is the system's monotonic clock.
#[expect(clippy::disallowed_methods, reason = "this is the one place that reads the clock")]
pub fn now() -> Stamp {
    static ANCHOR: OnceLock<std::time::Instant> = OnceLock::new();
    let now = tokio::time::Instant::now().into_std();
    let anchor = *ANCHOR.get_or_init(|| now.checked_sub(BEFORE).unwrap_or(now));
    // Should a clock go back past the anchor all the same: saturate, never panic.
    let ns = now.saturating_duration_since(anchor).as_nanos();
    Stamp::from_nanos(u64::try_from(ns).unwrap_or(u64::MAX))
}

/// Wall-clock seconds since the epoch: for people and exemplars only, never for a duration.
pub fn unix_seconds() -> f64 {
    std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .map_or(0.0, |since| since.as_secs_f64())
}
