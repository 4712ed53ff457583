//! What the values at a format's paths add up to: the facts of one event, or of a whole reply.
//!
//! A key given twice: counts and kinds take the last, text and flags take any.

mod visit;

use super::WholeFacts;
use super::format::{Act, Count, Format, Kind, Row};
use super::trie::Trie;
use crate::measure::{Channel, EventFacts, MAX_FRAGMENTS, Usage};
pub(crate) use visit::Visit;

/// A format's tables, compiled.
#[derive(Debug)]
pub(crate) struct Tables {
    /// For streamed events.
    pub(crate) event: Trie<Act>,
    /// For whole replies.
    pub(crate) whole: Trie<Act>,
    /// Whether choices are a list in the reply; else the reply is one choice.
    has_choices: bool,
}

impl Tables {
    /// The compiled tables of `format`.
    pub(crate) fn of(format: &'static Format) -> &'static Self {
        format.tables.get_or_init(|| {
            let with = |rows: &'static [Row]| Trie::compile(format.common.iter().chain(rows).copied());
            Self {
                event: with(format.event),
                // Native APIs answer a list of prompts with a list of replies.
                whole: Trie::compile(format.common.iter().chain(format.whole).copied().chain([("", Act::Reply)]))
                    .with_root_repeated(),
                has_choices: format.common.iter().any(|(_, act)| *act == Act::Choice),
            }
        })
    }
}

/// Gathers facts from the scanner's visits; fixed size, no content.
#[derive(Debug)]
pub(crate) struct Reader {
    format: &'static Format,
    has_choices: bool,
    facts: EventFacts,
    choice: Choice,
    kind: Option<Kind>,
    /// The string whose channel the kind decides was not empty.
    delta: bool,
    usage: Counts,
    timings: Counts,
    /// What the whole reply said before: its model, a usage, the input side of a usage that comes in parts.
    model_seen: bool,
    usage_seen: bool,
    input: Counts,
    /// The usage of the replies in a list of them, summed.
    total: Option<Usage>,
    /// Per choice, the length of the cumulative text, and whether a shorter one has shown it not to be cumulative.
    text_len: [u64; MAX_FRAGMENTS],
    increments: bool,
}

/// The choice being read.
#[derive(Clone, Copy, Debug, Default)]
struct Choice {
    index: u32,
    channels: [bool; 4],
    finished: bool,
    cumulative: Option<(u64, Channel)>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    prompt: Option<u64>,
    uncached: Option<u64>,
    cache_read: Option<u64>,
    cache_write: Option<u64>,
    cached: Option<u64>,
    output: Option<u64>,
    reasoning: Option<u64>,
}

impl Counts {
    fn set(&mut self, count: Count, value: Option<u64>) {
        *match count {
            Count::Prompt => &mut self.prompt,
            Count::Uncached => &mut self.uncached,
            Count::CacheRead => &mut self.cache_read,
            Count::CacheWrite => &mut self.cache_write,
            Count::Cached => &mut self.cached,
            Count::Output => &mut self.output,
            Count::Reasoning => &mut self.reasoning,
        } = value;
    }

    /// The usage these counts make. None when there is nothing but zeros: some servers send an empty or zero usage in every event.
    fn usage(&self) -> Option<Usage> {
        let parts = [self.uncached, self.cache_read, self.cache_write];
        let sum = || parts.iter().flatten().fold(0u64, |sum, n| sum.saturating_add(*n));
        let usage = Usage {
            prompt: self.prompt.or_else(|| self.uncached.map(|_| sum())),
            output: self.output,
            reasoning: self.reasoning,
            cached: self.cached.or(self.cache_read),
        };
        (usage.prompt.unwrap_or(0) > 0 || usage.output.unwrap_or(0) > 0).then_some(usage)
    }

    /// Takes over the input parts that `later` has, and gives it those it lacks: they arrive in different events.
    fn carry_input(&mut self, later: &mut Self) {
        if later.uncached.or(later.cache_read).or(later.cache_write).is_none() {
            return;
        }
        for (kept, new) in [
            (&mut self.uncached, &mut later.uncached),
            (&mut self.cache_read, &mut later.cache_read),
            (&mut self.cache_write, &mut later.cache_write),
        ] {
            *new = new.or(*kept);
            *kept = *new;
        }
    }
}

impl Reader {
    pub(crate) fn new(format: &'static Format) -> Self {
        Self {
            format,
            has_choices: Tables::of(format).has_choices,
            facts: EventFacts::default(),
            choice: Choice::default(),
            kind: None,
            delta: false,
            usage: Counts::default(),
            timings: Counts::default(),
            model_seen: false,
            usage_seen: false,
            input: Counts::default(),
            total: None,
            text_len: [0; MAX_FRAGMENTS],
            increments: false,
        }
    }

