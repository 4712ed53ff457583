//! What goes through goes through byte for byte.

use super::*;

async fn heads_and_bodies_pass_unchanged_and_nothing_is_added(relay: bool) {
    let mut rig = Rig::new(relay);
    let mut client = rig.client();
    client
        .send(
            "POST //v1/chat/completions?x=%2520 HTTP/1.1\r\nHost: LLM.local\r\nX-MiXed-Case: a\r\nAccept: b\r\nx-mixed-case: c\r\n\
             Connection: keep-alive, X-Hop\r\nX-Hop: 1\r\nContent-Length: 15\r\n\r\n{\"stream\":true}",
        )
        .await;
    let mut upstream = rig.upstream().await;
    assert_eq!(
        upstream.head().await,
        "POST //v1/chat/completions?x=%2520 HTTP/1.1\r\nHost: LLM.local\r\nX-MiXed-Case: a\r\nx-mixed-case: c\r\nAccept: b\r\n\
         Content-Length: 15\r\n\r\n"
    );
    assert_eq!(upstream.bytes(15).await, "{\"stream\":true}");
    upstream
        .send(
            "HTTP/1.1 200 Fine\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\nConnection: keep-alive\r\n\
             Keep-Alive: timeout=5\r\nX-ODD: 1\r\n\r\n7\r\ndata: a\r\n",
        )
        .await;
    let head = client.head().await;
    assert!(
        head.starts_with("HTTP/1.1 200 Fine\r\nContent-Type: text/event-stream\r\n"),
        "{head}"
    );
    assert!(head.contains("\r\nX-ODD: 1\r\n"), "{head}");
    assert_eq!(
        head.to_ascii_lowercase().matches("transfer-encoding: chunked\r\n").count(),
        1,
        "{head}"
    );
    assert_eq!(head.lines().count(), 5, "{head}");
    assert_eq!(client.bytes(12).await, "7\r\ndata: a\r\n", "before the next one is sent");
    upstream.send("2\r\n\n\n\r\n0\r\n\r\n").await;
    assert_eq!(client.bytes(12).await, "2\r\n\n\n\r\n0\r\n\r\n");
}

async fn absolute_form_is_forwarded_in_origin_form(relay: bool) {
    let mut rig = Rig::new(relay);
    let mut client = rig.client();
    client
        .send("GET http://llm:8000/v1/models HTTP/1.1\r\nHost: other\r\n\r\n")
        .await;
    let mut upstream = rig.upstream().await;
    assert_eq!(upstream.head().await, "GET /v1/models HTTP/1.1\r\nHost: llm:8000\r\n\r\n");
}

async fn an_http10_client_gets_no_chunks_and_no_early_hints(relay: bool) {
    let mut rig = Rig::new(relay);
    let mut client = rig.client();
    client.send("GET /v1/models HTTP/1.0\r\nHost: a\r\n\r\n").await;
    let mut upstream = rig.upstream().await;
    upstream.head().await;
    upstream.send("HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n").await;
    upstream
        .send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n")
        .await;
    assert_eq!(client.head().await, "HTTP/1.0 200 OK\r\n\r\n");
    assert_eq!(client.bytes(5).await, "hello");
    upstream.send("0\r\n\r\n").await;
    assert_eq!(client.rest().await, "");
    assert_eq!(rig.counters.informational_dropped.get(), 1);
}

async fn informational_replies_are_relayed_before_the_head(relay: bool) {
    let mut rig = Rig::new(relay);
    let mut client = rig.client();
    client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n").await;
    let mut upstream = rig.upstream().await;
    upstream.head().await;
    upstream
        .send("HTTP/1.1 103 Early Hints\r\nlink: x\r\nconnection: close\r\n\r\n")
        .await;
    assert_eq!(
        client.head().await,
        "HTTP/1.1 103 Early Hints\r\nlink: x\r\n\r\n",
        "while the final head is awaited"
    );
    upstream
        .send("HTTP/1.1 102 Processing\r\n\r\nHTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok")
        .await;
    assert_eq!(client.head().await, "HTTP/1.1 102 Processing\r\n\r\n");
    assert_eq!(client.head().await, "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n");
    assert_eq!(client.bytes(2).await, "ok");
    assert_eq!(rig.counters.informational_dropped.get(), 0);
}

async fn a_client_waiting_for_100_gets_it_and_an_early_refusal_is_relayed(relay: bool) {
    let mut rig = Rig::new(relay);
    let mut client = rig.client();
    let head = "POST / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\n";
    client.send(head).await;
    let mut upstream = rig.upstream().await;
    upstream.head().await;
    upstream.send("HTTP/1.1 100 Continue\r\n\r\n").await;
    assert_eq!(client.head().await, "HTTP/1.1 100 Continue\r\n\r\n");
    client.send("hello").await;
    assert_eq!(upstream.bytes(5).await, "hello");
    upstream.send("HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").await;
    assert_eq!(client.head().await, "HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n");
    client.send(head).await;
    upstream.head().await;
    upstream.send("HTTP/1.1 413 Too Big\r\ncontent-length: 0\r\n\r\n").await;
    let refusal = client.head().await;
    assert!(refusal.starts_with("HTTP/1.1 413 Too Big\r\n"), "{refusal}");
}

