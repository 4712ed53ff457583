//! Exact durations: every measure of a scripted stream on the paused clock, on both ways.

use goodput_proxy::aggregate::Measure;

use super::rig::{DONE, Rig, both, chat, chunk, content, finish, last_chunk, post, send, sse_head, usage, wait};

/// Milliseconds as nanoseconds.
const MS: u64 = 1_000_000;

/// The samples of `measure` as (sum in ms, count).
fn samples(rig: &Rig, measure: Measure) -> (u64, u64) {
    let histogram = &rig.series("chat", "m").histograms[measure.index()];
    assert_eq!(histogram.sum % MS, 0, "whole milliseconds were scripted");
    (histogram.sum / MS, histogram.count)
}

#[test]
fn ttft_tpot_itl_and_e2e_of_a_stream_are_exact() {
    both(|way| async move {
        let rig = Rig::new(
            way,
            vec![vec![
                wait(50),
                sse_head(),
                wait(70),
                chunk(content("a")),
                wait(20),
                chunk(content("b")),
                wait(40),
                chunk(content("c")),
                wait(15),
                chunk(finish()),
                chunk(usage(11, 4)),
                wait(5),
                chunk(DONE),
                last_chunk(),
            ]],
        );
        let reply = rig.client().call(chat()).await;
        assert!(reply.complete);
        let record = rig.record();
        assert_eq!((record.outcome, record.status, record.streaming), ("ok", Some(200), true));
        assert_eq!(record.ttft_ms, Some(120.0));
        assert_eq!(record.ttfb_ms, Some(120.0));
        assert_eq!(record.visible_ttft_ms, Some(120.0));
        assert_eq!(record.tpot_ms, Some(20.0), "(180 - 120) / (4 - 1)");
        assert_eq!(record.stall_ms, Some(40.0));
        assert_eq!(record.e2e_ms, 200.0);
        assert_eq!(record.upload_ms, Some(0.0));
        assert_eq!(
            (record.output_tokens, record.prompt_tokens, record.token_source),
            (Some(4), Some(11), Some("usage"))
        );
        assert_eq!(samples(&rig, Measure::Itl), (60, 2));
        assert_eq!(samples(&rig, Measure::InterChunk), (60, 2));
        assert_eq!(samples(&rig, Measure::E2e), (200, 1));
    });
}

#[test]
fn a_unary_reply_gives_e2e_and_tokens_and_touches_no_streaming_series() {
    // P076
    both(|way| async move {
        let body = r#"{"model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"hi"},"finish_reason":"stop"}],"usage":{"prompt_tokens":3,"completion_tokens":9,"total_tokens":12}}"#;
        let rig = Rig::new(
            way,
            vec![vec![
                wait(2000),
                send(format!(
                    "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
                    body.len()
                )),
            ]],
        );
        let reply = rig
            .client()
            .call(post("/v1/chat/completions", r#"{"model":"m","messages":[]}"#))
            .await;
        assert_eq!(reply.text(), body);
        let record = rig.record();
        assert_eq!((record.outcome, record.streaming, record.e2e_ms), ("ok", false, 2000.0));
        assert_eq!((record.ttft_ms, record.tpot_ms, record.stall_ms), (None, None, None));
        assert_eq!(record.output_tokens, Some(9));
        for measure in [
            Measure::Ttft,
            Measure::VisibleTtft,
            Measure::Tpot,
            Measure::Itl,
            Measure::InterChunk,
            Measure::Stall,
        ] {
            assert_eq!(samples(&rig, measure), (0, 0), "{measure:?}");
        }
    });
}

#[test]
fn the_head_is_passed_on_long_before_the_first_token_and_is_not_ttft() {
    // P017 P070 P078
    both(|way| async move {
        let rig = Rig::new(
            way,
            vec![vec![
                wait(5),
                sse_head(),
                wait(30_000),
                chunk("data: {\"choices\":[{\"index\":0,\"delta\":{\"role\":\"assistant\",\"content\":\"\"}}]}\n\n"),
                wait(500),
                chunk(content("Hi")),
                chunk(finish()),
                chunk(DONE),
                last_chunk(),
            ]],
        );
        let mut client = rig.client();
        let begin = goodput_proxy::clock::now();
        client.send(chat()).await;
        client.head().await.expect("a head");
        assert_eq!(goodput_proxy::clock::now().since(begin), 5 * MS);
        client.rest_of_stream().await;
        let record = rig.record();
        assert_eq!(
            (record.ttfb_ms, record.ttft_ms, record.e2e_ms),
            (Some(30_005.0), Some(30_505.0), 30_505.0)
        );
    });
}
