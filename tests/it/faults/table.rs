//! The list of public bug reports of streaming proxies, and the tests that hold this one to the right behaviour.
//!
//! `reports.md` has a row for each: its number, the public issue, the fault, and the tests (`file::name`, the file below `tests/it`
//! or, when it begins with `src/`, below the repository; a file alone is a script to be run by itself). What is still to be done
//! stands behind `later:`.

use std::collections::BTreeMap;
use std::path::Path;

const REPORTS: &str = include_str!("reports.md");

/// How many reports there are.
const COUNT: usize = 115;

struct Row {
    id: &'static str,
    issues: &'static str,
    fault: &'static str,
    tests: Vec<&'static str>,
    later: Option<&'static str>,
}

fn rows() -> Vec<Row> {
    let cells = REPORTS.lines().filter_map(|line| line.strip_prefix("| P"));
    cells
        .map(|line| {
            let cells: Vec<&str> = line.trim_end_matches('|').split('|').map(str::trim).collect();
            let [id, issues, fault, tests] = cells[..] else {
                panic!("four cells: {line}");
            };
            let (tests, later) = match tests.split_once("later:") {
                Some((tests, later)) => (tests, Some(later.trim())),
                None => (tests, None),
            };
            Row {
                id,
                issues,
                fault,
                tests: tests.split_whitespace().collect(),
                later,
            }
        })
        .collect()
}

#[test]
fn every_report_has_a_row_with_its_issue_and_its_fault() {
    let rows = rows();
    let ids: Vec<String> = rows.iter().map(|r| r.id.to_owned()).collect();
    let expected: Vec<String> = (1..=COUNT).map(|n| format!("{n:03}")).collect();
    assert_eq!(ids, expected);
    for row in &rows {
        let of_an_issue = |word: &str| word.contains('/') && word.contains('#') || word.starts_with('#');
        assert!(
            row.issues.split([',', ' ']).filter(|w| !w.is_empty()).all(of_an_issue),
            "P{}: {}",
            row.id,
            row.issues
        );
        assert!(row.fault.len() > 10, "P{}", row.id);
        assert!(
            !row.tests.is_empty() || row.later.is_some(),
            "P{}: neither a test nor a reason",
            row.id
        );
        assert!(row.later.is_none_or(|l| l.len() > 10), "P{}: say what is missing", row.id);
    }
}

#[test]
fn every_test_in_the_table_exists() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut texts: BTreeMap<&str, String> = BTreeMap::new();
    for row in rows() {
        for test in &row.tests {
            let Some((file, name)) = test.split_once("::") else {
                let script = std::fs::read_to_string(root.join(test));
                assert!(
                    script.is_ok_and(|text| text.starts_with("#!")),
                    "P{}: {test} is no script",
                    row.id
                );
                continue;
            };
            let path = if file.starts_with("src/") {
                root.join(file)
            } else {
                root.join("tests/it").join(file)
            };
            let text = texts
                .entry(file)
                .or_insert_with(|| std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("P{}: {file}: {e}", row.id)));
            let lines: Vec<&str> = text.lines().collect();
            let at = lines
                .iter()
                .position(|line| line.trim().trim_start_matches("async ").starts_with(&format!("fn {name}(")));
            let at = at.unwrap_or_else(|| panic!("P{}: no {name} in {file}", row.id));
            let marked = lines[..at]
                .iter()
                .rev()
                .take(6)
                .take_while(|l| !l.trim().is_empty())
                .any(|l| {
                    let line = l.trim();
                    line.starts_with("#[test") || line.starts_with("#[tokio::test")
                });
            assert!(marked, "P{}: {test} is no test", row.id);
        }
    }
}
