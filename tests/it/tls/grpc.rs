//! HTTP/2 over TLS on both sides: streaming gRPC calls as KServe's clients make them, and servers that do not pick HTTP/2.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::{HeaderMap, Request, Response};
use http_body::{Body, Frame};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use hyper::client::conn::http2::{SendRequest, handshake};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::net::{TcpListener as Listener, TcpStream as Stream};
use tokio::sync::mpsc::{self, Receiver, Sender};
use tokio_rustls::{TlsAcceptor, TlsConnector};

use super::*;

/// A body whose frames the test sends one by one.
struct Fed(Receiver<Frame<Bytes>>);

impl Body for Fed {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        self.0.poll_recv(cx).map(|frame| frame.map(Ok))
    }

    fn is_end_stream(&self) -> bool {
        self.0.is_closed() && self.0.is_empty()
    }
}

fn fed() -> (Sender<Frame<Bytes>>, Fed) {
    let (send, receive) = mpsc::channel(8);
    (send, Fed(receive))
}

/// A gRPC message: not compressed, its length, and `text` for its protobuf.
fn message(text: &str) -> Bytes {
    let mut message = vec![0, 0, 0, 0, u8::try_from(text.len()).unwrap()];
    message.extend_from_slice(text.as_bytes());
    message.into()
}

fn data(text: &str) -> Frame<Bytes> {
    Frame::data(message(text))
}

/// `ModelStreamInfer`: a reply for each request as it comes, then trailers with the status that the last one asks for. A call whose
/// `x-status` names one has that in its head, and no body.
async fn infer(request: Request<Incoming>) -> Response<Fed> {
    assert_eq!(request.headers()["te"], "trailers");
    assert_eq!(request.uri().path(), "/inference.GRPCInferenceService/ModelStreamInfer");
    let scheme = request.uri().scheme_str().unwrap().to_owned();
    let (send, body) = fed();
    let reply = Response::builder().header("content-type", "application/grpc+proto");
    if let Some(status) = request.headers().get("x-status") {
        return reply.header("grpc-status", status).body(body).unwrap();
    }
    tokio::spawn(async move {
        let mut asked = request.into_body();
        let mut last = String::new();
        while let Some(Ok(frame)) = asked.frame().await {
            let asked = frame.into_data().unwrap();
            // The end of an upload is a frame of its own.
            let Some(text) = asked.get(5..) else { break };
            last = String::from_utf8(text.to_vec()).unwrap();
            let _ = send.send(data(&format!("{last} over {scheme}"))).await;
        }
        let mut trailers = HeaderMap::new();
        if !last.is_empty() {
            trailers.insert("grpc-status", last.parse().unwrap());
        }
        trailers.insert("grpc-message", "said".parse().unwrap());
        let _ = send.send(Frame::trailers(trailers)).await;
    });
    reply.body(body).unwrap()
}

/// A server that [`infer`]s over HTTP/2, in clear text or with `tls` and this `alpn`; gives its port.
async fn server(tls: Option<(&Own, &[&str])>) -> u16 {
    let acceptor = tls.map(|(own, alpn)| {
        let (cert, key) = own.parts();
        let builder = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap();
        let mut config = builder.with_no_client_auth().with_single_cert(cert, key).unwrap();
        config.alpn_protocols = alpn.iter().map(|p| p.as_bytes().to_vec()).collect();
        TlsAcceptor::from(Arc::new(config))
    });
    let listener = Listener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let service = || service_fn(|request| async { Ok::<_, Infallible>(infer(request).await) });
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let http2 = hyper::server::conn::http2::Builder::new(TokioExecutor::new());
            match acceptor.clone() {
                None => drop(tokio::spawn(http2.serve_connection(TokioIo::new(stream), service()))),
                Some(acceptor) => drop(tokio::spawn(async move {
                    let Ok(stream) = acceptor.accept(stream).await else { return };
                    let _ = http2.serve_connection(TokioIo::new(stream), service()).await;
                })),
            }
        }
    });
    port
}

/// A client of the program's TLS port, over HTTP/2.
async fn client(program: &Program, ca: &Ca) -> SendRequest<Fed> {
    let connector = TlsConnector::from(Arc::new(trusting(ca, None, &["h2"])));
    let stream = Stream::connect(&program.listen).await.unwrap();
    let tls = connector.connect("localhost".try_into().unwrap(), stream).await.unwrap();
    let (sender, connection) = handshake(TokioExecutor::new(), TokioIo::new(tls)).await.unwrap();
    tokio::spawn(connection);
    sender
}

fn call() -> http::request::Builder {
    Request::post("https://llm/inference.GRPCInferenceService/ModelStreamInfer")
        .header("content-type", "application/grpc+proto")
        .header("te", "trailers")
}

/// The next frame, or the end.
async fn next(reply: &mut Response<Incoming>) -> Option<Frame<Bytes>> {
    Some(reply.body_mut().frame().await?.unwrap())
}

/// How many calls ended so.
fn ended(program: &Program, outcome: &str) -> Option<f64> {
    let outcome = format!("outcome=\"{outcome}\"");
    program.sample(
        "goodput_requests_total",
        &["route=\"other\"", "streaming=\"false\"", &outcome],
    )
}

