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

/// Gathers facts from the scanner's visits; bounded size, no content.
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
    input: [Option<u64>; Count::INPUT_PARTS.len()],
    /// The usage of the replies in a list of them, summed.
    total: Usage,
    /// Per choice, the length of the cumulative text, and whether a shorter one has shown it not to be cumulative. Most formats
    /// have no such text, and need no memory for it.
    text_len: Option<Box<[u64; MAX_FRAGMENTS]>>,
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

/// Token counts, each there or not: a stream keeps three sets of them, and options would be twice the size.
#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    /// One bit for each [`Count`] that is there.
    given: u8,
    values: [u64; Count::ALL.len()],
}

impl Counts {
    fn clear(&mut self) {
        self.given = 0;
    }

    fn get(&self, count: Count) -> Option<u64> {
        (self.given & 1 << count as u8 != 0).then_some(self.values[count as usize])
    }

    fn set(&mut self, count: Count, value: Option<u64>) {
        match value {
            Some(value) => {
                self.given |= 1 << count as u8;
                self.values[count as usize] = value;
            }
            None => self.given &= !(1 << count as u8),
        }
    }

    /// The usage these counts make. None when there is nothing but zeros: some servers send an empty or zero usage in every event.
    fn usage(&self) -> Option<Usage> {
        if self.given == 0 {
            return None;
        }
        let parts = Count::INPUT_PARTS.map(|count| self.get(count));
        let sum = || parts.iter().flatten().fold(0u64, |sum, n| sum.saturating_add(*n));
        let usage = Usage {
            prompt: self.get(Count::Prompt).or_else(|| self.get(Count::Uncached).map(|_| sum())),
            output: self.get(Count::Output),
            reasoning: self.get(Count::Reasoning),
            cached: self.get(Count::Cached).or(self.get(Count::CacheRead)),
        };
        (usage.prompt.unwrap_or(0) > 0 || usage.output.unwrap_or(0) > 0).then_some(usage)
    }

    /// Gives `kept` the input parts that are there, and takes from it those that are not: they arrive in different events.
    fn carry_input(&mut self, kept: &mut [Option<u64>; Count::INPUT_PARTS.len()]) {
        if Count::INPUT_PARTS.iter().all(|count| self.get(*count).is_none()) {
            return;
        }
        for (count, kept) in Count::INPUT_PARTS.into_iter().zip(kept) {
            *kept = self.get(count).or(*kept);
            self.set(count, *kept);
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
            input: [None; Count::INPUT_PARTS.len()],
            total: Usage::default(),
            text_len: None,
            increments: false,
        }
    }

    /// Forgets the last event, or the one under way.
    pub(crate) fn reset(&mut self) {
        self.facts.clear();
        self.choice = Choice::default();
        self.kind = None;
        self.delta = false;
        self.usage.clear();
        self.timings.clear();
    }

    /// What the last event said, until the next one is read.
    #[inline]
    pub(crate) fn said(&self) -> &EventFacts {
        &self.facts
    }

    /// The same, in an event that its framing calls an error.
    pub(crate) fn said_as_error(&mut self) -> &EventFacts {
        self.facts.error = true;
        &self.facts
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
        self.usage.carry_input(&mut self.input);
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
            usage: self.total,
            has_output: self.facts.is_token_bearing(),
            error: self.facts.error,
        }
    }

    /// A reply is through: the only one, or one of a list.
    fn end_reply(&mut self) {
        if let Some(usage) = self.event().usage.take() {
            let add = |a: Option<u64>, b: Option<u64>| a.map_or(b, |a| Some(a.saturating_add(b.unwrap_or(0))));
            let before = self.total;
            self.total = Usage {
                prompt: add(before.prompt, usage.prompt),
                output: add(before.output, usage.output),
                reasoning: add(before.reasoning, usage.reasoning),
                cached: add(before.cached, usage.cached),
            };
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
        let lens = self.text_len.get_or_insert_default();
        let place = usize::try_from(choice).ok().and_then(|i| lens.get_mut(i));
        let Some(before) = place else { return len > 0 };
        let (was, now) = (std::mem::replace(before, len), len);
        self.increments |= now < was;
        now > 0 && (now != was || self.increments)
    }
}
