//! Scalars that lie whole in the input: the common case, read without any state.

use super::{MAX_TEXT, Scalar, bytes, number};

pub(super) const NULL: &[u8] = b"null";
pub(super) const TRUE: &[u8] = b"true";
pub(super) const FALSE: &[u8] = b"false";

/// A scalar that lies whole in the input.
pub(super) struct Plain {
    kind: PlainKind,
    /// The index behind it.
    pub(super) end: usize,
}

enum PlainKind {
    Text,
    Integer(u64),
    Literal(&'static [u8]),
}

/// The scalar at `at`, when it is a string without escapes, an integer or a literal and something follows it.
#[inline]
pub(super) fn whole_scalar(bytes: &[u8], at: usize) -> Option<Plain> {
    let literal = |text: &'static [u8]| {
        bytes[at..].starts_with(text).then_some(Plain {
            kind: PlainKind::Literal(text),
            end: at + text.len(),
        })
    };
    match bytes.get(at)? {
        b'"' => {
            let end = bytes::string_end(bytes, at + 1);
            (bytes.get(end) == Some(&b'"')).then_some(Plain {
                kind: PlainKind::Text,
                end: end + 1,
            })
        }
        b'n' => literal(NULL),
        b't' => literal(TRUE),
        b'f' => literal(FALSE),
        b'0'..=b'9' => number::whole_integer(bytes, at).map(|(integer, end)| Plain {
            kind: PlainKind::Integer(integer),
            end,
        }),
        _ => None,
    }
}

impl Plain {
    pub(super) fn value<'b>(&self, bytes: &'b [u8], at: usize) -> Scalar<'b> {
        match self.kind {
            PlainKind::Text => {
                let text = &bytes[at + 1..self.end - 1];
                Scalar::Text {
                    len: text.len() as u64,
                    text: (text.len() <= MAX_TEXT).then_some(text),
                }
            }
            PlainKind::Integer(integer) => Scalar::Number {
                integer: Some(integer),
                zero: integer == 0,
            },
            PlainKind::Literal(literal) => literal_value(literal),
        }
    }
}

pub(super) fn literal_value(literal: &[u8]) -> Scalar<'static> {
    match literal {
        b"true" => Scalar::Bool(true),
        b"false" => Scalar::Bool(false),
        _ => Scalar::Null,
    }
}
