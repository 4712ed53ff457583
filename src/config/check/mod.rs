//! What was written becomes what will run, or a list of everything that is wrong with it. Pure but for the number of cores.

mod routes;
mod slos;

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use config::Value;

use super::leaf::Leaf;
use super::problem::{Problem, Wrong, suggestion};
use super::section::{Reader, Section};
use super::units::show_duration;
use super::{Config, Drain, Labels, Limits, Log, LogFormat, Protocol, Readiness, Target, Upstream, Window, target, tls};

/// Most worker threads that `auto` takes: the proxy runs beside the model server and should leave it the machine.
const AUTO_WORKERS: usize = 4;
/// Most worker threads.
const MAX_WORKERS: usize = 1024;
/// Most rolling windows; each keeps a row of snapshots per series.
const MAX_WINDOWS: usize = 6;
/// Shortest window: below it the snapshots of a window would be fractions of a second apart.
const MIN_WINDOW: Duration = Duration::from_secs(10);
/// Longest window.
const MAX_WINDOW: Duration = Duration::from_secs(24 * 3600);
/// Header caps: hyper takes no read buffer below 8 KiB.
const HEADER_BYTES: std::ops::RangeInclusive<usize> = 8 << 10..=1 << 20;
/// Most header fields.
const HEADERS: std::ops::RangeInclusive<usize> = 1..=4096;
/// Most label values of one kind.
const MAX_CAP: usize = 1000;
/// Most kept requests.
const MAX_KEPT: usize = 100_000;
/// Headers whose value is a secret: never a label, masked wherever the configuration is shown.
pub(super) const SECRET_HEADERS: [&str; 6] = [
    "authorization",
    "proxy-authorization",
    "cookie",
    "x-api-key",
    "api-key",
    "x-goog-api-key",
];

/// Checks the merged tree.
pub(super) fn check(tree: &Value, mut problems: Vec<Problem>) -> Result<Config, Vec<Problem>> {
    let mut reader = Reader::default();
    let cx = &mut reader;
    let root = cx.root(tree);
    let listen = cx.get(&root, "listen", Leaf::address);
    let admin = cx.get(&root, "admin", Leaf::address);
    let server_tls = tls::server(cx, &root);
    let admin_tls = tls::admin(cx, &root);
    let admin_auth = tls::admin_auth(cx, &root);
    let readiness = cx.get(&root, "readiness", |leaf| leaf.choice(&["self", "upstream"]));
    let workers = cx.get(&root, "workers", workers);
    let upstream = upstream(cx, &root);
    let half_close = cx.get(&root, "half_close", Leaf::boolean);
    let relay = cx.get(&root, "relay", Leaf::boolean);
    let labels = labels(cx, &root);
    let routes = routes::check(cx, &root, &labels);
    let windows = windows(cx, &root);
    let profile = cx.get(&root, "profile", profile);
    let inject_usage = cx.get(&root, "inject_usage", Leaf::boolean);
    let drain = cx.section(&root, "drain");
    let drain = Drain {
        delay: cx.get(&drain, "delay", Leaf::duration_or_zero),
        timeout: cx.get(&drain, "timeout", Leaf::duration_or_zero),
    };
    let limits = limits(cx, &root);
    let log = log(cx, &root);
    let requests_kept = cx.get(&root, "requests_kept", |leaf| leaf.count(0..=MAX_KEPT));
    if listen.port() != 0 && listen.port() == admin.port() && overlap(listen.ip(), admin.ip()) {
        let right = "give metrics and probes a port of their own, as in `0.0.0.0:9464`";
        cx.problem(&root, "admin", Wrong::new("is the traffic address too", right));
    }
    if let Target::Tcp { host, port } = &upstream.target
        && *port == listen.port()
        && is_here(host, listen.ip())
    {
        let upstream = cx.section(&root, "upstream");
        cx.problem(
            &upstream,
            "url",
            Wrong::new("is the proxy's own traffic address", "write the model server's"),
        );
    }
    problems.append(&mut reader.problems);
    if !problems.is_empty() {
        return Err(problems);
    }
    Ok(Config {
        listen,
        admin,
        tls: server_tls,
        admin_tls,
        admin_auth,
        readiness: [Readiness::Own, Readiness::Upstream][readiness],
        workers,
        upstream,
        routes,
        labels,
        windows,
        profile,
        inject_usage,
        half_close,
        relay,
        drain,
        limits,
        log,
        requests_kept,
    })
}

