//! The data path: client connections in, the upstream's replies out, byte for byte.
//!
//! [`accept`] gives each `connection` a task. Plain exchanges go over the `relay`. For all others hyper's server (`full`) reads
//! heads; `service` observes a request, fits it to the next hop and sends it; `metered` shows each frame of the reply to the
//! exchange and hands it on as it is. No body is buffered, no stream moved to another task, nothing added to a message.
//!
//! Caps: `limits` of the configuration for connections and heads; 64 KiB of a body for a client that reads slowly; 16 KiB of
//! informational heads.

mod accept;
mod client;
mod connection;
pub mod counters;
pub mod error;
mod full;
pub(crate) mod fuzz;
mod head_watch;
mod headers;
mod inject;
mod metered;
mod peek;
mod pool;
mod presence;
mod relay;
mod service;
mod sniff;
mod strip;
mod tcp;
#[cfg(test)]
mod tests;
mod tunnel;
pub mod upstream;

use std::sync::Arc;

use self::counters::Counters;
use self::full::Servers;
use self::relay::Relay;
use self::upstream::Upstream;
use crate::config::{Config, Limits};
use crate::lifecycle::{PhaseWatch, UnderWay};
use crate::observe::Observer;

pub use self::accept::accept;
pub use self::connection::{ClientStream, serve_connection, serve_tls_connection};

/// What all client connections share.
#[derive(Debug)]
pub struct Proxy {
    observer: Arc<Observer>,
    upstream: Upstream,
    servers: Servers,
    /// The short way, where the configuration allows it.
    relay: Option<Arc<Relay>>,
    inject_usage: bool,
    half_close: bool,
    limits: Limits,
    phase: PhaseWatch,
    under_way: UnderWay,
    counters: Arc<Counters>,
}

impl Proxy {
    /// `upstream` belongs to the runtime that serves the connections.
    pub fn new(
        config: &Config,
        observer: Arc<Observer>,
        upstream: Upstream,
        phase: PhaseWatch,
        under_way: UnderWay,
        counters: Arc<Counters>,
    ) -> Arc<Self> {
        let servers = Servers::new(config);
        let relay = Relay::new(config, &observer, &upstream, &under_way.requests, &counters, &phase);
        Arc::new(Self {
            observer,
            upstream,
            servers,
            relay,
            inject_usage: config.inject_usage,
            half_close: config.half_close,
            limits: config.limits,
            phase,
            under_way,
            counters,
        })
    }
}
