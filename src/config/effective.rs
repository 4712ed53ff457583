//! The effective configuration as data, for people to look at: keys as in the file, every default filled in, the built-in routes
//! listed, secrets masked.

use serde_json::{Map, Value, json};

use super::check::SECRET_HEADERS;
use super::units::{show_duration, show_range, show_size};
use super::{CertFiles, Config, LogFormat, Protocol, Readiness, Reading, Route, Target, Upstream};
use crate::measure::{Bound, Match, Policy, Slo, Undefined};
use std::path::PathBuf;
use std::time::Duration;

impl Config {
    /// The configuration in force, in the shape of the file. Header values that are secrets by their name are masked.
    pub fn effective(&self) -> Value {
        let up = &self.upstream;
        let off = |duration: Option<Duration>| duration.map_or_else(|| "off".to_owned(), show_duration);
        json!({
            "listen": self.listen.to_string(),
            "admin": self.admin.to_string(),
            "tls": {
                "cert": file(self.tls.as_ref().map(|tls| &tls.own.cert)),
                "key": file(self.tls.as_ref().map(|tls| &tls.own.key)),
                "client_ca": file(self.tls.as_ref().and_then(|tls| tls.client_ca.as_ref())),
            },
            "admin_tls": {
                "cert": file(self.admin_tls.as_ref().map(|own| &own.cert)),
                "key": file(self.admin_tls.as_ref().map(|own| &own.key)),
            },
            "admin_auth": {
                "token_file": file(self.admin_auth.token_file.as_ref()),
                "metrics": self.admin_auth.metrics,
            },
            "readiness": match self.readiness { Readiness::Own => "self", Readiness::Upstream => "upstream" },
            "workers": self.workers,
            "upstream": {
                "url": up.url(),
                "tls": upstream_tls(up),
                "protocol": match up.protocol { Protocol::Http1 => "http1", Protocol::H2c => "h2c", Protocol::H2 => "h2" },
                "connect_timeout": show_duration(up.connect_timeout),
                "pool_idle_timeout": show_duration(up.pool_idle_timeout),
                "pool_max_idle": up.pool_max_idle,
                "first_byte_timeout": off(up.first_byte_timeout),
                "idle_timeout": off(up.idle_timeout),
                "total_timeout": off(up.total_timeout),
                "max_header_bytes": show_size(up.max_header_bytes),
                "max_headers": up.max_headers,
            },
            "half_close": self.half_close,
            "relay": self.relay,
            "routes": self.routes.iter().map(route).collect::<Vec<_>>(),
            "labels": {
                "models": { "allow": self.labels.models_allow, "cap": self.labels.models_cap },
                "tenant": {
                    "header": self.labels.tenant_header.as_deref().unwrap_or(""),
                    "allow": self.labels.tenants_allow,
                    "cap": self.labels.tenants_cap,
                },
            },
            "windows": self.windows.iter().map(|window| &*window.name).collect::<Vec<_>>(),
            "profile": &*self.profile,
            "inject_usage": self.inject_usage,
            "drain": {
                "delay": show_duration(self.drain.delay),
                "timeout": show_duration(self.drain.timeout),
            },
            "limits": {
                "max_connections": self.limits.max_connections,
                "max_requests": self.limits.max_requests.map_or_else(|| json!("off"), Value::from),
                "header_timeout": show_duration(self.limits.header_timeout),
                "max_header_bytes": show_size(self.limits.max_header_bytes),
                "max_headers": self.limits.max_headers,
            },
            "log": {
                "format": match self.log.format { None => "auto", Some(LogFormat::Text) => "text", Some(LogFormat::Json) => "json" },
                "level": self.log.level,
            },
            "requests_kept": self.requests_kept,
        })
    }
}

impl Upstream {
    /// Its address as written in the file.
    pub fn url(&self) -> String {
        let url = self.target.to_string();
        match (&self.tls, url.strip_prefix("http://")) {
            (Some(_), Some(authority)) => format!("https://{authority}"),
            _ => url,
        }
    }
}

