//! How connections end when the process does.

use http_body_util::{BodyExt, Empty};
use hyper_util::rt::{TokioExecutor, TokioIo};

use super::*;

async fn idle_unused_and_half_open_connections_close_at_once(relay: bool) {
    let mut rig = Rig::new(relay);
    let mut used = rig.client();
    used.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n").await;
    let mut upstream = rig.upstream().await;
    upstream.head().await;
    upstream.send("HTTP/1.1 204 No Content\r\n\r\n").await;
    used.head().await;
    let (mut unused, mut half, mut preface) = (rig.client(), rig.client(), rig.client());
    half.send("GET / HTTP/1.1\r\nHo").await;
    preface.send("PRI *").await;
    settle().await;
    assert_eq!(rig.under_way.connections.count(), 4);
    rig.lifecycle.advance(Phase::Draining);
    settle().await;
    assert_eq!(rig.under_way.connections.count(), 4, "still serving");
    rig.lifecycle.advance(Phase::Closing);
    settle().await;
    assert_eq!(rig.under_way.connections.count(), 0);
    for client in [&mut used, &mut unused, &mut half, &mut preface] {
        assert_eq!(client.rest().await, "");
    }
}

async fn a_stream_under_way_is_finished_and_then_its_connection_closes(relay: bool) {
    let mut rig = Rig::new(relay);
    let mut client = rig.client();
    client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n").await;
    let mut upstream = rig.upstream().await;
    upstream.head().await;
    upstream
        .send("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhello\r\n")
        .await;
    client.head().await;
    rig.lifecycle.advance(Phase::Closing);
    settle().await;
    assert_eq!(rig.under_way.requests.count(), 1);
    upstream.send("5\r\nworld\r\n0\r\n\r\n").await;
    assert_eq!(client.rest().await, "5\r\nhello\r\n5\r\nworld\r\n0\r\n\r\n");
    rig.under_way.connections.empty().await;
    assert_eq!(rig.under_way.requests.count(), 0);
}

async fn at_the_deadline_a_stream_is_cut_without_a_clean_end(relay: bool) {
    let mut rig = Rig::new(relay);
    let mut client = rig.client();
    client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n").await;
    let mut upstream = rig.upstream().await;
    upstream.head().await;
    upstream
        .send("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhello\r\n")
        .await;
    client.head().await;
    rig.lifecycle.advance(Phase::Closing);
    settle().await;
    rig.lifecycle.advance(Phase::Stopped);
    assert_eq!(client.rest().await, "5\r\nhello\r\n");
    rig.under_way.connections.empty().await;
    assert_eq!(rig.under_way.requests.count(), 0);
    assert_eq!(upstream.rest().await, "");
}

async fn an_http2_stream_is_finished_after_the_goodbye(relay: bool) {
    let mut rig = Rig::new(relay);
    let client = rig.client();
    let (mut sender, conn) = hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(client.0))
        .await
        .unwrap();
    let conn = tokio::spawn(conn);
    let request = http::Request::get("http://llm/v1/models")
        .body(Empty::<bytes::Bytes>::new())
        .unwrap();
    let reply = tokio::spawn(sender.send_request(request));
    let mut upstream = rig.upstream().await;
    assert_eq!(upstream.head().await, "GET /v1/models HTTP/1.1\r\nhost: llm\r\n\r\n");
    upstream
        .send("HTTP/1.1 200 OK\r\nconnection: keep-alive\r\nkeep-alive: timeout=5\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhello\r\n")
        .await;
    let reply = reply.await.unwrap().unwrap();
    assert!(reply.headers().is_empty(), "{:?}", reply.headers());
    rig.lifecycle.advance(Phase::Closing);
    settle().await;
    upstream.send("0\r\n\r\n").await;
    assert_eq!(reply.into_body().collect().await.unwrap().to_bytes(), "hello");
    rig.under_way.connections.empty().await;
    conn.await.unwrap().unwrap();
}

async fn an_http2_client_sees_a_reset_where_the_upstream_broke_off(relay: bool) {
    let mut rig = Rig::new(relay);
    let client = rig.client();
    let (mut sender, conn) = hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(client.0))
        .await
        .unwrap();
    tokio::spawn(conn);
    let request = http::Request::get("http://llm/").body(Empty::<bytes::Bytes>::new()).unwrap();
    let reply = tokio::spawn(sender.send_request(request));
    let mut upstream = rig.upstream().await;
    upstream.head().await;
    upstream.send("HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nhello").await;
    drop(upstream);
    let mut body = reply.await.unwrap().unwrap().into_body();
    let first = body.frame().await.unwrap().unwrap().into_data().unwrap();
    assert_eq!(first, "hello");
    assert!(body.frame().await.unwrap().is_err());
}

both_ways!(
    idle_unused_and_half_open_connections_close_at_once,
    a_stream_under_way_is_finished_and_then_its_connection_closes,
    at_the_deadline_a_stream_is_cut_without_a_clean_end,
    an_http2_stream_is_finished_after_the_goodbye,
    an_http2_client_sees_a_reset_where_the_upstream_broke_off,
);
