//! Ollama chat and generate: one JSON object a line, a stream unless the request says otherwise, `done: true` at the end.

use std::sync::OnceLock;

use crate::measure::Channel::{Reasoning, Text, Tool};
use crate::wire::format::{Act, Count, Format, Terminal};

pub(crate) static FORMAT: Format = Format {
    name: "ollama",
    api: "ollama",
    paths: &["/api/chat", "/api/generate"],
    terminal: Terminal::Signal,
    lines: true,
    closing_usage: true,
    common: &[
        ("model", Act::Model),
        ("error", Act::Error),
        ("message.content", Act::Token(Text)),
        ("message.thinking", Act::Token(Reasoning)),
        ("message.tool_calls[].function.name", Act::Token(Tool)),
        ("response", Act::Token(Text)),
        ("thinking", Act::Token(Reasoning)),
        ("done", Act::Terminal),
        ("done_reason", Act::Finish),
        ("prompt_eval_count", Act::Count(Count::Prompt)),
        ("eval_count", Act::Count(Count::Output)),
    ],
    event: &[],
    whole: &[],
    kinds: &[],
    tables: OnceLock::new(),
};