async fn what_came_before_a_reset_is_delivered_and_then_the_client_is_cut_off(relay: bool) {
    for (framing, sent) in [
        ("transfer-encoding: chunked", "5\r\nhello\r\n5\r\nworld\r\n"),
        ("content-length: 1000", "hello world"),
    ] {
        let mut rig = Rig::new(relay);
        let mut client = rig.client();
        client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n").await;
        let mut upstream = rig.upstream().await;
        upstream.head().await;
        upstream.send(format!("HTTP/1.1 200 OK\r\n{framing}\r\n\r\n{sent}")).await;
        drop(upstream);
        assert_eq!(client.head().await, format!("HTTP/1.1 200 OK\r\n{framing}\r\n\r\n"));
        assert_eq!(
            client
                .rest()
                .await
                .replace("a\r\nhelloworld\r\n", "5\r\nhello\r\n5\r\nworld\r\n"),
            sent
        );
        rig.under_way.requests.empty().await;
    }
}

async fn a_client_that_leaves_frees_the_upstream_before_and_after_the_head(relay: bool) {
    for head_first in [false, true] {
        let mut rig = Rig::new(relay);
        let mut client = rig.client();
        client.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nhi").await;
        let mut upstream = rig.upstream().await;
        upstream.head().await;
        assert_eq!(upstream.bytes(2).await, "hi");
        if head_first {
            upstream
                .send("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhello\r\n")
                .await;
            client.head().await;
        }
        drop(client);
        assert_eq!(upstream.rest().await, "", "closed, during silence");
        rig.under_way.requests.empty().await;
    }
}

async fn a_websocket_is_spliced_both_ways(relay: bool) {
    let mut rig = Rig::new(relay);
    let mut client = rig.client();
    client
        .send("GET /v1/realtime HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Key: k\r\n\r\n")
        .await;
    let mut upstream = rig.upstream().await;
    let head = upstream.head().await;
    assert!(
        head.contains("\r\nUpgrade: websocket\r\n") && head.contains("\r\nConnection: Upgrade\r\n"),
        "{head}"
    );
    upstream
        .send("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\nfirst")
        .await;
    let head = client.head().await;
    assert!(head.starts_with("HTTP/1.1 101 Switching Protocols\r\n"), "{head}");
    assert!(head.to_ascii_lowercase().contains("\r\nupgrade: websocket\r\n"), "{head}");
    assert_eq!(client.bytes(5).await, "first");
    client.send("ping").await;
    assert_eq!(upstream.bytes(4).await, "ping");
    assert_eq!(rig.under_way.requests.count(), 1);
    drop(client);
    assert_eq!(upstream.rest().await, "");
    drop(upstream);
    rig.under_way.requests.empty().await;
    assert_eq!(rig.counters.upgrades.get(), 1);
}

/// The reply is there when the last of the request is read: one turn sends the one and takes the other.
#[tokio::test(start_paused = true)]
async fn a_reply_that_waits_for_the_last_of_the_request_leaves_the_connection_open() {
    let mut rig = Rig::new(true);
    let mut client = rig.client();
    client
        .send("POST /v1/x HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\nhello")
        .await;
    let mut upstream = rig.upstream().await;
    upstream.head().await;
    assert_eq!(upstream.bytes(5).await, "hello");
    settle().await;
    client.send("world").await;
    upstream.send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok").await;
    client.head().await;
    assert_eq!(client.bytes(2).await, "ok");
    assert_eq!(upstream.bytes(5).await, "world");
    client.send("GET /v1/y HTTP/1.1\r\nHost: a\r\n\r\n").await;
    assert_eq!(upstream.head().await, "GET /v1/y HTTP/1.1\r\nHost: a\r\n\r\n");
}

async fn a_transfer_coding_that_connection_nominates_still_frames_the_reply(relay: bool) {
    let mut rig = Rig::new(relay);
    let mut client = rig.client();
    client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n").await;
    let mut upstream = rig.upstream().await;
    upstream.head().await;
    upstream
        .send(
            "HTTP/1.1 200 OK\r\nConnection: close, Transfer-Encoding\r\nTransfer-Encoding: chunked\r\n\r\n\
             2\r\nok\r\n0\r\n\r\n",
        )
        .await;
    let head = client.head().await.to_ascii_lowercase();
    assert!(head.contains("\r\ntransfer-encoding: chunked\r\n"), "{head}");
    assert_eq!(client.bytes(12).await, "2\r\nok\r\n0\r\n\r\n");
}

async fn a_204_that_announces_a_body_is_the_last_reply_of_its_connection(relay: bool) {
    for body in ["Content-Length: 4", "Transfer-Encoding: chunked"] {
        let mut rig = Rig::new(relay);
        let mut client = rig.client();
        let request = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";
        client.send(request).await;
        let mut first = rig.upstream().await;
        first.head().await;
        first.send(format!("HTTP/1.1 204 No Content\r\n{body}\r\n\r\n")).await;
        client.head().await;
        client.send(request).await;
        settle().await;
        // Its body may come now: nobody may take that for the head of a reply.
        let mut second = rig.upstream.try_recv().expect("a fresh connection");
        second.head().await;
        second.send("HTTP/1.1 204 No Content\r\nContent-Length: 0\r\n\r\n").await;
        assert!(client.head().await.starts_with("HTTP/1.1 204 No Content\r\n"), "{body}");
        client.send(request).await;
        second.head().await;
    }
}

both_ways!(
    heads_and_bodies_pass_unchanged_and_nothing_is_added,
    absolute_form_is_forwarded_in_origin_form,
    an_http10_client_gets_no_chunks_and_no_early_hints,
    informational_replies_are_relayed_before_the_head,
    a_transfer_coding_that_connection_nominates_still_frames_the_reply,
    a_204_that_announces_a_body_is_the_last_reply_of_its_connection,
    a_client_waiting_for_100_gets_it_and_an_early_refusal_is_relayed,
    what_came_before_a_reset_is_delivered_and_then_the_client_is_cut_off,
    a_client_that_leaves_frees_the_upstream_before_and_after_the_head,
    a_websocket_is_spliced_both_ways,
);
