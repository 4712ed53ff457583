//! Anthropic messages: typed events. Usage is cumulative and comes in parts: `message_start` has the input, `message_delta` the
//! output so far; a field that is missing keeps its earlier value. `input_tokens` leaves out what a cache gave or took.

use std::sync::OnceLock;

use crate::measure::Channel::{Reasoning, Text, Tool};
use crate::wire::format::{Act, Count, Format, Kind, Terminal};

pub(crate) static FORMAT: Format = Format {
    name: "anthropic",
    api: "messages",
    paths: &["/v1/messages"],
    terminal: Terminal::Signal,
    lines: false,
    closing_usage: true,
    common: &[
        ("type", Act::Kind),
        ("error", Act::Error),
        ("usage", Act::Usage),
        ("usage.input_tokens", Act::Count(Count::Uncached)),
        ("usage.cache_read_input_tokens", Act::Count(Count::CacheRead)),
        ("usage.cache_creation_input_tokens", Act::Count(Count::CacheWrite)),
        ("usage.output_tokens", Act::Count(Count::Output)),
    ],
    event: &[
        ("delta.text", Act::Token(Text)),
        ("delta.thinking", Act::Token(Reasoning)),
        ("delta.partial_json", Act::Token(Tool)),
        ("delta.stop_reason", Act::Finish),
        ("message.model", Act::Model),
        ("message.usage", Act::Usage),
        ("message.usage.input_tokens", Act::Count(Count::Uncached)),
        ("message.usage.cache_read_input_tokens", Act::Count(Count::CacheRead)),
        ("message.usage.cache_creation_input_tokens", Act::Count(Count::CacheWrite)),
        ("message.usage.output_tokens", Act::Count(Count::Output)),
    ],
    whole: &[
        ("model", Act::Model),
        ("content[].text", Act::Token(Text)),
        ("content[].thinking", Act::Token(Reasoning)),
        ("content[].name", Act::Token(Tool)),
    ],
    kinds: &[("message_stop", Kind::Terminal), ("error", Kind::Error)],
    tables: OnceLock::new(),
};
