//! The shape of a metric family, and the one table of all of them.
//!
//! Everything that names a metric (renderers, README, dashboards, rules) is checked against [`FAMILIES`]; a family that is not a
//! row there cannot be exposed.

mod table;

use std::fmt::Write;

pub use table::FAMILIES;

/// What a family counts or measures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Only goes up; its name ends in `_total`.
    Counter,
    /// Goes up and down.
    Gauge,
    /// Cumulative buckets, sum and count.
    Histogram,
}

impl Kind {
    /// As written after `# TYPE`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Counter => "counter",
            Self::Gauge => "gauge",
            Self::Histogram => "histogram",
        }
    }
}

/// What a family's samples belong to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// The traffic of one route and model (and tenant, when tenants are configured): labels `route`, `model`, [`TENANT`].
    Series,
    /// The process or its configuration: no labels but the family's own.
    Process,
}

/// The label that series families carry only when a tenant header is configured.
pub const TENANT: &str = "tenant";

/// One metric family: a row of [`FAMILIES`].
#[derive(Clone, Copy, Debug)]
pub struct FamilyDef {
    /// Full name as exposed in the text format.
    pub name: &'static str,
    /// Type.
    pub kind: Kind,
    /// Unit (`seconds`, `tokens`, `bytes`) or empty; where given, the name (without `_total`) ends in it.
    pub unit: &'static str,
    /// Whose samples they are.
    pub scope: Scope,
    /// Labels besides those of the scope, without `le`.
    pub labels: &'static [&'static str],
    /// What it means, where its boundary is, how it can mislead.
    pub help: &'static str,
}

impl FamilyDef {
    /// Whether the text formats leave its type open: the label `quantile` is reserved for summaries on typed families (promtool
    /// refuses it elsewhere), and a summary would promise a sum and a count.
    pub fn is_untyped(&self) -> bool {
        self.labels.contains(&"quantile")
    }

    /// Every label name in the order they are written, `tenant` included where `tenant` says so.
    pub fn label_names(&self, tenant: bool) -> Vec<&'static str> {
        let scope: &[&str] = match (self.scope, tenant) {
            (Scope::Series, true) => &["route", "model", TENANT],
            (Scope::Series, false) => &["route", "model"],
            (Scope::Process, _) => &[],
        };
        [scope, self.labels].concat()
    }
}

/// The row named `name`.
pub fn family(name: &str) -> Option<&'static FamilyDef> {
    FAMILIES.iter().find(|def| def.name == name)
}

/// The metric reference as a Markdown table, one row a family, in the table's order.
pub fn reference() -> String {
    let mut out = String::from("| family | type | labels | meaning |\n|---|---|---|---|\n");
    for def in FAMILIES {
        let labels: Vec<_> = def
            .label_names(true)
            .iter()
            .map(|l| if *l == TENANT { "(tenant)" } else { l })
            .collect();
        let help = def.help.replace('|', "\\|").replace('<', "&lt;");
        // invariant: writing to a String cannot fail.
        let _ = writeln!(
            out,
            "| `{}` | {} | {} | {help} |",
            def.name,
            def.kind.name(),
            labels.join(", ")
        );
    }
    out
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn every_row_keeps_the_naming_rules() {
        let mut names = HashSet::new();
        for def in FAMILIES {
            assert!(names.insert(def.name), "{} is listed twice", def.name);
            assert!(
                def.name.starts_with("goodput_") || def.name.starts_with("process_"),
                "{}",
                def.name
            );
            assert!(
                def.name
                    .bytes()
                    .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_'),
                "{}",
                def.name
            );
            assert_eq!(def.name.ends_with("_total"), def.kind == Kind::Counter, "{}", def.name);
            let base = def.name.strip_suffix("_total").unwrap_or(def.name);
            assert!(base.ends_with(def.unit), "{} does not end in its unit {}", def.name, def.unit);
            for part in ["_bucket", "_count", "_sum", "_created"] {
                assert!(!base.ends_with(part), "{} ends in a reserved suffix", def.name);
            }
        }
    }

    #[test]
    fn every_row_says_something_in_one_line() {
        for def in FAMILIES {
            assert!(
                def.help.len() > 20 && def.help.ends_with('.') && !def.help.contains('\n'),
                "{}",
                def.name
            );
        }
    }

    #[test]
    fn labels_of_a_row_are_distinct_and_not_reserved() {
        for def in FAMILIES {
            let labels = def.label_names(true);
            assert_eq!(labels.iter().collect::<HashSet<_>>().len(), labels.len(), "{}", def.name);
            assert!(
                !labels.contains(&"le") && !labels.iter().any(|l| l.starts_with("__")),
                "{}",
                def.name
            );
        }
    }

    #[test]
    fn every_latency_seen_from_the_pod_names_its_boundary() {
        for name in [
            "goodput_ttft_seconds",
            "goodput_ttfb_seconds",
            "goodput_e2e_seconds",
            "goodput_rolling_seconds",
        ] {
            let def = family(name).expect(name);
            assert!(def.help.contains("easured at the pod"), "{name}");
        }
    }

    #[test]
    fn the_three_slo_counters_have_equal_label_sets() {
        let of = |name| family(name).expect("in the table").label_names(true);
        assert_eq!(of("goodput_slo_evaluated_total"), of("goodput_slo_good_total"));
        assert_eq!(of("goodput_slo_evaluated_total"), of("goodput_slo_bad_total"));
    }

    #[test]
    fn the_reference_has_one_row_a_family() {
        let text = reference();
        assert_eq!(text.lines().count(), 2 + FAMILIES.len());
        assert!(text.lines().all(|line| line.starts_with("| ") || line.starts_with("|-")));
        assert!(text.contains("| `goodput_slo_good_total` | counter | route, model, (tenant), slo |"));
    }
}
