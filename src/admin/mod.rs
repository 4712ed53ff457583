//! The admin port: metrics, probes, drain, the effective configuration and recent requests. Never the traffic port.
//!
//! It answers from snapshots on its own thread and runtime, so that busy streams cannot delay a probe, nor a scrape a stream.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use crate::aggregate::Snapshot;
use crate::expose::{ProxyStats, Reference};
use crate::lifecycle::PhaseWatch;

/// Where the admin endpoints read what they show, and the one thing they can start.
pub trait Source: Send + Sync + 'static {
    /// The aggregates now.
    fn snapshot(&self) -> Snapshot;
    /// The last finished requests as a JSON document, newest first, without anyone's text.
    fn requests(&self) -> String;
    /// The effective configuration as a JSON document, secrets masked.
    fn config(&self) -> String;
    /// The proxy's own counters.
    fn stats(&self) -> ProxyStats;
    /// Starts draining (again: nothing more happens); resolves with the number of requests still in flight: 0 as soon as there are
    /// none, else when the time for draining has passed.
    fn drain(&self) -> Pin<Box<dyn Future<Output = usize> + Send>>;
}

/// Everything the admin endpoints need.
#[derive(Clone)]
pub struct AdminState {
    /// Aggregates, counters, requests, configuration, drain.
    pub source: Arc<dyn Source>,
    /// What the configuration contributes to the exposition.
    pub reference: Arc<Reference>,
    /// For `/readyz`.
    pub phase: PhaseWatch,
}
