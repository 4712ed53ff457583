//! HTTP/2 with prior knowledge, against hyper's server.

use std::convert::Infallible;

use http_body_util::BodyExt;
use hyper::body::Incoming;
use hyper::server::conn::http2;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};

use super::*;

fn h2c() -> config::Upstream {
    config::Upstream {
        protocol: Protocol::H2c,
        ..config()
    }
}

type Reply = Response<Fed>;

/// Serves each connection that `accepted` brings with `answer`; gives the connections so far.
fn serve<F, Fut>(accepted: mpsc::Receiver<Peer>, answer: F) -> Arc<Mutex<Vec<tokio::task::JoinHandle<()>>>>
where
    F: Fn(Request<Incoming>) -> Fut + Clone + Send + 'static,
    Fut: Future<Output = Reply> + Send + 'static,
{
    serve_up_to(200, accepted, answer)
}

/// The same, with `most` streams at once on each connection.
fn serve_up_to<F, Fut>(most: u32, mut accepted: mpsc::Receiver<Peer>, answer: F) -> Arc<Mutex<Vec<tokio::task::JoinHandle<()>>>>
where
    F: Fn(Request<Incoming>) -> Fut + Clone + Send + 'static,
    Fut: Future<Output = Reply> + Send + 'static,
{
    let connections = Arc::new(Mutex::new(Vec::new()));
    let all = connections.clone();
    tokio::spawn(async move {
        while let Some(Peer(io)) = accepted.recv().await {
            let answer = answer.clone();
            let service = service_fn(move |request| {
                let reply = answer(request);
                async move { Ok::<_, Infallible>(reply.await) }
            });
            let serving = tokio::spawn(async move {
                let _ = http2::Builder::new(TokioExecutor::new())
                    .max_concurrent_streams(most)
                    .serve_connection(TokioIo::new(io), service)
                    .await;
            });
            all.lock().unwrap().push(serving);
        }
    });
    connections
}

/// Serves streams that the test feeds.
fn serve_fed(accepted: mpsc::Receiver<Peer>) -> mpsc::Receiver<mpsc::Sender<Result<Frame<Bytes>, BoxError>>> {
    let (opened, feeds) = mpsc::channel(8);
    serve(accepted, move |_| {
        let opened = opened.clone();
        async move {
            let (feed, body) = mpsc::channel(8);
            opened.send(feed).await.unwrap();
            reply(body)
        }
    });
    feeds
}

fn reply(body: mpsc::Receiver<Result<Frame<Bytes>, BoxError>>) -> Reply {
    Response::new(Fed(body))
}

