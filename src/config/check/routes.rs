//! Routes: the configured ones, then the built-in ones whose names were not taken.

use crate::config::builtin::{self, OTHER};
use crate::config::leaf::{Leaf, is_token};
use crate::config::problem::{Wrong, suggestion};
use crate::config::section::{Reader, Section};
use crate::config::{Labels, Reading, Route};
use crate::measure::{Slo, glob};
use crate::wire::{FORMATS, format_for};

use super::slos;

/// Most configured routes: each is a label value.
const MAX_ROUTES: usize = 64;
/// Most path patterns of a route; each is tried in turn.
const MAX_PATHS: usize = 64;
/// Longest path pattern, bytes.
const MAX_PATTERN: usize = 1024;

/// Every route in matching order.
pub(super) fn check(cx: &mut Reader, root: &Section<'_>, labels: &Labels) -> Vec<Route> {
    let objective = cx.get(root, "objective", Leaf::ratio);
    let defaults = slos::Defaults::read(cx, root, objective);
    let mut routes: Vec<Route> = Vec::new();
    // Which of them say readably what they match: what the others would take is not known.
    let mut known: Vec<usize> = Vec::new();
    for section in cx.sections(root, "routes", MAX_ROUTES) {
        let before = cx.problems.len();
        let mut route = matching(cx, &section);
        let readable = cx.problems.len() == before;
        let earlier = known
            .iter()
            .map(|at| &routes[*at])
            .find(|earlier| readable && covers(earlier, &route));
        if !route.name.is_empty() && routes.iter().any(|earlier| earlier.name == route.name) {
            cx.problem(
                &section,
                "name",
                Wrong::new("two routes have this name", "give each a name of its own"),
            );
        } else if let Some(earlier) = earlier {
            let what = format!("can never match: route `{}` before it takes the same requests", earlier.name);
            cx.problem_here(&section, Wrong::new(what, "put the narrower route first or take one out"));
        }
        if readable {
            known.push(routes.len());
        }
        read_and_judge(cx, &section, &defaults, labels, &mut route);
        routes.push(route);
    }
    for built_in in builtin::routes() {
        if !routes.iter().any(|route| route.name == built_in.name) {
            routes.push(built_in);
        }
    }
    if let Some(slo) = slos::one_for_all(cx, root, &defaults) {
        for route in &mut routes {
            if route.slos.is_empty() && matches!(route.reading, Reading::ByPath | Reading::Format(_)) {
                route.slos.push(slo.clone());
            }
        }
    }
    routes
}

/// Name, paths, methods and header of a route.
fn matching(cx: &mut Reader, section: &Section<'_>) -> Route {
    let name = cx
        .required(section, "name", |leaf| leaf.name().map(str::to_owned))
        .unwrap_or_default();
    if name == OTHER {
        let wrong = Wrong::new("`other` is the name of what no route takes", "choose another name");
        cx.problem(section, "name", wrong);
    }
    let built_in = builtin::routes().find(|route| *route.name == name && name != OTHER);
    let before = cx.problems.len();
    let mut paths = cx.list(section, "paths", pattern);
    if section.has("paths") && paths.is_empty() && cx.problems.len() == before {
        cx.problem(
            section,
            "paths",
            Wrong::new("names no path", "write the paths, as in `[/v1/chat/completions]`"),
        );
    } else if !section.has("paths") {
        match &built_in {
            Some(built_in) => paths.clone_from(&built_in.paths),
            None => cx.problem(
                section,
                "paths",
                Wrong::new("is missing", "write the paths, as in `[/v1/chat/completions]`"),
            ),
        }
    } else if paths.len() > MAX_PATHS {
        let wrong = Wrong::new(format!("has {} entries", paths.len()), format!("keep it within {MAX_PATHS}"));
        cx.problem(section, "paths", wrong);
    }
    let before = cx.problems.len();
    let mut methods = cx.list(section, "methods", method);
    if methods.is_empty() && cx.problems.len() == before {
        cx.problem(
            section,
            "methods",
            Wrong::new("names no method", "write them, as in `[POST]`, or `[\"*\"]` for all"),
        );
    }
    if methods.iter().any(|method| method == "*") {
        methods.clear();
    }
    let header = cx.given(section, "header", Leaf::header);
    let reading = built_in.map_or(Reading::ByPath, |built_in| built_in.reading);
    Route {
        name: name.into(),
        paths,
        methods,
        header,
        reading,
        slos: Vec::new(),
    }
}

