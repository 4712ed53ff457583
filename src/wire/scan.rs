//! An incremental push scanner for JSON: bytes come in any split, values at watched paths go to a visitor, the rest is skipped.
//!
//! One scanner serves request bodies, whole replies and stream events. It is linear, never recurses, never allocates, and its
//! size does not depend on the input. What it says does not depend on how the input was cut.
//!
//! It is a reader, not a validator: valid JSON is read exactly as `serde_json` reads it, what breaks the structure is an error,
//! but the inside of unwatched containers is only checked for balance, UTF-8 is not checked, and an unpaired surrogate in an
//! escape reads as U+FFFD (servers that cut text between tokens do send those).
//!
//! Caps: a string's text is handed on up to [`MAX_TEXT`] decoded bytes, longer ones by their length only. Below
//! [`CHECKED_NESTING`] levels of an unwatched container, brackets are only counted.

mod bytes;
mod members;
mod number;
mod plain;
#[cfg(test)]
mod properties;
mod scalars;
mod skip;
#[cfg(test)]
mod tests;
mod text;
mod visit;

pub(crate) use self::bytes::text_end;
use self::number::Number;
use self::plain::{FALSE, NULL, TRUE};
use self::text::Text;
pub(crate) use self::visit::{Container, Scalar, Visitor};
use super::trie::{MAX_DEPTH, NONE, NodeId, ROOT, Trie};

/// Longest decoded text of a string (or key) that is kept.
pub(crate) const MAX_TEXT: usize = 256;

/// Levels of an unwatched container in which `{` must meet `}` and `[` must meet `]`; deeper ones only have to balance.
const CHECKED_NESTING: u32 = 64;

/// What the input was, once it ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ended {
    /// Nothing but white space.
    Blank,
    /// One value.
    Value,
    /// Neither.
    Broken,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// A value is due.
    Value,
    /// A value or `]`.
    FirstElement,
    /// A key.
    Key,
    /// A key or `}`.
    FirstKey,
    Colon,
    /// `,` or the end of the container.
    Next,
    Number,
    Literal,
    /// In a string that was not whole in one piece or has escapes.
    Text,
    /// In an unwatched container.
    Skip,
    /// The value is through; white space may follow.
    Done,
    Error,
}

#[derive(Clone, Copy, Debug)]
struct Frame {
    node: NodeId,
    /// The node of the elements; unused in objects.
    each: NodeId,
    container: Container,
    commas: u32,
}

/// The scanner. Reusable: [`Scanner::reset`] readies it for the next value.
#[derive(Debug)]
pub(crate) struct Scanner {
    state: State,
    /// The node of the value due or under way.
    node: NodeId,
    depth: usize,
    frames: [Frame; MAX_DEPTH],
    skip_depth: u32,
    /// One bit a level: set for an object.
    skip_kinds: u64,
    number: Number,
    literal: &'static [u8],
    literal_at: usize,
    text: Text,
}

impl Scanner {
    /// A scanner at the start of a value.
    pub(crate) const fn new() -> Self {
        let frame = Frame {
            node: NONE,
            each: NONE,
            container: Container::Object,
            commas: 0,
        };
        Self {
            state: State::Value,
            node: ROOT,
            depth: 0,
            frames: [frame; MAX_DEPTH],
            skip_depth: 0,
            skip_kinds: 0,
            number: Number::new(),
            literal: NULL,
            literal_at: 0,
            text: Text::new(),
        }
    }

    /// Back to the start of a value.
    #[inline]
    pub(crate) fn reset(&mut self) {
        self.state = State::Value;
        self.node = ROOT;
        self.depth = 0;
    }

    /// Whether one value was read and nothing is open.
    #[inline]
    pub(crate) fn is_done(&self) -> bool {
        self.state == State::Done
    }

    /// Whether the input is broken: nothing more will be read.
    #[inline]
    pub(crate) fn is_broken(&self) -> bool {
        self.state == State::Error
    }

