//! The program itself: signals, probes, file descriptors, memory.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::thread;

use goodput_proxy::clock;

use super::super::rig::nobody;

/// A running proxy on ports of the kernel's choice; killed when its test ends.
pub(super) struct Program {
    child: Child,
    log: BufReader<ChildStdout>,
    /// Where clients connect to.
    pub(super) traffic: SocketAddr,
    /// Where probes are.
    pub(super) admin: SocketAddr,
}

impl Program {
    /// Starts it in front of `upstream`, with at most `files` open files.
    pub(super) fn start(upstream: SocketAddr, files: u32, drain_delay: &str) -> Self {
        Self::limited(upstream, &format!("-n {files}"), drain_delay, &[])
    }

    /// Starts it with what the shell's `ulimit` makes of `limit`, and with these variables.
    fn limited(upstream: SocketAddr, limit: &str, drain_delay: &str, variables: &[(&str, &str)]) -> Self {
        let script = format!("ulimit {limit} && exec \"$0\" --listen 127.0.0.1:0 --admin 127.0.0.1:0 --log-format json");
        let mut child = Command::new("sh")
            .args(["-c", &script, env!("CARGO_BIN_EXE_goodput-proxy")])
            .env_remove("RUST_LOG")
            .env("GOODPUT__UPSTREAM__URL", format!("http://{upstream}"))
            .env("GOODPUT__DRAIN__DELAY", drain_delay)
            .env("GOODPUT__WORKERS", "1")
            .envs(variables.iter().copied())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut log = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        log.read_line(&mut line).unwrap();
        let line: serde_json::Value = serde_json::from_str(&line).unwrap();
        let address = |key: &str| line[key].as_str().unwrap().parse().unwrap();
        let (traffic, admin) = (address("listen"), address("admin"));
        Self {
            child,
            log,
            traffic,
            admin,
        }
    }

    fn signal(&self, name: &str) {
        let sent = Command::new("kill")
            .args([name, &self.child.id().to_string()])
            .status()
            .unwrap();
        assert!(sent.success());
    }

    /// Reads the log until a line holds `text`; gives that line.
    fn until(&mut self, text: &str) -> String {
        let mut line = String::new();
        while !line.contains(text) {
            line.clear();
            assert!(self.log.read_line(&mut line).unwrap() > 0, "the log ended without {text:?}");
        }
        line
    }

    /// Its resident memory, KiB.
    pub(super) fn memory(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let line = status.lines().find(|l| l.starts_with("VmRSS:")).unwrap();
        line.split_whitespace().nth(1).unwrap().parse().unwrap()
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Sends a request; gives its connection.
pub(super) fn send(to: SocketAddr, request: &str) -> TcpStream {
    let mut stream = TcpStream::connect(to).unwrap();
    stream.write_all(request.as_bytes()).unwrap();
    stream
}

/// Reads to the end.
fn rest(mut stream: TcpStream) -> String {
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    text
}

fn get(to: SocketAddr, path: &str) -> String {
    rest(send(
        to,
        &format!("GET {path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"),
    ))
}

/// Reads a head, to its empty line and not a byte further.
pub(super) fn head(stream: &mut TcpStream) -> String {
    let mut head = Vec::new();
    let mut byte = [0];
    while !head.ends_with(b"\r\n\r\n") {
        assert_eq!(
            stream.read(&mut byte).unwrap(),
            1,
            "ended within a head: {:?}",
            String::from_utf8_lossy(&head)
        );
        head.push(byte[0]);
    }
    String::from_utf8(head).unwrap()
}

/// A model server that answers every request with `ok`.
fn server() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(mut stream) = stream else { return };
            head(&mut stream);
            let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok");
        }
    });
    address
}

const STREAM: &str = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n3\r\none\r\n";
const ASK: &str = "GET /stream HTTP/1.1\r\nHost: a\r\n\r\n";

#[test]
fn a_signal_waits_for_the_stream_under_way_and_then_ends_the_program() {
    let upstream = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut proxy = Program::start(upstream.local_addr().unwrap(), 1024, "off");
    let mut client = send(proxy.traffic, ASK);
    let (mut server, _) = upstream.accept().unwrap();
    head(&mut server);
    server.write_all(STREAM.as_bytes()).unwrap();
    head(&mut client);
    proxy.signal("-TERM");
    proxy.until("draining");
    // Readiness falls at once; the stream goes on.
    while get(proxy.admin, "/readyz").starts_with("HTTP/1.1 200") {}
    assert!(get(proxy.admin, "/livez").starts_with("HTTP/1.1 200"));
    server.write_all(b"3\r\ntwo\r\n0\r\n\r\n").unwrap();
    assert_eq!(rest(client), "3\r\none\r\n3\r\ntwo\r\n0\r\n\r\n");
    assert_eq!(proxy.child.wait().unwrap().code(), Some(0));
    assert!(TcpStream::connect(proxy.traffic).is_err());
}

#[test]
fn within_the_drain_delay_new_requests_are_served() {
    let mut proxy = Program::start(server(), 1024, "1h");
    proxy.signal("-TERM");
    proxy.until("draining");
    while get(proxy.admin, "/readyz").starts_with("HTTP/1.1 200") {}
    for _ in 0..3 {
        assert!(get(proxy.traffic, "/v1/models").ends_with("\r\n\r\nok"));
    }
    proxy.signal("-TERM");
    assert_eq!(proxy.child.wait().unwrap().code(), Some(130));
}

