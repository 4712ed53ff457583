//! TLS on every port, through the whole program: protocols, client certificates, rotation while a stream runs, and files that
//! cannot be used.

mod admin;
mod certs;
mod grpc;

use std::fs;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::thread::{self, JoinHandle};

use rcgen::CertificateParams;
use rustls::crypto::ring;
use rustls::server::WebPkiClientVerifier;
use rustls::{ClientConfig, ClientConnection, ServerConfig, ServerConnection, StreamOwned};
use tempfile::TempDir;

use self::certs::{Ca, Own, trusting};
use crate::rig::program::Program;

type Tls = StreamOwned<ClientConnection, TcpStream>;

fn connect(address: &str, config: ClientConfig) -> Tls {
    let connection = ClientConnection::new(Arc::new(config), "localhost".try_into().unwrap()).unwrap();
    StreamOwned::new(connection, TcpStream::connect(address).unwrap())
}

/// `GET` and its reply up to the server's end.
fn get(tls: &mut Tls) -> std::io::Result<String> {
    tls.write_all(b"GET /v1/models HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")?;
    let mut reply = String::new();
    tls.read_to_string(&mut reply)?;
    Ok(reply)
}

/// A model server that answers every connection's first request with `ok` and closes.
fn clear_upstream() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            answer(&mut stream);
        }
    });
    format!("http://{address}")
}

fn answer(stream: &mut (impl Read + Write)) {
    if read_head(stream) {
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\nconnection: close\r\n\r\nok");
    }
}

/// Whether a whole head came.
fn read_head(stream: &mut impl Read) -> bool {
    let mut head = Vec::new();
    let mut byte = [0];
    while !head.ends_with(b"\r\n\r\n") {
        if !stream.read(&mut byte).is_ok_and(|n| n > 0) {
            return false;
        }
        head.push(byte[0]);
    }
    true
}

/// The program with TLS on its traffic port, its certificate for `localhost` of `ca`; with `ask`, clients must have one of `ca` too.
fn serving(ca: &Ca, upstream: &str, ask: bool) -> Program {
    let folder = TempDir::new().unwrap();
    ca.issue("localhost").write(folder.path(), "own");
    fs::write(folder.path().join("ca.crt"), &ca.pem).unwrap();
    let at = folder.path().display();
    let more = if ask {
        format!(", client_ca: {at}/ca.crt")
    } else {
        String::new()
    };
    let text = format!("upstream: {{ url: '{upstream}' }}\ntls: {{ cert: {at}/own.crt, key: {at}/own.key{more} }}\n");
    fs::write(folder.path().join("config.yaml"), text).unwrap();
    Program::start(folder)
}

