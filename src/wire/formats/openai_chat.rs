//! OpenAI chat completions, as vLLM, llama-server, SGLang, TensorRT-LLM, TGI and the vendors speak it.
//!
//! Reasoning comes as `reasoning` (vLLM) or `reasoning_content` (llama-server, SGLang, TensorRT-LLM). Older vLLM put an error into
//! the stream without an `error` key but with `object: "error"`.

use std::sync::OnceLock;

use crate::measure::Channel::{Reasoning, Refusal, Text, Tool};
use crate::wire::format::{Act, Count, Format, Kind, Row, Terminal};

pub(crate) static FORMAT: Format = Format {
    name: "openai_chat",
    api: "chat",
    paths: &["/v1/chat/completions"],
    terminal: Terminal::Signal,
    lines: false,
    closing_usage: false,
    common: COMMON,
    event: &[
        ("choices[].delta.content", Act::Token(Text)),
        ("choices[].delta.reasoning_content", Act::Token(Reasoning)),
        ("choices[].delta.reasoning", Act::Token(Reasoning)),
        ("choices[].delta.refusal", Act::Token(Refusal)),
        ("choices[].delta.tool_calls[].function.name", Act::Token(Tool)),
        ("choices[].delta.tool_calls[].function.arguments", Act::Token(Tool)),
        ("choices[].delta.tool_calls[].custom.name", Act::Token(Tool)),
        ("choices[].delta.tool_calls[].custom.input", Act::Token(Tool)),
        ("choices[].delta.function_call.name", Act::Token(Tool)),
        ("choices[].delta.function_call.arguments", Act::Token(Tool)),
    ],
    whole: &[
        ("choices[].message.content", Act::Token(Text)),
        ("choices[].message.content[].text", Act::Token(Text)),
        ("choices[].message.reasoning_content", Act::Token(Reasoning)),
        ("choices[].message.reasoning", Act::Token(Reasoning)),
        ("choices[].message.refusal", Act::Token(Refusal)),
        ("choices[].message.tool_calls[].function.name", Act::Token(Tool)),
        ("choices[].message.tool_calls[].function.arguments", Act::Token(Tool)),
        ("choices[].message.tool_calls[].custom.name", Act::Token(Tool)),
        ("choices[].message.tool_calls[].custom.input", Act::Token(Tool)),
        ("choices[].message.function_call.name", Act::Token(Tool)),
        ("choices[].message.function_call.arguments", Act::Token(Tool)),
    ],
    kinds: &[("error", Kind::Error)],
    tables: OnceLock::new(),
};

/// What chat and legacy completions share.
pub(super) const COMMON: &[Row] = &[
    ("object", Act::Kind),
    ("model", Act::Model),
    ("error", Act::Error),
    ("choices[]", Act::Choice),
    ("choices[].index", Act::ChoiceIndex),
    ("choices[].finish_reason", Act::Finish),
    ("usage", Act::Usage),
    ("usage.prompt_tokens", Act::Count(Count::Prompt)),
    ("usage.completion_tokens", Act::Count(Count::Output)),
    (
        "usage.completion_tokens_details.reasoning_tokens",
        Act::Count(Count::Reasoning),
    ),
    ("usage.prompt_tokens_details.cached_tokens", Act::Count(Count::Cached)),
    // Moonshot: the finish event's choice holds it.
    ("choices[].usage", Act::Usage),
    ("choices[].usage.prompt_tokens", Act::Count(Count::Prompt)),
    ("choices[].usage.completion_tokens", Act::Count(Count::Output)),
    // llama-server: the finish event carries these when nobody asked for usage. `prompt_n` leaves out what the cache gave.
    ("timings.prompt_n", Act::Timing(Count::Uncached)),
    ("timings.cache_n", Act::Timing(Count::CacheRead)),
    ("timings.predicted_n", Act::Timing(Count::Output)),
];
