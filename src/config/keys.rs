//! Every key of the configuration, once: its path, its default and what it is for. The check reads its defaults from here, an
//! unknown key is one that is not here, and a test holds the documentation against it.

/// One key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Key {
    /// The dotted path; `[]` stands for each element of a list.
    pub path: &'static str,
    /// The default as it would be written in the environment; empty where there is none.
    pub default: &'static str,
    /// What it is for, one line.
    pub help: &'static str,
}

const fn key(path: &'static str, default: &'static str, help: &'static str) -> Key {
    Key { path, default, help }
}

/// The table, in the order of the reference.
const KEYS: &[Key] = &[
    key("listen", "0.0.0.0:8080", "traffic address; port 0 picks a free one"),
    key(
        "admin",
        "0.0.0.0:9464",
        "address of metrics and probes; never the traffic port",
    ),
    key(
        "tls.cert",
        "",
        "TLS on the traffic port: file of the certificate chain (PEM), the proxy's own first; empty: clear text",
    ),
    key("tls.key", "", "file of its private key (PEM)"),
    key(
        "tls.client_ca",
        "",
        "file of CA certificates (PEM): every client must then show a certificate of one of them (mTLS)",
    ),
    key(
        "admin_tls.cert",
        "",
        "TLS on the admin port, probes included: file of the certificate chain (PEM), the proxy's own first; empty: clear text",
    ),
    key("admin_tls.key", "", "file of its private key (PEM)"),
    key(
        "admin_auth.token_file",
        "",
        "file of a bearer token that the admin port then asks for, probes excepted; empty: open to all who reach it",
    ),
    key("admin_auth.metrics", "true", "whether `/metrics` asks for the token too"),
    key(
        "readiness",
        "self",
        "what `/readyz` follows: `self` the proxy alone, `upstream` also whether the model server takes connections; `/livez` neither",
    ),
    key(
        "workers",
        "auto",
        "worker threads of the traffic port; `auto`: one per core, at most 4",
    ),
    key(
        "slo",
        "",
        "one SLO for every LLM route that has none: `ttft=500ms,tpot=15ms,e2e=2s`",
    ),
    key(
        "objective",
        "0.99",
        "objective of every SLO that names none: the share that should be good, between 0 and 1",
    ),
    key(
        "upstream.url",
        "http://127.0.0.1:8000",
        "the model server: `http://host:port`, `https://host:port` or `unix:/path`",
    ),
    key(
        "upstream.protocol",
        "http1",
        "`http1`; `h2` (HTTP/2, of an `https://` server, by ALPN); or `h2c` (HTTP/2 in clear text, prior knowledge)",
    ),
    key(
        "upstream.tls.ca",
        "",
        "file of CA certificates (PEM) that an `https://` server's must come from; empty: the system's",
    ),
    key(
        "upstream.tls.cert",
        "",
        "file of the certificate chain (PEM) that the proxy shows to an `https://` server (mTLS)",
    ),
    key("upstream.tls.key", "", "file of its private key (PEM)"),
    key(
        "upstream.tls.server_name",
        "",
        "name that the server's certificate must have; empty: the host of `upstream.url`",
    ),
    key(
        "upstream.connect_timeout",
        "5s",
        "limit of one connection attempt, over all addresses of the host",
    ),
    key(
        "upstream.pool_idle_timeout",
        "4s",
        "how long an idle connection is kept; below the server's own keep-alive (uvicorn: 5 s)",
    ),
    key("upstream.pool_max_idle", "1024", "how many idle connections are kept"),
    key(
        "upstream.first_byte_timeout",
        "off",
        "limit from the request sent to the first reply byte; prefill may take minutes",
    ),
    key("upstream.idle_timeout", "off", "limit between two reads of a reply"),
    key("upstream.total_timeout", "off", "limit of the whole exchange"),
    key("upstream.max_header_bytes", "64KiB", "largest reply head accepted"),
    key("upstream.max_headers", "256", "most reply header fields accepted"),
    key(
        "half_close",
        "false",
        "serve on after a client's FIN instead of taking the client as gone",
    ),
    key(
        "relay",
        "true",
        "plain HTTP/1.1 exchanges go the short way, both sockets read in one task; `false` sends all through the full server",
    ),
    key(
        "routes[].name",
        "",
        "value of the `route` label; a built-in name takes that route's place",
    ),
    key(
        "routes[].paths",
        "",
        "paths, `*` for any run of characters; may be left out for a built-in name",
    ),
    key("routes[].methods", "POST", "methods; `*` for all"),
    key(
        "routes[].header",
        "",
        "a request header that must be present: `\"x-tier: gold\"`",
    ),
    key(
        "routes[].format",
        "",
        "how replies are read: a format's name, `auto` (by path), `opaque` (time and bytes) or `none`",
    ),
    key("routes[].slos[].name", "", "value of the `slo` label"),
    key(
        "routes[].slos[].when.model",
        "",
        "model as the client names it, `*` for any run of characters",
    ),
    key("routes[].slos[].when.tenant", "", "value of the tenant header"),
    key(
        "routes[].slos[].when.header",
        "",
        "a request header that must be present: `\"x-tier: gold\"`",
    ),
    key(
        "routes[].slos[].when.streaming",
        "",
        "`true` or `false`: whether the reply is a stream",
    ),
    key(
        "routes[].slos[].when.prompt_tokens",
        "",
        "range of prompt tokens: `<300`, `>=10`, `10..300` (both included)",
    ),
    key("routes[].slos[].when.output_tokens", "", "range of output tokens"),
    key("routes[].slos[].ttft", "", "bound on the time to first token"),
    key("routes[].slos[].tpot", "", "bound on the time per output token"),
    key(
        "routes[].slos[].itl_p99",
        "",
        "bound on the request's own 99th percentile of inter-token latency",
    ),
    key("routes[].slos[].stall", "", "bound on the largest gap between tokens"),
    key("routes[].slos[].e2e", "", "bound on the end-to-end time"),
    key(
        "routes[].slos[].objective",
        "",
        "share that should be good; without it, `objective`",
    ),
    key(
        "routes[].slos[].undefined",
        "",
        "a bound without a sample: `pass`, `fail` or `exclude`; without it, `slo_defaults.undefined`",
    ),
    key(
        "routes[].slos[].client_error",
        "",
        "upstream 4xx: `exclude` or `bad`; without it, `slo_defaults.client_error`",
    ),
    key(
        "routes[].slos[].cancelled",
        "",
        "cancelled by the client: `judge`, `exclude` or `bad`; without it, `slo_defaults.cancelled`",
    ),
    key(
        "routes[].slos[].header_bounds.min",
        "",
        "smallest bound a request may bring in `x-slo-ttft-ms`, `x-slo-tpot-ms`",
    ),
    key(
        "routes[].slos[].header_bounds.max",
        "",
        "largest bound a request may bring; both or neither",
    ),
    key(
        "slo_defaults.undefined",
        "pass",
        "a bound whose measure has no sample: `pass`, `fail` or `exclude`",
    ),
    key(
        "slo_defaults.client_error",
        "exclude",
        "upstream 4xx other than 408 and 429: `exclude` or `bad`",
    ),
    key(
        "slo_defaults.cancelled",
        "judge",
        "the client left early: `judge` (bad if a bound was already broken), `exclude` or `bad`",
    ),
    key("labels.models.allow", "", "model names that always get a label"),
    key(
        "labels.models.cap",
        "32",
        "most other model names per route that get one; past it `other`",
    ),
    key(
        "labels.tenant.header",
        "",
        "request header that names the tenant; empty: no `tenant` label",
    ),
    key("labels.tenant.allow", "", "tenants that always get a label"),
    key("labels.tenant.cap", "32", "most other tenants that get one; past it `other`"),
    key("windows", "1m,5m,30m", "rolling windows, shortest first"),
    key(
        "profile",
        "goodput",
        "definition profile of the measures; live there is `goodput` only, `explain` knows the other tools'",
    ),
    key(
        "inject_usage",
        "false",
        "ask the server for usage where the client left it open, and take the extra event out again",
    ),
    key(
        "drain.delay",
        "5s",
        "still serving after readiness fell, so that load balancers notice; may be `0s`",
    ),
    key(
        "drain.timeout",
        "300s",
        "then this long for streams to end; `0s` cuts them at once",
    ),
    key("limits.max_connections", "10000", "most client connections at once"),
    key(
        "limits.max_requests",
        "off",
        "most requests under way at once, whatever they are; further ones are answered 503 (`too_many_requests`); `off`: no limit",
    ),
    key("limits.header_timeout", "30s", "from a request head's first byte to its last"),
    key("limits.max_header_bytes", "64KiB", "largest request head accepted"),
    key("limits.max_headers", "256", "most request header fields accepted"),
    key(
        "log.format",
        "auto",
        "`text`, `json` or `auto` (text on a terminal, else json)",
    ),
    key("log.level", "info", "`tracing` filter; RUST_LOG stands above the file"),
    key(
        "requests_kept",
        "1000",
        "finished requests kept for `/requests`; 0 keeps none",
    ),
];

