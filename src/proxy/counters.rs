//! What happened on the traffic port that no request's record can tell.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::aggregate::{AtomicHistogram, Layout, Unit};

const US: u64 = 1_000;
const MS: u64 = 1_000_000;

/// Classic edges of the overhead histograms, ns.
const OVERHEAD_EDGES: [u64; 17] = [
    US,
    2 * US,
    5 * US,
    10 * US,
    20 * US,
    50 * US,
    100 * US,
    200 * US,
    500 * US,
    MS,
    2 * MS,
    5 * MS,
    10 * MS,
    20 * MS,
    50 * MS,
    100 * MS,
    1_000 * MS,
];

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

/// Counters of the traffic port, and the time the proxy itself adds. Cheap enough to be always on.
#[derive(Debug)]
pub struct Counters {
    /// Client connections accepted.
    pub connections: Counter,
    /// `accept` failed (out of file descriptors and the like).
    pub accept_errors: Counter,
    /// TLS handshakes that failed or took too long.
    pub tls_handshake_errors: Counter,
    /// Connections whose head did not come within `limits.header_timeout` of its first byte.
    pub header_timeouts: Counter,
    /// Heads over `limits.max_header_bytes` or `limits.max_headers`: answered 431.
    pub heads_too_large: Counter,
    /// Heads that are not HTTP or not forwardable: answered 4xx where possible.
    pub heads_malformed: Counter,
    /// Informational replies (1xx) that could not be relayed: an HTTP/1.0 or HTTP/2 client, or over their cap.
    pub informational_dropped: Counter,
    /// Tunnels opened by a websocket handshake.
    pub upgrades: Counter,
    /// Requests put on an upstream connection: one or two each.
    pub upstream_attempts: Counter,
    /// Upstream connections opened.
    pub upstream_connects: Counter,
    /// Upstream connections that could not be opened.
    pub upstream_connect_errors: Counter,
    /// Head parsed to sent on, and the reply's head read to handed on: their sum, once a request, ns.
    pub overhead_request: AtomicHistogram,
    /// A chunk read to handed on, ns.
    pub overhead_chunk: AtomicHistogram,
}

impl Default for Counters {
    fn default() -> Self {
        let layout = Arc::new(Layout::new(Unit::Nanoseconds, OVERHEAD_EDGES));
        Self {
            connections: Counter::default(),
            accept_errors: Counter::default(),
            tls_handshake_errors: Counter::default(),
            header_timeouts: Counter::default(),
            heads_too_large: Counter::default(),
            heads_malformed: Counter::default(),
            informational_dropped: Counter::default(),
            upgrades: Counter::default(),
            upstream_attempts: Counter::default(),
            upstream_connects: Counter::default(),
            upstream_connect_errors: Counter::default(),
            overhead_request: AtomicHistogram::new(Arc::clone(&layout)),
            overhead_chunk: AtomicHistogram::new(layout),
        }
    }
}
