//! The built-in routes. They follow the configured ones; a configured route of the same name takes a built-in one's place.

use super::{Reading, Route};

/// The name of the closing catch-all: forwarded, counted, never read nor judged. No configured route may have it.
pub const OTHER: &str = "other";

/// Name, paths and reading of every built-in route, in matching order.
const BUILT_IN: [(&str, &[&str], Reading); 7] = [
    ("chat", &["/v1/chat/completions"], Reading::ByPath),
    ("completions", &["/v1/completions"], Reading::ByPath),
    ("responses", &["/v1/responses"], Reading::ByPath),
    ("messages", &["/v1/messages"], Reading::ByPath),
    (
        "generate",
        &[
            "/generate",
            "/generate_stream",
            "/v2/models/*/generate*",
            "/api/generate",
            "/api/chat",
            "/completion",
        ],
        Reading::ByPath,
    ),
    ("embeddings", &["/v1/embeddings", "/v1/rerank", "/v1/score"], Reading::Opaque),
    (OTHER, &["*"], Reading::None),
];

/// The built-in routes, the catch-all last. All but the catch-all take `POST` only: a CORS preflight or a `HEAD` of the same path
/// is no LLM call.
pub(super) fn routes() -> impl Iterator<Item = Route> {
    BUILT_IN.iter().map(|(name, paths, reading)| Route {
        name: (*name).into(),
        paths: paths.iter().map(|p| (*p).to_owned()).collect(),
        methods: if *name == OTHER { Vec::new() } else { vec!["POST".to_owned()] },
        header: None,
        reading: *reading,
        slos: Vec::new(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::{FORMATS, format_for};

    #[test]
    fn every_path_of_an_llm_route_has_a_format_and_every_format_a_route() {
        let llm: Vec<Route> = routes().filter(|route| matches!(route.reading, Reading::ByPath)).collect();
        for path in llm.iter().flat_map(|route| &route.paths) {
            // One run of characters stands for the model, none for what may follow `generate`.
            let path = path.strip_suffix('*').unwrap_or(path).replace('*', "llama");
            assert!(format_for(&path).is_some(), "{path}");
        }
        for path in FORMATS.iter().flat_map(|format| format.paths) {
            let path = path.replace('*', "llama");
            assert!(crate::route::find(&llm, "POST", &path, |_, _| false).is_some(), "{path}");
        }
    }
}
