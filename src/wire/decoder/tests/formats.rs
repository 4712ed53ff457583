//! Formats other than chat.

use super::*;

// P093
#[test]
fn structural_events_of_responses_bear_no_token() {
    let seen = sse(
        "openai_responses",
        &[
            "event: response.created\ndata: {\"type\":\"response.created\",\"response\":{\"model\":\"m\",\"usage\":null,\"error\":null}}\n\n",
            "data: {\"type\":\"response.output_item.added\",\"item\":{\"name\":\"f\",\"arguments\":\"\"}}\n\n",
            "data: {\"delta\":\"think\",\"type\":\"response.reasoning_text.delta\"}\n\n",
            "data: {\"type\":\"response.output_text.delta\",\"delta\":\"\"}\n\n",
            "data: {\"type\":\"response.output_text.delta\",\"delta\":\"Hi\"}\n\n",
            "data: {\"type\":\"response.output_text.done\",\"text\":\"Hi\"}\n\n",
            "data: {\"type\":\"response.audio.delta\",\"delta\":\"AAAA\"}\n\n",
            "data: {\"type\":\"response.completed\",\"response\":{\"usage\":{\"input_tokens\":4,\"output_tokens\":2}}}\n\n",
        ],
    );
    assert_eq!(seen.tokens(), [(3, 0, Channel::Reasoning), (5, 0, TEXT)]);
    assert_eq!(seen.models, ["m"]);
    assert!(seen.has_terminal() && !seen.has_error());
    assert_eq!(seen.usages()[0].output, Some(2));
}

// P098
#[test]
fn a_failed_response_is_an_error() {
    let failed = r#"{"type":"response.failed","response":{"status":"failed","error":{"code":"server_error","message":"x"}}}"#;
    let seen = sse("openai_responses", &[&format!("data: {failed}\n\n")]);
    assert!(seen.has_error() && !seen.has_terminal());
    assert!(sse("openai_responses", &["data: {\"type\":\"error\",\"code\":\"x\"}\n\n"]).has_error());
}

// P093, P094
#[test]
fn anthropic_usage_is_cumulative_and_missing_fields_keep_their_value() {
    let seen = sse(
        "anthropic",
        &[
            "data: {\"type\":\"message_start\",\"message\":{\"model\":\"m\",\"stop_reason\":null,\"usage\":{\"input_tokens\":25,\"cache_read_input_tokens\":10,\"output_tokens\":1}}}\n\n",
            "data: {\"type\":\"content_block_start\",\"index\":0,\"content_block\":{\"type\":\"text\",\"text\":\"\"}}\n\ndata: {\"type\":\"ping\"}\n\n",
            "data: {\"type\":\"content_block_delta\",\"index\":3,\"delta\":{\"type\":\"thinking_delta\",\"thinking\":\"h\"}}\n\n",
            "data: {\"type\":\"content_block_delta\",\"delta\":{\"type\":\"signature_delta\",\"signature\":\"s\"}}\n\n",
            "data: {\"type\":\"content_block_delta\",\"delta\":{\"type\":\"input_json_delta\",\"partial_json\":\"{\"}}\n\n",
            "data: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":null},\"usage\":{\"input_tokens\":25,\"output_tokens\":15}}\n\n",
            "data: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"end_turn\"},\"usage\":{\"output_tokens\":18}}\n\n",
            "event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n",
        ],
    );
    assert_eq!(seen.tokens(), [(3, 0, Channel::Reasoning), (5, 0, Channel::Tool)]);
    let mut total = Usage::default();
    for usage in seen.usages() {
        total.update(&usage);
    }
    assert_eq!((total.prompt, total.output, total.cached), (Some(35), Some(18), Some(10)));
    assert_eq!((seen.finished(), seen.has_terminal()), (vec![0], true));
}

// P095
#[test]
fn tgi_counts_tokens_and_ends_with_the_generated_text() {
    let token = |generated: &str| {
        format!(
            "data:{{\"token\":{{\"id\":267,\"text\":\" a\",\"special\":false}},\"generated_text\":{generated},\"details\":null}}\n\n"
        )
    };
    let seen = sse("tgi", &[&token("null"), &token("\"\"")]);
    assert_eq!(seen.tokens().len(), 2);
    assert_eq!(seen.events.iter().map(|(_, f)| f.terminal).collect::<Vec<_>>(), [false, true]);
    assert!(sse("tgi", &["data:{\"error\":\"overloaded\"}\n\n"]).has_error());
}

#[test]
fn sglang_increments_are_told_from_repeated_text() {
    let event = |text: &str| format!("data: {{\"text\":\"{text}\"}}\n\n");
    let times = |reads: &[&str]| {
        let reads: Vec<String> = reads.iter().map(|t| event(t)).collect();
        let seen = sse("sglang", &reads.iter().map(String::as_str).collect::<Vec<_>>());
        seen.tokens().iter().map(|(at, ..)| *at).collect::<Vec<_>>()
    };
    assert_eq!(times(&["", "a", "ab", "ab", "abc"]), [2, 3, 5]);
    assert_eq!(times(&["abc", "d", "e", "", "f"]), [1, 2, 3, 5]);
}

#[test]
fn a_list_of_replies_is_summed() {
    let reply = |text: &str, n| format!(r#"{{"text":"{text}","meta_info":{{"prompt_tokens":5,"completion_tokens":{n}}}}}"#);
    let body = format!("[{},{}]", reply("", 0), reply("b", 3));
    let facts = whole("sglang", "application/json", &body).0.expect("a whole reply");
    assert_eq!((facts.usage.prompt, facts.usage.output), (Some(10), Some(3)));
    assert!(facts.has_output && !facts.error);
    let nested = whole(
        "sglang",
        "application/json",
        &format!("{}1{}", "[".repeat(99), "]".repeat(99)),
    );
    assert_eq!((nested.0, nested.1.degraded), (Some(WholeFacts::default()), vec![]));
}
