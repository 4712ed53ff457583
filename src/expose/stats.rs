//! The proxy's own live counters: connections, upstream attempts, overhead.
//!
//! Handles are public and resolved once; bumping one is a relaxed atomic add. They live in a registry of their own, which is
//! small, so gathering it is cheap; the traffic's aggregates come from a snapshot instead.

use prometheus::core::Collector;
use prometheus::proto::MetricFamily;
use prometheus::{Histogram, HistogramOpts, HistogramVec, IntCounter, IntGauge, Opts, Registry};

use super::families::family;

/// Edges of `goodput_overhead_seconds`: 2 us to 100 ms.
const OVERHEAD_EDGES: [f64; 14] = [
    2e-6, 5e-6, 1e-5, 2e-5, 5e-5, 1e-4, 2e-4, 5e-4, 1e-3, 2.5e-3, 5e-3, 1e-2, 2.5e-2, 1e-1,
];

/// Live counters and gauges of the proxy, one field a `goodput_proxy_*` family.
#[derive(Debug)]
pub struct ProxyStats {
    registry: Registry,
    /// Client connections open.
    pub connections: IntGauge,
    /// Client connections accepted.
    pub connections_total: IntCounter,
    /// Client connections turned away at the cap.
    pub connections_refused: IntCounter,
    /// Failed accepts.
    pub accept_errors: IntCounter,
    /// Requests that are not valid HTTP or ambiguous in their framing.
    pub malformed_requests: IntCounter,
    /// Connections closed since a head did not arrive in time.
    pub header_timeouts: IntCounter,
    /// Tunnels.
    pub upgrades: IntCounter,
    /// Requests put on an upstream connection.
    pub upstream_attempts: IntCounter,
    /// Requests sent again after a connection handed them back unsent.
    pub upstream_retries: IntCounter,
    /// Upstream connections opened.
    pub upstream_connects: IntCounter,
    /// Upstream connections that could not be opened.
    pub upstream_connect_errors: IntCounter,
    /// Upstream connections open.
    pub upstream_connections: IntGauge,
    /// Own overhead per request, seconds: head read to head written.
    pub overhead_request: Histogram,
    /// Own overhead per chunk, seconds: read to hand-over.
    pub overhead_chunk: Histogram,
}

impl ProxyStats {
    /// Everything at 0.
    pub fn new() -> Self {
        let registry = Registry::new();
        let counter = |name| register(&registry, IntCounter::with_opts(Opts::new(name, help(name))));
        let gauge = |name| register(&registry, IntGauge::with_opts(Opts::new(name, help(name))));
        let name = "goodput_overhead_seconds";
        let options = HistogramOpts::new(name, help(name)).buckets(OVERHEAD_EDGES.to_vec());
        let overhead = register(&registry, HistogramVec::new(options, &["stage"]));
        Self {
            connections: gauge("goodput_proxy_connections"),
            connections_total: counter("goodput_proxy_connections_total"),
            connections_refused: counter("goodput_proxy_connections_refused_total"),
            accept_errors: counter("goodput_proxy_accept_errors_total"),
            malformed_requests: counter("goodput_proxy_malformed_requests_total"),
            header_timeouts: counter("goodput_proxy_header_timeouts_total"),
            upgrades: counter("goodput_proxy_upgrades_total"),
            upstream_attempts: counter("goodput_proxy_upstream_attempts_total"),
            upstream_retries: counter("goodput_proxy_upstream_retries_total"),
            upstream_connects: counter("goodput_proxy_upstream_connects_total"),
            upstream_connect_errors: counter("goodput_proxy_upstream_connect_errors_total"),
            upstream_connections: gauge("goodput_proxy_upstream_connections"),
            overhead_request: overhead.with_label_values(&["request"]),
            overhead_chunk: overhead.with_label_values(&["chunk"]),
            registry,
        }
    }

    /// Their present values.
    pub(super) fn gather(&self) -> Vec<MetricFamily> {
        self.registry.gather()
    }
}

impl Default for ProxyStats {
    fn default() -> Self {
        Self::new()
    }
}

fn help(name: &str) -> &'static str {
    // invariant: every name above is a row of the table; the unit test constructs them all.
    family(name).expect("a row of the table").help
}

fn register<C: Collector + Clone + 'static>(registry: &Registry, made: prometheus::Result<C>) -> C {
    // invariant: names and labels are constants above, valid and distinct; the unit test constructs them all.
    let collector = made.expect("a valid family");
    registry.register(Box::new(collector.clone())).expect("registered once");
    collector
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::expose::families::{FAMILIES, Kind};

    #[test]
    fn every_counter_is_a_row_of_the_table_of_its_type_and_starts_at_0() {
        let stats = ProxyStats::new();
        let gathered = stats.gather();
        assert_eq!(gathered.len(), 13);
        for got in gathered {
            let def = FAMILIES.iter().find(|d| d.name == got.name()).expect("a row");
            let metric = &got.get_metric()[0];
            match def.kind {
                Kind::Counter => assert_eq!(metric.get_counter().get_value(), 0.0),
                Kind::Gauge => assert_eq!(metric.get_gauge().get_value(), 0.0),
                Kind::Histogram => assert_eq!(metric.get_histogram().get_sample_count(), 0),
            }
        }
    }
}
