//! PURE: which route a request belongs to.
//!
//! Routes are tried in order and the first match wins. A path pattern is compared byte by byte with the path as the client wrote
//! it (no query, nothing decoded or normalised): `/v1/chat/completions/` and `//v1/chat/completions` are other paths, since
//! model servers answer them with a redirect or a 404 and not with tokens. No allocation per request.

use crate::config::Route;
use crate::measure::glob;

/// The index of the first of `routes` that takes the request.
///
/// `path` is the target's path without the query, for an absolute-form target too. `has_header` says whether the request
/// carries the header (lower-case name) with exactly that value. None only where `routes` lacks the closing catch-all that a
/// checked configuration always has.
pub fn find(routes: &[Route], method: &str, path: &str, has_header: impl Fn(&str, &str) -> bool) -> Option<usize> {
    routes.iter().position(|route| {
        (route.methods.is_empty() || route.methods.iter().any(|m| m == method))
            && route.paths.iter().any(|pattern| glob(pattern, path))
            && route.header.as_ref().is_none_or(|(name, value)| has_header(name, value))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Config, Reading};

    fn built_in(method: &str, path: &str) -> String {
        let routes = Config::default().routes;
        let found = find(&routes, method, path, |_, _| false).expect("`other` takes everything");
        routes[found].name.to_string()
    }

    #[test]
    fn the_built_in_routes_take_their_paths() {
        for (path, route) in [
            ("/v1/chat/completions", "chat"),
            ("/v1/completions", "completions"),
            ("/v1/responses", "responses"),
            ("/v1/messages", "messages"),
            ("/generate", "generate"),
            ("/generate_stream", "generate"),
            ("/v2/models/llama/generate", "generate"),
            ("/v2/models/llama/versions/1/generate_stream", "generate"),
            ("/api/generate", "generate"),
            ("/api/chat", "generate"),
            ("/completion", "generate"),
            ("/v1/embeddings", "embeddings"),
            ("/v1/rerank", "embeddings"),
            ("/v1/score", "embeddings"),
            ("/", "other"),
            ("*", "other"),
            ("", "other"),
            ("/metrics", "other"),
            ("/v1/models", "other"),
            ("/v1/responses/resp_1", "other"),
            ("/v1/chat/completions/", "other"),
            ("//v1/chat/completions", "other"),
            ("/V1/chat/completions", "other"),
            ("/v1/chat/completions?stream=1", "other"),
            ("/v2/models/llama/infer", "other"),
        ] {
            assert_eq!(built_in("POST", path), route, "{path}");
        }
    }

    #[test]
    fn only_a_post_is_a_call_of_a_built_in_route() {
        for method in ["GET", "OPTIONS", "HEAD", "post"] {
            assert_eq!(built_in(method, "/v1/chat/completions"), "other", "{method}");
        }
    }

    #[test]
    fn the_first_match_wins_and_every_condition_must_hold() {
        let route = |name: &str, path: &str, methods: &[&str], header: Option<(&str, &str)>| Route {
            name: name.into(),
            paths: vec![path.to_owned()],
            methods: methods.iter().map(|m| (*m).to_owned()).collect(),
            header: header.map(|(n, v)| (n.to_owned(), v.to_owned())),
            reading: Reading::None,
            slos: Vec::new(),
        };
        let routes = [
            route("gold", "/v1/*", &["POST"], Some(("x-tier", "gold"))),
            route("post", "/v1/*", &["POST", "PUT"], None),
            route("late", "/v1/chat/completions", &["POST"], None),
            route("any", "/v1/*", &[], None),
        ];
        let gold = |name: &str, value: &str| (name, value) == ("x-tier", "gold");
        let at = |method, path, header: &dyn Fn(&str, &str) -> bool| find(&routes, method, path, header);
        assert_eq!(at("POST", "/v1/chat/completions", &gold), Some(0));
        assert_eq!(at("POST", "/v1/chat/completions", &|_, _| false), Some(1));
        assert_eq!(at("PUT", "/v1/chat/completions", &gold), Some(1));
        assert_eq!(at("GET", "/v1/chat/completions", &gold), Some(3));
        assert_eq!(at("POST", "/v2/x", &gold), None);
    }

    #[test]
    fn a_star_stands_for_any_run_of_characters() {
        for (pattern, text, matches) in [
            ("", "", true),
            ("", "a", false),
            ("a", "", false),
            ("*", "", true),
            ("*", "/any/thing", true),
            ("/a", "/a", true),
            ("/a", "/ab", false),
            ("/a*", "/a", true),
            ("/a*", "/a/b", true),
            ("*/b", "/a/b", true),
            ("*/b", "/a/bc", false),
            ("/m/*/generate*", "/m/x/generate_stream", true),
            ("/m/*/generate*", "/m/generate", false),
            ("/m/*/generate*", "/m//generate", true),
            ("a*b*c", "a-b-b-c", true),
            ("a*b*c", "a-b-b-c-", false),
            ("**", "x", true),
            ("é*", "éa", true),
        ] {
            assert_eq!(glob(pattern, text), matches, "{pattern} on {text}");
        }
    }
}
