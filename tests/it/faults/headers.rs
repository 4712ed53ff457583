//! What of a head ends at this hop, what passes, and how it is written.

use super::super::rig::{DONE, Rig, Step, both, chat, chunk, last_chunk, post, reply, send, sse_head};

#[test]
fn fields_named_in_connection_end_here_but_end_to_end_ones_cannot_be_named() {
    both(|way| async move {
        let rig = Rig::new(way, vec![reply("200 OK", "text/plain", "ok")]);
        let request = "GET /x HTTP/1.1\r\nHost: a\r\nConnection: keep-alive, X-Hop, X-Hop-2, Authorization, Host, Content-Type\r\n\
                       X-Hop: 1\r\nx-hop-2: 2\r\nX-Kept: 3\r\nAuthorization: Bearer k\r\nContent-Type: a/b\r\nKeep-Alive: timeout=5\r\n\
                       Proxy-Connection: keep-alive\r\n\r\n";
        assert_eq!(rig.client().call(request).await.status(), 200);
        let seen = rig.upstream.only();
        for (name, value) in [
            ("x-hop", None),
            ("x-hop-2", None),
            ("connection", None),
            ("keep-alive", None),
            ("proxy-connection", None),
            ("x-kept", Some("3")),
            ("authorization", Some("Bearer k")),
            ("host", Some("a")),
            ("content-type", Some("a/b")),
        ] {
            assert_eq!(seen.header(name), value, "{name}: {}", seen.head);
        }
    });
}

#[test]
fn hop_by_hop_fields_of_a_reply_end_here_however_many_are_named() {
    both(|way| async move {
        let names: Vec<String> = (0..20).map(|n| format!("X-Hop-{n}")).collect();
        let fields: String = names.iter().map(|n| format!("{n}: 1\r\n")).collect();
        let head = format!(
            "HTTP/1.1 200 OK\r\nConnection: keep-alive, {}\r\nConnection: x-last\r\nKeep-Alive: timeout=5\r\n{fields}X-Last: 1\r\n\
             Upgrade: h2c\r\nX-Kept: 1\r\nContent-Length: 2\r\n\r\nok",
            names.join(", ")
        );
        let rig = Rig::new(way, vec![vec![send(head)]]);
        let mut client = rig.client();
        let got = client.call("GET /x HTTP/1.1\r\nHost: a\r\n\r\n").await;
        assert_eq!(got.text(), "ok");
        let left: Vec<&str> = got.head.lines().skip(1).filter_map(|l| Some(l.split_once(':')?.0)).collect();
        assert_eq!(
            left.iter().map(|n| n.to_ascii_lowercase()).collect::<Vec<_>>(),
            ["x-kept", "content-length"]
        );
        client.call("GET /x HTTP/1.1\r\nHost: a\r\n\r\n").await;
        assert_eq!(rig.upstream.connections(), 1, "keep-alive among others");
    });
}

#[test]
fn close_ends_each_sides_own_connection_only() {
    both(|way| async move {
        let closing = "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok";
        let rig = Rig::new(way, vec![vec![send(closing)], reply("200 OK", "text/plain", "b")]);
        let mut client = rig.client();
        let first = client.call("GET /a HTTP/1.1\r\nHost: a\r\n\r\n").await;
        assert_eq!(first.header("connection"), None, "the upstream's close is not the client's");
        let second = client.call("GET /b HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n").await;
        assert_eq!((second.text().as_str(), second.header("connection")), ("b", Some("close")));
        assert_eq!(client.rest().await, b"", "and the connection ends");
        assert_eq!(rig.upstream.connections(), 2);
        assert_eq!(
            rig.upstream.seen()[1].header("connection"),
            None,
            "the client's close is not the upstream's"
        );
        rig.client().call("GET /c HTTP/1.1\r\nHost: a\r\n\r\n").await;
        assert_eq!(rig.upstream.connections(), 2, "its connection serves on");
    });
}

