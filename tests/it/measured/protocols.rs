//! Every protocol's own idea of a token, an end, an error and a usage.

use std::io::Write;

use goodput_proxy::aggregate::Measure;

use super::super::rig::{DONE, Rig, both, chat, chunk, content, finish, last_chunk, post, send, wait};
use super::{ask, event, samples, stream_of, times, tokens};

/// A chunked 200 of this content type.
fn head(content_type: &str, more: &str) -> super::Step {
    send(format!(
        "HTTP/1.1 200 OK\r\nContent-Type: {content_type}\r\n{more}Transfer-Encoding: chunked\r\n\r\n"
    ))
}

/// A named event with this JSON.
fn named(name: &str, json: &str) -> super::Step {
    chunk(format!("event: {name}\ndata: {json}\n\n"))
}

#[test]
fn json_lines_are_read_whatever_the_reads_cut() {
    // P068
    both(|way| async move {
        let script = vec![
            head("application/x-ndjson", ""),
            wait(100),
            chunk("{\"model\":\"m\",\"message\":{\"content\":\"he"),
            wait(50),
            chunk(concat!(
                "llo\"},\"done\":false}\n",
                "{\"message\":{\"content\":\"!\"},\"done\":false}\n"
            )),
            wait(30),
            chunk(
                "{\"message\":{\"content\":\"\"},\"done\":true,\"done_reason\":\"stop\",\"prompt_eval_count\":9,\"eval_count\":2}\n",
            ),
            last_chunk(),
        ];
        let rig = Rig::new(way, vec![script]);
        let reply = rig.client().call(post("/api/chat", r#"{"model":"m","messages":[]}"#)).await;
        assert_eq!(reply.header("content-type"), Some("application/x-ndjson"));
        let record = rig.record();
        assert_eq!((record.outcome, record.api, record.streaming), ("ok", "ollama", true));
        assert_eq!(times(&record), (Some(150.0), Some(150.0), Some(0.0), Some(0.0), 180.0));
        assert_eq!((tokens(&record), record.prompt_tokens), ((Some(2), Some("usage")), Some(9)));
        assert_eq!(samples(&rig.series("generate", "m"), Measure::Itl), (0.0, 1));
    });
}

/// Each event compressed and flushed by itself, as a server that streams does.
fn gzipped(events: &[String]) -> Vec<Vec<u8>> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    let mut parts = Vec::new();
    for event in events {
        encoder.write_all(event.as_bytes()).unwrap();
        encoder.flush().unwrap();
        parts.push(std::mem::take(encoder.get_mut()));
    }
    parts.push(encoder.finish().unwrap());
    parts
}

#[test]
fn a_compressed_stream_is_read_as_it_comes_and_passed_on_as_it_is() {
    // P069
    both(|way| async move {
        let parts = gzipped(&[content("a"), content("b"), finish(), DONE.to_owned()]);
        let (begin, end) = parts[1].split_at(parts[1].len() / 2);
        let rig = Rig::new(
            way,
            vec![vec![
                head("text/event-stream", "Content-Encoding: gzip\r\n"),
                wait(100),
                chunk(&parts[0]),
                wait(20),
                chunk(begin),
                wait(20),
                chunk(end),
                wait(10),
                chunk(&parts[2]),
                chunk(&parts[3]),
                chunk(&parts[4]),
                last_chunk(),
            ]],
        );
        let reply = rig.client().call(chat()).await;
        assert_eq!(reply.body, parts.concat());
        assert_eq!(reply.header("content-encoding"), Some("gzip"));
        let record = rig.record();
        assert_eq!(times(&record), (Some(100.0), Some(100.0), Some(40.0), Some(40.0), 150.0));
        assert_eq!((record.outcome, tokens(&record)), ("ok", (Some(2), Some("events"))));
    });
}

#[test]
fn the_tokens_of_a_coding_that_cannot_be_read_are_unknown_and_not_0() {
    // P069
    both(|way| async move {
        let script = vec![
            head("text/event-stream", "Content-Encoding: x-unheard-of\r\n"),
            wait(100),
            chunk("\x01\x02\x03"),
            wait(50),
            chunk("\x04"),
            last_chunk(),
        ];
        let rig = Rig::configured(way, "slo: e2e=1s", vec![script]);
        assert_eq!(rig.client().call(chat()).await.body, b"\x01\x02\x03\x04");
        let record = rig.record();
        assert_eq!(
            (record.outcome, tokens(&record), record.ttfb_ms),
            ("ok", (None, None), Some(100.0))
        );
        assert_eq!(times(&record), (None, None, None, None, 150.0));
        assert_eq!(record.verdict, Some("good"));
        assert_eq!(rig.snapshot().degraded, [1, 0, 0, 0, 0], "encoding");
    });
}

#[test]
fn structural_events_of_the_responses_api_set_no_ttft() {
    // P093
    both(|way| async move {
        for (delta, visible) in [
            ("response.output_text.delta", Some(2000.0)),
            ("response.reasoning_text.delta", None),
            ("response.function_call_arguments.delta", Some(2000.0)),
        ] {
            let steps = [
                named(
                    "response.created",
                    r#"{"type":"response.created","response":{"model":"m","error":null,"usage":null}}"#,
                ),
                named(
                    "response.in_progress",
                    r#"{"type":"response.in_progress","response":{"error":null}}"#,
                ),
                named(
                    "response.output_item.added",
                    r#"{"type":"response.output_item.added","item":{"type":"message","content":[]}}"#,
                ),
                wait(1000),
                named(delta, &format!(r#"{{"type":"{delta}","delta":""}}"#)),
                wait(1000),
                named(delta, &format!(r#"{{"type":"{delta}","delta":"Hi"}}"#)),
                wait(30),
                named(delta, &format!(r#"{{"type":"{delta}","delta":"!"}}"#)),
                named(
                    "response.output_text.done",
                    r#"{"type":"response.output_text.done","text":"Hi!"}"#,
                ),
                wait(10),
                named(
                    "response.completed",
                    r#"{"type":"response.completed","response":{"error":null,"usage":{"input_tokens":11,"output_tokens":4,"output_tokens_details":{"reasoning_tokens":0}}}}"#,
                ),
            ];
            let rig = stream_of(way, ask("/v1/responses"), steps).await;
            let record = rig.record();
            assert_eq!(
                times(&record),
                (Some(2000.0), visible, Some(10.0), Some(30.0), 2040.0),
                "{delta}"
            );
            assert_eq!(
                (record.outcome, tokens(&record), record.prompt_tokens),
                ("ok", (Some(4), Some("usage")), Some(11))
            );
        }
    });
}

#[test]
fn structural_events_of_the_messages_api_set_no_ttft() {
    // P093
    both(|way| async move {
        for (delta, visible) in [
            (r#"{"type":"text_delta","text":"Hi"}"#, Some(2000.0)),
            (r#"{"type":"thinking_delta","thinking":"Hm"}"#, None),
            (r#"{"type":"input_json_delta","partial_json":"{"}"#, Some(2000.0)),
        ] {
            let steps = [
                named(
                    "message_start",
                    r#"{"type":"message_start","message":{"model":"m","content":[],"usage":{"input_tokens":25,"output_tokens":1}}}"#,
                ),
                named(
                    "content_block_start",
                    r#"{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}"#,
                ),
                wait(1000),
                named("ping", r#"{"type":"ping"}"#),
                wait(1000),
                named(
                    "content_block_delta",
                    &format!(r#"{{"type":"content_block_delta","index":0,"delta":{delta}}}"#),
                ),
                named("content_block_stop", r#"{"type":"content_block_stop","index":0}"#),
                named(
                    "message_delta",
                    r#"{"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":2}}"#,
                ),
                wait(5),
                named("message_stop", r#"{"type":"message_stop"}"#),
            ];
            let rig = stream_of(way, ask("/v1/messages"), steps).await;
            let record = rig.record();
            assert_eq!(
                (record.ttft_ms, record.visible_ttft_ms, record.e2e_ms),
                (Some(2000.0), visible, 2005.0),
                "{delta}"
            );
            assert_eq!((record.outcome, &*record.route, &*record.model), ("ok", "messages", "m"));
        }
    });
}

#[test]
fn the_messages_apis_usage_is_cumulative_and_comes_in_parts() {
    // P094
    both(|way| async move {
        let steps = [
            named(
                "message_start",
                r#"{"type":"message_start","message":{"usage":{"input_tokens":25,"output_tokens":1}}}"#,
            ),
            named(
                "content_block_delta",
                r#"{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"Hi"}}"#,
            ),
            named(
                "message_delta",
                r#"{"type":"message_delta","delta":{},"usage":{"input_tokens":25,"output_tokens":15}}"#,
            ),
            named(
                "message_delta",
                r#"{"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":18}}"#,
            ),
            named("message_stop", r#"{"type":"message_stop"}"#),
        ];
        let record = stream_of(way, ask("/v1/messages"), steps).await.record();
        assert_eq!((tokens(&record), record.prompt_tokens), ((Some(18), Some("usage")), Some(25)));
    });
}

#[test]
fn cached_input_of_the_messages_api_is_part_of_the_prompt() {
    // P094
    both(|way| async move {
        let steps = [
            named(
                "message_start",
                r#"{"type":"message_start","message":{"usage":{"input_tokens":25,"cache_read_input_tokens":100,"cache_creation_input_tokens":5,"output_tokens":1}}}"#,
            ),
            named(
                "content_block_delta",
                r#"{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"Hi"}}"#,
            ),
            named(
                "message_delta",
                r#"{"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":3}}"#,
            ),
            named("message_stop", r#"{"type":"message_stop"}"#),
        ];
        let record = stream_of(way, ask("/v1/messages"), steps).await.record();
        assert_eq!((record.output_tokens, record.prompt_tokens), (Some(3), Some(130)));
    });
}

/// A TGI token event, without a space after the colon.
fn tgi(text: &str, generated: &str, details: &str) -> super::Step {
    chunk(format!(
        "data:{{\"index\":1,\"token\":{{\"id\":267,\"text\":\"{text}\",\"logprob\":-0.1,\"special\":false}},\"generated_text\":{generated},\"details\":{details}}}\n\n"
    ))
}

#[test]
fn a_tgi_stream_ends_with_its_generated_text() {
    // P095
    both(|way| async move {
        let steps = [
            wait(40),
            tgi(" a", "null", "null"),
            wait(20),
            tgi(" b", "null", "null"),
            wait(20),
            tgi(
                " c",
                "\" a b c\"",
                r#"{"finish_reason":"length","generated_tokens":3,"input_length":6}"#,
            ),
        ];
        let rig = stream_of(way, post("/generate_stream", r#"{"inputs":"x"}"#), steps).await;
        let record = rig.record();
        assert_eq!(
            (record.outcome, tokens(&record), record.prompt_tokens),
            ("ok", (Some(3), Some("usage")), Some(6))
        );
        assert_eq!(times(&record), (Some(40.0), Some(40.0), Some(20.0), Some(20.0), 80.0));
        assert_eq!((record.api, &*record.route), ("generate", "generate"));

        let cut = [tgi(" a", "null", "null"), tgi(" b", "null", "null")];
        let cut = stream_of(way, post("/generate_stream", r#"{"inputs":"x"}"#), cut)
            .await
            .record();
        assert_eq!((cut.outcome, cut.output_tokens), ("unterminated", Some(2)));
    });
}

#[test]
fn a_tgi_error_object_is_a_stream_error() {
    // P095
    both(|way| async move {
        let steps = [
            wait(5),
            chunk("data:{\"error\":\"overloaded\",\"error_type\":\"overloaded\"}\n\n"),
        ];
        let rig = stream_of(way, post("/generate_stream", r#"{"inputs":"x"}"#), steps).await;
        let record = rig.record();
        assert_eq!(
            (record.outcome, record.ttft_ms, record.output_tokens),
            ("stream_error", None, Some(0))
        );
    });
}

#[test]
fn a_triton_stream_is_complete_with_a_clean_end() {
    both(|way| async move {
        let steps = [
            wait(10),
            event(r#"{"model_name":"t","model_version":"1","text_output":"a"}"#),
            wait(10),
            event(r#"{"model_name":"t","model_version":"1","text_output":"b"}"#),
        ];
        let request = post("/v2/models/t/generate_stream", r#"{"text_input":"x","stream":true}"#);
        let record = stream_of(way, request, steps).await.record();
        assert_eq!(
            (record.outcome, &*record.model, tokens(&record)),
            ("ok", "t", (Some(2), Some("events")))
        );
    });
}

#[test]
fn a_stream_without_framing_or_content_type_is_read_when_one_was_asked_for() {
    both(|way| async move {
        let mut script = vec![send("HTTP/1.1 200 OK\r\n\r\n")];
        script.extend([
            wait(10),
            send(content("a")),
            wait(10),
            send(finish()),
            send(DONE),
            super::Step::Close,
        ]);
        let rig = Rig::new(way, vec![script]);
        let reply = rig.client().call(chat()).await;
        assert_eq!(
            (reply.complete, reply.text()),
            (true, [content("a"), finish(), DONE.to_owned()].concat())
        );
        let record = rig.record();
        assert_eq!((record.outcome, record.ttft_ms, record.e2e_ms), ("ok", Some(10.0), 20.0));
    });
}
