//! Request bodies: streamed up as they come, of any size, whatever the upstream says meanwhile.

use std::sync::Arc;

use goodput_proxy::clock;
use goodput_proxy::proxy::upstream::{BoxIo, Connector};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::Notify;

use super::super::rig::{
    DONE, Rig, Step, Upstream, both, both_tcp, chunk, content, finish, last_chunk, nobody, post, reply, send, sse_head, wait,
};

const MS: u64 = 1_000_000;

/// A head that announces `len` bytes.
fn head(path: &str, len: usize, more: &str) -> String {
    format!("POST {path} HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nContent-Length: {len}\r\n{more}\r\n")
}

#[test]
fn a_client_that_expects_100_gets_it_soon_whatever_the_upstream_does() {
    both(|way| async move {
        let ok = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
        let at_once = vec![send("HTTP/1.1 100 Continue\r\n\r\n"), Step::Body, send(ok)];
        let late = vec![wait(300), send("HTTP/1.1 100 Continue\r\n\r\n"), Step::Body, send(ok)];
        let never = vec![Step::Body, send(ok)];
        for (script, after) in [(at_once, 0), (late, 300), (never, 1000)] {
            let rig = Rig::new(way, vec![script]);
            let mut client = rig.client();
            let begin = clock::now();
            client
                .send(head("/v1/chat/completions", 1 << 20, "Expect: 100-continue\r\n"))
                .await;
            let got = client.head().await.unwrap();
            assert!(got.starts_with("HTTP/1.1 100 "), "{got:?}");
            assert_eq!(clock::now().since(begin), after * MS);
            client.send(vec![b' '; 1 << 20]).await;
            assert_eq!(client.reply().await.text(), "ok");
            assert_eq!(rig.upstream.only().body.len(), 1 << 20);
            assert_eq!(rig.records().len(), 1);
        }
    });
}

#[test]
fn a_refusal_in_place_of_100_is_relayed_and_no_upload_is_awaited() {
    both(|way| async move {
        let refusal = "HTTP/1.1 413 Content Too Large\r\nContent-Length: 9\r\n\r\ntoo large";
        let rig = Rig::new(way, vec![vec![send(refusal)], reply("200 OK", "text/plain", "next")]);
        let mut client = rig.client();
        let begin = clock::now();
        client
            .send(head("/v1/chat/completions", 10 << 20, "Expect: 100-continue\r\n"))
            .await;
        let got = client.reply().await;
        assert_eq!((got.status(), got.text().as_str()), (413, "too large"));
        assert_eq!(clock::now().since(begin), 0);
        assert_eq!((rig.record().outcome, rig.record().status), ("client_error", Some(413)));
    });
}

#[test]
fn an_early_error_reaches_a_client_that_is_still_uploading() {
    both_tcp(|way| async move {
        let refusal = "HTTP/1.1 413 Content Too Large\r\nContent-Length: 9\r\nConnection: close\r\n\r\ntoo large";
        for end in [Step::Close, Step::Fin, Step::Reset] {
            // A reset may overtake what was sent before it on its way into the proxy: there the reply cannot be asked for.
            let exact = !matches!(end, Step::Reset);
            let rig = Rig::tcp(way, "", vec![vec![Step::Take(64 << 10), send(refusal), end]]).await;
            let (mut read, mut write) = rig.tcp_stream().await.into_split();
            let upload = tokio::spawn(async move {
                write.write_all(head("/v1/chat/completions", 28 << 20, "").as_bytes()).await?;
                for _ in 0..28 * 16 {
                    write.write_all(&[b'x'; 64 << 10]).await?;
                }
                Ok::<_, std::io::Error>(write)
            });
            let mut got = Vec::new();
            while !got.ends_with(b"too large") {
                let mut part = [0; 4096];
                match read.read(&mut part).await {
                    Ok(n) if n > 0 => got.extend_from_slice(&part[..n]),
                    _ => break,
                }
            }
            let got = String::from_utf8_lossy(&got);
            if exact {
                assert!(got.starts_with("HTTP/1.1 413 ") && got.ends_with("too large"), "{got:?}");
                // Nobody is left to find out by a reset that this connection carries no other request.
                assert!(got.to_lowercase().contains("\r\nconnection: close\r\n"), "{got:?}");
                let record = rig.finished(1).await.remove(0);
                assert_eq!((record.outcome, record.status), ("client_error", Some(413)));
            }
            upload.abort();
        }
    });
}

