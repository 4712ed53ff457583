//! One scalar as written, and its reading as each type a key can have.

use std::net::SocketAddr;
use std::ops::RangeInclusive;
use std::time::Duration;

use config::{Value, ValueKind};

use super::problem::{Wrong, one_of, quoted, suggestion};
use super::units;

/// Longest list shown in a problem, elements.
const MAX_SHOWN: usize = 8;

/// A scalar; a loose one is text by nature (environment, flag, default), so `true` and `5` come as text and count as themselves.
#[derive(Clone, Debug)]
pub(super) struct Leaf {
    pub(super) kind: ValueKind,
    pub(super) loose: bool,
}

impl Leaf {
    /// What is written: loose when it comes from the environment or a flag, which is what has an origin.
    pub(super) fn written(value: &Value) -> Self {
        Self {
            kind: value.kind.clone(),
            loose: value.origin().is_some(),
        }
    }

    /// Text that stands for any type.
    pub(super) fn loose(text: &str) -> Self {
        Self {
            kind: ValueKind::from(text),
            loose: true,
        }
    }

    /// Text; never blank, free of control characters.
    pub(super) fn text(&self) -> Result<&str, Wrong> {
        match &self.kind {
            ValueKind::String(text) if text.trim().is_empty() => {
                Err(Wrong::new("is blank", "write a value or leave the key out"))
            }
            ValueKind::String(text) if text.chars().any(char::is_control) => {
                Err(Wrong::new("holds control characters", "leave them out"))
            }
            ValueKind::String(text) => Ok(text),
            nested if is_nested(nested) => Err(self.wrong_type("text", "write one value")),
            _ => Err(self.wrong_type("text", &format!("write it in quotes: \"{}\"", self.plain()))),
        }
    }

    /// One of `choices`, by its position.
    pub(super) fn choice(&self, choices: &[&str]) -> Result<usize, Wrong> {
        /// So many are all named; of more, the closest.
        const FEW: usize = 4;
        let text = match &self.kind {
            ValueKind::String(text) => text.trim(),
            _ => "",
        };
        choices.iter().position(|choice| *choice == text).ok_or_else(|| {
            let few = choices.len() <= FEW;
            Wrong::new(
                "is none of the choices",
                if few {
                    format!("write {}", one_of(choices))
                } else {
                    suggestion(text, choices)
                },
            )
        })
    }

    /// `true` or `false`.
    pub(super) fn boolean(&self) -> Result<bool, Wrong> {
        match &self.kind {
            ValueKind::Boolean(value) => Ok(*value),
            ValueKind::String(text) if self.loose && text == "true" => Ok(true),
            ValueKind::String(text) if self.loose && text == "false" => Ok(false),
            _ => Err(Wrong::new(
                "is neither true nor false",
                "write `true` or `false`, without quotes",
            )),
        }
    }

    /// A whole number within `range`.
    pub(super) fn count(&self, range: RangeInclusive<usize>) -> Result<usize, Wrong> {
        let right = format!("write a number from {} to {}", range.start(), range.end());
        let value = match &self.kind {
            ValueKind::I64(value) => usize::try_from(*value).ok(),
            ValueKind::String(text) if self.loose => text.trim().parse().ok(),
            _ => return Err(Wrong::new("is not a whole number", right)),
        };
        value
            .filter(|v| range.contains(v))
            .ok_or_else(|| Wrong::new("is not a whole number in range", right))
    }

    /// A share strictly between 0 and 1.
    pub(super) fn ratio(&self) -> Result<f64, Wrong> {
        let value = match &self.kind {
            ValueKind::Float(value) => Some(*value),
            ValueKind::I64(value) => Some(*value as f64),
            ValueKind::String(text) if self.loose => text.trim().parse().ok(),
            _ => None,
        };
        let Some(value) = value else {
            return Err(Wrong::new("is not a number", "write a share such as 0.99"));
        };
        match value {
            v if v > 0.0 && v < 1.0 => Ok(v),
            v if (1.0..100.0).contains(&v) && v > 1.0 => Err(Wrong::new(
                "is not between 0 and 1",
                format!("write {} for {v} percent", round(v / 100.0)),
            )),
            _ => Err(Wrong::new(
                "is not between 0 and 1 (both excluded)",
                "write a share such as 0.99",
            )),
        }
    }

    /// A duration above zero.
    pub(super) fn duration(&self) -> Result<Duration, Wrong> {
        match &self.kind {
            ValueKind::String(text) => units::duration(text.trim()),
            ValueKind::I64(_) | ValueKind::Float(_) => Err(units::bare_duration(&self.plain())),
            _ => Err(self.wrong_type("a duration", "write it as `200ms` or `5s`")),
        }
    }

    /// A duration in nanoseconds, as bounds have them.
    pub(super) fn nanos(&self) -> Result<u64, Wrong> {
        // invariant: `units::duration` accepts at most 30 days, which fit.
        self.duration().map(|d| u64::try_from(d.as_nanos()).expect("30 days fit"))
    }

