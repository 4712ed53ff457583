//! What sets TTFT, and what does not.

use goodput_proxy::aggregate::Measure;

use super::super::rig::{DONE, Rig, both, chat, chunk, chunked, content, finish, last_chunk, send, sse_head, usage, wait};
use super::{MS, delta, event, samples, stream, times};

#[test]
fn a_role_only_chunk_sets_no_ttft() {
    // P070
    both(|way| async move {
        let steps = [
            wait(10),
            delta(r#"{"role":"assistant","content":""}"#),
            wait(490),
            delta(r#"{"content":"Hi"}"#),
            chunk(finish()),
            chunk(DONE),
        ];
        let rig = stream(way, steps).await;
        let record = rig.record();
        assert_eq!(
            (record.ttfb_ms, record.ttft_ms, record.e2e_ms),
            (Some(10.0), Some(500.0), 500.0)
        );
        assert_eq!(samples(&rig.series("chat", "m"), Measure::Ttft), (500.0, 1));
    });
}

#[test]
fn ttft_is_when_a_content_event_cut_in_two_is_complete() {
    // P071
    both(|way| async move {
        let content = chunked(content("Hi"));
        let (begin, end) = content.split_at(30);
        let steps = [
            wait(10),
            chunk(": ping\n\n"),
            wait(10),
            delta(r#"{"role":"assistant"}"#),
            wait(80),
            send(begin),
            wait(25),
            send(end),
            wait(5),
            chunk(finish()),
            chunk(DONE),
        ];
        let record = stream(way, steps).await.record();
        assert_eq!(
            (record.ttfb_ms, record.ttft_ms, record.e2e_ms, record.outcome),
            (Some(10.0), Some(125.0), 130.0, "ok")
        );
    });
}

#[test]
fn a_stream_without_a_token_has_no_ttft_sample() {
    // P071
    both(|way| async move {
        let steps = [
            wait(10),
            chunk(": ping\n\n"),
            delta(r#"{"role":"assistant","content":""}"#),
            wait(90),
            chunk(finish()),
            chunk(DONE),
        ];
        let rig = stream(way, steps).await;
        let record = rig.record();
        assert_eq!(times(&record), (None, None, None, None, 100.0));
        assert_eq!((record.outcome, record.output_tokens), ("empty", Some(0)));
        let series = rig.series("chat", "m");
        for measure in [
            Measure::Ttft,
            Measure::VisibleTtft,
            Measure::Tpot,
            Measure::Itl,
            Measure::Stall,
        ] {
            assert_eq!(samples(&series, measure), (0.0, 0), "{measure:?}");
        }
        assert_eq!(samples(&series, Measure::Ttfb), (10.0, 1));
    });
}

#[test]
fn reasoning_sets_ttft_and_the_first_content_the_visible_one() {
    // P072
    both(|way| async move {
        for reasoning in [
            r#"{"reasoning_content":"x","content":null}"#,
            r#"{"reasoning":"x","content":""}"#,
        ] {
            let mut steps = vec![wait(1000), delta(reasoning)];
            steps.extend((1..100).flat_map(|_| [wait(500), delta(reasoning)]));
            steps.extend([wait(9500), delta(r#"{"content":"y"}"#), chunk(finish()), chunk(DONE)]);
            let rig = stream(way, steps).await;
            assert_eq!(
                times(&rig.record()),
                (Some(1000.0), Some(60_000.0), Some(590.0), Some(9500.0), 60_000.0),
                "{reasoning}"
            );
            assert_eq!(samples(&rig.series("chat", "m"), Measure::Itl), (59_000.0, 100));
        }
    });
}

#[test]
fn a_stream_of_reasoning_only_has_a_ttft_but_no_visible_one() {
    // P072
    both(|way| async move {
        let steps = [wait(7), delta(r#"{"reasoning":"x"}"#), chunk(finish()), chunk(DONE)];
        let rig = stream(way, steps).await;
        assert_eq!(times(&rig.record()), (Some(7.0), None, None, None, 7.0));
        assert_eq!(samples(&rig.series("chat", "m"), Measure::VisibleTtft), (0.0, 0));
    });
}

#[test]
fn a_tool_calls_name_sets_ttft_and_its_argument_fragments_are_token_events() {
    // P073
    both(|way| async move {
        let steps = [
            wait(200),
            delta(r#"{"tool_calls":[{"index":0,"id":"c","type":"function","function":{"name":"f","arguments":""}}]}"#),
            wait(30),
            delta(r#"{"tool_calls":[{"index":0,"function":{"arguments":"{\"a\""}}]}"#),
            wait(30),
            delta(r#"{"tool_calls":[{"index":0,"function":{"arguments":":1}"}}]}"#),
            wait(10),
            event(r#"{"choices":[{"index":0,"delta":{},"finish_reason":"tool_calls"}]}"#),
            chunk(DONE),
        ];
        let rig = stream(way, steps).await;
        let record = rig.record();
        assert_eq!(times(&record), (Some(200.0), Some(200.0), Some(30.0), Some(30.0), 270.0));
        assert_eq!(
            (record.outcome, record.output_tokens, record.token_source),
            ("ok", Some(3), Some("events"))
        );
        assert_eq!(samples(&rig.series("chat", "m"), Measure::Itl), (60.0, 2));
    });
}

#[test]
fn empty_content_chunks_before_the_text_are_no_tokens() {
    // P074
    both(|way| async move {
        let steps = [
            wait(50),
            delta(r#"{"role":"assistant"}"#),
            wait(50),
            delta(r#"{"content":""}"#),
            wait(50),
            delta(r#"{"content":""}"#),
            wait(50),
            delta(r#"{"content":""}"#),
            wait(50),
            delta(r#"{"content":"I "}"#),
            wait(20),
            delta(r#"{"content":"am"}"#),
            chunk(finish()),
            chunk(usage(5, 6)),
            chunk(DONE),
        ];
        let rig = stream(way, steps).await;
        let record = rig.record();
        assert_eq!(times(&record), (Some(250.0), Some(250.0), Some(4.0), Some(20.0), 270.0));
        assert_eq!((record.output_tokens, record.token_source), (Some(6), Some("usage")));
        assert_eq!(samples(&rig.series("chat", "m"), Measure::Itl), (20.0, 1));
    });
}

#[test]
fn a_reply_of_one_chunk_is_not_overwritten_by_its_usage() {
    // P075
    both(|way| async move {
        let steps = [
            wait(300),
            event(r#"{"choices":[{"index":0,"delta":{"content":"Yes"},"finish_reason":"stop"}]}"#),
            wait(600),
            chunk(usage(4, 1)),
            chunk(DONE),
        ];
        let rig = stream(way, steps).await;
        assert_eq!(times(&rig.record()), (Some(300.0), Some(300.0), None, None, 900.0));
        let series = rig.series("chat", "m");
        for measure in [Measure::Itl, Measure::InterChunk, Measure::Tpot, Measure::Stall] {
            assert_eq!(samples(&series, measure), (0.0, 0), "{measure:?}");
        }
        assert_eq!(series.output_tokens.iter().sum::<u64>(), 1);
    });
}

#[test]
fn progress_objects_and_a_timings_chunk_are_no_tokens() {
    // P077
    both(|way| async move {
        let progress = |n: u64| {
            event(&format!(
                r#"{{"choices":[],"prompt_progress":{{"total":237,"cache":0,"processed":{n},"time_ms":5}}}}"#
            ))
        };
        let steps = [
            wait(10),
            progress(64),
            wait(10),
            progress(128),
            wait(10),
            progress(237),
            wait(70),
            delta(r#"{"content":"a"}"#),
            wait(40),
            delta(r#"{"content":"b"}"#),
            chunk(finish()),
            wait(10),
            event(r#"{"choices":[],"timings":{"prompt_n":237,"prompt_ms":90.5,"predicted_n":2,"predicted_ms":40.0}}"#),
            chunk(DONE),
        ];
        let rig = stream(way, steps).await;
        let record = rig.record();
        assert_eq!(times(&record), (Some(100.0), Some(100.0), Some(40.0), Some(40.0), 150.0));
        assert_eq!((record.ttfb_ms, record.output_tokens), (Some(10.0), Some(2)));
    });
}

#[test]
fn head_first_token_and_end_are_three_different_times() {
    // P078
    both(|way| async move {
        let rig = Rig::new(
            way,
            vec![vec![
                wait(5),
                sse_head(),
                wait(795),
                chunk(content("a")),
                wait(9200),
                chunk(content("b")),
                chunk(finish()),
                chunk(DONE),
                last_chunk(),
            ]],
        );
        let begin = goodput_proxy::clock::now();
        let mut client = rig.client();
        client.send(chat()).await;
        client.head().await.expect("a head");
        assert_eq!(goodput_proxy::clock::now().since(begin), 5 * MS);
        assert_eq!(rig.records(), [], "nothing is recorded before the end");
        client.rest_of_stream().await;
        let record = rig.record();
        assert_eq!((record.ttft_ms, record.e2e_ms, record.outcome), (Some(800.0), 10_000.0, "ok"));
    });
}
