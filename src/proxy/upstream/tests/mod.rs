//! Real bytes: a scripted peer at the far end of an in-memory pipe (paused clock) or of a socket.

mod case;
mod early;
mod ending;
mod h2;
mod limits;
mod reuse;
mod sockets;
mod stream;

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, Request, Response, StatusCode};
use http_body::{Body as _, Frame};
use http_body_util::{Empty, Full};
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};
use tokio::sync::mpsc;

use super::{Body, BodyError, BoxError, BoxIo, Connector, Hooks, SendError, Upstream};
use crate::clock;
use crate::config::{self, Protocol, Target};
use crate::measure::Stamp;

const PIPE_BYTES: usize = 64 * 1024;

fn config() -> config::Upstream {
    config::Upstream {
        target: Target::Tcp {
            host: "llm".to_owned(),
            port: 8000,
        },
        tls: None,
        protocol: Protocol::Http1,
        connect_timeout: Duration::from_secs(5),
        pool_idle_timeout: Duration::from_secs(4),
        pool_max_idle: 4,
        first_byte_timeout: None,
        idle_timeout: None,
        total_timeout: None,
        max_header_bytes: 128 * 1024,
        max_headers: 256,
    }
}

/// An upstream over pipes, and the far ends in the order they were connected.
fn piped(config: &config::Upstream) -> (Upstream, mpsc::Receiver<Peer>) {
    let (peers, accepted) = mpsc::channel(64);
    let connector = Connector::new(move || {
        let peers = peers.clone();
        async move {
            let (near, far) = duplex(PIPE_BYTES);
            peers.send(Peer(far)).await.expect("the test keeps the receiver");
            Ok(Box::new(near) as BoxIo)
        }
    });
    (Upstream::with_connector(config, connector), accepted)
}

/// The far end of a connection.
struct Peer(DuplexStream);

impl Peer {
    /// A request head, to the blank line and not a byte further.
    async fn head(&mut self) -> String {
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            head.push(self.0.read_u8().await.expect("a request head"));
        }
        String::from_utf8(head).unwrap()
    }

    async fn body(&mut self, len: usize) -> Vec<u8> {
        let mut body = vec![0; len];
        self.0.read_exact(&mut body).await.unwrap();
        body
    }

    async fn send(&mut self, text: impl AsRef<[u8]>) {
        self.0.write_all(text.as_ref()).await.unwrap();
    }

    /// Everything up to the end of the connection.
    async fn rest(&mut self) -> Vec<u8> {
        let mut rest = Vec::new();
        self.0.read_to_end(&mut rest).await.unwrap();
        rest
    }
}

/// What the hooks heard.
#[derive(Debug, Default)]
struct Heard {
    attempts: Mutex<Vec<bool>>,
    sent: Mutex<Vec<Stamp>>,
    informational: Mutex<Vec<(u16, Option<String>)>>,
}

impl Hooks for Heard {
    fn attempt(&self, reused: bool) {
        self.attempts.lock().unwrap().push(reused);
    }

    fn sent(&self, at: Stamp) {
        self.sent.lock().unwrap().push(at);
    }

    fn informational(&self, status: StatusCode, headers: &HeaderMap) {
        let link = headers.get("link").map(|v| v.to_str().unwrap().to_owned());
        self.informational.lock().unwrap().push((status.as_u16(), link));
    }
}

fn get(path: &str) -> Request<Empty<Bytes>> {
    Request::get(path).header("host", "llm").body(Empty::new()).unwrap()
}

fn post(body: impl Into<Bytes>) -> Request<Full<Bytes>> {
    Request::post("/v1/chat/completions")
        .header("host", "llm")
        .body(Full::new(body.into()))
        .unwrap()
}

async fn frame(body: &mut Body) -> Option<Result<Frame<Bytes>, BodyError>> {
    poll_fn(|cx| Pin::new(&mut *body).poll_frame(cx)).await
}

/// The next data frame as text.
async fn text(body: &mut Body) -> String {
    let frame = frame(body).await.expect("a frame").expect("no error");
    String::from_utf8(frame.into_data().expect("data").to_vec()).unwrap()
}

/// The rest of a body: its bytes, and the error it ended with.
async fn drain(body: &mut Body) -> (Vec<u8>, Option<BodyError>) {
    let mut bytes = Vec::new();
    loop {
        match frame(body).await {
            Some(Ok(frame)) => bytes.extend_from_slice(frame.data_ref().map_or(&[], |d| d)),
            Some(Err(error)) => return (bytes, Some(error)),
            None => return (bytes, None),
        }
    }
}

/// `send` with nobody listening, on a task of its own.
fn spawn_send<B>(upstream: &Upstream, request: Request<B>) -> tokio::task::JoinHandle<Result<Response<Body>, SendError>>
where
    B: http_body::Body<Data = Bytes> + Send + 'static,
    B::Error: Into<BoxError>,
{
    spawn_heard(upstream, request, Arc::new(()))
}

fn spawn_heard<B>(
    upstream: &Upstream,
    request: Request<B>,
    hooks: Arc<dyn Hooks>,
) -> tokio::task::JoinHandle<Result<Response<Body>, SendError>>
where
    B: http_body::Body<Data = Bytes> + Send + 'static,
    B::Error: Into<BoxError>,
{
    let upstream = upstream.clone();
    tokio::spawn(async move { upstream.send(request, hooks).await })
}

/// A request body that the test feeds; closing the sender ends it.
struct Fed(mpsc::Receiver<Result<Frame<Bytes>, BoxError>>);

impl http_body::Body for Fed {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        self.0.poll_recv(cx)
    }
}

/// A POST whose body the test feeds.
fn fed() -> (mpsc::Sender<Result<Frame<Bytes>, BoxError>>, http::request::Builder, Fed) {
    let (feed, body) = mpsc::channel(64);
    (feed, Request::post("/v1/chat/completions").header("host", "llm"), Fed(body))
}

fn data(text: &'static str) -> Result<Frame<Bytes>, BoxError> {
    Ok(Frame::data(Bytes::from_static(text.as_bytes())))
}

/// Milliseconds since `start`.
fn ms_since(start: Stamp) -> u64 {
    clock::now().since(start) / 1_000_000
}

async fn sleep_ms(ms: u64) {
    tokio::time::sleep(Duration::from_millis(ms)).await;
}
