//! Which readings of the file are acted upon.

use super::*;
use crate::config::Syntax;

fn file(text: &str) -> Result<File, String> {
    Ok(File {
        name: "f.yaml".to_owned(),
        text: text.to_owned(),
        syntax: Syntax::Yaml,
    })
}

fn watched() -> Watched {
    Watched {
        tried: Some("a".to_owned()),
        ..Watched::default()
    }
}

#[test]
fn a_change_is_taken_when_two_readings_agree_and_only_once() {
    let mut watched = watched();
    let due: Vec<_> = ["a", "b", "bc", "bc", "bc", "a", "a"]
        .map(|text| watched.is_due(&file(text), false))
        .into();
    assert_eq!(due, [false, false, false, true, false, false, true]);
}

#[test]
fn a_hangup_takes_what_is_there() {
    let mut watched = watched();
    assert!(watched.is_due(&file("a"), true));
    assert!(watched.is_due(&file("b"), true));
    assert!(!watched.is_due(&file("b"), false));
    assert!(!watched.is_due(&file("b"), false));
}

#[test]
fn a_file_that_cannot_be_read_is_reported_once_and_taken_again_when_it_is_back() {
    let mut watched = watched();
    let gone = || Err("gone".to_owned());
    assert!(watched.is_due(&gone(), false));
    assert!(!watched.is_due(&gone(), false));
    assert!(watched.is_due(&Err("denied".to_owned()), false));
    assert!(!watched.is_due(&file("a"), false));
    assert!(
        watched.is_due(&file("a"), false),
        "the last attempt failed, so this one is due"
    );
}