    /// Forgets the event under way.
    pub(crate) fn reset(&mut self) {
        self.facts = EventFacts::default();
        self.choice = Choice::default();
        self.kind = None;
        self.delta = false;
        self.usage = Counts::default();
        self.timings = Counts::default();
    }

    /// What the event under way says, for another with the same frame.
    pub(crate) fn said(&self) -> Said {
        Said {
            facts: self.facts,
            choice: self.choice,
            kind: self.kind,
            delta: self.delta,
        }
    }

    /// The event under way says what another with the same frame said.
    #[inline]
    pub(crate) fn say(&mut self, said: &Said) {
        self.facts = said.facts;
        self.choice = said.choice;
        self.kind = said.kind;
        self.delta = said.delta;
    }

    /// The event's JSON is through: what it said.
    pub(crate) fn event(&mut self) -> &mut EventFacts {
        if !self.has_choices {
            self.end_choice();
        }
        let only = self.choice.index;
        match self.kind {
            Some(Kind::Delta(channel)) if self.delta => {
                self.facts.fragment(only, channel);
                self.facts.name_choice(only);
            }
            Some(Kind::Done) => {
                self.facts.terminal = true;
                self.facts.finish(only);
                self.facts.name_choice(only);
            }
            Some(Kind::Terminal) => self.facts.terminal = true,
            Some(Kind::Error) => self.facts.error = true,
            Some(Kind::Delta(_)) | None => {}
        }
        self.input.carry_input(&mut self.usage);
        self.facts.usage = self.usage.usage();
        self.usage_seen |= self.facts.usage.is_some();
        if !self.usage_seen {
            self.facts.usage = self.timings.usage();
        }
        if self.facts.usage.is_some() && !self.has_choices {
            self.facts.name_choice(only);
        }
        &mut self.facts
    }

    /// The same, for an event that its framing calls an error.
    pub(crate) fn error_event(&mut self) -> &EventFacts {
        let facts = self.event();
        facts.error = true;
        facts
    }

    /// The same, for an event that is the terminal signal.
    pub(crate) fn terminal_event(&mut self) -> &EventFacts {
        let facts = self.event();
        facts.terminal = true;
        facts
    }

    /// The whole reply is through: what it said.
    pub(crate) fn whole(&mut self) -> WholeFacts {
        WholeFacts {
            usage: self.total.unwrap_or_default(),
            has_output: self.facts.is_token_bearing(),
            error: self.facts.error,
        }
    }

    /// A reply is through: the only one, or one of a list.
    fn end_reply(&mut self) {
        if let Some(usage) = self.event().usage.take() {
            let add = |a: Option<u64>, b: Option<u64>| a.map_or(b, |a| Some(a.saturating_add(b.unwrap_or(0))));
            let before = self.total.unwrap_or_default();
            self.total = Some(Usage {
                prompt: add(before.prompt, usage.prompt),
                output: add(before.output, usage.output),
                reasoning: add(before.reasoning, usage.reasoning),
                cached: add(before.cached, usage.cached),
            });
        }
        self.choice = Choice::default();
        self.kind = None;
        self.usage = Counts::default();
        self.timings = Counts::default();
        self.usage_seen = false;
    }

    /// The choice under way is through.
    fn end_choice(&mut self) {
        let Choice {
            index,
            channels,
            finished,
            cumulative,
        } = self.choice;
        let mut named = self.has_choices || finished;
        if finished {
            self.facts.finish(index);
        }
        for channel in [Channel::Text, Channel::Tool, Channel::Refusal, Channel::Reasoning] {
            if channels[channel as usize] {
                self.facts.fragment(index, channel);
                named = true;
            }
        }
        if let Some((len, channel)) = cumulative {
            named = true;
            if self.grew(index, len) {
                self.facts.fragment(index, channel);
            }
        }
        if named {
            self.facts.name_choice(index);
        }
    }

    /// Whether a text that should hold everything so far has something new. A server that sends increments instead is found out
    /// by the first that is shorter than the one before; until then an increment of just the same length goes unseen.
    fn grew(&mut self, choice: u32, len: u64) -> bool {
        let place = usize::try_from(choice).ok().and_then(|i| self.text_len.get_mut(i));
        let Some(before) = place else { return len > 0 };
        let (was, now) = (std::mem::replace(before, len), len);
        self.increments |= now < was;
        now > 0 && (now != was || self.increments)
    }
}

/// What an event says as long as its frame and the channel of its text are the same: see [`super::frame`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct Said {
    facts: EventFacts,
    choice: Choice,
    kind: Option<Kind>,
    delta: bool,
}

impl Said {
    pub(crate) fn nothing() -> Self {
        Self {
            facts: EventFacts::default(),
            choice: Choice::default(),
            kind: None,
            delta: false,
        }
    }
}