#[test]
fn an_early_reply_to_a_request_that_was_read_but_not_all_sent_on_costs_the_client_nothing() {
    both(|way| async move {
        let refusal = "HTTP/1.1 413 Content Too Large\r\nContent-Length: 9\r\n\r\ntoo large";
        let early = vec![send(refusal), Step::Stall(Arc::new(Notify::new()))];
        let upstream = Upstream::new(vec![early, reply("200 OK", "text/plain", "ok")]);
        let server = upstream.clone();
        // The upstream's socket takes the beginning of the request only; the proxy has read all of it.
        let connector = Connector::new(move || {
            let server = server.clone();
            async move {
                let (ours, theirs) = tokio::io::duplex(512);
                tokio::spawn(server.serve(Box::new(theirs)));
                Ok(Box::new(ours) as BoxIo)
            }
        });
        let rig = Rig::with(way, "", 64 << 10, upstream, connector);
        let mut client = rig.client();
        let got = client.call([head("/x", 3000, ""), "z".repeat(3000)].concat()).await;
        assert_eq!((got.status(), got.text().as_str()), (413, "too large"));
        // A close here would be a reset for whoever had sent a request ahead, and could destroy the reply.
        assert_eq!(got.header("connection"), None);
        assert_eq!(client.call(post("/x", "{}")).await.text(), "ok");
        let connections: Vec<_> = rig.upstream.seen().iter().map(|seen| seen.connection).collect();
        assert_eq!(
            connections,
            [0, 1],
            "what is left of the first request must not lead the second"
        );
    });
}

#[test]
fn an_upload_to_nobody_is_answered_502() {
    both_tcp(|way| async move {
        let (_nobody, address) = nobody();
        let rig = Rig::to(way, &format!("http://{address}"));
        let (mut read, mut write) = rig.tcp_stream().await.into_split();
        let upload = tokio::spawn(async move {
            let _ = write.write_all(head("/v1/chat/completions", 10 << 20, "").as_bytes()).await;
            for _ in 0..10 * 16 {
                if write.write_all(&[b'x'; 64 << 10]).await.is_err() {
                    break;
                }
            }
        });
        let mut got = Vec::new();
        let mut part = [0; 4096];
        while !String::from_utf8_lossy(&got).contains("server_error") {
            let n = read.read(&mut part).await.expect("the reply comes before any reset");
            assert!(n > 0, "{:?}", String::from_utf8_lossy(&got));
            got.extend_from_slice(&part[..n]);
        }
        assert!(got.starts_with(b"HTTP/1.1 502 "));
        upload.abort();
        assert_eq!(rig.finished(1).await[0].outcome, "upstream_unreachable");
    });
}

#[test]
fn a_reply_may_stream_while_the_upload_still_runs() {
    both(|way| async move {
        let script = vec![
            Step::Take(4),
            sse_head(),
            chunk(content("a")),
            Step::Take(4),
            chunk(content("b")),
            chunk(DONE),
            last_chunk(),
        ];
        let rig = Rig::new(way, vec![script]);
        let mut client = rig.client();
        client.send(head("/v1/chat/completions", 8, "")).await;
        client.send("{\"a\"").await;
        client.head().await.unwrap();
        client.read_until(&content("a")).await;
        client.send(":11}").await;
        client.read_until(&content("b")).await;
        client.rest_of_stream().await;
        assert_eq!(rig.upstream.only().raw_body, b"{\"a\":11}");
        assert_eq!((rig.record().outcome, rig.record().output_tokens), ("ok", Some(2)));
    });
}

