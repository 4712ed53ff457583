//! The TLS handshake of a client, on the paused clock. What follows it is as in clear text.

use std::time::Duration;

use rustls::crypto::ring;
use rustls::{ClientConfig, RootCertStore};
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};
use tokio_rustls::TlsConnector;

use super::*;
use crate::clock;
use crate::config::{CertFiles, ServerTls};
use crate::proxy::serve_tls_connection;
use crate::tls;

/// A connection to a port with TLS, and what its client must trust.
fn connection(rig: &Rig) -> (DuplexStream, RootCertStore) {
    let folder = tempfile::tempdir().unwrap();
    let key = rcgen::KeyPair::generate().unwrap();
    let own = rcgen::CertificateParams::new(["localhost".to_owned()]).unwrap();
    let files = CertFiles {
        cert: folder.path().join("crt"),
        key: folder.path().join("key"),
    };
    let own = own.self_signed(&key).unwrap();
    std::fs::write(&files.cert, own.pem()).unwrap();
    std::fs::write(&files.key, key.serialize_pem()).unwrap();
    let settings = tls::server(&ServerTls {
        own: files,
        client_ca: None,
    });
    let (near, far) = duplex(PIPE_BYTES);
    tokio::spawn(serve_tls_connection(near, settings.unwrap().get(), Arc::clone(&rig.proxy)));
    let mut roots = RootCertStore::empty();
    roots.add(own.der().clone()).unwrap();
    (far, roots)
}

fn client(rig: &Rig) -> Peer {
    Peer(connection(rig).0)
}

#[tokio::test(start_paused = true)]
async fn a_handshake_has_the_time_of_a_head() {
    let rig = Rig::new(true);
    let mut client = client(&rig);
    // The beginning of a record, and nothing more.
    client.send([0x16, 0x03, 0x01]).await;
    let begun = clock::now();
    assert_eq!(client.rest().await, "");
    assert_eq!(
        Duration::from_nanos(clock::now().since(begun)),
        Config::default().limits.header_timeout
    );
    assert_eq!(rig.counters.tls_handshake_errors.get(), 1);
}

#[tokio::test(start_paused = true)]
async fn after_its_handshake_a_head_has_a_time_of_its_own() {
    // To the full server, and while it is told which HTTP it is.
    for begun in ["POST /v1/c", "PRI * HTTP/2"] {
        let rig = Rig::new(true);
        let (io, roots) = connection(&rig);
        let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth();
        let name = "localhost".try_into().unwrap();
        let mut client = TlsConnector::from(Arc::new(config)).connect(name, io).await.unwrap();
        tokio::time::sleep(Duration::from_secs(100)).await;
        client.write_all(begun.as_bytes()).await.unwrap();
        let from = clock::now();
        let _ = client.read_to_end(&mut Vec::new()).await;
        assert_eq!(clock::now().since(from), 30_000_000_000, "{begun}");
        assert_eq!(rig.counters.header_timeouts.get(), 1);
        assert_eq!(rig.under_way.connections.count(), 0);
    }
}

#[tokio::test(start_paused = true)]
async fn half_a_handshake_does_not_hold_up_a_drain() {
    let rig = Rig::new(true);
    let mut client = client(&rig);
    client.send([0x16, 0x03, 0x01]).await;
    settle().await;
    rig.lifecycle.advance(Phase::Closing);
    let begun = clock::now();
    assert_eq!(client.rest().await, "");
    assert_eq!(clock::now(), begun);
}

#[tokio::test(start_paused = true)]
async fn clear_text_gets_an_alert_and_no_reply() {
    let rig = Rig::new(true);
    let mut client = client(&rig);
    client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n").await;
    let mut got = Vec::new();
    client.0.read_to_end(&mut got).await.unwrap();
    assert_eq!(got.first(), Some(&0x15), "an alert record: {got:?}");
    assert_eq!(rig.counters.tls_handshake_errors.get(), 1);
}