/// Ours. The other tools' definitions need a whole recording, which a proxy does not keep.
fn profile(leaf: &Leaf) -> Result<Arc<str>, Wrong> {
    const OURS: &str = "goodput";
    leaf.choice(&[OURS]).map(|_| OURS.into()).map_err(|_| {
        Wrong::new(
            "is no definition that live traffic is measured by",
            "write `goodput`; `goodput-proxy explain` applies other tools' definitions to a recorded stream",
        )
    })
}

fn workers(leaf: &Leaf) -> Result<usize, Wrong> {
    if matches!(leaf.text(), Ok("auto")) {
        let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        return Ok(cores.min(AUTO_WORKERS));
    }
    leaf.count(1..=MAX_WORKERS)
        .map_err(|wrong| Wrong::new(wrong.what, format!("{}, or `auto`", wrong.right)))
}

fn upstream(cx: &mut Reader, root: &Section<'_>) -> Upstream {
    let s = cx.section(root, "upstream");
    let (target, https) = cx.get(&s, "url", |leaf| target::parse(leaf.text()?));
    let host = match &target {
        Target::Tcp { host, .. } => host.as_str(),
        Target::Unix(_) => "",
    };
    let tls = tls::client(cx, &s, https, host);
    let protocol = cx.get(&s, "protocol", |leaf| leaf.choice(&["http1", "h2c", "h2"]));
    let protocol = [Protocol::Http1, Protocol::H2c, Protocol::H2][protocol];
    let misfit = match protocol {
        Protocol::H2c if https => Some(Wrong::new(
            "is clear text, and the server's address is `https://`",
            "write `h2`",
        )),
        Protocol::H2 if !https => Some(Wrong::new(
            "goes over TLS, and the server's address is not `https://`",
            "write `h2c`",
        )),
        Protocol::Http1 | Protocol::H2c | Protocol::H2 => None,
    };
    if let Some(wrong) = misfit {
        cx.problem(&s, "protocol", wrong);
    }
    Upstream {
        target,
        tls,
        protocol,
        connect_timeout: cx.get(&s, "connect_timeout", Leaf::duration),
        pool_idle_timeout: cx.get(&s, "pool_idle_timeout", Leaf::duration),
        pool_max_idle: cx.get(&s, "pool_max_idle", |leaf| leaf.count(0..=65_536)),
        first_byte_timeout: cx.get(&s, "first_byte_timeout", Leaf::duration_or_off),
        idle_timeout: cx.get(&s, "idle_timeout", Leaf::duration_or_off),
        total_timeout: cx.get(&s, "total_timeout", Leaf::duration_or_off),
        max_header_bytes: cx.get(&s, "max_header_bytes", |leaf| leaf.size(HEADER_BYTES)),
        max_headers: cx.get(&s, "max_headers", |leaf| leaf.count(HEADERS)),
    }
}

fn labels(cx: &mut Reader, root: &Section<'_>) -> Labels {
    let s = cx.section(root, "labels");
    let (models, tenant) = (cx.section(&s, "models"), cx.section(&s, "tenant"));
    let value = |leaf: &Leaf| leaf.text().map(str::to_owned);
    let tenant_header = cx.get(&tenant, "header", |leaf| match &leaf.kind {
        config::ValueKind::String(text) if text.is_empty() => Ok(None),
        _ => leaf.header_name().map(Some),
    });
    if tenant_header
        .as_deref()
        .is_some_and(|header| SECRET_HEADERS.contains(&header))
    {
        let wrong = Wrong::new(
            "holds a secret, which would become a label",
            "name a header that a gateway sets, as `x-tenant`",
        );
        cx.problem(&tenant, "header", wrong);
    }
    let labels = Labels {
        models_allow: cx.list(&models, "allow", value),
        models_cap: cx.get(&models, "cap", |leaf| leaf.count(1..=MAX_CAP)),
        tenants_allow: cx.list(&tenant, "allow", value),
        tenants_cap: cx.get(&tenant, "cap", |leaf| leaf.count(1..=MAX_CAP)),
        tenant_header,
    };
    for (section, allow) in [(&models, &labels.models_allow), (&tenant, &labels.tenants_allow)] {
        if allow.len() > MAX_CAP {
            let wrong = Wrong::new(format!("has {} entries", allow.len()), format!("keep it within {MAX_CAP}"));
            cx.problem(section, "allow", wrong);
        }
    }
    if labels.tenant_header.is_none() && !tenant.has("header") && tenant.has("allow") && !labels.tenants_allow.is_empty() {
        cx.problem(
            &tenant,
            "allow",
            Wrong::new("names tenants, but no header says who they are", "set `labels.tenant.header`"),
        );
    }
    labels
}