    /// The next bytes.
    pub(crate) fn feed<A: Copy, V: Visitor<A>>(&mut self, trie: &Trie<A>, bytes: &[u8], visitor: &mut V) {
        let mut at = 0;
        while let Some(&byte) = bytes.get(at) {
            at = match self.state {
                State::Value | State::FirstElement => self.value(trie, bytes, at, byte, visitor),
                State::Key | State::FirstKey => match self.members(trie, bytes, at, visitor) {
                    same if same == at => self.key(trie, bytes, at, byte, visitor),
                    further => further,
                },
                State::Colon => match byte {
                    b':' => self.go(State::Value, at + 1),
                    _ => self.blank(byte, at),
                },
                State::Next => self.next(trie, at, byte, visitor),
                State::Number => self.number(trie, bytes, at, visitor),
                State::Literal => self.literal(trie, at, byte, visitor),
                State::Text => self.text(trie, bytes, at, visitor),
                State::Skip => self.skip(bytes, at),
                State::Done => self.blank(byte, at),
                State::Error => return,
            };
        }
    }

    /// The input ended: whether it was one whole value. A number at the root ends only here.
    pub(crate) fn finish<A: Copy, V: Visitor<A>>(&mut self, trie: &Trie<A>, visitor: &mut V) -> Ended {
        if self.state == State::Number && self.depth == 0 {
            self.end_number(trie, visitor);
        }
        match self.state {
            State::Done => Ended::Value,
            State::Value if self.depth == 0 => Ended::Blank,
            _ => Ended::Broken,
        }
    }

    #[inline]
    fn go(&mut self, state: State, at: usize) -> usize {
        self.state = state;
        at
    }

    /// White space is passed over, anything else is an error.
    #[inline]
    fn blank(&mut self, byte: u8, at: usize) -> usize {
        if !matches!(byte, b' ' | b'\n' | b'\r' | b'\t') {
            self.state = State::Error;
        }
        at + 1
    }

    #[inline]
    fn value_done(&mut self) {
        self.state = if self.depth == 0 { State::Done } else { State::Next };
    }

    #[inline]
    fn scalar<A: Copy, V: Visitor<A>>(&mut self, trie: &Trie<A>, value: Scalar<'_>, visitor: &mut V) {
        if let Some(act) = trie.act(self.node) {
            visitor.scalar(act, value);
        }
        self.value_done();
    }

    #[inline]
    fn value<A: Copy, V: Visitor<A>>(&mut self, trie: &Trie<A>, bytes: &[u8], at: usize, byte: u8, visitor: &mut V) -> usize {
        match byte {
            b'"' => {
                let start = at + 1;
                let end = bytes::string_end(bytes, start);
                if bytes.get(end) == Some(&b'"') {
                    let text = &bytes[start..end];
                    let value = Scalar::Text {
                        len: text.len() as u64,
                        text: (text.len() <= MAX_TEXT).then_some(text),
                    };
                    self.scalar(trie, value, visitor);
                    return end + 1;
                }
                let watched = trie.act(self.node).is_some();
                self.text.start(text::Role::Value { watched });
                self.go(State::Text, start)
            }
            b'{' => self.open(trie, Container::Object, at, visitor),
            b'[' => self.open(trie, Container::Array, at, visitor),
            b']' if self.state == State::FirstElement => self.close(trie, Container::Array, 0, at, visitor),
            b'n' => self.start_literal(trie, NULL, bytes, at, visitor),
            b't' => self.start_literal(trie, TRUE, bytes, at, visitor),
            b'f' => self.start_literal(trie, FALSE, bytes, at, visitor),
            b'-' | b'0'..=b'9' => {
                self.number = Number::new();
                self.state = State::Number;
                self.number(trie, bytes, at, visitor)
            }
            _ => self.blank(byte, at),
        }
    }

