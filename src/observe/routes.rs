//! The routes as requests meet them: a configuration resolved once, when it comes into force.

use std::sync::Arc;

use http::Method;

use super::fields::Fields;
use crate::aggregate::{LabelPolicy, RouteSetup, RouteSlot, Setup, WindowSetup};
use crate::config::{self, Config, Reading};
use crate::measure::{Bound, BoundSet, ItlBounds, Slo};
use crate::route;
use crate::wire::{FORMATS, Format, format_for};

/// A stream is stalled when it has been silent for this long, unless its route's SLOs bound stalls.
const STALLED_NS: u64 = 10_000_000_000;

/// What `api` is called where no format is in play.
const OTHER_API: &str = "other";
/// Paths of the embedding family, and what their `api` is called.
const OPAQUE_APIS: [(&str, &str); 3] = [
    ("/v1/embeddings", "embeddings"),
    ("/v1/rerank", "rerank"),
    ("/v1/score", "score"),
];

/// All routes.
#[derive(Debug)]
pub(super) struct Routes {
    matched: Vec<config::Route>,
    judged: Vec<Judged>,
}

/// What judging needs of one route.
#[derive(Debug)]
pub(super) struct Judged {
    pub(super) name: Arc<str>,
    pub(super) slos: Vec<Slo>,
    /// Where it and its SLOs are in the aggregates.
    pub(super) slot: RouteSlot,
    pub(super) itl: ItlBounds,
    /// Bounds that any of the SLOs has.
    pub(super) bounds: BoundSet,
    /// Silence above which a stream counts as stalled, nanoseconds.
    pub(super) stalled_ns: u64,
    /// Some SLO asks for a header.
    pub(super) by_header: bool,
    /// Some SLO takes bounds from the request.
    pub(super) header_bounds: bool,
}

/// How one request is treated.
#[derive(Clone, Copy, Debug)]
pub(super) struct Treatment {
    /// Index of its route.
    pub(super) route: usize,
    /// The value of the `api` label.
    pub(super) api: &'static str,
    /// How its reply is read; none: only time and bytes.
    pub(super) format: Option<&'static Format>,
    /// Whether SLOs are for it.
    pub(super) judged: bool,
}

impl Routes {
    /// `slots`: one per route.
    pub(super) fn new(config: &Config, slots: Vec<RouteSlot>) -> Self {
        let routes = config.routes.iter().zip(slots);
        Self {
            matched: config.routes.clone(),
            judged: routes.map(|(route, slot)| Judged::new(route, slot)).collect(),
        }
    }

    /// The route of a request, and how it is treated. Only a `POST` asks for tokens: on a route that takes other methods too, those
    /// are forwarded and counted, never read nor judged.
    pub(super) fn find(&self, method: &Method, path: &str, headers: &(impl Fields + ?Sized)) -> Treatment {
        let has_header = |name: &str, value: &str| headers.all(name).any(|v| v == value.as_bytes());
        // A checked configuration ends in a catch-all.
        let route = route::find(&self.matched, method.as_str(), path, has_header).unwrap_or(self.matched.len().saturating_sub(1));
        let reading = self.matched.get(route).map_or(Reading::None, |r| r.reading);
        let is_call = method == Method::POST;
        let format = format(reading, path);
        Treatment {
            route,
            api: api(reading, format, path),
            format: format.filter(|_| is_call),
            judged: is_call && !matches!(reading, Reading::None),
        }
    }

    pub(super) fn get(&self, route: usize) -> &Judged {
        &self.judged[route]
    }

    pub(super) fn by_name(&self, name: &str) -> Option<&Judged> {
        self.judged.iter().find(|r| &*r.name == name)
    }

    /// What the aggregates must know before the first request.
    pub(super) fn setup(config: &Config) -> Setup {
        let policy = |allow: &[String], cap| LabelPolicy {
            allow: allow.to_vec(),
            cap,
        };
        let labels = &config.labels;
        Setup {
            routes: config
                .routes
                .iter()
                .map(|r| RouteSetup {
                    name: Arc::clone(&r.name),
                    apis: apis(r),
                    has_models: !matches!(r.reading, Reading::None),
                    reads: !matches!(r.reading, Reading::Opaque | Reading::None),
                    slos: r.slos.clone(),
                })
                .collect(),
            windows: config
                .windows
                .iter()
                .map(|w| WindowSetup {
                    name: Arc::clone(&w.name),
                    length_ns: u64::try_from(w.length.as_nanos()).unwrap_or(u64::MAX),
                })
                .collect(),
            models: policy(&labels.models_allow, labels.models_cap),
            tenants: labels
                .tenant_header
                .as_ref()
                .map(|_| policy(&labels.tenants_allow, labels.tenants_cap)),
        }
    }
}

