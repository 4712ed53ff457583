//! Ends of messages that HTTP/1 has besides length and chunks: no body at all, the end of the connection, trailers, heads that
//! inform, and peers of version 1.0.

use goodput_proxy::clock;

use super::super::rig::{
    DONE, Rig, Step, Way, both, both_tcp, chat, chunk, content, finish, last_chunk, on, reply, send, sse_head, wait,
};

const MS: u64 = 1_000_000;

#[test]
fn replies_without_a_body_end_at_the_blank_line_and_keep_both_connections() {
    both(|way| async move {
        let cases = [
            ("HEAD", "HTTP/1.1 200 OK\r\nContent-Length: 1234\r\n\r\n"),
            ("HEAD", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"),
            ("HEAD", "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n\r\n"),
            ("HEAD", "HTTP/1.1 404 Not Found\r\nContent-Length: 9\r\n\r\n"),
            ("GET", "HTTP/1.1 204 No Content\r\n\r\n"),
            ("DELETE", "HTTP/1.1 204 No Content\r\n\r\n"),
            (
                "GET",
                "HTTP/1.1 304 Not Modified\r\nETag: \"a\"\r\nTransfer-Encoding: chunked\r\n\r\n",
            ),
            (
                "GET",
                "HTTP/1.1 304 Not Modified\r\nETag: \"a\"\r\nContent-Length: 1234\r\n\r\n",
            ),
            ("GET", "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"),
        ];
        let mut scripts: Vec<Vec<Step>> = cases.iter().map(|(_, head)| vec![send(head)]).collect();
        scripts.push(reply("200 OK", "text/plain", "done"));
        let rig = Rig::new(way, scripts);
        let mut client = rig.client();
        for (method, head) in cases {
            client.send(format!("{method} /v1/models HTTP/1.1\r\nHost: a\r\n\r\n")).await;
            let got = client.head().await.unwrap();
            let status = head.split(' ').nth(1).unwrap();
            assert_eq!(got.split(' ').nth(1), Some(status), "{method} {head:?}");
            assert_eq!(client.seen(), b"");
            // The full server says nothing of a length that a 304 would have had, as it may (RFC 9110 15.4.5).
            let length = head.lines().find(|l| l.starts_with("Content-Length"));
            if let Some(length) = length.filter(|_| way == Way::Relay || status != "304") {
                assert!(got.contains(length), "{method} {head:?}: {got:?}");
            }
            let record = rig.records().pop().unwrap();
            let outcome = if status == "404" { "client_error" } else { "ok" };
            assert_eq!((record.outcome, record.e2e_ms), (outcome, 0.0), "{method} {head:?}");
        }
        assert_eq!(client.call("GET / HTTP/1.1\r\nHost: a\r\n\r\n").await.text(), "done");
        assert_eq!(rig.upstream.connections(), 1);
        assert_eq!(rig.records().len(), cases.len() + 1);
    });
}

fn chat_1_0(fields: &str) -> String {
    chat().replace("HTTP/1.1\r\n", &format!("HTTP/1.0\r\n{fields}"))
}

#[test]
fn an_http_1_0_client_gets_a_plain_body_token_by_token_and_then_the_end() {
    both(|way| async move {
        for fields in ["", "Connection: keep-alive\r\n", "Connection: close\r\n"] {
            let script = vec![
                Step::Body,
                sse_head(),
                wait(100),
                chunk(content("a")),
                wait(50),
                chunk(content("b")),
                chunk(finish()),
                chunk(DONE),
                last_chunk(),
            ];
            let rig = Rig::new(way, vec![script]);
            let mut client = rig.client();
            let begin = clock::now();
            client.send(chat_1_0(fields)).await;
            let head = client.head().await.unwrap();
            assert!(!head.to_ascii_lowercase().contains("transfer-encoding"), "{head:?}");
            assert!(
                !head.to_ascii_lowercase().contains("keep-alive"),
                "what ends with the connection does not keep it: {head:?}"
            );
            client.read_until(&content("a")).await;
            assert_eq!(clock::now().since(begin), 100 * MS, "tokens arrive one by one");
            let rest = String::from_utf8(client.rest().await).unwrap();
            assert_eq!(rest, [&content("a"), &content("b"), &finish(), DONE].concat());
            assert_eq!(clock::now().since(begin), 150 * MS, "and the connection ends with the body");
            assert_eq!((rig.record().outcome, rig.record().output_tokens), ("ok", Some(2)));
            assert!(
                rig.upstream.only().line().ends_with(" HTTP/1.1"),
                "the next hop has a version of its own"
            );
        }
    });
}

#[test]
fn an_http_1_0_client_that_asks_for_it_keeps_its_connection_behind_a_length() {
    both(|way| async move {
        let rig = Rig::new(way, vec![reply("200 OK", "text/plain", "ok")]);
        let mut client = rig.client();
        for _ in 0..2 {
            let got = client
                .call("GET /x HTTP/1.0\r\nHost: a\r\nConnection: Keep-Alive\r\n\r\n")
                .await;
            assert_eq!((got.status(), got.text().as_str()), (200, "ok"));
            assert_eq!(got.header("connection"), Some("keep-alive"));
        }
    });
}

#[test]
fn an_http_1_0_client_is_reset_when_the_reply_broke_off() {
    both_tcp(|way| async move {
        let rig = Rig::tcp(way, "", vec![vec![Step::Body, sse_head(), chunk(content("a")), Step::Reset]]).await;
        let mut stream = rig.tcp_stream().await;
        use tokio::io::{AsyncReadExt, AsyncWriteExt};
        stream.write_all(chat_1_0("").as_bytes()).await.unwrap();
        let mut all = Vec::new();
        let ended = stream.read_to_end(&mut all).await;
        assert_eq!(
            ended.unwrap_err().kind(),
            std::io::ErrorKind::ConnectionReset,
            "a clean end would be a whole body"
        );
        assert_eq!(rig.finished(1).await[0].outcome, "upstream_reset");
    });
}

#[test]
fn an_upstream_of_version_1_0_is_read_to_the_end_of_its_connection() {
    both(|way| async move {
        for head in [
            "HTTP/1.0 200 OK\r\nContent-Type: text/event-stream\r\n\r\n",
            "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n",
        ] {
            let script = vec![
                Step::Body,
                send(head),
                send(content("a")),
                wait(100),
                send([content("b"), finish(), DONE.to_owned()].concat()),
                Step::Fin,
            ];
            let rig = Rig::new(way, vec![script, reply("200 OK", "text/plain", "next")]);
            let mut client = rig.client();
            let first = client.call(chat()).await;
            assert!(first.complete, "{head:?}");
            assert!(first.head.starts_with("HTTP/1.1 200 OK\r\n"), "{:?}", first.head);
            assert_eq!(first.text(), [&content("a"), &content("b"), &finish(), DONE].concat());
            let record = rig.record();
            assert_eq!(
                (record.outcome, record.output_tokens, record.stall_ms),
                ("ok", Some(2), Some(100.0))
            );
            assert_eq!(client.call(chat()).await.text(), "next", "the client's connection lives on");
            assert_eq!(rig.upstream.connections(), 2);
        }
    });
}

#[test]
fn a_body_that_ends_with_its_connection_is_broken_by_a_reset() {
    both_tcp(|way| async move {
        let head = "HTTP/1.0 200 OK\r\nContent-Type: text/event-stream\r\n\r\n";
        let rig = Rig::tcp(way, "", vec![vec![Step::Body, send(head), send(content("a")), Step::Reset]]).await;
        let reply = rig.tcp_client().await.call(chat()).await;
        assert!(!reply.complete);
        assert_eq!(rig.finished(1).await[0].outcome, "upstream_reset");
    });
}

#[test]
fn exactly_one_transfer_coding_is_on_the_wire() {
    both(|way| async move {
        let rig = Rig::new(way, vec![vec![sse_head(), chunk(content("a")), chunk(DONE), last_chunk()]]);
        let reply = rig.client().call(chat()).await;
        assert_eq!(reply.headers("transfer-encoding"), ["chunked"]);
        assert_eq!(reply.headers("content-length"), [""; 0]);
    });
}

#[test]
fn informational_heads_are_relayed_and_are_never_the_reply() {
    both(|way| async move {
        let script = vec![
            Step::Body,
            send("HTTP/1.1 103 Early Hints\r\nLink: </a>; rel=preload\r\n\r\n"),
            wait(10),
            send("HTTP/1.1 102 Processing\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </b>\r\n\r\n"),
            wait(1000),
            sse_head(),
            chunk(content("a")),
            chunk(DONE),
            last_chunk(),
        ];
        let rig = Rig::new(way, vec![script]);
        let mut client = rig.client();
        client.send(chat()).await;
        let mut heads = Vec::new();
        loop {
            let head = client.head().await.unwrap();
            let last = head.starts_with("HTTP/1.1 200 ");
            heads.push(head);
            if last {
                break;
            }
        }
        let lines: Vec<&str> = heads.iter().filter_map(|h| h.lines().next()).collect();
        assert_eq!(
            lines[..3],
            [
                "HTTP/1.1 103 Early Hints",
                "HTTP/1.1 102 Processing",
                "HTTP/1.1 103 Early Hints"
            ]
        );
        assert_eq!(lines.len(), 4);
        assert!(heads[0].to_ascii_lowercase().contains("link: </a>; rel=preload\r\n"));
        client.rest_of_stream().await;
        let record = rig.record();
        assert_eq!(
            (record.outcome, record.status, record.ttft_ms),
            ("ok", Some(200), Some(1010.0))
        );
    });
}

#[test]
fn an_http_1_0_client_is_sent_no_informational_head() {
    both(|way| async move {
        let script = vec![
            send("HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n"),
            wait(10),
            send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"),
        ];
        let rig = Rig::new(way, vec![script]);
        let mut client = rig.client();
        client.send("GET / HTTP/1.0\r\n\r\n").await;
        let all = String::from_utf8(client.rest().await).unwrap();
        assert!(all.contains(" 200 OK\r\n") && !all.contains("103"), "{all:?}");
    });
}

#[test]
fn trailers_are_relayed_and_their_reply_is_complete() {
    both(|way| async move {
        for trailers in ["X-Output-Tokens: 5\r\n", "X-A: 1\r\nX-B: 2\r\n"] {
            let script = vec![
                Step::Body,
                send(
                    "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTrailer: X-Output-Tokens, X-A, X-B\r\nTransfer-Encoding: chunked\r\n\r\n",
                ),
                chunk(content("a")),
                chunk(DONE),
                send(format!("0\r\n{trailers}\r\n")),
            ];
            let rig = Rig::new(way, vec![script]);
            let mut client = rig.client();
            let request = chat().replace("Host: llm", "Host: llm\r\nTE: trailers\r\nConnection: TE");
            client.send(request).await;
            let reply = client.reply().await;
            assert!(reply.complete);
            let raw = String::from_utf8(reply.raw_body.clone()).unwrap();
            for trailer in trailers.lines() {
                assert!(raw.to_ascii_lowercase().contains(&trailer.to_ascii_lowercase()), "{raw:?}");
            }
            assert_eq!(rig.record().outcome, "ok");
            assert_eq!(client.call(chat()).await.status(), 200);
            assert_eq!(rig.upstream.connections(), 1, "the connection is in order");
        }
    });
}

#[test]
fn trailers_that_no_field_announced_reach_a_client_that_takes_them() {
    // The full server sends announced ones only: its library asks for the `Trailer` field, and none is added to a head.
    on(Way::Relay, |way| async move {
        for asks in [
            "TE: trailers",
            "TE: trailers\r\nConnection: TE",
            "Connection: keep-alive, te\r\nte: Trailers",
        ] {
            let script = vec![
                Step::Body,
                sse_head(),
                chunk(content("a")),
                chunk(DONE),
                send("0\r\nX-Tokens: 5\r\n\r\n"),
            ];
            let rig = Rig::new(way, vec![script]);
            let mut client = rig.client();
            client
                .send(chat().replace("Host: llm", &format!("Host: llm\r\n{asks}")))
                .await;
            let reply = client.reply().await;
            assert!(
                reply.complete && reply.raw_body.ends_with(b"0\r\nX-Tokens: 5\r\n\r\n"),
                "{reply:?}"
            );
            let seen = rig.upstream.only();
            assert_eq!(seen.header("te").map(str::to_lowercase).as_deref(), Some("trailers"));
            assert_eq!(seen.header("connection"), None);
        }
    });
}

#[test]
fn trailers_that_the_client_did_not_ask_for_do_no_harm() {
    both(|way| async move {
        let script = vec![
            Step::Body,
            sse_head(),
            chunk(content("a")),
            chunk(DONE),
            send("0\r\nX-Output-Tokens: 5\r\n\r\n"),
        ];
        let rig = Rig::new(way, vec![script]);
        let mut client = rig.client();
        for _ in 0..2 {
            assert!(client.call(chat()).await.complete);
        }
        assert_eq!(rig.upstream.connections(), 1);
        assert!(rig.records().iter().all(|r| r.outcome == "ok"));
    });
}
