//! The definitions of the benchmark tools, as pure functions of a recorded stream.
//!
//! Two tools give different numbers for the same bytes, since each has its own first token, its own last moment and its own
//! divisor. A [`Profile`] replays a [`Recording`] the way one tool's client reads it: its own splitting of the bytes, its own
//! idea of a token, its own failures. Nothing here runs while traffic flows: it may allocate and it parses JSON as a whole.
//!
//! Every profile is checked against the answers of the tool's own parser in `tests/fixtures/vectors`.
//!
//! What a recording cannot hold: connection set-up, the time a request waited inside the tool, and the tool's tokenizer.
//! Where a tool counts tokens itself, whitespace-separated words stand in for it ([`CountedFrom::ClientTokenizer`]).

mod aiperf;
mod genai_perf;
mod guidellm;
mod inference_perf;
mod llmperf;
mod mlperf;
mod python;
mod recording;
mod vllm;

pub use recording::{Api, Read, Recording};

/// One tool's definition: a row of [`PROFILES`].
#[derive(Debug)]
pub struct Profile {
    /// Name in configuration, on the command line and in reports.
    pub name: &'static str,
    /// The release or commit whose source this follows.
    pub version: &'static str,
    /// TTFT in words.
    pub ttft: &'static str,
    /// E2E in words.
    pub e2e: &'static str,
    /// Where `n` comes from, in words.
    pub n: &'static str,
    /// Whether the tool asks for a usage event; if not, a recorded one is left out before the replay.
    pub asks_usage: bool,
    replay: fn(&Recording) -> Answer,
}

/// The name of the live measurement's own definition: what the rest of [`crate::measure`] does, hence no row below.
pub const GOODPUT: &str = "goodput";

/// Every profile, in the order of reports.
pub static PROFILES: &[&Profile] = &[
    &aiperf::PROFILE,
    &genai_perf::PROFILE,
    &llmperf::PROFILE,
    &vllm::V0_33,
    &vllm::V0_32,
    &vllm::V0_19,
    &guidellm::PROFILE,
    &inference_perf::PROFILE,
    &mlperf::PROFILE,
];

/// The profile called `name`.
pub fn find(name: &str) -> Option<&'static Profile> {
    PROFILES.iter().copied().find(|p| p.name == name)
}

impl Profile {
    /// What the tool would have reported for `recording`.
    pub fn answer(&self, recording: &Recording) -> Answer {
        if self.asks_usage {
            return (self.replay)(recording);
        }
        match recording.without_usage_events() {
            None => (self.replay)(recording),
            Some(without) => {
                let mut answer = (self.replay)(&without);
                answer
                    .notes
                    .push("does not ask for usage: the recorded usage event is left out");
                answer
            }
        }
    }
}

/// One tool's view of one request. Times are nanoseconds since the request began.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Answer {
    /// Time to first token.
    pub ttft_ns: Option<u64>,
    /// End to end, up to the moment the tool takes for the end.
    pub e2e_ns: Option<u64>,
    /// Output tokens.
    pub n: Option<u64>,
    /// How `n` was counted.
    pub counted_from: Option<CountedFrom>,
    /// Events the tool counted, where it divides by them instead of by `n`.
    pub events: Option<u64>,
    /// The averages the tool computes per output token, under its own names.
    pub per_token: Vec<Figure>,
    /// The list of gaps the tool keeps.
    pub gaps: Option<Gaps>,
    /// Further durations the tool reports.
    pub others: Vec<Figure>,
    /// Why the tool would count this request as failed or drop it. Figures may be there all the same.
    pub failed: Option<String>,
    /// What a reader should know about this replay.
    pub notes: Vec<&'static str>,
}

impl Answer {
    fn failed(why: impl Into<String>) -> Self {
        Self {
            failed: Some(why.into()),
            ..Self::default()
        }
    }

    /// The figure called `name`.
    pub fn figure(&self, name: &str) -> Option<&Figure> {
        self.per_token.iter().chain(&self.others).find(|f| f.name == name)
    }
}

/// One duration under the tool's own name.
#[derive(Clone, Debug, PartialEq)]
pub struct Figure {
    /// The tool's name for it.
    pub name: &'static str,
    /// How it is computed.
    pub formula: &'static str,
    /// Nanoseconds; none when the tool has no value here.
    pub ns: Option<f64>,
}

/// A list of gaps under the tool's own name.
#[derive(Clone, Debug, PartialEq)]
pub struct Gaps {
    /// The tool's name for it.
    pub name: &'static str,
    /// What one element is.
    pub formula: &'static str,
    /// Nanoseconds each.
    pub ns: Vec<u64>,
}

/// What a tool took for the number of output tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CountedFrom {
    /// The server's usage.
    Usage,
    /// The tool's own tokenizer; whitespace words here.
    ClientTokenizer,
    /// Events that the tool took for tokens.
    Events,
}

impl CountedFrom {
    /// In words.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Usage => "usage",
            Self::ClientTokenizer => "client tokenizer, here: whitespace words",
            Self::Events => "events",
        }
    }
}

/// The gaps between consecutive stamps.
fn gaps_of(stamps: &[u64]) -> Vec<u64> {
    stamps.windows(2).map(|pair| pair[1].saturating_sub(pair[0])).collect()
}

/// `span / divisor`, or none for a divisor of 0.
fn per(span: u64, divisor: u64) -> Option<f64> {
    (divisor > 0).then(|| span as f64 / divisor as f64)
}
