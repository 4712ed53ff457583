//! SLOs of one route: bounds, conditions, policies, and whether each can ever match.

use std::ops::RangeInclusive;
use std::sync::Arc;

use crate::config::Labels;
use crate::config::leaf::Leaf;
use crate::config::problem::Wrong;
use crate::config::section::{Reader, Section};
use crate::config::slo_spec;
use crate::measure::{Bounds, HeaderBounds, ItlBounds, Match, Policy, Slo, Undefined, glob};

/// Most SLOs of a route: each is a label value and is tried in turn.
const MAX_SLOS: usize = 32;
/// The name of the SLO that the `slo` key (`--slo`) makes.
const DEFAULT_NAME: &str = "default";

/// What an SLO takes when it says nothing itself.
pub(super) struct Defaults {
    objective: f64,
    undefined: Undefined,
    client_error: Policy,
    cancelled: Policy,
}

impl Defaults {
    /// The section `slo_defaults`.
    pub(super) fn read(cx: &mut Reader, root: &Section<'_>, objective: f64) -> Self {
        let s = cx.section(root, "slo_defaults");
        Self {
            objective,
            undefined: cx.get(&s, "undefined", undefined),
            client_error: cx.get(&s, "client_error", client_error),
            cancelled: cx.get(&s, "cancelled", cancelled),
        }
    }
}

/// The SLOs of the route `section`.
pub(super) fn check(cx: &mut Reader, route: &Section<'_>, defaults: &Defaults, labels: &Labels) -> Vec<Slo> {
    let mut slos: Vec<Slo> = Vec::new();
    // Which of them have readable conditions: what the others would take is not known.
    let mut known: Vec<usize> = Vec::new();
    for section in cx.sections(route, "slos", MAX_SLOS) {
        let before = cx.problems.len();
        let when = conditions(cx, &section, labels);
        let readable = cx.problems.len() == before;
        let slo = slo(cx, &section, when, defaults);
        if !slo.name.is_empty() && slos.iter().any(|earlier| earlier.name == slo.name) {
            let wrong = Wrong::new("two SLOs of the route have this name", "give each a name of its own");
            cx.problem(&section, "name", wrong);
        }
        let earlier = known
            .iter()
            .map(|at| &slos[*at])
            .find(|earlier| readable && covers(&earlier.when, &slo.when));
        if let Some(earlier) = earlier {
            let what = format!("can never match: SLO `{}` before it takes the same requests", earlier.name);
            cx.problem_here(&section, Wrong::new(what, "put the narrower SLO first or take one out"));
        }
        if readable {
            known.push(slos.len());
        }
        slos.push(slo);
    }
    let mut itl: Vec<u64> = slos.iter().filter_map(|slo| slo.bounds.itl_p99_ns).collect();
    itl.sort_unstable();
    itl.dedup();
    if itl.len() > ItlBounds::MAX {
        let what = format!("has {} different `itl_p99` bounds", itl.len());
        let right = format!("use at most {} different values in one route", ItlBounds::MAX);
        cx.problem_here(route, Wrong::new(what, right));
    }
    slos
}

/// The SLO of the top-level key `slo`.
pub(super) fn one_for_all(cx: &mut Reader, root: &Section<'_>, defaults: &Defaults) -> Option<Slo> {
    let bounds = cx.given(root, "slo", |leaf| match &leaf.kind {
        config::ValueKind::Table(_) => Err(Wrong::new("is a section, not one text", slo_spec::RIGHT)),
        _ => slo_spec::parse(leaf.text()?, leaf.loose),
    })?;
    Some(Slo {
        name: DEFAULT_NAME.into(),
        when: Match::default(),
        bounds,
        objective: defaults.objective,
        undefined: defaults.undefined,
        client_error: defaults.client_error,
        cancelled: defaults.cancelled,
        header_bounds: None,
    })
}

