//! One exposition as plain data: families of the table with their samples. Every format renders this and nothing else.
//!
//! Label sets are exact by construction: a sample gives values only, the names come from its row. A family without samples is
//! left out, a measure without data has no sample; a value is always finite.

mod build;
mod builder;

use std::sync::Arc;

use super::families::FamilyDef;
use crate::config::Config;
use crate::measure::Bounds;

/// All families that have samples, in the order of the table.
#[derive(Clone, Debug, Default)]
pub struct Model {
    /// The families.
    pub families: Vec<Family>,
}

/// One family and its samples.
#[derive(Clone, Debug)]
pub struct Family {
    /// Its row.
    pub def: &'static FamilyDef,
    /// At least one.
    pub samples: Vec<Sample>,
}

/// One sample; within its family the labels are distinct.
#[derive(Clone, Debug)]
pub struct Sample {
    /// Label names and values in the order of [`FamilyDef::label_names`].
    pub labels: Vec<(&'static str, Text)>,
    /// The value.
    pub value: Value,
}

/// A label value.
#[derive(Clone, Debug)]
pub enum Text {
    /// From a closed set.
    Fixed(&'static str),
    /// From configuration, or an allowed or capped name.
    Shared(Arc<str>),
}

impl Text {
    /// The value.
    pub fn as_str(&self) -> &str {
        match self {
            Self::Fixed(text) => text,
            Self::Shared(text) => text,
        }
    }
}

impl From<&'static str> for Text {
    fn from(text: &'static str) -> Self {
        Self::Fixed(text)
    }
}

impl From<&Arc<str>> for Text {
    fn from(text: &Arc<str>) -> Self {
        Self::Shared(Arc::clone(text))
    }
}

/// A sample's value.
#[derive(Clone, Debug)]
pub enum Value {
    /// Of a counter or a gauge; finite.
    Number(f64),
    /// Of a histogram.
    Histogram(Histogram),
}

/// A histogram in the exposed unit (seconds or tokens).
#[derive(Clone, Debug, Default)]
pub struct Histogram {
    /// Upper edges, ascending, without +Inf.
    pub edges: Arc<[f64]>,
    /// Samples per bucket, not cumulative, one more than `edges`.
    pub counts: Vec<u64>,
    /// Sum of the samples.
    pub sum: f64,
    /// Samples; equals the sum of `counts`.
    pub count: u64,
    /// The same samples in exponential buckets, when kept.
    pub native: Option<Native>,
    /// The newest exemplar per bucket, or empty.
    pub exemplars: Vec<Option<Exemplar>>,
}

impl Histogram {
    /// Every bucket as (upper edge, samples up to it, exemplar), the last with edge +Inf.
    pub fn cumulative(&self) -> impl Iterator<Item = (f64, u64, Option<&Exemplar>)> {
        let edges = self.edges.iter().copied().chain([f64::INFINITY]);
        edges.zip(&self.counts).enumerate().scan(0, |upto, (at, (edge, within))| {
            *upto += within;
            Some((edge, *upto, self.exemplars.get(at).and_then(Option::as_ref)))
        })
    }
}

/// Exponential buckets of schema [`crate::aggregate::HistogramSnapshot::SCHEMA`].
#[derive(Clone, Debug)]
pub struct Native {
    /// (index, count), ascending by index.
    pub buckets: Vec<(i32, u64)>,
    /// Samples that are exactly 0.
    pub zero: u64,
}

/// A request that stands for a bucket.
#[derive(Clone, Debug)]
pub struct Exemplar {
    /// Trace id.
    pub trace_id: Arc<str>,
    /// Its sample in the exposed unit.
    pub value: f64,
    /// When, seconds since the epoch.
    pub unix_seconds: f64,
}

/// What the configuration contributes: constant between reloads.
#[derive(Clone, Debug, Default)]
pub struct Configured {
    /// Every SLO of every route, once.
    pub targets: Vec<Target>,
    /// The definition profile in force.
    pub profile: Arc<str>,
}

/// One SLO as configured.
#[derive(Clone, Debug)]
pub struct Target {
    /// Route name.
    pub route: Arc<str>,
    /// SLO name.
    pub slo: Arc<str>,
    /// Its bounds.
    pub bounds: Bounds,
    /// Its objective.
    pub objective: f64,
}

impl Configured {
    /// Reads them off the configuration.
    pub fn new(config: &Config) -> Self {
        let mut targets: Vec<Target> = Vec::new();
        for route in &config.routes {
            for slo in &route.slos {
                if !targets.iter().any(|t| t.route == route.name && t.slo == slo.name) {
                    let (route, slo_name) = (Arc::clone(&route.name), Arc::clone(&slo.name));
                    targets.push(Target {
                        route,
                        slo: slo_name,
                        bounds: slo.bounds,
                        objective: slo.objective,
                    });
                }
            }
        }
        Self {
            targets,
            profile: Arc::clone(&config.profile),
        }
    }
}
