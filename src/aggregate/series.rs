//! One `{route, model, tenant}` series: everything cumulative that its requests left behind.
//!
//! Tokens, ITL and inter-chunk samples come straight from running streams without a lock; all else comes once a request, at its
//! end, under one lock ([`Series::apply`]). Windows hang off a second lock that only ticks and scrapes take.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use super::histogram::{AtomicHistogram, Cells};
use super::labels::{OTHER, UNKNOWN};
use super::lock;
use super::shape::{OUTPUT_TOKENS_ID, REQUESTS_ID, Shape, slo_id};
use super::sketch::Budget;
use super::snapshot::Measure;
use super::state::{State, counted};
use super::window::Steps;
use crate::measure::{Record, Stamp, TokenSource, Verdict};

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
    /// Of those, what was already given to [`Series::tokens_from`].
    pub tokens_shown: u64,
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
    /// Those of requests under way too, the moment they come: for the windows.
    tokens: AtomicU64,
    /// By usage, by events.
    output_tokens: [AtomicU64; 2],
    pub(super) state: Mutex<State>,
    pub(super) steps: Mutex<Steps>,
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
            tokens: AtomicU64::new(0),
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

    /// Whether it is where requests count whose model or tenant has no label of its own.
    pub(super) fn is_fallback(&self) -> bool {
        let fixed = |name: &str| name == OTHER || name == UNKNOWN;
        fixed(&self.model) || self.tenant.as_deref().is_some_and(fixed)
    }

    /// `times` token-bearing events with `tokens` tokens each came `gap_ns` after the one before in their choice. No lock; the first
    /// gap of a series allocates its histogram.
    pub fn gaps(&self, gap_ns: u64, tokens: u64, times: u64) {
        // Rounded up, so that a share is within a bound here exactly when it is without rounding.
        self.itl
            .record_n(gap_ns.div_ceil(tokens.max(1)), tokens.saturating_mul(times));
        self.inter_chunk.record_n(gap_ns, times);
    }

    /// Output tokens seen while a stream runs; say at its end how many ([`Finished::tokens_counted`]). No lock.
    pub fn tokens(&self, tokens: u64) {
        self.tokens.fetch_add(tokens, Ordering::Relaxed);
    }

    /// What output tokens of a request were counted from: at its end, when that is certain, or as far as it has come when someone
    /// looks. Say at its end how many were shown before ([`Finished::tokens_shown`]). No lock.
    pub fn tokens_from(&self, tokens: u64, source: TokenSource) {
        self.output_tokens[source as usize].fetch_add(tokens, Ordering::Relaxed);
    }

    /// Counts a finished request. Takes the series' lock once.
    pub fn apply(&self, finished: &Finished<'_>) {
        // Upwards only: a usage below what was seen does not take tokens back.
        let seen = finished.tokens_counted;
        let all = counted(finished.record).map_or(seen, |tokens| tokens.output.max(seen));
        self.tokens(all - seen);
        self.tokens_from(all.saturating_sub(finished.tokens_shown), finished.record.tokens.source);
        self.count(finished);
    }

    fn count(&self, finished: &Finished<'_>) {
        let mut state = lock(&self.state);
        match &state.successor {
            None => state.apply(finished),
            Some(successor) => {
                let successor = Arc::clone(successor);
                drop(state);
                successor.count(finished);
            }
        }
    }

    /// The series that stands for these labels now: this one, or what came in its place with a new configuration.
    pub fn current(self: &Arc<Self>) -> Arc<Self> {
        let mut current = Arc::clone(self);
        loop {
            let successor = lock(&current.state).successor.clone();
            match successor {
                Some(next) => current = next,
                None => return current,
            }
        }
    }

    /// A series of `shape` in the place of this one: everything counted so far is there, what still comes will be
    /// ([`Series::move_on`]).
    pub(super) fn replaced_by(self: &Arc<Self>, shape: &Arc<Shape>) -> Arc<Self> {
        let ids = self.shape.ids_in(shape);
        let mut state = lock(&self.state);
        let new = Arc::new(Self {
            itl: AtomicHistogram::new(Arc::clone(shape.layout(Measure::Itl))),
            inter_chunk: AtomicHistogram::new(Arc::clone(shape.layout(Measure::InterChunk))),
            tokens: AtomicU64::new(0),
            output_tokens: [AtomicU64::new(0), AtomicU64::new(0)],
            state: Mutex::new(state.recast(shape)),
            steps: Mutex::new(lock(&self.steps).renumbered(&ids)),
            shape: Arc::clone(shape),
            model: Arc::clone(&self.model),
            tenant: self.tenant.clone(),
        });
        state.successor = Some(Arc::clone(&new));
        drop(state);
        self.move_on(&new);
        new
    }

    /// Moves what streams recorded here without a lock to `current`, the series in its place.
    pub(super) fn move_on(&self, current: &Self) {
        self.itl.drain_into(&current.itl);
        self.inter_chunk.drain_into(&current.inter_chunk);
        let to = [&current.tokens].into_iter().chain(&current.output_tokens);
        for (from, to) in [&self.tokens].into_iter().chain(&self.output_tokens).zip(to) {
            to.fetch_add(from.swap(0, Ordering::Relaxed), Ordering::Relaxed);
        }
    }

    /// Output tokens as far as they were shown: by usage, by events.
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
        push(OUTPUT_TOKENS_ID, self.tokens.load(Ordering::Relaxed));
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