    #[inline]
    fn key<A: Copy, V: Visitor<A>>(&mut self, trie: &Trie<A>, bytes: &[u8], at: usize, byte: u8, visitor: &mut V) -> usize {
        match byte {
            b'"' => {
                let start = at + 1;
                let end = bytes::string_end(bytes, start);
                if bytes.get(end) != Some(&b'"') {
                    self.text.start(text::Role::Key);
                    return self.go(State::Text, start);
                }
                self.node = trie.child(self.frames[self.depth - 1].node, &bytes[start..end]);
                if bytes.get(end + 1) == Some(&b':') {
                    return self.go(State::Value, end + 2);
                }
                self.go(State::Colon, end + 1)
            }
            b'}' if self.state == State::FirstKey => self.close(trie, Container::Object, 0, at, visitor),
            _ => self.blank(byte, at),
        }
    }

    #[inline]
    fn next<A: Copy, V: Visitor<A>>(&mut self, trie: &Trie<A>, at: usize, byte: u8, visitor: &mut V) -> usize {
        let frame = &mut self.frames[self.depth - 1];
        match byte {
            b',' => {
                frame.commas = frame.commas.saturating_add(1);
                match frame.container {
                    Container::Object => self.state = State::Key,
                    Container::Array => {
                        self.node = frame.each;
                        self.state = State::Value;
                    }
                }
                at + 1
            }
            b'}' => {
                let len = u64::from(frame.commas) + 1;
                self.close(trie, Container::Object, len, at, visitor)
            }
            b']' => {
                let len = u64::from(frame.commas) + 1;
                self.close(trie, Container::Array, len, at, visitor)
            }
            _ => self.blank(byte, at),
        }
    }

    fn open<A: Copy, V: Visitor<A>>(&mut self, trie: &Trie<A>, container: Container, at: usize, visitor: &mut V) -> usize {
        if self.node == NONE || self.depth == MAX_DEPTH {
            self.skip_depth = 1;
            self.skip_kinds = u64::from(container == Container::Object);
            return self.go(State::Skip, at + 1);
        }
        if let Some(act) = trie.act(self.node) {
            visitor.open(act, container);
        }
        let each = match container {
            Container::Object => NONE,
            Container::Array => trie.each(self.node),
        };
        self.frames[self.depth] = Frame {
            node: self.node,
            each,
            container,
            commas: 0,
        };
        self.depth += 1;
        self.node = each;
        self.go(
            match container {
                Container::Object => State::FirstKey,
                Container::Array => State::FirstElement,
            },
            at + 1,
        )
    }

    fn close<A: Copy, V: Visitor<A>>(
        &mut self,
        trie: &Trie<A>,
        container: Container,
        len: u64,
        at: usize,
        visitor: &mut V,
    ) -> usize {
        let frame = self.frames[self.depth - 1];
        if frame.container != container {
            return self.go(State::Error, at);
        }
        self.depth -= 1;
        if let Some(act) = trie.act(frame.node) {
            visitor.close(act, container, len);
        }
        self.value_done();
        at + 1
    }

    fn text<A: Copy, V: Visitor<A>>(&mut self, trie: &Trie<A>, bytes: &[u8], at: usize, visitor: &mut V) -> usize {
        let (end, progress) = self.text.feed(bytes, at);
        match progress {
            text::Progress::More => {}
            text::Progress::Broken => self.state = State::Error,
            text::Progress::Ended => match self.text.role() {
                text::Role::Key => {
                    let parent = self.frames[self.depth - 1].node;
                    self.node = self.text.get().map_or(NONE, |key| trie.child(parent, key));
                    self.state = State::Colon;
                }
                text::Role::Value { .. } => {
                    if let Some(act) = trie.act(self.node) {
                        let (len, text) = (self.text.wire_len(), self.text.get());
                        visitor.scalar(act, Scalar::Text { len, text });
                    }
                    self.value_done();
                }
                text::Role::Skipped => self.state = State::Skip,
            },
        }
        end
    }
}
