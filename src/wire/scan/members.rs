//! The fast way through an object.

use super::plain::whole_scalar;
use super::{Scanner, State, Visitor, bytes};
use crate::wire::trie::Trie;

impl Scanner {
    /// Reads on through members whose value is a string without escapes, an integer or a literal, as long as each
    /// lies whole in `bytes`. Stops before anything else, in the state that the general way takes over from.
    pub(super) fn members<A: Copy, V: Visitor<A>>(
        &mut self,
        trie: &Trie<A>,
        bytes: &[u8],
        mut at: usize,
        visitor: &mut V,
    ) -> usize {
        let Some(frame) = self.frames.get(self.depth.wrapping_sub(1)).copied() else {
            return at;
        };
        let mut commas = frame.commas;
        let end = loop {
            let start = at + 1;
            if bytes.get(at) != Some(&b'"') {
                break at;
            }
            let end = bytes::string_end(bytes, start);
            if bytes.get(end) != Some(&b'"') || bytes.get(end + 1) != Some(&b':') {
                break at;
            }
            let node = trie.child_at(frame.node, bytes, start, end);
            at = end + 2;
            if bytes.get(at) == Some(&b' ') {
                at += 1;
            }
            let Some(behind) = whole_scalar(bytes, at) else {
                self.node = node;
                self.state = State::Value;
                break at;
            };
            if let Some(act) = trie.act(node) {
                visitor.scalar(act, behind.value(bytes, at));
            }
            at = behind.end;
            if bytes.get(at) != Some(&b',') {
                self.state = State::Next;
                break at;
            }
            commas = commas.saturating_add(1);
            at += 1;
            self.state = State::Key;
            if bytes.get(at) == Some(&b' ') {
                at += 1;
            }
        };
        self.frames[self.depth - 1].commas = commas;
        end
    }
}
