//! Service-level objectives: bounds a request must meet together, and the verdict on one request.

use std::ops::RangeInclusive;
use std::sync::Arc;

/// A measure that an SLO can bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Bound {
    /// Time to first token.
    Ttft,
    /// Time per output token.
    Tpot,
    /// The request's own 99th percentile of inter-token latency (nearest rank).
    ItlP99,
    /// The largest gap.
    Stall,
    /// End to end.
    E2e,
}

impl Bound {
    /// Every bound.
    pub const ALL: [Self; 5] = [Self::Ttft, Self::Tpot, Self::ItlP99, Self::Stall, Self::E2e];

    /// The value of the `bound` label and the key in the configuration.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Ttft => "ttft",
            Self::Tpot => "tpot",
            Self::ItlP99 => "itl_p99",
            Self::Stall => "stall",
            Self::E2e => "e2e",
        }
    }
}

/// What a bound counts as when its measure has no sample.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Undefined {
    /// The bound is met (the default).
    #[default]
    Pass,
    /// The bound is broken.
    Fail,
    /// The request is not judged.
    Exclude,
}

/// How a bad ending that may not be the server's fault is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Policy {
    /// Never evaluated; counted as excluded with its reason.
    Exclude,
    /// Evaluated as bad.
    Bad,
    /// `client_cancelled` only: bad when a bound was already broken when the client left, else excluded.
    Judge,
}

/// Which requests an SLO is for; every given condition must hold.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Match {
    /// Model names as the client wrote them; `*` matches any run of characters.
    pub model: Option<String>,
    /// Tenant, by the configured tenant header's value.
    pub tenant: Option<String>,
    /// A request header (lower-case name) and its exact value.
    pub header: Option<(String, String)>,
    /// Whether the reply was a stream.
    pub streaming: Option<bool>,
    /// Prompt tokens; a request whose count is unknown does not match.
    pub prompt_tokens: Option<RangeInclusive<u64>>,
    /// Output tokens.
    pub output_tokens: Option<RangeInclusive<u64>>,
}

/// The bounds of one SLO, nanoseconds; a comparison is `<=` on integers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Bounds {
    /// Time to first token.
    pub ttft_ns: Option<u64>,
    /// Time per output token.
    pub tpot_ns: Option<u64>,
    /// 99th percentile of the request's inter-token latencies.
    pub itl_p99_ns: Option<u64>,
    /// Largest gap.
    pub stall_ns: Option<u64>,
    /// End to end.
    pub e2e_ns: Option<u64>,
}

impl Bounds {
    /// The limit for `bound`, if one is set.
    pub const fn get(&self, bound: Bound) -> Option<u64> {
        match bound {
            Bound::Ttft => self.ttft_ns,
            Bound::Tpot => self.tpot_ns,
            Bound::ItlP99 => self.itl_p99_ns,
            Bound::Stall => self.stall_ns,
            Bound::E2e => self.e2e_ns,
        }
    }
}

/// Whether, and how far, a request may bring its own TTFT and TPOT bounds in headers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeaderBounds {
    /// Smallest value accepted, nanoseconds.
    pub min_ns: u64,
    /// Largest value accepted, nanoseconds.
    pub max_ns: u64,
}

/// One service-level objective.
#[derive(Clone, Debug, PartialEq)]
pub struct Slo {
    /// Name, the value of the `slo` label.
    pub name: Arc<str>,
    /// Which requests it is for.
    pub when: Match,
    /// What they must meet together.
    pub bounds: Bounds,
    /// The share that should be good, in (0, 1).
    pub objective: f64,
    /// A bound without a sample.
    pub undefined: Undefined,
    /// 4xx of the upstream: `Exclude` or `Bad`.
    pub client_error: Policy,
    /// Client cancels.
    pub cancelled: Policy,
    /// Bounds the request may bring itself.
    pub header_bounds: Option<HeaderBounds>,
}

/// Distinct `itl_p99` bounds of a route's SLOs, watched exactly while a stream runs in constant memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ItlBounds {
    /// The bounds, nanoseconds; unused places are `u64::MAX`.
    pub ns: [u64; Self::MAX],
}

impl ItlBounds {
    /// How many distinct bounds a route can have; the configuration check refuses more.
    pub const MAX: usize = 4;

    /// Nothing to watch.
    pub const NONE: Self = Self {
        ns: [u64::MAX; Self::MAX],
    };

    /// The distinct bounds of `slos`, ascending. Past [`ItlBounds::MAX`] the largest are not watched, and count as undefined.
    pub fn of(slos: &[Slo]) -> Self {
        let mut all: Vec<u64> = slos
            .iter()
            .filter_map(|s| s.bounds.itl_p99_ns)
            .filter(|ns| *ns < u64::MAX)
            .collect();
        all.sort_unstable();
        all.dedup();
        let mut watched = Self::NONE;
        for (place, ns) in watched.ns.iter_mut().zip(all) {
            *place = ns;
        }
        watched
    }

    /// Where `ns` is watched.
    pub fn position(&self, ns: u64) -> Option<usize> {
        self.ns.iter().position(|b| *b == ns && ns < u64::MAX)
    }
}
