//! The validated configuration. `raw` reads what was written, `check` turns it into this and reports every problem at once;
//! afterwards no field can be wrong.

mod builtin;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use crate::measure::Slo;
use crate::wire::Format;

pub use builtin::OTHER;

/// Everything `run` needs.
#[derive(Clone, Debug)]
pub struct Config {
    /// Traffic address.
    pub listen: SocketAddr,
    /// Address of metrics and probes.
    pub admin: SocketAddr,
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
    /// Shutdown behaviour.
    pub drain: Drain,
    /// Caps of the traffic port.
    pub limits: Limits,
    /// Logging.
    pub log: Log,
    /// How many finished requests `/requests` keeps.
    pub requests_kept: usize,
}

impl Default for Config {
    fn default() -> Self {
        let window = |name: &str, seconds| Window {
            name: name.into(),
            length: Duration::from_secs(seconds),
        };
        Self {
            listen: SocketAddr::from(([0, 0, 0, 0], 8080)),
            admin: SocketAddr::from(([0, 0, 0, 0], 9464)),
            workers: 1,
            upstream: Upstream {
                target: Target::Tcp {
                    host: "127.0.0.1".to_owned(),
                    port: 8000,
                },
                protocol: Protocol::Http1,
                connect_timeout: Duration::from_secs(5),
                pool_idle_timeout: Duration::from_secs(4),
                pool_max_idle: 1024,
                first_byte_timeout: None,
                idle_timeout: None,
                total_timeout: None,
                max_header_bytes: 64 << 10,
                max_headers: 256,
            },
            routes: builtin::routes().collect(),
            labels: Labels {
                models_allow: Vec::new(),
                models_cap: 32,
                tenant_header: None,
                tenants_allow: Vec::new(),
                tenants_cap: 32,
            },
            windows: vec![window("1m", 60), window("5m", 300), window("30m", 1800)],
            profile: "goodput".into(),
            inject_usage: false,
            half_close: false,
            drain: Drain {
                delay: Duration::from_secs(5),
                timeout: Duration::from_secs(300),
            },
            limits: Limits {
                max_connections: 10_000,
                header_timeout: Duration::from_secs(30),
                max_header_bytes: 64 << 10,
                max_headers: 256,
            },
            log: Log {
                format: None,
                level: "info".to_owned(),
            },
            requests_kept: 1000,
        }
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
}

/// The model server and how to reach it.
#[derive(Clone, Debug)]
pub struct Upstream {
    /// Address.
    pub target: Target,
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
