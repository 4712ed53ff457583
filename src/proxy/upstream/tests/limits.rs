use super::super::Limit;
use super::*;
use crate::measure::Ending;

fn ms(ms: u64) -> Option<Duration> {
    Some(Duration::from_millis(ms))
}

const HEAD: &str = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n";

#[tokio::test(start_paused = true)]
async fn without_limits_a_long_silence_is_waited_out() {
    let (upstream, mut accepted) = piped(&config());
    let sending = spawn_send(&upstream, post("{}"));
    let mut peer = accepted.recv().await.unwrap();
    peer.head().await;
    sleep_ms(3_600_000).await;
    peer.send(HEAD).await;
    let mut body = sending.await.unwrap().unwrap().into_body();
    sleep_ms(3_600_000).await;
    peer.send("1\r\nx\r\n0\r\n\r\n").await;
    assert_eq!(drain(&mut body).await, (b"x".to_vec(), None));
}

#[tokio::test(start_paused = true)]
async fn the_first_byte_limit_counts_from_the_request_sent() {
    let config = config::Upstream {
        first_byte_timeout: ms(2000),
        ..config()
    };
    let (upstream, mut accepted) = piped(&config);
    let (feed, builder, body) = fed();
    let start = clock::now();
    let sending = spawn_send(&upstream, builder.body(body).unwrap());
    let mut peer = accepted.recv().await.unwrap();
    peer.head().await;
    // A slow upload does not eat the model's time.
    sleep_ms(5000).await;
    drop(feed);
    let error = sending.await.unwrap().unwrap_err();
    assert!(matches!(error, SendError::Timeout(Limit::FirstByte)), "{error:?}");
    assert_eq!((error.reason(), error.ending()), ("first_byte_timeout", Ending::Timeout));
    assert_eq!(error.status(), StatusCode::GATEWAY_TIMEOUT);
    assert_eq!(ms_since(start), 7000);
    assert_eq!(peer.rest().await, b"0\r\n\r\n");
}

#[tokio::test(start_paused = true)]
async fn a_head_alone_does_not_meet_the_first_byte_limit() {
    let config = config::Upstream {
        first_byte_timeout: ms(2000),
        ..config()
    };
    let (upstream, mut accepted) = piped(&config);
    let start = clock::now();
    let sending = spawn_send(&upstream, post("{}"));
    let mut peer = accepted.recv().await.unwrap();
    peer.head().await;
    sleep_ms(500).await;
    peer.send(HEAD).await;
    let mut body = sending.await.unwrap().unwrap().into_body();
    assert_eq!(drain(&mut body).await, (vec![], Some(BodyError::Timeout(Limit::FirstByte))));
    assert_eq!(ms_since(start), 2000);
}

#[tokio::test(start_paused = true)]
async fn past_its_first_byte_a_body_may_pause() {
    let config = config::Upstream {
        first_byte_timeout: ms(2000),
        ..config()
    };
    let (upstream, mut accepted) = piped(&config);
    let sending = spawn_send(&upstream, post("{}"));
    let mut peer = accepted.recv().await.unwrap();
    peer.head().await;
    peer.send(HEAD).await;
    peer.send("1\r\nx\r\n").await;
    let mut body = sending.await.unwrap().unwrap().into_body();
    assert_eq!(text(&mut body).await, "x");
    let feeding = tokio::spawn(async move {
        sleep_ms(60_000).await;
        peer.send("1\r\ny\r\n0\r\n\r\n").await;
    });
    assert_eq!(drain(&mut body).await, (b"y".to_vec(), None));
    feeding.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn the_idle_limit_counts_from_the_last_read() {
    let config = config::Upstream {
        idle_timeout: ms(1000),
        ..config()
    };
    let (upstream, mut accepted) = piped(&config);
    let start = clock::now();
    let sending = spawn_send(&upstream, post("{}"));
    let mut peer = accepted.recv().await.unwrap();
    peer.head().await;
    // Prefill is not a gap between two reads of the reply.
    peer.send("HTTP/1.1 102 Processing\r\n\r\n").await;
    sleep_ms(10_000).await;
    peer.send(HEAD).await;
    let mut body = sending.await.unwrap().unwrap().into_body();
    let feeding = tokio::spawn(async move {
        for _ in 0..3 {
            sleep_ms(900).await;
            peer.send("1\r\nx\r\n").await;
        }
        peer
    });
    assert_eq!(
        drain(&mut body).await,
        (b"xxx".to_vec(), Some(BodyError::Timeout(Limit::Idle)))
    );
    assert_eq!(ms_since(start), 10_000 + 3 * 900 + 1000);
    assert_eq!(
        feeding.await.unwrap().rest().await,
        b"{}",
        "the upload, and then the end: the socket is closed"
    );
}

#[tokio::test(start_paused = true)]
async fn the_total_limit_cuts_a_running_stream() {
    let config = config::Upstream {
        total_timeout: ms(2000),
        ..config()
    };
    let (upstream, mut accepted) = piped(&config);
    let start = clock::now();
    let sending = spawn_send(&upstream, post("{}"));
    let mut peer = accepted.recv().await.unwrap();
    peer.head().await;
    peer.send(HEAD).await;
    let mut body = sending.await.unwrap().unwrap().into_body();
    let feeding = tokio::spawn(async move {
        loop {
            sleep_ms(300).await;
            peer.send("1\r\nx\r\n").await;
        }
    });
    assert_eq!(
        drain(&mut body).await,
        (b"xxxxxx".to_vec(), Some(BodyError::Timeout(Limit::Total)))
    );
    assert_eq!(ms_since(start), 2000);
    feeding.abort();
}

#[tokio::test(start_paused = true)]
async fn the_total_limit_covers_the_wait_for_a_head_and_for_a_connection() {
    let config = config::Upstream {
        total_timeout: ms(2000),
        ..config()
    };
    let (upstream, _accepted) = piped(&config);
    let start = clock::now();
    let error = upstream.send(get("/"), Arc::new(())).await.unwrap_err();
    assert!(matches!(error, SendError::Timeout(Limit::Total)), "{error:?}");
    assert_eq!(ms_since(start), 2000);

    let silent = Connector::new(std::future::pending::<std::io::Result<BoxIo>>);
    let upstream = Upstream::with_connector(&config, silent);
    let start = clock::now();
    let error = upstream.send(get("/"), Arc::new(())).await.unwrap_err();
    assert!(matches!(error, SendError::Timeout(Limit::Total)), "{error:?}");
    assert_eq!(ms_since(start), 2000);
}

#[tokio::test(start_paused = true)]
async fn no_connection_within_the_connect_timeout_is_unreachable() {
    let silent = Connector::new(std::future::pending::<std::io::Result<BoxIo>>);
    let upstream = Upstream::with_connector(&config(), silent);
    let start = clock::now();
    let error = upstream.send(get("/"), Arc::new(())).await.unwrap_err();
    assert_eq!(
        (error.reason(), error.ending()),
        ("upstream_unreachable", Ending::Unreachable)
    );
    assert_eq!(
        error.to_string(),
        "cannot reach the upstream: llm:8000: no connection within 5s (upstream.connect_timeout)"
    );
    assert_eq!(ms_since(start), 5000);
}