    /// A duration or `off`.
    pub(super) fn duration_or_off(&self) -> Result<Option<Duration>, Wrong> {
        match &self.kind {
            ValueKind::String(text) => units::duration_or_off(text.trim()),
            ValueKind::Boolean(false) => Err(Wrong::new("is not a duration", "write `off`")),
            _ => self.duration().map(Some),
        }
    }

    /// A duration that may be zero, for which `off` stands too.
    pub(super) fn duration_or_zero(&self) -> Result<Duration, Wrong> {
        match &self.kind {
            ValueKind::String(text) if text.trim() != "off" => units::duration_or_zero(text.trim()),
            _ => self.duration_or_off().map(Option::unwrap_or_default),
        }
    }

    /// A size in bytes within `range`.
    pub(super) fn size(&self, range: RangeInclusive<usize>) -> Result<usize, Wrong> {
        let bytes = match &self.kind {
            ValueKind::String(text) => units::size(text.trim())?,
            ValueKind::I64(_) | ValueKind::Float(_) => return Err(units::bare_size(&self.plain())),
            _ => return Err(self.wrong_type("a size", "write it as `64KiB`")),
        };
        if range.contains(&bytes) {
            return Ok(bytes);
        }
        let (low, high) = (units::show_size(*range.start()), units::show_size(*range.end()));
        Err(Wrong::new("is out of range", format!("write a size from {low} to {high}")))
    }

    /// A range of token counts.
    pub(super) fn range(&self) -> Result<RangeInclusive<u64>, Wrong> {
        match &self.kind {
            ValueKind::String(text) => units::range(text),
            ValueKind::I64(value) => units::range(&value.to_string()),
            _ => Err(self.wrong_type("a range", "write it as `\"<300\"` or `\"10..300\"`")),
        }
    }

    /// An address to listen on.
    pub(super) fn address(&self) -> Result<SocketAddr, Wrong> {
        let right = "write an IP address and a port, as in `0.0.0.0:8080` or `[::]:8080`";
        match &self.kind {
            ValueKind::String(text) => text
                .trim()
                .parse()
                .map_err(|_| Wrong::new("is not an address to listen on", right)),
            _ => Err(self.wrong_type("an address", right)),
        }
    }

    /// A name fit for a label: letters, digits, `.`, `_`, `-`, at most 64.
    pub(super) fn name(&self) -> Result<&str, Wrong> {
        const MAX_NAME: usize = 64;
        let name = self.text()?;
        let fit = name.len() <= MAX_NAME && name.bytes().all(|b| b.is_ascii_alphanumeric() || b"._-".contains(&b));
        if fit {
            Ok(name)
        } else {
            Err(Wrong::new(
                "is not a name",
                "write at most 64 letters, digits, `.`, `_` or `-`",
            ))
        }
    }

    /// A header field name, in lower case.
    pub(super) fn header_name(&self) -> Result<String, Wrong> {
        let name = self.text()?.trim();
        if is_token(name) {
            Ok(name.to_lowercase())
        } else {
            Err(Wrong::new("is not a header name", "write it as `x-tenant`"))
        }
    }

    /// A header that must be present: `name: value`, the name in lower case.
    pub(super) fn header(&self) -> Result<(String, String), Wrong> {
        let right = "write name and value in one text: `\"x-tier: gold\"`";
        if !matches!(&self.kind, ValueKind::String(_)) {
            return Err(Wrong::new("is not a header", right));
        }
        let parts = self.text()?.split_once(':').map(|(name, value)| (name.trim(), value.trim()));
        match parts {
            Some((name, value)) if is_token(name) && !value.is_empty() => Ok((name.to_lowercase(), value.to_owned())),
            _ => Err(Wrong::new("is not a header", right)),
        }
    }

    /// The value as a problem shows it: text in quotes, nothing for sections and lists too long to show.
    pub(super) fn shown(&self) -> String {
        match &self.kind {
            ValueKind::String(text) => quoted(text),
            _ => self.plain(),
        }
    }

    fn plain(&self) -> String {
        match &self.kind {
            ValueKind::Array(items) if items.len() <= MAX_SHOWN && !items.iter().any(|item| is_nested(&item.kind)) => {
                let items: Vec<String> = items.iter().map(|item| Self::written(item).shown()).collect();
                format!("[{}]", items.join(", "))
            }
            nested if is_nested(nested) => String::new(),
            scalar => scalar.to_string(),
        }
    }

    fn wrong_type(&self, expected: &str, right: &str) -> Wrong {
        let found = match &self.kind {
            ValueKind::Nil => "nothing",
            ValueKind::Boolean(_) => "true or false",
            ValueKind::String(_) => "text",
            ValueKind::Table(_) => "a section",
            ValueKind::Array(_) => "a list",
            _ => "a number",
        };
        Wrong::new(format!("is {found}, not {expected}"), right)
    }
}

fn is_nested(kind: &ValueKind) -> bool {
    matches!(kind, ValueKind::Table(_) | ValueKind::Array(_))
}

/// Whether `name` is a token in the sense of HTTP (header names, methods).
pub(super) fn is_token(name: &str) -> bool {
    !name.is_empty()
        && name
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&b))
}

/// `value` without the noise of a division in binary.
fn round(value: f64) -> f64 {
    (value * 1e9).round() / 1e9
}
