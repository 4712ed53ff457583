//! PURE: what is kept of many records: cumulative histograms and counters per series, and rolling windows as differences of
//! snapshots. Time is an argument; a scrape reads a [`Snapshot`] and formats it elsewhere.
//!
//! ```text
//! running streams --Burst--> Series (atomics)        request end --apply--> Series (one lock)
//! ticker --tick--> windows of every series           scrape --snapshot--> Snapshot
//! ```
//!
//! Series are never removed, not even with their route or SLO ([`Aggregates::reconfigure`]): a counter that vanishes and comes back
//! is a reset. Their number is bounded by the label caps and by [`Aggregates::MAX_SERIES`]. One that only exists costs about 4 KB, its first gap 2 x 9 KB more, its requests some KB a measure;
//! windows and sketches cost what [`Steps`] and [`Sketch`] say. Ticks and scrapes exclude each other and hold a series' lock only
//! while they copy.

mod buckets;
mod burst;
mod grid;
mod histogram;
mod labels;
mod layout;
mod reconfigure;
mod scrape;
mod series;
mod setup;
mod shape;
mod sketch;
mod snapshot;
mod state;
mod window;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::measure::{Degraded, Stamp};

pub use burst::Burst;
pub use grid::Unit;
pub use histogram::{AtomicHistogram, Cells, Histogram};
pub use labels::{OTHER, UNKNOWN};
pub use layout::Layout;
pub use reconfigure::{Full, RouteSlot};
pub use scrape::InFlight;
pub use series::{Finished, Series};
pub use setup::{LabelPolicy, RouteSetup, Setup, WindowSetup};
pub use sketch::{Budget, MAX_STREAMS, Sketch};
pub use snapshot::*;
pub use window::{Clock, STEPS, Steps, Tick};

use labels::{LabelId, LabelMap, OTHER_ID};
use shape::{Layouts, Shape};

/// All series of the process.
#[derive(Debug)]
pub struct Aggregates {
    windows_ns: Vec<u64>,
    budget: Budget,
    /// The last tick, nanoseconds: where a new series' sketches start.
    ticked: AtomicU64,
    degraded: [AtomicU64; Degraded::ALL.len()],
    registry: Mutex<Registry>,
    /// Held over a whole tick or scrape.
    clock: Mutex<Clock>,
}

/// Which series exist, and by what labels.
#[derive(Debug)]
struct Registry {
    /// One per route since the start.
    shapes: Vec<Arc<Shape>>,
    layouts: Layouts,
    /// One per route: the cap is per route.
    models: Vec<LabelMap>,
    tenants: Option<LabelMap>,
    /// Ordered, since looking one up by comparing is a third of the cost of hashing against collisions.
    series: BTreeMap<Key, Arc<Series>>,
    /// Replaced by a series of the same labels, but streams begun before still record into them.
    replaced: Vec<Arc<Series>>,
}

/// Route index, model, tenant.
type Key = (usize, LabelId, Option<LabelId>);

impl Aggregates {
    /// Most series. Past it, requests of new label combinations count on their route's `other`, `other` series.
    pub const MAX_SERIES: usize = 4096;

    /// Everything that can be known from `setup` exists at 0: each route with `unknown`, `other` (a request counts there while no
    /// upstream has confirmed its model, as when none answers) and every allow-listed model, and that for every allow-listed tenant
    /// (`unknown` where there is none).
    pub fn new(setup: &Setup, now: Stamp) -> Self {
        let aggregates = Self {
            windows_ns: setup.windows.iter().map(|w| w.length_ns).collect(),
            budget: Budget::new(MAX_STREAMS),
            ticked: AtomicU64::new(now.as_nanos()),
            degraded: Default::default(),
            registry: Mutex::new(Registry {
                shapes: Vec::new(),
                layouts: Layouts::default(),
                models: Vec::new(),
                tenants: setup.tenants.as_ref().map(LabelMap::new),
                series: BTreeMap::new(),
                replaced: Vec::new(),
            }),
            clock: Mutex::new(Clock::new(&setup.windows, now)),
        };
        aggregates.configure(&mut lock(&aggregates.registry), setup);
        aggregates
    }