impl Judged {
    fn new(route: &config::Route, slot: RouteSlot) -> Self {
        let slos = route.slos.clone();
        let limits = slos
            .iter()
            .flat_map(|s| Bound::ALL.into_iter().filter(|b| s.bounds.get(*b).is_some()));
        Self {
            name: Arc::clone(&route.name),
            itl: ItlBounds::of(&slos),
            bounds: limits.collect(),
            stalled_ns: slos.iter().filter_map(|s| s.bounds.stall_ns).min().unwrap_or(STALLED_NS),
            by_header: slos.iter().any(|s| s.when.header.is_some()),
            header_bounds: slos.iter().any(|s| s.header_bounds.is_some()),
            slos,
            slot,
        }
    }

    /// For each SLO whether its header condition holds; empty when none has one.
    pub(super) fn headers_hold(&self, headers: &(impl Fields + ?Sized)) -> Vec<bool> {
        if !self.by_header {
            return Vec::new();
        }
        let holds = |(name, value): &(String, String)| headers.all(name).any(|v| v == value.as_bytes());
        self.slos.iter().map(|s| s.when.header.as_ref().is_some_and(holds)).collect()
    }
}

fn format(reading: Reading, path: &str) -> Option<&'static Format> {
    match reading {
        Reading::Format(format) => Some(format),
        Reading::ByPath => format_for(path),
        Reading::Opaque | Reading::None => None,
    }
}

fn api(reading: Reading, format: Option<&'static Format>, path: &str) -> &'static str {
    match reading {
        Reading::Format(_) | Reading::ByPath => format.map_or(OTHER_API, |f| f.api),
        Reading::Opaque => OPAQUE_APIS.iter().find(|(p, _)| *p == path).map_or(OTHER_API, |(_, api)| api),
        Reading::None => OTHER_API,
    }
}

/// The `api` values that a route's own paths name: those exist from the start.
fn apis(route: &config::Route) -> Vec<&'static str> {
    let mut apis: Vec<_> = route
        .paths
        .iter()
        .map(|pattern| match route.reading {
            // A pattern is no path, but the built-in ones are the formats' own.
            Reading::ByPath => FORMATS
                .iter()
                .find(|f| f.paths.contains(&pattern.as_str()))
                .map_or(OTHER_API, |f| f.api),
            reading => api(reading, format(reading, pattern), pattern),
        })
        .collect();
    apis.sort_unstable();
    apis.dedup();
    apis
}

#[cfg(test)]
mod tests {
    use http::HeaderMap;

    use super::super::rules::Rules;
    use super::*;

    fn find(method: &Method, path: &str) -> (String, &'static str, Option<&'static str>, bool) {
        let routes = Rules::new(&Config::default()).routes;
        let t = routes.find(method, path, &HeaderMap::new());
        (
            routes.get(t.route).name.to_string(),
            t.api,
            t.format.map(|f| f.name),
            t.judged,
        )
    }

    #[test]
    fn a_call_of_a_built_in_path_is_read_in_its_format_and_judged() {
        let found = |path| find(&Method::POST, path);
        assert_eq!(
            found("/v1/chat/completions"),
            ("chat".into(), "chat", Some("openai_chat"), true)
        );
        assert_eq!(found("/api/chat"), ("generate".into(), "ollama", Some("ollama"), true));
        assert_eq!(found("/v1/embeddings"), ("embeddings".into(), "embeddings", None, true));
        assert_eq!(found("/v1/models"), ("other".into(), "other", None, false));
    }

    #[test]
    fn other_methods_are_neither_read_nor_judged_on_any_route() {
        let mut config = Config::default();
        config.routes[0].methods.clear();
        let routes = Rules::new(&config).routes;
        let t = routes.find(&Method::OPTIONS, "/v1/chat/completions", &HeaderMap::new());
        assert_eq!((t.route, t.format.is_none(), t.judged), (0, true, false));
    }

    #[test]
    fn every_api_that_a_built_in_path_can_have_exists_from_the_start() {
        let config = Config::default();
        let setup = Routes::setup(&config);
        for (route, setup) in config.routes.iter().zip(&setup.routes) {
            for path in &route.paths {
                let path = path.replace('*', "x");
                let api = api(route.reading, format(route.reading, &path), &path);
                assert!(setup.apis.contains(&api), "{path}: {api} not in {:?}", setup.apis);
            }
        }
    }
}
