//! Triton's generate extension: `text_output` events, no usage and no terminal signal.

use std::sync::OnceLock;

use crate::measure::Channel::Text;
use crate::wire::format::{Act, Format, Terminal};

pub(crate) static FORMAT: Format = Format {
    name: "triton",
    api: "generate",
    paths: &["/v2/models/*/generate", "/v2/models/*/generate_stream"],
    terminal: Terminal::CleanEnd,
    lines: false,
    closing_usage: false,
    common: &[
        ("model_name", Act::Model),
        ("error", Act::Error),
        ("text_output", Act::Token(Text)),
    ],
    event: &[],
    whole: &[],
    kinds: &[],
    tables: OnceLock::new(),
};
