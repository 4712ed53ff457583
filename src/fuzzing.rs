//! Entry points for fuzzing, no interface: each takes any bytes and panics when something promised does not hold.
//!
//! `tests/fuzz` drives them with libFuzzer, `tests/prop/fuzz.rs` with a bounded run of mutations on a stable toolchain. A target
//! compares the code with a slow reading of the same bytes where there is one, and else with itself on other cuts.

use crate::config::{Config, File, Sources, Syntax};
use crate::proxy::fuzz::{chunked, headers, relay_head, splice, strip};
use crate::wire::fuzz::{decode_any, inflate, request_scan, sse};

/// Reads any bytes.
pub type Target = fn(&[u8]);

/// Every target with its name in `tests/fuzz`.
pub const TARGETS: [(&str, Target); 10] = [
    ("decode_any", decode_any),
    ("sse", sse),
    ("inflate", inflate),
    ("request_scan", request_scan),
    ("config_yaml", config_yaml),
    ("headers", headers),
    ("relay_head", relay_head),
    ("chunked", chunked),
    ("strip", strip),
    ("splice", splice),
];

/// Runs the target called `name`.
///
/// # Panics
/// When there is none, or when it found something.
pub fn run(name: &str, data: &[u8]) {
    let target = TARGETS.iter().find(|(known, _)| *known == name).map(|(_, target)| target);
    target.unwrap_or_else(|| panic!("no target {name}"))(data);
}

/// `bytes` cut in the way that `seed` names: 0 not at all, 1 after each byte, else at places that depend on it alone.
pub(crate) fn pieces(bytes: &[u8], seed: u8) -> Vec<&[u8]> {
    let mut state = u32::from(seed);
    let mut rest = bytes;
    let mut out = Vec::new();
    while !rest.is_empty() {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        let len = match seed {
            0 => rest.len(),
            1 => 1,
            _ => 1 + (state >> 16) as usize % 23,
        };
        let (piece, after) = rest.split_at(len.min(rest.len()));
        out.push(piece);
        rest = after;
    }
    out
}

/// A refused configuration says why; one that is taken shows itself in a form that is taken again, as the same.
fn config_yaml(data: &[u8]) {
    let load = |text: String| {
        Config::load(&Sources {
            file: Some(File {
                name: "fuzz".to_owned(),
                text,
                syntax: Syntax::Yaml,
            }),
            ..Sources::default()
        })
    };
    let Ok(text) = std::str::from_utf8(data) else { return };
    match load(text.to_owned()) {
        Ok(config) => {
            let shown = config.effective();
            // Masked values and the built-in routes cannot be read back as what they were.
            let mut again = shown.clone();
            if let Some(tree) = again.as_object_mut() {
                tree.remove("routes");
            }
            let read = load(again.to_string()).unwrap_or_else(|problems| panic!("{again} is refused: {problems:?}"));
            let mut read = read.effective();
            read["routes"] = shown["routes"].clone();
            assert_eq!(read, shown);
        }
        Err(problems) => {
            assert!(!problems.is_empty(), "refused without a reason");
            for problem in problems {
                let line = problem.to_string();
                assert!(!problem.what.is_empty() && !problem.right.is_empty(), "{problem:?}");
                assert!(line.len() < 4096, "a problem of {} bytes", line.len());
                assert!(
                    !line.contains(|c: char| c.is_control() && c != '\n'),
                    "{line:?} reaches a terminal"
                );
            }
        }
    }
}
