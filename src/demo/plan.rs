//! PURE: which requests the demo sends. A seed and a rate name them all: when, how long, and what goes wrong.

use std::time::Duration;

use super::random::Random;

/// Mean prompt length, tokens.
const PROMPT_MEAN: f64 = 260.0;
/// Longest prompt, tokens.
const PROMPT_MAX: u64 = 3000;
/// Mean output length, tokens: with 7.3 ms a token and 162 ms to the first, about 1.1 s end to end.
const OUTPUT_MEAN: f64 = 130.0;
/// Longest output, tokens.
pub(super) const OUTPUT_MAX: u64 = 1024;

/// What a request asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Streamed `/v1/chat/completions`.
    Chat,
    /// The same, not streamed.
    ChatUnary,
    /// Streamed `/v1/completions`.
    Completions,
}

/// What the engine is to do wrong with a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    /// 429 at once.
    Overloaded,
    /// 500 at once.
    Internal,
    /// An error event in the middle of the stream.
    InStream,
    /// The connection breaks in the middle of the stream.
    Reset,
    /// One long pause in the middle of the stream.
    Stall,
}

impl Fault {
    /// Every fault with the share of requests it hits.
    const SHARES: [(Self, f64); 5] = [
        (Self::Overloaded, 0.005),
        (Self::Internal, 0.005),
        (Self::InStream, 0.004),
        (Self::Reset, 0.003),
        (Self::Stall, 0.004),
    ];

    /// The value of the header that orders it.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Overloaded => "overloaded",
            Self::Internal => "internal",
            Self::InStream => "in-stream",
            Self::Reset => "reset",
            Self::Stall => "stall",
        }
    }

    /// The fault called `name`.
    pub(super) fn named(name: &str) -> Option<Self> {
        Self::SHARES.iter().map(|(fault, _)| *fault).find(|f| f.name() == name)
    }
}

/// One request to send.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Planned {
    /// When, since the start.
    pub(super) at: Duration,
    /// What.
    pub(super) kind: Kind,
    /// Prompt length, tokens.
    pub(super) prompt: u64,
    /// Output length, tokens.
    pub(super) output: u64,
    /// Whether the client asks for usage in the stream.
    pub(super) usage: bool,
    /// What the engine does wrong.
    pub(super) fault: Option<Fault>,
    /// The client leaves after this many body frames.
    pub(super) leaves_after: Option<u64>,
}

/// Poisson arrivals without end.
#[derive(Clone, Debug)]
pub(super) struct Plan {
    random: Random,
    mean_gap: f64,
    at: f64,
}

impl Plan {
    /// `rate` requests a second on average, independent of how fast they are answered.
    pub(super) fn new(seed: u64, rate: f64) -> Self {
        Self {
            random: Random::new(seed),
            mean_gap: 1.0 / rate,
            at: 0.0,
        }
    }
}

impl Iterator for Plan {
    type Item = Planned;

    fn next(&mut self) -> Option<Planned> {
        let random = &mut self.random;
        self.at += random.exponential(self.mean_gap);
        let kind = match random.unit() {
            u if u < 0.80 => Kind::Chat,
            u if u < 0.88 => Kind::ChatUnary,
            _ => Kind::Completions,
        };
        let prompt = tokens(random.lognormal(PROMPT_MEAN, 0.8), PROMPT_MAX);
        let output = tokens(random.lognormal(OUTPUT_MEAN, 0.6), OUTPUT_MAX);
        let usage = random.chance(0.85);
        let (mut roll, mut fault) = (random.unit(), None);
        for (one, share) in Fault::SHARES {
            if fault.is_none() && roll < share {
                fault = Some(one);
            }
            roll -= share;
        }
        let leaves = random.chance(0.02) && kind != Kind::ChatUnary && fault.is_none();
        let leaves_after = (1 + (random.unit() * output as f64 * 0.8) as u64).min(output);
        Some(Planned {
            at: Duration::from_secs_f64(self.at),
            kind,
            prompt,
            output,
            usage,
            fault,
            leaves_after: leaves.then_some(leaves_after),
        })
    }
}

fn tokens(drawn: f64, max: u64) -> u64 {
    (drawn.round() as u64).clamp(1, max)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_names_the_same_requests() {
        let take = |seed| Plan::new(seed, 20.0).take(50).collect::<Vec<_>>();
        assert_eq!(take(1), take(1));
        assert_ne!(take(1), take(2));
    }

    #[test]
    fn rate_lengths_and_faults_are_near_their_shares() {
        let all: Vec<Planned> = Plan::new(3, 20.0).take(50_000).collect();
        let share = |of: fn(&Planned) -> bool| all.iter().filter(|p| of(p)).count() as f64 / all.len() as f64;
        let mean = |of: fn(&Planned) -> u64| all.iter().map(of).sum::<u64>() as f64 / all.len() as f64;
        let rate = all.len() as f64 / all.last().unwrap().at.as_secs_f64();
        assert!((19.5..20.5).contains(&rate), "{rate}");
        assert!((250.0..270.0).contains(&mean(|p| p.prompt)), "{}", mean(|p| p.prompt));
        assert!((127.0..133.0).contains(&mean(|p| p.output)), "{}", mean(|p| p.output));
        assert!((0.019..0.023).contains(&share(|p| p.fault.is_some())));
        assert!((0.015..0.021).contains(&share(|p| p.leaves_after.is_some())));
        assert!(all.iter().all(|p| p.leaves_after.is_none_or(|n| n <= p.output)));
    }
}
