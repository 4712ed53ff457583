//! What a request is matched and judged by: resolved once per configuration, shared by the requests that began under it.

use http::header::HeaderName;

use super::routes::Routes;
use crate::aggregate::RouteSlot;
use crate::config::Config;

/// One configuration's rules.
#[derive(Debug)]
pub(super) struct Rules {
    pub(super) routes: Routes,
    pub(super) tenant_header: Option<HeaderName>,
}

impl Rules {
    /// The first rules of the process: everything has the place that it has in `config`.
    pub(super) fn new(config: &Config) -> Self {
        let slots = config.routes.iter().enumerate().map(|(route, of)| RouteSlot {
            route,
            slos: (0..of.slos.len()).collect(),
        });
        Self::with(config, slots.collect())
    }

    /// Rules whose routes have these places in the aggregates.
    pub(super) fn with(config: &Config, slots: Vec<RouteSlot>) -> Self {
        Self {
            routes: Routes::new(config, slots),
            tenant_header: config.labels.tenant_header.as_ref().and_then(|name| name.parse().ok()),
        }
    }
}
