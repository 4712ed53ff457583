//! What a wire format is: data. Tables of paths and what the value found there means, for streamed events and for whole replies.
//!
//! The scanner walks a trie compiled from these tables once; [`super::facts`] gives each [`Act`] its meaning. Nothing here knows
//! any server by name: that is what the files in `formats/` are for.

use std::sync::OnceLock;

use super::facts::Tables;
use crate::measure::Channel;

/// One wire format: a row of [`super::FORMATS`].
#[derive(Debug)]
pub struct Format {
    /// Name in configuration and fixtures (`openai_chat`).
    pub name: &'static str,
    /// The value of the `api` label (`chat`).
    pub api: &'static str,
    /// The built-in paths it answers on; `*` stands for any run of characters.
    pub paths: &'static [&'static str],
    /// When a stream counts as complete.
    pub terminal: Terminal,
    /// Whether a request that does not say `stream` gets a stream, and whether that stream is lines of JSON even when the reply
    /// calls itself `application/json`.
    pub lines: bool,
    /// Whether its streams close with the server's own token count, asked for or not.
    pub closing_usage: bool,
    /// Paths that mean the same in events and in whole replies.
    pub(crate) common: &'static [Row],
    /// Paths of a streamed event.
    pub(crate) event: &'static [Row],
    /// Paths of a whole reply.
    pub(crate) whole: &'static [Row],
    /// What the value at [`Act::Kind`] says about an event.
    pub(crate) kinds: &'static [(&'static str, Kind)],
    /// The tables above, compiled on first use.
    pub(crate) tables: OnceLock<Tables>,
}

/// When a stream that ended cleanly is complete.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Terminal {
    /// With the format's terminal signal, or once every choice gave a finish reason; else it is unterminated.
    Signal,
    /// The format has no terminal signal: a clean end suffices.
    CleanEnd,
}

/// A path and what its value means. Keys are joined by `.`; `[]` after a key stands for each element of an array.
pub(crate) type Row = (&'static str, Act);

/// What the value at a path means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Act {
    /// The model's name.
    Model,
    /// The event's type, looked up in the format's `kinds`.
    Kind,
    /// A whole reply, or one of a list of them.
    Reply,
    /// One element of a list of choices: its paths belong to one choice.
    Choice,
    /// The choice's index; directly below the root it is the index of the event's only choice.
    ChoiceIndex,
    /// A non-empty string is a token-bearing fragment.
    Token(Channel),
    /// A string that holds all text so far: a token-bearing fragment when it changed.
    Cumulative(Channel),
    /// A non-empty string is a fragment of the channel that the event's kind names.
    Delta,
    /// A finish reason, when neither null nor empty.
    Finish,
    /// The terminal signal, when neither null nor false.
    Terminal,
    /// Both of these.
    FinishTerminal,
    /// An error, when truthy: not null, false, 0, `""`, `{}` or `[]`.
    Error,
    /// The object that holds the usage: given twice, the last one counts.
    Usage,
    /// A token count of the usage.
    Count(Count),
    /// A token count of the server's timings: stands in where no usage was ever given.
    Timing(Count),
}

/// Which token count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Count {
    /// Prompt tokens, cached ones included.
    Prompt,
    /// Prompt tokens without those read from or written to a cache; the prompt is the sum of the three.
    Uncached,
    /// Prompt tokens read from a cache, on top of `Uncached`.
    CacheRead,
    /// Prompt tokens written to a cache, on top of `Uncached`.
    CacheWrite,
    /// Prompt tokens read from a cache, inside `Prompt`.
    Cached,
    /// Output tokens.
    Output,
    /// Reasoning tokens, inside `Output`.
    Reasoning,
}

impl Count {
    /// Every count.
    pub(crate) const ALL: [Self; 7] = [
        Self::Prompt,
        Self::Uncached,
        Self::CacheRead,
        Self::CacheWrite,
        Self::Cached,
        Self::Output,
        Self::Reasoning,
    ];
    /// The parts of a prompt that is said in parts.
    pub(crate) const INPUT_PARTS: [Self; 3] = [Self::Uncached, Self::CacheRead, Self::CacheWrite];
}

/// What an event's type says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// The string at [`Act::Delta`] belongs to this channel.
    Delta(Channel),
    /// The terminal signal, and the finish of the only choice.
    Done,
    /// The terminal signal.
    Terminal,
    /// The format's error event.
    Error,
}
