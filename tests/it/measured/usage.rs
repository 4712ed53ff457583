//! Where the token counts come from.

use super::super::rig::{DONE, Rig, both, chat, chunk, content, finish, post, usage, wait};
use super::{delta, event, pass, scraped, sse, stream, tokens, value};

#[test]
fn the_token_counter_runs_with_the_stream_and_is_corrected_up_at_its_end() {
    // P084
    both(|way| async move {
        let mut steps: Vec<_> = (0..100).flat_map(|_| [wait(1000), delta(r#"{"content":"x"}"#)]).collect();
        steps.extend([chunk(finish()), wait(500), chunk(usage(9, 130)), chunk(DONE)]);
        let rig = Rig::new(way, vec![sse(steps)]);
        let mut client = rig.client();
        client.send(chat()).await;
        let mut seen = Vec::new();
        pass(500).await;
        for _ in 0..6 {
            pass(15_000).await;
            let series = rig.series("chat", "m");
            assert_eq!(series.in_flight, 1);
            seen.push(series.output_tokens.iter().sum::<u64>());
        }
        assert_eq!(seen, [15, 30, 45, 60, 75, 90]);
        assert!(client.reply().await.complete);
        let series = rig.series("chat", "m");
        assert_eq!(
            (
                series.output_tokens.iter().sum::<u64>(),
                series.prompt_tokens,
                series.in_flight
            ),
            (130, 9, 0)
        );
    });
}

#[test]
fn the_token_counter_is_never_taken_back() {
    // P084
    both(|way| async move {
        let steps = (0..10)
            .map(|_| chunk(content("x")))
            .chain([chunk(finish()), chunk(usage(9, 4)), chunk(DONE)]);
        let rig = stream(way, steps).await;
        assert_eq!(tokens(&rig.record()), (Some(4), Some("usage")));
        assert_eq!(rig.series("chat", "m").output_tokens.iter().sum::<u64>(), 10);
    });
}

#[test]
fn running_usage_counts_once() {
    // P086
    both(|way| async move {
        let running = |n: u64| {
            event(&format!(
                r#"{{"choices":[{{"index":0,"delta":{{"content":"x"}}}}],"usage":{{"prompt_tokens":100,"completion_tokens":{n}}}}}"#
            ))
        };
        let rig = stream(way, [running(1), running(2), running(3), chunk(finish()), chunk(DONE)]).await;
        let record = rig.record();
        assert_eq!((record.output_tokens, record.prompt_tokens), (Some(3), Some(100)));
        let series = rig.series("chat", "m");
        assert_eq!((series.output_tokens, series.prompt_tokens), ([3, 0], 100));
    });
}

#[test]
fn reasoning_tokens_are_inside_the_completion_tokens() {
    // P087
    both(|way| async move {
        let steps = [
            chunk(content("x")),
            chunk(finish()),
            event(
                r#"{"choices":[],"usage":{"prompt_tokens":2743,"completion_tokens":164,"total_tokens":2907,"completion_tokens_details":{"reasoning_tokens":153}}}"#,
            ),
            chunk(DONE),
        ];
        let record = stream(way, steps).await.record();
        assert_eq!((record.output_tokens, record.prompt_tokens), (Some(164), Some(2743)));
    });
}

#[test]
fn usage_counts_whether_or_not_the_terminal_signal_comes_in_the_same_read() {
    // P088
    both(|way| async move {
        let apart = [
            chunk(content("x")),
            chunk(finish()),
            chunk(usage(5, 12)),
            wait(1),
            chunk(DONE),
        ];
        let together = [chunk([content("x"), finish(), usage(5, 12), DONE.to_owned()].concat())];
        assert_eq!(tokens(&stream(way, apart).await.record()), (Some(12), Some("usage")));
        assert_eq!(tokens(&stream(way, together).await.record()), (Some(12), Some("usage")));
    });
}

#[test]
fn null_empty_and_zero_usage_are_none() {
    // P089
    both(|way| async move {
        for empty in ["null", "{}", r#"{"prompt_tokens":0,"completion_tokens":0,"total_tokens":0}"#] {
            let with = event(&format!(
                r#"{{"choices":[{{"index":0,"delta":{{"content":"x"}}}}],"usage":{empty}}}"#
            ));
            let steps = (0..10).map(|_| with.clone()).chain([chunk(finish()), chunk(DONE)]);
            let rig = stream(way, steps).await;
            assert_eq!(tokens(&rig.record()), (Some(10), Some("events")), "{empty}");
            assert_eq!(rig.series("chat", "m").output_tokens, [0, 10], "{empty}");
        }
    });
}

#[test]
fn the_source_of_the_counts_is_a_label() {
    // P089
    both(|way| async move {
        let counted = sse([chunk(content("x")), chunk(finish()), chunk(DONE)]);
        let said = sse([chunk(content("x")), chunk(finish()), chunk(usage(5, 12)), chunk(DONE)]);
        let asked = post(
            "/v1/chat/completions",
            r#"{"model":"m","stream":true,"stream_options":{"include_usage":true}}"#,
        );
        let rig = Rig::new(way, vec![counted, said]);
        let mut client = rig.client();
        assert!(client.call(chat()).await.complete);
        assert!(client.call(asked).await.complete);
        let scrape = scraped(&rig).await;
        let count = |source| {
            value(
                &scrape,
                "goodput_output_tokens_total",
                &[("model", "m"), ("route", "chat"), ("token_source", source)],
            )
        };
        assert_eq!((count("events"), count("usage")), (Some(1.0), Some(12.0)));
    });
}

#[test]
fn usage_in_an_event_that_also_names_a_choice_counts() {
    // P090
    both(|way| async move {
        let steps = [
            chunk(content("x")),
            chunk(finish()),
            event(r#"{"choices":[{"index":0,"delta":{}}],"usage":{"completion_tokens":251}}"#),
            chunk(DONE),
        ];
        let record = stream(way, steps).await.record();
        assert_eq!(tokens(&record), (Some(251), Some("usage")));
        assert_eq!(record.prompt_tokens, None);
    });
}

#[test]
fn the_request_is_not_changed_to_get_usage() {
    // P091
    both(|way| async move {
        let reply = || sse([chunk(content("x")), chunk(finish()), chunk(DONE)]);
        let bodies = [
            r#"{"model":"m","stream":true,"messages":[]}"#,
            r#"{"model":"m","stream":true,"stream_options":{"include_usage":false},"messages":[]}"#,
            r#"{ "stream" : true,"stream_options":{}, "model":"m" }"#,
        ];
        let script = |_| {
            let mut script = vec![super::super::rig::Step::Body];
            script.extend(reply());
            script
        };
        let rig = Rig::new(way, bodies.map(script).into());
        let mut client = rig.client();
        for body in bodies {
            assert_eq!(
                client.call(post("/v1/chat/completions", body)).await.text(),
                [content("x"), finish(), DONE.to_owned()].concat()
            );
        }
        let seen: Vec<_> = rig
            .upstream
            .seen()
            .into_iter()
            .map(|s| String::from_utf8(s.body).unwrap())
            .collect();
        assert_eq!(seen, bodies);
    });
}

#[test]
fn events_without_choices_are_no_tokens() {
    // P092
    both(|way| async move {
        let steps = [
            wait(10),
            event(r#"{"choices":[],"prompt_filter_results":[{"prompt_index":0,"content_filter_results":{}}]}"#),
            wait(10),
            event(r#"{"id":"x"}"#),
            event(r#"{"choices":null}"#),
            event("[]"),
            event("1"),
            wait(10),
            chunk(content("x")),
            chunk(finish()),
            chunk(DONE),
        ];
        let rig = stream(way, steps).await;
        let record = rig.record();
        assert_eq!(
            (record.ttft_ms, record.output_tokens, record.outcome),
            (Some(30.0), Some(1), "ok")
        );
        assert_eq!(rig.snapshot().degraded, [0; 5]);
    });
}
