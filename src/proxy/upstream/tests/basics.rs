use super::*;

#[tokio::test(start_paused = true)]
async fn a_reply_comes_through_and_the_connection_is_used_again() {
    let (upstream, mut accepted) = piped(&config());
    let heard = Arc::new(Heard::default());
    let first = spawn_heard(&upstream, post("{}"), heard.clone());
    let mut peer = accepted.recv().await.unwrap();
    assert_eq!(
        peer.head().await,
        "POST /v1/chat/completions HTTP/1.1\r\nhost: llm\r\ncontent-length: 2\r\n\r\n"
    );
    assert_eq!(peer.body(2).await, b"{}");
    peer.send("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n")
        .await;
    let mut body = first.await.unwrap().unwrap().into_body();
    assert_eq!(drain(&mut body).await, (b"hello".to_vec(), None));

    let second = spawn_heard(&upstream, get("/v1/models"), heard.clone());
    assert_eq!(peer.head().await, "GET /v1/models HTTP/1.1\r\nhost: llm\r\n\r\n");
    peer.send("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok").await;
    let mut body = second.await.unwrap().unwrap().into_body();
    assert_eq!(drain(&mut body).await, (b"ok".to_vec(), None));
    assert_eq!(*heard.attempts.lock().unwrap(), [false, true]);
    assert_eq!(heard.sent.lock().unwrap().len(), 2);
    assert_eq!(upstream.0.pool.len(), 1);
}
