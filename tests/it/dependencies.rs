//! What the program is built from: licences, sources, duplicates. (Advisories need a database: see `.ci/run`.)

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;

use serde_json::Value;

/// Licences that allow shipping a binary under Apache-2.0 without more than their text.
const LICENCES: [&str; 12] = [
    "0BSD",
    "Apache-2.0",
    "Apache-2.0 WITH LLVM-exception",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "BSL-1.0",
    "CC0-1.0",
    "ISC",
    "MIT",
    "Unicode-3.0",
    "Unlicense",
    "Zlib",
];

/// Crates that are in the program in two versions, and why nobody here can change it.
const TWICE: [(&str, &str); 2] = [
    (
        "hashbrown",
        "indexmap (below h2) has moved on, hashlink (below the config crate) has not",
    ),
    ("syn", "two generations of derive macros; build time only"),
];

fn metadata() -> Value {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo)
        .args([
            "metadata",
            "--locked",
            "--offline",
            "--format-version",
            "1",
            "--filter-platform",
            "x86_64-unknown-linux-gnu",
        ])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .expect("cargo runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("cargo metadata is JSON")
}

fn text<'a>(of: &'a Value, key: &str) -> &'a str {
    of[key].as_str().unwrap_or_default()
}

/// The packages that end up in the program: over normal dependencies only.
fn shipped(metadata: &Value) -> Vec<&Value> {
    let nodes: BTreeMap<&str, &Value> = metadata["resolve"]["nodes"]
        .as_array()
        .expect("nodes")
        .iter()
        .map(|n| (text(n, "id"), n))
        .collect();
    let mut todo = vec![text(&metadata["resolve"], "root")];
    let mut seen = BTreeSet::new();
    while let Some(id) = todo.pop() {
        if !seen.insert(id) {
            continue;
        }
        for dependency in nodes[id]["deps"].as_array().expect("deps") {
            let normal = |kind: &Value| kind["kind"].is_null();
            if dependency["dep_kinds"].as_array().expect("kinds").iter().any(normal) {
                todo.push(text(dependency, "pkg"));
            }
        }
    }
    metadata["packages"]
        .as_array()
        .expect("packages")
        .iter()
        .filter(|p| seen.contains(text(p, "id")))
        .collect()
}

/// Whether an SPDX expression can be met with [`LICENCES`]: every `AND` part by one of its `OR` parts.
fn is_allowed(expression: &str) -> bool {
    let plain = expression.replace('/', " OR ").replace(['(', ')'], " ");
    plain
        .split(" AND ")
        .all(|part| part.split(" OR ").any(|one| LICENCES.contains(&one.trim())))
}

#[test]
fn every_licence_is_one_that_may_be_shipped() {
    let metadata = metadata();
    let refused: Vec<String> = shipped(&metadata)
        .iter()
        .filter(|p| !is_allowed(text(p, "license")))
        .map(|p| format!("{} {}: {:?}", text(p, "name"), text(p, "version"), text(p, "license")))
        .collect();
    assert!(
        refused.is_empty(),
        "licences that nobody has looked at:\n{}",
        refused.join("\n")
    );
}

#[test]
fn everything_comes_from_the_registry() {
    let metadata = metadata();
    let root = text(&metadata["resolve"], "root");
    for package in metadata["packages"]
        .as_array()
        .expect("packages")
        .iter()
        .filter(|p| text(p, "id") != root)
    {
        let source = text(package, "source");
        assert!(
            source.starts_with("registry+"),
            "{} comes from {source:?}",
            text(package, "name")
        );
    }
}

#[test]
fn nothing_is_shipped_twice_without_a_reason() {
    let metadata = metadata();
    let mut versions: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for package in shipped(&metadata) {
        versions
            .entry(text(package, "name"))
            .or_default()
            .insert(text(package, "version"));
    }
    let twice: BTreeMap<_, _> = versions.into_iter().filter(|(_, v)| v.len() > 1).collect();
    let known: BTreeSet<&str> = TWICE.iter().map(|(name, _)| *name).collect();
    assert_eq!(twice.keys().copied().collect::<BTreeSet<_>>(), known, "{twice:#?}");
}
