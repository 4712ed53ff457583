//! Durations, sizes and ranges as people write them. Every parser says what is wrong and what would be right.
//!
//! A bare number is refused wherever a unit belongs: the same 0.2 is 0.2 ms in one benchmark tool and 0.2 s in another.

use std::ops::RangeInclusive;
use std::time::Duration;

use super::problem::Wrong;

/// Longest duration accepted: 30 days.
const MAX_DURATION: Duration = Duration::from_secs(30 * 24 * 3600);

/// Nanoseconds per unit of time.
const TIME_UNITS: [(&str, u128); 7] = [
    ("ns", 1),
    ("us", 1_000),
    ("µs", 1_000),
    ("ms", 1_000_000),
    ("s", 1_000_000_000),
    ("m", 60_000_000_000),
    ("h", 3_600_000_000_000),
];

/// Bytes per unit of size.
const SIZE_UNITS: [(&str, u128); 5] = [("B", 1), ("kB", 1_000), ("KiB", 1 << 10), ("MB", 1_000_000), ("MiB", 1 << 20)];

/// What would be right where a duration belongs.
const A_DURATION: &str = "write a number and a unit (ns, us, ms, s, m, h), as in `200ms` or `0.2s`";

/// A duration above zero: `200ms`, `0.2s`, `1m30s`.
pub(super) fn duration(text: &str) -> Result<Duration, Wrong> {
    match duration_or_zero(text)? {
        Duration::ZERO => Err(Wrong::new("is no time at all", A_DURATION)),
        above => Ok(above),
    }
}

/// A duration that may be zero.
pub(super) fn duration_or_zero(text: &str) -> Result<Duration, Wrong> {
    let wrong = |what: &str| Err(Wrong::new(what, A_DURATION));
    if text.is_empty() {
        return wrong("is no time at all");
    }
    if is_number(text) {
        return Err(bare_duration(text));
    }
    let (mut nanos, mut rest) = (0u128, text);
    while !rest.is_empty() {
        let Some((number, unit, after)) = split(rest) else {
            return wrong("is not a duration");
        };
        let Some((_, scale)) = TIME_UNITS.iter().find(|(name, _)| *name == unit) else {
            return wrong("is not a duration with a known unit");
        };
        let Some(part) = scaled(number, *scale) else {
            return wrong("is not a duration in whole nanoseconds");
        };
        nanos = nanos.saturating_add(part);
        rest = after;
    }
    match u64::try_from(nanos) {
        Ok(nanos) if Duration::from_nanos(nanos) <= MAX_DURATION => Ok(Duration::from_nanos(nanos)),
        _ => Err(Wrong::new("is longer than 30 days", "write at most `720h`")),
    }
}

/// A duration, or `off`.
pub(super) fn duration_or_off(text: &str) -> Result<Option<Duration>, Wrong> {
    if text == "off" {
        return Ok(None);
    }
    duration(text)
        .map(Some)
        .map_err(|wrong| Wrong::new(wrong.what, format!("{}, or `off`", wrong.right)))
}

/// A number where a duration belongs.
pub(super) fn bare_duration(number: &str) -> Wrong {
    Wrong::new(
        "a bare number is no duration, since 0.2 is 0.2 ms in one tool and 0.2 s in another",
        format!("write the unit: `{number}s` or `{number}ms`"),
    )
}

/// A size in bytes: `64KiB`.
pub(super) fn size(text: &str) -> Result<usize, Wrong> {
    let right = "write a number and a unit (B, kB, KiB, MB, MiB), as in `64KiB`";
    if is_number(text) {
        return Err(bare_size(text));
    }
    let known = split(text).filter(|(_, _, rest)| rest.is_empty());
    let Some((number, unit, _)) = known else {
        return Err(Wrong::new("is not a size", right));
    };
    let Some((_, scale)) = SIZE_UNITS.iter().find(|(name, _)| *name == unit) else {
        return Err(Wrong::new("is not a size with a known unit", right));
    };
    let bytes = scaled(number, *scale).and_then(|bytes| usize::try_from(bytes).ok());
    bytes.ok_or_else(|| Wrong::new("is not a size in whole bytes", right))
}

