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

/// Sends one GET over `peer`, which answers it; the connection goes back to the pool.
async fn warm(upstream: &Upstream, accepted: &mut mpsc::Receiver<Peer>) -> Peer {
    let sending = spawn_send(upstream, get("/health"));
    let mut peer = accepted.recv().await.unwrap();
    peer.head().await;
    peer.send("HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").await;
    sending.await.unwrap().unwrap();
    assert_eq!(upstream.0.pool.len(), 1);
    peer
}

#[tokio::test(start_paused = true)]
async fn an_idle_connection_is_closed_when_its_time_has_passed() {
    let (upstream, mut accepted) = piped(&config());
    let mut peer = warm(&upstream, &mut accepted).await;
    let start = clock::now();
    assert_eq!(peer.rest().await, b"");
    assert_eq!(ms_since(start), 4000);
    assert_eq!(upstream.0.pool.len(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_connection_used_within_its_time_stays_for_another() {
    let (upstream, mut accepted) = piped(&config());
    let mut peer = warm(&upstream, &mut accepted).await;
    sleep_ms(3000).await;
    let sending = spawn_send(&upstream, get("/again"));
    peer.head().await;
    peer.send("HTTP/1.1 204 No Content\r\n\r\n").await;
    sending.await.unwrap().unwrap();
    let start = clock::now();
    assert_eq!(peer.rest().await, b"");
    assert_eq!(ms_since(start), 4000);
}

#[tokio::test(start_paused = true)]
async fn an_idle_connection_past_its_time_is_never_used() {
    let mut config = config();
    config.pool_idle_timeout = Duration::from_micros(10_500);
    let (upstream, mut accepted) = piped(&config);
    let _first = warm(&upstream, &mut accepted).await;
    // Past its time, and before the reaper's turn: tokio's timers fire on whole milliseconds.
    tokio::time::advance(Duration::from_micros(10_600)).await;
    assert_eq!(upstream.0.pool.len(), 1);
    let _second = warm(&upstream, &mut accepted).await;
}

#[tokio::test(start_paused = true)]
async fn at_the_cap_the_oldest_idle_connection_is_closed() {
    let mut config = config();
    config.pool_max_idle = 1;
    let (upstream, mut accepted) = piped(&config);
    let first = spawn_send(&upstream, get("/1"));
    let mut old = accepted.recv().await.unwrap();
    let second = spawn_send(&upstream, get("/2"));
    let mut new = accepted.recv().await.unwrap();
    for (peer, sending) in [(&mut old, first), (&mut new, second)] {
        peer.head().await;
        peer.send("HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").await;
        sending.await.unwrap().unwrap();
    }
    let start = clock::now();
    assert_eq!(old.rest().await, b"");
    assert_eq!(ms_since(start), 0);
    assert_eq!(upstream.0.pool.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_connection_the_server_closed_while_idle_is_not_tried() {
    let (upstream, mut accepted) = piped(&config());
    drop(warm(&upstream, &mut accepted).await);
    let heard = Arc::new(Heard::default());
    let sending = spawn_heard(&upstream, post("{}"), heard.clone());
    let mut peer = accepted.recv().await.unwrap();
    peer.head().await;
    peer.send("HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").await;
    assert_eq!(sending.await.unwrap().unwrap().status(), 200);
    assert_eq!(*heard.attempts.lock().unwrap(), [false]);
}

#[tokio::test(start_paused = true)]
async fn a_request_that_was_read_is_never_sent_again() {
    let (upstream, mut accepted) = piped(&config());
    let mut peer = warm(&upstream, &mut accepted).await;
    let heard = Arc::new(Heard::default());
    let sending = spawn_heard(&upstream, post("{}"), heard.clone());
    peer.head().await;
    assert_eq!(peer.body(2).await, b"{}");
    drop(peer);
    let error = sending.await.unwrap().unwrap_err();
    assert!(matches!(error, SendError::ClosedBeforeHead), "{error:?}");
    assert_eq!(error.reason(), "upstream_closed");
    assert_eq!(*heard.attempts.lock().unwrap(), [true]);
    assert!(accepted.try_recv().is_err(), "no second connection");
}

/// A pipe that hides what its far end does for one read after `armed`: the server's close arrives between the check of a pooled
/// connection and the request.
struct Late {
    io: DuplexStream,
    armed: Arc<std::sync::atomic::AtomicBool>,
}

impl tokio::io::AsyncRead for Late {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut tokio::io::ReadBuf<'_>) -> Poll<std::io::Result<()>> {
        if self.armed.swap(false, std::sync::atomic::Ordering::Relaxed) {
            return Poll::Pending;
        }
        Pin::new(&mut self.io).poll_read(cx, buf)
    }
}

impl tokio::io::AsyncWrite for Late {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<std::io::Result<usize>> {
        Pin::new(&mut self.io).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.io).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(cx)
    }
}

#[tokio::test(start_paused = true)]
async fn a_request_handed_back_unsent_goes_out_once_more_over_a_fresh_connection() {
    let armed = Arc::new(std::sync::atomic::AtomicBool::new(false));
    let (peers, mut accepted) = mpsc::channel(8);
    let connector = Connector::new({
        let armed = armed.clone();
        move || {
            let (peers, armed) = (peers.clone(), armed.clone());
            async move {
                let (io, far) = duplex(PIPE_BYTES);
                peers.send(Peer(far)).await.unwrap();
                Ok(Box::new(Late { io, armed }) as BoxIo)
            }
        }
    });
    let upstream = Upstream::with_connector(&config(), connector);
    drop(warm(&upstream, &mut accepted).await);
    armed.store(true, std::sync::atomic::Ordering::Relaxed);

    let heard = Arc::new(Heard::default());
    let sending = spawn_heard(&upstream, post("{}"), heard.clone());
    let mut peer = accepted.recv().await.unwrap();
    assert_eq!(
        peer.head().await,
        "POST /v1/chat/completions HTTP/1.1\r\nhost: llm\r\ncontent-length: 2\r\n\r\n"
    );
    assert_eq!(peer.body(2).await, b"{}");
    peer.send("HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").await;
    assert_eq!(sending.await.unwrap().unwrap().status(), 200);
    assert_eq!(*heard.attempts.lock().unwrap(), [true, false]);
    assert_eq!(heard.sent.lock().unwrap().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_server_that_closes_at_once_gets_one_connection_and_no_retry() {
    let (upstream, mut accepted) = piped(&config());
    let heard = Arc::new(Heard::default());
    let sending = spawn_heard(&upstream, post("{}"), heard.clone());
    drop(accepted.recv().await.unwrap());
    let error = sending.await.unwrap().unwrap_err();
    assert!(matches!(error, SendError::ClosedBeforeHead), "{error:?}");
    assert_eq!(*heard.attempts.lock().unwrap(), [false]);
    assert!(accepted.try_recv().is_err(), "no second connection");
}

/// Sends one GET, gives the reply and whether its connection was kept.
async fn kept_after(reply: &str) -> (Response<Vec<u8>>, bool) {
    let (upstream, mut accepted) = piped(&config());
    let sending = spawn_send(&upstream, get("/"));
    let mut peer = accepted.recv().await.unwrap();
    peer.head().await;
    peer.send(reply).await;
    let (head, mut body) = sending.await.unwrap().unwrap().into_parts();
    let (bytes, error) = drain(&mut body).await;
    assert_eq!(error, None);
    (Response::from_parts(head, bytes), upstream.0.pool.len() == 1)
}

#[tokio::test(start_paused = true)]
async fn a_reply_with_length_and_chunks_is_read_as_chunks_and_ends_its_connection() {
    let (reply, kept) =
        kept_after("HTTP/1.1 200 OK\r\ncontent-length: 3\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n").await;
    assert_eq!(reply.body(), b"hello");
    assert!(!reply.headers().contains_key("content-length"));
    assert!(!kept);
}

#[tokio::test(start_paused = true)]
async fn a_connection_that_answered_as_http_1_0_is_not_kept() {
    let (reply, kept) = kept_after("HTTP/1.0 200 OK\r\nconnection: keep-alive\r\ncontent-length: 2\r\n\r\nok").await;
    assert_eq!((reply.body().as_slice(), kept), (b"ok".as_slice(), false));
}

#[tokio::test(start_paused = true)]
async fn a_connection_the_server_means_to_close_is_not_kept() {
    let (reply, kept) = kept_after("HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 2\r\n\r\nok").await;
    assert_eq!((reply.body().as_slice(), kept), (b"ok".as_slice(), false));
}

#[tokio::test(start_paused = true)]
async fn bytes_behind_a_reply_rule_its_connection_out() {
    let (reply, kept) = kept_after("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nokHTTP/1.1 200 OK\r\n\r\n").await;
    assert_eq!((reply.body().as_slice(), kept), (b"ok".as_slice(), false));
}

#[tokio::test(start_paused = true)]
async fn replies_without_a_body_keep_their_connection() {
    for head in [
        "HTTP/1.1 204 No Content\r\n\r\n",
        "HTTP/1.1 304 Not Modified\r\ntransfer-encoding: chunked\r\netag: x\r\n\r\n",
        "HTTP/1.1 304 Not Modified\r\ncontent-length: 99\r\n\r\n",
    ] {
        let (reply, kept) = kept_after(head).await;
        assert_eq!((reply.body().as_slice(), kept), (b"".as_slice(), true), "{head}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_head_request_is_through_at_the_blank_line_and_keeps_the_length() {
    let (upstream, mut accepted) = piped(&config());
    let request = Request::head("/v1/models")
        .header("host", "llm")
        .body(Empty::<Bytes>::new())
        .unwrap();
    let sending = spawn_send(&upstream, request);
    let mut peer = accepted.recv().await.unwrap();
    assert_eq!(peer.head().await, "HEAD /v1/models HTTP/1.1\r\nhost: llm\r\n\r\n");
    peer.send("HTTP/1.1 200 OK\r\nContent-Length: 1234\r\n\r\n").await;
    let response = sending.await.unwrap().unwrap();
    assert_eq!(response.headers()["content-length"], "1234");
    assert!(response.body().is_end_stream());
    assert_eq!(upstream.0.pool.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_connection_that_spoke_unasked_is_not_tried() {
    let (upstream, mut accepted) = piped(&config());
    let mut first = warm(&upstream, &mut accepted).await;
    first.send("HTTP/1.1 408 Request Timeout\r\ncontent-length: 0\r\n\r\n").await;
    let _second = spawn_send(&upstream, get("/"));
    accepted.recv().await.unwrap().head().await;
    assert_eq!(first.rest().await, b"");
}
