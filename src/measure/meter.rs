//! The meter of one request: takes its marks and events as they happen, keeps a fixed few numbers, becomes one [`Record`].
//!
//! It never goes backwards: a mark earlier than one already taken counts as simultaneous with it. Nothing here allocates but the
//! first mention of a choice after the first.

use super::choices::Choices;
use super::{
    Channel, Ending, EventFacts, GapSink, ItlBounds, Live, Record, Seen, Stamp, TokenCounts, TokenSource, Usage, decide,
};

/// What a reply's body is to the meter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ReplyKind {
    /// Time and bytes only.
    #[default]
    Unread,
    /// A unary reply, read by [`Meter::whole`] at its end.
    Whole,
    /// A stream that says when it is finished, read event by event.
    Stream,
    /// A stream without a terminal signal: a clean end of the body suffices.
    OpenEnded,
    /// A gRPC call's, unread: [`Meter::call_status`] says what became of it, and without that it is not finished.
    Call,
}

/// The measurement of one request under way.
#[derive(Clone, Debug)]
pub struct Meter {
    t0: Stamp,
    t_sent: Option<Stamp>,
    t_head: Option<Stamp>,
    t_byte: Option<Stamp>,
    t_first: Option<Stamp>,
    t_visible: Option<Stamp>,
    t_last: Option<Stamp>,
    /// The latest mark of the reply.
    latest: Stamp,
    status: Option<u16>,
    call_status: Option<u16>,
    kind: ReplyKind,
    streaming: bool,
    /// The reply cannot be read from here on.
    blind: bool,
    asked_choices: Option<u64>,
    usage_expected: bool,
    choices: Choices,
    counted: u64,
    first_event: u64,
    stall_ns: Option<u64>,
    itl: ItlBounds,
    itl_count: u64,
    itl_over: [u64; ItlBounds::MAX],
    terminal: bool,
    error: bool,
    whole_output: bool,
    client_limited: bool,
}

impl Meter {
    /// A request whose head was parsed at `t0`, watching `itl` exactly.
    pub fn new(t0: Stamp, itl: ItlBounds) -> Self {
        Self {
            t0,
            t_sent: None,
            t_head: None,
            t_byte: None,
            t_first: None,
            t_visible: None,
            t_last: None,
            latest: t0,
            status: None,
            call_status: None,
            kind: ReplyKind::Unread,
            streaming: false,
            blind: false,
            asked_choices: None,
            usage_expected: false,
            choices: Choices::new(),
            counted: 0,
            first_event: 0,
            stall_ns: None,
            itl,
            itl_count: 0,
            itl_over: [0; ItlBounds::MAX],
            terminal: false,
            error: false,
            whole_output: false,
            client_limited: false,
        }
    }

    /// What the request asked for: a stream, how many choices; and whether usage is to be expected, asked for or not. A stream asked
    /// for is what a request counts as until, and unless, a 2xx head says what the reply is.
    pub fn asked(&mut self, streaming: bool, choices: Option<u64>, usage: bool) {
        if self.status.is_none() {
            self.streaming = streaming;
        }
        self.asked_choices = choices;
        self.usage_expected = usage;
    }

    /// Usage is to be expected after all: somebody asked for it in the client's name.
    pub fn expect_usage(&mut self) {
        self.usage_expected = true;
    }

    /// The last request body byte was handed to the upstream.
    pub fn sent(&mut self, at: Stamp) {
        self.t_sent.get_or_insert(at.max(self.t0));
    }

    /// The response head arrived; `kind` and `streaming` say what its body is. An error reply is never read, and only a 2xx can
    /// make the request a stream or not: an error reply to a streaming request is a failed stream.
    pub fn head(&mut self, at: Stamp, status: u16, kind: ReplyKind, streaming: bool) {
        let at = self.advance(at);
        self.t_head.get_or_insert(at);
        self.status = Some(status);
        if status < 400 {
            self.kind = kind;
        }
        if (200..300).contains(&status) {
            self.streaming = streaming;
        }
    }

    /// A gRPC reply said what became of the call; `status`: the HTTP status that means the same. For other replies it says nothing.
    pub fn call_status(&mut self, status: u16) {
        if self.kind == ReplyKind::Call {
            self.call_status = Some(status);
        }
    }

    /// Response body bytes arrived. Only the first call sets a mark.
    pub fn byte(&mut self, at: Stamp) {
        let at = self.advance(at);
        self.t_byte.get_or_insert(at);
    }

    /// One event of a stream was completed by the read taken at `at`.
    pub fn event(&mut self, at: Stamp, facts: &EventFacts, sink: &mut impl GapSink) {
        let at = self.advance(at);
        self.terminal |= facts.terminal;
        self.error |= facts.error;
        if facts.is_token_bearing() {
            self.tokens(at, facts, sink);
        }
        self.choices.note(facts);
    }