#[tokio::test(start_paused = true)]
async fn requests_share_one_connection_and_trailers_pass() {
    let (upstream, accepted) = piped(&h2c());
    let connections = serve(accepted, |request| async move {
        assert_eq!(request.uri(), "http://llm/v1/chat/completions");
        assert_eq!(request.headers()["te"], "trailers");
        let body = request.into_body().collect().await.unwrap().to_bytes();
        let (feed, reply_body) = mpsc::channel(8);
        feed.send(Ok(Frame::data(body))).await.unwrap();
        let mut trailers = HeaderMap::new();
        trailers.insert("grpc-status", "0".parse().unwrap());
        feed.send(Ok(Frame::trailers(trailers))).await.unwrap();
        reply(reply_body)
    });
    let heard = Arc::new(Heard::default());
    for _ in 0..2 {
        let mut request = post("{}");
        request.headers_mut().insert("te", "trailers".parse().unwrap());
        let response = upstream.send(request, heard.clone()).await.unwrap();
        assert_eq!(response.status(), 200);
        let mut body = response.into_body();
        assert_eq!(text(&mut body).await, "{}");
        let trailers = frame(&mut body).await.unwrap().unwrap().into_trailers().unwrap();
        assert_eq!(trailers["grpc-status"], "0");
        assert!(frame(&mut body).await.is_none());
    }
    assert_eq!(*heard.attempts.lock().unwrap(), [false, true]);
    assert_eq!(heard.sent.lock().unwrap().len(), 2);
    assert_eq!(connections.lock().unwrap().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_lost_connection_is_made_anew() {
    let (upstream, accepted) = piped(&h2c());
    let connections = serve(accepted, |_| async { reply(mpsc::channel(1).1) });
    assert_eq!(upstream.send(get("/"), Arc::new(())).await.unwrap().status(), 200);
    let first = connections.lock().unwrap().pop().unwrap();
    first.abort();
    let _ = first.await;
    sleep_ms(1).await;
    let heard = Arc::new(Heard::default());
    assert_eq!(upstream.send(get("/"), heard.clone()).await.unwrap().status(), 200);
    assert_eq!(*heard.attempts.lock().unwrap(), [false]);
}

#[tokio::test(start_paused = true)]
async fn readers_that_stop_do_not_hold_up_one_that_reads() {
    let (upstream, accepted) = piped(&h2c());
    serve(accepted, |_| async {
        let (feed, body) = mpsc::channel(64);
        for _ in 0..64 {
            feed.try_send(Ok(Frame::data(Bytes::from(vec![b'x'; 16 * 1024])))).unwrap();
        }
        reply(body)
    });
    let mut stalled = Vec::new();
    for _ in 0..6 {
        stalled.push(upstream.send(get("/slow"), Arc::new(())).await.unwrap());
    }
    sleep_ms(10).await;
    let fast = upstream.send(get("/fast"), Arc::new(())).await.unwrap();
    let (bytes, error) = drain(&mut fast.into_body()).await;
    assert_eq!((bytes.len(), error), (1024 * 1024, None));
    drop(stalled);
}

#[tokio::test(start_paused = true)]
async fn as_many_streams_as_the_server_allows_share_a_connection_and_further_ones_get_another() {
    let (upstream, accepted) = piped(&h2c());
    let (opened, mut feeds) = mpsc::channel(64);
    let connections = serve_up_to(3, accepted, move |_| {
        let opened = opened.clone();
        async move {
            let (feed, body) = mpsc::channel(8);
            opened.send(feed).await.unwrap();
            reply(body)
        }
    });
    // Nobody knows the server's limit before its first word.
    let mut bodies = vec![upstream.send(get("/0"), Arc::new(())).await.unwrap().into_body()];
    let mut streams = vec![feeds.recv().await.unwrap()];
    let start = clock::now();
    for n in 1..10 {
        bodies.push(upstream.send(get(&format!("/{n}")), Arc::new(())).await.unwrap().into_body());
        streams.push(feeds.recv().await.unwrap());
    }
    assert_eq!(ms_since(start), 0, "nobody waited");
    let lives = || connections.lock().unwrap().iter().filter(|c| !c.is_finished()).count();
    assert_eq!(lives(), 4);
    for (feed, body) in streams.iter().zip(&mut bodies) {
        feed.send(data("token")).await.unwrap();
        assert_eq!(text(body).await, "token");
    }
    // The room of the fullest is taken first, and what has been idle for the pool's time is let go.
    streams.truncate(2);
    bodies.truncate(2);
    sleep_ms(4001).await;
    let heard = Arc::new(Heard::default());
    bodies.push(upstream.send(get("/10"), heard.clone()).await.unwrap().into_body());
    assert_eq!(*heard.attempts.lock().unwrap(), [true]);
    sleep_ms(1).await;
    assert_eq!(lives(), 1);
    drop(bodies);
}

#[tokio::test(start_paused = true)]
async fn requests_that_wait_for_a_connection_that_does_not_come_give_up_together() {
    let connector = Connector::new(std::future::pending);
    let upstream = Upstream::with_connector(&h2c(), connector);
    let start = clock::now();
    let sending: Vec<_> = (0..20).map(|_| spawn_send(&upstream, get("/"))).collect();
    for sent in sending {
        assert_eq!(sent.await.unwrap().unwrap_err().reason(), "upstream_unreachable");
    }
    // One had the connect timeout to connect, the next began just before the others' own ran out.
    assert!(ms_since(start) <= 10_000, "{} ms", ms_since(start));
}

#[tokio::test(start_paused = true)]
async fn dropping_a_body_resets_its_stream_and_no_other() {
    let (upstream, accepted) = piped(&h2c());
    let mut feeds = serve_fed(accepted);
    let dropped = upstream.send(get("/1"), Arc::new(())).await.unwrap();
    let kept = upstream.send(get("/2"), Arc::new(())).await.unwrap();
    let (first, second) = (feeds.recv().await.unwrap(), feeds.recv().await.unwrap());
    drop(dropped);
    first.closed().await;
    second.send(data("still here")).await.unwrap();
    assert_eq!(text(&mut kept.into_body()).await, "still here");
}

#[tokio::test(start_paused = true)]
async fn a_stream_that_breaks_off_is_a_reset() {
    let (upstream, accepted) = piped(&h2c());
    let mut feeds = serve_fed(accepted);
    let mut body = upstream.send(get("/"), Arc::new(())).await.unwrap().into_body();
    let feed = feeds.recv().await.unwrap();
    feed.send(data("hello")).await.unwrap();
    assert_eq!(text(&mut body).await, "hello");
    feed.send(Err("the engine died".into())).await.unwrap();
    assert_eq!(drain(&mut body).await, (vec![], Some(BodyError::Reset)));
}

#[tokio::test(start_paused = true)]
async fn the_first_byte_limit_counts_from_the_end_of_the_upload() {
    let config = config::Upstream {
        first_byte_timeout: Some(Duration::from_secs(2)),
        ..h2c()
    };
    let (upstream, accepted) = piped(&config);
    serve(accepted, |_| std::future::pending());
    let (feed, builder, body) = fed();
    let start = clock::now();
    let sending = spawn_send(&upstream, builder.body(body).unwrap());
    sleep_ms(5000).await;
    drop(feed);
    assert_eq!(sending.await.unwrap().unwrap_err().reason(), "first_byte_timeout");
    assert_eq!(ms_since(start), 7000);
}

#[tokio::test(start_paused = true)]
async fn the_idle_limit_counts_from_the_streams_own_frames() {
    let config = config::Upstream {
        idle_timeout: Some(Duration::from_secs(1)),
        ..h2c()
    };
    let (upstream, accepted) = piped(&config);
    let mut feeds = serve_fed(accepted);
    let start = clock::now();
    let mut silent = upstream.send(get("/1"), Arc::new(())).await.unwrap().into_body();
    let mut lively = upstream.send(get("/2"), Arc::new(())).await.unwrap().into_body();
    let (first, second) = (feeds.recv().await.unwrap(), feeds.recv().await.unwrap());
    let feeding = tokio::spawn(async move {
        for _ in 0..4 {
            sleep_ms(500).await;
            second.send(data("x")).await.unwrap();
        }
        drop(second);
    });
    let (silent, lively) = tokio::join!(async { (drain(&mut silent).await, ms_since(start)) }, async {
        (drain(&mut lively).await, ms_since(start))
    },);
    assert_eq!(silent, ((vec![], Some(BodyError::Timeout(super::super::Limit::Idle))), 1000));
    assert_eq!(lively, ((b"xxxx".to_vec(), None), 2000));
    feeding.await.unwrap();
    drop(first);
}
