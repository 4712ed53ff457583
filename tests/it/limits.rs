//! `limits.max_requests`: who is turned away, how, and who is let in again.

use std::sync::Arc;

use goodput_proxy::clock;
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::Notify;

use crate::rig::{Client, Reply, Rig, Step, Way, both, both_tcp, h2, post, reply};

const ONE: &str = "limits: { max_requests: 1 }\n";

/// A rig that lets one request in, whose first waits for the gate.
fn one(way: Way) -> (Rig, Arc<Notify>) {
    let gate = Arc::new(Notify::new());
    let mut first = vec![Step::Gate(Arc::clone(&gate))];
    first.extend(reply("200 OK", "text/plain", "first"));
    let rig = Rig::configured(way, ONE, vec![first, reply("200 OK", "text/plain", "ok")]);
    (rig, gate)
}

/// A client whose request is under way.
async fn under_way(rig: &Rig) -> Client {
    let mut client = rig.client();
    client.send(post("/x", "{}")).await;
    rig.upstream.until(|upstream| upstream.seen().len() == 1).await;
    client
}

fn assert_turned_away(got: &Reply) {
    assert_eq!(got.status(), 503, "{}", got.head);
    assert_eq!(got.header("x-goodput-error"), Some("too_many_requests"));
    let json: Value = serde_json::from_str(&got.text()).unwrap();
    assert_eq!(
        (&json["error"]["code"], &json["error"]["type"]),
        (&"too_many_requests".into(), &"server_error".into())
    );
}

#[test]
fn past_the_limit_a_request_is_answered_503_and_its_connection_serves_on() {
    both(|way| async move {
        let (rig, gate) = one(way);
        let mut first = under_way(&rig).await;
        let mut second = rig.client();
        for request in [post("/x", "{}"), "GET /health HTTP/1.1\r\nHost: a\r\n\r\n".to_owned()] {
            // An upload may cost the connection; the other kind does not.
            assert_turned_away(&rig.client().call(&request).await);
        }
        for _ in 0..2 {
            assert_turned_away(&second.call("GET /health HTTP/1.1\r\nHost: a\r\n\r\n").await);
        }
        second.send("HEAD / HTTP/1.1\r\nHost: a\r\n\r\n").await;
        assert!(second.head().await.unwrap().starts_with("HTTP/1.1 503 "));
        gate.notify_one();
        assert_eq!(first.reply().await.text(), "first");
        let got = second.call(post("/x", "{}")).await;
        assert_eq!((got.status(), got.text().as_str()), (200, "ok"));
        assert_eq!(rig.upstream.seen().len(), 2, "those turned away were not sent on");
        let outcomes: Vec<_> = rig.records().iter().map(|record| (record.outcome, record.status)).collect();
        let away = ("rejected", Some(503));
        assert_eq!(outcomes, [away, away, away, away, away, ("ok", Some(200)), ("ok", Some(200))]);
        assert_eq!(rig.under_way.requests.count(), 0);
        assert_eq!(rig.counters.heads_malformed.get(), 0);
    });
}

#[test]
fn uploads_turned_away_end_their_connections_and_do_not_count() {
    both(|way| async move {
        let (rig, gate) = one(way);
        let mut first = under_way(&rig).await;
        let mut away = Vec::new();
        for _ in 0..3 {
            let mut client = rig.client();
            client
                .send("POST /x HTTP/1.1\r\nHost: a\r\nContent-Length: 1000000\r\n\r\nbegun")
                .await;
            let got = client.reply().await;
            assert_turned_away(&got);
            assert_eq!(got.header("connection"), Some("close"));
            away.push(client);
        }
        assert_eq!(rig.under_way.requests.count(), 1);
        gate.notify_one();
        assert_eq!(first.reply().await.text(), "first");
        assert_eq!(rig.client().call(post("/x", "{}")).await.text(), "ok");
        let begun = clock::now();
        for client in &mut away {
            assert_eq!(client.rest().await, b"");
        }
        assert!(clock::now().since(begun) <= 2_000_000_000);
    });
}

#[test]
fn an_answer_to_an_upload_that_goes_on_is_not_lost_to_a_reset() {
    both_tcp(|way| async move {
        let gate = Arc::new(Notify::new());
        let rig = Rig::tcp(way, ONE, vec![vec![Step::Body, Step::Gate(gate)]]).await;
        let _first = under_way(&rig).await;
        let (mut read, mut write) = rig.tcp_stream().await.into_split();
        let upload = tokio::spawn(async move {
            let head = format!("POST /x HTTP/1.1\r\nHost: a\r\nContent-Length: {}\r\n\r\n", 10 << 20);
            let _ = write.write_all(head.as_bytes()).await;
            while write.write_all(&[b'x'; 64 << 10]).await.is_ok() {}
        });
        let mut got = Vec::new();
        let mut part = [0; 4096];
        while !String::from_utf8_lossy(&got).contains("server_error") {
            let n = read.read(&mut part).await.expect("the reply comes before any reset");
            assert!(n > 0, "{:?}", String::from_utf8_lossy(&got));
            got.extend_from_slice(&part[..n]);
        }
        assert!(got.starts_with(b"HTTP/1.1 503 "));
        upload.abort();
    });
}

#[test]
fn streams_of_one_http_2_connection_count_each() {
    both(|way| async move {
        let (rig, gate) = one(way);
        let mut sender = h2::client(&rig).await;
        let mut other = sender.clone();
        let first = tokio::spawn(async move { h2::call(&mut other, h2::post("/x", "{}")).await });
        rig.upstream.until(|upstream| upstream.seen().len() == 1).await;
        let (head, _, error) = h2::call(&mut sender, h2::post("/x", "{}")).await;
        assert_eq!((head.status.as_u16(), error), (503, None));
        assert_eq!(head.headers["x-goodput-error"], "too_many_requests");
        gate.notify_one();
        let (head, body, _) = first.await.unwrap();
        assert_eq!((head.status.as_u16(), body.as_slice()), (200, &b"first"[..]));
    });
}
