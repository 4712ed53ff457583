//! The record of one finished request: every mark, count and the outcome, and nothing of its text.

use super::{Outcome, Stamp};

/// Where the output token count came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum TokenSource {
    /// The server's own usage.
    Usage,
    /// The number of token-bearing events: a lower bound, one event may hold several tokens.
    Events,
}

impl TokenSource {
    /// The value of the `token_source` label.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Usage => "usage",
            Self::Events => "events",
        }
    }
}

/// Why the tap could not read (part of) a reply. The bytes went through all the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Degraded {
    /// A content coding that cannot be inflated here, or a broken compressed stream.
    Encoding,
    /// Inflated output exceeded its cap.
    InflateCap,
    /// An event that is not what its format says (malformed JSON).
    Malformed,
    /// An event, line or body over a cap.
    Oversize,
    /// The tap itself panicked; the measurement of this request is lost.
    Panic,
}

impl Degraded {
    /// Every reason.
    pub const ALL: [Self; 5] = [Self::Encoding, Self::InflateCap, Self::Malformed, Self::Oversize, Self::Panic];

    /// The value of the `reason` label of `goodput_tap_degraded_total`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Encoding => "encoding",
            Self::InflateCap => "inflate_cap",
            Self::Malformed => "malformed",
            Self::Oversize => "oversize",
            Self::Panic => "panic",
        }
    }
}

/// Output and prompt tokens of one request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TokenCounts {
    /// Output tokens `n`, over all choices.
    pub output: u64,
    /// Tokens `k` in the first token-bearing event: known with per-event usage, else 1.
    pub first_event: u64,
    /// Prompt tokens, when the server said.
    pub prompt: Option<u64>,
    /// Reasoning tokens, inside `output`.
    pub reasoning: Option<u64>,
    /// Prompt tokens served from a cache.
    pub cached: Option<u64>,
    /// Where `output` came from.
    pub source: TokenSource,
}

/// One finished request. Durations are methods, so that each has one definition.
#[derive(Clone, Debug, PartialEq)]
pub struct Record {
    /// Request head parsed: the start of every duration.
    pub t0: Stamp,
    /// Last request body byte handed to the upstream socket.
    pub t_sent: Option<Stamp>,
    /// Response head received.
    pub t_head: Option<Stamp>,
    /// First response body byte.
    pub t_byte: Option<Stamp>,
    /// First token-bearing event.
    pub t_first: Option<Stamp>,
    /// First token-bearing event that is not reasoning.
    pub t_visible: Option<Stamp>,
    /// Last token-bearing event.
    pub t_last: Option<Stamp>,
    /// Response body ended.
    pub t_end: Stamp,
    /// Whether the reply was a stream: only then do TTFT, TPOT and ITL exist.
    pub streaming: bool,
    /// The upstream's status, or the proxy's own.
    pub status: Option<u16>,
    /// The verdict.
    pub outcome: Outcome,
    /// Whether the reply was a 2xx whose content was read: only then do token counts mean anything. A reply that is forwarded
    /// unread, or that could not be read, has unknown tokens, not 0.
    pub read: bool,
    /// Token counts; meaningless unless `read`.
    pub tokens: TokenCounts,
    /// Token-bearing events.
    pub token_events: u64,
    /// The largest gap between consecutive token-bearing events of one choice.
    pub stall_ns: Option<u64>,
    /// ITL samples (per token) taken.
    pub itl_count: u64,
    /// For each watched ITL bound (see [`super::ItlBounds`]), the samples above it, in the same order.
    pub itl_over: [u64; super::ItlBounds::MAX],
    /// The client stalled the stream at least once, so later gaps include its time.
    pub client_limited: bool,
    /// Whether any choice gave a finish reason (`finish_reason` label `none` where false).
    pub finish_reason_seen: bool,
}

impl Record {
    /// `t_first - t0`; none without a token-bearing event or for a unary reply.
    pub fn ttft_ns(&self) -> Option<u64> {
        self.t_first.filter(|_| self.streaming).map(|t| t.since(self.t0))
    }

    /// `t_byte - t0`; none without a body.
    pub fn ttfb_ns(&self) -> Option<u64> {
        self.t_byte.map(|t| t.since(self.t0))
    }

    /// `t_visible - t0`; none without a visible token or for a unary reply.
    pub fn visible_ttft_ns(&self) -> Option<u64> {
        self.t_visible.filter(|_| self.streaming).map(|t| t.since(self.t0))
    }

    /// The decode span and the number of tokens it is divided by: `(t_last - t_first, n - k)`; none when `n - k < 1`.
    pub fn decode(&self) -> Option<(u64, u64)> {
        let (first, last) = (self.t_first.filter(|_| self.streaming)?, self.t_last?);
        let divisor = self.tokens.output.checked_sub(self.tokens.first_event).filter(|d| *d >= 1)?;
        Some((last.since(first), divisor))
    }

    /// TPOT in nanoseconds, rounded down: `(t_last - t_first) / (n - k)`.
    pub fn tpot_ns(&self) -> Option<u64> {
        self.decode().map(|(span, divisor)| span / divisor)
    }

    /// `t_end - t0`.
    pub fn e2e_ns(&self) -> u64 {
        self.t_end.since(self.t0)
    }

    /// `t_sent - t0`.
    pub fn upload_ns(&self) -> Option<u64> {
        self.t_sent.map(|t| t.since(self.t0))
    }
}
