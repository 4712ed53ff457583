//! What `deploy/` says about the program: every metric, label, flag, variable and configuration file in it exists.
//!
//! The manifests themselves, and the rules and dashboards against a real Prometheus, are checked by `tests/deploy/run`.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use goodput_proxy::config::{Config, File, Sources, keys};
use goodput_proxy::expose::families::{FAMILIES, FamilyDef, Kind, family};

/// Labels that Prometheus and its rules bring, not the program.
const OUTER_LABELS: [&str; 9] = [
    "namespace",
    "pod",
    "container",
    "job",
    "instance",
    "le",
    "alertname",
    "alertstate",
    "severity",
];

fn deploy() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("deploy")
}

/// Every text file below `folder`, without following links or reading what Python leaves.
fn texts(folder: &Path) -> Vec<(PathBuf, String)> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let entry = entry.unwrap();
        let kind = entry.file_type().unwrap();
        if entry.file_name() == "__pycache__" {
            continue;
        }
        if kind.is_dir() {
            found.extend(texts(&entry.path()));
        } else if kind.is_file() {
            found.push((entry.path(), std::fs::read_to_string(entry.path()).unwrap()));
        }
    }
    found
}

/// Runs of characters that `part` accepts and that begin with `prefix`.
fn words<'a>(text: &'a str, prefix: &str, part: impl Fn(char) -> bool) -> Vec<&'a str> {
    text.split(|c| !part(c)).filter(|word| word.starts_with(prefix)).collect()
}

fn name_part(c: char) -> bool {
    c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_'
}

/// The family that the series `name` belongs to.
fn family_of(name: &str) -> Option<&'static FamilyDef> {
    family(name).or_else(|| {
        let suffixes = ["_bucket", "_count", "_sum"].into_iter();
        let mut bases = suffixes.filter_map(|suffix| name.strip_suffix(suffix));
        bases.find_map(|base| family(base).filter(|def| def.kind == Kind::Histogram))
    })
}

#[test]
fn every_metric_named_in_deploy_is_exposed() {
    let mut seen = BTreeSet::new();
    for (path, text) in texts(&deploy()) {
        for name in ["goodput_", "process_"]
            .into_iter()
            .flat_map(|prefix| words(&text, prefix, name_part))
        {
            let def = family_of(name);
            // An open end is a prefix: of a name put together in the dashboards' source, or in a sentence.
            assert!(def.is_some() || name.ends_with('_'), "{} names {name}", path.display());
            seen.extend(def.map(|def| def.name));
        }
    }
    let unused: Vec<_> = FAMILIES
        .iter()
        .map(|def| def.name)
        .filter(|name| !seen.contains(name))
        .collect();
    assert!(unused.is_empty(), "no rule or panel shows {unused:?}");
}

/// The label names of `selector` (what stands between `{` and `}` of an expression): its words outside quotes.
fn labels_of(selector: &str) -> Vec<String> {
    let outside: Vec<_> = selector.split('"').step_by(2).collect();
    let outside = outside.join(" ");
    words(&outside, "", name_part)
        .into_iter()
        .filter(|word| !word.is_empty())
        .map(str::to_owned)
        .collect()
}

#[test]
fn every_selector_in_deploy_uses_labels_that_the_metric_has() {
    let mut checked = 0;
    for (path, text) in texts(&deploy()) {
        // In JSON and YAML strings quotes are escaped; in the dashboards' source selectors are built of parts.
        if path.extension().is_some_and(|e| e == "py" || e == "tpl" || e == "md") {
            continue;
        }
        let text = text.replace("\\\"", "\"");
        for (at, _) in text.match_indices("goodput_") {
            let rest = &text[at..];
            let name = &rest[..rest.find(|c| !name_part(c)).unwrap_or(rest.len())];
            let Some(def) = family_of(name) else { continue };
            let Some(selector) = rest[name.len()..].strip_prefix('{') else {
                continue;
            };
            let selector = &selector[..selector.find('}').unwrap()];
            for label in labels_of(selector) {
                let known = def.label_names(true).contains(&label.as_str()) || OUTER_LABELS.contains(&label.as_str());
                assert!(known, "{}: {name} has no label {label}: {{{selector}}}", path.display());
                checked += 1;
            }
        }
    }
    assert!(checked > 300, "only {checked} labels were found");
}

#[test]
fn every_flag_in_deploy_is_one_of_the_program() {
    let help = Command::new(env!("CARGO_BIN_EXE_goodput-proxy"))
        .args(["run", "--help"])
        .output()
        .unwrap();
    let help = String::from_utf8(help.stdout).unwrap();
    let flags: BTreeSet<_> = words(&help, "--", |c| c.is_ascii_lowercase() || c == '-')
        .into_iter()
        .collect();
    let mut checked = 0;
    for (path, text) in texts(&deploy()) {
        // Argument lists of the proxy's container begin with `run`.
        for (at, _) in text.match_indices("- run\n") {
            for line in text[at..].lines().skip(1).map_while(|line| line.trim().strip_prefix("- --")) {
                let flag = format!("--{}", line.split('=').next().unwrap());
                assert!(flags.contains(flag.as_str()), "{}: {flag}", path.display());
                checked += 1;
            }
        }
    }
    assert!(checked >= 20, "only {checked} flags were found");
}

#[test]
fn every_variable_in_deploy_is_a_key_of_the_configuration() {
    let known: BTreeSet<_> = keys()
        .iter()
        .map(|key| format!("GOODPUT__{}", key.path.replace('.', "__").to_uppercase()))
        .collect();
    let mut checked = 0;
    for (path, text) in texts(&deploy()) {
        for variable in words(&text, "GOODPUT__", |c| c.is_ascii_uppercase() || c == '_') {
            assert!(known.contains(variable), "{}: {variable}", path.display());
            checked += 1;
        }
    }
    assert!(checked >= 3, "only {checked} variables were found");
}

#[test]
fn every_configuration_in_deploy_loads() {
    let mut checked = 0;
    for (path, _) in texts(&deploy()) {
        if path.file_name().is_some_and(|name| name == "config.yaml") {
            let sources = Sources {
                file: Some(File::read(&path).unwrap()),
                ..Sources::default()
            };
            if let Err(problems) = Config::load(&sources) {
                panic!("{}: {problems:?}", path.display());
            }
            checked += 1;
        }
    }
    assert_eq!(checked, 5);
}
