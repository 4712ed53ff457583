//! What one event of a response stream said, in the terms the measures need and without its text.
//!
//! A wire format fills one [`EventFacts`] per event and resets it afterwards: fixed size, no allocation, no content.

/// How many token-bearing choices one event may name; more are counted but not told apart (see [`EventFacts::dropped`]).
pub const MAX_FRAGMENTS: usize = 16;

/// The channel a token-bearing fragment came on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Channel {
    /// Visible text (chat content, completion text).
    Text,
    /// Reasoning, thinking: a token, but not a visible one.
    Reasoning,
    /// A tool or function call's name or arguments.
    Tool,
    /// A refusal.
    Refusal,
}

/// One choice's non-empty fragment within an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fragment {
    /// The choice's index (0 where the format has none).
    pub choice: u32,
    /// Where the text belongs.
    pub channel: Channel,
}

/// Token counts as the server reported them. Each is a running total, never an increment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Prompt tokens.
    pub prompt: Option<u64>,
    /// Output tokens, reasoning included.
    pub output: Option<u64>,
    /// Reasoning tokens, already inside `output`.
    pub reasoning: Option<u64>,
    /// Prompt tokens served from a cache.
    pub cached: Option<u64>,
}

impl Usage {
    /// Whether the server reported anything that counts: an absent, null or empty usage is none.
    pub fn is_empty(&self) -> bool {
        self.prompt.is_none() && self.output.is_none()
    }

    /// Takes over every field that `later` has; fields it lacks keep their earlier value.
    pub fn update(&mut self, later: &Self) {
        self.prompt = later.prompt.or(self.prompt);
        self.output = later.output.or(self.output);
        self.reasoning = later.reasoning.or(self.reasoning);
        self.cached = later.cached.or(self.cached);
    }
}

/// The facts of one event. A role-only delta, a comment, a ping, a progress object leave everything at its default.
#[derive(Clone, Copy, Debug, Default)]
pub struct EventFacts {
    /// Behind `len` is what earlier events left.
    fragments: [Option<Fragment>; MAX_FRAGMENTS],
    len: u8,
    /// Likewise.
    finished: [u32; MAX_FRAGMENTS],
    finished_len: u8,
    /// Fragments beyond [`MAX_FRAGMENTS`].
    pub dropped: u32,
    /// How many choices the event named at all, token-bearing or not (0 for a closing usage event).
    pub choices: u32,
    /// The one choice named, when `choices` is 1.
    pub choice: u32,
    /// Usage, when the event carried a non-empty one.
    pub usage: Option<Usage>,
    /// The format's terminal signal (`[DONE]`, `message_stop`, `done: true`, …).
    pub terminal: bool,
    /// A truthy error object or the format's error event.
    pub error: bool,
}

impl PartialEq for EventFacts {
    fn eq(&self, other: &Self) -> bool {
        let rest = |facts: &Self| {
            (
                facts.dropped,
                facts.choices,
                facts.choice,
                facts.usage,
                facts.terminal,
                facts.error,
            )
        };
        self.fragments().eq(other.fragments()) && self.finished() == other.finished() && rest(self) == rest(other)
    }
}

impl Eq for EventFacts {}

impl EventFacts {
    /// Back to the default, at the cost of what was said only: an event says little, and there is room for much.
    #[inline]
    pub fn clear(&mut self) {
        self.len = 0;
        self.finished_len = 0;
        self.dropped = 0;
        self.choices = 0;
        self.choice = 0;
        self.usage = None;
        self.terminal = false;
        self.error = false;
    }

    /// Adds a non-empty fragment. A second one of the same choice in one event is the same token-bearing event: the first
    /// channel stays, except that a visible one replaces reasoning.
    pub fn fragment(&mut self, choice: u32, channel: Channel) {
        let len = usize::from(self.len);
        for f in self.fragments[..len].iter_mut().flatten() {
            if f.choice == choice {
                if f.channel == Channel::Reasoning {
                    f.channel = channel;
                }
                return;
            }
        }
        if len == MAX_FRAGMENTS {
            self.dropped += 1;
            return;
        }
        self.fragments[len] = Some(Fragment { choice, channel });
        self.len += 1;
    }

    /// Notes that `choice` gave a finish reason.
    pub fn finish(&mut self, choice: u32) {
        let len = usize::from(self.finished_len);
        if len < MAX_FRAGMENTS && !self.finished().contains(&choice) {
            self.finished[len] = choice;
            self.finished_len += 1;
        }
    }

    /// Notes that the event named `choice`, whatever it said of it.
    pub fn name_choice(&mut self, choice: u32) {
        if self.choices == 0 {
            self.choice = choice;
        } else if self.choices == 1 && self.choice == choice {
            return;
        }
        self.choices += 1;
        if self.choices > 1 {
            self.choice = 0;
        }
    }

    /// The token-bearing fragments, at most one per choice.
    pub fn fragments(&self) -> impl Iterator<Item = Fragment> + '_ {
        self.fragments[..usize::from(self.len)].iter().copied().flatten()
    }

    /// Whether any choice got a token.
    pub fn is_token_bearing(&self) -> bool {
        self.len > 0
    }

    /// Choices that gave a finish reason in this event.
    pub fn finished(&self) -> &[u32] {
        &self.finished[..usize::from(self.finished_len)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cleared_facts_are_the_default_whatever_was_said() {
        let mut facts = EventFacts::default();
        for choice in 0..=MAX_FRAGMENTS as u32 {
            facts.fragment(choice, Channel::Tool);
            facts.finish(choice);
            facts.name_choice(choice);
        }
        facts.usage = Some(Usage::default());
        (facts.terminal, facts.error) = (true, true);
        assert_eq!((facts.dropped, facts.finished().len()), (1, MAX_FRAGMENTS));
        facts.clear();
        assert_eq!(facts, EventFacts::default());
    }
}
