//! The admin endpoints over in-memory connections on the paused clock.

mod readiness;

use std::io::Read;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};
use tokio::sync::watch;
use tokio::time::timeout;

use super::*;
use crate::clock;
use crate::config::CertFiles;
use crate::lifecycle::{Lifecycle, Phase};
use crate::measure::Stamp;
use crate::tls;

/// In flight as told by `left`; drain resolves when that is `Some`.
struct Double {
    drains: AtomicUsize,
    left: watch::Sender<Option<usize>>,
}

impl Source for Double {
    fn snapshot(&self) -> Snapshot {
        Snapshot::default()
    }
    fn requests(&self) -> String {
        "[]".to_owned()
    }
    fn config(&self) -> String {
        "{\"profile\":\"goodput\"}".to_owned()
    }
    fn stats(&self) -> ProxyStats {
        ProxyStats {
            connections: 7,
            ..ProxyStats::default()
        }
    }
    fn drain(&self) -> Pin<Box<dyn Future<Output = usize> + Send>> {
        self.drains.fetch_add(1, SeqCst);
        let mut left = self.left.subscribe();
        Box::pin(async move {
            left.wait_for(Option::is_some)
                .await
                .map(|left| left.unwrap_or(0))
                .expect("the double lives")
        })
    }
}

struct Admin {
    lifecycle: Lifecycle,
    double: Arc<Double>,
    state: AdminState,
}

impl Admin {
    fn new() -> Self {
        let (lifecycle, double) = (
            Lifecycle::new(),
            Arc::new(Double {
                drains: AtomicUsize::new(0),
                left: watch::Sender::new(None),
            }),
        );
        let configured = Configured {
            profile: "goodput".into(),
            ..Configured::default()
        };
        let state = AdminState::new(Arc::clone(&double) as Arc<dyn Source>, configured, lifecycle.watch());
        Self {
            lifecycle,
            double,
            state,
        }
    }

    /// A connection with `request` already sent; the peer's side of `buffer` bytes.
    async fn send(&self, request: &str, buffer: usize) -> DuplexStream {
        let (mut ours, theirs) = duplex(buffer);
        tokio::spawn(serve_connection(theirs, self.state.clone()));
        ours.write_all(request.as_bytes()).await.expect("sent");
        ours
    }

    /// Head and body of the reply to `method path` with these header lines.
    async fn ask(&self, method: &str, path: &str, headers: &str) -> (String, Vec<u8>) {
        let request = format!("{method} {path} HTTP/1.1\r\nhost: admin\r\nconnection: close\r\n{headers}\r\n");
        let mut reply = Vec::new();
        self.send(&request, 4096)
            .await
            .read_to_end(&mut reply)
            .await
            .expect("a reply");
        let at = reply.windows(4).position(|w| w == b"\r\n\r\n").expect("a head") + 4;
        let body = reply.split_off(at);
        (String::from_utf8(reply).expect("a head of text").to_ascii_lowercase(), body)
    }

    async fn text(&self, method: &str, path: &str) -> (u16, String) {
        let (head, body) = self.ask(method, path, "").await;
        (status(&head), String::from_utf8(body).expect("text"))
    }
}

fn seconds_since(start: Stamp) -> u64 {
    clock::now().since(start) / 1_000_000_000
}

fn status(head: &str) -> u16 {
    head.split(' ').nth(1).and_then(|s| s.parse().ok()).expect("a status")
}

#[tokio::test(start_paused = true)]
async fn readiness_follows_the_phase_and_liveness_does_not() {
    let admin = Admin::new();
    let expected = [
        (Phase::Starting, 503, "starting\n"),
        (Phase::Ready, 200, "ready\n"),
        (Phase::Draining, 503, "draining\n"),
        (Phase::Closing, 503, "draining\n"),
        (Phase::Stopped, 503, "stopping\n"),
    ];
    for (phase, status, body) in expected {
        admin.lifecycle.advance(phase);
        assert_eq!(admin.text("GET", "/readyz").await, (status, body.to_owned()));
        assert_eq!(admin.text("GET", "/livez").await, (200, "live\n".to_owned()));
    }
}

#[tokio::test(start_paused = true)]
async fn unknown_paths_and_methods_are_told_apart() {
    let admin = Admin::new();
    assert_eq!(admin.text("GET", "/metric").await.0, 404);
    assert_eq!(admin.text("POST", "/nothing").await.0, 404);
    let (head, _) = admin.ask("POST", "/metrics", "content-length: 0\r\n").await;
    assert_eq!((status(&head), head.contains("allow: get, head\r\n")), (405, true));
    assert_eq!(admin.text("GET", "/readyz?verbose=1").await.0, 503);
}

