//! What a scrape sees: plain data, copied under the locks and formatted outside them.

use std::sync::Arc;

use crate::measure::{Bound, Degraded, Outcome};

/// A measure with a histogram of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Measure {
    /// Time to first token.
    Ttft,
    /// Time to first body byte.
    Ttfb,
    /// Time to first visible token.
    VisibleTtft,
    /// Time per output token.
    Tpot,
    /// Inter-token latency, one sample a token.
    Itl,
    /// Inter-chunk latency, one sample a token-bearing event.
    InterChunk,
    /// Largest gap of a request.
    Stall,
    /// End to end.
    E2e,
    /// Request upload.
    Upload,
    /// Prompt tokens of a request (a count, not a time).
    PromptTokens,
    /// Output tokens of a request (a count, not a time).
    OutputTokens,
}

impl Measure {
    /// Every measure, in declaration order.
    pub const ALL: [Self; 11] = [
        Self::Ttft,
        Self::Ttfb,
        Self::VisibleTtft,
        Self::Tpot,
        Self::Itl,
        Self::InterChunk,
        Self::Stall,
        Self::E2e,
        Self::Upload,
        Self::PromptTokens,
        Self::OutputTokens,
    ];

    /// The value of the `measure` label.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Ttft => "ttft",
            Self::Ttfb => "ttfb",
            Self::VisibleTtft => "visible_ttft",
            Self::Tpot => "tpot",
            Self::Itl => "itl",
            Self::InterChunk => "inter_chunk",
            Self::Stall => "stall",
            Self::E2e => "e2e",
            Self::Upload => "upload",
            Self::PromptTokens => "prompt_tokens",
            Self::OutputTokens => "output_tokens",
        }
    }

    /// Whether its values are nanoseconds (else counts).
    pub const fn is_time(self) -> bool {
        !matches!(self, Self::PromptTokens | Self::OutputTokens)
    }

    /// The position in [`Measure::ALL`].
    pub const fn index(self) -> usize {
        self as usize
    }
}

/// A copy of one histogram.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct HistogramSnapshot {
    /// Upper edges of the classic buckets, in the measure's unit (ns or tokens), ascending, without +Inf. Exact.
    pub edges: Arc<[u64]>,
    /// Samples per classic bucket, not cumulative, one more than `edges` (the last is above all edges).
    pub counts: Vec<u64>,
    /// Native buckets of schema [`HistogramSnapshot::SCHEMA`] over the exposed unit (seconds or tokens): (index, count), ascending,
    /// only non-empty ones. Bucket `i` holds `(2^((i-1)/32), 2^(i/32)]`; the lowest and the highest of the grid also take what lies
    /// beyond it (times: up to 954 ns, above 8192 s).
    pub native: Vec<(i32, u64)>,
    /// Samples that are exactly 0.
    pub zero: u64,
    /// Sum in the measure's unit (ns or tokens).
    pub sum: u64,
    /// Samples.
    pub count: u64,
    /// The newest exemplar per classic bucket, same length as `counts`, or empty when none was ever kept.
    pub exemplars: Vec<Option<Exemplar>>,
}

impl HistogramSnapshot {
    /// Schema of the native buckets.
    pub const SCHEMA: i32 = 5;
}

/// A trace that stands for a request which broke a bound.
#[derive(Clone, Debug, PartialEq)]
pub struct Exemplar {
    /// Trace id from `traceparent`, 32 lower-case hex digits.
    pub trace_id: Arc<str>,
    /// The sample, in the measure's unit.
    pub value: u64,
    /// Wall-clock time, seconds since the epoch.
    pub unix_seconds: f64,
}

/// Rolling quantiles of one measure over one window. Absent for an empty window.
///
/// TTFT, TPOT and E2E of few requests (2048 at most) are values that were observed, over the last 5/8 to 15/16 of the window;
/// everything else comes from the histogram, to 2.2 % at worst, over the last 11/12 to all of it.
#[derive(Clone, Debug, PartialEq)]
pub struct Rolling {
    /// The measure.
    pub measure: Measure,
    /// The window's label.
    pub window: Arc<str>,
    /// Values at 0.5, 0.9, 0.95, 0.99 (nearest rank), in the measure's unit.
    pub quantiles: [u64; 4],
    /// Samples the quantiles rest on; p99 of fewer than 100 is just the largest.
    pub count: u64,
}

/// What one series did over one window.
#[derive(Clone, Debug, PartialEq)]
pub struct WindowRates {
    /// The window's label.
    pub window: Arc<str>,
    /// Seconds the window really covers so far; 0 right after the start, when no rate can be given.
    pub seconds: f64,
    /// Requests finished within the window.
    pub requests: u64,
    /// Output tokens counted within the window, streams under way included.
    pub output_tokens: u64,
}