#[test]
fn clients_get_http_1_or_2_by_alpn_and_the_reply_ends_with_a_close_notify() {
    let ca = Ca::new();
    let program = serving(&ca, &clear_upstream(), false);
    let mut tls = connect(&program.listen, trusting(&ca, None, &["http/1.1"]));
    let reply = get(&mut tls).unwrap();
    assert!(
        reply.starts_with("HTTP/1.1 200 OK\r\n") && reply.ends_with("\r\n\r\nok"),
        "{reply}"
    );
    assert_eq!(tls.conn.alpn_protocol(), Some(&b"http/1.1"[..]));

    let mut tls = connect(&program.listen, trusting(&ca, None, &["h2", "http/1.1"]));
    // Preface and an empty SETTINGS frame; the server's first frame is its own SETTINGS.
    tls.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0")
        .unwrap();
    let mut frame = [0; 9];
    tls.read_exact(&mut frame).unwrap();
    assert_eq!((tls.conn.alpn_protocol(), frame[3]), (Some(&b"h2"[..]), 4));

    let mut clear = TcpStream::connect(&program.listen).unwrap();
    clear.write_all(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
    let mut refused = Vec::new();
    let _ = clear.read_to_end(&mut refused);
    assert!(!refused.starts_with(b"HTTP"), "no clear text on a TLS port");
    assert_eq!(program.sample("goodput_proxy_tls_handshake_errors_total", &[]), Some(1.0));
}

#[test]
fn with_a_client_ca_only_its_clients_get_in() {
    let (ca, strangers) = (Ca::new(), Ca::new());
    let program = serving(&ca, &clear_upstream(), true);
    let with = |own: Option<&Own>| get(&mut connect(&program.listen, trusting(&ca, own, &[])));
    assert!(with(Some(&ca.issue("client"))).unwrap().ends_with("ok"));
    assert!(with(None).is_err(), "no certificate");
    assert!(with(Some(&strangers.issue("client"))).is_err(), "somebody else's");
    assert_eq!(program.sample("goodput_proxy_tls_handshake_errors_total", &[]), Some(2.0));
}

#[test]
fn a_rotated_certificate_is_shown_to_new_clients_and_the_stream_under_way_goes_on() {
    let (old, new) = (Ca::new(), Ca::new());
    let upstream = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut program = serving(&old, &format!("http://{}", upstream.local_addr().unwrap()), false);
    let mut under_way = connect(&program.listen, trusting(&old, None, &[]));
    under_way
        .write_all(b"GET /v1/models HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
        .unwrap();
    let (mut server, _) = upstream.accept().unwrap();
    assert!(read_head(&mut server));
    server
        .write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 10\r\nconnection: close\r\n\r\nhello")
        .unwrap();
    let mut first = Vec::new();
    while !first.ends_with(b"hello") {
        let mut byte = [0];
        under_way.read_exact(&mut byte).unwrap();
        first.push(byte[0]);
    }

    let folder = program.folder().to_owned();
    let other = new.issue("localhost");
    fs::write(folder.join("own.crt"), &other.cert).unwrap();
    let log = program.hang_up(&["configuration refused"]).join("");
    assert!(
        log.contains("tls.key: ") && log.contains("does not belong to the certificate"),
        "{log}"
    );
    assert_eq!(program.sample("goodput_proxy_config_last_reload_successful", &[]), Some(0.0));
    let mut still = connect(&program.listen, trusting(&old, None, &[]));
    still.conn.complete_io(&mut still.sock).unwrap();

    fs::write(folder.join("own.key"), &other.key).unwrap();
    program.until(&["certificate or token files reloaded"]);
    assert_eq!(program.sample("goodput_proxy_config_last_reload_successful", &[]), Some(1.0));
    let mut fresh = connect(&program.listen, trusting(&new, None, &[]));
    fresh.conn.complete_io(&mut fresh.sock).unwrap();
    let mut stale = connect(&program.listen, trusting(&old, None, &[]));
    assert!(stale.conn.complete_io(&mut stale.sock).is_err());

    server.write_all(b"world").unwrap();
    drop(server);
    let mut rest = String::new();
    under_way.read_to_string(&mut rest).unwrap();
    assert_eq!(rest, "world");
}

/// A model server behind TLS, which asks for a certificate of `clients`; gives the number of certificates each connection showed.
fn tls_upstream(own: &Own, clients: Option<&Ca>, connections: usize) -> (u16, JoinHandle<Vec<Option<usize>>>) {
    let provider = Arc::new(ring::default_provider());
    let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .unwrap();
    let builder = match clients {
        None => builder.with_no_client_auth(),
        Some(ca) => builder.with_client_cert_verifier(
            WebPkiClientVerifier::builder_with_provider(Arc::new(ca.roots()), provider)
                .build()
                .unwrap(),
        ),
    };
    let (cert, key) = own.parts();
    let config = Arc::new(builder.with_single_cert(cert, key).unwrap());
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let serving = thread::spawn(move || {
        let mut shown = Vec::new();
        for stream in listener.incoming().take(connections) {
            let mut tls = StreamOwned::new(ServerConnection::new(Arc::clone(&config)).unwrap(), stream.unwrap());
            answer(&mut tls);
            tls.conn.send_close_notify();
            let _ = tls.flush();
            shown.push(tls.conn.peer_certificates().map(<[_]>::len));
        }
        shown
    });
    (port, serving)
}

/// The reply to a `GET` through the program, whose upstream has this `tls`.
fn through(port: u16, write: impl Fn(&Path), tls: &str) -> String {
    let folder = TempDir::new().unwrap();
    write(folder.path());
    let at = folder.path().display().to_string();
    let text = format!(
        "upstream: {{ url: 'https://localhost:{port}', tls: {{ {} }} }}\n",
        tls.replace("{AT}", &at)
    );
    fs::write(folder.path().join("config.yaml"), text).unwrap();
    let program = Program::start(folder);
    let mut client = TcpStream::connect(&program.listen).unwrap();
    client
        .write_all(b"GET /v1/models HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
        .unwrap();
    let mut reply = String::new();
    client.read_to_string(&mut reply).unwrap();
    reply
}

#[test]
fn an_upstream_is_reached_over_tls_when_its_certificate_is_right_for_its_name() {
    let (ca, strangers) = (Ca::new(), Ca::new());
    let with = |trusted: &Ca, own: &Own, tls: &str| {
        let (port, serving) = tls_upstream(own, None, 1);
        let reply = through(port, |folder| fs::write(folder.join("ca.crt"), &trusted.pem).unwrap(), tls);
        serving.join().unwrap();
        reply
    };
    let reply = with(&ca, &ca.issue("localhost"), "ca: '{AT}/ca.crt'");
    assert!(reply.starts_with("HTTP/1.1 200 OK\r\n") && reply.ends_with("ok"), "{reply}");
    let reply = with(&ca, &ca.issue("vllm.test"), "ca: '{AT}/ca.crt', server_name: vllm.test");
    assert!(reply.ends_with("ok"), "{reply}");
    for (trusted, name) in [(&strangers, "localhost"), (&ca, "other.test")] {
        let reply = with(trusted, &ca.issue(name), "ca: '{AT}/ca.crt'");
        assert!(reply.starts_with("HTTP/1.1 502 "), "{reply}");
        assert!(reply.contains("TLS: invalid peer certificate"), "{reply}");
    }
}

#[test]
fn an_upstream_that_asks_for_a_certificate_is_shown_one() {
    let ca = Ca::new();
    let (port, serving) = tls_upstream(&ca.issue("localhost"), Some(&ca), 1);
    let client = ca.issue("proxy");
    let write = |folder: &Path| {
        fs::write(folder.join("ca.crt"), &ca.pem).unwrap();
        client.write(folder, "own");
    };
    let reply = through(port, write, "ca: '{AT}/ca.crt', cert: '{AT}/own.crt', key: '{AT}/own.key'");
    assert!(reply.ends_with("ok"), "{reply}");
    assert_eq!(serving.join().unwrap(), [Some(1)]);
}

#[test]
fn files_that_cannot_be_used_are_named_with_what_would_mend_them() {
    let ca = Ca::new();
    let folder = TempDir::new().unwrap();
    let at = |name: &str| folder.path().join(name).display().to_string();
    ca.issue("localhost").write(folder.path(), "a");
    ca.issue("localhost").write(folder.path(), "b");
    fs::write(at("empty"), "nothing\n").unwrap();
    let check = |more: &str| {
        fs::write(at("config.yaml"), more).unwrap();
        let output = Command::new(env!("CARGO_BIN_EXE_goodput-proxy"))
            .args(["check", "--config", &at("config.yaml")])
            .output()
            .unwrap();
        (output.status.code(), String::from_utf8(output.stderr).unwrap())
    };
    let tls = |cert: &str, key: &str| check(&format!("tls: {{ cert: '{}', key: '{}' }}", at(cert), at(key)));
    assert_eq!(tls("a.crt", "a.key").0, Some(0));
    for ((code, stderr), expected) in [
        (
            tls("none", "a.key"),
            "cannot be read (No such file or directory (os error 2)); name a file that the proxy can read",
        ),
        (
            tls("a.crt", "b.key"),
            "does not belong to the certificate; name the key that the first certificate of the chain was made for",
        ),
        (
            tls("empty", "a.key"),
            "holds no certificate; name a PEM file with `-----BEGIN CERTIFICATE-----` in it",
        ),
        (tls("a.crt", "empty"), "holds no private key ("),
        (
            check(&format!("tls: {{ cert: '{}' }}", at("a.crt"))),
            "has no `key` beside it; certificate and key go together",
        ),
        (
            check(&format!("tls: {{ client_ca: '{}' }}", at("a.crt"))),
            "but the port speaks no TLS; set `tls.cert` and `tls.key`",
        ),
        (
            check(&format!("admin_tls: {{ cert: '{}', key: '{}' }}", at("a.crt"), at("b.key"))),
            "admin_tls.key: \"",
        ),
        (
            check("upstream: { tls: { server_name: a } }"),
            "upstream.tls.server_name: \"a\": is for an `https://` server only",
        ),
        (
            check("upstream: { url: 'https://a', protocol: h2c }"),
            "upstream.protocol: \"h2c\": is clear text",
        ),
        (
            check("upstream: { url: 'http://a', protocol: h2 }"),
            "upstream.protocol: \"h2\": goes over TLS",
        ),
        (
            check(&format!("admin_auth: {{ token_file: '{}' }}", at("empty"))),
            "holds no token; write one line of 16 to 4096 visible",
        ),
    ] {
        assert_eq!(code, Some(2), "{stderr}");
        assert!(stderr.contains(expected), "{expected}\n{stderr}");
        assert!(stderr.ends_with("1 problem in the configuration\n"), "{stderr}");
    }
}

#[test]
fn an_expired_certificate_is_warned_about_and_served() {
    let ca = Ca::new();
    let mut parameters = CertificateParams::new(["localhost".to_owned()]).unwrap();
    parameters.not_after = rcgen::date_time_ymd(2020, 1, 1);
    let mut program = serving(&ca, &clear_upstream(), false);
    ca.issue_as(&parameters).write(program.folder(), "own");
    let log = program.hang_up(&["certificate or token files reloaded"]).join("");
    assert!(
        log.contains("the certificate has expired") && log.contains("tls.cert"),
        "{log}"
    );
    let mut client = connect(&program.listen, trusting(&ca, None, &[]));
    let refused = client.conn.complete_io(&mut client.sock).unwrap_err().to_string();
    assert!(
        refused.contains("certificate expired"),
        "it is the client that refuses: {refused}"
    );
}