#[tokio::test(start_paused = true)]
async fn the_index_names_every_endpoint_and_each_answers() {
    let admin = Admin::new();
    admin.lifecycle.advance(Phase::Ready);
    admin.double.left.send_replace(Some(0));
    let (status, index) = admin.text("GET", "/").await;
    assert_eq!(status, 200);
    let listed: Vec<_> = index
        .lines()
        .filter_map(|line| line.split(' ').next().filter(|path| path.starts_with('/')))
        .collect();
    assert_eq!(listed, ["/metrics", "/livez", "/readyz", "/drain", "/requests", "/config"]);
    for path in listed {
        assert_eq!(admin.text("GET", path).await.0, 200, "{path}");
    }
    assert_eq!(admin.text("GET", "/requests").await.1, "[]");
    assert!(
        admin
            .ask("GET", "/config", "")
            .await
            .0
            .contains("content-type: application/json\r\n")
    );
}

#[tokio::test(start_paused = true)]
async fn head_has_the_length_and_no_body() {
    let admin = Admin::new();
    let (head, body) = admin.ask("HEAD", "/config", "").await;
    assert!(head.contains("content-length: 21\r\n"), "{head}");
    assert_eq!((status(&head), body.len()), (200, 0));
}

#[tokio::test(start_paused = true)]
async fn drain_answers_only_when_nothing_is_in_flight() {
    let admin = Admin::new();
    let mut waiting = admin
        .send("GET /drain HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n", 4096)
        .await;
    let mut reply = [0; 1];
    assert!(
        timeout(Duration::from_secs(299), waiting.read(&mut reply)).await.is_err(),
        "no answer yet"
    );
    assert_eq!(admin.double.drains.load(SeqCst), 1);
    admin.double.left.send_replace(Some(0));
    let mut text = String::new();
    waiting.read_to_string(&mut text).await.expect("a reply");
    assert!(
        text.starts_with("HTTP/1.1 200 ") && text.ends_with("\r\n\r\ndrained\n"),
        "{text}"
    );
}

#[tokio::test(start_paused = true)]
async fn drain_tells_what_was_left_when_time_is_up() {
    let admin = Admin::new();
    admin.double.left.send_replace(Some(3));
    assert_eq!(
        admin.text("POST", "/drain").await,
        (503, "time is up, 3 still in flight\n".to_owned())
    );
}

#[tokio::test(start_paused = true)]
async fn asking_for_the_head_of_drain_does_not_drain() {
    let admin = Admin::new();
    assert_eq!(admin.text("HEAD", "/drain").await.0, 405);
    assert_eq!(admin.double.drains.load(SeqCst), 0);
}

#[tokio::test(start_paused = true)]
async fn metrics_come_in_the_format_and_coding_asked_for() {
    let admin = Admin::new();
    let (head, body) = admin.ask("GET", "/metrics", "").await;
    assert!(
        head.contains("content-type: text/plain; version=0.0.4; charset=utf-8\r\n"),
        "{head}"
    );
    assert!(!head.contains("content-encoding"), "{head}");
    let plain = String::from_utf8(body).expect("text");
    assert!(plain.contains("\ngoodput_proxy_connections_total 7\n") && !plain.contains("# EOF"));

    let (head, body) = admin.ask("GET", "/metrics", "accept: application/openmetrics-text\r\n").await;
    assert!(
        head.contains("content-type: application/openmetrics-text; version=1.0.0; charset=utf-8\r\n"),
        "{head}"
    );
    assert!(body.ends_with(b"# EOF\n"));

    let (head, body) = admin
        .ask(
            "GET",
            "/metrics",
            "accept: text/plain\r\naccept-encoding: br\r\naccept-encoding: gzip\r\n",
        )
        .await;
    assert!(
        head.contains("content-encoding: gzip\r\n") && head.contains("vary: accept, accept-encoding\r\n"),
        "{head}"
    );
    let mut unzipped = String::new();
    flate2::read::GzDecoder::new(&*body)
        .read_to_string(&mut unzipped)
        .expect("gzip");
    assert!(unzipped.contains("\ngoodput_proxy_connections_total 7\n"));
}

#[tokio::test(start_paused = true)]
async fn a_silent_connection_is_closed() {
    let admin = Admin::new();
    let start = clock::now();
    let mut silent = admin.send("GET /livez HTTP/1.1\r\n", 4096).await;
    let mut rest = Vec::new();
    silent.read_to_end(&mut rest).await.expect("closed in order");
    assert_eq!(seconds_since(start), 30);
}

