//! Between hyper's server and this side: what hyper carries in the extensions.

use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;

use super::*;

#[tokio::test(start_paused = true)]
async fn names_keep_their_case_and_repeated_fields_their_order() {
    let (upstream, mut accepted) = piped(&config());
    let (mut client, near) = duplex(PIPE_BYTES);
    tokio::spawn(async move {
        let service = service_fn(move |request| {
            let upstream = upstream.clone();
            async move { upstream.send(request, Arc::new(())).await }
        });
        let mut server = http1::Builder::new();
        server.preserve_header_case(true).auto_date_header(false);
        let _ = server.serve_connection(TokioIo::new(near), service).await;
    });
    let head = "POST /v1/chat/completions HTTP/1.1\r\nHost: llm\r\nX-Request-ID: 7\r\nSEC-WebSocket-Key: k\r\n\
                Accept: a\r\nAccept: b\r\nContent-Length: 2\r\n\r\n";
    client.write_all(head.as_bytes()).await.unwrap();
    client.write_all(b"{}").await.unwrap();
    let mut peer = accepted.recv().await.unwrap();
    assert_eq!(peer.head().await, head);
    assert_eq!(peer.body(2).await, b"{}");
    let reply = "HTTP/1.1 200 Fine\r\nContent-Type: text/event-stream\r\nSet-Cookie: a=1\r\nSet-Cookie: b=2\r\n\
                 X-vLLM: 1\r\nContent-Length: 2\r\n\r\nok";
    peer.send(reply).await;
    let mut received = vec![0; reply.len()];
    client.read_exact(&mut received).await.unwrap();
    assert_eq!(String::from_utf8(received).unwrap(), reply);
}
