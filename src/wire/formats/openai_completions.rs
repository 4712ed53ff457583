//! OpenAI legacy completions. llama-server opens with `data: null` for a list of prompts and puts usage into the finish event.

use std::sync::OnceLock;

use super::openai_chat::COMMON;
use crate::measure::Channel::Text;
use crate::wire::format::{Act, Format, Kind, Terminal};

pub(crate) static FORMAT: Format = Format {
    name: "openai_completions",
    api: "completions",
    paths: &["/v1/completions"],
    terminal: Terminal::Signal,
    lines: false,
    closing_usage: false,
    common: COMMON,
    event: &[("choices[].text", Act::Token(Text))],
    whole: &[("choices[].text", Act::Token(Text))],
    kinds: &[("error", Kind::Error)],
    tables: OnceLock::new(),
};
