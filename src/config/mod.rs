//! The validated configuration. `raw` reads what was written, `check` turns it into this and reports every problem at once;
//! afterwards no field can be wrong.

mod builtin;
mod check;
mod effective;
mod keys;
mod leaf;
mod problem;
mod raw;
mod section;
mod slo_spec;
mod target;
mod tls;
mod units;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use crate::measure::Slo;
use crate::wire::Format;

pub use builtin::OTHER;
pub use keys::{Key, keys, reference};
pub use problem::Problem;
pub use raw::{FILE_VARIABLE, File, Flag, Sources, Syntax};
pub use tls::{AdminAuth, CertFiles, ClientTls, ServerTls};

/// Everything `run` needs.
#[derive(Clone, Debug)]
pub struct Config {
    /// Traffic address.
    pub listen: SocketAddr,
    /// Address of metrics and probes.
    pub admin: SocketAddr,
    /// TLS on the traffic port.
    pub tls: Option<ServerTls>,
    /// TLS on the admin port: what its clients are shown.
    pub admin_tls: Option<CertFiles>,
    /// Who may use the admin port.
    pub admin_auth: AdminAuth,
    /// What `/readyz` follows beside the phase.
    pub readiness: Readiness,
    /// Worker threads of the traffic runtime; 1 runs it on the calling thread.
    pub workers: usize,
    /// The model server.
    pub upstream: Upstream,
    /// Routes in matching order: the configured ones, then the built-in ones.
    pub routes: Vec<Route>,
    /// Label policies.
    pub labels: Labels,
    /// Rolling windows, ascending.
    pub windows: Vec<Window>,
    /// The definition profile in force (`goodput` unless configured).
    pub profile: Arc<str>,
    /// Ask the server for usage where the client left it open, and take the extra event out again.
    pub inject_usage: bool,
    /// Serve on after a client's FIN instead of taking it as gone.
    pub half_close: bool,
    /// Plain HTTP/1.1 exchanges go the short way; false sends all of them through the full server.
    pub relay: bool,
    /// Shutdown behaviour.
    pub drain: Drain,
    /// Caps of the traffic port.
    pub limits: Limits,
    /// Logging.
    pub log: Log,
    /// How many finished requests `/requests` keeps.
    pub requests_kept: usize,
}

/// A duration with its unit (`30s`), for flags that are no key of the configuration.
///
/// # Errors
/// What is wrong, and what would be right.
pub fn parse_duration(written: &str) -> Result<Duration, String> {
    units::duration(written).map_err(|wrong| format!("{}: {}", wrong.what, wrong.right))
}

impl Config {
    /// Merges the sources and checks the result; every problem of every source comes in one go.
    pub fn load(sources: &Sources) -> Result<Self, Vec<Problem>> {
        let (tree, problems) = raw::merge(sources);
        check::check(&tree, problems)
    }
}

impl Default for Config {
    /// What runs when nothing is configured.
    fn default() -> Self {
        // invariant: a test loads the empty sources.
        Self::load(&Sources::default()).expect("the defaults are valid")
    }
}

/// Where the model server is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// `http://host:port` over TCP.
    Tcp {
        /// Host name or address; IPv6 without its brackets.
        host: String,
        /// Port.
        port: u16,
    },
    /// `unix:/path`.
    Unix(PathBuf),
}

/// The protocol spoken to the upstream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Protocol {
    /// HTTP/1.1 (the default).
    #[default]
    Http1,
    /// HTTP/2 with prior knowledge, clear text.
    H2c,
    /// HTTP/2 over TLS, which the server must pick by ALPN.
    H2,
}

/// The model server and how to reach it.
#[derive(Clone, Debug)]
pub struct Upstream {
    /// Address.
    pub target: Target,
    /// TLS, for an `https://` address.
    pub tls: Option<ClientTls>,
    /// Protocol.
    pub protocol: Protocol,
    /// Time limit of one connection attempt over all addresses.
    pub connect_timeout: Duration,
    /// How long an idle connection is kept; below the server's own keep-alive (uvicorn: 5 s).
    pub pool_idle_timeout: Duration,
    /// How many idle connections are kept.
    pub pool_max_idle: usize,
    /// Limit from the request sent to the first response body byte; none by default, prefill may take minutes.
    pub first_byte_timeout: Option<Duration>,
    /// Limit between two reads of a response; none by default.
    pub idle_timeout: Option<Duration>,
    /// Limit of the whole exchange; none by default.
    pub total_timeout: Option<Duration>,
    /// Largest response head accepted, bytes.
    pub max_header_bytes: usize,
    /// Most response header fields accepted.
    pub max_headers: usize,
}

/// One route: a name, what it matches, how its replies are read, how it is judged.
#[derive(Clone, Debug)]
pub struct Route {
    /// The value of the `route` label.
    pub name: Arc<str>,
    /// Path patterns; `*` matches any run of characters within or across segments, a trailing `*` everything below.
    pub paths: Vec<String>,
    /// Methods, upper case; empty means all.
    pub methods: Vec<String>,
    /// A request header (lower-case name) and its exact value that must be present.
    pub header: Option<(String, String)>,
    /// How replies are read: a fixed format, by path (see [`crate::wire::format_for`]), or not at all.
    pub reading: Reading,
    /// SLOs, first match wins.
    pub slos: Vec<Slo>,
}

/// How a route's replies are read.
#[derive(Clone, Copy, Debug)]
pub enum Reading {
    /// This format.
    Format(&'static Format),
    /// Whatever the path says, among the built-in formats.
    ByPath,
    /// Only time and bytes (embeddings: E2E only).
    Opaque,
    /// Forwarded and counted, never read nor judged (`other`).
    None,
}

/// Label policies: values never come raw from a client.
#[derive(Clone, Debug)]
pub struct Labels {
    /// Model names that always get a label.
    pub models_allow: Vec<String>,
    /// Most distinct model labels per route; past it `other`.
    pub models_cap: usize,
    /// Lower-case tenant header; none: no tenant label.
    pub tenant_header: Option<String>,
    /// Tenants that always get a label.
    pub tenants_allow: Vec<String>,
    /// Most distinct tenant labels; past it `other`.
    pub tenants_cap: usize,
}

/// A rolling window and its label.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Window {
    /// As written, the value of the `window` label (`5m`).
    pub name: Arc<str>,
    /// Length.
    pub length: Duration,
}

/// What `/readyz` follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Readiness {
    /// The proxy alone.
    Own,
    /// The upstream too: ready only while it takes connections.
    Upstream,
}

/// Shutdown behaviour.
#[derive(Clone, Copy, Debug)]
pub struct Drain {
    /// Still serving after readiness fell, so that load balancers notice.
    pub delay: Duration,
    /// Then this long for streams to end.
    pub timeout: Duration,
}

/// Caps of the traffic port.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Most client connections at once.
    pub max_connections: usize,
    /// Most requests under way at once, on all connections; none: no limit.
    pub max_requests: Option<usize>,
    /// From accept (or the previous reply) to a complete request head once its first byte came.
    pub header_timeout: Duration,
    /// Largest request head, bytes.
    pub max_header_bytes: usize,
    /// Most request header fields.
    pub max_headers: usize,
}

/// Logging.
#[derive(Clone, Debug)]
pub struct Log {
    /// Format; none: text on a terminal, else JSON.
    pub format: Option<LogFormat>,
    /// A `tracing` filter.
    pub level: String,
}

/// Log line format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogFormat {
    /// For people.
    Text,
    /// For machines.
    Json,
}
