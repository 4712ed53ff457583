//! One SLO on one line, as people already type it for their benchmark tools: `ttft:500 tpot:15 e2el:2000`.
//!
//! On the command line and in the environment a number without a unit is milliseconds, which is what those tools take; below 1 it is
//! refused, since who types 0.2 means 0.2 s. In a file every value carries its unit.

use super::problem::{Wrong, suggestion};
use super::units;
use crate::measure::Bounds;

/// The names of each bound: ours, vLLM's, AIPerf's and GenAI-Perf's, GuideLLM's. `itl` there is a request's mean, which is TPOT here.
const NAMES: [(&str, &str); 14] = [
    ("ttft", "ttft"),
    ("time_to_first_token", "ttft"),
    ("ttft_ms", "ttft"),
    ("tpot", "tpot"),
    ("itl", "tpot"),
    ("inter_token_latency", "tpot"),
    ("tpot_ms", "tpot"),
    ("e2e", "e2e"),
    ("e2el", "e2e"),
    ("request_latency", "e2e"),
    ("e2el_ms", "e2e"),
    ("e2e_ms", "e2e"),
    ("itl_p99", "itl_p99"),
    ("stall", "stall"),
];

pub(super) const RIGHT: &str =
    "write `ttft=500ms,tpot=15ms,e2e=2s`, or `ttft:500 tpot:15 e2el:2000` on the command line (milliseconds)";

/// The bounds of `spec`; `bare_is_ms` on the command line and in the environment. Everything that is wrong with it comes in one.
pub(super) fn parse(spec: &str, bare_is_ms: bool) -> Result<Bounds, Wrong> {
    let mut bounds = Bounds::default();
    let parts = spec
        .split(|c: char| c == ',' || c.is_whitespace())
        .filter(|part| !part.is_empty());
    let wrongs: Vec<Wrong> = parts.filter_map(|part| bound(part, bare_is_ms, &mut bounds).err()).collect();
    if let Some((last, others)) = wrongs.split_last() {
        let others: String = others
            .iter()
            .map(|wrong| format!("{}; {}; and ", wrong.what, wrong.right))
            .collect();
        return Err(Wrong::new(format!("{others}{}", last.what), last.right.clone()));
    }
    if bounds == Bounds::default() {
        Err(Wrong::new("has no bound", RIGHT))
    } else {
        Ok(bounds)
    }
}

/// Reads one `name:value` into `bounds`.
fn bound(part: &str, bare_is_ms: bool, bounds: &mut Bounds) -> Result<(), Wrong> {
    let Some((name, value)) = part.split_once([':', '=']) else {
        return Err(Wrong::new(format!("`{}` is not `name:value`", part.escape_debug()), RIGHT));
    };
    let written = name.to_lowercase();
    let Some((_, bound)) = NAMES.iter().find(|(known, _)| *known == written) else {
        let ours = ["ttft", "tpot", "itl_p99", "stall", "e2e"];
        return Err(Wrong::new(
            format!("there is no bound `{}`", name.escape_debug()),
            suggestion(&written, &ours),
        ));
    };
    let place = match *bound {
        "ttft" => &mut bounds.ttft_ns,
        "tpot" => &mut bounds.tpot_ns,
        "itl_p99" => &mut bounds.itl_p99_ns,
        "stall" => &mut bounds.stall_ns,
        _ => &mut bounds.e2e_ns,
    };
    if place.is_some() {
        return Err(Wrong::new(format!("gives `{bound}` twice"), "keep one of them"));
    }
    *place = Some(nanos(part, name, value, bare_is_ms)?);
    Ok(())
}

fn nanos(part: &str, name: &str, value: &str, bare_is_ms: bool) -> Result<u64, Wrong> {
    let bare = units::is_number(value);
    let small = || value.parse::<f64>().is_ok_and(|ms| ms > 0.0 && ms < 1.0);
    if bare && bare_is_ms && small() {
        return Err(Wrong::new(
            format!("`{part}` would be {value} ms, but {value} is seconds in other tools"),
            format!("write the unit: `{name}={value}s` or `{name}={value}ms`"),
        ));
    }
    let with_unit = if bare && bare_is_ms {
        format!("{value}ms")
    } else {
        value.to_owned()
    };
    let duration = units::duration(&with_unit)
        .map_err(|wrong| Wrong::new(format!("`{}`: {}", part.escape_debug(), wrong.what), wrong.right))?;
    // invariant: `units::duration` accepts at most 30 days, which fit.
    Ok(u64::try_from(duration.as_nanos()).expect("30 days fit"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn triple(ttft: u64, tpot: u64, e2e: u64) -> Bounds {
        Bounds {
            ttft_ns: Some(ttft * MS),
            tpot_ns: Some(tpot * MS),
            e2e_ns: Some(e2e * MS),
            ..Bounds::default()
        }
    }

    #[test]
    fn every_tools_spelling_gives_the_same_bounds() {
        for spec in [
            "ttft:500 tpot:15 e2el:2000",
            "ttft=500ms,tpot=15ms,e2e=2s",
            "time_to_first_token:500 inter_token_latency:15 request_latency:2000",
            "ttft_ms:500,tpot_ms:15,e2el_ms:2000",
            "TTFT:500.0,  itl=15 e2e=2000ms",
        ] {
            assert_eq!(parse(spec, true), Ok(triple(500, 15, 2000)), "{spec}");
        }
        let rest = Bounds {
            itl_p99_ns: Some(40 * MS),
            stall_ns: Some(1000 * MS),
            ..Bounds::default()
        };
        assert_eq!(parse("itl_p99:40 stall:1s", true), Ok(rest));
    }

    #[test]
    fn a_bare_number_below_one_is_refused_with_both_readings() {
        let wrong = parse("ttft:0.2", true).unwrap_err();
        assert_eq!(wrong.what, "`ttft:0.2` would be 0.2 ms, but 0.2 is seconds in other tools");
        assert_eq!(wrong.right, "write the unit: `ttft=0.2s` or `ttft=0.2ms`");
        assert_eq!(parse("ttft=0.2ms", true).unwrap().ttft_ns, Some(200_000));
    }

    #[test]
    fn what_is_wrong_is_named() {
        for (spec, bare_is_ms, what) in [
            ("", true, "has no bound"),
            (" , ", true, "has no bound"),
            ("ttft", true, "`ttft` is not `name:value`"),
            ("tftt:3", true, "there is no bound `tftt`"),
            ("ttft:3 ttft_ms:4", true, "gives `ttft` twice"),
            ("ttft:", true, "`ttft:`: is no time at all"),
            ("ttft:-3", true, "`ttft:-3`: is not a duration"),
            ("ttft:0", true, "`ttft:0`: is no time at all"),
            (
                "ttft:500",
                false,
                "`ttft:500`: a bare number is no duration, since 0.2 is 0.2 ms in one tool and 0.2 s in another",
            ),
        ] {
            assert_eq!(parse(spec, bare_is_ms).expect_err(spec).what, what, "{spec}");
        }
        assert_eq!(parse("tftt:3", true).unwrap_err().right, "did you mean `ttft`?");
        let both = parse("tftt:3 e2e:2s stal:4", true).unwrap_err();
        assert_eq!(
            both.what,
            "there is no bound `tftt`; did you mean `ttft`?; and there is no bound `stal`"
        );
        assert_eq!(both.right, "did you mean `stall`?");
    }
}
