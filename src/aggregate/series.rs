//! One `{route, model, tenant}` series: everything cumulative that its requests left behind.
//!
//! Tokens, ITL and inter-chunk samples come straight from running streams without a lock; all else comes once a request, at its
//! end, under one lock ([`Series::apply`]). Windows hang off a second lock that only ticks and scrapes take.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use super::histogram::{AtomicHistogram, Cells, Histogram};
use super::lock;
use super::shape::{OUTPUT_CLASSES, OUTPUT_TOKENS_ID, REQUESTS_ID, Shape, bounds_of, slo_id};
use super::sketch::{Budget, Sketch};
use super::snapshot::{Exemplar, Measure, RequestLabels};
use super::window::Steps;
use crate::measure::{Bound, Excluded, GapSink, Judgement, Outcome, Record, Slo, Stamp, TokenCounts, TokenSource, Verdict};

/// The measures that low-traffic sketches are kept for.
pub(super) const SKETCHED: [Measure; 3] = [Measure::Ttft, Measure::Tpot, Measure::E2e];
/// Longest trace id kept, bytes.
const MAX_TRACE_ID: usize = 32;

/// A finished request, as the aggregates see it.
#[derive(Clone, Copy, Debug)]
pub struct Finished<'a> {
    /// Its record.
    pub record: &'a Record,
    /// The value of the `api` label.
    pub api: &'static str,
    /// What the first matching SLO of its route said.
    pub verdict: Option<Verdict>,
    /// Output tokens already given to [`Series::tokens`] while it ran.
    pub tokens_counted: u64,
    /// Trace id and wall-clock seconds of its end; kept as an exemplar when it broke a bound.
    pub trace: Option<(&'a str, f64)>,
}

/// One series.
#[derive(Debug)]
pub struct Series {
    pub(super) shape: Arc<Shape>,
    pub(super) model: Arc<str>,
    pub(super) tenant: Option<Arc<str>>,
    itl: AtomicHistogram,
    inter_chunk: AtomicHistogram,
    output_tokens: [AtomicU64; 2],
    pub(super) state: Mutex<State>,
    pub(super) steps: Mutex<Steps>,
}

/// What changes once a request.
#[derive(Debug)]
pub(super) struct State {
    pub(super) requests: Vec<(RequestLabels, u64)>,
    /// One per [`Measure::ALL`]; those recorded without a lock stay empty here.
    pub(super) measures: Vec<Histogram>,
    /// One per [`OUTPUT_CLASSES`].
    pub(super) by_output: Vec<Histogram>,
    /// Per measure, the newest per classic bucket; empty until there is one.
    pub(super) exemplars: Vec<Vec<Option<Exemplar>>>,
    pub(super) prompt_tokens: u64,
    pub(super) good_tokens: u64,
    pub(super) slos: Vec<SloCounts>,
    /// Per measure of [`SKETCHED`], per window.
    pub(super) sketches: Vec<Vec<Sketch>>,
}

/// Counters of one SLO.
#[derive(Clone, Debug, Default)]
pub(super) struct SloCounts {
    pub(super) good: u64,
    pub(super) bad: u64,
    pub(super) good_tokens: u64,
    pub(super) excluded: [u64; Excluded::ALL.len()],
    pub(super) violations: Vec<(Bound, u64)>,
    pub(super) sole_violations: Vec<(Bound, u64)>,
}

impl Series {
    pub(super) fn new(
        shape: Arc<Shape>,
        model: Arc<str>,
        tenant: Option<Arc<str>>,
        windows: &[u64],
        budget: &Budget,
        now: Stamp,
    ) -> Self {
        Self {
            itl: AtomicHistogram::new(Arc::clone(shape.layout(Measure::Itl))),
            inter_chunk: AtomicHistogram::new(Arc::clone(shape.layout(Measure::InterChunk))),
            output_tokens: [AtomicU64::new(0), AtomicU64::new(0)],
            state: Mutex::new(State::new(&shape, windows, budget, now)),
            steps: Mutex::new(Steps::new(windows.len())),
            shape,
            model,
            tenant,
        }
    }

    /// Route name.
    pub fn route(&self) -> &Arc<str> {
        &self.shape.name
    }

    /// Model label.
    pub fn model(&self) -> &Arc<str> {
        &self.model
    }

    /// Tenant label, when configured.
    pub fn tenant(&self) -> Option<&Arc<str>> {
        self.tenant.as_ref()
    }

