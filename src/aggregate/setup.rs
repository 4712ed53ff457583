//! What the aggregates must know before the first request, as plain data.

use std::sync::Arc;

use crate::measure::Slo;

/// Routes, windows and label policies.
#[derive(Clone, Debug, Default)]
pub struct Setup {
    /// The routes; a series names its route by the index here.
    pub routes: Vec<RouteSetup>,
    /// Rolling windows, ascending.
    pub windows: Vec<WindowSetup>,
    /// How a model becomes a label.
    pub models: LabelPolicy,
    /// How a tenant becomes a label; none: there is no tenant label.
    pub tenants: Option<LabelPolicy>,
}

/// One route.
#[derive(Clone, Debug)]
pub struct RouteSetup {
    /// The value of the `route` label.
    pub name: Arc<str>,
    /// The values its `api` label can have; their counters exist at 0 from the start.
    pub apis: Vec<&'static str>,
    /// Whether its requests name a model: allow-listed models then exist from the start.
    pub has_models: bool,
    /// Whether its replies are read: only then do tokens exist, and the measures made of them.
    pub reads: bool,
    /// Its SLOs; a verdict names its SLO by the index here.
    pub slos: Vec<Slo>,
}

/// A rolling window.
#[derive(Clone, Debug)]
pub struct WindowSetup {
    /// The value of the `window` label (`5m`).
    pub name: Arc<str>,
    /// Length, nanoseconds, above 0.
    pub length_ns: u64,
}

/// Which values of a label are kept apart.
#[derive(Clone, Debug, Default)]
pub struct LabelPolicy {
    /// Values that always are; they do not count towards `cap`.
    pub allow: Vec<String>,
    /// Most further values, first come first served; past it `other`.
    pub cap: usize,
}
