//! What happened on the traffic port that no request's record can tell.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// A monotone counter.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    /// Counts one more.
    pub fn add(&self) {
        self.0.fetch_add(1, Relaxed);
    }

    /// The count so far.
    pub fn get(&self) -> u64 {
        self.0.load(Relaxed)
    }
}

/// Monotone counters of the traffic port. Cheap enough to be always on.
#[derive(Debug, Default)]
pub struct Counters {
    /// Client connections accepted.
    pub connections: Counter,
    /// `accept` failed (out of file descriptors and the like).
    pub accept_errors: Counter,
    /// Connections whose head did not come within `limits.header_timeout` of its first byte.
    pub header_timeouts: Counter,
    /// Heads over `limits.max_header_bytes` or `limits.max_headers`: answered 431.
    pub heads_too_large: Counter,
    /// Heads that are not HTTP: answered 400 (or 414) where possible.
    pub heads_malformed: Counter,
    /// Informational replies (1xx) that could not be relayed: an HTTP/1.0 or HTTP/2 client, or over their cap.
    pub informational_dropped: Counter,
}
