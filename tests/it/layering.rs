//! The structure the crate promises: which ring may use what, one clock read, files of one idea.

use std::fs;
use std::path::{Path, PathBuf};

/// Every Rust file below `dir`, with its path relative to `src`.
fn sources(dir: &Path, out: &mut Vec<(String, String)>) {
    let mut entries: Vec<PathBuf> = fs::read_dir(dir)
        .expect("a source folder")
        .map(|e| e.expect("an entry").path())
        .collect();
    entries.sort();
    for path in entries {
        if path.is_dir() {
            sources(&path, out);
        } else if path.extension().is_some_and(|e| e == "rs") {
            let name = path.strip_prefix(src()).expect("below src").display().to_string();
            out.push((name, fs::read_to_string(&path).expect("readable source")));
        }
    }
}

fn src() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("src")
}

fn all() -> Vec<(String, String)> {
    let mut out = Vec::new();
    sources(&src(), &mut out);
    assert!(out.len() > 20, "the walk found the sources");
    out
}

/// The lines of `text` that are code, without their line comments.
fn code(text: &str) -> impl Iterator<Item = (usize, &str)> {
    text.lines()
        .enumerate()
        .map(|(i, l)| (i + 1, l.split("//").next().unwrap_or_default()))
}

#[test]
fn the_pure_ring_knows_no_runtime_no_http_no_exposition_and_no_clock() {
    let pure = ["measure/", "wire/", "aggregate/", "route.rs"];
    let banned = [
        "tokio::",
        "hyper::",
        "hyper_util",
        "prometheus",
        "tracing::",
        "clock::",
        "std::fs",
        "std::net::Tcp",
        "SystemTime",
        "http::",
    ];
    let mut wrong = Vec::new();
    for (name, text) in all().iter().filter(|(n, _)| pure.iter().any(|p| n.starts_with(p))) {
        for (line, part) in code(text) {
            for word in banned.iter().filter(|w| part.contains(**w)) {
                wrong.push(format!("src/{name}:{line}: uses {word}"));
            }
        }
    }
    assert!(wrong.is_empty(), "the pure core must stay pure:\n{}", wrong.join("\n"));
}

#[test]
fn rings_depend_inwards_only() {
    // folder -> what it must not use
    let rules: [(&str, &[&str]); 5] = [
        (
            "measure/",
            &[
                "crate::wire",
                "crate::aggregate",
                "crate::observe",
                "crate::proxy",
                "crate::config",
                "crate::expose",
            ],
        ),
        (
            "wire/",
            &[
                "crate::aggregate",
                "crate::observe",
                "crate::proxy",
                "crate::config",
                "crate::expose",
            ],
        ),
        (
            "aggregate/",
            &[
                "crate::wire",
                "crate::observe",
                "crate::proxy",
                "crate::config",
                "crate::expose",
            ],
        ),
        ("observe/", &["crate::proxy", "crate::admin", "crate::expose", "crate::app"]),
        ("proxy/", &["crate::admin", "crate::expose", "crate::app", "crate::cli"]),
    ];
    let mut wrong = Vec::new();
    for (name, text) in all() {
        for (folder, banned) in rules.iter().filter(|(f, _)| name.starts_with(f)) {
            for (line, part) in code(&text) {
                for word in banned.iter().filter(|w| part.contains(**w)) {
                    wrong.push(format!("src/{name}:{line}: {folder} must not use {word}"));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "an arrow points the wrong way:\n{}", wrong.join("\n"));
}

#[test]
fn the_clock_is_read_in_one_place() {
    // The shutdown's deadlines are moments of tokio's timers, not measurements.
    let timers = ["clock.rs", "lifecycle/shutdown.rs"];
    let mut wrong = Vec::new();
    for (name, text) in all().iter().filter(|(n, _)| !timers.contains(&n.as_str())) {
        for (line, part) in code(text) {
            if part.contains("Instant::now") || part.contains("SystemTime::now") {
                wrong.push(format!("src/{name}:{line}"));
            }
        }
    }
    assert!(wrong.is_empty(), "read the clocks through clock.rs:\n{}", wrong.join("\n"));
}

#[test]
fn no_source_file_passes_400_lines() {
    let long: Vec<String> = all()
        .iter()
        .map(|(n, t)| (n, t.lines().count()))
        .filter(|(_, lines)| *lines > 400)
        .map(|(n, lines)| format!("src/{n}: {lines} lines"))
        .collect();
    assert!(long.is_empty(), "split by concept:\n{}", long.join("\n"));
}
