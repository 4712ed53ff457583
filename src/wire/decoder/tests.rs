//! What the decoder makes of streams and replies that have gone wrong elsewhere.

use super::*;
use crate::measure::{Channel, EventFacts, Usage};
use crate::wire::FORMATS;
use crate::wire::events::MAX_EVENT;

#[derive(Debug, Default)]
struct Seen {
    events: Vec<(u64, EventFacts)>,
    models: Vec<String>,
    degraded: Vec<Degraded>,
}

impl EventSink for Seen {
    fn event(&mut self, at: Stamp, facts: &EventFacts) {
        self.events.push((at.as_nanos(), *facts));
    }

    fn model(&mut self, name: &str) {
        self.models.push(name.to_owned());
    }

    fn degraded(&mut self, why: Degraded) {
        self.degraded.push(why);
    }
}

impl Seen {
    /// Times of the token-bearing events, with choice and channel.
    fn tokens(&self) -> Vec<(u64, u32, Channel)> {
        let fragments =
            |(at, facts): &(u64, EventFacts)| facts.fragments().map(|f| (*at, f.choice, f.channel)).collect::<Vec<_>>();
        self.events.iter().flat_map(fragments).collect()
    }

    fn usages(&self) -> Vec<Usage> {
        self.events.iter().filter_map(|(_, f)| f.usage).collect()
    }

    fn has_error(&self) -> bool {
        self.events.iter().any(|(_, f)| f.error)
    }

    fn has_terminal(&self) -> bool {
        self.events.iter().any(|(_, f)| f.terminal)
    }

    fn finished(&self) -> Vec<u32> {
        self.events.iter().flat_map(|(_, f)| f.finished().to_vec()).collect()
    }
}

fn format(name: &str) -> &'static Format {
    FORMATS.iter().find(|f| f.name == name).expect("a format of that name")
}

/// What an SSE stream of `format` says when each piece is a read, at 1, 2, 3, …
fn sse(name: &str, reads: &[&str]) -> Seen {
    let mut decoder = Decoder::new(Some(format(name)), Some("text/event-stream"), None, Some(true));
    let mut seen = Seen::default();
    for (at, read) in (1..).zip(reads) {
        decoder.feed(Stamp::from_nanos(at), read.as_bytes(), &mut seen);
    }
    assert_eq!(decoder.finish(Stamp::from_nanos(99), &mut seen), None);
    seen
}

/// A stream of chat chunks, each event its own read.
fn chat(events: &[&str]) -> Seen {
    let reads: Vec<String> = events.iter().map(|e| format!("data: {e}\n\n")).collect();
    sse("openai_chat", &reads.iter().map(String::as_str).collect::<Vec<_>>())
}

fn whole(name: &str, content_type: &str, body: &str) -> (Option<WholeFacts>, Seen) {
    let mut decoder = Decoder::new(Some(format(name)), Some(content_type), None, Some(false));
    let mut seen = Seen::default();
    decoder.feed(Stamp::from_nanos(1), body.as_bytes(), &mut seen);
    (decoder.finish(Stamp::from_nanos(2), &mut seen), seen)
}

const TEXT: Channel = Channel::Text;

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

// P002, P003
#[test]
fn an_event_has_the_time_of_the_read_that_completes_it() {
    let event = "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"A\"}}]}\n\n";
    let (head, tail) = event.split_at(30);
    let five = event.repeat(5);
    let seen = sse("openai_chat", &[head, tail, &five, &event[..event.len() - 1], "\n"]);
    let times: Vec<u64> = seen.tokens().iter().map(|(at, ..)| *at).collect();
    assert_eq!(times, [2, 3, 3, 3, 3, 3, 5]);
}

