//! The scanner's visits during one feed: each value goes to its place in the [`Reader`].

use super::{Choice, Counts, Reader};
use crate::wire::EventSink;
use crate::wire::format::Act;
use crate::wire::scan::{Container, Scalar, Visitor};

/// The token-bearing texts of one feed.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Texts {
    /// How many.
    count: u32,
    /// The last one's address and length.
    at: usize,
    len: usize,
    /// Something else was read that one event may say differently from the next within the same frame, or that is kept from
    /// event to event.
    varies: bool,
}

impl Texts {
    #[inline]
    fn note(&mut self, value: Scalar<'_>) {
        self.count += 1;
        match value {
            Scalar::Text { text: Some(text), .. } => (self.at, self.len) = (text.as_ptr() as usize, text.len()),
            _ => self.varies = true,
        }
    }

    /// Where in `event` its only text lies; none when there is not just one, or it was decoded.
    pub(crate) fn only(&self, event: &[u8]) -> Option<std::ops::Range<usize>> {
        if self.count != 1 || self.varies {
            return None;
        }
        let from = self.at.checked_sub(event.as_ptr() as usize)?;
        (from + self.len <= event.len()).then(|| from..from + self.len)
    }
}

/// A [`Reader`] during one feed, with the sink that wants the model's name.
pub(crate) struct Visit<'a, S> {
    reader: &'a mut Reader,
    sink: &'a mut S,
    pub(crate) texts: Texts,
}

impl<'a, S> Visit<'a, S> {
    pub(crate) fn new(reader: &'a mut Reader, sink: &'a mut S) -> Self {
        Self {
            reader,
            sink,
            texts: Texts::default(),
        }
    }
}

impl<S: EventSink> Visitor<Act> for Visit<'_, S> {
    #[inline]
    fn scalar(&mut self, act: Act, value: Scalar<'_>) {
        let reader = &mut *self.reader;
        match act {
            Act::Token(channel) => {
                if is_text(value) {
                    reader.choice.channels[channel as usize] = true;
                    self.texts.note(value);
                }
            }
            Act::Delta => {
                reader.delta = is_text(value);
                if reader.delta {
                    self.texts.note(value);
                }
            }
            Act::Cumulative(channel) => {
                self.texts.varies = true;
                if let Scalar::Text { len, .. } = value {
                    reader.choice.cumulative = Some((len, channel));
                }
            }
            Act::ChoiceIndex => reader.choice.index = integer(value).and_then(|n| u32::try_from(n).ok()).unwrap_or(0),
            Act::Finish => reader.choice.finished |= is_truthy(value),
            Act::Terminal => reader.facts.terminal |= is_given(value),
            Act::FinishTerminal => {
                reader.choice.finished |= is_given(value);
                reader.facts.terminal |= is_given(value);
            }
            Act::Error => reader.facts.error |= is_truthy(value),
            Act::Usage => reader.usage = Counts::default(),
            Act::Count(count) => {
                self.texts.varies = true;
                reader.usage.set(count, integer(value));
            }
            Act::Timing(count) => {
                self.texts.varies = true;
                reader.timings.set(count, integer(value));
            }
            Act::Kind => {
                let kinds = reader.format.kinds;
                reader.kind = match value {
                    Scalar::Text { text: Some(text), .. } => kinds.iter().find(|(k, _)| k.as_bytes() == text).map(|(_, k)| *k),
                    _ => None,
                };
            }
            Act::Model => {
                if let (false, Scalar::Text { text: Some(text), .. }) = (reader.model_seen, value)
                    && let Ok(name) = std::str::from_utf8(text)
                    && !name.is_empty()
                {
                    reader.model_seen = true;
                    self.sink.model(name);
                }
            }
            Act::Choice | Act::Reply => {}
        }
    }

    #[inline]
    fn open(&mut self, act: Act, _container: Container) {
        match act {
            Act::Choice => self.reader.choice = Choice::default(),
            Act::Usage => self.reader.usage = Counts::default(),
            _ => {}
        }
    }

    #[inline]
    fn close(&mut self, act: Act, container: Container, len: u64) {
        let reader = &mut *self.reader;
        match act {
            Act::Choice if container == Container::Object => reader.end_choice(),
            Act::Reply if container == Container::Object => reader.end_reply(),
            Act::Error => reader.facts.error |= len > 0,
            Act::Finish => reader.choice.finished |= len > 0,
            Act::Terminal => reader.facts.terminal = true,
            _ => {}
        }
    }
}

fn is_text(value: Scalar<'_>) -> bool {
    matches!(value, Scalar::Text { len: 1.., .. })
}

fn integer(value: Scalar<'_>) -> Option<u64> {
    match value {
        Scalar::Number { integer, .. } => integer,
        Scalar::Null | Scalar::Bool(_) | Scalar::Text { .. } => None,
    }
}

/// Neither null nor false.
fn is_given(value: Scalar<'_>) -> bool {
    !matches!(value, Scalar::Null | Scalar::Bool(false))
}

/// Neither null, false, zero nor empty.
fn is_truthy(value: Scalar<'_>) -> bool {
    is_given(value) && !matches!(value, Scalar::Number { zero: true, .. } | Scalar::Text { len: 0, .. })
}
