use super::*;
use crate::measure::Ending;

/// The bytes and the error of a reply that is `text` and then the end of the connection.
async fn broken(text: &str) -> (Vec<u8>, Option<BodyError>) {
    let (upstream, mut accepted) = piped(&config());
    let sending = spawn_send(&upstream, post("{}"));
    let mut peer = accepted.recv().await.unwrap();
    peer.head().await;
    peer.send(text).await;
    drop(peer);
    let mut body = sending.await.unwrap().unwrap().into_body();
    let ended = drain(&mut body).await;
    assert!(frame(&mut body).await.is_none(), "nothing comes after the end");
    assert_eq!(upstream.0.pool.len(), 0);
    ended
}

#[tokio::test(start_paused = true)]
async fn a_reply_shorter_than_its_length_is_truncated() {
    let (bytes, error) = broken(&format!("HTTP/1.1 200 OK\r\ncontent-length: 1000\r\n\r\n{}", "x".repeat(400))).await;
    assert_eq!((bytes.len(), error), (400, Some(BodyError::Truncated)));
    assert_eq!(BodyError::Truncated.ending(), Ending::UpstreamReset);
}

#[tokio::test(start_paused = true)]
async fn a_chunked_reply_without_its_last_chunk_is_truncated() {
    for text in ["5\r\nhello\r\n", "5\r\nhello\r\n0\r\n", "5\r\nhello\r\n3\r\n"] {
        let (bytes, error) = broken(&format!("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n{text}")).await;
        assert_eq!(
            (bytes.as_slice(), error),
            (b"hello".as_slice(), Some(BodyError::Truncated)),
            "{text:?}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_bad_chunk_is_malformed_after_what_came_before_it() {
    let (bytes, error) = broken("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhello\r\nxyz\r\n").await;
    assert_eq!((bytes.as_slice(), error), (b"hello".as_slice(), Some(BodyError::Malformed)));
}

#[tokio::test(start_paused = true)]
async fn a_reply_without_length_is_complete_when_the_connection_ends() {
    for version in ["1.0", "1.1"] {
        let (bytes, error) = broken(&format!("HTTP/{version} 200 OK\r\n\r\ndata: x\n\n")).await;
        assert_eq!((bytes.as_slice(), error), (b"data: x\n\n".as_slice(), None), "{version}");
    }
}

/// Why there is no head when the upstream answers `text` and closes.
async fn no_head(config: &config::Upstream, text: &str) -> SendError {
    let (upstream, mut accepted) = piped(config);
    let sending = spawn_send(&upstream, post("{}"));
    let mut peer = accepted.recv().await.unwrap();
    peer.head().await;
    peer.send(text).await;
    drop(peer);
    sending.await.unwrap().unwrap_err()
}

#[tokio::test(start_paused = true)]
async fn what_is_no_head_is_told_apart() {
    let config = config();
    assert_eq!(no_head(&config, "").await.reason(), "upstream_closed");
    assert_eq!(no_head(&config, "HTTP/1.1 200 OK\r\nx: ").await.reason(), "upstream_closed");
    assert_eq!(
        no_head(&config, "SSH-2.0-OpenSSH_9.6\r\n").await.reason(),
        "upstream_malformed"
    );
    assert_eq!(
        no_head(&config, "HTTP/1.1 200 OK\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\n")
            .await
            .reason(),
        "upstream_malformed"
    );
    assert_eq!(
        no_head(&config, "HTTP/1.0 200 OK\r\ntransfer-encoding: chunked\r\n\r\n")
            .await
            .reason(),
        "upstream_malformed"
    );
}

fn fields(count: usize) -> String {
    (0..count).map(|i| format!("x-{i}: v\r\n")).collect()
}

#[tokio::test(start_paused = true)]
async fn a_head_past_the_caps_has_its_own_reason() {
    let mut config = config();
    config.max_headers = 8;
    config.max_header_bytes = 8192;
    let error = no_head(&config, &format!("HTTP/1.1 200 OK\r\n{}\r\n", fields(9))).await;
    assert_eq!(
        (error.reason(), error.status()),
        ("upstream_head_too_large", StatusCode::BAD_GATEWAY)
    );
    let error = no_head(&config, &format!("HTTP/1.1 200 OK\r\nx: {}\r\n\r\n", "y".repeat(9000))).await;
    assert_eq!(
        (error.reason(), error.ending()),
        ("upstream_head_too_large", Ending::UpstreamReset)
    );
}

#[tokio::test(start_paused = true)]
async fn many_fields_and_a_large_one_pass() {
    let (upstream, mut accepted) = piped(&config());
    let sending = spawn_send(&upstream, get("/"));
    let mut peer = accepted.recv().await.unwrap();
    peer.head().await;
    let large = "y".repeat(60 * 1024);
    peer.send(format!(
        "HTTP/1.1 200 OK\r\n{}large: {large}\r\ncontent-length: 0\r\n\r\n",
        fields(120)
    ))
    .await;
    let response = sending.await.unwrap().unwrap();
    assert_eq!(response.headers().len(), 122);
    assert_eq!(response.headers()["large"], large);
}

#[tokio::test(start_paused = true)]
async fn dropping_the_wait_for_a_head_closes_the_socket_at_once() {
    let (upstream, mut accepted) = piped(&config());
    let sending = spawn_send(&upstream, post("{}"));
    let mut peer = accepted.recv().await.unwrap();
    peer.head().await;
    peer.body(2).await;
    let start = clock::now();
    sending.abort();
    assert_eq!(peer.rest().await, b"");
    assert_eq!(ms_since(start), 0);
}

#[tokio::test(start_paused = true)]
async fn dropping_a_body_closes_the_socket_at_once() {
    let (upstream, mut accepted) = piped(&config());
    let sending = spawn_send(&upstream, post("{}"));
    let mut peer = accepted.recv().await.unwrap();
    peer.head().await;
    peer.body(2).await;
    peer.send("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhello\r\n")
        .await;
    let mut body = sending.await.unwrap().unwrap().into_body();
    assert_eq!(text(&mut body).await, "hello");
    let start = clock::now();
    drop(body);
    assert_eq!(peer.rest().await, b"");
    assert_eq!(ms_since(start), 0);
    assert_eq!(upstream.0.pool.len(), 0);
}

#[tokio::test(start_paused = true)]
async fn an_upload_that_breaks_off_is_the_clients_fault_and_never_a_whole_request() {
    let (upstream, mut accepted) = piped(&config());
    let (feed, builder, body) = fed();
    let sending = spawn_send(&upstream, builder.body(body).unwrap());
    let mut peer = accepted.recv().await.unwrap();
    feed.send(data("half")).await.unwrap();
    feed.send(Err("the client left".into())).await.unwrap();
    let error = sending.await.unwrap().unwrap_err();
    assert_eq!(
        (error.reason(), error.ending(), error.status()),
        ("request_body", Ending::ClientGone, StatusCode::BAD_REQUEST)
    );
    assert!(
        matches!(&error, SendError::RequestBody(why) if why.contains("the client left")),
        "{error:?}"
    );
    assert_eq!(error.to_string(), "the request body broke off before its end");
    let sent = String::from_utf8(peer.rest().await).unwrap();
    assert!(!sent.ends_with("0\r\n\r\n"), "{sent:?}");
}

#[tokio::test(start_paused = true)]
async fn an_upload_that_breaks_off_during_the_reply_ends_the_reply() {
    let (upstream, mut accepted) = piped(&config());
    let (feed, builder, body) = fed();
    let sending = spawn_send(&upstream, builder.body(body).unwrap());
    let mut peer = accepted.recv().await.unwrap();
    peer.head().await;
    peer.send("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhello\r\n")
        .await;
    let mut body = sending.await.unwrap().unwrap().into_body();
    assert_eq!(text(&mut body).await, "hello");
    feed.send(Err("the client left".into())).await.unwrap();
    assert_eq!(drain(&mut body).await, (vec![], Some(BodyError::RequestBody)));
    assert_eq!(BodyError::RequestBody.ending(), Ending::ClientGone);
}