#[test]
fn large_bodies_pass_whole_and_without_a_limit() {
    both(|way| async move {
        for (path, content_type, len) in [
            ("/v1/chat/completions", "application/json", 8 << 20),
            ("/v1/chat/completions", "application/json", 24 << 20),
            ("/v1/audio/transcriptions", "multipart/form-data; boundary=x", 30 << 20),
        ] {
            let rig = Rig::new(way, vec![reply("200 OK", "application/json", "{}")]);
            let mut client = rig.client();
            let request = head(path, len, "").replace("application/json", content_type);
            client.send(request).await;
            let piece = [b'z'; 64 << 10];
            for _ in 0..len / piece.len() {
                client.send(piece).await;
            }
            assert_eq!(client.reply().await.status(), 200, "{path} {len}");
            let seen = rig.upstream.only();
            assert_eq!(seen.body.len(), len);
            assert!(seen.body.iter().all(|b| *b == b'z'));
            assert_eq!(seen.header("content-type"), Some(content_type));
            assert_eq!(rig.records().len(), 1);
        }
    });
}

#[test]
fn the_upstream_sees_a_body_before_its_upload_ends_and_the_upload_has_a_time_of_its_own() {
    both(|way| async move {
        let done = [finish(), DONE.to_owned()].concat();
        let script = vec![
            Step::Take(1000),
            Step::Take(1000),
            wait(500),
            sse_head(),
            chunk(content("a")),
            chunk(done),
            last_chunk(),
        ];
        let rig = Rig::new(way, vec![script]);
        let mut client = rig.client();
        client.send(head("/v1/chat/completions", 2000, "")).await;
        client.send([b' '; 1000]).await;
        rig.upstream
            .until(|u| u.seen().first().is_some_and(|s| s.raw_body.len() == 1000))
            .await;
        tokio::time::sleep(std::time::Duration::from_secs(5)).await;
        client.send([b' '; 1000]).await;
        assert!(client.reply().await.complete);
        let record = rig.record();
        assert_eq!((record.upload_ms, record.ttft_ms), (Some(5000.0), Some(5500.0)));
    });
}

#[test]
fn an_upload_waits_for_an_upstream_that_reads_slowly() {
    both(|way| async move {
        let gate = Arc::new(Notify::new());
        let script = vec![
            Step::Stall(Arc::clone(&gate)),
            Step::Body,
            send("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"),
        ];
        let rig = Rig::new(way, vec![script]);
        let mut client = rig.client();
        client.send(head("/v1/chat/completions", 64 << 20, "")).await;
        let piece = [b'z'; 64 << 10];
        let mut taken = 0;
        while tokio::time::timeout(std::time::Duration::from_secs(1), client.try_send(piece))
            .await
            .is_ok()
        {
            taken += piece.len();
        }
        assert!(
            taken <= 640 << 10,
            "the proxy took {taken} bytes that the upstream did not take"
        );
        gate.notify_one();
        drop(client);
    });
}

#[test]
fn a_body_is_forwarded_with_the_framing_it_has() {
    both(|way| async move {
        let rig = Rig::new(way, vec![reply("200 OK", "text/plain", "ok")]);
        let mut client = rig.client();
        client.call(post("/x", "{}")).await;
        client.call("POST /x HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n").await;
        client
            .call("GET /x HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc")
            .await;
        client
            .call("DELETE /x HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n")
            .await;
        let seen = rig.upstream.seen();
        let framing: Vec<_> = seen
            .iter()
            .map(|s| (s.header("content-length"), s.header("transfer-encoding")))
            .collect();
        assert_eq!(
            framing,
            [
                (Some("2"), None),
                (Some("0"), None),
                (Some("3"), None),
                (None, Some("chunked"))
            ]
        );
        let bodies: Vec<&[u8]> = seen.iter().map(|s| &*s.body).collect();
        assert_eq!(bodies, [&b"{}"[..], b"", b"abc", b"abc"]);
    });
}
