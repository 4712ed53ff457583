//! PURE: a model of continuous batching, the way today's engines serve: every step, each running sequence gets one token, and
//! what is left of the step's budget goes to the prefill of newcomers. Time is the sum of the steps.
//!
//! The numbers are those of an 8B model on one data-centre GPU at about 20 requests a second, as published for it: mean TTFT
//! 162 ms, mean TPOT 7.3 ms, median ITL 7.2 ms, mean E2E 1.1 s. A test holds the model to them.

use std::collections::VecDeque;
use std::time::Duration;

use super::random::Random;

/// Step time without work, ms: reading the weights.
const STEP_BASE_MS: f64 = 5.65;
/// Step time per running sequence, ms.
const STEP_PER_SEQUENCE_MS: f64 = 0.055;
/// Step time per prefilled token, ms.
const STEP_PER_PREFILL_MS: f64 = 0.008;
/// Spread of the step time (sigma of its logarithm).
const STEP_SIGMA: f64 = 0.06;
/// Most tokens prefilled in one step.
const PREFILL_BUDGET: u64 = 160;
/// Most sequences running together; the rest wait.
pub(super) const MAX_RUNNING: usize = 128;
/// Most sequences waiting; past it the engine answers 429.
pub(super) const MAX_WAITING: usize = 512;
/// Mean time before a request reaches the scheduler, ms: tokenizer, queues between processes.
const FRONTEND_MEAN_MS: f64 = 134.0;
/// Its spread.
const FRONTEND_SIGMA: f64 = 0.45;
/// Chance that with a step a slow period begins: another tenant of the GPU, a compaction, a clock that was throttled.
const SLOW_CHANCE: f64 = 0.0003;
/// Mean length of a slow period, steps.
const SLOW_STEPS_MEAN: f64 = 60.0;
/// How much slower steps are in it, on average.
const SLOW_FACTOR_MEAN: f64 = 2.4;
/// Spread of both.
const SLOW_SIGMA: f64 = 0.2;
/// Mean extra time of a step with a long-prefill neighbour, ms.
const SPIKE_MEAN_MS: f64 = 53.0;
/// Its spread.
const SPIKE_SIGMA: f64 = 0.15;

/// A sequence's name within one batch.
pub(super) type Id = u64;

#[derive(Clone, Copy, Debug)]
struct Sequence {
    id: Id,
    prefill_left: u64,
    output_left: u64,
}

/// The scheduler's state.
#[derive(Debug)]
pub(super) struct Batch {
    random: Random,
    /// Share of steps that hold a long-prefill neighbour.
    spike: f64,
    /// Steps left of a slow period, and how much slower they are.
    slow: (u64, f64),
    waiting: VecDeque<Sequence>,
    running: Vec<Sequence>,
}

/// One step: how long it takes, and who holds a new token at its end.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Step {
    /// Length.
    pub(super) takes: Duration,
    /// Sequences with a new token, and whether it was their last.
    pub(super) tokens: Vec<(Id, bool)>,
}

impl Batch {
    /// An idle engine.
    pub(super) fn new(seed: u64, spike: f64) -> Self {
        Self {
            random: Random::new(seed),
            spike,
            slow: (0, 1.0),
            waiting: VecDeque::new(),
            running: Vec::new(),
        }
    }

    /// Time a request spends before it is admitted.
    pub(super) fn frontend(random: &mut Random) -> Duration {
        milliseconds(random.lognormal(FRONTEND_MEAN_MS, FRONTEND_SIGMA))
    }

    /// Takes a sequence in. False when too many wait.
    pub(super) fn admit(&mut self, id: Id, prompt: u64, output: u64) -> bool {
        if self.waiting.len() >= MAX_WAITING {
            return false;
        }
        self.waiting.push_back(Sequence {
            id,
            prefill_left: prompt.max(1),
            output_left: output.max(1),
        });
        true
    }

    /// Forgets a sequence whose client left.
    pub(super) fn cancel(&mut self, id: Id) {
        self.waiting.retain(|s| s.id != id);
        self.running.retain(|s| s.id != id);
    }

    /// Whether there is nothing to do.
    pub(super) fn is_idle(&self) -> bool {
        self.waiting.is_empty() && self.running.is_empty()
    }

    /// Does one step.
    pub(super) fn step(&mut self) -> Step {
        let free = MAX_RUNNING.saturating_sub(self.running.len()).min(self.waiting.len());
        self.running.extend(self.waiting.drain(..free));
        let mut budget = PREFILL_BUDGET;
        let mut tokens = Vec::with_capacity(self.running.len());
        for sequence in &mut self.running {
            let prefill = sequence.prefill_left.min(budget);
            sequence.prefill_left -= prefill;
            budget -= prefill;
            if sequence.prefill_left == 0 {
                sequence.output_left -= 1;
                tokens.push((sequence.id, sequence.output_left == 0));
            }
        }
        let takes = self.duration(PREFILL_BUDGET - budget);
        self.running.retain(|s| s.output_left > 0);
        Step { takes, tokens }
    }

    fn duration(&mut self, prefilled: u64) -> Duration {
        let work = STEP_BASE_MS + STEP_PER_SEQUENCE_MS * self.running.len() as f64 + STEP_PER_PREFILL_MS * prefilled as f64;
        let mut ms = self.random.lognormal(work, STEP_SIGMA) * self.slowness();
        if self.random.chance(self.spike) {
            ms += self.random.lognormal(SPIKE_MEAN_MS, SPIKE_SIGMA);
        }
        milliseconds(ms)
    }

    /// 1, or more in a slow period.
    fn slowness(&mut self) -> f64 {
        if self.slow.0 == 0 && self.random.chance(SLOW_CHANCE) {
            let steps = self.random.lognormal(SLOW_STEPS_MEAN, SLOW_SIGMA) as u64;
            self.slow = (steps, self.random.lognormal(SLOW_FACTOR_MEAN, SLOW_SIGMA).max(1.0));
        }
        match &mut self.slow {
            (0, _) => 1.0,
            (left, factor) => {
                *left -= 1;
                *factor
            }
        }
    }
}

fn milliseconds(ms: f64) -> Duration {
    Duration::from_secs_f64(ms / 1e3)
}

#[cfg(test)]
mod tests;
