//! What all series of one route share: layouts, SLO names, and the numbering that puts every count of a series into one flat space
//! of cell ids, so that one sparse copy serves the scrape and all windows alike.

use std::sync::Arc;

use super::grid::Unit;
use super::layout::Layout;
use super::setup::RouteSetup;
use super::snapshot::Measure;
use crate::measure::{Bound, Slo};

/// E2E conditioned on output length: label and largest number of output tokens.
pub(super) const OUTPUT_CLASSES: [(&str, u64); 5] = [
    ("<=64", 64),
    ("<=256", 256),
    ("<=1024", 1024),
    ("<=4096", 4096),
    (">4096", u64::MAX),
];

/// Id of the number of finished requests.
pub(super) const REQUESTS_ID: u32 = 0;
/// Id of the number of output tokens.
pub(super) const OUTPUT_TOKENS_ID: u32 = 1;
/// Id of the first SLO's evaluated, good and good tokens; the next SLO's follow.
const FIRST_SLO_ID: u32 = 2;

/// The shared part of a route's series.
#[derive(Debug)]
pub(super) struct Shape {
    pub(super) name: Arc<str>,
    pub(super) apis: Vec<&'static str>,
    pub(super) slos: Vec<Slo>,
    /// Whether replies are read.
    pub(super) reads: bool,
    /// One per [`Measure::ALL`].
    pub(super) layouts: Vec<Arc<Layout>>,
    /// First id of each measure, then of each class of [`OUTPUT_CLASSES`].
    offsets: Vec<u32>,
}

impl Shape {
    /// The shape of `route`, grown out of `former` if there was one: SLOs, by name, and apis that were there keep their places, new ones
    /// follow. Gives the places of the route's SLOs as well.
    pub(super) fn new(route: &RouteSetup, former: Option<&Self>, known: &mut Layouts) -> (Self, Vec<usize>) {
        let mut slos = former.map_or_else(Vec::new, |f| f.slos.clone());
        let mut places = Vec::with_capacity(route.slos.len());
        for slo in &route.slos {
            let place = slos.iter().position(|had| had.name == slo.name);
            places.push(place.unwrap_or(slos.len()));
            match place {
                Some(at) => slos[at] = slo.clone(),
                None => slos.push(slo.clone()),
            }
        }
        let mut apis = former.map_or_else(Vec::new, |f| f.apis.clone());
        apis.extend(route.apis.iter().filter(|api| !former.is_some_and(|f| f.apis.contains(api))));
        let layouts: Vec<_> = Measure::ALL.into_iter().map(|m| known.of(m, &route.slos)).collect();
        let mut next = slo_id(slos.len());
        let mut offsets = Vec::with_capacity(layouts.len() + OUTPUT_CLASSES.len());
        let classes = std::iter::repeat_n(&layouts[Measure::E2e.index()], OUTPUT_CLASSES.len());
        for layout in layouts.iter().chain(classes) {
            offsets.push(next);
            next += layout.cells() as u32;
        }
        let shape = Self {
            name: Arc::clone(&route.name),
            apis,
            slos,
            reads: route.reads,
            layouts,
            offsets,
        };
        (shape, places)
    }

    /// Whether series of `self` can serve as series of `other`.
    pub(super) fn is_as(&self, other: &Self) -> bool {
        let slo = |(a, b): (&Slo, &Slo)| a.name == b.name && bounds_of(a).eq(bounds_of(b));
        self.apis == other.apis
            && self.reads == other.reads
            && self.slos.len() == other.slos.len()
            && self.slos.iter().zip(&other.slos).all(slo)
            && self.layouts.iter().zip(&other.layouts).all(|(a, b)| a.edges() == b.edges())
    }

    /// For every id its place in `grown`, which has grown out of this shape.
    pub(super) fn ids_in(&self, grown: &Self) -> Vec<u32> {
        let mut ids: Vec<u32> = (0..slo_id(self.slos.len())).collect();
        let e2e = Measure::E2e.index();
        let classes = std::iter::repeat_n((&self.layouts[e2e], &grown.layouts[e2e]), OUTPUT_CLASSES.len());
        let layouts = self.layouts.iter().zip(&grown.layouts).chain(classes);
        for ((from, to), offset) in layouts.zip(&grown.offsets) {
            ids.extend((0..from.cells()).map(|cell| offset + from.cell_in(cell, to) as u32));
        }
        ids
    }

    pub(super) fn layout(&self, measure: Measure) -> &Arc<Layout> {
        &self.layouts[measure.index()]
    }

    /// Whether requests of this route can have a sample of `measure`.
    pub(super) fn has(&self, measure: Measure) -> bool {
        self.reads || matches!(measure, Measure::Ttfb | Measure::E2e | Measure::Upload)
    }

    /// First id of `measure`.
    pub(super) fn offset(&self, measure: Measure) -> u32 {
        self.offsets[measure.index()]
    }

    /// First id of the `class`th of [`OUTPUT_CLASSES`].
    pub(super) fn class_offset(&self, class: usize) -> u32 {
        self.offsets[Measure::ALL.len() + class]
    }

    /// The ids below are those that windows keep; the classes of E2E come after.
    pub(super) fn windowed(&self) -> u32 {
        self.class_offset(0)
    }
}

/// First id of the `index`th SLO: evaluated, good, good tokens.
pub(super) fn slo_id(index: usize) -> u32 {
    FIRST_SLO_ID + 3 * index as u32
}

/// The bounds that requests judged by `slo` can break: its own, and those they may bring themselves.
pub(super) fn bounds_of(slo: &Slo) -> impl Iterator<Item = Bound> + '_ {
    let brought = |b: &Bound| slo.header_bounds.is_some() && matches!(b, Bound::Ttft | Bound::Tpot);
    Bound::ALL
        .into_iter()
        .filter(move |b| slo.bounds.get(*b).is_some() || brought(b))
}

/// Layouts made so far: most measures of most routes have the same edges, and a layout is large.
#[derive(Debug, Default)]
pub(super) struct Layouts(Vec<(Unit, Vec<u64>, Arc<Layout>)>);

impl Layouts {
    /// Forgets those that no series uses any more.
    pub(super) fn prune(&mut self) {
        self.0.retain(|(_, _, layout)| Arc::strong_count(layout) > 1);
    }

    /// The layout of `measure` with each SLO bound as an edge.
    fn of(&mut self, measure: Measure, slos: &[Slo]) -> Arc<Layout> {
        let bounds = slos
            .iter()
            .filter_map(|slo| bound_on(measure).and_then(|b| slo.bounds.get(b)));
        let mut edges: Vec<u64> = bounds.chain(measure.default_edges().iter().copied()).collect();
        edges.sort_unstable();
        edges.dedup();
        let unit = measure.unit();
        if let Some((_, _, layout)) = self.0.iter().find(|(u, e, _)| *u == unit && *e == edges) {
            return Arc::clone(layout);
        }
        let layout = Arc::new(Layout::new(unit, edges.iter().copied()));
        self.0.push((unit, edges, Arc::clone(&layout)));
        layout
    }
}

/// The bound that is an edge of `measure`.
fn bound_on(measure: Measure) -> Option<Bound> {
    match measure {
        Measure::Ttft => Some(Bound::Ttft),
        Measure::Tpot => Some(Bound::Tpot),
        Measure::Itl => Some(Bound::ItlP99),
        Measure::Stall | Measure::InterChunk => Some(Bound::Stall),
        Measure::E2e => Some(Bound::E2e),
        Measure::Ttfb | Measure::VisibleTtft | Measure::Upload | Measure::PromptTokens | Measure::OutputTokens => None,
    }
}