    /// The series of a request on route `route` (its [`RouteSlot::route`], at first its index in [`Setup::routes`]); ask once a request and keep it. `confirmed` says that
    /// the upstream answered it with success: only then can a name that is not on an allow-list get a label of its own.
    pub fn series(&self, route: usize, model: Option<&str>, tenant: Option<&str>, confirmed: bool) -> Arc<Series> {
        let mut registry = lock(&self.registry);
        let model = registry.models[route].id(model, confirmed);
        let tenant = registry.tenants.as_mut().map(|t| t.id(tenant, confirmed));
        self.get(&mut registry, (route, model, tenant))
    }

    /// A reply could not be read (fully) for this reason.
    pub fn degraded(&self, why: Degraded) {
        self.degraded[why as usize].fetch_add(1, Ordering::Relaxed);
    }

    /// How often [`Aggregates::tick`] should be called, nanoseconds.
    pub fn tick_every_ns(&self) -> u64 {
        lock(&self.clock).tick_every_ns()
    }

    /// Moves the windows on to `now`.
    pub fn tick(&self, now: Stamp) {
        let mut clock = lock(&self.clock);
        let tick = clock.tick(now);
        self.ticked.store(now.as_nanos(), Ordering::Relaxed);
        lock(&self.registry).collect_replaced();
        let mut cells = Cells::new();
        for series in self.all() {
            cells.clear();
            let mut state = lock(&series.state);
            state.tick(now);
            series.copy_cells(&state, &mut cells);
            drop(state);
            cells.truncate(cells.partition_point(|(id, _)| *id < series.shape.windowed()));
            lock(&series.steps).absorb(&clock, &tick, &cells);
        }
    }

    /// What a scrape sees at `now`; `live` says what is under way on a series, and must not call back into the aggregates.
    pub fn snapshot(&self, now: Stamp, mut live: impl FnMut(&Arc<Series>) -> InFlight) -> Snapshot {
        let clock = lock(&self.clock);
        lock(&self.registry).collect_replaced();
        let mut totals = Vec::new();
        let scraped = self
            .all()
            .into_iter()
            .map(|s| scrape::scrape(&s, &clock, now, live(&s), &mut totals));
        let mut series: Vec<_> = scraped.collect();
        drop(clock);
        series.sort_by(|a, b| (&a.route, &a.model, &a.tenant).cmp(&(&b.route, &b.model, &b.tenant)));
        let registry = lock(&self.registry);
        Snapshot {
            series,
            degraded: std::array::from_fn(|i| self.degraded[i].load(Ordering::Relaxed)),
            models_overflowed: registry.models.iter().map(LabelMap::folded).sum(),
            tenants_overflowed: registry.tenants.as_ref().map_or(0, LabelMap::folded),
        }
    }

    fn all(&self) -> Vec<Arc<Series>> {
        lock(&self.registry).series.values().cloned().collect()
    }

    fn get(&self, registry: &mut Registry, key: Key) -> Arc<Series> {
        if let Some(series) = registry.series.get(&key) {
            return Arc::clone(series);
        }
        let other = (key.0, OTHER_ID, key.2.map(|_| OTHER_ID));
        if registry.series.len() >= Self::MAX_SERIES && key != other {
            return self.get(registry, other);
        }
        let (route, model, tenant) = key;
        let shape = Arc::clone(&registry.shapes[route]);
        let (model, tenants) = (registry.models[route].name(model), registry.tenants.as_ref());
        let tenant = tenants.zip(tenant).map(|(tenants, id)| tenants.name(id));
        let since = Stamp::from_nanos(self.ticked.load(Ordering::Relaxed));
        let series = Arc::new(Series::new(shape, model, tenant, &self.windows_ns, &self.budget, since));
        registry.series.insert(key, Arc::clone(&series));
        series
    }
}

/// A lock that a panic elsewhere does not spoil: counts stay whole, at worst one request is missing.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests;