    /// A token-bearing event with `tokens` tokens came `gap_ns` after the one before in its choice. No lock; the first gap of a
    /// series allocates its histogram.
    pub fn gap(&self, gap_ns: u64, tokens: u64) {
        // Rounded up, so that a share is within a bound here exactly when it is without rounding.
        self.itl.record_n(gap_ns.div_ceil(tokens.max(1)), tokens);
        self.inter_chunk.record(gap_ns);
    }

    /// Output tokens seen while a stream runs; say at its end how many ([`Finished::tokens_counted`]). No lock.
    pub fn tokens(&self, tokens: u64, source: TokenSource) {
        self.output_tokens[source as usize].fetch_add(tokens, Ordering::Relaxed);
    }

    /// Counts a finished request. Takes the series' lock once.
    pub fn apply(&self, finished: &Finished<'_>) {
        if let Some(tokens) = counted(finished.record) {
            // Upwards only: a usage below what was seen does not take tokens back.
            self.tokens(tokens.output.saturating_sub(finished.tokens_counted), tokens.source);
        }
        lock(&self.state).apply(finished);
    }

    /// Output tokens so far: by usage, by events.
    pub(super) fn output_tokens(&self) -> [u64; 2] {
        [0, 1].map(|i| self.output_tokens[i].load(Ordering::Relaxed))
    }

    /// Sum of a measure's values.
    pub(super) fn sum(&self, state: &State, measure: Measure) -> u64 {
        match measure {
            Measure::Itl => self.itl.sum(),
            Measure::InterChunk => self.inter_chunk.sum(),
            _ => state.measures[measure.index()].sum(),
        }
    }

    /// Appends every non-zero count to `cells`, ascending by id.
    pub(super) fn copy_cells(&self, state: &State, cells: &mut Cells) {
        let mut push = |id, count| {
            if count > 0 {
                cells.push((id, count));
            }
        };
        push(REQUESTS_ID, state.requests.iter().map(|(_, n)| n).sum());
        push(OUTPUT_TOKENS_ID, self.output_tokens().iter().sum());
        for (i, slo) in state.slos.iter().enumerate() {
            push(slo_id(i), slo.good + slo.bad);
            push(slo_id(i) + 1, slo.good);
            push(slo_id(i) + 2, slo.good_tokens);
        }
        for measure in Measure::ALL {
            let offset = self.shape.offset(measure);
            match measure {
                Measure::Itl => self.itl.copy_cells(offset, cells),
                Measure::InterChunk => self.inter_chunk.copy_cells(offset, cells),
                _ => state.measures[measure.index()].copy_cells(offset, cells),
            }
        }
        for (class, histogram) in state.by_output.iter().enumerate() {
            histogram.copy_cells(self.shape.class_offset(class), cells);
        }
    }
}

impl GapSink for &Series {
    fn gap(&mut self, gap_ns: u64, tokens: u64) {
        Series::gap(self, gap_ns, tokens);
    }

    fn tokens(&mut self, n: u64, source: TokenSource) {
        Series::tokens(self, n, source);
    }
}

impl State {
    fn new(shape: &Shape, windows: &[u64], budget: &Budget, now: Stamp) -> Self {
        let zeros = shape
            .apis
            .iter()
            .flat_map(|api| [false, true].map(|streaming| (*api, streaming)));
        let zeros = zeros.flat_map(|(api, streaming)| Outcome::ALL.map(|outcome| RequestLabels { api, streaming, outcome }));
        let sketches = || {
            windows
                .iter()
                .map(|length| Sketch::new(*length, budget.clone(), now))
                .collect()
        };
        Self {
            requests: zeros.map(|labels| (labels, 0)).collect(),
            measures: shape.layouts.iter().map(|l| Histogram::new(Arc::clone(l))).collect(),
            by_output: OUTPUT_CLASSES
                .iter()
                .map(|_| Histogram::new(Arc::clone(shape.layout(Measure::E2e))))
                .collect(),
            exemplars: vec![Vec::new(); Measure::ALL.len()],
            prompt_tokens: 0,
            good_tokens: 0,
            slos: shape.slos.iter().map(SloCounts::new).collect(),
            sketches: SKETCHED.iter().map(|_| sketches()).collect(),
        }
    }