/// Every key, in the order of the reference.
pub fn keys() -> &'static [Key] {
    KEYS
}

/// The table as Markdown, for the documentation: a test compares the two.
pub fn reference() -> String {
    let mut table = String::from("| key | default | |\n|---|---|---|\n");
    for Key { path, default, help } in KEYS {
        let default = if default.is_empty() {
            String::new()
        } else {
            format!("`{default}`")
        };
        table.push_str(&format!("| `{path}` | {default} | {help} |\n"));
    }
    table
}

/// The key with this path (`[]` for list elements).
pub(super) fn find(pattern: &str) -> Option<&'static Key> {
    KEYS.iter().find(|key| key.path == pattern)
}

/// The names directly below the section `pattern` (`""` is the top), in table order; none for a path that is no section.
pub(super) fn children(pattern: &str) -> Vec<&'static str> {
    let mut names: Vec<&'static str> = Vec::new();
    for key in KEYS {
        let below = if pattern.is_empty() {
            Some(key.path)
        } else {
            key.path.strip_prefix(pattern).and_then(|rest| rest.strip_prefix('.'))
        };
        let name = below.map(|rest| rest.split(['.', '[']).next().unwrap_or(rest));
        if let Some(name) = name.filter(|name| !names.contains(name)) {
            names.push(name);
        }
    }
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_path_is_named_once() {
        for (at, key) in KEYS.iter().enumerate() {
            assert!(!KEYS[..at].iter().any(|other| other.path == key.path), "{}", key.path);
            assert!(!key.help.is_empty(), "{}", key.path);
        }
    }

    #[test]
    fn a_section_knows_its_children() {
        assert_eq!(children("labels"), ["models", "tenant"]);
        assert_eq!(children("drain"), ["delay", "timeout"]);
        assert_eq!(children("routes[]"), ["name", "paths", "methods", "header", "format", "slos"]);
        assert!(children("").contains(&"routes"));
        assert!(children("listen").is_empty());
        assert!(children("drai").is_empty());
    }
}
