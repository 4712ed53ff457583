//! The admin port: metrics, probes, drain, the effective configuration and recent requests. Never the traffic port.
//!
//! It answers from snapshots on its own thread and runtime, so that busy streams cannot delay a probe, nor a scrape a stream.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use crate::aggregate::Snapshot;
use crate::expose::ProxyStats;
use crate::lifecycle::PhaseWatch;

/// Where the admin endpoints read what they show, and the one thing they can start.
pub trait Source: Send + Sync + 'static {
    /// The aggregates now.
    fn snapshot(&self) -> Snapshot;
    /// The last finished requests as a JSON document, newest first, without anyone's text.
    fn requests(&self) -> String;
    /// The effective configuration as a JSON document, secrets masked.
    fn config(&self) -> String;
    /// Starts draining (again: nothing more happens) and resolves when nothing is in flight.
    fn drain(&self) -> Pin<Box<dyn Future<Output = ()> + Send>>;
}

/// Everything the admin endpoints need.
#[derive(Clone)]
pub struct AdminState {
    /// Aggregates, requests, configuration, drain.
    pub source: Arc<dyn Source>,
    /// The proxy's own counters.
    pub stats: Arc<ProxyStats>,
    /// For `/readyz`.
    pub phase: PhaseWatch,
    /// How long `/drain` waits for what is in flight: the configured delay and timeout together.
    pub drain_timeout: Duration,
}