fn windows(cx: &mut Reader, root: &Section<'_>) -> Vec<Window> {
    let before = cx.problems.len();
    let windows = cx.list(root, "windows", |leaf| {
        let length = leaf.duration()?;
        if length < MIN_WINDOW || length > MAX_WINDOW {
            let range = format!(
                "write one from {} to {}",
                show_duration(MIN_WINDOW),
                show_duration(MAX_WINDOW)
            );
            return Err(Wrong::new("is no length for a window", range));
        }
        Ok(Window {
            name: leaf.text()?.trim().into(),
            length,
        })
    });
    let right = "write each once, shortest first, as in `[1m, 5m, 30m]`";
    if cx.problems.len() > before {
        return windows;
    }
    if windows.is_empty() {
        cx.problem(root, "windows", Wrong::new("names no window", right));
    } else if windows.len() > MAX_WINDOWS {
        cx.problem(
            root,
            "windows",
            Wrong::new(
                format!("has {} windows", windows.len()),
                format!("keep at most {MAX_WINDOWS}"),
            ),
        );
    }
    for pair in windows.windows(2) {
        if pair[0].length >= pair[1].length {
            let relation = if pair[0].length == pair[1].length {
                "as long as"
            } else {
                "longer than"
            };
            let what = format!("`{}` is {relation} `{}` behind it", pair[0].name, pair[1].name);
            cx.problem(root, "windows", Wrong::new(what, right));
        }
    }
    windows
}

fn limits(cx: &mut Reader, root: &Section<'_>) -> Limits {
    let s = cx.section(root, "limits");
    Limits {
        max_connections: cx.get(&s, "max_connections", |leaf| leaf.count(1..=1_000_000)),
        max_requests: cx.get(&s, "max_requests", max_requests),
        header_timeout: cx.get(&s, "header_timeout", Leaf::duration),
        max_header_bytes: cx.get(&s, "max_header_bytes", |leaf| leaf.size(HEADER_BYTES)),
        max_headers: cx.get(&s, "max_headers", |leaf| leaf.count(HEADERS)),
    }
}

fn max_requests(leaf: &Leaf) -> Result<Option<usize>, Wrong> {
    if matches!(leaf.text(), Ok("off")) {
        return Ok(None);
    }
    leaf.count(1..=1_000_000)
        .map(Some)
        .map_err(|wrong| Wrong::new(wrong.what, format!("{}, or `off`", wrong.right)))
}

fn log(cx: &mut Reader, root: &Section<'_>) -> Log {
    let s = cx.section(root, "log");
    let format = cx.get(&s, "format", |leaf| leaf.choice(&["auto", "text", "json"]));
    let level = cx.get(&s, "level", |leaf| {
        let filter = leaf.text()?.trim();
        // A single word that is no level is read as a module's name by the filter, and silences everything else.
        let levels = ["error", "warn", "info", "debug", "trace", "off"];
        let word = filter.bytes().all(|b| b.is_ascii_alphabetic());
        if word && !levels.contains(&filter.to_lowercase().as_str()) {
            return Err(Wrong::new("is no log level", suggestion(filter, &levels)));
        }
        let parsed = tracing_subscriber::EnvFilter::builder().parse(filter);
        let right = "write a level, or levels by module: `info,goodput_proxy::proxy=debug`";
        parsed
            .map(|_| filter.to_owned())
            .map_err(|error| Wrong::new(format!("is no log filter ({error})"), right))
    });
    Log {
        format: [None, Some(LogFormat::Text), Some(LogFormat::Json)][format],
        level,
    }
}

/// Whether two listeners of one port on these addresses get in each other's way.
fn overlap(a: IpAddr, b: IpAddr) -> bool {
    a == b || a.is_unspecified() || b.is_unspecified()
}

/// Whether `host` surely reaches a listener on `listen`.
fn is_here(host: &str, listen: IpAddr) -> bool {
    let address: Option<IpAddr> = if host == "localhost" {
        Some([127, 0, 0, 1].into())
    } else {
        host.parse().ok()
    };
    address.is_some_and(|ip| ip == listen || (listen.is_unspecified() && (ip.is_loopback() || ip.is_unspecified())))
}
