//! What passes, and when it was read.

use super::*;

#[tokio::test(start_paused = true)]
async fn frames_of_one_read_share_its_time() {
    let (upstream, mut accepted) = piped(&config());
    let start = clock::now();
    let sending = spawn_send(&upstream, post("{}"));
    let mut peer = accepted.recv().await.unwrap();
    peer.head().await;
    sleep_ms(100).await;
    peer.send("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n").await;
    let mut body = sending.await.unwrap().unwrap().into_body();
    assert_eq!(body.read_at().since(start), 100_000_000);

    sleep_ms(20).await;
    peer.send("1\r\na\r\n1\r\nb\r\n1\r\nc\r\n").await;
    assert_eq!(text(&mut body).await, "a");
    assert_eq!(body.read_at().since(start), 120_000_000);
    // What the reader does in between is not the upstream's time.
    sleep_ms(30).await;
    peer.send("1\r\nd\r\n").await;
    for expected in ["b", "c"] {
        assert_eq!(text(&mut body).await, expected);
        assert_eq!(body.read_at().since(start), 120_000_000);
    }
    assert_eq!(text(&mut body).await, "d");
    assert_eq!(body.read_at().since(start), 150_000_000);

    sleep_ms(50).await;
    peer.send("0\r\n\r\n").await;
    assert_eq!(drain(&mut body).await, (vec![], None));
    assert_eq!(body.read_at().since(start), 200_000_000, "the end has its time as well");
}

#[tokio::test(start_paused = true)]
async fn a_chunk_in_two_reads_has_the_time_of_each_part() {
    let (upstream, mut accepted) = piped(&config());
    let start = clock::now();
    let sending = spawn_send(&upstream, get("/"));
    let mut peer = accepted.recv().await.unwrap();
    peer.head().await;
    peer.send("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n4\r\nab")
        .await;
    let mut body = sending.await.unwrap().unwrap().into_body();
    assert_eq!(text(&mut body).await, "ab");
    assert_eq!(body.read_at().since(start), 0);
    sleep_ms(40).await;
    peer.send("cd\r\n0\r\n\r\n").await;
    assert_eq!(text(&mut body).await, "cd");
    assert_eq!(body.read_at().since(start), 40_000_000);
}