#[test]
fn what_goes_on_keeps_its_order_whatever_ends_here() {
    both(|way| async move {
        let head = "HTTP/1.1 200 OK\r\nConnection: keep-alive, x-hop\r\nServer: s\r\nX-Hop: 1\r\nDate: d\r\nKeep-Alive: timeout=5\r\n\
                    X-A: 1\r\nSet-Cookie: a\r\nSet-Cookie: b\r\nContent-Length: 2\r\nX-Z: 1\r\n\r\nok";
        let rig = Rig::new(way, vec![vec![Step::Body, send(head)]]);
        let request = "GET /x HTTP/1.1\r\nConnection: keep-alive, x-hop\r\nHost: a\r\nX-Hop: 1\r\nAccept: b\r\nTE: trailers\r\n\
                       Keep-Alive: 1\r\nX-A: 1\r\nX-A: 2\r\nUser-Agent: u\r\nX-Z: 1\r\n\r\n";
        let got = rig.client().call(request).await;
        let names = |head: &str| -> Vec<String> { head.lines().skip(1).filter(|l| !l.is_empty()).map(str::to_owned).collect() };
        assert_eq!(
            names(&got.head),
            [
                "Server: s",
                "Date: d",
                "X-A: 1",
                "Set-Cookie: a",
                "Set-Cookie: b",
                "Content-Length: 2",
                "X-Z: 1"
            ]
        );
        assert_eq!(
            names(&rig.upstream.only().head),
            [
                "Host: a",
                "Accept: b",
                "TE: trailers",
                "X-A: 1",
                "X-A: 2",
                "User-Agent: u",
                "X-Z: 1"
            ]
        );
    });
}

#[test]
fn names_keep_their_case_and_repeated_fields_their_order_both_ways() {
    both(|way| async move {
        let head = "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nX-Request-ID: 7\r\nSet-Cookie: a=1\r\nset-cookie: b=2\r\n\
                    SET-COOKIE: c=3\r\nX-MiXeD: y\r\nContent-Length: 2\r\n\r\nok";
        let rig = Rig::new(way, vec![vec![Step::Body, send(head)]]);
        let request = "POST /x HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\nX-Request-ID: 7\r\nSEC-WebSocket-Key: k\r\nX-A: 1\r\nx-a: 2\r\n\
                       X-A: 3\r\nCookie: a=1; b=2\r\n\r\n{}";
        let got = rig.client().call(request).await;
        let seen = rig.upstream.only();
        for line in [
            "Host: a",
            "Content-Length: 2",
            "X-Request-ID: 7",
            "SEC-WebSocket-Key: k",
            "Cookie: a=1; b=2",
        ] {
            assert!(seen.head.lines().any(|l| l == line), "{line}: {}", seen.head);
        }
        let repeated: Vec<&str> = seen
            .head
            .lines()
            .filter(|l| l.to_ascii_lowercase().starts_with("x-a:"))
            .collect();
        assert_eq!(repeated, ["X-A: 1", "x-a: 2", "X-A: 3"]);
        for line in [
            "Content-Type: text/plain",
            "X-Request-ID: 7",
            "X-MiXeD: y",
            "Content-Length: 2",
        ] {
            assert!(got.head.lines().any(|l| l == line), "{line}: {}", got.head);
        }
        let cookies: Vec<&str> = got
            .head
            .lines()
            .filter(|l| l.to_ascii_lowercase().starts_with("set-cookie"))
            .collect();
        assert_eq!(cookies, ["Set-Cookie: a=1", "set-cookie: b=2", "SET-COOKIE: c=3"]);
    });
}

#[test]
fn values_pass_byte_for_byte() {
    both(|way| async move {
        let odd: &[u8] = b"caf\xc3\xa9 \xff\xfe \"q\" , ;  two  spaces";
        let head = [
            b"HTTP/1.1 200 Fine By Me\r\nX-Odd: ",
            odd,
            b"\r\nX-Empty:\r\nContent-Length: 0\r\n\r\n",
        ]
        .concat();
        let rig = Rig::new(way, vec![vec![Step::Send(head)]]);
        let request = [b"GET /x HTTP/1.1\r\nHost: a\r\nX-Odd: ", odd, b"\r\nX-Empty: \r\n\r\n"].concat();
        let got = rig.client().call(request).await;
        let lossy = String::from_utf8_lossy(odd).into_owned();
        assert!(got.head.starts_with("HTTP/1.1 200 Fine By Me\r\n"), "{}", got.head);
        assert_eq!((got.header("x-odd"), got.header("x-empty")), (Some(&*lossy), Some("")));
        let seen = rig.upstream.only();
        assert_eq!((seen.header("x-odd"), seen.header("x-empty")), (Some(&*lossy), Some("")));
    });
}

#[test]
fn the_target_passes_byte_for_byte() {
    both(|way| async move {
        let rig = Rig::new(way, vec![reply("200 OK", "text/plain", "ok")]);
        let mut client = rig.client();
        for target in [
            "/v1/models/meta%2FLlama-3?x=%2520",
            "/a/../b/./c",
            "//a///b",
            "/%2e%2e/%2E%2E/x",
            "/?",
            "/x?y=/../z&&=&a=b?c",
            "/a;b=c,d:e@f!$'()*+",
            "/v1/models/%E5%8C%97?q=+%20%00",
            "*",
        ] {
            let method = if target == "*" { "OPTIONS" } else { "GET" };
            let got = client.call(format!("{method} {target} HTTP/1.1\r\nHost: a\r\n\r\n")).await;
            assert_eq!(got.status(), 200, "{target}");
            assert_eq!(
                rig.upstream.seen().pop().unwrap().line(),
                format!("{method} {target} HTTP/1.1")
            );
        }
    });
}

