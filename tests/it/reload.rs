//! A new configuration while streams run, through the whole program: SIGHUP, a swapped ConfigMap, files that are refused.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};

use serde_json::Value;
use tempfile::TempDir;

/// A stream of two tokens, and where it is cut in two.
const STREAM: &str = "\
data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"a\"}}]}\n\n\
data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"b\"}}]}\n\n\
data: [DONE]\n\n";
const CUT: usize = 61;

/// The program with a configuration file of its own, an upstream that the test plays, and its log.
struct Proxy {
    child: Child,
    log: BufReader<ChildStdout>,
    listen: String,
    admin: String,
    upstream: TcpListener,
    folder: TempDir,
}

impl Proxy {
    /// With `more` at the end of its file, which is a link as a ConfigMap's is when `link` says so.
    fn start(more: &str, link: bool) -> Self {
        let upstream = TcpListener::bind("127.0.0.1:0").unwrap();
        let folder = TempDir::new().unwrap();
        let file = folder.path().join("config.yaml");
        if link {
            version(folder.path(), "1", &text(&upstream, more));
            symlink("..1", folder.path().join("..data")).unwrap();
            symlink("..data/config.yaml", &file).unwrap();
        } else {
            fs::write(&file, text(&upstream, more)).unwrap();
        }
        let mut child = Command::new(env!("CARGO_BIN_EXE_goodput-proxy"))
            .args(["run", "--log-format", "json", "--config"])
            .arg(&file)
            .env_remove("RUST_LOG")
            .env("GOODPUT__ADMIN", "127.0.0.1:0")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut log = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        log.read_line(&mut line).unwrap();
        let line: Value = serde_json::from_str(&line).unwrap();
        let address = |key: &str| line[key].as_str().unwrap().to_owned();
        Self {
            listen: address("listen"),
            admin: address("admin"),
            child,
            log,
            upstream,
            folder,
        }
    }

    fn file(&self) -> PathBuf {
        self.folder.path().join("config.yaml")
    }

    /// Puts `more` into the file and asks for a reload; the log lines up to and with the answer.
    fn reload(&mut self, more: &str) -> Vec<String> {
        fs::write(self.file(), text(&self.upstream, more)).unwrap();
        let pid = self.child.id().to_string();
        assert!(Command::new("kill").args(["-HUP", &pid]).status().unwrap().success());
        self.until(&["configuration reloaded", "configuration refused"])
    }

    fn until(&mut self, texts: &[&str]) -> Vec<String> {
        let mut lines = Vec::new();
        loop {
            let mut line = String::new();
            assert!(self.log.read_line(&mut line).unwrap() > 0, "the log ended: {lines:?}");
            let found = texts.iter().any(|text| line.contains(text));
            lines.push(line);
            if found {
                return lines;
            }
        }
    }