// P010
#[test]
fn characters_cut_by_a_read_stay_whole() {
    let event = "data: {\"choices\":[{\"delta\":{\"content\":\"北🌍\"}}]}\n\n".as_bytes();
    for cut in 1..event.len() {
        let mut decoder = Decoder::new(Some(format("openai_chat")), Some("text/event-stream"), None, None);
        let mut seen = Seen::default();
        decoder.feed(Stamp::from_nanos(1), &event[..cut], &mut seen);
        decoder.feed(Stamp::from_nanos(2), &event[cut..], &mut seen);
        assert_eq!((seen.tokens(), seen.degraded), (vec![(2, 0, TEXT)], vec![]));
    }
}

// P011
#[test]
fn an_event_of_two_mebibytes_is_read() {
    let long = format!(
        "data: {{\"choices\":[{{\"delta\":{{\"content\":\"{}\"}}}}]}}\n\n",
        "x".repeat(2 << 20)
    );
    let seen = sse(
        "openai_chat",
        &[&long, "data: {\"choices\":[{\"delta\":{\"content\":\"y\"}}]}\n\n"],
    );
    assert_eq!(seen.tokens(), [(1, 0, TEXT), (2, 0, TEXT)]);
    assert_eq!(seen.degraded, []);
}

// P011, P012
#[test]
fn an_event_over_the_cap_is_reported_once_and_the_next_is_read() {
    let mut decoder = Decoder::new(Some(format("openai_chat")), Some("text/event-stream"), None, None);
    let mut seen = Seen::default();
    decoder.feed(
        Stamp::from_nanos(1),
        b"data: {\"choices\":[{\"delta\":{\"content\":\"",
        &mut seen,
    );
    let piece = [b'x'; 1 << 16];
    for _ in 0..=MAX_EVENT >> 16 {
        decoder.feed(Stamp::from_nanos(2), &piece, &mut seen);
    }
    decoder.feed(
        Stamp::from_nanos(3),
        b"\"}}]}\n\ndata: {\"choices\":[{\"delta\":{\"content\":\"y\"}}]}\n\n",
        &mut seen,
    );
    assert_eq!(seen.degraded, [Degraded::Oversize]);
    assert_eq!(seen.tokens(), [(3, 0, TEXT)]);
}