#[test]
fn a_second_signal_cuts_the_stream_under_way_at_once() {
    let upstream = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut proxy = Program::start(upstream.local_addr().unwrap(), 1024, "1h");
    let mut client = send(proxy.traffic, ASK);
    let (mut server, _) = upstream.accept().unwrap();
    head(&mut server);
    server.write_all(STREAM.as_bytes()).unwrap();
    head(&mut client);
    proxy.signal("-TERM");
    proxy.until("draining");
    proxy.signal("-INT");
    let last = proxy.until("stopped at once by a second signal");
    assert!(last.contains(r#""cut":1"#), "{last}");
    assert_eq!(proxy.child.wait().unwrap().code(), Some(130));
    // Both sides see it, and nobody can take it for a whole reply.
    let mut got = Vec::new();
    let _ = client.read_to_end(&mut got);
    assert_eq!(got, b"3\r\none\r\n");
    assert!(!server.read(&mut [0]).is_ok_and(|n| n > 0));
}

#[test]
fn a_dead_upstream_changes_neither_liveness_nor_readiness() {
    let (_nobody, upstream) = nobody();
    let proxy = Program::start(upstream, 1024, "off");
    assert!(get(proxy.traffic, "/v1/models").starts_with("HTTP/1.1 502 "));
    for probe in ["/livez", "/readyz"] {
        assert!(get(proxy.admin, probe).starts_with("HTTP/1.1 200"), "{probe}");
    }
}

#[test]
fn with_readiness_upstream_a_dead_upstream_is_not_ready_and_still_live() {
    let (socket, upstream) = nobody();
    let proxy = Program::limited(upstream, "-n 1024", "off", &[("GOODPUT__READINESS", "upstream")]);
    // The admin port answers before the traffic port does.
    let got = loop {
        let got = get(proxy.admin, "/readyz");
        assert!(got.starts_with("HTTP/1.1 503 "), "{got}");
        if !got.ends_with("starting\n") {
            break got;
        }
    };
    assert!(
        got.contains(&format!("the upstream takes no connection: {upstream}: ")),
        "{got}"
    );
    assert!(get(proxy.admin, "/livez").starts_with("HTTP/1.1 200"));
    socket.listen(8).unwrap();
    // The answer holds for a second.
    while !get(proxy.admin, "/readyz").starts_with("HTTP/1.1 200") {}
}

#[test]
fn probes_and_scrapes_answer_beside_busy_streams() {
    let upstream = TcpListener::bind("127.0.0.1:0").unwrap();
    let proxy = Program::start(upstream.local_addr().unwrap(), 1024, "off");
    let piece = [b"10000\r\n".to_vec(), vec![b'x'; 0x10000], b"\r\n".to_vec()].concat();
    for _ in 0..4 {
        let mut client = send(proxy.traffic, ASK);
        let (mut server, _) = upstream.accept().unwrap();
        let piece = piece.clone();
        thread::spawn(move || {
            head(&mut server);
            let _ = server.write_all(STREAM.as_bytes());
            while server.write_all(&piece).is_ok() {}
        });
        thread::spawn(move || while client.read(&mut [0; 65_536]).is_ok_and(|n| n > 0) {});
    }
    for _ in 0..10 {
        assert!(get(proxy.admin, "/livez").starts_with("HTTP/1.1 200"));
        assert!(get(proxy.admin, "/metrics").contains("goodput_in_flight"));
    }
}

#[test]
fn a_soft_limit_of_file_descriptors_is_raised_to_the_hard_one() {
    let proxy = Program::limited(server(), "-Sn 40", "off", &[]);
    let held: Vec<TcpStream> = (0..100).map(|_| TcpStream::connect(proxy.traffic).unwrap()).collect();
    assert!(get(proxy.traffic, "/v1/models").ends_with("\r\n\r\nok"));
    let metrics = get(proxy.admin, "/metrics");
    let sample = |name: &str| {
        let value = metrics.lines().find_map(|l| l.strip_prefix(name)).unwrap();
        value.trim().parse::<f64>().unwrap()
    };
    assert!(sample("process_open_fds ") > 100.0 && sample("process_max_fds ") > 100.0);
    drop(held);
}

#[test]
fn out_of_file_descriptors_it_serves_on_once_some_are_free() {
    let mut proxy = Program::start(server(), 40, "off");
    let warning = proxy.until("too low for limits.max_connections");
    assert!(warning.contains(r#""limit":40,"needed":20000"#), "{warning}");
    // What is not accepted waits in the backlog.
    let held: Vec<TcpStream> = (0..100).map(|_| TcpStream::connect(proxy.traffic).unwrap()).collect();
    proxy.until("cannot accept a connection");
    let failing = clock::now();
    drop(held);
    assert!(get(proxy.traffic, "/v1/models").ends_with("\r\n\r\nok"));
    let metrics = get(proxy.admin, "/metrics");
    let errors = metrics
        .lines()
        .find_map(|l| l.strip_prefix("goodput_proxy_accept_errors_total "))
        .unwrap();
    let errors: u64 = errors.parse().unwrap();
    // The pause doubles from 5 ms to a second.
    let most = 9 + clock::now().since(failing) / 1_000_000_000;
    assert!((1..=most).contains(&errors), "{errors} of {most}");
    // However many there were, one line told of them.
    proxy.signal("-TERM");
    let mut rest = String::new();
    proxy.log.read_to_string(&mut rest).unwrap();
    assert!(!rest.contains("cannot accept a connection"), "{rest}");
}