fn upstream_tls(up: &Upstream) -> Value {
    let own = up.tls.as_ref().and_then(|tls| tls.own.as_ref());
    let part = |of: fn(&CertFiles) -> &PathBuf| file(own.map(of));
    json!({
        "ca": file(up.tls.as_ref().and_then(|tls| tls.ca.as_ref())),
        "cert": part(|own| &own.cert),
        "key": part(|own| &own.key),
        "server_name": up.tls.as_ref().map_or("", |tls| &tls.server_name),
    })
}

/// A file's path, as in the configuration: empty where there is none.
fn file(path: Option<&PathBuf>) -> String {
    path.map_or_else(String::new, |path| path.display().to_string())
}

impl std::fmt::Display for Target {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Tcp { host, port } if host.contains(':') => write!(f, "http://[{host}]:{port}"),
            Self::Tcp { host, port } => write!(f, "http://{host}:{port}"),
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

fn route(route: &Route) -> Value {
    let mut shown = Map::new();
    shown.insert("name".into(), json!(&*route.name));
    shown.insert("paths".into(), json!(route.paths));
    let all = ["*".to_owned()];
    shown.insert(
        "methods".into(),
        json!(if route.methods.is_empty() { &all[..] } else { &route.methods }),
    );
    if let Some(pair) = &route.header {
        shown.insert("header".into(), json!(header(pair)));
    }
    let format = match route.reading {
        Reading::Format(format) => format.name,
        Reading::ByPath => "auto",
        Reading::Opaque => "opaque",
        Reading::None => "none",
    };
    shown.insert("format".into(), json!(format));
    shown.insert("slos".into(), route.slos.iter().map(slo).collect());
    shown.into()
}

fn slo(slo: &Slo) -> Value {
    let mut shown = Map::new();
    shown.insert("name".into(), json!(&*slo.name));
    let when = conditions(&slo.when);
    if !when.is_empty() {
        shown.insert("when".into(), when.into());
    }
    for bound in Bound::ALL {
        if let Some(nanos) = slo.bounds.get(bound) {
            shown.insert(bound.name().into(), json!(show_duration(Duration::from_nanos(nanos))));
        }
    }
    let undefined = match slo.undefined {
        Undefined::Pass => "pass",
        Undefined::Fail => "fail",
        Undefined::Exclude => "exclude",
    };
    let policy = |policy| match policy {
        Policy::Exclude => "exclude",
        Policy::Bad => "bad",
        Policy::Judge => "judge",
    };
    shown.insert("objective".into(), json!(slo.objective));
    shown.insert("undefined".into(), json!(undefined));
    shown.insert("client_error".into(), json!(policy(slo.client_error)));
    shown.insert("cancelled".into(), json!(policy(slo.cancelled)));
    if let Some(bounds) = slo.header_bounds {
        let show = |nanos| show_duration(Duration::from_nanos(nanos));
        shown.insert(
            "header_bounds".into(),
            json!({ "min": show(bounds.min_ns), "max": show(bounds.max_ns) }),
        );
    }
    shown.into()
}

fn conditions(when: &Match) -> Map<String, Value> {
    let mut shown = Map::new();
    let mut add = |key: &str, value: Option<Value>| {
        if let Some(value) = value {
            shown.insert(key.to_owned(), value);
        }
    };
    add("model", when.model.as_ref().map(|model| json!(model)));
    add("tenant", when.tenant.as_ref().map(|tenant| json!(tenant)));
    add("header", when.header.as_ref().map(|pair| json!(header(pair))));
    add("streaming", when.streaming.map(|streaming| json!(streaming)));
    add(
        "prompt_tokens",
        when.prompt_tokens.as_ref().map(|range| json!(show_range(range))),
    );
    add(
        "output_tokens",
        when.output_tokens.as_ref().map(|range| json!(show_range(range))),
    );
    shown
}

fn header((name, value): &(String, String)) -> String {
    let secret = SECRET_HEADERS.contains(&name.as_str());
    format!("{name}: {}", if secret { "***" } else { value })
}
