//! A JSON number, byte by byte.

use super::Scalar;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Start,
    Minus,
    Zero,
    Integer,
    Point,
    Fraction,
    E,
    ESign,
    Exponent,
    Broken,
}

/// A number under way.
#[derive(Clone, Copy, Debug)]
pub(super) struct Number {
    phase: Phase,
    integer: Option<u64>,
    zero: bool,
}

/// The integer at `at` and the index behind it, when it is written plainly, surely fits, and its end is in `bytes`.
#[inline]
pub(super) fn whole_integer(bytes: &[u8], at: usize) -> Option<(u64, usize)> {
    let digits = &bytes[at..bytes.len().min(at + 20)];
    let mut integer = 0;
    for (len, byte) in digits.iter().enumerate() {
        match byte {
            b'0'..=b'9' if len < 19 => integer = integer * 10 + u64::from(byte - b'0'),
            b',' | b'}' | b']' if len == 1 || bytes[at] != b'0' => return Some((integer, at + len)),
            _ => return None,
        }
    }
    None
}

impl Number {
    pub(super) const fn new() -> Self {
        Self {
            phase: Phase::Start,
            integer: Some(0),
            zero: true,
        }
    }

    /// Takes bytes from `at` on up to the first that belongs to no number; its index, or the length.
    pub(super) fn feed(&mut self, bytes: &[u8], mut at: usize) -> usize {
        while let Some(&byte) = bytes.get(at) {
            self.phase = match (self.phase, byte) {
                (Phase::Start, b'-') => {
                    self.integer = None;
                    Phase::Minus
                }
                (Phase::Start | Phase::Minus, b'0') => Phase::Zero,
                (Phase::Start | Phase::Minus | Phase::Integer, b'0'..=b'9') => {
                    let digit = u64::from(byte - b'0');
                    self.zero &= digit == 0;
                    self.integer = self.integer.and_then(|n| n.checked_mul(10)?.checked_add(digit));
                    Phase::Integer
                }
                (Phase::Zero | Phase::Integer, b'.') => Phase::Point,
                (Phase::Point | Phase::Fraction, b'0'..=b'9') => {
                    self.zero &= byte == b'0';
                    Phase::Fraction
                }
                (Phase::Zero | Phase::Integer | Phase::Fraction, b'e' | b'E') => Phase::E,
                (Phase::E, b'+' | b'-') => Phase::ESign,
                (Phase::E | Phase::ESign | Phase::Exponent, b'0'..=b'9') => Phase::Exponent,
                (_, b'0'..=b'9' | b'+' | b'-' | b'.' | b'e' | b'E') => Phase::Broken,
                _ => return at,
            };
            at += 1;
        }
        at
    }

    /// The number, if it is one.
    pub(super) fn value(&self) -> Option<Scalar<'static>> {
        let integer = match self.phase {
            Phase::Zero | Phase::Integer => self.integer,
            Phase::Fraction | Phase::Exponent => None,
            Phase::Start | Phase::Minus | Phase::Point | Phase::E | Phase::ESign | Phase::Broken => return None,
        };
        Some(Scalar::Number {
            integer,
            zero: self.zero,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Option<(Option<u64>, bool)> {
        let mut number = Number::new();
        assert_eq!(number.feed(text.as_bytes(), 0), text.len());
        match number.value()? {
            Scalar::Number { integer, zero } => Some((integer, zero)),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn only_plain_integers_have_an_integer_value() {
        assert_eq!(read("0"), Some((Some(0), true)));
        assert_eq!(read("10"), Some((Some(10), false)));
        assert_eq!(read("18446744073709551615"), Some((Some(u64::MAX), false)));
        for (text, zero) in [
            ("18446744073709551616", false),
            ("-1", false),
            ("-0", true),
            ("0.00", true),
            ("0e5", true),
            ("1.5", false),
            ("0.01", false),
            ("1e2", false),
            ("1E+2", false),
            ("3.0e-1", false),
        ] {
            assert_eq!(read(text), Some((None, zero)), "{text}");
        }
    }

    #[test]
    fn what_json_does_not_call_a_number_is_none() {
        for text in [
            "-", "01", "-01", "1.", ".5", "1e", "1e+", "1.e3", "--1", "1-1", "1.2.3", "+1", "1ee2",
        ] {
            assert_eq!(read(text), None, "{text}");
        }
    }

    #[test]
    fn a_whole_integer_needs_its_end_in_sight_and_nineteen_digits_at_most() {
        assert_eq!(
            whole_integer(b"9999999999999999999,", 0),
            Some((9_999_999_999_999_999_999, 19))
        );
        assert_eq!(whole_integer(b"x0}", 1), Some((0, 2)));
        for text in [
            "18446744073709551615,",
            "99999999999999999999,",
            "12",
            "01,",
            "1.5,",
            "1e3,",
            "1 ,",
        ] {
            assert_eq!(whole_integer(text.as_bytes(), 0), None, "{text}");
        }
    }
}
