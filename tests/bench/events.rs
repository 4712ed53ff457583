//! Streams of typical events, one for each wire format, for the counts of this folder.

use goodput_proxy::measure::{Degraded, EventFacts, Stamp};
use goodput_proxy::wire::{Decoder, EventSink, FORMATS};

/// Format, content type, and an event around `{}`, which stands for what differs from event to event.
pub(crate) const TYPICAL: &[(&str, &str, &str)] = &[
    (
        "openai_chat",
        "text/event-stream",
        r#"{"id":"chatcmpl-8f0a4c1e5b7d4e5f9a3b2c1d0e9f8a7b","object":"chat.completion.chunk","created":1730000000,"model":"org/model-70b-instruct","choices":[{"index":0,"delta":{"content":" {}"},"logprobs":null,"finish_reason":null}],"usage":null}"#,
    ),
    (
        "openai_completions",
        "text/event-stream",
        r#"{"id":"cmpl-8f0a4c1e5b7d4e5f9a3b2c1d0e9f8a7b","object":"text_completion","created":1730000000,"model":"org/model-70b","choices":[{"index":0,"text":" {}","logprobs":null,"finish_reason":null,"stop_reason":null}],"usage":null}"#,
    ),
    (
        "openai_responses",
        "text/event-stream",
        r#"{"type":"response.output_text.delta","sequence_number":42,"item_id":"msg_8f0a4c1e5b7d","output_index":0,"content_index":0,"delta":" {}","logprobs":[]}"#,
    ),
    (
        "anthropic",
        "text/event-stream",
        r#"{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":" {}"}}"#,
    ),
    (
        "ollama",
        "application/x-ndjson",
        r#"{"model":"llama3","created_at":"2024-10-27T03:33:20.{}Z","message":{"role":"assistant","content":" tok"},"done":false}"#,
    ),
    (
        "tgi",
        "text/event-stream",
        r#"{"index":7,"token":{"id":{},"text":" tok","logprob":-0.5,"special":false},"generated_text":null,"details":null}"#,
    ),
    (
        "sglang",
        "text/event-stream",
        r#"{"text":" {}","output_ids":[1],"meta_info":{"id":"a","finish_reason":null,"prompt_tokens":5,"completion_tokens":7}}"#,
    ),
    (
        "llamacpp",
        "text/event-stream",
        r#"{"index":0,"content":" {}","tokens":[1],"stop":false,"id_slot":-1,"tokens_predicted":7,"tokens_evaluated":5}"#,
    ),
    (
        "triton",
        "text/event-stream",
        r#"{"model_name":"ensemble","model_version":"1","sequence_end":false,"sequence_id":0,"sequence_start":false,"text_output":" {}"}"#,
    ),
];

/// `count` events of a row of [`TYPICAL`], framed, each in a piece of its own.
pub(crate) fn stream(row: &(&str, &str, &str), count: usize) -> Vec<Vec<u8>> {
    let (_, content_type, event) = row;
    let sse = *content_type == "text/event-stream";
    (0..count)
        .map(|i| {
            let event = event.replace("{}", &format!("{}", 1000 + i));
            if sse {
                format!("data: {event}\n\n")
            } else {
                format!("{event}\n")
            }
            .into_bytes()
        })
        .collect()
}

/// A decoder for a row of [`TYPICAL`].
pub(crate) fn decoder(row: &(&str, &str, &str)) -> Decoder {
    let format = FORMATS.iter().find(|f| f.name == row.0).expect("a format of that name");
    Decoder::new(Some(format), Some(row.1), None, Some(true))
}

/// Counts events and tokens.
#[derive(Debug, Default)]
pub(crate) struct Counted {
    pub(crate) events: usize,
    pub(crate) tokens: usize,
}

impl EventSink for Counted {
    fn event(&mut self, _at: Stamp, facts: &EventFacts) {
        self.events += 1;
        self.tokens += usize::from(facts.is_token_bearing());
    }

    fn model(&mut self, _name: &str) {}

    fn degraded(&mut self, why: Degraded) {
        panic!("not read: {why:?}");
    }
}