#[test]
fn a_malformed_event_is_reported_and_reading_goes_on() {
    let seen = chat(&[
        "{\"choices\":[{\"del",
        "nonsense",
        "{\"choices\":[{\"delta\":{\"content\":\"y\"}}]}",
        "[DONE",
        "[DONE]x",
        "[DOLE]",
    ]);
    assert_eq!(seen.degraded, [Degraded::Malformed; 5]);
    assert_eq!(seen.tokens(), [(3, 0, TEXT)]);
    assert!(!seen.has_terminal());
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

// P096, P098
#[test]
fn an_event_named_error_is_one_whatever_it_holds() {
    for stream in [
        "event: error\ndata: {\"detail\":\"x\"}\n\n",
        "event: error\ndata: oops\n\n",
        "error: {\"code\":500}\n\n",
    ] {
        let seen = sse("openai_chat", &[stream]);
        assert!(seen.has_error(), "{stream}");
        assert_eq!((seen.events.len(), seen.degraded), (1, vec![]), "{stream}");
    }
}

// P097, P100
#[test]
fn the_end_marker_is_a_terminal_signal_with_any_white_space_around_it() {
    for data in ["[DONE]", " [DONE]", "[DONE] ", "[DONE]\t \r"] {
        let seen = sse("openai_chat", &[&format!("data:{data}\n\n")]);
        assert!(seen.has_terminal() && seen.tokens().is_empty(), "{data:?}");
        assert_eq!(seen.degraded, []);
    }
}

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

// P068
#[test]
fn lines_of_json_are_events_wherever_they_are_cut() {
    let mut decoder = Decoder::new(Some(format("ollama")), Some("application/x-ndjson"), None, None);
    let mut seen = Seen::default();
    for (at, read) in [
        (1, "{\"message\":{\"content\":\"he"),
        (
            2,
            "llo\"},\"done\":false}\n{\"message\":{\"content\":\"!\"},\"done\":false}\n",
        ),
        (3, "\n{\"done\":true,\"eval_count\":2}"),
    ] {
        decoder.feed(Stamp::from_nanos(at), read.as_bytes(), &mut seen);
    }
    assert!(!seen.has_terminal());
    decoder.finish(Stamp::from_nanos(4), &mut seen);
    assert_eq!(seen.tokens(), [(2, 0, TEXT), (2, 0, TEXT)]);
    assert_eq!(seen.events.last().map(|(at, f)| (*at, f.terminal)), Some((4, true)));
}

// P069
#[test]
fn a_compressed_stream_reads_like_a_plain_one() {
    use std::io::Write;
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    let event = "data: {\"choices\":[{\"delta\":{\"content\":\"y\"}}]}\n\n";
    let mut ends = vec![0];
    for _ in 0..3 {
        gzip.write_all(event.as_bytes()).and_then(|()| gzip.flush()).expect("memory");
        ends.push(gzip.get_ref().len());
    }
    let mut decoder = Decoder::new(Some(format("openai_chat")), Some("text/event-stream"), Some("gzip"), None);
    let mut seen = Seen::default();
    for (at, piece) in (1..).zip(ends.windows(2)) {
        let (first, rest) = gzip.get_ref()[piece[0]..piece[1]].split_at(1);
        decoder.feed(Stamp::from_nanos(at * 10), first, &mut seen);
        decoder.feed(Stamp::from_nanos(at * 10 + 1), rest, &mut seen);
    }
    assert_eq!(seen.tokens(), [(11, 0, TEXT), (21, 0, TEXT), (31, 0, TEXT)]);
}

// P069
#[test]
fn a_coding_that_cannot_be_read_degrades_once_and_is_known() {
    let mut decoder = Decoder::new(Some(format("openai_chat")), Some("text/event-stream"), Some("gzip, br"), None);
    let mut seen = Seen::default();
    assert!(decoder.is_stream() && !decoder.is_reading());
    for at in 1..4 {
        decoder.feed(Stamp::from_nanos(at), b"\x1f\x8b\x08 garbage", &mut seen);
    }
    assert_eq!((seen.degraded, seen.events.len()), (vec![Degraded::Encoding], 0));
}

// P016
#[test]
fn the_content_type_decides_without_case_and_parameters() {
    let kind = |name: &str, content_type: Option<&str>, requested: Option<bool>| {
        let decoder = Decoder::new(Some(format(name)), content_type, None, requested);
        (decoder.is_stream(), decoder.is_reading())
    };
    let (stream, whole, opaque) = ((true, true), (false, true), (false, false));
    for (name, content_type, requested, expected) in [
        ("openai_chat", Some("Text/Event-Stream;charset=UTF-8"), None, stream),
        ("openai_chat", Some(" text/event-stream ; x"), Some(false), stream),
        ("openai_chat", Some("application/json"), Some(true), whole),
        ("openai_chat", Some("Application/JSON; charset=utf-8"), None, whole),
        ("openai_chat", Some("application/problem+json"), None, whole),
        ("openai_chat", Some("text/html"), Some(true), opaque),
        ("openai_chat", None, Some(true), stream),
        ("openai_chat", None, None, whole),
        ("ollama", Some("application/x-ndjson"), None, stream),
        ("ollama", Some("application/jsonl"), Some(false), stream),
        ("ollama", Some("application/json; charset=utf-8"), None, stream),
        ("ollama", Some("application/json; charset=utf-8"), Some(false), whole),
    ] {
        assert_eq!(
            kind(name, content_type, requested),
            expected,
            "{name} {content_type:?} {requested:?}"
        );
    }
    let without = Decoder::new(None, Some("text/event-stream"), Some("gzip"), None);
    assert_eq!((without.is_stream(), without.is_reading()), (true, false));
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

#[test]
fn a_decoder_can_move_between_threads() {
    fn is_send<T: Send>() {}
    is_send::<Decoder>();
}
