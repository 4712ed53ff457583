//! Streams of typical events, one for each wire format, for the counts of this folder.

/// The events of one format.
#[derive(Debug)]
pub(crate) struct Typical {
    /// Name of the row, and the format: a row may be a second one of the same format.
    pub(crate) name: &'static str,
    pub(crate) format: &'static str,
    /// What comes before the JSON; none for lines of JSON.
    framing: Option<&'static str>,
    /// The JSON: `{}` stands for a number of four digits that grows, `{+}` for a text of another length than the one before.
    event: &'static str,
}

const DATA: Option<&str> = Some("data: ");

/// One row for each format, and then others.
pub(crate) const TYPICAL: &[Typical] = &[
    Typical {
        name: "chat",
        format: "openai_chat",
        framing: DATA,
        event: r#"{"id":"chatcmpl-8f0a4c1e5b7d4e5f9a3b2c1d0e9f8a7b","object":"chat.completion.chunk","created":1730000000,"model":"org/model-70b-instruct","choices":[{"index":0,"delta":{"content":" {}"},"logprobs":null,"finish_reason":null}],"usage":null}"#,
    },
    Typical {
        name: "completions",
        format: "openai_completions",
        framing: DATA,
        event: r#"{"id":"cmpl-8f0a4c1e5b7d4e5f9a3b2c1d0e9f8a7b","object":"text_completion","created":1730000000,"model":"org/model-70b","choices":[{"index":0,"text":" {}","logprobs":null,"finish_reason":null,"stop_reason":null}],"usage":null}"#,
    },
    Typical {
        name: "responses",
        format: "openai_responses",
        framing: Some("event: response.output_text.delta\ndata: "),
        event: r#"{"type":"response.output_text.delta","sequence_number":{},"item_id":"msg_8f0a4c1e5b7d","output_index":0,"content_index":0,"delta":" {}","logprobs":[]}"#,
    },
    Typical {
        name: "messages",
        format: "anthropic",
        framing: Some("event: content_block_delta\ndata: "),
        event: r#"{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":" {}"}}"#,
    },
    Typical {
        name: "ollama",
        format: "ollama",
        framing: None,
        event: r#"{"model":"llama3.2","created_at":"2024-10-27T03:33:20.19{}Z","message":{"role":"assistant","content":" tok"},"done":false}"#,
    },
    Typical {
        name: "tgi",
        format: "tgi",
        framing: Some("data:"),
        event: r#"{"index":{},"token":{"id":{},"text":" tok","logprob":-0.5087,"special":false},"generated_text":null,"details":null}"#,
    },
    Typical {
        name: "sglang, all text so far",
        format: "sglang",
        framing: DATA,
        event: r#"{"text":"{+}","output_ids":[{}],"meta_info":{"id":"4f1c8d0e2b7a","finish_reason":null,"prompt_tokens":5,"cached_tokens":0,"completion_tokens":{}}}"#,
    },
    Typical {
        name: "llama.cpp",
        format: "llamacpp",
        framing: DATA,
        event: r#"{"index":0,"content":" {}","tokens":[{}],"stop":false,"id_slot":0,"tokens_predicted":{},"tokens_evaluated":5}"#,
    },
    Typical {
        name: "triton",
        format: "triton",
        framing: DATA,
        event: r#"{"model_name":"ensemble","model_version":"1","sequence_end":false,"sequence_id":0,"sequence_start":false,"text_output":" {}"}"#,
    },
    Typical {
        name: "chat, an id an event",
        format: "openai_chat",
        framing: DATA,
        event: r#"{"id":"chatcmpl-{}","object":"chat.completion.chunk","created":1730000000,"model":"org/model-70b-instruct","choices":[{"index":0,"delta":{"content":" tok"},"logprobs":null,"finish_reason":null}],"usage":null}"#,
    },
    Typical {
        name: "chat, usage in every event",
        format: "openai_chat",
        framing: DATA,
        event: r#"{"id":"chatcmpl-8f0a4c1e5b7d","object":"chat.completion.chunk","created":1730000000,"model":"org/model-70b-instruct","choices":[{"index":0,"delta":{"content":" tok"},"finish_reason":null}],"usage":{"prompt_tokens":42,"total_tokens":{},"completion_tokens":{}}}"#,
    },
    Typical {
        name: "chat, top 2 logprobs",
        format: "openai_chat",
        framing: DATA,
        event: r#"{"id":"chatcmpl-8f0a4c1e5b7d","object":"chat.completion.chunk","created":1730000000,"model":"m","choices":[{"index":0,"delta":{"content":" {}"},"logprobs":{"content":[{"token":" {}","logprob":-0.0{},"bytes":[32,49,48,48],"top_logprobs":[{"token":" {}","logprob":-0.0{},"bytes":[32,49,48,48]},{"token":" the","logprob":-3.17{},"bytes":[32,116,104,101]}]}]},"finish_reason":null}]}"#,
    },
];

impl Typical {
    /// `count` events, framed, each in a piece of its own.
    pub(crate) fn stream(&self, count: usize) -> Vec<Vec<u8>> {
        let event = |i: usize| {
            let json = self
                .event
                .replace("{}", &(1000 + i).to_string())
                .replace("{+}", &" token".repeat(1 + i % 40));
            match self.framing {
                Some(before) => format!("{before}{json}\n\n"),
                None => format!("{json}\n"),
            }
        };
        (0..count).map(|i| event(i).into_bytes()).collect()
    }
}
