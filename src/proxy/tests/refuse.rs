//! What is not forwarded, and how the client hears of it.

use super::*;

async fn refused(relay: bool, request: &str) -> (String, String, Rig) {
    let mut rig = Rig::new(relay);
    let mut client = rig.client();
    client.send(request).await;
    let head = client.head().await;
    let body = client.rest().await;
    assert!(rig.upstream.try_recv().is_err(), "nothing was sent on");
    (head, body, rig)
}

async fn both_framings_are_refused_in_either_order_and_the_rest_is_no_request(relay: bool) {
    for framing in [
        "Content-Length: 4\r\nTransfer-Encoding: chunked",
        "Transfer-Encoding: chunked\r\nContent-Length: 4",
    ] {
        let (head, body, _) = refused(
            relay,
            &format!("POST / HTTP/1.1\r\nHost: a\r\n{framing}\r\n\r\n0\r\n\r\nGET /admin HTTP/1.1\r\nHost: a\r\n\r\n"),
        )
        .await;
        assert!(head.starts_with("HTTP/1.1 400 Bad Request\r\n"), "{head}");
        assert!(head.contains("x-goodput-error: both_framings\r\n"), "{head}");
        let json: serde_json::Value = serde_json::from_str(&body).expect("one reply and no second");
        assert_eq!(json["error"]["code"], "both_framings");
    }
}

async fn connect_and_bad_hosts_are_refused(relay: bool) {
    for (request, status, reason) in [
        (
            "CONNECT a:1 HTTP/1.1\r\nHost: a:1\r\nConnection: close\r\n\r\n",
            "405",
            "connect_refused",
        ),
        ("GET / HTTP/1.1\r\nConnection: close\r\n\r\n", "400", "bad_host"),
        (
            "GET a:1 HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n",
            "400",
            "bad_target",
        ),
        ("GET / HTTP/1.1\r\nHost: a/b\r\nConnection: close\r\n\r\n", "400", "bad_host"),
        ("GET / HTTP/1.1\r\nHost: a, b\r\nConnection: close\r\n\r\n", "400", "bad_host"),
        ("GET * HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n", "400", "bad_target"),
        (
            "GET http://a@evil/ HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n",
            "400",
            "bad_target",
        ),
        (
            "POST / HTTP/1.1\r\nHost: a\r\nConnection: close\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
            "501",
            "transfer_coding",
        ),
    ] {
        let (head, _, rig) = refused(relay, request).await;
        assert!(head.starts_with(&format!("HTTP/1.1 {status} ")), "{head}");
        assert!(head.contains(&format!("x-goodput-error: {reason}\r\n")), "{head}");
        assert_eq!(rig.counters.heads_malformed.get(), 1);
    }
}

async fn a_malformed_chunk_is_answered_400_and_the_connection_closed(relay: bool) {
    let mut rig = Rig::new(relay);
    let mut client = rig.client();
    client
        .send("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n")
        .await;
    let mut upstream = rig.upstream().await;
    upstream.head().await;
    client.send("5\nworld\r\n0\r\n\r\n").await;
    let head = client.head().await;
    assert!(head.starts_with("HTTP/1.1 400 Bad Request\r\n"), "{head}");
    assert!(head.contains("x-goodput-error: malformed_body\r\n"), "{head}");
    client.rest().await;
    let sent = upstream.rest().await;
    assert_eq!(sent, "5\r\nhello\r\n", "never completed");
}

async fn an_upstream_that_closes_before_its_head_is_answered_502(relay: bool) {
    let mut rig = Rig::new(relay);
    let mut client = rig.client();
    client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n").await;
    let mut upstream = rig.upstream().await;
    upstream.head().await;
    drop(upstream);
    let head = client.head().await;
    assert!(head.starts_with("HTTP/1.1 502 Bad Gateway\r\n"), "{head}");
    assert!(head.contains("x-goodput-error: upstream_closed\r\n"), "{head}");
    assert!(rig.upstream.try_recv().is_err(), "not sent again");
}

async fn an_upstream_that_cannot_be_reached_is_named_and_counts_as_no_attempt(relay: bool) {
    let config = Config {
        relay,
        ..Config::default()
    };
    let refuse = || async { Err(std::io::Error::from(std::io::ErrorKind::ConnectionRefused)) };
    let rig = Rig::over(&config, Connector::new(refuse), mpsc::channel(1).1);
    let mut client = rig.client();
    client.send("GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n").await;
    let answer = client.rest().await;
    assert!(answer.starts_with("HTTP/1.1 502 Bad Gateway\r\n"), "{answer}");
    assert!(
        answer.contains("cannot reach the upstream: 127.0.0.1:8000: connection refused"),
        "{answer}"
    );
    let counters = &rig.counters;
    assert_eq!(counters.upstream_connect_errors.get(), 1);
    assert_eq!((counters.upstream_connects.get(), counters.upstream_attempts.get()), (0, 0));
    assert_eq!(rig.proxy.observer.recent(1).remove(0).attempts, 0);
}

async fn an_answer_to_head_has_no_body(relay: bool) {
    let mut rig = Rig::new(relay);
    let mut client = rig.client();
    client.send("HEAD /v1/models HTTP/1.1\r\nHost: a\r\n\r\n").await;
    let mut upstream = rig.upstream().await;
    upstream.head().await;
    drop(upstream);
    assert!(client.head().await.starts_with("HTTP/1.1 502 Bad Gateway\r\n"));
    client.send("GET /v1/models HTTP/1.1\r\nHost: a\r\n\r\n").await;
    let mut upstream = rig.upstream().await;
    upstream.head().await;
    upstream.send("HTTP/1.1 204 No Content\r\n\r\n").await;
    assert_eq!(client.head().await, "HTTP/1.1 204 No Content\r\n\r\n");
}

async fn heads_over_a_limit_are_answered_431_and_counted(relay: bool) {
    let long = format!("GET / HTTP/1.1\r\nHost: a\r\nX: {}\r\n\r\n", "x".repeat(70_000));
    let many = format!("GET / HTTP/1.1\r\nHost: a\r\n{}\r\n", "X: y\r\n".repeat(256));
    for request in [long, many] {
        let (head, _, rig) = refused(relay, &request).await;
        assert!(head.starts_with("HTTP/1.1 431 "), "{head}");
        settle().await;
        assert_eq!(rig.counters.heads_too_large.get(), 1);
    }
    let mut rig = Rig::new(relay);
    let mut client = rig.client();
    client
        .send(format!("GET / HTTP/1.1\r\nHost: a\r\n{}\r\n", "X: y\r\n".repeat(255)))
        .await;
    assert_eq!(rig.upstream().await.head().await.matches("X: y\r\n").count(), 255);
}

async fn a_head_that_is_not_http_is_answered_400_and_counted(relay: bool) {
    let (head, _, rig) = refused(relay, "\x01\x02\x03 nonsense\r\n\r\n").await;
    assert!(head.starts_with("HTTP/1.1 400 "), "{head}");
    settle().await;
    assert_eq!(rig.counters.heads_malformed.get(), 1);
}

both_ways!(
    both_framings_are_refused_in_either_order_and_the_rest_is_no_request,
    connect_and_bad_hosts_are_refused,
    a_malformed_chunk_is_answered_400_and_the_connection_closed,
    an_upstream_that_closes_before_its_head_is_answered_502,
    an_upstream_that_cannot_be_reached_is_named_and_counts_as_no_attempt,
    an_answer_to_head_has_no_body,
    heads_over_a_limit_are_answered_431_and_counted,
    a_head_that_is_not_http_is_answered_400_and_counted,
);
