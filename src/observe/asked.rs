//! What a request's head says about how it is judged and traced.

use super::fields::Fields;
use crate::measure::AskedBounds;

/// Headers that bring a TTFT bound in milliseconds; the first valid one counts.
const TTFT_HEADERS: [&str; 2] = ["x-slo-ttft-ms", "x-llm-d-slo-ttft-ms"];
/// Headers that bring a TPOT bound in milliseconds; the first valid one counts.
const TPOT_HEADERS: [&str; 2] = ["x-slo-tpot-ms", "x-llm-d-slo-tpot-ms"];
const TRACEPARENT: &str = "traceparent";
/// Larger bounds (about 11 days) are taken for a mistake.
const MAX_BOUND_MS: f64 = 1e9;

/// The bounds that the request asks for; whether an SLO heeds them is the SLO's matter.
pub(super) fn bounds(headers: &(impl Fields + ?Sized)) -> AskedBounds {
    let first = |names: &[&str]| names.iter().find_map(|name| milliseconds(headers.first_text(name)?));
    AskedBounds {
        ttft_ns: first(&TTFT_HEADERS),
        tpot_ns: first(&TPOT_HEADERS),
    }
}

/// A positive decimal number of milliseconds, as nanoseconds.
fn milliseconds(text: &str) -> Option<u64> {
    let text = text.trim();
    // Rust also reads "inf", "1e3", "+1": a header has digits and at most a point.
    if !text.bytes().all(|b| b.is_ascii_digit() || b == b'.') {
        return None;
    }
    let ms: f64 = text.parse().ok()?;
    (ms > 0.0 && ms <= MAX_BOUND_MS).then(|| (ms * 1e6).round() as u64)
}

/// A W3C trace id: 32 lower-case hex digits, not all 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TraceId([u8; 32]);

impl TraceId {
    /// The trace id of the request's one valid `traceparent`.
    pub(super) fn of(headers: &(impl Fields + ?Sized)) -> Option<Self> {
        let mut values = headers.all(TRACEPARENT);
        let value = values.next()?;
        // Two of them contradict each other; the standard has the header restarted then.
        if values.next().is_some() { None } else { Self::parse(value) }
    }

    /// `version-traceid-parentid-flags`; versions after 00 may go on after another dash.
    fn parse(value: &[u8]) -> Option<Self> {
        let (head, rest) = value.split_at_checked(55)?;
        let (version, trace, parent, flags) = (&head[..2], &head[3..35], &head[36..52], &head[53..]);
        let dashes = head[2] == b'-' && head[35] == b'-' && head[52] == b'-';
        let hex = |part: &[u8]| part.iter().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
        let zero = |part: &[u8]| part.iter().all(|b| *b == b'0');
        let ends = rest.is_empty() || (version != b"00" && rest[0] == b'-');
        let valid = dashes && ends && [version, trace, parent, flags].into_iter().all(hex) && version != b"ff";
        if valid && !zero(trace) && !zero(parent) {
            trace.try_into().ok().map(Self)
        } else {
            None
        }
    }

    /// The hex digits.
    pub(super) fn as_str(&self) -> &str {
        // Never empty: `parse` let hex digits through only.
        std::str::from_utf8(&self.0).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderMap;

    use super::*;

    fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
        let mut map = HeaderMap::new();
        for (name, value) in pairs {
            map.append(*name, value.parse().unwrap());
        }
        map
    }

    #[test]
    fn bounds_come_from_either_family_of_headers() {
        let asked = |pairs: &[(&'static str, &str)]| {
            let b = bounds(&headers(pairs));
            (b.ttft_ns, b.tpot_ns)
        };
        assert_eq!(
            asked(&[("x-slo-ttft-ms", "200"), ("x-slo-tpot-ms", "12.5")]),
            (Some(200_000_000), Some(12_500_000))
        );
        assert_eq!(
            asked(&[("x-llm-d-slo-ttft-ms", "1"), ("x-llm-d-slo-tpot-ms", " 2 ")]),
            (Some(1_000_000), Some(2_000_000))
        );
        assert_eq!(
            asked(&[("x-slo-ttft-ms", "fast"), ("x-llm-d-slo-ttft-ms", "300")]),
            (Some(300_000_000), None)
        );
        assert_eq!(asked(&[]), (None, None));
    }

    #[test]
    fn what_is_no_positive_number_of_milliseconds_is_no_bound() {
        for text in ["", "0", "-1", "+1", "inf", "NaN", "1e3", "200ms", "1.2.3", ".", "1000000001"] {
            assert_eq!(milliseconds(text), None, "{text}");
        }
        assert_eq!(milliseconds("0.000001"), Some(1));
        assert_eq!(milliseconds("1000000000"), Some(1_000_000_000_000_000));
    }

    const VALID: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

    #[test]
    fn a_valid_traceparent_gives_its_trace_id() {
        let id = TraceId::of(&headers(&[("traceparent", VALID)])).unwrap();
        assert_eq!(id.as_str(), "4bf92f3577b34da6a3ce929d0e0e4736");
        let later = "cc-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-what-comes-later";
        assert!(TraceId::parse(later.as_bytes()).is_some());
    }

    #[test]
    fn a_traceparent_that_breaks_the_standard_gives_none() {
        for value in [
            "",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7",
            "00-4BF92F3577B34DA6A3CE929D0E0E4736-00f067aa0ba902b7-01",
            "00-00000000000000000000000000000000-00f067aa0ba902b7-01",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01",
            "ff-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-more",
            "00_4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
            "00-4bf92f3577b34da6a3ce929d0e0e473g-00f067aa0ba902b7-01",
        ] {
            assert_eq!(TraceId::parse(value.as_bytes()), None, "{value}");
        }
        assert_eq!(TraceId::of(&headers(&[("traceparent", VALID), ("traceparent", VALID)])), None);
    }
}
