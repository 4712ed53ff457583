//! GLUE: joins a live exchange to the pure core. One [`Exchange`] per request carries decoder and meter; whatever way it ends, it
//! becomes exactly one record, is judged, aggregated, logged and remembered.
//!
//! The proxy ring calls it; it never sees a socket, and it never touches a byte of the traffic.

use std::sync::Arc;
use std::time::Duration;

use http::{HeaderMap, Method, StatusCode};

use crate::aggregate::Snapshot;
use crate::config::Config;
use crate::lifecycle::PhaseWatch;
use crate::measure::{Ending, Stamp};

/// What all requests share: routes, SLOs, aggregates, the ring of recent requests.
#[derive(Debug)]
pub struct Observer {}

impl Observer {
    /// Resolves everything the configuration says; series known at start exist at 0.
    pub fn new(_config: &Config, _phase: PhaseWatch) -> Arc<Self> {
        Arc::new(Self {})
    }

    /// A request head was parsed at `t0`: it is accepted from here on and will end in exactly one record.
    pub fn begin(self: &Arc<Self>, _t0: Stamp, _method: &Method, _path: &str, _headers: &HeaderMap) -> Exchange {
        Exchange {}
    }

    /// How often [`Observer::tick`] is to be called.
    pub fn tick_every(&self) -> Duration {
        Duration::from_secs(5)
    }

    /// Moves the rolling windows on.
    pub fn tick(&self, _now: Stamp) {}

    /// The last finished requests as a JSON document, newest first, without anyone's text.
    pub fn requests(&self) -> String {
        "[]".to_owned()
    }

    /// What a scrape sees.
    pub fn snapshot(&self, _now: Stamp) -> Snapshot {
        Snapshot::default()
    }
}

/// One request under way. Dropped unfinished, it finishes itself: as drained when the proxy's deadline cut it, else as the
/// client's leaving.
#[derive(Debug)]
pub struct Exchange {}

impl Exchange {
    /// The tap for the request body; shared, since the body is sent while the reply may already be under way.
    pub fn request_tap(&self) -> RequestTap {
        RequestTap {}
    }

    /// The final response head was received at `at`.
    pub fn head(&mut self, _at: Stamp, _status: StatusCode, _headers: &HeaderMap) {}

    /// One read's worth of response body, taken from the upstream at `at`. Never fails, never keeps the bytes.
    pub fn chunk(&mut self, _at: Stamp, _bytes: &[u8]) {}

    /// The proxy held a ready frame back from the upstream since the client was not taking more.
    pub fn client_limited(&mut self) {}

    /// The exchange ended. The first call counts, later ones do nothing.
    pub fn finish(&mut self, _at: Stamp, _ending: Ending) {}

    /// The proxy answered by itself with `status` for `reason`; `ending` says whose fault it was.
    pub fn answered(&mut self, _at: Stamp, _status: StatusCode, _ending: Ending) {}
}

/// The request body's side of an [`Exchange`].
#[derive(Clone, Debug)]
pub struct RequestTap {}

impl RequestTap {
    /// A connection attempt or reuse began (one or two per request).
    pub fn attempt(&self) {}

    /// Body bytes on their way to the upstream.
    pub fn chunk(&self, _bytes: &[u8]) {}

    /// The last body byte was handed to the upstream socket at `at`.
    pub fn sent(&self, _at: Stamp) {}
}
