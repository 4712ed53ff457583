//! What is kept per choice of one reply, and how the usage that a server reports adds up to one request's tokens.
//!
//! Within a choice usage is a running total: the last counts. Over choices it depends on who is speaking: see [`Choices::output`].

use super::{EventFacts, Stamp, TokenSource, Usage};

/// Choices told apart in one reply. The tokens of further ones count, but give no gaps and no finish of their own.
pub(super) const MAX_CHOICES: usize = 16;

/// A larger count in a usage is not believed: one absurd reply must not spoil a counter for good.
pub(super) const MAX_TOKENS: u64 = u32::MAX as u64;

/// All choices of one reply, and its usage.
#[derive(Clone, Debug)]
pub(super) struct Choices {
    /// The choice that most replies have alone.
    first: Option<Choice>,
    /// The others, at most [`MAX_CHOICES`] with it. Allocates with the second: room for all of them is 1.5 KiB, which every open
    /// stream would hold.
    more: Vec<Choice>,
    /// Token-bearing fragments of further choices.
    pooled_events: u64,
    /// Some further choice was named.
    pooled: bool,
    /// Usage that named no choice, or several: added up, and the last.
    closing_sum: Usage,
    closing: Usage,
    closings: usize,
    /// Some of it is certain to be the whole reply's.
    closing_is_total: bool,
    /// Token-bearing fragments when `closing` came.
    events_at_closing: u64,
    prompt: Option<u64>,
    cached: Option<u64>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Choice {
    index: u32,
    finished: bool,
    last: Option<Stamp>,
    events: u64,
    /// Tokens handed to the live counter.
    counted: u64,
    /// Running usage.
    output: Option<u64>,
    reasoning: Option<u64>,
    /// Token-bearing fragments when `output` was reported.
    events_at_usage: u64,
    /// Running usage as of the last token-bearing fragment; lost for good once one came without.
    known: Known,
}

#[derive(Clone, Copy, Debug)]
enum Known {
    Tokens(u64),
    Lost,
}

impl Default for Known {
    fn default() -> Self {
        Self::Tokens(0)
    }
}

/// What one token-bearing fragment added.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Step {
    /// Time since the choice's previous fragment.
    pub(super) gap_ns: Option<u64>,
    /// Tokens the fragment holds: by per-event usage, else 1.
    pub(super) tokens: u64,
    /// Tokens to add to the live counter.
    pub(super) uncounted: u64,
}

impl Choices {
    pub(super) const fn new() -> Self {
        const USAGE: Usage = Usage {
            prompt: None,
            output: None,
            reasoning: None,
            cached: None,
        };
        Self {
            first: None,
            more: Vec::new(),
            pooled_events: 0,
            pooled: false,
            closing_sum: USAGE,
            closing: USAGE,
            closings: 0,
            closing_is_total: false,
            events_at_closing: 0,
            prompt: None,
            cached: None,
        }
    }

    /// The fragment of `choice` in an event at `at`; `running` is that choice's usage in the same event.
    pub(super) fn fragment(&mut self, choice: u32, at: Stamp, running: Option<u64>) -> Step {
        let running = running.filter(|n| *n <= MAX_TOKENS);
        let Some(c) = self.slot(choice) else {
            self.pooled_events += 1;
            return Step {
                gap_ns: None,
                tokens: 1,
                uncounted: 1,
            };
        };
        let gap_ns = c.last.map(|last| at.since(last));
        c.last = Some(at);
        c.events += 1;
        let Some(running) = running else {
            c.known = Known::Lost;
            c.counted += 1;
            return Step {
                gap_ns,
                tokens: 1,
                uncounted: 1,
            };
        };
        // Text without a new token, or a total where a running count was expected: the event still holds something.
        let tokens = match c.known {
            Known::Tokens(before) => running.saturating_sub(before).max(1),
            Known::Lost => 1,
        };
        if let Known::Tokens(_) = c.known {
            c.known = Known::Tokens(running);
        }
        let uncounted = running.saturating_sub(c.counted);
        c.counted += uncounted;
        Step {
            gap_ns,
            tokens,
            uncounted,
        }
    }

    /// Fragments that the event could not name.
    pub(super) fn unnamed(&mut self, fragments: u32) {
        self.pooled = true;
        self.pooled_events += u64::from(fragments);
    }

    /// Everything else an event said, after its fragments.
    pub(super) fn note(&mut self, facts: &EventFacts) {
        if facts.choices == 1 {
            self.slot(facts.choice);
        }
        for choice in facts.finished() {
            if let Some(c) = self.slot(*choice) {
                c.finished = true;
            }
        }
        let Some(usage) = facts.usage else { return };
        if facts.choices == 1 {
            self.running(facts.choice, &usage);
        } else {
            self.closing(&usage, facts.choices > 1);
        }
    }

