//! What the proxy itself adds: one sample a forwarded request, one a chunk, the last included.

use super::*;

const HEAD: &str = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n";

fn samples(rig: &Rig) -> (u64, u64) {
    let counters = &rig.counters;
    (
        counters.overhead_request.snapshot().count,
        counters.overhead_chunk.snapshot().count,
    )
}

async fn asked(rig: &mut Rig) -> (Peer, Peer) {
    let mut client = rig.client();
    client
        .send("POST /v1/chat/completions HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\n{}")
        .await;
    let mut upstream = rig.upstream().await;
    upstream.head().await;
    upstream.bytes(2).await;
    (client, upstream)
}

async fn a_reply_that_is_one_read_has_its_request_sample(relay: bool) {
    let mut rig = Rig::new(relay);
    let (mut client, mut upstream) = asked(&mut rig).await;
    upstream.send("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}").await;
    client.head().await;
    assert_eq!(client.bytes(2).await, "{}");
    settle().await;
    assert_eq!(samples(&rig).0, 1);
}

async fn a_reply_without_a_body_has_its_request_sample(relay: bool) {
    let mut rig = Rig::new(relay);
    let (mut client, mut upstream) = asked(&mut rig).await;
    upstream.send("HTTP/1.1 204 No Content\r\n\r\n").await;
    client.head().await;
    settle().await;
    assert_eq!(samples(&rig), (1, 0));
}

async fn the_last_chunk_of_a_stream_has_its_sample(relay: bool) {
    let mut rig = Rig::new(relay);
    let (mut client, mut upstream) = asked(&mut rig).await;
    upstream.send(HEAD).await;
    client.head().await;
    for part in ["4\r\n: a\n\r\n", "1\r\n\n\r\n0\r\n\r\n"] {
        upstream.send(part).await;
        assert_eq!(client.bytes(part.len()).await, part);
    }
    settle().await;
    assert_eq!(samples(&rig), (1, 2));
}

both_ways!(
    a_reply_that_is_one_read_has_its_request_sample,
    a_reply_without_a_body_has_its_request_sample,
    the_last_chunk_of_a_stream_has_its_sample,
);
