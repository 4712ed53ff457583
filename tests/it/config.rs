//! The configuration as people write it: every example loads, every mistake is reported, all at once.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use config::{FileFormat, Source, Value, ValueKind};
use goodput_proxy::config::{Config, File, Flag, Reading, Sources, Syntax, Target, keys, reference};
use goodput_proxy::measure::{Policy, Undefined};
use serde_json::json;

mod odd;
mod problems;

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("config")
}

fn sources(text: &str, syntax: Syntax) -> Sources {
    let file = File {
        name: "test".to_owned(),
        text: text.to_owned(),
        syntax,
    };
    Sources {
        file: Some(file),
        ..Sources::default()
    }
}

fn load(sources: &Sources) -> Result<Config, Vec<String>> {
    Config::load(sources).map_err(|problems| problems.iter().map(ToString::to_string).collect())
}

fn yaml(text: &str) -> Config {
    load(&sources(text, Syntax::Yaml)).unwrap()
}

fn environment(variables: &[(&str, &str)]) -> Vec<(String, String)> {
    variables
        .iter()
        .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
        .collect()
}

/// The commented-out settings of `default.yaml` made live: `##` begins prose, `#` a setting.
fn uncommented() -> String {
    let text = std::fs::read_to_string(folder().join("default.yaml")).unwrap();
    let lines = text
        .lines()
        .filter(|line| !line.trim_start_matches("# ").trim_start().starts_with("##"));
    lines
        .map(|line| line.strip_prefix("# ").unwrap_or(line).to_owned() + "\n")
        .collect()
}

#[test]
fn every_file_in_the_folder_loads() {
    let mut loaded = Vec::new();
    for entry in std::fs::read_dir(folder()).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|extension| extension == "md") {
            continue;
        }
        let file = File::read(&path).unwrap();
        let config = load(&Sources {
            file: Some(file),
            ..Sources::default()
        });
        assert!(config.is_ok(), "{}: {config:?}", path.display());
        loaded.push(path.file_name().unwrap().to_string_lossy().into_owned());
    }
    loaded.sort();
    let names = [
        "default.yaml",
        "llamacpp.yaml",
        "ollama.yaml",
        "sglang.yaml",
        "tenants.toml",
        "tgi.yaml",
        "trtllm.yaml",
        "vllm.yaml",
    ];
    assert_eq!(loaded, names);
}

#[test]
fn the_default_file_says_what_runs_without_it() {
    let file = File::read(&folder().join("default.yaml")).unwrap();
    let written = load(&Sources {
        file: Some(file),
        ..Sources::default()
    })
    .unwrap();
    assert_eq!(written.effective(), Config::default().effective());
}

#[test]
fn the_default_file_names_every_key_and_no_other() {
    fn walk(value: &Value, path: &str, found: &mut BTreeSet<String>) {
        match &value.kind {
            ValueKind::Table(table) => {
                for (key, value) in table {
                    let path = if path.is_empty() {
                        key.clone()
                    } else {
                        format!("{path}.{key}")
                    };
                    walk(value, &path, found);
                }
            }
            ValueKind::Array(items) if items.iter().any(|item| matches!(item.kind, ValueKind::Table(_))) => {
                items.iter().for_each(|item| walk(item, &format!("{path}[]"), found));
            }
            _ => {
                found.insert(path.to_owned());
            }
        }
    }
    let text = uncommented();
    let table = config::File::from_str(&text, FileFormat::Yaml).collect().unwrap();
    let mut found = BTreeSet::new();
    walk(&Value::new(None, table), "", &mut found);
    let known: BTreeSet<String> = keys().iter().map(|key| key.path.to_owned()).collect();
    assert_eq!(found, known);
}

#[test]
fn the_commented_example_is_valid() {
    let sources = Sources {
        environment: environment(&[("GOODPUT__LABELS__TENANT__HEADER", "x-tenant")]),
        ..sources(&uncommented(), Syntax::Yaml)
    };
    let config = load(&sources).unwrap();
    assert_eq!(
        config.effective()["routes"][0],
        json!({
            "name": "chat",
            "paths": ["/v1/chat/completions"],
            "methods": ["POST"],
            "header": "x-tier: gold",
            "format": "auto",
            "slos": [{
                "name": "short",
                "when": {
                    "model": "llama-*",
                    "tenant": "acme",
                    "header": "x-class: interactive",
                    "streaming": true,
                    "prompt_tokens": "<=7999",
                    "output_tokens": "<=299",
                },
                "ttft": "800ms",
                "tpot": "25ms",
                "itl_p99": "60ms",
                "stall": "1s",
                "e2e": "3s",
                "objective": 0.99,
                "undefined": "pass",
                "client_error": "exclude",
                "cancelled": "judge",
                "header_bounds": { "min": "10ms", "max": "10s" },
            }],
        })
    );
}

