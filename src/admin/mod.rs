//! The admin port: metrics, probes, drain, the effective configuration and recent requests. Never the traffic port.
//!
//! It runs on a thread and runtime of its own and answers from snapshots, so that busy streams cannot delay a probe, nor a scrape
//! a stream. Connections, scrapes and the time a peer may take are bounded (see the constants of `server` and `scrape`).

mod auth;
mod readiness;
mod routes;
mod scrape;
mod server;
#[cfg(test)]
mod tests;

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, PoisonError, RwLock};

use crate::aggregate::Snapshot;
use crate::expose::{Configured, ProxyStats};
use crate::lifecycle::PhaseWatch;
use crate::mounted::Mounted;
use crate::proxy::upstream::Connector;

pub use auth::Token;
pub use server::{serve, serve_connection, serve_tls_connection};

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

/// Everything the admin endpoints need; clones share it.
#[derive(Clone)]
pub struct AdminState {
    /// Aggregates, counters, requests, configuration, drain.
    source: Arc<dyn Source>,
    /// What the configuration contributes to the exposition.
    configured: Arc<RwLock<Arc<Configured>>>,
    /// For `/readyz`.
    phase: PhaseWatch,
    /// Whom `/readyz` asks too.
    upstream: Option<Arc<readiness::Upstream>>,
    auth: Option<Arc<Auth>>,
    scrapes: scrape::Slots,
}

impl AdminState {
    /// Over `source`; `configured` is what the configuration contributes to the exposition, `phase` what `/readyz` tells.
    pub fn new(source: Arc<dyn Source>, configured: Configured, phase: PhaseWatch) -> Self {
        Self {
            source,
            configured: Arc::new(RwLock::new(Arc::new(configured))),
            phase,
            upstream: None,
            auth: None,
            scrapes: scrape::Slots::default(),
        }
    }

    /// Is ready from now on only while the upstream takes connections, as `connector` makes them.
    pub fn ready_with(mut self, connector: Connector) -> Self {
        self.upstream = Some(Arc::new(readiness::Upstream::new(connector)));
        self
    }

    /// Asks for `token` from now on, for `/metrics` too when `metrics` says so; probes stay open.
    pub fn guarded(mut self, token: Arc<Mounted<Token>>, metrics: bool) -> Self {
        self.auth = Some(Arc::new(Auth { token, metrics }));
        self
    }

    /// What a new configuration contributes to the exposition from now on.
    pub fn reconfigure(&self, configured: Configured) {
        *self.configured.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(configured);
    }

    fn configured(&self) -> Arc<Configured> {
        Arc::clone(&self.configured.read().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Who may ask for what.
struct Auth {
    token: Arc<Mounted<Token>>,
    metrics: bool,
}

impl fmt::Debug for AdminState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AdminState")
            .field("phase", &self.phase)
            .finish_non_exhaustive()
    }
}
