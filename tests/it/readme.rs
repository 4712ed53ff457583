//! The README says what the code does: its tables are the code's own.

use goodput_proxy::cli;
use goodput_proxy::expose;
use goodput_proxy::measure::Outcome;

const README: &str = include_str!("../../README.md");

/// What stands between `<!-- name -->` and `<!-- /name -->`.
fn block(name: &str) -> &'static str {
    let (_, rest) = README.split_once(&format!("<!-- {name} -->\n")).expect("the block begins");
    rest.split_once(&format!("<!-- /{name} -->")).expect("the block ends").0
}

#[test]
fn the_metric_reference_is_the_codes_own_table() {
    let ours = expose::reference();
    assert_eq!(block("metrics").trim(), ours.trim(), "README.md should hold:\n{ours}");
}

#[test]
fn every_outcome_has_its_row() {
    for outcome in Outcome::ALL {
        let row = format!("| `{}` |", outcome.name());
        assert_eq!(README.matches(&row).count(), 1, "{row}");
    }
}

#[test]
fn every_command_has_its_row_and_no_other_is_promised() {
    let mut listed: Vec<&str> = README
        .lines()
        .filter_map(|l| l.strip_prefix("| `goodput-proxy "))
        .filter_map(|l| l.split(['`', ' ']).next())
        .map(|name| name.trim_matches(['[', ']']))
        .collect();
    listed.sort_unstable();
    let mut commands = cli::commands();
    commands.sort_unstable();
    assert_eq!(listed, commands.iter().map(String::as_str).collect::<Vec<_>>());
}