#[test]
fn the_reference_lists_every_key_with_its_default() {
    let page = std::fs::read_to_string(folder().join("README.md")).unwrap();
    let table = page.split_once("## Every key").unwrap().1;
    let table: String = table
        .lines()
        .filter(|line| line.starts_with('|'))
        .map(|line| format!("{line}\n"))
        .collect();
    assert_eq!(table, reference(), "config/README.md should hold:\n{}", reference());
}

#[test]
fn the_built_in_defaults_are_what_the_interface_says() {
    let config = Config::default();
    assert_eq!(config.listen.to_string(), "0.0.0.0:8080");
    assert_eq!(config.admin.to_string(), "0.0.0.0:9464");
    assert!((1..=4).contains(&config.workers));
    let mut effective = config.effective();
    effective["workers"] = json!("auto");
    effective["routes"] = effective["routes"]
        .as_array()
        .unwrap()
        .iter()
        .map(|route| route["name"].clone())
        .collect();
    assert_eq!(
        effective,
        json!({
            "listen": "0.0.0.0:8080",
            "admin": "0.0.0.0:9464",
            "tls": { "cert": "", "key": "", "client_ca": "" },
            "admin_tls": { "cert": "", "key": "" },
            "admin_auth": { "token_file": "", "metrics": true },
            "readiness": "self",
            "workers": "auto",
            "upstream": {
                "url": "http://127.0.0.1:8000",
                "tls": { "ca": "", "cert": "", "key": "", "server_name": "" },
                "protocol": "http1",
                "connect_timeout": "5s",
                "pool_idle_timeout": "4s",
                "pool_max_idle": 1024,
                "first_byte_timeout": "off",
                "idle_timeout": "off",
                "total_timeout": "off",
                "max_header_bytes": "64KiB",
                "max_headers": 256,
            },
            "half_close": false,
            "relay": true,
            "routes": ["chat", "completions", "responses", "messages", "generate", "embeddings", "other"],
            "labels": { "models": { "allow": [], "cap": 32 }, "tenant": { "header": "", "allow": [], "cap": 32 } },
            "windows": ["1m", "5m", "30m"],
            "profile": "goodput",
            "inject_usage": false,
            "drain": { "delay": "5s", "timeout": "5m" },
            "limits": { "max_connections": 10000, "max_requests": "off", "header_timeout": "30s", "max_header_bytes": "64KiB", "max_headers": 256 },
            "log": { "format": "auto", "level": "info" },
            "requests_kept": 1000,
        })
    );
}

