//! The classic bucket lists: vLLM's, extended so that real tails stay finite and short gaps are told apart.

use super::Measure;
use super::grid::Unit;

const US: u64 = 1_000;
const MS: u64 = 1_000_000;
const S: u64 = 1_000_000_000;

/// TTFT, TTFB, first visible token: vLLM's list with 15, 30, 60 and 120 s added.
const FIRST: &[u64] = &[
    MS,
    5 * MS,
    10 * MS,
    20 * MS,
    40 * MS,
    60 * MS,
    80 * MS,
    100 * MS,
    250 * MS,
    500 * MS,
    750 * MS,
    S,
    2_500 * MS,
    5 * S,
    7_500 * MS,
    10 * S,
    15 * S,
    20 * S,
    30 * S,
    40 * S,
    60 * S,
    80 * S,
    120 * S,
    160 * S,
    640 * S,
    2560 * S,
];

/// TPOT, ITL: steps for fast decoders, then vLLM's list.
const TOKEN: &[u64] = GAP.split_at(GAP.len() - HANGING).0;

/// Inter-chunk, stall: the same, then 160 s and 640 s for streams that hang.
const GAP: &[u64] = &[
    MS,
    2 * MS,
    3 * MS,
    4 * MS,
    5 * MS,
    6 * MS,
    7_500 * US,
    10 * MS,
    12_500 * US,
    15 * MS,
    20 * MS,
    25 * MS,
    50 * MS,
    75 * MS,
    100 * MS,
    150 * MS,
    200 * MS,
    300 * MS,
    400 * MS,
    500 * MS,
    750 * MS,
    S,
    2_500 * MS,
    5 * S,
    7_500 * MS,
    10 * S,
    20 * S,
    40 * S,
    80 * S,
    160 * S,
    640 * S,
];

/// How many edges at the end of [`GAP`] no single token's time needs.
const HANGING: usize = 2;

/// E2E and upload: steps below 300 ms, then vLLM's list.
const WHOLE: &[u64] = &[
    10 * MS,
    25 * MS,
    50 * MS,
    100 * MS,
    200 * MS,
    300 * MS,
    500 * MS,
    800 * MS,
    S,
    1_500 * MS,
    2 * S,
    2_500 * MS,
    5 * S,
    10 * S,
    15 * S,
    20 * S,
    30 * S,
    40 * S,
    50 * S,
    60 * S,
    120 * S,
    240 * S,
    480 * S,
    960 * S,
    1920 * S,
    7680 * S,
];

/// Tokens of a request: 1-2-5 steps.
const TOKENS: &[u64] = &[
    1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000, 2_000, 5_000, 10_000, 20_000, 50_000, 100_000, 200_000, 500_000, 1_000_000,
];

impl Measure {
    /// Its classic edges before any SLO bound is added, in its unit.
    pub const fn default_edges(self) -> &'static [u64] {
        match self {
            Self::Ttft | Self::Ttfb | Self::VisibleTtft => FIRST,
            Self::Tpot | Self::Itl => TOKEN,
            Self::InterChunk | Self::Stall => GAP,
            Self::E2e | Self::Upload => WHOLE,
            Self::PromptTokens | Self::OutputTokens => TOKENS,
        }
    }

    /// What its values are.
    pub const fn unit(self) -> Unit {
        if self.is_time() { Unit::Nanoseconds } else { Unit::Count }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_list_ascends() {
        for measure in Measure::ALL {
            assert!(measure.default_edges().is_sorted_by(|a, b| a < b), "{}", measure.name());
        }
    }

    #[test]
    fn real_tails_stay_finite() {
        let top = |m: Measure| *m.default_edges().last().unwrap();
        for e2e in [75 * S, 400 * S, 1100 * S, 1800 * S] {
            assert!(e2e < top(Measure::E2e));
        }
        assert!(top(Measure::Ttft) >= 600 * S);
        assert!(top(Measure::Stall) > 100 * S && top(Measure::InterChunk) > 100 * S);
    }

    #[test]
    fn per_token_times_end_where_vllms_list_does() {
        for measure in [Measure::Tpot, Measure::Itl] {
            assert_eq!(measure.default_edges().last(), Some(&(80 * S)), "{}", measure.name());
        }
    }
}
