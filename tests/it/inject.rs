//! `inject_usage`: usage is asked for where the client left that open, and the client never sees a byte of it.

use super::measured::sse;
use super::rig::{DONE, Rig, Step, Way, both, chunk, chunked, content, finish, post, send, sse_head, usage, wait};

const ON: &str = "inject_usage: true";
const OPEN: &str = r#"{"model":"m","messages":[{"role":"user","content":"}"}],"stream":true}"#;
const ASKED: &str =
    r#"{"model":"m","messages":[{"role":"user","content":"}"}],"stream":true,"stream_options":{"include_usage":true}}"#;

fn with_body(steps: impl IntoIterator<Item = Step>) -> Vec<Step> {
    let mut script = vec![Step::Body];
    script.extend(sse(steps));
    script
}

/// What the upstream got as a body, what the client got, and the rig, for one call of `body` on `path`.
async fn call(way: Way, path: &str, body: &str, script: Vec<Step>) -> (String, String, Rig) {
    let rig = Rig::configured(way, ON, vec![script]);
    let reply = rig.client().call(post(path, body)).await;
    assert!(reply.complete);
    let sent = String::from_utf8(rig.upstream.only().body).unwrap();
    (sent, reply.text(), rig)
}

fn plain() -> String {
    [content("a"), content("b"), finish(), DONE.to_owned()].concat()
}

#[test]
fn usage_is_asked_for_counted_and_taken_out_again() {
    // P091
    both(|way| async move {
        for path in ["/v1/chat/completions", "/v1/completions"] {
            let text = |text: &str| {
                if path == "/v1/completions" {
                    format!("data: {{\"choices\":[{{\"index\":0,\"text\":\"{text}\"}}]}}\n\n")
                } else {
                    content(text)
                }
            };
            let steps = [
                chunk(text("a")),
                wait(10),
                chunk(text("b")),
                chunk(finish()),
                chunk(usage(7, 42)),
                chunk(DONE),
            ];
            let (sent, got, rig) = call(way, path, OPEN, with_body(steps)).await;
            assert_eq!(sent, ASKED);
            assert_eq!(got, [text("a"), text("b"), finish(), DONE.to_owned()].concat());
            let record = rig.record();
            assert_eq!(
                (record.output_tokens, record.token_source),
                (Some(42), Some("usage")),
                "{path}"
            );
            assert_eq!((record.prompt_tokens, record.outcome), (Some(7), "ok"));
        }
    });
}

#[test]
fn the_usage_event_goes_without_a_trace_wherever_the_reads_cut() {
    // P091
    both(|way| async move {
        let whole = [content("a"), content("b"), finish(), usage(7, 42), DONE.to_owned()].concat();
        let (from, to) = (whole.len() - usage(7, 42).len() - DONE.len(), whole.len());
        let script = |cut| {
            let (begin, end) = whole.split_at(cut);
            with_body([chunk(begin), wait(1), chunk(end)])
        };
        let cuts = from - 3..to;
        let rig = Rig::configured(way, ON, cuts.clone().map(script).collect());
        let mut client = rig.client();
        for cut in cuts.clone() {
            let got = client.call(post("/v1/chat/completions", OPEN)).await.text();
            assert_eq!(got, plain(), "cut at {cut}");
        }
        assert_eq!(rig.records().len(), cuts.len());
        assert!(rig.records().iter().all(|record| record.output_tokens == Some(42)));
    });
}

#[test]
fn a_client_that_decided_for_itself_is_left_alone() {
    // P091
    both(|way| async move {
        for body in [
            r#"{"model":"m","stream":true,"stream_options":{"include_usage":false}}"#,
            r#"{"stream_options":{"include_usage":true},"model":"m","stream":true}"#,
            r#"{"stream_options":null,"model":"m","stream":true}"#,
            r#"{"model":"m","stream":false}"#,
            r#"{"model":"m"}"#,
            "not json",
        ] {
            // The server sends usage all the same: then it is the client's.
            let steps = [chunk(content("a")), chunk(finish()), chunk(usage(7, 42)), chunk(DONE)];
            let (sent, got, rig) = call(way, "/v1/chat/completions", body, with_body(steps)).await;
            assert_eq!(sent, body);
            assert_eq!(
                got,
                [content("a"), finish(), usage(7, 42), DONE.to_owned()].concat(),
                "{body}"
            );
            assert_eq!(rig.record().output_tokens, Some(42));
        }
    });
}

