//! Text Generation Inference, native: `data:` without a space, no `[DONE]`, one event per generated token (special ones too), and
//! a last event whose `generated_text` is not null. `index` counts tokens, not choices.

use std::sync::OnceLock;

use crate::measure::Channel::Text;
use crate::wire::format::{Act, Count, Format, Terminal};

pub(crate) static FORMAT: Format = Format {
    name: "tgi",
    api: "generate",
    paths: &["/generate_stream"],
    terminal: Terminal::Signal,
    lines: false,
    closing_usage: true,
    common: &[
        ("error", Act::Error),
        ("details.finish_reason", Act::Finish),
        ("details.generated_tokens", Act::Count(Count::Output)),
        ("details.input_length", Act::Count(Count::Prompt)),
    ],
    event: &[("token.text", Act::Token(Text)), ("generated_text", Act::Terminal)],
    whole: &[("generated_text", Act::Token(Text))],
    kinds: &[],
    tables: OnceLock::new(),
};
