//! GLUE: joins a live exchange to the pure core. One [`Exchange`] per request carries decoder and meter; whatever way it ends, it
//! becomes exactly one record, is judged, aggregated, logged and remembered.
//!
//! The proxy ring calls it; it never sees a socket, and it never touches a byte of the traffic.

mod access_log;
mod asked;
mod exchange;
mod fields;
mod gauges;
mod live;
mod recent;
mod recorder;
mod request;
mod routes;
mod rules;
mod tap;

use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Duration;

use http::Method;

use crate::aggregate::{Aggregates, Full, Snapshot};
use crate::clock;
use crate::config::Config;
use crate::lifecycle::PhaseWatch;
use crate::measure::Stamp;

pub use access_log::TARGET as ACCESS_LOG;
pub use exchange::Exchange;
pub use fields::Fields;
pub use recent::{MAX_KEPT, Summary};
#[cfg(test)]
pub(crate) use tap::PANIC;
pub use tap::RequestTap;

use gauges::Gauges;
use live::UnderWay;
use recent::Recent;
use routes::Routes;
use rules::Rules;

/// What all requests share: routes, SLOs, aggregates, the ring of recent requests.
#[derive(Debug)]
pub struct Observer {
    /// In force for requests that begin now.
    rules: RwLock<Arc<Rules>>,
    /// Held over a change of the rules, and over a scrape: none sees half of it.
    steady: Mutex<()>,
    aggregates: Aggregates,
    under_way: Arc<UnderWay>,
    recent: Recent,
    phase: PhaseWatch,
}

impl Observer {
    /// Resolves everything the configuration says; series known at start exist at 0.
    pub fn new(config: &Config, phase: PhaseWatch) -> Arc<Self> {
        Arc::new(Self {
            rules: RwLock::new(Arc::new(Rules::new(config))),
            steady: Mutex::new(()),
            aggregates: Aggregates::new(&Routes::setup(config), clock::now()),
            under_way: Arc::default(),
            recent: Recent::new(config.requests_kept),
            phase,
        })
    }

    /// New routes, SLOs and labels for requests that begin from now on; those under way are judged by the rules they began with, and
    /// no counter falls. Everything else of `config` must be as it was.
    ///
    /// # Errors
    /// When there have been too many names since the start; nothing has changed then.
    pub fn reconfigure(&self, config: &Config) -> Result<(), Full> {
        let _steady = self.steady.lock().unwrap_or_else(PoisonError::into_inner);
        let slots = self.aggregates.reconfigure(&Routes::setup(config))?;
        let rules = Arc::new(Rules::with(config, slots));
        *self.rules.write().unwrap_or_else(PoisonError::into_inner) = rules;
        Ok(())
    }

    fn rules(&self) -> Arc<Rules> {
        Arc::clone(&self.rules.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// A request head was parsed at `t0`: it is accepted from here on and will end in exactly one record. `path` has no query.
    pub fn begin(self: &Arc<Self>, t0: Stamp, method: &Method, path: &str, headers: &(impl Fields + ?Sized)) -> Exchange {
        Exchange::new(self, t0, method, path, headers)
    }

    /// How often [`Observer::tick`] is to be called.
    pub fn tick_every(&self) -> Duration {
        Duration::from_nanos(self.aggregates.tick_every_ns())
    }

    /// Moves the rolling windows on.
    pub fn tick(&self, now: Stamp) {
        self.aggregates.tick(now);
    }

    /// What a scrape sees.
    pub fn snapshot(&self, now: Stamp) -> Snapshot {
        let _steady = self.steady.lock().unwrap_or_else(PoisonError::into_inner);
        // First, since looking at the requests under way may bring new series.
        let mut gauges = Gauges::read(self, now);
        self.aggregates.snapshot(now, |series| gauges.of(series))
    }

    /// The last `limit` finished requests, newest first.
    pub fn recent(&self, limit: usize) -> Vec<Arc<Summary>> {
        self.recent.last(limit)
    }

    /// The last finished requests as a JSON document, newest first, without anyone's text.
    pub fn requests(&self) -> String {
        // Plain numbers and strings always serialise.
        serde_json::to_string(&self.recent(usize::MAX)).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests;