/// A number where a size belongs.
pub(super) fn bare_size(number: &str) -> Wrong {
    Wrong::new(
        "a bare number is no size",
        format!("write the unit: `{number}B` or `{number}KiB`"),
    )
}

/// A range of token counts: `<300`, `<=300`, `>10`, `>=10`, `10..300` (both ends included), `300`.
pub(super) fn range(text: &str) -> Result<RangeInclusive<u64>, Wrong> {
    let right = "write `<300`, `<=300`, `>10`, `>=10`, `10..300` (both included) or `300`";
    let number = |digits: &str| {
        let digits = digits.trim();
        let valid = !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit());
        let parsed = if valid { digits.parse::<u64>().ok() } else { None };
        parsed.ok_or_else(|| Wrong::new("is not a range of token counts", right))
    };
    let never = || Wrong::new("is a range that holds no number, so nothing can ever match", right);
    let text = text.trim();
    let range = if let Some(top) = text.strip_prefix("<=") {
        0..=number(top)?
    } else if let Some(top) = text.strip_prefix('<') {
        0..=number(top)?.checked_sub(1).ok_or_else(never)?
    } else if let Some(low) = text.strip_prefix(">=") {
        number(low)?..=u64::MAX
    } else if let Some(low) = text.strip_prefix('>') {
        number(low)?.checked_add(1).ok_or_else(never)?..=u64::MAX
    } else if let Some((low, top)) = text.split_once("..") {
        number(low)?..=number(top)?
    } else {
        let exact = number(text)?;
        exact..=exact
    };
    if range.is_empty() { Err(never()) } else { Ok(range) }
}

/// A range in the shortest of its written forms.
pub(super) fn show_range(range: &RangeInclusive<u64>) -> String {
    match (*range.start(), *range.end()) {
        (low, u64::MAX) => format!(">={low}"),
        (0, top) => format!("<={top}"),
        (low, top) if low == top => low.to_string(),
        (low, top) => format!("{low}..{top}"),
    }
}

/// A duration in the largest unit that holds it without a fraction.
pub(super) fn show_duration(duration: Duration) -> String {
    let nanos = duration.as_nanos();
    if nanos == 0 {
        return "0s".to_owned();
    }
    let unit = TIME_UNITS
        .iter()
        .rev()
        .find(|(name, scale)| *name != "µs" && nanos.is_multiple_of(*scale));
    match unit {
        Some((name, scale)) => format!("{}{name}", nanos / scale),
        None => format!("{nanos}ns"),
    }
}

/// A size in the largest binary unit that holds it without a fraction.
pub(super) fn show_size(bytes: usize) -> String {
    match bytes {
        b if b > 0 && b % (1 << 20) == 0 => format!("{}MiB", b >> 20),
        b if b > 0 && b % (1 << 10) == 0 => format!("{}KiB", b >> 10),
        b => format!("{b}B"),
    }
}

/// Whether `text` is a plain decimal number.
pub(super) fn is_number(text: &str) -> bool {
    !text.is_empty() && text.parse::<f64>().is_ok_and(f64::is_finite)
}

/// The leading number, the unit behind it, and the rest.
fn split(text: &str) -> Option<(&str, &str, &str)> {
    let digits = text.find(|c: char| !c.is_ascii_digit() && c != '.')?;
    let (number, rest) = text.split_at(digits);
    let unit = rest.find(|c: char| c.is_ascii_digit() || c == '.').unwrap_or(rest.len());
    let (unit, rest) = rest.split_at(unit);
    (!number.is_empty()).then_some((number, unit, rest))
}

