//! Fills a [`Model`] family by family; the only place that pairs label names with values.

use std::sync::Arc;

use super::{Exemplar, Family, Histogram, Model, Native, Sample, Text, Value};
use crate::aggregate::{Exemplar as KeptExemplar, HistogramSnapshot, SeriesSnapshot};
use crate::expose::families::{FAMILIES, FamilyDef, Scope, TENANT};

/// Families under construction, one place for each row of the table.
pub(super) struct Builder {
    samples: Vec<Vec<Sample>>,
}

impl Builder {
    pub(super) fn new() -> Self {
        Self {
            samples: FAMILIES.iter().map(|_| Vec::new()).collect(),
        }
    }

    /// Adds what `each` puts for every series: the values of the family's own labels, and the sample's value.
    pub(super) fn series(
        &mut self,
        name: &str,
        series: &mut [SeriesSnapshot],
        mut each: impl FnMut(&mut SeriesSnapshot, &mut dyn FnMut(&[Text], Value)),
    ) {
        let Some((def, samples)) = self.open(name) else { return };
        for s in series {
            let mut base = vec![("route", Text::from(&s.route)), ("model", Text::from(&s.model))];
            base.extend(s.tenant.as_ref().map(|tenant| (TENANT, Text::from(tenant))));
            each(s, &mut |values, value| samples.extend(sample(def, &base, values, value)));
        }
    }

    /// Adds samples to a family of the process.
    pub(super) fn process(&mut self, name: &str, all: impl IntoIterator<Item = (Vec<Text>, Value)>) {
        let Some((def, samples)) = self.open(name) else { return };
        for (values, value) in all {
            samples.extend(sample(def, &[], &values, value));
        }
    }

    pub(super) fn finish(self) -> Model {
        let families = FAMILIES.iter().zip(self.samples).filter(|(_, samples)| !samples.is_empty());
        Model {
            families: families.map(|(def, samples)| Family { def, samples }).collect(),
        }
    }

    fn open(&mut self, name: &str) -> Option<(&'static FamilyDef, &mut Vec<Sample>)> {
        let at = FAMILIES.iter().position(|def| def.name == name);
        debug_assert!(at.is_some(), "{name} is not in the table");
        at.map(|at| (&FAMILIES[at], &mut self.samples[at]))
    }
}

/// None for a number that is not finite: a NaN breaks every alert that reads it.
fn sample(def: &'static FamilyDef, base: &[(&'static str, Text)], values: &[Text], value: Value) -> Option<Sample> {
    debug_assert_eq!(def.labels.len(), values.len(), "labels of {}", def.name);
    debug_assert_eq!(def.scope == Scope::Process, base.is_empty(), "scope of {}", def.name);
    if matches!(value, Value::Number(n) if !n.is_finite()) {
        return None;
    }
    let mut labels = Vec::with_capacity(base.len() + values.len());
    labels.extend_from_slice(base);
    labels.extend(def.labels.iter().copied().zip(values.iter().cloned()));
    Some(Sample { labels, value })
}

/// A count as a sample value; exact up to 2^53.
pub(super) fn number(n: u64) -> Value {
    Value::Number(n as f64)
}

/// Nanoseconds in seconds.
pub(super) fn seconds(ns: u64) -> f64 {
    ns as f64 / 1e9
}

/// Edges in the exposed unit; the series of one route share theirs, so each list is converted about once.
#[derive(Default)]
pub(super) struct EdgeCache {
    last: Option<Edges>,
}

struct Edges {
    kept: Arc<[u64]>,
    is_time: bool,
    exposed: Arc<[f64]>,
}

impl EdgeCache {
    /// The histogram in seconds (or tokens, when not a time).
    pub(super) fn exposed(&mut self, from: HistogramSnapshot, is_time: bool) -> Histogram {
        let unit = |n: u64| if is_time { seconds(n) } else { n as f64 };
        let count = from.counts.iter().sum();
        // The scraper refuses the whole scrape when native buckets and count disagree, so such a histogram stays classic.
        let in_native = from.zero + from.native.iter().map(|(_, n)| n).sum::<u64>();
        debug_assert_eq!(
            (count, count),
            (from.count, in_native),
            "classic, native and total count agree"
        );
        let native = (in_native == count).then_some(Native {
            buckets: from.native,
            zero: from.zero,
        });
        let exemplar = |e: KeptExemplar| Exemplar {
            trace_id: e.trace_id,
            value: unit(e.value),
            unix_seconds: e.unix_seconds,
        };
        let exemplars = from.exemplars.into_iter().map(|e| e.map(exemplar)).collect();
        Histogram {
            edges: self.edges(from.edges, is_time),
            counts: from.counts,
            sum: unit(from.sum),
            count,
            native,
            exemplars,
        }
    }

    fn edges(&mut self, edges: Arc<[u64]>, is_time: bool) -> Arc<[f64]> {
        if let Some(last) = self
            .last
            .as_ref()
            .filter(|last| last.is_time == is_time && last.kept == edges)
        {
            return Arc::clone(&last.exposed);
        }
        let exposed: Arc<[f64]> = edges.iter().map(|e| if is_time { seconds(*e) } else { *e as f64 }).collect();
        self.last = Some(Edges {
            kept: edges,
            is_time,
            exposed: Arc::clone(&exposed),
        });
        exposed
    }
}
