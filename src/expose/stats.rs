//! What the data path counted besides requests, as plain numbers copied at scrape time.
//!
//! The data path knows nothing of exposition: whoever sees both sides fills this in.

use crate::aggregate::HistogramSnapshot;

/// The proxy's own counters and gauges, one field a `goodput_proxy_*` family (or one of its children).
#[derive(Clone, Debug, Default)]
pub struct ProxyStats {
    /// Client connections open.
    pub connections_open: u64,
    /// Client connections accepted.
    pub connections: u64,
    /// Failed accepts.
    pub accept_errors: u64,
    /// TLS handshakes with clients that failed or took too long.
    pub tls_handshake_errors: u64,
    /// Connections closed since a head did not arrive in time.
    pub header_timeouts: u64,
    /// Heads that are not HTTP, or ambiguous in their framing.
    pub heads_malformed: u64,
    /// Heads over a configured limit.
    pub heads_too_large: u64,
    /// Informational replies that could not be relayed.
    pub informational_dropped: u64,
    /// Tunnels made by an upgrade.
    pub upgrades: u64,
    /// Requests put on an upstream connection.
    pub upstream_attempts: u64,
    /// Upstream connections opened.
    pub upstream_connects: u64,
    /// Upstream connections that could not be opened.
    pub upstream_connect_errors: u64,
    /// Configuration reloads that came into force.
    pub reloads_taken: u64,
    /// Configuration reloads that were refused.
    pub reloads_refused: u64,
    /// Whether the last one was refused.
    pub last_reload_refused: bool,
    /// Own overhead per request, where it is measured: head read to head written, nanoseconds.
    pub overhead_request: Option<HistogramSnapshot>,
    /// Own overhead per chunk, where it is measured: read to hand-over, nanoseconds.
    pub overhead_chunk: Option<HistogramSnapshot>,
}

impl ProxyStats {
    /// Family, value of its only label if it has one, and number.
    pub(super) fn numbers(&self) -> [(&'static str, Option<&'static str>, u64); 15] {
        [
            ("goodput_proxy_open_connections", None, self.connections_open),
            ("goodput_proxy_connections_total", None, self.connections),
            ("goodput_proxy_accept_errors_total", None, self.accept_errors),
            ("goodput_proxy_tls_handshake_errors_total", None, self.tls_handshake_errors),
            ("goodput_proxy_header_timeouts_total", None, self.header_timeouts),
            ("goodput_proxy_refused_heads_total", Some("malformed"), self.heads_malformed),
            ("goodput_proxy_refused_heads_total", Some("too_large"), self.heads_too_large),
            ("goodput_proxy_informational_dropped_total", None, self.informational_dropped),
            ("goodput_proxy_upgrades_total", None, self.upgrades),
            ("goodput_proxy_upstream_attempts_total", None, self.upstream_attempts),
            ("goodput_proxy_upstream_connects_total", None, self.upstream_connects),
            (
                "goodput_proxy_upstream_connect_errors_total",
                None,
                self.upstream_connect_errors,
            ),
            ("goodput_proxy_config_reloads_total", Some("success"), self.reloads_taken),
            ("goodput_proxy_config_reloads_total", Some("failure"), self.reloads_refused),
            (
                "goodput_proxy_config_last_reload_successful",
                None,
                u64::from(!self.last_reload_refused),
            ),
        ]
    }
}