/// `number` (digits with at most one point) times `scale`, exactly; none when that is no whole number.
fn scaled(number: &str, scale: u128) -> Option<u128> {
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let fraction = fraction.trim_end_matches('0');
    if whole.is_empty() || whole.len() > 18 || fraction.len() > 12 || !fraction.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    let whole = whole.parse::<u128>().ok()? * scale;
    if fraction.is_empty() {
        return Some(whole);
    }
    let parts = fraction.parse::<u128>().ok()? * scale;
    let divisor = 10u128.pow(fraction.len() as u32);
    parts.is_multiple_of(divisor).then(|| whole + parts / divisor)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_exact_and_carry_a_unit() {
        for (text, nanos) in [
            ("200ms", 200_000_000),
            ("0.2s", 200_000_000),
            ("5m", 300_000_000_000),
            ("1h", 3_600_000_000_000),
            ("1m30s", 90_000_000_000),
            ("1.5h", 5_400_000_000_000),
            ("7.5ms", 7_500_000),
            ("3us", 3_000),
            ("3µs", 3_000),
            ("1ns", 1),
            ("720h", 2_592_000_000_000_000),
        ] {
            assert_eq!(duration(text), Ok(Duration::from_nanos(nanos)), "{text}");
            assert_eq!(duration_or_off(text), Ok(Some(Duration::from_nanos(nanos))), "{text}");
        }
        assert_eq!(duration_or_off("off"), Ok(None));
        assert_eq!(duration_or_zero("0s"), Ok(Duration::ZERO));
        assert_eq!(show_duration(Duration::ZERO), "0s");
    }

    #[test]
    fn what_is_no_duration_says_why() {
        for (text, what) in [
            (
                "5",
                "a bare number is no duration, since 0.2 is 0.2 ms in one tool and 0.2 s in another",
            ),
            (
                "0.2",
                "a bare number is no duration, since 0.2 is 0.2 ms in one tool and 0.2 s in another",
            ),
            ("", "is no time at all"),
            ("0s", "is no time at all"),
            ("off", "is not a duration"),
            ("-5s", "is not a duration"),
            ("5 s", "is not a duration with a known unit"),
            ("5sec", "is not a duration with a known unit"),
            ("5S", "is not a duration with a known unit"),
            ("1.2.3s", "is not a duration in whole nanoseconds"),
            (".5s", "is not a duration in whole nanoseconds"),
            ("0.1ns", "is not a duration in whole nanoseconds"),
            ("721h", "is longer than 30 days"),
            ("999999999999999999h", "is longer than 30 days"),
        ] {
            assert_eq!(duration(text).expect_err(text).what, what, "{text}");
        }
    }

    #[test]
    fn sizes_carry_a_unit() {
        for (text, bytes) in [
            ("64KiB", 65_536),
            ("1MiB", 1 << 20),
            ("64kB", 64_000),
            ("512B", 512),
            ("1.5KiB", 1_536),
        ] {
            assert_eq!(size(text), Ok(bytes), "{text}");
        }
        for (text, what) in [
            ("64", "a bare number is no size"),
            ("64K", "is not a size with a known unit"),
            ("KiB", "is not a size"),
            ("", "is not a size"),
            ("0.3B", "is not a size in whole bytes"),
            ("1KiB2", "is not a size"),
        ] {
            assert_eq!(size(text).expect_err(text).what, what, "{text}");
        }
    }

    #[test]
    fn ranges_have_both_ends_included() {
        for (text, range_of, shown) in [
            ("<300", 0..=299, "<=299"),
            ("<= 300", 0..=300, "<=300"),
            (">10", 11..=u64::MAX, ">=11"),
            (">=10", 10..=u64::MAX, ">=10"),
            ("10..300", 10..=300, "10..300"),
            ("300", 300..=300, "300"),
        ] {
            assert_eq!(range(text), Ok(range_of.clone()), "{text}");
            assert_eq!(show_range(&range_of), shown);
        }
        for text in ["<0", "300..10", ">18446744073709551615"] {
            let what = "is a range that holds no number, so nothing can ever match";
            assert_eq!(range(text).expect_err(text).what, what, "{text}");
        }
        for text in [
            "",
            "<",
            "..",
            "10..",
            "..10",
            "+3",
            "-3",
            "1e3",
            "300 tokens",
            "99999999999999999999",
        ] {
            assert_eq!(range(text).expect_err(text).what, "is not a range of token counts", "{text}");
        }
    }

    #[test]
    fn shown_values_read_back_as_themselves() {
        for text in ["200ms", "5s", "5m", "36h", "90s", "7500us", "1ns"] {
            assert_eq!(show_duration(duration(text).unwrap()), text);
        }
        for text in ["64KiB", "1MiB", "1500B"] {
            assert_eq!(show_size(size(text).unwrap()), text);
        }
    }
}
