//! Replies that come before the request is through, and those that are not final.

use super::*;

/// A POST of two bytes with `Expect: 100-continue`.
fn expecting() -> Request<Full<Bytes>> {
    let mut request = post("{}");
    request.headers_mut().insert("expect", "100-continue".parse().unwrap());
    request
}

const EXPECTING: &str = "POST /v1/chat/completions HTTP/1.1\r\nhost: llm\r\nexpect: 100-continue\r\ncontent-length: 2\r\n\r\n";

#[tokio::test(start_paused = true)]
async fn a_body_that_expects_100_is_sent_when_100_comes() {
    let (upstream, mut accepted) = piped(&config());
    let heard = Arc::new(Heard::default());
    let start = clock::now();
    let sending = spawn_heard(&upstream, expecting(), heard.clone());
    let mut peer = accepted.recv().await.unwrap();
    assert_eq!(peer.head().await, EXPECTING);
    sleep_ms(300).await;
    peer.send("HTTP/1.1 100 Continue\r\n\r\n").await;
    assert_eq!(peer.body(2).await, b"{}");
    assert_eq!(ms_since(start), 300);
    peer.send("HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").await;
    assert_eq!(sending.await.unwrap().unwrap().status(), 200);
    assert_eq!(heard.sent.lock().unwrap()[0].since(start), 300_000_000);
    assert!(heard.informational.lock().unwrap().is_empty(), "100 is not handed on");
    assert_eq!(upstream.0.pool.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_body_that_expects_100_is_sent_after_a_second_without_an_answer() {
    let (upstream, mut accepted) = piped(&config());
    let start = clock::now();
    let sending = spawn_send(&upstream, expecting());
    let mut peer = accepted.recv().await.unwrap();
    assert_eq!(peer.head().await, EXPECTING);
    assert_eq!(peer.body(2).await, b"{}");
    assert_eq!(ms_since(start), 1000);
    peer.send("HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").await;
    assert_eq!(sending.await.unwrap().unwrap().status(), 200);
}

#[tokio::test(start_paused = true)]
async fn a_final_reply_in_place_of_100_stops_the_upload() {
    let (upstream, mut accepted) = piped(&config());
    let heard = Arc::new(Heard::default());
    let sending = spawn_heard(&upstream, expecting(), heard.clone());
    let mut peer = accepted.recv().await.unwrap();
    peer.head().await;
    peer.send("HTTP/1.1 413 Content Too Large\r\ncontent-length: 3\r\n\r\n").await;
    let response = sending.await.unwrap().unwrap();
    assert_eq!(response.status(), 413);
    let mut body = response.into_body();
    let feeding = tokio::spawn(async move {
        sleep_ms(5000).await;
        peer.send("big").await;
        peer.rest().await
    });
    assert_eq!(drain(&mut body).await, (b"big".to_vec(), None));
    assert_eq!(feeding.await.unwrap(), b"", "not a byte of the body");
    assert!(heard.sent.lock().unwrap().is_empty());
    assert_eq!(upstream.0.pool.len(), 0);
}

#[tokio::test(start_paused = true)]
async fn informational_replies_are_handed_on_and_never_final() {
    let (upstream, mut accepted) = piped(&config());
    let heard = Arc::new(Heard::default());
    let sending = spawn_heard(&upstream, get("/"), heard.clone());
    let mut peer = accepted.recv().await.unwrap();
    peer.head().await;
    peer.send("HTTP/1.1 103 Early Hints\r\nlink: </a>\r\n\r\n").await;
    sleep_ms(10).await;
    peer.send("HTTP/1.1 102 Processing\r\n\r\nHTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok")
        .await;
    let response = sending.await.unwrap().unwrap();
    assert_eq!(response.status(), 200);
    assert_eq!(drain(&mut response.into_body()).await, (b"ok".to_vec(), None));
    assert_eq!(
        *heard.informational.lock().unwrap(),
        [(103, Some("</a>".to_owned())), (102, None)]
    );
    assert_eq!(*heard.attempts.lock().unwrap(), [false]);
}

#[tokio::test(start_paused = true)]
async fn an_early_error_ends_an_upload_that_is_under_way() {
    let (upstream, mut accepted) = piped(&config());
    let heard = Arc::new(Heard::default());
    let sending = spawn_heard(&upstream, post(vec![b'x'; 28 * 1024 * 1024]), heard.clone());
    let mut peer = accepted.recv().await.unwrap();
    peer.head().await;
    peer.body(64 * 1024).await;
    peer.send("HTTP/1.1 413 Content Too Large\r\ncontent-length: 3\r\n\r\nbig")
        .await;
    let response = sending.await.unwrap().unwrap();
    assert_eq!(response.status(), 413);
    assert_eq!(drain(&mut response.into_body()).await, (b"big".to_vec(), None));
    assert!(peer.rest().await.len() <= PIPE_BYTES);
    assert!(heard.sent.lock().unwrap().is_empty(), "an upload cut short was never sent");
    assert_eq!(upstream.0.pool.len(), 0);
}

#[tokio::test(start_paused = true)]
async fn request_and_reply_stream_at_the_same_time() {
    let (upstream, mut accepted) = piped(&config());
    let heard = Arc::new(Heard::default());
    let (feed, builder, body) = fed();
    let sending = spawn_heard(&upstream, builder.body(body).unwrap(), heard.clone());
    let mut peer = accepted.recv().await.unwrap();
    let head = peer.head().await;
    assert!(head.ends_with("transfer-encoding: chunked\r\n\r\n"), "{head}");
    peer.send("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n").await;
    let mut reply = sending.await.unwrap().unwrap().into_body();
    let echo = tokio::spawn(async move {
        for _ in 0..3 {
            let chunk = peer.body(8).await;
            peer.send(chunk).await;
        }
        assert_eq!(peer.body(5).await, b"0\r\n\r\n");
        peer.send("0\r\n\r\n").await;
        peer
    });
    for part in ["one", "two", "six"] {
        feed.send(data(part)).await.unwrap();
        assert_eq!(text(&mut reply).await, part);
        assert!(heard.sent.lock().unwrap().is_empty());
    }
    drop(feed);
    assert_eq!(drain(&mut reply).await, (vec![], None));
    assert_eq!(heard.sent.lock().unwrap().len(), 1);
    assert_eq!(upstream.0.pool.len(), 1);
    echo.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn an_answer_is_read_to_its_end_though_the_upload_cannot_be_written_any_more() {
    let (upstream, mut accepted) = piped(&config());
    let sending = spawn_send(&upstream, post(vec![b'x'; 1024 * 1024]));
    let mut peer = accepted.recv().await.unwrap();
    peer.head().await;
    // Several reads, the first of which meets a pipe that is broken for writing.
    let reason = "b".repeat(40_000);
    peer.send(format!(
        "HTTP/1.1 413 Content Too Large\r\ncontent-length: 40000\r\n\r\n{reason}"
    ))
    .await;
    drop(peer);
    let response = sending.await.unwrap().unwrap();
    assert_eq!(response.status(), 413);
    assert_eq!(drain(&mut response.into_body()).await, (reason.into_bytes(), None));
}
