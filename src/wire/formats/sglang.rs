//! SGLang, native: every event repeats all text so far and the running counts, unless the server was told to send increments.
//!
//! `/generate` is also the path of TGI's unary reply, so that shape is read here too; TGI streams on a path of its own.

use std::sync::OnceLock;

use crate::measure::Channel::Text;
use crate::wire::format::{Act, Count, Format, Terminal};

pub(crate) static FORMAT: Format = Format {
    name: "sglang",
    api: "generate",
    paths: &["/generate"],
    terminal: Terminal::Signal,
    lines: false,
    closing_usage: true,
    common: &[
        ("error", Act::Error),
        ("index", Act::ChoiceIndex),
        ("meta_info.finish_reason", Act::Finish),
        ("meta_info.prompt_tokens", Act::Count(Count::Prompt)),
        ("meta_info.cached_tokens", Act::Count(Count::Cached)),
        ("meta_info.completion_tokens", Act::Count(Count::Output)),
    ],
    event: &[("text", Act::Cumulative(Text))],
    whole: &[
        ("text", Act::Token(Text)),
        ("generated_text", Act::Token(Text)),
        ("details.generated_tokens", Act::Count(Count::Output)),
    ],
    kinds: &[],
    tables: OnceLock::new(),
};