fn slo(cx: &mut Reader, section: &Section<'_>, when: Match, defaults: &Defaults) -> Slo {
    let name = cx
        .required(section, "name", |leaf| leaf.name().map(Arc::from))
        .unwrap_or_else(|| "".into());
    let bounds = Bounds {
        ttft_ns: cx.given(section, "ttft", Leaf::nanos),
        tpot_ns: cx.given(section, "tpot", Leaf::nanos),
        itl_p99_ns: cx.given(section, "itl_p99", Leaf::nanos),
        stall_ns: cx.given(section, "stall", Leaf::nanos),
        e2e_ns: cx.given(section, "e2e", Leaf::nanos),
    };
    if !["ttft", "tpot", "itl_p99", "stall", "e2e", "header_bounds"]
        .iter()
        .any(|key| section.has(key))
    {
        let wrong = Wrong::new(
            "has no bound, so every request would be good",
            "write `ttft`, `tpot`, `itl_p99`, `stall` or `e2e`",
        );
        cx.problem_here(section, wrong);
    }
    Slo {
        name,
        when,
        bounds,
        objective: cx.given(section, "objective", Leaf::ratio).unwrap_or(defaults.objective),
        undefined: cx.given(section, "undefined", undefined).unwrap_or(defaults.undefined),
        client_error: cx
            .given(section, "client_error", client_error)
            .unwrap_or(defaults.client_error),
        cancelled: cx.given(section, "cancelled", cancelled).unwrap_or(defaults.cancelled),
        header_bounds: header_bounds(cx, section),
    }
}

fn conditions(cx: &mut Reader, section: &Section<'_>, labels: &Labels) -> Match {
    let when = cx.section(section, "when");
    let text = |leaf: &Leaf| leaf.text().map(str::to_owned);
    if when.has("tenant") && labels.tenant_header.is_none() {
        cx.problem(
            &when,
            "tenant",
            Wrong::new("no header says who the tenant is", "set `labels.tenant.header`"),
        );
    }
    Match {
        model: cx.given(&when, "model", text),
        tenant: cx.given(&when, "tenant", text),
        header: cx.given(&when, "header", Leaf::header),
        streaming: cx.given(&when, "streaming", Leaf::boolean),
        prompt_tokens: cx.given(&when, "prompt_tokens", Leaf::range),
        output_tokens: cx.given(&when, "output_tokens", Leaf::range),
    }
}

fn header_bounds(cx: &mut Reader, section: &Section<'_>) -> Option<HeaderBounds> {
    if !section.has("header_bounds") {
        return None;
    }
    let s = cx.section(section, "header_bounds");
    let min = cx.required(&s, "min", Leaf::nanos);
    let max = cx.required(&s, "max", Leaf::nanos);
    let (min_ns, max_ns) = min.zip(max)?;
    if min_ns > max_ns {
        cx.problem(&s, "min", Wrong::new("is above `max`", "write the smaller one here"));
    }
    Some(HeaderBounds { min_ns, max_ns })
}

fn undefined(leaf: &Leaf) -> Result<Undefined, Wrong> {
    leaf.choice(&["pass", "fail", "exclude"])
        .map(|at| [Undefined::Pass, Undefined::Fail, Undefined::Exclude][at])
}

fn client_error(leaf: &Leaf) -> Result<Policy, Wrong> {
    leaf.choice(&["exclude", "bad"]).map(|at| [Policy::Exclude, Policy::Bad][at])
}

fn cancelled(leaf: &Leaf) -> Result<Policy, Wrong> {
    leaf.choice(&["judge", "exclude", "bad"])
        .map(|at| [Policy::Judge, Policy::Exclude, Policy::Bad][at])
}

/// Whether every request that `later` takes is taken by `earlier` too.
fn covers(earlier: &Match, later: &Match) -> bool {
    fn same<T: PartialEq>(earlier: Option<&T>, later: Option<&T>) -> bool {
        earlier.is_none() || earlier == later
    }
    fn around(earlier: Option<&RangeInclusive<u64>>, later: Option<&RangeInclusive<u64>>) -> bool {
        match (earlier, later) {
            (None, _) => true,
            (Some(wide), Some(narrow)) => wide.start() <= narrow.start() && narrow.end() <= wide.end(),
            (Some(_), None) => false,
        }
    }
    let model = match (&earlier.model, &later.model) {
        (None, _) => true,
        (Some(wide), Some(narrow)) => glob(wide, narrow),
        (Some(_), None) => false,
    };
    model
        && same(earlier.tenant.as_ref(), later.tenant.as_ref())
        && same(earlier.header.as_ref(), later.header.as_ref())
        && same(earlier.streaming.as_ref(), later.streaming.as_ref())
        && around(earlier.prompt_tokens.as_ref(), later.prompt_tokens.as_ref())
        && around(earlier.output_tokens.as_ref(), later.output_tokens.as_ref())
}