#[test]
fn a_configured_route_comes_first_and_takes_its_namesakes_place() {
    let config = yaml(
        "routes:
          - { name: mine, paths: [/mine/*], methods: ['*'], format: none }
          - name: chat
            slos: [{ name: a, when: { output_tokens: '<300' }, e2e: 3s }, { name: b, ttft: 800ms, undefined: fail, cancelled: bad }]
          - { name: embeddings, slos: [{ name: c, e2e: 1s }] }",
    );
    let names: Vec<&str> = config.routes.iter().map(|route| &*route.name).collect();
    assert_eq!(
        names,
        [
            "mine",
            "chat",
            "embeddings",
            "completions",
            "responses",
            "messages",
            "generate",
            "other"
        ]
    );
    assert!(config.routes[0].methods.is_empty());
    assert!(matches!(config.routes[0].reading, Reading::None));
    let chat = &config.routes[1];
    assert_eq!(
        (chat.paths.as_slice(), chat.methods.as_slice()),
        (&["/v1/chat/completions".to_owned()][..], &["POST".to_owned()][..])
    );
    assert!(matches!(chat.reading, Reading::ByPath));
    assert_eq!(chat.slos[0].when.output_tokens, Some(0..=299));
    assert_eq!(
        (chat.slos[0].undefined, chat.slos[0].client_error),
        (Undefined::Pass, Policy::Exclude)
    );
    assert_eq!(
        (chat.slos[1].undefined, chat.slos[1].cancelled),
        (Undefined::Fail, Policy::Bad)
    );
    assert!(matches!(config.routes[2].reading, Reading::Opaque));
}

#[test]
fn a_format_is_found_by_its_name() {
    let config = yaml("routes: [{ name: mine, paths: [/mine], format: openai_chat }]");
    assert!(matches!(config.routes[0].reading, Reading::Format(format) if format.name == "openai_chat"));
}

#[test]
fn one_slo_for_all_reaches_every_llm_route_without_its_own() {
    let config = yaml(
        "slo: ttft=500ms,tpot=15ms
objective: 0.9
routes: [{ name: chat, slos: [{ name: own, e2e: 3s }] }]",
    );
    let slos = |name: &str| -> Vec<(String, f64)> {
        let route = config.routes.iter().find(|route| &*route.name == name).unwrap();
        route.slos.iter().map(|slo| (slo.name.to_string(), slo.objective)).collect()
    };
    assert_eq!(slos("chat"), [("own".to_owned(), 0.9)]);
    for name in ["completions", "responses", "messages", "generate"] {
        assert_eq!(slos(name), [("default".to_owned(), 0.9)]);
    }
    assert_eq!((slos("embeddings"), slos("other")), (vec![], vec![]));
}

#[test]
fn a_flag_stands_above_the_environment_and_that_above_the_file() {
    let mut sources = sources(
        "listen: 127.0.0.1:1\nadmin: 127.0.0.1:2\nupstream: { url: 'http://a:1', pool_max_idle: 7 }",
        Syntax::Yaml,
    );
    sources.environment = environment(&[
        ("GOODPUT__ADMIN", "127.0.0.1:3"),
        ("GOODPUT__UPSTREAM__URL", "unix:/run/s.sock"),
    ]);
    sources.flags = vec![Flag {
        name: "--upstream",
        key: "upstream.url",
        value: "http://[::1]:5".to_owned(),
    }];
    let config = load(&sources).unwrap();
    assert_eq!(config.listen.to_string(), "127.0.0.1:1");
    assert_eq!(config.admin.to_string(), "127.0.0.1:3");
    assert_eq!(
        config.upstream.target,
        Target::Tcp {
            host: "::1".to_owned(),
            port: 5
        }
    );
    assert_eq!(config.upstream.pool_max_idle, 7);
}

#[test]
fn the_environment_is_typed_and_foreign_variables_are_let_alone() {
    let variables = [
        ("GOODPUT_PORT", "tcp://10.0.0.1:80"),
        ("GOODPUT_SERVICE_HOST", "10.0.0.1"),
        ("GOODPUT__HALF_CLOSE", "true"),
        ("GOODPUT__WORKERS", "3"),
        ("GOODPUT__WINDOWS", "10s, 1m"),
        ("GOODPUT__LABELS__MODELS__ALLOW", "a,b"),
        ("GOODPUT__OBJECTIVE", "0.95"),
        ("GOODPUT__SLO", "ttft:500"),
        ("GOODPUT__ADMIN", ""),
        ("GOODPUT__LIMITS__MAX_HEADER_BYTES", "8KiB"),
    ];
    let config = load(&Sources {
        environment: environment(&variables),
        ..Sources::default()
    })
    .unwrap();
    assert!(config.half_close);
    assert_eq!(config.workers, 3);
    let windows: Vec<&str> = config.windows.iter().map(|window| &*window.name).collect();
    assert_eq!(windows, ["10s", "1m"]);
    assert_eq!(config.labels.models_allow, ["a", "b"]);
    assert_eq!(config.admin.to_string(), "0.0.0.0:9464");
    assert_eq!(config.limits.max_header_bytes, 8192);
    let slo = &config.routes[0].slos[0];
    assert_eq!((slo.bounds.ttft_ns, slo.objective), (Some(500_000_000), 0.95));
}

#[test]
fn rust_log_stands_between_the_file_and_our_own_variable() {
    let level = |file: &str, variables: &[(&str, &str)]| {
        let sources = Sources {
            environment: environment(variables),
            ..sources(file, Syntax::Yaml)
        };
        load(&sources).unwrap().log.level
    };
    assert_eq!(level("", &[]), "info");
    assert_eq!(level("log: { level: warn }", &[]), "warn");
    assert_eq!(level("log: { level: warn }", &[("RUST_LOG", "hyper=trace")]), "hyper=trace");
    assert_eq!(level("", &[("RUST_LOG", "debug"), ("GOODPUT__LOG__LEVEL", "error")]), "error");
}

#[test]
fn an_empty_file_and_an_empty_key_are_no_problem() {
    for text in ["", "# nothing\n", "routes:\nlabels:\n"] {
        assert_eq!(yaml(text).effective(), Config::default().effective(), "{text:?}");
    }
}

#[test]
fn the_effective_configuration_masks_secrets() {
    let config = yaml(
        "routes:
          - { name: a, paths: [/a], header: 'Authorization: Bearer secret', format: none }
          - { name: b, paths: [/b], format: openai_chat, slos: [{ name: s, e2e: 1s, when: { header: 'x-api-key: secret' } }] }",
    );
    let shown = config.effective();
    assert_eq!(shown["routes"][0]["header"], "authorization: ***");
    assert_eq!(shown["routes"][1]["slos"][0]["when"]["header"], "x-api-key: ***");
    assert!(!shown.to_string().contains("secret"));
}