    fn tokens(&mut self, at: Stamp, facts: &EventFacts, sink: &mut impl GapSink) {
        // Usage in an event of exactly one choice is that choice's; in any other it is nobody's yet.
        let running = facts.usage.filter(|_| facts.choices == 1).and_then(|u| u.output);
        let mut held = u64::from(facts.dropped);
        let mut visible = false;
        for fragment in facts.fragments() {
            let running = running.filter(|_| fragment.choice == facts.choice);
            let step = self.choices.fragment(fragment.choice, at, running);
            visible |= fragment.channel != Channel::Reasoning;
            held = held.saturating_add(step.tokens);
            if let Some(gap_ns) = step.gap_ns {
                self.gap(gap_ns, step.tokens);
                sink.gap(gap_ns, step.tokens);
            }
            self.count(step.uncounted, sink);
        }
        if facts.dropped > 0 {
            self.choices.unnamed(facts.dropped);
            self.count(u64::from(facts.dropped), sink);
        }
        if self.t_first.is_none() {
            self.t_first = Some(at);
            self.first_event = held;
        }
        if visible {
            self.t_visible.get_or_insert(at);
        }
        self.t_last = Some(at);
    }

    fn gap(&mut self, gap_ns: u64, tokens: u64) {
        self.stall_ns = self.stall_ns.max(Some(gap_ns));
        self.itl_count = self.itl_count.saturating_add(tokens);
        if gap_ns == 0 {
            return;
        }
        for (over, bound) in self.itl_over.iter_mut().zip(self.itl.ns) {
            // gap / tokens > bound, without rounding.
            if u128::from(gap_ns) > u128::from(bound) * u128::from(tokens) {
                *over = over.saturating_add(tokens);
            }
        }
    }

    fn count(&mut self, n: u64, sink: &mut impl GapSink) {
        if n > 0 {
            self.counted = self.counted.saturating_add(n);
            sink.tokens(n);
        }
    }

    /// What the tokens so far will most likely turn out to be counted from: usage where it is expected, or has been seen.
    pub fn likely_source(&self) -> TokenSource {
        if self.usage_expected || self.choices.has_usage() {
            TokenSource::Usage
        } else {
            TokenSource::Events
        }
    }

    /// What a unary reply said, once its body was complete.
    pub fn whole(&mut self, usage: &Usage, has_output: bool, error: bool) {
        self.choices.closing(usage, true);
        self.whole_output = has_output;
        self.error |= error;
    }

    /// The reply cannot be read (any further): its tokens and its completeness are unknown from here on.
    pub fn unread(&mut self) {
        self.blind = true;
    }

    /// The client did not take what was ready, so that later gaps include its time.
    pub fn client_limited(&mut self) {
        self.client_limited = true;
    }

    /// What is known so far.
    pub fn live(&self) -> Live {
        Live {
            t0: self.t0,
            t_first: self.t_first,
            t_last: self.t_last,
            stall_ns: self.stall_ns,
            streaming: self.streaming,
            output_tokens: self.counted,
        }
    }

    /// The status of the reply's head, once there was one.
    pub fn status(&self) -> Option<u16> {
        self.status
    }

    /// Whether the stream has said that it is finished: terminal signal, or a finish reason for every choice.
    pub fn is_finished(&self) -> bool {
        self.terminal || self.choices.all_finished(self.asked_choices)
    }

    /// The exchange is over. `own_status` is the status of the proxy's own reply, if it gave one. By how much the record's tokens
    /// exceed those handed on so far ([`Live::output_tokens`]) is for whoever keeps the counter to add.
    pub fn finish(mut self, at: Stamp, ending: Ending, own_status: Option<u16>) -> Record {
        let t_end = self.advance(at);
        // A head that the proxy's own reply stands in for never reached the client.
        let status = self.call_status.or(self.status).filter(|_| own_status.is_none());
        let outcome = decide(ending, status, self.seen(ending));
        let tokens = self.token_counts();
        Record {
            t0: self.t0,
            t_sent: self.t_sent,
            t_head: self.t_head,
            t_byte: self.t_byte,
            t_first: self.t_first,
            t_visible: self.t_visible,
            t_last: self.t_last,
            t_end,
            streaming: self.streaming,
            status: own_status.or(self.status),
            outcome,
            read: !matches!(self.kind, ReplyKind::Unread | ReplyKind::Call) && !self.blind,
            tokens,
            token_events: self.choices.events(),
            stall_ns: self.stall_ns,
            itl_count: self.itl_count,
            itl_over: self.itl_over,
            client_limited: self.client_limited,
            finish_reason_seen: self.choices.any_finished(),
        }
    }

    fn seen(&self, ending: Ending) -> Seen {
        let finished = self.is_finished() || (self.kind == ReplyKind::OpenEnded && ending == Ending::Complete);
        match self.kind {
            ReplyKind::Unread => Seen::Unread,
            ReplyKind::Call => Seen::Stream {
                output: true,
                finished: self.call_status.is_some(),
                error: false,
            },
            _ if self.blind && !self.error && !finished => Seen::Unread,
            ReplyKind::Whole => Seen::Whole {
                output: self.whole_output,
                error: self.error,
            },
            ReplyKind::Stream | ReplyKind::OpenEnded => Seen::Stream {
                output: self.t_first.is_some(),
                finished,
                error: self.error,
            },
        }
    }

    fn token_counts(&self) -> TokenCounts {
        let (output, reasoning, source) = self.choices.output();
        let (prompt, cached) = self.choices.prompt();
        // A unary reply without usage holds at least one token, if any.
        let output = if self.kind == ReplyKind::Whole {
            output.max(u64::from(self.whole_output))
        } else {
            output
        };
        TokenCounts {
            output,
            first_event: self.first_event.max(1),
            prompt,
            reasoning,
            cached,
            source,
        }
    }

    fn advance(&mut self, at: Stamp) -> Stamp {
        self.latest = self.latest.max(at);
        self.latest
    }
}

#[cfg(test)]
mod tests;
