//! HTTP/2 on either side, and websocket tunnels.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use goodput_proxy::proxy::ClientStream;
use http::{HeaderMap, HeaderValue, Request, Response};
use http_body_util::{BodyExt, Full};
use tokio::io::{AsyncRead, AsyncWrite, DuplexStream, ReadBuf};
use tokio::sync::{Notify, mpsc};

use super::super::rig::{
    Client, DONE, Rig, Step, both, both_tcp, chat, chunk, content, finish, h2, last_chunk, post, send, wait,
};

#[test]
fn an_http2_client_gets_a_stream_without_the_upstreams_hop_by_hop_fields() {
    both(|way| async move {
        let head = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: keep-alive, X-Hop\r\nKeep-Alive: timeout=5\r\n\
                    X-Hop: 1\r\nProxy-Connection: keep-alive\r\nUpgrade: h2c\r\nTransfer-Encoding: chunked\r\nX-Kept: 1\r\n\r\n";
        let script = vec![
            Step::Body,
            send(head),
            chunk(content("a")),
            wait(30),
            chunk(content("b")),
            chunk(finish()),
            chunk(DONE),
            last_chunk(),
        ];
        let rig = Rig::new(way, vec![script]);
        let mut sender = h2::client(&rig).await;
        for n in 1..=2 {
            let (head, body, error) = h2::call(&mut sender, h2::chat()).await;
            assert_eq!(error, None);
            assert_eq!(body, [&content("a"), &content("b"), &finish(), DONE].concat().into_bytes());
            let names: Vec<&str> = head.headers.keys().map(|n| n.as_str()).collect();
            assert_eq!(names, ["content-type", "x-kept"]);
            let record = rig.finished(n).await.pop().unwrap();
            assert_eq!(
                (record.outcome, record.output_tokens, record.stall_ms),
                ("ok", Some(2), Some(30.0))
            );
        }
        let seen = rig.upstream.seen();
        assert_eq!(seen[0].line(), "POST /v1/chat/completions HTTP/1.1");
        assert_eq!(seen[0].headers("host"), ["llm"]);
        assert_eq!(seen[0].header("te"), None);
    });
}

#[test]
fn an_http2_client_gets_the_trailers_and_no_informational_head() {
    both(|way| async move {
        let script = vec![
            Step::Body,
            send("HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\nHTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"),
            chunk("hi\n"),
            send("0\r\nX-Output-Tokens: 5\r\n\r\n"),
        ];
        let rig = Rig::new(way, vec![script]);
        let mut request = h2::post("/x", "{}");
        request.headers_mut().insert("te", HeaderValue::from_static("trailers"));
        let (head, body, error) = h2::call(&mut h2::client(&rig).await, request).await;
        assert_eq!((head.status.as_u16(), error), (200, None));
        assert_eq!(String::from_utf8(body).unwrap(), "hi\nx-output-tokens: 5\n");
    });
}

#[test]
fn an_http2_client_that_resets_its_stream_releases_the_upstream() {
    both(|way| async move {
        let script = vec![
            Step::Body,
            send("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"),
            chunk(content("a")),
            Step::Hold,
        ];
        let rig = Rig::new(way, vec![script]);
        let mut sender = h2::client(&rig).await;
        sender.ready().await.unwrap();
        let mut reply = sender.send_request(h2::chat()).await.unwrap();
        reply.body_mut().frame().await.unwrap().unwrap();
        drop(reply);
        rig.upstream.until(|u| !u.closed().is_empty()).await;
        assert_eq!(rig.finished(1).await[0].outcome, "client_cancelled");
        assert!(!sender.is_closed(), "its other streams live on");
    });
}

