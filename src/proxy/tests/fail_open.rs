//! A panic inside the taps, forced: it costs the measurement of one request and never a byte of it, nor anything of the next one.

use super::*;
use crate::observe::PANIC;

const TOKEN: &str = "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"a\"}}]}\n\n";
const DONE: &str = "data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n";

fn chunk(text: &str) -> String {
    format!("{:x}\r\n{text}\r\n", text.len())
}

fn request(content: &str) -> String {
    let body = format!("{{\"model\":\"m\",\"stream\":true,\"messages\":[\"{content}\"]}}");
    let length = body.len();
    format!(
        "POST /v1/chat/completions HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\r\n{body}"
    )
}

/// One exchange whose reply holds `word`; asserts that both messages go through as they are.
async fn exchange(client: &mut Peer, upstream: &mut Peer, asked: &str, word: &str) {
    let sent = request(asked);
    client.send(&sent).await;
    assert_eq!(upstream.bytes(sent.len()).await, sent);
    upstream
        .send("HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n")
        .await;
    let head = client.head().await;
    assert!(head.starts_with("HTTP/1.1 200 OK\r\n"), "{head}");
    for event in [TOKEN, &TOKEN.replace("\"a\"", &format!("\"{word}\"")), TOKEN, DONE] {
        upstream.send(chunk(event)).await;
        assert_eq!(client.bytes(chunk(event).len()).await, chunk(event), "at once, as it came");
    }
    upstream.send("0\r\n\r\n").await;
    assert_eq!(client.bytes(5).await, "0\r\n\r\n");
}

async fn a_panic_of_a_tap_costs_one_measurement_and_no_byte(relay: bool) {
    let mut rig = Rig::new(relay);
    let mut client = rig.client();
    let panic = std::str::from_utf8(PANIC).unwrap();
    // Warms the connection up, and is measured.
    let sent = request("hi");
    client.send(&sent).await;
    let mut upstream = rig.upstream().await;
    assert_eq!(upstream.bytes(sent.len()).await, sent);
    upstream
        .send("HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n")
        .await;
    client.head().await;
    let reply = [chunk(TOKEN), chunk(DONE), "0\r\n\r\n".to_owned()].concat();
    upstream.send(&reply).await;
    assert_eq!(client.bytes(reply.len()).await, reply);

    exchange(&mut client, &mut upstream, "hi", panic).await;
    exchange(&mut client, &mut upstream, panic, "b").await;
    exchange(&mut client, &mut upstream, "hi", "b").await;

    let mut records = rig.proxy.observer.recent(9);
    records.reverse();
    let seen: Vec<_> = records
        .iter()
        .map(|r| (r.outcome, r.output_tokens, &*r.model == "m"))
        .collect();
    assert_eq!(
        seen,
        [
            ("ok", Some(1), true),
            // The reader of the reply is gone: nothing is claimed about tokens.
            ("ok", None, true),
            // The reader of the request is gone: the reply names no model, and is measured all the same.
            ("ok", Some(3), false),
            ("ok", Some(3), true),
        ]
    );
    let snapshot = rig.proxy.observer.snapshot(crate::clock::now());
    assert_eq!(snapshot.degraded[crate::measure::Degraded::Panic as usize], 2);
    assert_eq!(snapshot.series.iter().map(|s| s.in_flight).sum::<u64>(), 0);
}

both_ways!(a_panic_of_a_tap_costs_one_measurement_and_no_byte);
