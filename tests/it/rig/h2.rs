//! HTTP/2 on either side of the proxy: a client with prior knowledge, and a model server.

use std::error::Error as _;
use std::future::Future;

use bytes::Bytes;
use goodput_proxy::proxy::upstream::{BoxIo, Connector};
use http::{Request, Response};
use http_body_util::{BodyExt, Full};
use hyper::body::{Body, Incoming};
use hyper::client::conn::http2::{SendRequest, handshake};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};

use super::{Rig, Upstream, Way};

/// A body of a test's own.
pub type BoxBody = http_body_util::combinators::UnsyncBoxBody<Bytes, std::convert::Infallible>;

/// A whole body.
pub fn full(text: impl Into<Bytes>) -> BoxBody {
    Full::new(text.into()).boxed_unsync()
}

/// A new client connection, driven by a task of its own.
pub async fn client(rig: &Rig) -> SendRequest<BoxBody> {
    let (sender, connection) = handshake(TokioExecutor::new(), TokioIo::new(rig.pipe()))
        .await
        .expect("a handshake");
    tokio::spawn(connection);
    sender
}

/// A streaming chat request.
pub fn chat() -> Request<BoxBody> {
    post("/v1/chat/completions", r#"{"model":"m","stream":true,"messages":[]}"#)
}

/// A JSON POST.
pub fn post(path: &str, body: &str) -> Request<BoxBody> {
    Request::post(format!("http://llm{path}"))
        .header("content-type", "application/json")
        .body(full(body.to_owned()))
        .expect("a request")
}

/// Sends `request`; gives head, body as far as it came, and the error it broke off with.
pub async fn call(
    sender: &mut SendRequest<BoxBody>,
    request: Request<BoxBody>,
) -> (http::response::Parts, Vec<u8>, Option<String>) {
    sender.ready().await.expect("the connection lives");
    let (head, body) = sender.send_request(request).await.expect("a head").into_parts();
    let (body, error) = drain(body).await;
    (head, body, error)
}

/// A body as far as it comes, with its trailers appended as `name: value` lines.
pub async fn drain<B>(mut body: B) -> (Vec<u8>, Option<String>)
where
    B: Body<Data = Bytes> + Unpin,
    B::Error: std::error::Error + 'static,
{
    let mut all = Vec::new();
    while let Some(frame) = body.frame().await {
        let frame = match frame {
            Ok(frame) => frame,
            Err(error) => {
                let mut text = error.to_string();
                let mut cause = error.source();
                while let Some(error) = cause {
                    text.push_str(": ");
                    text.push_str(&error.to_string());
                    cause = error.source();
                }
                return (all, Some(text));
            }
        };
        match frame.into_data() {
            Ok(data) => all.extend_from_slice(&data),
            Err(frame) => {
                for (name, value) in frame.trailers_ref().into_iter().flatten() {
                    all.extend_from_slice(format!("{name}: {}\n", value.to_str().unwrap_or("?")).as_bytes());
                }
            }
        }
    }
    (all, None)
}

/// A proxy whose upstream speaks HTTP/2 and answers with `answer`.
pub fn rig<F, Fut>(way: Way, answer: F) -> Rig
where
    F: Fn(Request<Incoming>) -> Fut + Clone + Send + 'static,
    Fut: Future<Output = Response<BoxBody>> + Send + 'static,
{
    let answer = std::sync::Mutex::new(answer);
    let connector = Connector::new(move || {
        let answer = answer.lock().expect("no test panics here").clone();
        async move {
            let (ours, theirs) = tokio::io::duplex(64 * 1024);
            let service = service_fn(move |request| {
                let reply = answer(request);
                async move { Ok::<_, std::convert::Infallible>(reply.await) }
            });
            tokio::spawn(
                hyper::server::conn::http2::Builder::new(TokioExecutor::new()).serve_connection(TokioIo::new(theirs), service),
            );
            Ok(Box::new(ours) as BoxIo)
        }
    });
    Rig::with(
        way,
        "upstream: { protocol: h2c }\n",
        64 * 1024,
        Upstream::new(Vec::new()),
        connector,
    )
}
