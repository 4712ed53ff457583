//! What only a restart can change: addresses, the upstream, caps, and whatever else is set up once.

use serde_json::Value;

use crate::config::Config;

/// Keys that change while the proxy runs. Whether there is a tenant label at all is not among them: a label that comes or goes makes
/// other series of all.
const LIVE: [&str; 6] = [
    "routes",
    "labels.models",
    "labels.tenant.header",
    "labels.tenant.allow",
    "labels.tenant.cap",
    "log.level",
];

/// One line for every difference that a running proxy cannot follow.
pub(super) fn changes(old: &Config, new: &Config) -> Vec<String> {
    let mut found = Vec::new();
    compare("", &old.effective(), &new.effective(), &mut found);
    if old.labels.tenant_header.is_some() != new.labels.tenant_header.is_some() {
        let (now, then) = (&old.labels.tenant_header, &new.labels.tenant_header);
        let shown = |header: &Option<String>| header.clone().unwrap_or_default();
        found.push(line("labels.tenant.header", &shown(now), &shown(then)));
    }
    found
}

fn compare(path: &str, old: &Value, new: &Value, found: &mut Vec<String>) {
    if LIVE.contains(&path) || old == new {
        return;
    }
    let (Value::Object(before), Value::Object(after)) = (old, new) else {
        let shown = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        found.push(line(path, &shown(old), &shown(new)));
        return;
    };
    let added = after.keys().filter(|key| !before.contains_key(*key));
    for key in before.keys().chain(added) {
        let path = if path.is_empty() {
            key.clone()
        } else {
            format!("{path}.{key}")
        };
        let side = |object: &serde_json::Map<String, Value>| object.get(key).cloned().unwrap_or(Value::Null);
        compare(&path, &side(before), &side(after), found);
    }
}

fn line(path: &str, old: &str, new: &str) -> String {
    format!("{path}: cannot change from {old:?} to {new:?} while the proxy runs; restart it, or take the change back")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{File, Sources, Syntax};

    fn config(text: &str) -> Config {
        let file = File {
            name: "f.yaml".to_owned(),
            text: text.to_owned(),
            syntax: Syntax::Yaml,
        };
        Config::load(&Sources {
            file: Some(file),
            ..Sources::default()
        })
        .unwrap()
    }

    #[test]
    fn slos_routes_labels_and_log_level_change_without_a_restart() {
        let new = "
slo: ttft=1s
objective: 0.5
slo_defaults: { undefined: fail }
routes: [{ name: mine, paths: [/x] }]
labels: { models: { allow: [m], cap: 3 } }
log: { level: debug }";
        assert_eq!(changes(&Config::default(), &config(new)), Vec::<String>::new());
        let tenants = |header: &str| config(&format!("labels: {{ tenant: {{ header: {header}, allow: [t], cap: 2 }} }}"));
        assert_eq!(changes(&tenants("x-a"), &tenants("x-b")), Vec::<String>::new());
    }

    #[test]
    fn everything_else_is_named_with_both_values() {
        let new = "
listen: 127.0.0.1:1
upstream: { url: 'http://other:8000', idle_timeout: 7s }
labels: { tenant: { header: x-tenant } }
windows: [1m]
log: { format: json }";
        let found = changes(&Config::default(), &config(new));
        let keys: Vec<_> = found.iter().filter_map(|line| line.split(':').next()).collect();
        assert_eq!(
            keys,
            [
                "listen",
                "log.format",
                "upstream.idle_timeout",
                "upstream.url",
                "windows",
                "labels.tenant.header"
            ]
        );
        assert_eq!(
            found[2],
            "upstream.idle_timeout: cannot change from \"off\" to \"7s\" while the proxy runs; restart it, or take the change back"
        );
    }
}