#[tokio::test(start_paused = true)]
async fn a_tls_handshake_has_thirty_seconds() {
    let key = rcgen::KeyPair::generate().unwrap();
    let own = rcgen::CertificateParams::new(["localhost".to_owned()]).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let files = CertFiles {
        cert: folder.path().join("crt"),
        key: folder.path().join("key"),
    };
    std::fs::write(&files.cert, own.self_signed(&key).unwrap().pem()).unwrap();
    std::fs::write(&files.key, key.serialize_pem()).unwrap();
    let settings = tls::admin(&files).unwrap().get();
    let (near, mut far) = duplex(1024);
    tokio::spawn(serve_tls_connection(near, settings, Admin::new().state));
    let start = clock::now();
    // The beginning of a record, and nothing more.
    far.write_all(&[0x16, 0x03, 0x01]).await.unwrap();
    assert_eq!(far.read(&mut [0; 16]).await.unwrap(), 0);
    assert_eq!(seconds_since(start), 30);
}

#[tokio::test(start_paused = true)]
async fn scrapers_that_do_not_read_hold_their_slots_only_until_they_are_cut() {
    let admin = Admin::new();
    let start = clock::now();
    let mut stuck = Vec::new();
    for _ in 0..4 {
        // Far less room than the reply needs, and nobody reads.
        stuck.push(admin.send("GET /metrics HTTP/1.1\r\nhost: a\r\n\r\n", 64).await);
    }
    tokio::time::sleep(Duration::from_secs(1)).await;
    let (head, _) = admin.ask("GET", "/metrics", "").await;
    assert_eq!((status(&head), seconds_since(start)), (503, 6));
    assert!(head.contains("retry-after: 5\r\n"), "{head}");
    // The four are cut ten seconds after they stopped reading, and the next scrape in line goes ahead.
    let (head, _) = admin.ask("GET", "/metrics", "").await;
    assert_eq!((status(&head), seconds_since(start)), (200, 10));
}

#[tokio::test(start_paused = true)]
async fn past_the_connection_cap_a_connection_waits_until_another_ends() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("bound");
    tokio::spawn(serve(listener, Admin::new().state, None));
    let connected = || async move {
        let mut socket = tokio::net::TcpStream::connect(address).await.expect("connected");
        socket
            .write_all(b"GET /livez HTTP/1.1\r\nhost: a\r\n\r\n")
            .await
            .expect("sent");
        socket
    };
    let mut first = [0; 12];
    let mut open = Vec::new();
    for _ in 0..server::MAX_CONNECTIONS {
        let mut socket = connected().await;
        socket.read_exact(&mut first).await.expect("a reply");
        open.push(socket);
    }
    let mut late = connected().await;
    assert!(
        timeout(Duration::from_secs(1), late.read_exact(&mut first)).await.is_err(),
        "the cap is full"
    );
    open.pop();
    late.read_exact(&mut first).await.expect("a reply");
    assert_eq!(&first, b"HTTP/1.1 200");
}

#[tokio::test(start_paused = true)]
async fn with_a_token_only_probes_are_open_and_metrics_where_configured() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("token");
    std::fs::write(&path, "secret-of-sixteen\n").unwrap();
    for metrics in [true, false] {
        let mut admin = Admin::new();
        admin.lifecycle.advance(Phase::Ready);
        let token = Arc::new(Token::mounted(&path).unwrap());
        admin.state = admin.state.clone().guarded(token, metrics);
        let of = async |path: &str, headers: &str| status(&admin.ask("GET", path, headers).await.0);
        assert_eq!(
            (of("/livez", "").await, of("/readyz", "").await, of("/nope", "").await),
            (200, 200, 404)
        );
        assert_eq!(of("/metrics", "").await, if metrics { 401 } else { 200 });
        for wrong in [
            "",
            "authorization: Bearer\r\n",
            "authorization: Bearer secret-of-sixteeN\r\n",
            "authorization: Bearer secret-of-sixteen2\r\n",
            "authorization: Basic secret-of-sixteen\r\n",
            "authorization: secret-of-sixteen\r\n",
            "authorization: Bearer secret-of-sixteen\r\nauthorization: Bearer secret-of-sixteen\r\n",
        ] {
            for path in ["/drain", "/config", "/requests", "/"] {
                assert_eq!(of(path, wrong).await, 401, "{path} {wrong:?}");
            }
        }
        assert_eq!(admin.double.drains.load(SeqCst), 0);
        let (head, _) = admin.ask("GET", "/config", "").await;
        assert!(head.contains("www-authenticate: bearer\r\n"), "{head}");
        for right in ["Bearer secret-of-sixteen", "bearer  secret-of-sixteen"] {
            assert_eq!(of("/config", &format!("authorization: {right}\r\n")).await, 200, "{right}");
        }
    }
}
