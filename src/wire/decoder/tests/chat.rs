//! What chat chunks and whole chat replies say.

use super::*;

// P070, P074
#[test]
fn role_only_empty_and_null_deltas_bear_no_token() {
    let seen = chat(&[
        r#"{"choices":[{"index":0,"delta":{"role":"assistant","content":""}}]}"#,
        r#"{"choices":[{"index":0,"delta":{"role":"assistant"}}]}"#,
        r#"{"choices":[{"index":0,"delta":{"content":null,"reasoning":null,"tool_calls":null}}]}"#,
        r#"{"choices":[{"index":0,"delta":{"content":"","reasoning_content":"","refusal":"","tool_calls":[]}}]}"#,
        r#"{"choices":[{"index":0,"delta":{"content":"I "}}]}"#,
    ]);
    assert_eq!(seen.events.len(), 5);
    assert_eq!(seen.tokens(), [(5, 0, TEXT)]);
}

// P072, P073
#[test]
fn reasoning_tools_and_refusals_bear_tokens_on_their_channel() {
    let seen = chat(&[
        r#"{"choices":[{"index":0,"delta":{"reasoning":"a","content":null}}]}"#,
        r#"{"choices":[{"index":0,"delta":{"reasoning_content":"b","content":""}}]}"#,
        r#"{"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"x","type":"function","function":{"name":"f","arguments":""}}]}}]}"#,
        r#"{"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"function":{"arguments":"{"}}]}}]}"#,
        r#"{"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"function":{"arguments":""}}]}}]}"#,
        r#"{"choices":[{"index":0,"delta":{"function_call":{"name":"f"}}}]}"#,
        r#"{"choices":[{"index":0,"delta":{"refusal":"no"}}]}"#,
        r#"{"choices":[{"index":0,"delta":{"reasoning":"c","content":"d"}}]}"#,
    ]);
    let (reasoning, tool) = (Channel::Reasoning, Channel::Tool);
    let channels: Vec<_> = seen.tokens().into_iter().map(|(at, _, channel)| (at, channel)).collect();
    assert_eq!(
        channels,
        [
            (1, reasoning),
            (2, reasoning),
            (3, tool),
            (4, tool),
            (6, tool),
            (7, Channel::Refusal),
            (8, TEXT)
        ]
    );
}

// P092
#[test]
fn events_without_choices_say_nothing() {
    let seen = chat(&[
        "null",
        "{}",
        "[]",
        "[1,{}]",
        "7",
        r#"{"choices":[],"prompt_filter_results":[{}]}"#,
        r#"{"id":"x"}"#,
        r#"{"choices":null}"#,
    ]);
    assert_eq!(seen.degraded, []);
    assert_eq!(seen.events.len(), 8);
    assert!(seen.events.iter().all(|(_, facts)| *facts == EventFacts::default()));
}

// P006, P077
#[test]
fn comments_empty_data_and_progress_bear_no_token() {
    let seen = sse(
        "openai_chat",
        &[
            ": ping\n\ndata:\n\ndata: \n\n",
            "data: {\"choices\":[],\"prompt_progress\":{\"total\":237,\"processed\":128}}\n\n",
            "data: {\"choices\":[{\"delta\":{\"content\":\"a\"}}]}\n\n",
            "data: {\"choices\":[],\"timings\":{\"prompt_n\":5,\"cache_n\":2,\"predicted_n\":3}}\n\n",
        ],
    );
    assert_eq!((seen.events.len(), seen.tokens()), (3, vec![(3, 0, TEXT)]));
    let usage = Usage {
        prompt: Some(7),
        output: Some(3),
        reasoning: None,
        cached: Some(2),
    };
    assert_eq!(seen.usages(), [usage], "timings stand in where no usage was given");
}