/// The quantiles of [`Rolling::quantiles`].
pub const QUANTILES: [f64; 4] = [0.5, 0.9, 0.95, 0.99];

/// Counters of one SLO on one series.
#[derive(Clone, Debug, PartialEq)]
pub struct SloSnapshot {
    /// The SLO's name.
    pub slo: Arc<str>,
    /// Judged requests: `good + bad`.
    pub evaluated: u64,
    /// Met every bound and ended `ok`.
    pub good: u64,
    /// The rest of the judged.
    pub bad: u64,
    /// Not judged, by reason.
    pub excluded: Vec<(&'static str, u64)>,
    /// Requests that broke a bound (may overlap), every bound the SLO has.
    pub violations: Vec<(Bound, u64)>,
    /// Requests that broke this bound alone and ended `ok` otherwise.
    pub sole_violations: Vec<(Bound, u64)>,
    /// Per window, shortest first.
    pub windows: Vec<SloWindow>,
}

/// One SLO over one window.
#[derive(Clone, Debug, PartialEq)]
pub struct SloWindow {
    /// The window's label.
    pub window: Arc<str>,
    /// Seconds the window really covers so far; 0 right after the start, when no rate can be given.
    pub seconds: f64,
    /// Requests judged within the window.
    pub evaluated: u64,
    /// Good ones among them.
    pub good: u64,
    /// In flight and already past a bound: counted as bad here, not in the counters.
    pub overdue: u64,
    /// Output tokens of good requests within the window.
    pub good_tokens: u64,
}

impl SloWindow {
    /// good / (evaluated + overdue); none for an empty window.
    pub fn ratio(&self) -> Option<f64> {
        let all = self.evaluated + self.overdue;
        (all > 0).then(|| self.good as f64 / all as f64)
    }
}

/// The `{api, streaming, outcome}` part of a request counter's labels.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RequestLabels {
    /// API family.
    pub api: &'static str,
    /// Whether the reply streamed.
    pub streaming: bool,
    /// Outcome.
    pub outcome: Outcome,
}

/// One `{route, model, tenant}` series.
#[derive(Clone, Debug, Default)]
pub struct SeriesSnapshot {
    /// Route name.
    pub route: Arc<str>,
    /// Model label.
    pub model: Arc<str>,
    /// Tenant label, when configured.
    pub tenant: Option<Arc<str>>,
    /// Whether its replies are read: only then has it token counters.
    pub reads: bool,
    /// Finished requests.
    pub requests: Vec<(RequestLabels, u64)>,
    /// One per [`Measure::ALL`]; without buckets where the series has no such measure (see [`SeriesSnapshot::has`]).
    pub histograms: Vec<HistogramSnapshot>,
    /// E2E by output length: (`<=64`, histogram); none where output tokens are not a measure of the series.
    pub e2e_by_output: Vec<(&'static str, HistogramSnapshot)>,
    /// Output tokens so far, streams under way included: by usage, by events.
    pub output_tokens: [u64; 2],
    /// Prompt tokens.
    pub prompt_tokens: u64,
    /// SLOs.
    pub slos: Vec<SloSnapshot>,
    /// Rolling quantiles.
    pub rolling: Vec<Rolling>,
    /// Throughput per window, shortest first.
    pub rates: Vec<WindowRates>,
    /// Output tokens of good requests.
    pub good_tokens: u64,
    /// Requests under way.
    pub in_flight: u64,
    /// Requests under way and past a bound, by bound.
    pub overdue: Vec<(Bound, u64)>,
    /// Streams under way that have been silent for too long (see `goodput_stalled`'s help).
    pub stalled: u64,
}

impl SeriesSnapshot {
    /// Whether `measure` is one of the series: not where the route's replies are not read, nor before the first request of a series
    /// for requests whose model or tenant has no label of its own.
    pub fn has(&self, measure: Measure) -> bool {
        self.histograms.get(measure.index()).is_some_and(|h| !h.counts.is_empty())
    }
}

/// Everything the aggregates hold.
#[derive(Clone, Debug, Default)]
pub struct Snapshot {
    /// Sorted by route, model, tenant.
    pub series: Vec<SeriesSnapshot>,
    /// Replies the tap could not (fully) read, by reason, in the order of [`Degraded::ALL`].
    pub degraded: [u64; Degraded::ALL.len()],
    /// Times a model was labelled `other`: the cap was reached, or no upstream ever answered that name with success.
    pub models_overflowed: u64,
    /// The same for tenants.
    pub tenants_overflowed: u64,
}
