//! Nothing is held back, whatever the content type says, and nothing is decoded, encoded or marked on the way.

use std::io::Write;

use flate2::Compression;
use flate2::write::GzEncoder;
use goodput_proxy::clock;

use super::super::rig::{DONE, Rig, Step, both, chat, chunk, content, finish, last_chunk, post, send, sse_head, wait};

const S: u64 = 1_000_000_000;

fn head(content_type: &str, more: &str) -> Step {
    send(format!(
        "HTTP/1.1 200 OK\r\nContent-Type: {content_type}\r\n{more}Transfer-Encoding: chunked\r\n\r\n"
    ))
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

/// Has five pieces streamed for each case (request, content type), one a `gap`, and checks that each arrives when it is sent.
fn piecewise(cases: &[(String, &str)], piece: &str, gap: u64) {
    both(|way| async move {
        let script = |content_type: &str| {
            let mut script = vec![head(content_type, "")];
            for n in 1..=5 {
                script.extend([wait(gap), chunk(format!("{piece}{n}\n\n"))]);
            }
            script.push(last_chunk());
            script
        };
        let rig = Rig::new(way, cases.iter().map(|case| script(case.1)).collect());
        let mut client = rig.client();
        for (request, content_type) in cases {
            let begin = clock::now();
            client.send(request).await;
            client.head().await.unwrap();
            assert_eq!(clock::now().since(begin), 0, "the head waits for no body");
            for n in 1..=5 {
                client.read_until(&format!("{piece}{n}\n\n")).await;
                assert_eq!(clock::now().since(begin), n * gap * 1_000_000, "{content_type}, piece {n}");
            }
            client.rest_of_stream().await;
        }
    });
}

#[test]
fn a_small_event_every_ten_seconds_arrives_every_ten_seconds() {
    piecewise(&[(chat(), "text/event-stream")], ": heartbeat number ", 10_000);
}

#[test]
fn streams_of_other_types_are_not_held_back_either() {
    let mut cases = Vec::new();
    for content_type in [
        "application/x-ndjson",
        "application/json",
        "text/plain",
        "application/octet-stream",
        "x",
    ] {
        cases.push((chat(), content_type));
        cases.push((post("/api/anything", "{}"), content_type));
        cases.push(("GET /logs HTTP/1.1\r\nHost: a\r\n\r\n".to_owned(), content_type));
    }
    piecewise(&cases, "{\"a\":1}\n", 1000);
}

#[test]
fn the_content_type_is_compared_without_case_and_parameters() {
    both(|way| async move {
        for content_type in [
            "text/event-stream",
            "text/event-stream; charset=utf-8",
            "Text/Event-Stream;charset=UTF-8",
            "TEXT/EVENT-STREAM ; a=b",
        ] {
            let script = vec![
                head(content_type, ""),
                chunk(content("a")),
                wait(500),
                chunk([content("b"), DONE.to_owned()].concat()),
                last_chunk(),
            ];
            let rig = Rig::new(way, vec![script]);
            let reply = rig.client().call(chat()).await;
            assert_eq!(reply.header("content-type"), Some(content_type));
            let record = rig.record();
            assert_eq!(
                (record.streaming, record.output_tokens, record.ttft_ms, record.stall_ms),
                (true, Some(2), Some(0.0), Some(500.0)),
                "{content_type}"
            );
        }
    });
}

#[test]
fn fields_that_steer_buffers_pass_and_none_is_added() {
    both(|way| async move {
        let marked = vec![
            head(
                "text/event-stream",
                "X-Accel-Buffering: no\r\nCache-Control: no-cache, no-transform\r\n",
            ),
            chunk(content("a")),
            chunk(DONE),
            last_chunk(),
        ];
        let plain = vec![sse_head(), chunk(content("a")), chunk(DONE), last_chunk()];
        let rig = Rig::new(way, vec![marked, plain]);
        let mut client = rig.client();
        let reply = client.call(chat()).await;
        assert_eq!(reply.header("x-accel-buffering"), Some("no"));
        assert_eq!(reply.header("cache-control"), Some("no-cache, no-transform"));
        let reply = client.call(chat()).await;
        let names: Vec<&str> = reply
            .head
            .lines()
            .skip(1)
            .filter_map(|l| Some(l.split_once(':')?.0))
            .collect();
        assert_eq!(names, ["Content-Type", "Transfer-Encoding"], "{}", reply.head);
    });
}

#[test]
fn an_identity_stream_is_not_compressed_and_the_clients_codings_go_up() {
    both(|way| async move {
        let rig = Rig::new(
            way,
            vec![vec![sse_head(), chunk(content("a")), wait(10), chunk(DONE), last_chunk()]],
        );
        let request = chat().replace("Host: llm", "Host: llm\r\nAccept-Encoding: gzip, br, zstd");
        let reply = rig.client().call(request).await;
        assert_eq!(rig.upstream.only().header("accept-encoding"), Some("gzip, br, zstd"));
        assert_eq!(reply.header("content-encoding"), None);
        assert_eq!(reply.text(), [&content("a"), DONE].concat());

        let rig = Rig::new(way, vec![vec![sse_head(), chunk(DONE), last_chunk()]]);
        rig.client().call(chat()).await;
        assert_eq!(
            rig.upstream.only().header("accept-encoding"),
            None,
            "none is asked for on a client's behalf"
        );
    });
}

#[test]
fn a_compressed_reply_keeps_its_bytes_its_length_and_its_coding_and_is_read_in_a_copy() {
    both(|way| async move {
        let json = r#"{"model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"hi"},"finish_reason":"stop"}],"usage":{"prompt_tokens":3,"completion_tokens":9,"total_tokens":12}}"#;
        let body = gzip(json.as_bytes());
        let reply = [
            format!(
                "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Encoding: gzip\r\nContent-Length: {}\r\n\r\n",
                body.len()
            )
            .into_bytes(),
            body.clone(),
        ]
        .concat();
        let rig = Rig::new(way, vec![vec![Step::Body, Step::Send(reply)]]);
        let reply = rig.client().call(post("/v1/chat/completions", r#"{"model":"m"}"#)).await;
        assert_eq!(reply.body, body);
        assert_eq!(reply.header("content-encoding"), Some("gzip"));
        assert_eq!(reply.header("content-length"), Some(body.len().to_string().as_str()));
        assert_eq!((rig.record().outcome, rig.record().output_tokens), ("ok", Some(9)));
    });
}

#[test]
fn compressed_request_bodies_go_up_as_they_are() {
    let json = br#"{"model":"m","stream":true,"input":"hi"}"#;
    let zstd = zstd::encode_all(&json[..], 3).unwrap();
    let cases = [
        ("zstd", zstd),
        ("gzip", gzip(json)),
        ("gzip", b"not gzip at all".to_vec()),
        ("br", vec![0x8b, 0x02, 0x80]),
        ("x-unheard-of", json.to_vec()),
    ];
    both(|way| {
        let cases = cases.clone();
        async move {
            for (coding, body) in cases {
                let rig = Rig::new(
                    way,
                    vec![vec![Step::Body, sse_head(), chunk(finish()), chunk(DONE), last_chunk()]],
                );
                let mut request = format!(
                    "POST /v1/responses HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nContent-Encoding: {coding}\r\n\
                     Content-Length: {}\r\n\r\n",
                    body.len()
                )
                .into_bytes();
                request.extend_from_slice(&body);
                let reply = rig.client().call(request).await;
                assert_eq!(reply.status(), 200, "{coding}");
                let seen = rig.upstream.only();
                assert_eq!(seen.body, body, "{coding}");
                assert_eq!(seen.header("content-encoding"), Some(coding));
                assert_eq!(rig.records().len(), 1);
            }
        }
    });
}

#[test]
fn a_head_is_delivered_before_the_first_body_byte_exists() {
    both(|way| async move {
        let rig = Rig::new(way, vec![vec![wait(7), sse_head(), wait(30_000), chunk(DONE), last_chunk()]]);
        let mut client = rig.client();
        let begin = clock::now();
        client.send(chat()).await;
        client.head().await.unwrap();
        assert_eq!(clock::now().since(begin), 7_000_000);
        client.rest_of_stream().await;
        assert_eq!(clock::now().since(begin), 30 * S + 7_000_000);
    });
}
