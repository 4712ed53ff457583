//! Numbers and literals, whole or cut.

use super::plain::literal_value;
use super::{Scanner, State, Visitor};
use crate::wire::trie::Trie;

impl Scanner {
    pub(super) fn number<A: Copy, V: Visitor<A>>(&mut self, trie: &Trie<A>, bytes: &[u8], at: usize, visitor: &mut V) -> usize {
        let end = self.number.feed(bytes, at);
        if end < bytes.len() {
            self.end_number(trie, visitor);
        }
        end
    }

    pub(super) fn end_number<A: Copy, V: Visitor<A>>(&mut self, trie: &Trie<A>, visitor: &mut V) {
        match self.number.value() {
            Some(value) => self.scalar(trie, value, visitor),
            None => self.state = State::Error,
        }
    }

    #[inline]
    pub(super) fn start_literal<A: Copy, V: Visitor<A>>(
        &mut self,
        trie: &Trie<A>,
        literal: &'static [u8],
        bytes: &[u8],
        at: usize,
        visitor: &mut V,
    ) -> usize {
        self.literal = literal;
        if bytes[at..].starts_with(literal) {
            self.end_literal(trie, visitor);
            return at + literal.len();
        }
        self.literal_at = 1;
        self.go(State::Literal, at + 1)
    }

    pub(super) fn literal<A: Copy, V: Visitor<A>>(&mut self, trie: &Trie<A>, at: usize, byte: u8, visitor: &mut V) -> usize {
        if self.literal.get(self.literal_at) != Some(&byte) {
            return self.go(State::Error, at);
        }
        self.literal_at += 1;
        if self.literal_at == self.literal.len() {
            self.end_literal(trie, visitor);
        }
        at + 1
    }

    #[inline]
    fn end_literal<A: Copy, V: Visitor<A>>(&mut self, trie: &Trie<A>, visitor: &mut V) {
        let value = literal_value(self.literal);
        self.scalar(trie, value, visitor);
    }
}