    /// A streaming call up to `CUT`; both ends are left open.
    fn begin(&self) -> (TcpStream, TcpStream) {
        let mut client = TcpStream::connect(&self.listen).unwrap();
        let body = r#"{"model":"m","stream":true,"messages":[]}"#;
        write!(
            client,
            "POST /v1/chat/completions HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        )
        .unwrap();
        let (mut server, _) = self.upstream.accept().unwrap();
        let mut head = Vec::new();
        while !head.ends_with(body.as_bytes()) {
            let mut byte = [0];
            server.read_exact(&mut byte).unwrap();
            head.push(byte[0]);
        }
        write!(
            server,
            "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{}",
            STREAM.len(),
            &STREAM[..CUT]
        )
        .unwrap();
        (client, server)
    }

    /// The rest of the call: the client must have got every byte.
    fn end(&mut self, (mut client, mut server): (TcpStream, TcpStream)) {
        server.write_all(&STREAM.as_bytes()[CUT..]).unwrap();
        let mut got = String::new();
        client.read_to_string(&mut got).unwrap();
        assert_eq!(got.split_once("\r\n\r\n").unwrap().1, STREAM);
        // The record is made before the log line.
        self.until(&["\"outcome\":\"ok\""]);
    }

    fn admin(&self, path: &str) -> String {
        let mut asking = TcpStream::connect(&self.admin).unwrap();
        write!(asking, "GET {path} HTTP/1.0\r\n\r\n").unwrap();
        let mut reply = String::new();
        asking.read_to_string(&mut reply).unwrap();
        reply.split_once("\r\n\r\n").unwrap().1.to_owned()
    }

    fn config(&self) -> Value {
        serde_json::from_str(&self.admin("/config")).unwrap()
    }

    /// The value of the sample of `family` whose labels hold all of `labels`.
    fn sample(&self, family: &str, labels: &[&str]) -> Option<f64> {
        let metrics = self.admin("/metrics");
        let mut lines = metrics.lines().filter(|line| {
            let rest = line.strip_prefix(family);
            rest.is_some_and(|rest| rest.starts_with(['{', ' '])) && labels.iter().all(|label| line.contains(label))
        });
        let value = lines.next()?.rsplit(' ').next()?.parse().ok();
        assert_eq!(lines.next(), None, "one sample");
        value
    }

    fn judged(&self, slo: &str) -> (Option<f64>, Option<f64>) {
        let labels = [&format!("slo=\"{slo}\"")[..], "route=\"chat\"", "model=\"m\""];
        (
            self.sample("goodput_slo_good_total", &labels),
            self.sample("goodput_slo_bad_total", &labels),
        )
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn text(upstream: &TcpListener, more: &str) -> String {
    format!(
        "listen: 127.0.0.1:0\nupstream: {{ url: 'http://{}' }}\n{more}\n",
        upstream.local_addr().unwrap()
    )
}

/// A version of a ConfigMap as the kubelet writes one.
fn version(folder: &Path, name: &str, text: &str) {
    let version = folder.join(format!("..{name}"));
    fs::create_dir(&version).unwrap();
    fs::write(version.join("config.yaml"), text).unwrap();
}

fn slo(name: &str, ttft: &str) -> String {
    format!("routes: [{{ name: chat, slos: [{{ name: {name}, ttft: {ttft} }}] }}]")
}

#[test]
fn a_stream_under_way_keeps_its_bytes_and_its_rules_and_no_counter_falls() {
    let mut proxy = Proxy::start(&slo("fast", "1h"), false);
    let first = proxy.begin();
    proxy.end(first);
    assert_eq!(proxy.judged("fast"), (Some(1.0), Some(0.0)));
    let under_way = proxy.begin();

    let log = proxy.reload(&format!(
        "{}\nlabels: {{ models: {{ cap: 7 }} }}\nlog: {{ level: 'info,h2=warn' }}",
        slo("fast", "1ns")
    ));
    assert!(log.last().unwrap().contains("configuration reloaded"), "{log:?}");
    let config = proxy.config();
    assert_eq!(config["routes"][0]["slos"][0]["ttft"], "1ns");
    assert_eq!(config["labels"]["models"]["cap"], 7);
    assert_eq!(config["log"]["level"], "info,h2=warn");
    assert_eq!(proxy.judged("fast"), (Some(1.0), Some(0.0)));
    assert_eq!(
        proxy.sample("goodput_in_flight", &["route=\"chat\"", "model=\"m\""]),
        Some(1.0)
    );
    assert_eq!(
        proxy.sample(
            "goodput_slo_target_seconds",
            &["bound=\"ttft\"", "slo=\"fast\"", "route=\"chat\""]
        ),
        Some(1e-9)
    );

    proxy.end(under_way);
    assert_eq!(proxy.judged("fast"), (Some(2.0), Some(0.0)), "by the rules it began with");
    let next = proxy.begin();
    proxy.end(next);
    assert_eq!(proxy.judged("fast"), (Some(2.0), Some(1.0)), "by those in force now");

    proxy.reload(&slo("other", "1h"));
    assert_eq!(
        proxy.judged("fast"),
        (Some(2.0), Some(1.0)),
        "a removed SLO stays at what it was"
    );
    assert_eq!(proxy.judged("other"), (Some(0.0), Some(0.0)));
    assert_eq!(
        proxy.sample(
            "goodput_requests_total",
            &["model=\"m\"", "outcome=\"ok\"", "streaming=\"true\""]
        ),
        Some(3.0)
    );
    assert_eq!(
        proxy.sample("goodput_proxy_config_reloads_total", &["result=\"success\""]),
        Some(2.0)
    );
}

#[test]
fn a_bad_file_is_refused_whole_with_every_problem_and_the_old_one_stays() {
    let mut proxy = Proxy::start(&slo("fast", "1h"), false);
    let successful = |proxy: &Proxy| proxy.sample("goodput_proxy_config_last_reload_successful", &[]);
    assert_eq!(successful(&proxy), Some(1.0));
    let before = proxy.config();

    let log = proxy.reload(&format!("{}\nwindows: 7\nnope: 1", slo("fast", "200"))).join("");
    for problem in ["routes[0].slos[0].ttft", "windows: ", "nope: ", "\"problems\":3"] {
        assert!(log.contains(problem), "{problem} in {log}");
    }
    assert_eq!((proxy.config(), successful(&proxy)), (before.clone(), Some(0.0)));

    let log = proxy
        .reload(&format!("{}\ndrain: {{ timeout: 7s }}", slo("fast", "2h")))
        .join("");
    assert!(
        log.contains(r#"drain.timeout: cannot change from \"5m\" to \"7s\" while the proxy runs"#),
        "{log}"
    );
    assert_eq!(proxy.config(), before, "not even what could have changed");

    fs::remove_file(proxy.file()).unwrap();
    let log = proxy.until(&["configuration refused"]).join("");
    assert!(log.contains("No such file"), "{log}");
    assert_eq!(
        proxy.sample("goodput_proxy_config_reloads_total", &["result=\"failure\""]),
        Some(3.0)
    );

    proxy.reload(&slo("fast", "2h"));
    assert_eq!(successful(&proxy), Some(1.0));
    assert_eq!(proxy.config()["routes"][0]["slos"][0]["ttft"], "2h");
}

#[test]
fn a_swapped_config_map_is_taken_without_a_signal() {
    let mut proxy = Proxy::start(&slo("fast", "1h"), true);
    let folder = proxy.folder.path().to_owned();
    version(&folder, "2", &text(&proxy.upstream, &slo("fast", "3h")));
    symlink("..2", folder.join("..data_tmp")).unwrap();
    fs::rename(folder.join("..data_tmp"), folder.join("..data")).unwrap();
    proxy.until(&["configuration reloaded"]);
    assert_eq!(proxy.config()["routes"][0]["slos"][0]["ttft"], "3h");
}
