//! OpenAI Responses: typed events. Only non-empty deltas bear tokens; `response.created`, `output_item.added` and the like are
//! structure. No server seen ends it with `[DONE]`.

use std::sync::OnceLock;

use crate::measure::Channel::{Reasoning, Refusal, Text, Tool};
use crate::wire::format::{Act, Count, Format, Kind, Terminal};

pub(crate) static FORMAT: Format = Format {
    name: "openai_responses",
    api: "responses",
    paths: &["/v1/responses"],
    terminal: Terminal::Signal,
    lines: false,
    closing_usage: true,
    common: &[("error", Act::Error)],
    event: &[
        ("type", Act::Kind),
        ("delta", Act::Delta),
        ("response.model", Act::Model),
        ("response.error", Act::Error),
        ("response.usage", Act::Usage),
        ("response.usage.input_tokens", Act::Count(Count::Prompt)),
        ("response.usage.output_tokens", Act::Count(Count::Output)),
        (
            "response.usage.output_tokens_details.reasoning_tokens",
            Act::Count(Count::Reasoning),
        ),
        ("response.usage.input_tokens_details.cached_tokens", Act::Count(Count::Cached)),
    ],
    whole: &[
        ("model", Act::Model),
        ("output[].content[].text", Act::Token(Text)),
        ("output[].content[].refusal", Act::Token(Refusal)),
        ("output[].summary[].text", Act::Token(Reasoning)),
        ("output[].name", Act::Token(Tool)),
        ("output[].arguments", Act::Token(Tool)),
        ("output[].input", Act::Token(Tool)),
        ("usage", Act::Usage),
        ("usage.input_tokens", Act::Count(Count::Prompt)),
        ("usage.output_tokens", Act::Count(Count::Output)),
        ("usage.output_tokens_details.reasoning_tokens", Act::Count(Count::Reasoning)),
        ("usage.input_tokens_details.cached_tokens", Act::Count(Count::Cached)),
    ],
    kinds: &[
        ("response.output_text.delta", Kind::Delta(Text)),
        ("response.refusal.delta", Kind::Delta(Refusal)),
        ("response.reasoning_text.delta", Kind::Delta(Reasoning)),
        ("response.reasoning_summary_text.delta", Kind::Delta(Reasoning)),
        ("response.function_call_arguments.delta", Kind::Delta(Tool)),
        ("response.custom_tool_call_input.delta", Kind::Delta(Tool)),
        ("response.mcp_call_arguments.delta", Kind::Delta(Tool)),
        ("response.completed", Kind::Done),
        ("response.incomplete", Kind::Done),
        ("response.failed", Kind::Error),
        ("error", Kind::Error),
    ],
    tables: OnceLock::new(),
};
