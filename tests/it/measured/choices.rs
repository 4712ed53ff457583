//! Several choices in one reply: gaps per choice, totals and TTFT per request.

use goodput_proxy::aggregate::Measure;

use super::super::rig::{DONE, Step, both, chunk, post, usage, wait};
use super::{event, samples, stream_of, times, tokens};

fn two() -> String {
    post("/v1/chat/completions", r#"{"model":"m","stream":true,"n":2}"#)
}

/// A content event of `choice`.
fn content(choice: u32) -> Step {
    event(&format!(r#"{{"choices":[{{"index":{choice},"delta":{{"content":"x"}}}}]}}"#))
}

/// A content event of `choice` with its own running usage.
fn running(choice: u32, completion: u64) -> Step {
    event(&format!(
        r#"{{"choices":[{{"index":{choice},"delta":{{"content":"x"}}}}],"usage":{{"prompt_tokens":8,"completion_tokens":{completion}}}}}"#
    ))
}

fn finish(choice: u32) -> Step {
    event(&format!(
        r#"{{"choices":[{{"index":{choice},"delta":{{}},"finish_reason":"stop"}}]}}"#
    ))
}

#[test]
fn interleaved_choices_have_gaps_of_their_own_and_one_total() {
    // P085
    both(|way| async move {
        let mut steps = vec![wait(100)];
        for i in 0..20 {
            steps.extend([content(i % 2), wait(10)]);
        }
        steps.extend([finish(0), finish(1), chunk(usage(8, 20)), chunk(DONE)]);
        let rig = stream_of(way, two(), steps).await;
        let record = rig.record();
        assert_eq!(tokens(&record), (Some(20), Some("usage")));
        assert_eq!(times(&record), (Some(100.0), Some(100.0), Some(10.0), Some(20.0), 300.0));
        let series = rig.series("chat", "m");
        assert_eq!(samples(&series, Measure::Itl), (360.0, 18));
        assert_eq!(samples(&series, Measure::Ttft), (100.0, 1));
        assert_eq!(series.output_tokens.iter().sum::<u64>(), 20);
    });
}

#[test]
fn one_closing_usage_per_choice_is_added_up() {
    // P085
    both(|way| async move {
        let closing = |n: u64| {
            event(&format!(
                r#"{{"choices":[],"usage":{{"prompt_tokens":8,"completion_tokens":{n}}}}}"#
            ))
        };
        let steps = [
            content(0),
            content(1),
            wait(10),
            content(0),
            content(1),
            finish(0),
            closing(7),
            finish(1),
            closing(5),
            chunk(DONE),
        ];
        let record = stream_of(way, two(), steps).await.record();
        assert_eq!(tokens(&record), (Some(12), Some("usage")));
        assert_eq!(record.prompt_tokens, Some(8));
    });
}

#[test]
fn running_usage_per_choice_and_then_a_total_is_the_total() {
    // P085
    both(|way| async move {
        let steps = [
            running(0, 1),
            running(1, 1),
            wait(40),
            running(0, 5),
            wait(40),
            running(1, 3),
            finish(0),
            finish(1),
            chunk(usage(8, 8)),
            chunk(DONE),
        ];
        let rig = stream_of(way, two(), steps).await;
        assert_eq!(tokens(&rig.record()), (Some(8), Some("usage")));
        let series = rig.series("chat", "m");
        assert_eq!(samples(&series, Measure::Itl), (120.0, 6), "4 of 10 ms, 2 of 40 ms");
        assert_eq!(samples(&series, Measure::InterChunk), (120.0, 2));
        assert_eq!(series.output_tokens, [8, 0]);
    });
}

#[test]
fn running_usage_per_choice_without_a_total_is_added_up() {
    // P085 P086
    both(|way| async move {
        let steps = [
            running(0, 1),
            running(1, 1),
            running(0, 5),
            running(1, 3),
            finish(0),
            finish(1),
            chunk(DONE),
        ];
        assert_eq!(tokens(&stream_of(way, two(), steps).await.record()), (Some(8), Some("usage")));
    });
}

#[test]
fn two_choices_in_one_event_are_two_tokens_of_one_time() {
    // P085
    both(|way| async move {
        let both_choices = || event(r#"{"choices":[{"index":0,"delta":{"content":"x"}},{"index":1,"delta":{"content":"y"}}]}"#);
        let steps = [
            wait(10),
            both_choices(),
            wait(30),
            both_choices(),
            finish(0),
            finish(1),
            chunk(DONE),
        ];
        let rig = stream_of(way, two(), steps).await;
        let record = rig.record();
        assert_eq!(
            (record.output_tokens, record.outcome, record.ttft_ms),
            (Some(4), "ok", Some(10.0))
        );
        assert_eq!(samples(&rig.series("chat", "m"), Measure::Itl), (60.0, 2));
    });
}

#[test]
fn a_stream_is_finished_when_as_many_choices_finished_as_were_asked_for() {
    // P085 P100
    both(|way| async move {
        let outcome = |steps: Vec<Step>| async move { stream_of(way, two(), steps).await.record().outcome };
        assert_eq!(outcome(vec![content(0), finish(0)]).await, "unterminated");
        assert_eq!(outcome(vec![content(0), finish(0), content(1)]).await, "unterminated");
        assert_eq!(outcome(vec![content(0), finish(0), content(1), finish(1)]).await, "ok");
        assert_eq!(outcome(vec![content(0), finish(0), chunk(DONE)]).await, "ok");
    });
}