#[test]
fn an_http2_client_that_opens_and_resets_streams_without_end_is_sent_away() {
    both(|way| async move {
        let rig = Rig::new(way, vec![vec![Step::Hold]]);
        let mut client = rig.client();
        // HEADERS of `GET http://llm/`, and RST_STREAM with CANCEL.
        let stream = |n: u32| (2 * n + 1).to_be_bytes();
        let headers = |n| [b"\0\0\x08\x01\x05", &stream(n)[..], b"\x82\x86\x84\x41\x03llm"].concat();
        let reset = |n| [b"\0\0\x04\x03\0", &stream(n)[..], b"\0\0\0\x08"].concat();
        // Preface and an empty SETTINGS; a few that get through to the upstream; and then all at once.
        client.send(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0").await;
        for n in 0..10 {
            client.send(headers(n)).await;
            rig.upstream.until(|u| u.connections() > n as usize).await;
            client.send(reset(n)).await;
            rig.finished(n as usize + 1).await;
        }
        let flood: Vec<u8> = (10..10_000).flat_map(|n| [headers(n), reset(n)].concat()).collect();
        let _ = client.try_send(flood).await;
        let got = client.rest().await;
        // GOAWAY, whose last word is ENHANCE_YOUR_CALM.
        let mut rest = &got[..];
        let mut goodbye = None;
        while let [_, high, low, kind, ..] = *rest {
            let end = 9 + usize::from(u16::from_be_bytes([high, low]));
            if kind == 7 {
                goodbye = Some(rest[13..17].to_vec());
            }
            rest = &rest[end..];
        }
        assert_eq!(goodbye.as_deref(), Some(&[0, 0, 0, 0xb][..]), "{got:?}");
        rig.under_way.connections.empty().await;
        assert_eq!(rig.under_way.requests.count(), 0);
        assert!(rig.upstream.connections() < 200, "{} connections", rig.upstream.connections());
        let records = rig.records();
        assert_eq!(records.len(), rig.upstream.connections());
        assert!(records.iter().all(|r| r.outcome == "client_cancelled"));
    });
}

#[test]
fn te_trailers_and_the_trailers_themselves_pass_over_http2() {
    both(|way| async move {
        let (seen, mut heads) = mpsc::channel(8);
        let rig = h2::rig(way, move |request| {
            let seen = seen.clone();
            async move {
                let (head, body) = request.into_parts();
                let body = body.collect().await.unwrap().to_bytes();
                seen.send(head).await.unwrap();
                let mut trailers = HeaderMap::new();
                trailers.insert("grpc-status", HeaderValue::from_static("0"));
                Response::builder()
                    .header("content-type", "application/grpc")
                    .body(
                        Full::new(body)
                            .with_trailers(async move { Some(Ok(trailers)) })
                            .boxed_unsync(),
                    )
                    .unwrap()
            }
        });
        let mut sender = h2::client(&rig).await;
        for (te, passed) in [(Some("trailers"), Some("trailers")), (None, None)] {
            let mut request = Request::post("http://llm/inference.GRPCInferenceService/ModelStreamInfer")
                .header("content-type", "application/grpc")
                .body(h2::full("\0\0\0\0\x02hi"))
                .unwrap();
            if let Some(te) = te {
                request.headers_mut().insert("te", HeaderValue::from_static(te));
            }
            let (head, body, error) = h2::call(&mut sender, request).await;
            assert_eq!((head.status.as_u16(), error), (200, None));
            assert_eq!(body, b"\0\0\0\0\x02higrpc-status: 0\n");
            let seen = heads.recv().await.unwrap();
            assert_eq!(seen.headers.get("te").map(|v| v.to_str().unwrap()), passed, "{te:?}");
            assert_eq!(seen.uri.path(), "/inference.GRPCInferenceService/ModelStreamInfer");
        }
        // Other values of TE end at each hop; an HTTP/1 client may send any.
        for (te, passed) in [
            ("gzip, trailers;q=0.5", Some("trailers")),
            ("gzip", None),
            ("trailersx", None),
        ] {
            let request = post("/x", "{}").replace("Host: llm", &format!("Host: llm\r\nTE: {te}\r\nConnection: TE"));
            assert!(rig.client().call(request).await.complete);
            let seen = heads.recv().await.unwrap();
            assert_eq!(seen.headers.get("te").map(|v| v.to_str().unwrap()), passed, "{te}");
        }
    });
}

#[test]
fn readers_that_stop_do_not_hold_up_one_that_reads_over_a_shared_http2_connection() {
    both(|way| async move {
        let rig = h2::rig(way, |request: Request<hyper::body::Incoming>| async move {
            let len = if request.uri().path() == "/slow" { 1 << 20 } else { 300 << 10 };
            Response::new(h2::full(vec![b'x'; len]))
        });
        let mut slow = Vec::new();
        for _ in 0..6 {
            let mut client = rig.client();
            client.send(post("/slow", "{}")).await;
            client.head().await.unwrap();
            slow.push(client);
        }
        let fast = rig.client().call(post("/fast", "{}")).await;
        assert_eq!((fast.complete, fast.body.len()), (true, 300 << 10));
        for mut client in slow {
            assert_eq!(
                client.rest_len(1 << 20).await,
                1 << 20,
                "and the slow ones get theirs in the end"
            );
        }
    });
}

const HANDSHAKE: &str = "GET /v1/realtime?model=x HTTP/1.1\r\nHost: a\r\nConnection: keep-alive, Upgrade\r\nUpgrade: websocket\r\n\
                         Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n";
const SWITCH: &str = "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
                      Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\n";

#[test]
fn a_websocket_is_spliced_both_ways_with_what_came_right_behind_its_head() {
    both(|way| async move {
        let script = vec![
            send([SWITCH, "server first"].concat()),
            Step::Take(6),
            send("pong"),
            Step::Take(5),
            send("bye"),
            Step::Fin,
        ];
        let rig = Rig::new(way, vec![script]);
        let mut client = rig.client();
        // The client may not wait for the switch either.
        client.send([HANDSHAKE, "early!"].concat()).await;
        let head = client.head().await.unwrap();
        assert!(head.starts_with("HTTP/1.1 101 "), "{head}");
        for field in [
            "upgrade: websocket",
            "connection: upgrade",
            "sec-websocket-accept: s3pplmbitxaq9kygzzhzrbk+xoo=",
        ] {
            assert!(head.to_ascii_lowercase().contains(field), "{field}: {head}");
        }
        client.read_until("server firstpong").await;
        assert_eq!(rig.counters.upgrades.get(), 1);
        client.send("close").await;
        assert_eq!(client.rest().await, b"server firstpongbye");
        drop(client);
        let record = rig.finished(1).await.remove(0);
        assert_eq!((record.outcome, record.status, record.ttft_ms), ("ok", Some(101), None));
        let seen = rig.upstream.only();
        assert_eq!(seen.line(), "GET /v1/realtime?model=x HTTP/1.1");
        assert_eq!(seen.header("upgrade"), Some("websocket"));
        assert!(seen.header("connection").unwrap().eq_ignore_ascii_case("upgrade"));
        assert_eq!(seen.raw_body, b"early!close");
    });
}

#[test]
fn a_refused_handshake_is_an_ordinary_reply() {
    both(|way| async move {
        let rig = Rig::new(way, vec![vec![send("HTTP/1.1 403 Forbidden\r\nContent-Length: 2\r\n\r\nno")]]);
        let mut client = rig.client();
        for _ in 0..2 {
            let got = client.call(HANDSHAKE).await;
            assert_eq!((got.status(), got.text().as_str()), (403, "no"));
        }
    });
}

#[test]
fn a_switch_that_nobody_asked_for_is_no_reply() {
    both(|way| async move {
        for request in [
            chat(),
            "GET /x HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n\r\n".to_owned(),
        ] {
            let rig = Rig::new(way, vec![vec![send(SWITCH), Step::Hold]]);
            let got = rig.client().call(request).await;
            assert_eq!(
                (got.status(), got.header("x-goodput-error")),
                (502, Some("upstream_malformed"))
            );
        }
    });
}

#[test]
fn a_tunnel_ends_with_either_side() {
    both(|way| async move {
        for client_first in [true, false] {
            let gate = Arc::new(Notify::new());
            let end = if client_first {
                Step::Hold
            } else {
                Step::Gate(Arc::clone(&gate))
            };
            let rig = Rig::new(way, vec![vec![send(SWITCH), end, Step::Close]]);
            let mut client = rig.client();
            client.send(HANDSHAKE).await;
            client.head().await.unwrap();
            if client_first {
                client.reset();
            } else {
                gate.notify_one();
                assert_eq!(client.rest().await, b"");
                client.reset();
            }
            rig.upstream.until(|u| !u.closed().is_empty()).await;
            rig.finished(1).await;
            rig.under_way.connections.empty().await;
            assert_eq!(rig.under_way.requests.count(), 0);
        }
    });
}

#[test]
fn a_tunnel_that_is_reset_is_recorded_as_broken_by_the_side_that_reset_it() {
    both_tcp(|way| async move {
        let rig = Rig::tcp(way, "", vec![vec![send(SWITCH), Step::Take(4), Step::Reset]]).await;
        for writes_on in [false, true] {
            let mut client = rig.tcp_client().await;
            client.send(HANDSHAKE).await;
            client.head().await.unwrap();
            client.send("ping").await;
            // A write that the dead upstream refuses must end the tunnel as well as a read does.
            while writes_on && client.try_send("more").await.is_ok() {
                tokio::task::yield_now().await;
            }
            client.rest().await;
            rig.under_way.requests.empty().await;
        }
        let outcomes: Vec<_> = rig.records().iter().map(|record| (record.outcome, record.status)).collect();
        assert_eq!(outcomes, [("upstream_reset", Some(101)); 2]);

        let rig = Rig::tcp(way, "", vec![vec![send(SWITCH), Step::Hold]]).await;
        let mut client = rig.tcp_client().await;
        client.send(HANDSHAKE).await;
        client.head().await.unwrap();
        client.reset();
        rig.upstream.until(|u| !u.closed().is_empty()).await;
        rig.under_way.requests.empty().await;
        assert_eq!(rig.record().outcome, "client_cancelled");
    });
}

#[test]
fn a_tunnel_that_either_side_ends_orderly_is_complete_whatever_the_other_does_then() {
    both_tcp(|way| async move {
        let rig = Rig::tcp(way, "", vec![vec![send(SWITCH), Step::Fin]]).await;
        let mut client = rig.tcp_client().await;
        client.send(HANDSHAKE).await;
        client.head().await.unwrap();
        assert_eq!(client.rest().await, b"");
        client.reset();
        rig.under_way.requests.empty().await;
        assert_eq!(rig.record().outcome, "ok");

        let rig = Rig::tcp(way, "", vec![vec![send(SWITCH), Step::Take(4), Step::Hold]]).await;
        let mut client = rig.tcp_client().await;
        client.send(HANDSHAKE).await;
        client.head().await.unwrap();
        client.send("ping").await;
        client.fin().await;
        client.rest().await;
        rig.under_way.requests.empty().await;
        assert_eq!(rig.record().outcome, "ok");
    });
}

#[test]
fn a_tunnel_carries_bytes_that_look_like_a_refusal_of_the_proxys_server() {
    both(|way| async move {
        let bare = "HTTP/1.1 400 Bad Request\r\nconnection: close\r\ncontent-length: 0\r\n\r\n";
        let rig = Rig::new(way, vec![vec![send(SWITCH), Step::Take(4), send(bare), Step::Fin]]);
        let mut client = rig.client();
        client.send(HANDSHAKE).await;
        client.head().await.unwrap();
        client.send("ping").await;
        assert_eq!(String::from_utf8(client.rest().await).unwrap(), bare);
    });
}

/// A client of which nothing but its reads tells that it is still there.
struct Ended(DuplexStream);

impl ClientStream for Ended {
    fn is_gone(&self, _fin: bool) -> bool {
        true
    }
}

impl AsyncRead for Ended {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(cx, buf)
    }
}

impl AsyncWrite for Ended {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(cx)
    }
}

#[test]
fn a_tunnel_whose_client_has_ended_its_side_is_served_on() {
    both(|way| async move {
        let gate = Arc::new(Notify::new());
        let stall = || Step::Stall(Arc::clone(&gate));
        let mut script = vec![send(SWITCH)];
        for text in ["a", "b", "c"] {
            script.extend([stall(), send(text)]);
        }
        script.push(Step::Fin);
        let rig = Rig::piped(way, "", 1024, vec![script]);
        let (ours, theirs) = tokio::io::duplex(64 << 10);
        rig.serve(Ended(theirs));
        let mut client = Client::new(Box::new(ours));
        client.send(HANDSHAKE).await;
        client.head().await.unwrap();
        // More than there is room for: what comes before the end is not read yet.
        client.send([b'z'; 40 << 10]).await;
        client.fin().await;
        for text in ["a", "ab", "abc"] {
            tokio::time::sleep(Duration::from_secs(5)).await;
            gate.notify_one();
            client.read_until(text).await;
        }
        client.rest().await;
        rig.under_way.requests.empty().await;
        assert_eq!(rig.record().outcome, "ok");
    });
}