#[test]
fn timings_give_way_to_a_usage_in_their_event_or_before() {
    let timings = r#""timings":{"prompt_n":5,"predicted_n":99}"#;
    let seen = chat(&[
        &format!(r#"{{{timings},"choices":[],"usage":{{"prompt_tokens":5,"completion_tokens":3}}}}"#),
        &format!(r#"{{"choices":[],{timings}}}"#),
    ]);
    assert_eq!(seen.usages().iter().map(|u| u.output).collect::<Vec<_>>(), [Some(3)]);
}

// P090
#[test]
fn usage_may_lie_in_a_choice() {
    let seen = chat(&[
        r#"{"choices":[{"index":0,"delta":{"content":"a"}}]}"#,
        r#"{"choices":[{"index":0,"delta":{},"finish_reason":"stop","usage":{"prompt_tokens":5,"completion_tokens":9}}]}"#,
    ]);
    let counts: Vec<_> = seen.usages().iter().map(|u| (u.prompt, u.output)).collect();
    assert_eq!(counts, [(Some(5), Some(9))]);
}

// P085
#[test]
fn choices_of_one_event_are_told_apart_whatever_the_key_order() {
    let seen = chat(&[
        r#"{"choices":[{"delta":{"content":"a"},"finish_reason":"stop","index":1},{"index":0,"delta":{"content":"b"}}]}"#,
        r#"{"choices":[{"index":2,"delta":{}}],"usage":{"prompt_tokens":1,"completion_tokens":2}}"#,
    ]);
    assert_eq!(seen.tokens(), [(1, 1, TEXT), (1, 0, TEXT)]);
    assert_eq!(seen.finished(), [1]);
    assert_eq!(
        (seen.events[0].1.choices, seen.events[1].1.choices, seen.events[1].1.choice),
        (2, 1, 2)
    );
}

// P087, P089, P090
#[test]
fn usage_counts_wherever_it_is_and_only_when_it_says_something() {
    let seen = chat(&[
        r#"{"choices":[],"usage":null}"#,
        r#"{"choices":[],"usage":{}}"#,
        r#"{"choices":[],"usage":{"prompt_tokens":0,"completion_tokens":0,"total_tokens":0}}"#,
        r#"{"choices":[{"index":0,"delta":{}}],"usage":{"completion_tokens":251}}"#,
        r#"{"usage":{"prompt_tokens":2743,"completion_tokens":164,"completion_tokens_details":{"reasoning_tokens":153},"prompt_tokens_details":{"cached_tokens":7}}}"#,
        r#"{"usage":{"prompt_tokens":5,"completion_tokens":6},"usage":null}"#,
    ]);
    let usage = |prompt, output, reasoning, cached| Usage {
        prompt,
        output,
        reasoning,
        cached,
    };
    assert_eq!(
        seen.usages(),
        [
            usage(None, Some(251), None, None),
            usage(Some(2743), Some(164), Some(153), Some(7))
        ]
    );
}

// P096
#[test]
fn a_truthy_error_is_an_error_and_an_empty_one_is_not() {
    for error in ["null", "false", "0", "0.0", "\"\"", "{}", "[]"] {
        assert!(!chat(&[&format!(r#"{{"error":{error}}}"#)]).has_error(), "{error}");
    }
    for error in ["true", "1", "\"x\"", r#"{"message":"t","code":504}"#, "[1]"] {
        let seen = chat(&[&format!(r#"{{"error":{error}}}"#), "[DONE]"]);
        assert!(seen.has_error() && seen.tokens().is_empty(), "{error}");
    }
    assert!(
        chat(&[r#"{"object":"error","message":"t","code":400}"#]).has_error(),
        "older vLLM"
    );
}

// P076
#[test]
fn a_whole_reply_gives_usage_output_and_error_but_no_event() {
    let reply = r#"{"model":"m","choices":[{"message":{"role":"assistant","content":"","tool_calls":[{"function":{"name":"f"}}]}}],"usage":{"prompt_tokens":3,"completion_tokens":9}}"#;
    let (facts, seen) = whole("openai_chat", "application/json", reply);
    let facts = facts.expect("a whole reply");
    assert_eq!((facts.usage.output, facts.has_output, facts.error), (Some(9), true, false));
    assert_eq!((seen.events.len(), seen.models), (0, vec!["m".to_owned()]));

    let empty = r#"{"choices":[{"message":{"content":null}}],"usage":null,"error":null}"#;
    assert_eq!(whole("openai_chat", "application/json", empty).0, Some(WholeFacts::default()));
    let (facts, _) = whole("openai_chat", "application/json", r#"{"error":{"message":"x"}}"#);
    assert!(facts.is_some_and(|f| f.error && !f.has_output));
}

#[test]
fn a_whole_reply_that_is_no_json_is_malformed_and_an_empty_one_is_nothing() {
    let (facts, seen) = whole("openai_chat", "application/json", "Internal Server Error");
    assert_eq!((facts, seen.degraded), (None, vec![Degraded::Malformed]));
    let (facts, seen) = whole("openai_chat", "application/json", "");
    assert_eq!((facts, seen.degraded), (None, vec![]));
}

#[test]
fn a_model_name_with_escapes_is_reported_once_as_it_reads() {
    let event = r#"{"model":"a\"b\\c\u00e9","choices":[]}"#;
    assert_eq!(chat(&[event, event]).models, ["a\"b\\c\u{e9}"]);
}

#[test]
fn more_choices_than_are_told_apart_are_counted() {
    let choices: Vec<String> = (0..20)
        .map(|i| format!(r#"{{"index":{i},"delta":{{"content":"x"}}}}"#))
        .collect();
    let seen = chat(&[&format!(r#"{{"choices":[{}]}}"#, choices.join(","))]);
    assert_eq!(
        (seen.tokens().len(), seen.events[0].1.dropped, seen.events[0].1.choices),
        (16, 4, 20)
    );
}