    fn apply(&mut self, finished: &Finished<'_>) {
        let record = finished.record;
        self.count_request(RequestLabels {
            api: finished.api,
            streaming: record.streaming,
            outcome: record.outcome,
        });
        let tokens = counted(record);
        let (output, prompt) = (tokens.map(|t| t.output), tokens.and_then(|t| t.prompt));
        self.prompt_tokens += prompt.unwrap_or(0);
        let broke = finished.verdict.is_some_and(|v| !v.broken().is_empty());
        let trace = finished.trace.filter(|(id, _)| broke && id.len() <= MAX_TRACE_ID);
        for (measure, value) in [
            (Measure::Ttft, record.ttft_ns()),
            (Measure::Ttfb, record.ttfb_ns()),
            (Measure::VisibleTtft, record.visible_ttft_ns()),
            // Rounded up, so that the share within a bound is what the verdicts, which do not round, said.
            (Measure::Tpot, record.decode().map(|(span, tokens)| span.div_ceil(tokens))),
            (Measure::Stall, record.stall_ns),
            (Measure::E2e, Some(record.e2e_ns())),
            (Measure::Upload, record.upload_ns()),
            (Measure::PromptTokens, prompt),
            (Measure::OutputTokens, output),
        ] {
            if let Some(value) = value {
                self.record(measure, value, trace);
            }
        }
        if let Some(output) = output {
            let class = OUTPUT_CLASSES
                .iter()
                .position(|(_, most)| output <= *most)
                .unwrap_or(OUTPUT_CLASSES.len() - 1);
            self.by_output[class].record(record.e2e_ns());
        }
        if let Some(verdict) = finished.verdict {
            self.judge(verdict, output.unwrap_or(0));
        }
    }

    fn count_request(&mut self, labels: RequestLabels) {
        match self.requests.iter_mut().find(|(l, _)| *l == labels) {
            Some((_, count)) => *count += 1,
            None => self.requests.push((labels, 1)), // an api the route did not announce: a closed set all the same
        }
    }

    fn record(&mut self, measure: Measure, value: u64, trace: Option<(&str, f64)>) {
        let histogram = &mut self.measures[measure.index()];
        let cell = histogram.record(value);
        if let Some((trace_id, unix_seconds)) = trace.filter(|_| measure.is_time()) {
            let exemplars = &mut self.exemplars[measure.index()];
            exemplars.resize(histogram.layout().edges().len() + 1, None);
            exemplars[histogram.layout().classic(cell)] = Some(Exemplar {
                trace_id: trace_id.into(),
                value,
                unix_seconds,
            });
        }
        if let Some(i) = SKETCHED.iter().position(|m| *m == measure) {
            self.sketches[i].iter_mut().for_each(|s| s.insert(value));
        }
    }

    fn judge(&mut self, verdict: Verdict, output_tokens: u64) {
        let Some(slo) = self.slos.get_mut(verdict.slo) else {
            return;
        };
        match verdict.judgement {
            Judgement::Good => {
                slo.good += 1;
                slo.good_tokens += output_tokens;
                self.good_tokens += output_tokens;
            }
            Judgement::Bad { broken, .. } => {
                slo.bad += 1;
                broken.iter().for_each(|b| count_bound(&mut slo.violations, b));
                verdict
                    .sole_violation()
                    .into_iter()
                    .for_each(|b| count_bound(&mut slo.sole_violations, b));
            }
            Judgement::Excluded(reason) => slo.excluded[reason.index()] += 1,
        }
    }

    /// Turns the sketches.
    pub(super) fn tick(&mut self, now: Stamp) {
        self.sketches.iter_mut().flatten().for_each(|s| s.tick(now));
    }
}

impl SloCounts {
    fn new(slo: &Slo) -> Self {
        let zeros: Vec<_> = bounds_of(slo).map(|b| (b, 0)).collect();
        Self {
            violations: zeros.clone(),
            sole_violations: zeros,
            ..Self::default()
        }
    }
}

/// The tokens of a reply that was read; of any other they are unknown, not 0.
fn counted(record: &Record) -> Option<&TokenCounts> {
    record.read.then_some(&record.tokens)
}

fn count_bound(counts: &mut Vec<(Bound, u64)>, bound: Bound) {
    match counts.iter_mut().find(|(b, _)| *b == bound) {
        Some((_, count)) => *count += 1,
        None => counts.push((bound, 1)),
    }
}