    /// Usage that belongs to no single named choice; `total` when it is certain to be the whole reply's, not one of several.
    pub(super) fn closing(&mut self, usage: &Usage, total: bool) {
        let usage = self.input(usage);
        if usage.output.is_none() && usage.reasoning.is_none() {
            return;
        }
        let add = |sum: Option<u64>, n: Option<u64>| n.map(|n| sum.unwrap_or(0).saturating_add(n)).or(sum);
        self.closing_sum.output = add(self.closing_sum.output, usage.output);
        self.closing_sum.reasoning = add(self.closing_sum.reasoning, usage.reasoning);
        self.closing.update(&usage);
        self.closings += 1;
        self.closing_is_total |= total;
        self.events_at_closing = self.events();
    }

    fn running(&mut self, choice: u32, usage: &Usage) {
        let usage = self.input(usage);
        let Some(c) = self.slot(choice) else { return };
        c.output = usage.output.or(c.output);
        c.reasoning = usage.reasoning.or(c.reasoning);
        if usage.output.is_some() {
            c.events_at_usage = c.events;
        }
    }

    /// Takes the prompt's side, which is the same whichever choice speaks, and drops what is not to be believed.
    fn input(&mut self, usage: &Usage) -> Usage {
        let sane = |n: Option<u64>| n.filter(|n| *n <= MAX_TOKENS);
        self.prompt = sane(usage.prompt).or(self.prompt);
        self.cached = sane(usage.cached).or(self.cached);
        Usage {
            prompt: None,
            cached: None,
            output: sane(usage.output),
            reasoning: sane(usage.reasoning),
        }
    }

    /// The place of `choice`, taken now if it is new; none when all are taken.
    fn slot(&mut self, choice: u32) -> Option<&mut Choice> {
        let new = || Choice {
            index: choice,
            ..Choice::default()
        };
        let first = self.first.get_or_insert_with(new);
        if first.index == choice {
            return Some(first);
        }
        let at = match self.more.iter().position(|c| c.index == choice) {
            Some(at) => at,
            None if self.more.len() + 1 < MAX_CHOICES => {
                self.more.push(new());
                self.more.len() - 1
            }
            None => {
                self.pooled = true;
                return None;
            }
        };
        self.more.get_mut(at)
    }

    fn seen(&self) -> impl Iterator<Item = &Choice> {
        self.first.iter().chain(&self.more)
    }

    fn len(&self) -> usize {
        usize::from(self.first.is_some()) + self.more.len()
    }

    /// Token-bearing fragments so far.
    pub(super) fn events(&self) -> u64 {
        self.seen().map(|c| c.events).sum::<u64>() + self.pooled_events
    }

    /// Whether the server has reported output tokens at all.
    pub(super) fn has_usage(&self) -> bool {
        self.closings > 0 || self.seen().any(|c| c.output.is_some())
    }

    /// Whether any choice gave a finish reason.
    pub(super) fn any_finished(&self) -> bool {
        self.seen().any(|c| c.finished)
    }

    /// Whether every choice gave a finish reason: all that were seen, and as many as were asked for.
    pub(super) fn all_finished(&self, asked: Option<u64>) -> bool {
        let finished = self.seen().filter(|c| c.finished).count();
        !self.pooled && self.len() > 0 && finished == self.len() && asked.is_none_or(|n| finished as u64 >= n)
    }

    /// Prompt tokens, and those of them served from a cache.
    pub(super) fn prompt(&self) -> (Option<u64>, Option<u64>) {
        (self.prompt, self.cached)
    }

    /// The request's output and reasoning tokens.
    ///
    /// * Usage outside any choice is the request's total (vLLM, whatever the choices reported for themselves before). Several of
    ///   them in a reply of several choices are one per choice and add up (llama-server).
    /// * Else the choices' running usage adds up.
    /// * A usage of 0, or one that tokens followed, is no statement about these tokens: the events count, if they are more.
    pub(super) fn output(&self) -> (u64, Option<u64>, TokenSource) {
        let events = self.events();
        let per_choice = self.closings > 1 && self.closings <= self.len() && !self.closing_is_total;
        let closing = if per_choice { &self.closing_sum } else { &self.closing };
        let settled = if per_choice {
            self.closings == self.len()
        } else {
            events == self.events_at_closing
        };
        if let Some(total) = closing.output.filter(|n| settled && (*n > 0 || events == 0)) {
            return (total, closing.reasoning, TokenSource::Usage);
        }
        let (output, reasoning, source) = self.running_output();
        match closing.output {
            Some(total) if total > output => (total, closing.reasoning, TokenSource::Events),
            Some(_) | None => (output, reasoning.or(closing.reasoning), source),
        }
    }

    fn running_output(&self) -> (u64, Option<u64>, TokenSource) {
        let mut output = self.pooled_events;
        let mut reasoning = None;
        let mut by_usage = self.pooled_events == 0 && self.seen().any(|c| c.output.is_some());
        for c in self.seen() {
            let usage = c.output.unwrap_or(0);
            let settled = usage > 0 && c.events_at_usage == c.events;
            output += if settled { usage } else { usage.max(c.events) };
            by_usage &= settled || c.events == 0;
            reasoning = c.reasoning.map(|n| reasoning.unwrap_or(0) + n).or(reasoning);
        }
        (
            output,
            reasoning,
            if by_usage { TokenSource::Usage } else { TokenSource::Events },
        )
    }
}
