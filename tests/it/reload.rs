//! A new configuration while streams run, through the whole program: SIGHUP, a swapped ConfigMap, files that are refused.

use std::fs;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::symlink;
use std::path::Path;

use tempfile::TempDir;

use crate::rig::program::Program;

/// A stream of two tokens, and where it is cut in two.
const STREAM: &str = "\
data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"a\"}}]}\n\n\
data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"b\"}}]}\n\n\
data: [DONE]\n\n";
const CUT: usize = 61;

/// The program in front of an upstream that the test plays.
struct Proxy {
    program: Program,
    upstream: TcpListener,
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
        Self {
            program: Program::start(folder),
            upstream,
        }
    }

    fn reload(&mut self, more: &str) -> Vec<String> {
        let text = text(&self.upstream, more);
        self.program.reload(&text)
    }

    /// A streaming call up to `CUT`; both ends are left open.
    fn begin(&self) -> (TcpStream, TcpStream) {
        let mut client = TcpStream::connect(&self.program.listen).unwrap();
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
        self.program.until(&["\"outcome\":\"ok\""]);
    }

    fn judged(&self, slo: &str) -> (Option<f64>, Option<f64>) {
        let labels = [&format!("slo=\"{slo}\"")[..], "route=\"chat\"", "model=\"m\""];
        let program = &self.program;
        (
            program.sample("goodput_slo_good_total", &labels),
            program.sample("goodput_slo_bad_total", &labels),
        )
    }
}

fn text(upstream: &TcpListener, more: &str) -> String {
    format!("upstream: {{ url: 'http://{}' }}\n{more}\n", upstream.local_addr().unwrap())
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
    let config = proxy.program.config();
    assert_eq!(config["routes"][0]["slos"][0]["ttft"], "1ns");
    assert_eq!(config["labels"]["models"]["cap"], 7);
    assert_eq!(config["log"]["level"], "info,h2=warn");
    assert_eq!(proxy.judged("fast"), (Some(1.0), Some(0.0)));
    assert_eq!(
        proxy.program.sample("goodput_in_flight", &["route=\"chat\"", "model=\"m\""]),
        Some(1.0)
    );
    assert_eq!(
        proxy.program.sample(
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
        proxy.program.sample(
            "goodput_requests_total",
            &["model=\"m\"", "outcome=\"ok\"", "streaming=\"true\""]
        ),
        Some(3.0)
    );
    assert_eq!(
        proxy
            .program
            .sample("goodput_proxy_config_reloads_total", &["result=\"success\""]),
        Some(2.0)
    );
}

#[test]
fn a_bad_file_is_refused_whole_with_every_problem_and_the_old_one_stays() {
    let mut proxy = Proxy::start(&slo("fast", "1h"), false);
    let successful = |proxy: &Proxy| proxy.program.sample("goodput_proxy_config_last_reload_successful", &[]);
    assert_eq!(successful(&proxy), Some(1.0));
    let before = proxy.program.config();

    let log = proxy.reload(&format!("{}\nwindows: 7\nnope: 1", slo("fast", "200"))).join("");
    for problem in ["routes[0].slos[0].ttft", "windows: ", "nope: ", "\"problems\":3"] {
        assert!(log.contains(problem), "{problem} in {log}");
    }
    assert_eq!((proxy.program.config(), successful(&proxy)), (before.clone(), Some(0.0)));

    let log = proxy
        .reload(&format!("{}\ndrain: {{ timeout: 7s }}", slo("fast", "2h")))
        .join("");
    assert!(
        log.contains(r#"drain.timeout: cannot change from \"5m\" to \"7s\" while the proxy runs"#),
        "{log}"
    );
    assert_eq!(proxy.program.config(), before, "not even what could have changed");

    fs::remove_file(proxy.program.file()).unwrap();
    let log = proxy.program.until(&["configuration refused"]).join("");
    assert!(log.contains("No such file"), "{log}");
    assert_eq!(
        proxy
            .program
            .sample("goodput_proxy_config_reloads_total", &["result=\"failure\""]),
        Some(3.0)
    );

    proxy.reload(&slo("fast", "2h"));
    assert_eq!(successful(&proxy), Some(1.0));
    assert_eq!(proxy.program.config()["routes"][0]["slos"][0]["ttft"], "2h");
}

#[test]
fn a_swapped_config_map_is_taken_without_a_signal() {
    let mut proxy = Proxy::start(&slo("fast", "1h"), true);
    let folder = proxy.program.folder().to_owned();
    version(&folder, "2", &text(&proxy.upstream, &slo("fast", "3h")));
    symlink("..2", folder.join("..data_tmp")).unwrap();
    fs::rename(folder.join("..data_tmp"), folder.join("..data")).unwrap();
    proxy.program.until(&["configuration reloaded"]);
    assert_eq!(proxy.program.config()["routes"][0]["slos"][0]["ttft"], "3h");
}
