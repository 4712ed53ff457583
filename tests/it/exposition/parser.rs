//! A strict reader of both text formats, and the checks that `promtool check metrics` and a strict OpenMetrics parser would make.

use std::collections::{BTreeMap, HashSet};

/// One `# TYPE` block.
#[derive(Debug, Default)]
pub(crate) struct Parsed {
    pub(crate) name: String,
    pub(crate) kind: String,
    pub(crate) help: String,
    pub(crate) unit: String,
    pub(crate) samples: Vec<Line>,
}

/// One sample line.
#[derive(Debug, PartialEq)]
pub(crate) struct Line {
    pub(crate) name: String,
    pub(crate) labels: BTreeMap<String, String>,
    pub(crate) value: f64,
    /// What follows `#` on the line.
    pub(crate) exemplar: Option<String>,
}

impl Line {
    pub(crate) fn label(&self, name: &str) -> &str {
        self.labels.get(name).map_or("", String::as_str)
    }
}

/// Reads text 0.0.4 or OpenMetrics; panics, naming the line, on anything that is neither.
pub(crate) fn parse(text: &str) -> Vec<Parsed> {
    let mut out: Vec<Parsed> = Vec::new();
    let mut seen = HashSet::new();
    for line in text.lines().filter(|line| *line != "# EOF") {
        if let Some(comment) = line.strip_prefix("# ") {
            let mut parts = comment.splitn(3, ' ');
            let (what, name, rest) = (
                parts.next().expect(line),
                parts.next().expect(line),
                parts.next().expect(line),
            );
            assert!(seen.insert((what.to_owned(), name.to_owned())), "twice: {line}");
            if out.last().is_none_or(|family| family.name != name) {
                out.push(Parsed {
                    name: name.to_owned(),
                    ..Parsed::default()
                });
            }
            let family = out.last_mut().expect("pushed");
            match what {
                "HELP" => family.help = rest.to_owned(),
                "TYPE" => family.kind = rest.to_owned(),
                "UNIT" => family.unit = rest.to_owned(),
                _ => panic!("unknown comment: {line}"),
            }
        } else {
            out.last_mut()
                .unwrap_or_else(|| panic!("no family before {line}"))
                .samples
                .push(sample(line));
        }
    }
    out
}

fn sample(line: &str) -> Line {
    let at = line.find(['{', ' ']).unwrap_or_else(|| panic!("no value: {line}"));
    let (name, mut rest) = line.split_at(at);
    let mut labels = BTreeMap::new();
    if let Some(inner) = rest.strip_prefix('{') {
        rest = inner;
        loop {
            let (key, after) = rest.split_once("=\"").unwrap_or_else(|| panic!("label: {line}"));
            let (value, after) = quoted(after).unwrap_or_else(|| panic!("label value: {line}"));
            assert!(labels.insert(key.to_owned(), value).is_none(), "label twice: {line}");
            if let Some(end) = after.strip_prefix('}') {
                rest = end;
                break;
            }
            rest = after.strip_prefix(',').unwrap_or_else(|| panic!("after a label: {line}"));
        }
    }
    let rest = rest.strip_prefix(' ').unwrap_or_else(|| panic!("before the value: {line}"));
    let (value, exemplar) = rest
        .split_once(" # ")
        .map_or((rest, None), |(value, e)| (value, Some(e.to_owned())));
    let value = value.parse().unwrap_or_else(|_| panic!("value: {line}"));
    Line {
        name: name.to_owned(),
        labels,
        value,
        exemplar,
    }
}

/// The text up to the closing quote, unescaped, and what follows.
fn quoted(text: &str) -> Option<(String, &str)> {
    let mut value = String::new();
    let mut chars = text.char_indices();
    while let Some((at, c)) = chars.next() {
        match c {
            '"' => return Some((value, &text[at + 1..])),
            '\\' => value.push(match chars.next()?.1 {
                'n' => '\n',
                c @ ('"' | '\\') => c,
                _ => return None,
            }),
            c => value.push(c),
        }
    }
    None
}

/// Panics on what a scraper would refuse or a linter would report.
pub(crate) fn lint(families: &[Parsed]) {
    let mut series = HashSet::new();
    for family in families {
        assert!(
            !family.help.is_empty() && !family.kind.is_empty(),
            "{} lacks HELP or TYPE",
            family.name
        );
        assert!(!family.samples.is_empty(), "{} is empty", family.name);
        for line in &family.samples {
            assert!(
                series.insert((line.name.clone(), line.labels.clone())),
                "series twice: {line:?}"
            );
            assert!(line.value.is_finite(), "{line:?}");
            let part = line
                .name
                .strip_prefix(&family.name)
                .unwrap_or_else(|| panic!("{line:?} in {}", family.name));
            let allowed: &[&str] = match family.kind.as_str() {
                "histogram" => &["_bucket", "_sum", "_count"],
                "counter" if !family.name.ends_with("_total") => &["_total"],
                _ => &[""],
            };
            assert!(allowed.contains(&part), "{line:?} in {}", family.name);
            assert!(family.kind == "gauge" || line.value >= 0.0, "{line:?}");
        }
        if family.kind == "histogram" {
            lint_histogram(family);
        }
    }
}

fn lint_histogram(family: &Parsed) {
    let mut last: BTreeMap<BTreeMap<String, String>, (f64, f64)> = BTreeMap::new();
    for line in family.samples.iter().filter(|line| line.name.ends_with("_bucket")) {
        let mut labels = line.labels.clone();
        let edge: f64 = labels
            .remove("le")
            .and_then(|le| le.parse().ok())
            .unwrap_or_else(|| panic!("le: {line:?}"));
        let before = last.insert(labels, (edge, line.value)).unwrap_or((f64::NEG_INFINITY, 0.0));
        assert!(edge > before.0 && line.value >= before.1, "not ascending: {line:?}");
    }
    for line in family.samples.iter().filter(|line| line.name.ends_with("_count")) {
        assert_eq!(
            last.get(&line.labels),
            Some(&(f64::INFINITY, line.value)),
            "+Inf is not the count: {line:?}"
        );
    }
    let parts = |part: &str| family.samples.iter().filter(|line| line.name.ends_with(part)).count();
    assert_eq!((parts("_sum"), parts("_count")), (last.len(), last.len()), "{}", family.name);
}
