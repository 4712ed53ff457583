//! The part of a series that changes once a request, under its lock.

use std::sync::Arc;

use super::histogram::Histogram;
use super::layout::Layout;
use super::series::{Finished, Series};
use super::shape::{OUTPUT_CLASSES, Shape, bounds_of};
use super::sketch::{Budget, Sketch};
use super::snapshot::{Exemplar, Measure, RequestLabels};
use crate::measure::{Bound, Excluded, Judgement, Outcome, Record, Slo, Stamp, TokenCounts, Verdict};

/// The measures that low-traffic sketches are kept for.
pub(super) const SKETCHED: [Measure; 3] = [Measure::Ttft, Measure::Tpot, Measure::E2e];
/// Longest trace id kept, bytes.
const MAX_TRACE_ID: usize = 32;

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
    /// What counts in its place, once a new configuration replaced the series.
    pub(super) successor: Option<Arc<Series>>,
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

impl State {
    pub(super) fn new(shape: &Shape, windows: &[u64], budget: &Budget, now: Stamp) -> Self {
        let sketches = || {
            windows
                .iter()
                .map(|length| Sketch::new(*length, budget.clone(), now))
                .collect()
        };
        Self {
            requests: zeros(&shape.apis).map(|labels| (labels, 0)).collect(),
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
            successor: None,
        }
    }

    /// Everything counted so far, in `shape`, which has grown out of the present one: SLOs keep their places in it. Leaves nothing
    /// here that anybody may look at.
    pub(super) fn recast(&mut self, shape: &Shape) -> Self {
        let mut requests = std::mem::take(&mut self.requests);
        for labels in zeros(&shape.apis) {
            if !requests.iter().any(|(l, _)| *l == labels) {
                requests.push((labels, 0));
            }
        }
        let old = std::mem::take(&mut self.measures);
        let exemplars = std::mem::take(&mut self.exemplars).into_iter().zip(&shape.layouts);
        let mut slos = std::mem::take(&mut self.slos);
        for (i, slo) in shape.slos.iter().enumerate() {
            match slos.get_mut(i) {
                Some(counts) => counts.extend(slo),
                None => slos.push(SloCounts::new(slo)),
            }
        }
        Self {
            requests,
            measures: old.iter().zip(&shape.layouts).map(|(h, layout)| h.recast(layout)).collect(),
            by_output: self.by_output.iter().map(|h| h.recast(shape.layout(Measure::E2e))).collect(),
            exemplars: exemplars.map(|(kept, layout)| replaced(kept, layout)).collect(),
            prompt_tokens: self.prompt_tokens,
            good_tokens: self.good_tokens,
            slos,
            sketches: std::mem::take(&mut self.sketches),
            successor: None,
        }
    }

    pub(super) fn apply(&mut self, finished: &Finished<'_>) {
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
        // The name last: it costs a call, and most differ before.
        let is = |l: &RequestLabels| (l.outcome, l.streaming) == (labels.outcome, labels.streaming) && l.api == labels.api;
        match self.requests.iter_mut().find(|(l, _)| is(l)) {
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

    /// The bounds of `slo` exist too, at 0.
    fn extend(&mut self, slo: &Slo) {
        for bound in bounds_of(slo) {
            for counts in [&mut self.violations, &mut self.sole_violations] {
                if !counts.iter().any(|(b, _)| *b == bound) {
                    counts.push((bound, 0));
                }
            }
        }
    }
}

/// The counters that exist from the start.
fn zeros(apis: &[&'static str]) -> impl Iterator<Item = RequestLabels> {
    let kinds = apis.iter().flat_map(|api| [false, true].map(|streaming| (*api, streaming)));
    kinds.flat_map(|(api, streaming)| Outcome::ALL.map(|outcome| RequestLabels { api, streaming, outcome }))
}

/// Exemplars at their places in `layout`.
fn replaced(kept: Vec<Option<Exemplar>>, layout: &Layout) -> Vec<Option<Exemplar>> {
    let mut places = Vec::new();
    for exemplar in kept.into_iter().flatten() {
        places.resize(layout.edges().len() + 1, None);
        let at = layout.classic(layout.cell(exemplar.value));
        places[at] = Some(exemplar);
    }
    places
}

/// The tokens of a reply that was read; of any other they are unknown, not 0.
pub(super) fn counted(record: &Record) -> Option<&TokenCounts> {
    record.read.then_some(&record.tokens)
}

fn count_bound(counts: &mut Vec<(Bound, u64)>, bound: Bound) {
    match counts.iter_mut().find(|(b, _)| *b == bound) {
        Some((_, count)) => *count += 1,
        None => counts.push((bound, 1)),
    }
}
