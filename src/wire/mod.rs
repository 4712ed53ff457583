//! PURE: how each API's replies and requests look on the wire, read without keeping them.
//!
//! One incremental JSON scanner serves request bodies, unary replies and stream events alike: constant memory, any split, any
//! size, any key order. A format is data: which paths hold what. [`FORMATS`] is the one place that lists them.

mod decoder;
mod events;
mod facts;
mod format;
mod formats;
mod frame;
pub(crate) mod fuzz;
mod inflate;
mod ndjson;
mod request;
mod scan;
mod sse;
mod trie;

pub use decoder::Decoder;
pub use format::{Format, Terminal};
pub use request::RequestScanner;

use std::sync::Arc;

use crate::measure::{Degraded, EventFacts, Stamp, Usage};

/// Every format.
pub static FORMATS: &[&Format] = &[
    &formats::openai_chat::FORMAT,
    &formats::openai_completions::FORMAT,
    &formats::openai_responses::FORMAT,
    &formats::anthropic::FORMAT,
    &formats::ollama::FORMAT,
    &formats::tgi::FORMAT,
    &formats::sglang::FORMAT,
    &formats::llamacpp::FORMAT,
    &formats::triton::FORMAT,
];

/// The format of the built-in LLM path `path` (no query), when it is one. Paths are compared exactly, as servers do.
pub fn format_for(path: &str) -> Option<&'static Format> {
    let takes = |pattern: &&str| {
        *pattern == path
            || pattern.split_once('*').is_some_and(|(head, tail)| {
                let run = path.strip_prefix(head).and_then(|rest| rest.strip_suffix(tail));
                run.is_some_and(|run| !run.is_empty())
            })
    };
    FORMATS.iter().copied().find(|f| f.paths.iter().any(takes))
}

/// What the top level of a request body said; gathered in constant memory while the body streams through.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RequestFacts {
    /// `model`, when a string of at most [`RequestFacts::MAX_MODEL`] bytes.
    pub model: Option<Arc<str>>,
    /// `stream`.
    pub stream: Option<bool>,
    /// `n` (choices asked for).
    pub n: Option<u64>,
    /// `max_tokens`, `max_completion_tokens`, `max_output_tokens`, `max_new_tokens`, `n_predict`: the last given.
    pub max_tokens: Option<u64>,
    /// Elements of `messages` (or of a list `input`).
    pub messages: Option<u64>,
    /// Elements of a list `prompt` of strings or token lists.
    pub prompts: Option<u64>,
    /// Elements of `tools`.
    pub tools: Option<u64>,
    /// Whether a non-null `response_format` was given.
    pub response_format: bool,
    /// `stream_options` was present in any form: the client decided for itself.
    pub stream_options: bool,
    /// `stream_options.include_usage`.
    pub include_usage: Option<bool>,
}

impl RequestFacts {
    /// Longest model name kept; a longer one counts as unknown.
    pub const MAX_MODEL: usize = 256;
}

/// What a decoder hands on, event by event.
pub trait EventSink {
    /// One complete event, whose last byte was read at `at`.
    fn event(&mut self, at: Stamp, facts: &EventFacts);
    /// The reply named its model.
    fn model(&mut self, name: &str);
    /// Some part could not be read.
    fn degraded(&mut self, why: Degraded);
}

/// What a unary reply said.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WholeFacts {
    /// Usage.
    pub usage: Usage,
    /// Some choice holds non-empty text, reasoning, a refusal or a tool call.
    pub has_output: bool,
    /// A truthy error object.
    pub error: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_built_in_path_has_its_format_and_no_other_has_one() {
        for (path, name) in [
            ("/v1/chat/completions", Some("openai_chat")),
            ("/v1/completions", Some("openai_completions")),
            ("/v1/responses", Some("openai_responses")),
            ("/v1/messages", Some("anthropic")),
            ("/api/chat", Some("ollama")),
            ("/api/generate", Some("ollama")),
            ("/generate_stream", Some("tgi")),
            ("/generate", Some("sglang")),
            ("/completion", Some("llamacpp")),
            ("/v2/models/m/generate", Some("triton")),
            ("/v2/models/m/versions/1/generate_stream", Some("triton")),
            ("/v2/models//generate", None),
            ("/v2/models/m/infer", None),
            ("/v1/messages/count_tokens", None),
            ("/v1/responses/resp_1", None),
            ("/v1/chat/completions/", None),
            ("/v1/embeddings", None),
            ("", None),
        ] {
            assert_eq!(format_for(path).map(|f| f.name), name, "{path}");
        }
    }

    #[test]
    fn format_names_are_unique() {
        let mut names: Vec<_> = FORMATS.iter().map(|f| f.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), FORMATS.len());
    }
}
