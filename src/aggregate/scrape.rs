//! From a series to its [`SeriesSnapshot`]: a sparse copy under the lock, everything else outside it.

use std::sync::Arc;

use super::histogram::{Cells, Histogram, histogram_snapshot, quantile};
use super::lock;
use super::series::Series;
use super::shape::{OUTPUT_CLASSES, OUTPUT_TOKENS_ID, REQUESTS_ID, slo_id};
use super::snapshot::{HistogramSnapshot, Measure, QUANTILES, Rolling, SeriesSnapshot, SloSnapshot, SloWindow, WindowRates};
use super::state::{SKETCHED, SloCounts, State};
use super::window::Clock;
use crate::measure::{Bound, Excluded, Stamp};

/// What is under way on one series right now; the aggregates only know what has ended.
#[derive(Clone, Debug, Default)]
pub struct InFlight {
    /// Requests under way.
    pub requests: u64,
    /// Of those, past a bound, by bound.
    pub overdue: Vec<(Bound, u64)>,
    /// Of those, past any bound, by the SLO they would be judged by (index into the route's SLOs).
    pub overdue_by_slo: Vec<u64>,
    /// Streams that have been silent for too long, by the caller's measure.
    pub stalled: u64,
}

/// The values at [`QUANTILES`] and how many samples they rest on.
type SketchAnswer = Option<([u64; 4], u64)>;

/// Copies `series`. `totals` is scratch space, all 0 before and after.
pub(super) fn scrape(series: &Series, clock: &Clock, now: Stamp, live: InFlight, totals: &mut Vec<u64>) -> SeriesSnapshot {
    let mut cells = Cells::new();
    let state = lock(&series.state);
    series.copy_cells(&state, &mut cells);
    let sums = Measure::ALL.map(|m| series.sum(&state, m));
    let class_sums: Vec<u64> = state.by_output.iter().map(Histogram::sum).collect();
    let (requests, slos, exemplars) = (state.requests.clone(), state.slos.clone(), state.exemplars.clone());
    let sketched = ask_sketches(&state, clock.windows(), now);
    let (prompt_tokens, good_tokens) = (state.prompt_tokens, state.good_tokens);
    drop(state);

    let shape = &series.shape;
    // A fallback series that no request has met has its counters, so that the first failure is seen as a rise from 0, but none of
    // the many lines of histograms.
    let shown = !cells.is_empty() || !series.is_fallback();
    let histograms = Measure::ALL.into_iter().zip(exemplars).map(|(m, e)| {
        if shown && shape.has(m) {
            histogram_snapshot(shape.layout(m), &cells, shape.offset(m), sums[m.index()], e)
        } else {
            HistogramSnapshot::default()
        }
    });
    let classes = OUTPUT_CLASSES.iter().zip(class_sums).enumerate();
    let classes = classes.filter(|_| shown && shape.reads);
    let e2e_by_output = classes.map(|(class, ((label, _), sum))| {
        let layout = shape.layout(Measure::E2e);
        (
            *label,
            histogram_snapshot(layout, &cells, shape.class_offset(class), sum, Vec::new()),
        )
    });
    let mut snapshot = SeriesSnapshot {
        route: Arc::clone(&shape.name),
        model: Arc::clone(&series.model),
        tenant: series.tenant.clone(),
        reads: shape.reads,
        requests,
        histograms: histograms.collect(),
        e2e_by_output: e2e_by_output.collect(),
        output_tokens: series.output_tokens(),
        prompt_tokens,
        slos: shape
            .slos
            .iter()
            .zip(&slos)
            .map(|(slo, counts)| slo_snapshot(&slo.name, counts))
            .collect(),
        rolling: Vec::new(),
        rates: Vec::new(),
        good_tokens,
        in_flight: live.requests,
        overdue: live.overdue,
        stalled: live.stalled,
    };
    let windowed = shape.windowed();
    cells.truncate(cells.partition_point(|(id, _)| *id < windowed));
    totals.resize(totals.len().max(windowed as usize), 0);
    for (w, sketched) in sketched.iter().enumerate() {
        let any = lock(&series.steps).add_window(clock, w, now, &cells, totals);
        let seconds = clock.covered_ns(w, now) as f64 / 1e9;
        snapshot.add_window(clock.name(w), seconds, totals, &live.overdue_by_slo);
        if any {
            snapshot.add_rolling(series, clock.name(w), totals, sketched);
            totals[..windowed as usize].fill(0);
        }
    }
    snapshot
}

impl SeriesSnapshot {
    /// Adds what a window that covers `seconds` holds; `totals` by cell id.
    fn add_window(&mut self, window: &Arc<str>, seconds: f64, totals: &[u64], overdue: &[u64]) {
        self.rates.push(WindowRates {
            window: Arc::clone(window),
            seconds,
            requests: totals[REQUESTS_ID as usize],
            output_tokens: totals[OUTPUT_TOKENS_ID as usize],
        });
        for (i, slo) in self.slos.iter_mut().enumerate() {
            let at = slo_id(i) as usize;
            slo.windows.push(SloWindow {
                window: Arc::clone(window),
                seconds,
                evaluated: totals[at],
                good: totals[at + 1],
                overdue: overdue.get(i).copied().unwrap_or(0),
                good_tokens: totals[at + 2],
            });
        }
    }

    /// Adds the quantiles of a window that is not empty; `sketched` answers for the measures of [`SKETCHED`].
    fn add_rolling(&mut self, series: &Series, window: &Arc<str>, totals: &[u64], sketched: &[SketchAnswer]) {
        for measure in Measure::ALL.into_iter().filter(|m| m.is_time()) {
            let sketch = SKETCHED.iter().position(|m| *m == measure).and_then(|i| sketched[i]);
            if let Some((quantiles, count)) = sketch.or_else(|| window_quantiles(series, measure, totals)) {
                self.rolling.push(Rolling {
                    measure,
                    window: Arc::clone(window),
                    quantiles,
                    count,
                });
            }
        }
    }
}

/// Per window, for each measure of [`SKETCHED`].
fn ask_sketches(state: &State, windows: usize, now: Stamp) -> Vec<Vec<SketchAnswer>> {
    let ask = |w: usize| state.sketches.iter().map(|windows| windows[w].quantiles(now)).collect();
    (0..windows).map(ask).collect()
}

/// The quantiles of `measure` by its histogram over a window.
fn window_quantiles(series: &Series, measure: Measure, totals: &[u64]) -> SketchAnswer {
    let (layout, offset) = (series.shape.layout(measure), series.shape.offset(measure));
    let own = &totals[offset as usize..offset as usize + layout.cells()];
    let cells: Cells = (0_u32..).zip(own.iter().copied()).filter(|(_, count)| *count > 0).collect();
    let count = own.iter().sum();
    let mut values = [0; 4];
    for (value, q) in values.iter_mut().zip(QUANTILES) {
        *value = quantile(layout, &cells, count, q)?;
    }
    Some((values, count))
}

fn slo_snapshot(name: &Arc<str>, counts: &SloCounts) -> SloSnapshot {
    SloSnapshot {
        slo: Arc::clone(name),
        evaluated: counts.good + counts.bad,
        good: counts.good,
        bad: counts.bad,
        excluded: Excluded::ALL.iter().map(|r| (r.name(), counts.excluded[r.index()])).collect(),
        violations: counts.violations.clone(),
        sole_violations: counts.sole_violations.clone(),
        windows: Vec::new(),
    }
}