#[tokio::test(start_paused = true)]
async fn trailers_pass_both_ways() {
    let (upstream, mut accepted) = piped(&config());
    let (feed, builder, body) = fed();
    let sending = spawn_send(&upstream, builder.header("trailer", "x-sum").body(body).unwrap());
    let mut peer = accepted.recv().await.unwrap();
    let mut trailers = HeaderMap::new();
    trailers.insert("x-sum", "7".parse().unwrap());
    feed.send(data("{}")).await.unwrap();
    feed.send(Ok(Frame::trailers(trailers))).await.unwrap();
    peer.head().await;
    let expected = b"2\r\n{}\r\n0\r\nx-sum: 7\r\n\r\n";
    assert_eq!(peer.body(expected.len()).await, expected);
    peer.send("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\nok\r\n0\r\nX-Output-Tokens: 5\r\n\r\n")
        .await;
    let mut body = sending.await.unwrap().unwrap().into_body();
    assert_eq!(text(&mut body).await, "ok");
    let trailers = frame(&mut body).await.unwrap().unwrap().into_trailers().unwrap();
    assert_eq!(trailers["x-output-tokens"], "5");
    assert!(body.is_end_stream());
    assert_eq!(upstream.0.pool.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn the_target_passes_byte_for_byte_in_origin_form() {
    for (uri, line) in [
        (
            "/v1/models/meta%2FLlama-3?x=%2520&y=a+b",
            "GET /v1/models/meta%2FLlama-3?x=%2520&y=a+b HTTP/1.1",
        ),
        ("/a/../b//c/.", "GET /a/../b//c/. HTTP/1.1"),
        ("http://llm:8000/v1/models?q", "GET /v1/models?q HTTP/1.1"),
        ("http://llm:8000", "GET / HTTP/1.1"),
    ] {
        let (upstream, mut accepted) = piped(&config());
        let _sending = spawn_send(&upstream, Request::get(uri).body(Empty::<Bytes>::new()).unwrap());
        let head = accepted.recv().await.unwrap().head().await;
        assert_eq!(head, format!("{line}\r\nhost: llm:8000\r\n\r\n"));
    }
}

#[tokio::test(start_paused = true)]
async fn an_absolute_target_wins_over_the_host_field() {
    let (upstream, mut accepted) = piped(&config());
    let request = Request::get("http://real:1/x")
        .header("host", "other")
        .body(Empty::<Bytes>::new())
        .unwrap();
    let _sending = spawn_send(&upstream, request);
    assert_eq!(
        accepted.recv().await.unwrap().head().await,
        "GET /x HTTP/1.1\r\nhost: real:1\r\n\r\n"
    );
}

#[tokio::test(start_paused = true)]
async fn a_get_with_a_body_of_unknown_length_keeps_its_body() {
    let (upstream, mut accepted) = piped(&config());
    let (feed, _, body) = fed();
    let _sending = spawn_send(&upstream, Request::get("/search").header("host", "llm").body(body).unwrap());
    feed.send(data("{}")).await.unwrap();
    drop(feed);
    let mut peer = accepted.recv().await.unwrap();
    assert_eq!(
        peer.head().await,
        "GET /search HTTP/1.1\r\nhost: llm\r\ntransfer-encoding: chunked\r\n\r\n"
    );
    assert_eq!(peer.body(12).await, b"2\r\n{}\r\n0\r\n\r\n");
}

#[tokio::test(start_paused = true)]
async fn a_reason_phrase_of_the_servers_own_stays_in_the_extensions() {
    let (upstream, mut accepted) = piped(&config());
    let sending = spawn_send(&upstream, get("/"));
    let mut peer = accepted.recv().await.unwrap();
    peer.head().await;
    peer.send("HTTP/1.1 200 Fine\r\ncontent-length: 0\r\n\r\n").await;
    let response = sending.await.unwrap().unwrap();
    assert_eq!(
        response.extensions().get::<hyper::ext::ReasonPhrase>().unwrap().as_bytes(),
        b"Fine"
    );
}

#[tokio::test(start_paused = true)]
async fn a_protocol_switch_hands_the_socket_out_with_what_was_read_ahead() {
    let (upstream, mut accepted) = piped(&config());
    let request = Request::get("/v1/realtime")
        .header("host", "llm")
        .header("connection", "upgrade")
        .header("upgrade", "websocket")
        .body(Empty::<Bytes>::new())
        .unwrap();
    let sending = spawn_send(&upstream, request);
    let mut peer = accepted.recv().await.unwrap();
    peer.head().await;
    peer.send("HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: websocket\r\n\r\nfirst")
        .await;
    let response = sending.await.unwrap().unwrap();
    assert_eq!(response.status(), 101);
    let mut tunnel = hyper_util::rt::TokioIo::new(hyper::upgrade::on(response).await.unwrap());
    let mut first = [0; 5];
    tunnel.read_exact(&mut first).await.unwrap();
    assert_eq!(&first, b"first");
    tunnel.write_all(b"back").await.unwrap();
    assert_eq!(peer.body(4).await, b"back");
    assert_eq!(upstream.0.pool.len(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_protocol_switch_does_not_wait_for_ever_on_a_body_held_back() {
    let (upstream, mut accepted) = piped(&config());
    let mut request = post("{}");
    for (name, value) in [
        ("expect", "100-continue"),
        ("connection", "upgrade"),
        ("upgrade", "websocket"),
    ] {
        request.headers_mut().insert(name, value.parse().unwrap());
    }
    let start = clock::now();
    let sending = spawn_send(&upstream, request);
    let mut peer = accepted.recv().await.unwrap();
    peer.head().await;
    peer.send("HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: websocket\r\n\r\n")
        .await;
    assert_eq!(sending.await.unwrap().unwrap().status(), 101);
    assert_eq!(ms_since(start), 1000);
}
