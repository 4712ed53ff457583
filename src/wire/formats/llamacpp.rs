//! llama-server, native: `stop: true` ends a prompt. The token counts run along in every event; `index` is the prompt's place
//! when the request held several.

use std::sync::OnceLock;

use crate::measure::Channel::Text;
use crate::wire::format::{Act, Count, Format, Terminal};

pub(crate) static FORMAT: Format = Format {
    name: "llamacpp",
    api: "generate",
    paths: &["/completion"],
    terminal: Terminal::Signal,
    lines: false,
    closing_usage: true,
    common: &[
        ("model", Act::Model),
        ("error", Act::Error),
        ("index", Act::ChoiceIndex),
        ("content", Act::Token(Text)),
        ("tokens_predicted", Act::Count(Count::Output)),
        ("tokens_evaluated", Act::Count(Count::Prompt)),
    ],
    event: &[("stop", Act::FinishTerminal)],
    whole: &[],
    kinds: &[],
    tables: OnceLock::new(),
};