/// The program with TLS towards clients, and this `upstream` section.
fn before(ca: &Ca, upstream: &str) -> Program {
    let folder = TempDir::new().unwrap();
    ca.issue("localhost").write(folder.path(), "own");
    fs::write(folder.path().join("ca.crt"), &ca.pem).unwrap();
    let at = folder.path().display();
    let text = format!(
        "upstream: {{ {} }}\ntls: {{ cert: {at}/own.crt, key: {at}/own.key }}\n",
        upstream.replace("{AT}", &at.to_string())
    );
    fs::write(folder.path().join("config.yaml"), text).unwrap();
    Program::start(folder)
}

fn run(test: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build();
    runtime.unwrap().block_on(test);
}

/// Over upstream connections of either kind.
fn over_both(test: &impl AsyncFn(Program, Ca, &str)) {
    run(async {
        for (scheme, protocol) in [("http", "h2c"), ("https", "h2")] {
            let ca = Ca::new();
            let own = ca.issue("localhost");
            let port = server((scheme == "https").then_some((&own, &["h2"][..]))).await;
            let tls = if scheme == "https" {
                ", tls: { ca: '{AT}/ca.crt' }"
            } else {
                ""
            };
            let upstream = format!("url: '{scheme}://localhost:{port}', protocol: {protocol}{tls}");
            test(before(&ca, &upstream), ca, scheme).await;
        }
    });
}

#[test]
fn a_grpc_stream_goes_both_ways_over_tls_message_by_message() {
    over_both(&async |program, ca, scheme| {
        let mut client = client(&program, &ca).await;
        let (ask, body) = fed();
        let mut reply = client.send_request(call().body(body).unwrap()).await.unwrap();
        assert_eq!(reply.headers()["content-type"], "application/grpc+proto");
        // Each is answered before the next is sent.
        for text in ["a", "b", "0"] {
            ask.send(data(text)).await.unwrap();
            let got = next(&mut reply).await.unwrap().into_data().unwrap();
            assert_eq!(got, message(&format!("{text} over {scheme}")));
        }
        drop(ask);
        let trailers = next(&mut reply).await.unwrap().into_trailers().unwrap();
        assert_eq!(
            (&trailers["grpc-status"], &trailers["grpc-message"]),
            (&"0".parse().unwrap(), &"said".parse().unwrap())
        );
        assert!(next(&mut reply).await.is_none());
        assert_eq!(ended(&program, "ok"), Some(1.0));
        assert_eq!(program.sample("goodput_proxy_upstream_connects_total", &[]), Some(1.0));
    });
}

#[test]
fn a_grpc_status_decides_the_outcome_wherever_it_comes() {
    over_both(&async |program, ca, _| {
        let mut client = client(&program, &ca).await;
        // In the trailers: UNAVAILABLE, INTERNAL; and none.
        for (status, outcome) in [("14", "overloaded"), ("13", "upstream_error"), ("", "unterminated")] {
            let (ask, body) = fed();
            ask.send(data(status)).await.unwrap();
            drop(ask);
            let mut reply = client.send_request(call().body(body).unwrap()).await.unwrap();
            assert_eq!(reply.status(), 200);
            next(&mut reply).await.unwrap().into_data().unwrap();
            let trailers = next(&mut reply).await.unwrap().into_trailers().unwrap();
            assert_eq!(trailers.get("grpc-status").map_or("", |v| v.to_str().unwrap()), status);
            assert!(next(&mut reply).await.is_none());
            assert_eq!(ended(&program, outcome), Some(1.0), "{status}");
        }
        // In the head, of a call that failed at once: NOT_FOUND.
        let (ask, body) = fed();
        drop(ask);
        let mut reply = client
            .send_request(call().header("x-status", "5").body(body).unwrap())
            .await
            .unwrap();
        assert_eq!(
            (reply.status().as_u16(), &reply.headers()["grpc-status"]),
            (200, &"5".parse().unwrap())
        );
        assert!(next(&mut reply).await.is_none());
        assert_eq!(ended(&program, "client_error"), Some(1.0));
    });
}

#[test]
fn an_https_server_that_does_not_pick_the_configured_http_is_named_with_the_remedy() {
    run(async {
        for (protocol, alpn, remedy) in [
            ("h2", &["http/1.1"][..], "`upstream.protocol: http1`"),
            ("h2", &[][..], "`upstream.protocol: http1`"),
            ("http1", &["h2"][..], "`upstream.protocol: h2`"),
        ] {
            let ca = Ca::new();
            let own = ca.issue("localhost");
            let port = server(Some((&own, alpn))).await;
            let upstream = format!("url: 'https://localhost:{port}', protocol: {protocol}, tls: {{ ca: '{{AT}}/ca.crt' }}");
            let program = before(&ca, &upstream);
            let (_ask, body) = fed();
            let reply = client(&program, &ca)
                .await
                .send_request(call().body(body).unwrap())
                .await
                .unwrap();
            assert_eq!(
                (reply.status().as_u16(), &reply.headers()["x-goodput-error"]),
                (502, &"upstream_unreachable".parse().unwrap())
            );
            let said = reply.into_body().collect().await.unwrap().to_bytes();
            let said = String::from_utf8(said.to_vec()).unwrap();
            assert!(said.contains("TLS: the server ") && said.contains(remedy), "{said}");
            assert_eq!(ended(&program, "upstream_unreachable"), Some(1.0));
        }
    });
}