#[test]
fn other_apis_are_left_alone() {
    both(|way| async move {
        for path in ["/v1/responses", "/v1/messages", "/v1/embeddings", "/generate", "/x"] {
            let (sent, got, rig) = call(way, path, OPEN, with_body([chunk("data: {}\n\n")])).await;
            assert_eq!((sent.as_str(), got.as_str()), (OPEN, "data: {}\n\n"), "{path}");
            let length = OPEN.len().to_string();
            assert_eq!(rig.upstream.only().header("content-length"), Some(length.as_str()), "{path}");
        }
    });
}

#[test]
fn usage_in_an_event_with_choices_and_an_error_stay() {
    both(|way| async move {
        let stays = [
            "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"a\"}}],\"usage\":{\"completion_tokens\":1}}\n\n",
            "data: {\"choices\":[],\"usage\":null}\n\n",
            "data: {\"choices\":[],\"prompt_filter_results\":[]}\n\n",
            ": usage\n\n",
            "data: {\"choices\":[],\"usage\":{\"completion_tokens\":2},\"error\":{\"message\":\"x\"}}\n\n",
        ];
        let steps: Vec<_> = stays.iter().map(chunk).chain([chunk(usage(7, 2)), chunk(DONE)]).collect();
        let (_, got, _) = call(way, "/v1/chat/completions", OPEN, with_body(steps)).await;
        assert_eq!(got, [stays.concat(), DONE.to_owned()].concat());
    });
}

#[test]
fn a_refused_request_and_a_unary_reply_pass_as_they_are() {
    both(|way| async move {
        for (status, body) in [
            ("400 Bad Request", r#"{"error":{"message":"stream_options is not known"}}"#),
            ("200 OK", r#"{"choices":[],"usage":{"completion_tokens":3}}"#),
        ] {
            let script = super::rig::reply(status, "application/json", body);
            let (sent, got, _) = call(way, "/v1/chat/completions", OPEN, script).await;
            assert_eq!((sent.as_str(), got.as_str()), (ASKED, body));
        }
    });
}

#[test]
fn a_reply_with_a_length_loses_it_and_comes_whole() {
    both(|way| async move {
        let whole = [content("a"), finish(), usage(7, 42), DONE.to_owned()].concat();
        let head = format!(
            "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Length: {}\r\n\r\n",
            whole.len()
        );
        let (_, got, rig) = call(way, "/v1/chat/completions", OPEN, vec![Step::Body, send(head), send(&whole)]).await;
        assert_eq!(got, [content("a"), finish(), DONE.to_owned()].concat());
        assert_eq!(rig.record().output_tokens, Some(42));
    });
}

#[test]
fn a_stream_that_breaks_off_does_so_for_the_client_too() {
    both(|way| async move {
        let script = vec![
            Step::Body,
            sse_head(),
            chunk(content("a")),
            chunk(&usage(7, 42)[..30]),
            wait(5),
            Step::Reset,
        ];
        let rig = Rig::configured(way, ON, vec![script]);
        let reply = rig.client().call(post("/v1/chat/completions", OPEN)).await;
        assert!(!reply.complete && reply.body.starts_with(content("a").as_bytes()));
        assert_eq!(rig.record().outcome, "upstream_reset");
    });
}

#[test]
fn a_chunked_upload_is_asked_for_usage_too() {
    both(|way| async move {
        let script = with_body([chunk(content("a")), chunk(finish()), chunk(usage(7, 42)), chunk(DONE)]);
        let rig = Rig::configured(way, ON, vec![script]);
        let mut client = rig.client();
        client
            .send("POST /v1/chat/completions HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n")
            .await;
        for piece in OPEN.as_bytes().chunks(7) {
            client.send(chunked(piece)).await;
        }
        client.send("0\r\n\r\n").await;
        assert_eq!(
            client.reply().await.text(),
            [content("a"), finish(), DONE.to_owned()].concat()
        );
        assert_eq!(String::from_utf8(rig.upstream.only().body).unwrap(), ASKED);
    });
}