/// How a route's replies are read, and its SLOs.
fn read_and_judge(cx: &mut Reader, section: &Section<'_>, defaults: &slos::Defaults, labels: &Labels, route: &mut Route) {
    if let Some(reading) = cx.given(section, "format", format) {
        route.reading = reading;
    }
    route.slos = slos::check(cx, section, defaults, labels);
    if !route.slos.is_empty() {
        readable(cx, section, route);
    }
}

fn pattern(leaf: &Leaf) -> Result<String, Wrong> {
    let path = leaf.text()?;
    let right = "write a path, as in `/v1/chat/completions` or `/v2/models/*/generate*`";
    if path.len() > MAX_PATTERN || !path.starts_with(['/', '*']) {
        return Err(Wrong::new("is not a path", right));
    }
    if path.contains(['?', '#']) || path.contains(char::is_whitespace) {
        return Err(Wrong::new("is not a path alone; a query never takes part in matching", right));
    }
    Ok(path.to_owned())
}

fn method(leaf: &Leaf) -> Result<String, Wrong> {
    let method = leaf.text()?;
    if method == "*" || (is_token(method) && method.bytes().all(|b| !b.is_ascii_lowercase())) {
        return Ok(method.to_owned());
    }
    Err(Wrong::new(
        "is not a method",
        "write it in capitals, as in `POST`, or `\"*\"` for all",
    ))
}

fn format(leaf: &Leaf) -> Result<Reading, Wrong> {
    let name = leaf.text()?;
    match name {
        "auto" => Ok(Reading::ByPath),
        "opaque" => Ok(Reading::Opaque),
        "none" => Ok(Reading::None),
        _ => FORMATS
            .iter()
            .copied()
            .find(|format| format.name == name)
            .map(Reading::Format)
            .ok_or_else(|| {
                let mut names = vec!["auto", "opaque", "none"];
                names.extend(FORMATS.iter().map(|format| format.name));
                Wrong::new("no format has this name", suggestion(name, &names))
            }),
    }
}

/// Refuses SLOs on what is never read: a bound that has no sample is always met.
fn readable(cx: &mut Reader, section: &Section<'_>, route: &Route) {
    let tokens = |slo: &Slo| {
        let b = &slo.bounds;
        b.ttft_ns.or(b.tpot_ns).or(b.itl_p99_ns).or(b.stall_ns).is_some()
    };
    let asks = |slo: &Slo| slo.when.prompt_tokens.is_some() || slo.when.output_tokens.is_some();
    if matches!(route.reading, Reading::Opaque)
        && let Some(slo) = route.slos.iter().find(|slo| asks(slo))
    {
        let what = format!(
            "SLO `{}` can never match: it asks for the tokens of replies that are not read",
            slo.name
        );
        let right = "leave `prompt_tokens` and `output_tokens` out, or choose another `format`";
        cx.problem(section, "slos", Wrong::new(what, right));
    }
    match route.reading {
        Reading::None => {
            cx.problem(
                section,
                "slos",
                Wrong::new("the replies of this route are not judged", "choose another `format`"),
            );
        }
        Reading::Opaque if route.slos.iter().any(tokens) => {
            let what = "bounds the tokens of replies that are not read: such a bound would always be met";
            cx.problem(
                section,
                "slos",
                Wrong::new(what, "keep `e2e` only, or choose another `format`"),
            );
        }
        Reading::ByPath if route.slos.iter().any(tokens) && !section.has("format") && !known_path(&route.paths) => {
            let what = "is missing, and the paths do not say how replies are read: bounds on tokens would always be met";
            let names: Vec<&str> = FORMATS.iter().map(|format| format.name).collect();
            cx.problem(
                section,
                "format",
                Wrong::new(what, format!("write one of {}", names.join(", "))),
            );
        }
        Reading::Format(_) | Reading::ByPath | Reading::Opaque => {}
    }
}

/// Whether some path may be one whose format is known.
fn known_path(paths: &[String]) -> bool {
    let known = || FORMATS.iter().flat_map(|format| format.paths);
    paths
        .iter()
        .any(|path| format_for(path).is_some() || known().any(|known| glob(path, known)))
}

/// Whether `earlier` takes every request that `later` could. A pattern that matches another one's text covers all it matches.
fn covers(earlier: &Route, later: &Route) -> bool {
    let methods = earlier.methods.is_empty()
        || (!later.methods.is_empty() && later.methods.iter().all(|method| earlier.methods.contains(method)));
    let header = earlier.header.is_none() || earlier.header == later.header;
    let paths = !later.paths.is_empty()
        && later
            .paths
            .iter()
            .all(|path| earlier.paths.iter().any(|wide| glob(wide, path)));
    methods && header && paths
}