#[test]
fn an_absolute_target_goes_on_in_origin_form_and_names_the_host() {
    both(|way| async move {
        for (target, host, origin) in [
            ("http://llm:8000/v1/chat/completions", "llm:8000", "/v1/chat/completions"),
            (
                "http://other/v1/chat/completions?a=%2F",
                "other",
                "/v1/chat/completions?a=%2F",
            ),
            ("HTTP://other/v1/chat/completions", "other", "/v1/chat/completions"),
        ] {
            let rig = Rig::new(way, vec![vec![Step::Body, sse_head(), chunk(DONE), last_chunk()]]);
            let request = chat()
                .replace("/v1/chat/completions", target)
                .replace("Host: llm", "Host: llm:8000");
            let got = rig.client().call(request).await;
            assert_eq!(got.status(), 200, "{target}");
            let seen = rig.upstream.only();
            assert_eq!(seen.line(), format!("POST {origin} HTTP/1.1"));
            assert_eq!(seen.headers("host"), [host]);
            assert_eq!(&*rig.record().route, "chat", "the same label as in origin form");
        }
    });
}

fn fields(count: usize) -> String {
    (0..count).map(|n| format!("X-{n}: {n}\r\n")).collect()
}

#[test]
fn many_fields_and_a_large_one_pass_in_both_directions() {
    both(|way| async move {
        for fields in [
            fields(150),
            format!("X-Big: {}\r\n", "v".repeat(60_000)),
            fields(63),
            fields(64),
            fields(65),
        ] {
            let rig = Rig::new(
                way,
                vec![vec![send(format!("HTTP/1.1 200 OK\r\n{fields}Content-Length: 2\r\n\r\nok"))]],
            );
            let got = rig.client().call(format!("GET /x HTTP/1.1\r\nHost: a\r\n{fields}\r\n")).await;
            assert_eq!((got.status(), got.text().as_str()), (200, "ok"));
            for line in fields.lines() {
                assert!(
                    got.head.contains(line) && rig.upstream.only().head.contains(line),
                    "{line:.20}"
                );
            }
        }
    });
}

#[test]
fn a_request_head_over_a_limit_is_answered_431_and_counted() {
    both(|way| async move {
        let default = fields(300);
        let big = format!("X-Big: {}\r\n", "v".repeat(100_000));
        for (yaml, fields) in [
            ("", &*default),
            ("", &*big),
            ("limits: { max_headers: 10 }\n", &*fields(20)),
            (
                "limits: { max_header_bytes: 8KiB }\n",
                &*format!("X-Big: {}\r\n", "v".repeat(10_000)),
            ),
        ] {
            let rig = Rig::configured(way, yaml, vec![reply("200 OK", "text/plain", "ok")]);
            let mut client = rig.client();
            let _ = client.try_send(format!("GET /x HTTP/1.1\r\nHost: a\r\n{fields}\r\n")).await;
            assert_eq!(client.reply().await.status(), 431, "{yaml} {}", fields.len());
            assert_eq!(rig.counters.heads_too_large.get(), 1);
            assert_eq!(rig.upstream.seen().len(), 0);
        }
    });
}

#[test]
fn a_reply_head_over_a_limit_is_answered_502_with_its_own_reason() {
    both(|way| async move {
        for (yaml, fields) in [
            ("", fields(300)),
            ("", format!("X-Big: {}\r\n", "v".repeat(100_000))),
            ("upstream: { max_headers: 10 }\n", fields(20)),
            (
                "upstream: { max_header_bytes: 8KiB }\n",
                format!("X-Big: {}\r\n", "v".repeat(10_000)),
            ),
        ] {
            for status in ["200 OK", "400 Bad Request", "503 Service Unavailable"] {
                let head = format!("HTTP/1.1 {status}\r\n{fields}Content-Length: 2\r\n\r\nok");
                let rig = Rig::configured(way, yaml, vec![vec![Step::Body, send(head), Step::Hold]]);
                let got = rig.client().call(post("/x", "{}")).await;
                let what = format!("{status} {yaml} {}", fields.len());
                assert_eq!(got.status(), 502, "{what}");
                assert_eq!(got.header("x-goodput-error"), Some("upstream_head_too_large"), "{what}");
                // What the client got, not what the upstream had meant.
                let record = rig.record();
                assert_eq!((record.outcome, record.status), ("upstream_reset", Some(502)), "{what}");
            }
        }
    });
}
