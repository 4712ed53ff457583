//! The paths a scan watches, as a trie: node and key give the next node. Compiled once from a format's tables.

/// Index of a node.
pub(crate) type NodeId = u16;

/// No node: nothing is watched here or below.
pub(crate) const NONE: NodeId = NodeId::MAX;

/// The node of the value at the root.
pub(crate) const ROOT: NodeId = 0;

/// The longest path, in keys and `[]` steps; the scanner keeps one small frame per step.
pub(crate) const MAX_DEPTH: usize = 8;

/// Watched paths, each with what to do about the value found there.
#[derive(Debug)]
pub(crate) struct Trie<A> {
    nodes: Vec<Node<A>>,
}

#[derive(Debug)]
struct Node<A> {
    /// The marks of all keys.
    marks: u64,
    keys: Vec<Key>,
    each: NodeId,
    act: Option<A>,
}

/// A key, with its first eight bytes as a number: most keys differ there or in their length.
#[derive(Debug)]
struct Key {
    head: u64,
    name: &'static [u8],
    node: NodeId,
}

/// The first eight bytes of `bytes[start..end]`, zeros where it is shorter.
#[inline]
fn head(bytes: &[u8], start: usize, end: usize) -> u64 {
    let len = end.saturating_sub(start);
    if let Some(chunk) = bytes.get(start..).and_then(|rest| rest.first_chunk::<8>()) {
        let word = u64::from_le_bytes(*chunk);
        return if len >= 8 { word } else { word & ((1 << (8 * len)) - 1) };
    }
    bytes[start..end]
        .iter()
        .rev()
        .fold(0, |head, byte| head << 8 | u64::from(*byte))
}

/// One bit of 64 for a key, to tell at once most of those that a node does not have.
#[inline]
const fn mark(head: u64, len: usize) -> u64 {
    1 << ((head ^ head >> 11 ^ (len as u64) << 2) & 63)
}

impl<A: Copy> Trie<A> {
    /// Compiles paths as written in a format's tables (`choices[].delta.content`; the empty path is the root). Tables are part of
    /// the program, so a wrong one is a defect of ours: it panics, and a test compiles them all.
    pub(crate) fn compile(rows: impl IntoIterator<Item = (&'static str, A)>) -> Self {
        let mut trie = Self { nodes: Vec::new() };
        trie.add();
        for (path, act) in rows {
            let mut node = ROOT;
            let mut depth = 0;
            for step in path.split('.').filter(|s| !s.is_empty()) {
                let key = step.trim_end_matches("[]");
                if !key.is_empty() {
                    node = trie.enter_key(node, key.as_bytes());
                    depth += 1;
                }
                for _ in 0..(step.len() - key.len()) / 2 {
                    node = trie.enter_each(node);
                    depth += 1;
                }
            }
            assert!(depth <= MAX_DEPTH, "path `{path}` is deeper than {MAX_DEPTH}");
            let place = &mut trie.nodes[usize::from(node)].act;
            assert!(place.is_none(), "path `{path}` is given twice");
            *place = Some(act);
        }
        trie
    }

    /// Watches the elements of an array at the root as if each stood at the root.
    pub(crate) fn with_root_repeated(mut self) -> Self {
        self.nodes[usize::from(ROOT)].each = ROOT;
        self
    }

    fn add(&mut self) -> NodeId {
        self.nodes.push(Node {
            marks: 0,
            keys: Vec::new(),
            each: NONE,
            act: None,
        });
        NodeId::try_from(self.nodes.len() - 1).unwrap_or(NONE)
    }

    fn enter_key(&mut self, node: NodeId, key: &'static [u8]) -> NodeId {
        let known = self.child(node, key);
        if known != NONE {
            return known;
        }
        let new = self.add();
        let head = head(key, 0, key.len());
        let parent = &mut self.nodes[usize::from(node)];
        parent.marks |= mark(head, key.len());
        parent.keys.push(Key {
            head,
            name: key,
            node: new,
        });
        new
    }

    fn enter_each(&mut self, node: NodeId) -> NodeId {
        let known = self.each(node);
        if known != NONE {
            return known;
        }
        let new = self.add();
        self.nodes[usize::from(node)].each = new;
        new
    }

    /// The node of `key` in the object at `node`.
    #[inline]
    pub(crate) fn child(&self, node: NodeId, key: &[u8]) -> NodeId {
        self.child_at(node, key, 0, key.len())
    }

    /// The node of the key `bytes[start..end]` in the object at `node`.
    #[inline]
    pub(crate) fn child_at(&self, node: NodeId, bytes: &[u8], start: usize, end: usize) -> NodeId {
        let Some(node) = self.nodes.get(usize::from(node)) else {
            return NONE;
        };
        let (head, len) = (head(bytes, start, end), end - start);
        if node.marks & mark(head, len) == 0 {
            return NONE;
        }
        let is = |k: &&Key| k.head == head && k.name.len() == len && (len <= 8 || *k.name == bytes[start..end]);
        node.keys.iter().find(is).map_or(NONE, |k| k.node)
    }

    /// The node of each element of the array at `node`.
    #[inline]
    pub(crate) fn each(&self, node: NodeId) -> NodeId {
        self.nodes.get(usize::from(node)).map_or(NONE, |n| n.each)
    }

    /// What to do about the value at `node`.
    #[inline]
    pub(crate) fn act(&self, node: NodeId) -> Option<A> {
        self.nodes.get(usize::from(node)).and_then(|n| n.act)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_share_their_prefix_and_lead_to_their_act() {
        let trie = Trie::compile([("a[].b.c", 1), ("a[].b.d[]", 2), ("a", 3)]);
        let a = trie.child(ROOT, b"a");
        let b = trie.child(trie.each(a), b"b");
        assert_eq!(trie.act(a), Some(3));
        assert_eq!(trie.act(trie.child(b, b"c")), Some(1));
        assert_eq!(trie.act(trie.each(trie.child(b, b"d"))), Some(2));
        assert_eq!(trie.child(ROOT, b"aa"), NONE);
        assert_eq!(trie.child(NONE, b"a"), NONE);
    }
}
