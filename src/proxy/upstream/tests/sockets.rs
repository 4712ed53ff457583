//! Real sockets: addresses, resets, Unix paths.

use std::future::Future;
use std::pin::pin;

use tokio::net::{TcpListener, TcpSocket, UnixListener};

use super::super::connect::{ATTEMPT_DELAY, any_of};
use super::*;

async fn listen() -> (TcpListener, Upstream) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let target = Target::Tcp {
        host: "127.0.0.1".to_owned(),
        port,
    };
    (listener, Upstream::new(&config::Upstream { target, ..config() }))
}

async fn read_head(stream: &mut (impl tokio::io::AsyncRead + Unpin)) -> String {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await.unwrap());
    }
    String::from_utf8(head).unwrap()
}

/// An address of this host that refuses: bound, never listening, so nobody else can get it meanwhile.
fn refusing() -> (TcpSocket, std::net::SocketAddr) {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let address = socket.local_addr().unwrap();
    (socket, address)
}

#[tokio::test]
async fn a_refused_address_falls_through_to_the_next_without_delay() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let (_keep, refused) = refusing();
    let start = clock::now();
    let stream = any_of(vec![refused, listener.local_addr().unwrap()]).await.unwrap();
    assert_eq!(stream.peer_addr().unwrap(), listener.local_addr().unwrap());
    assert!(Duration::from_nanos(clock::now().since(start)) < ATTEMPT_DELAY);
}

#[tokio::test]
async fn when_every_address_fails_each_is_named() {
    let ((_a, first), (_b, second)) = (refusing(), refusing());
    let error = any_of(vec![first, second]).await.unwrap_err().to_string();
    assert!(
        error.contains(&first.to_string()) && error.contains(&second.to_string()),
        "{error}"
    );
}

#[tokio::test]
async fn a_refused_connection_is_unreachable_and_says_where() {
    let (_keep, refused) = refusing();
    let target = Target::Tcp {
        host: "127.0.0.1".to_owned(),
        port: refused.port(),
    };
    let upstream = Upstream::new(&config::Upstream { target, ..config() });
    let error = upstream.send(get("/"), Arc::new(())).await.unwrap_err();
    assert_eq!(error.reason(), "upstream_unreachable");
    assert_eq!(
        error.to_string(),
        format!("cannot reach the upstream: {refused}: Connection refused (os error 111)")
    );
}

#[tokio::test]
async fn localhost_is_reached_wherever_it_listens() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let target = Target::Tcp {
        host: "localhost".to_owned(),
        port: listener.local_addr().unwrap().port(),
    };
    let upstream = Upstream::new(&config::Upstream { target, ..config() });
    let sending = spawn_send(&upstream, get("/"));
    let (mut stream, _) = listener.accept().await.unwrap();
    read_head(&mut stream).await;
    stream.write_all(b"HTTP/1.1 204 No Content\r\n\r\n").await.unwrap();
    assert_eq!(sending.await.unwrap().unwrap().status(), 204);
}

#[tokio::test]
async fn a_unix_socket_is_an_upstream_too() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("llm.sock");
    let listener = UnixListener::bind(&path).unwrap();
    let upstream = Upstream::new(&config::Upstream {
        target: Target::Unix(path),
        ..config()
    });
    let request = Request::get("/v1/models").body(Empty::<Bytes>::new()).unwrap();
    let sending = spawn_send(&upstream, request);
    let (mut stream, _) = listener.accept().await.unwrap();
    assert_eq!(
        read_head(&mut stream).await,
        "GET /v1/models HTTP/1.1\r\nhost: localhost\r\n\r\n"
    );
    stream
        .write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok")
        .await
        .unwrap();
    assert_eq!(
        drain(&mut sending.await.unwrap().unwrap().into_body()).await,
        (b"ok".to_vec(), None)
    );
}

#[tokio::test]
async fn a_reset_within_the_stream_is_a_reset() {
    let (listener, upstream) = listen().await;
    let sending = spawn_send(&upstream, post("{}"));
    let (mut stream, _) = listener.accept().await.unwrap();
    read_head(&mut stream).await;
    stream
        .write_all(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhello\r\n")
        .await
        .unwrap();
    let mut body = sending.await.unwrap().unwrap().into_body();
    assert_eq!(text(&mut body).await, "hello");
    socket2::SockRef::from(&stream).set_linger(Some(Duration::ZERO)).unwrap();
    drop(stream);
    assert_eq!(drain(&mut body).await, (vec![], Some(BodyError::Reset)));
}

#[tokio::test]
async fn an_answer_survives_the_broken_pipe_that_its_close_makes_of_the_upload() {
    let (listener, upstream) = listen().await;
    let sending = spawn_send(&upstream, post(vec![b'x'; 28 * 1024 * 1024]));
    let (mut stream, _) = listener.accept().await.unwrap();
    read_head(&mut stream).await;
    let mut some = vec![0; 64 * 1024];
    stream.read_exact(&mut some).await.unwrap();
    let reason = "b".repeat(3000);
    let reply = format!("HTTP/1.1 413 Content Too Large\r\nconnection: close\r\ncontent-length: 3000\r\n\r\n{reason}");
    stream.write_all(reply.as_bytes()).await.unwrap();
    // Unread bytes make this a reset.
    drop(stream);
    let response = sending.await.unwrap().unwrap();
    assert_eq!(response.status(), 413);
    assert_eq!(drain(&mut response.into_body()).await, (reason.into_bytes(), None));
}

#[tokio::test]
async fn a_reset_before_any_head_is_told_as_a_close() {
    let (listener, upstream) = listen().await;
    let sending = spawn_send(&upstream, post("{}"));
    let (mut stream, _) = listener.accept().await.unwrap();
    read_head(&mut stream).await;
    socket2::SockRef::from(&stream).set_linger(Some(Duration::ZERO)).unwrap();
    drop(stream);
    let error = sending.await.unwrap().unwrap_err();
    assert!(matches!(error, SendError::ClosedBeforeHead), "{error:?}");
}

#[tokio::test]
async fn a_connection_that_ended_since_the_reactor_last_looked_carries_no_request() {
    let (listener, upstream) = listen().await;
    let heard = Arc::new(Heard::default());
    let first = spawn_heard(&upstream, get("/"), heard.clone());
    let (mut stream, _) = listener.accept().await.unwrap();
    read_head(&mut stream).await;
    stream.write_all(b"HTTP/1.1 204 No Content\r\n\r\n").await.unwrap();
    assert_eq!(first.await.unwrap().unwrap().status(), 204);

    tokio::time::pause();
    tokio::time::advance(Duration::from_millis(1)).await;
    drop(stream);
    // Polled by hand: the reactor has no turn before. Once it is written, a request is not sent again.
    let mut second = pin!(upstream.send(post("{}"), heard.clone()));
    assert!(poll_fn(|cx| Poll::Ready(second.as_mut().poll(cx).is_pending())).await);
    tokio::time::resume();
    let _answer = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        read_head(&mut stream).await;
        stream.write_all(b"HTTP/1.1 204 No Content\r\n\r\n").await.unwrap();
        stream
    });
    assert_eq!(second.await.unwrap().status(), 204);
    assert_eq!(*heard.attempts.lock().unwrap(), [false, false]);
}
