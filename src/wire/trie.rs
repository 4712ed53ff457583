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
    keys: Vec<(&'static [u8], NodeId)>,
    each: NodeId,
    act: Option<A>,
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

    fn add(&mut self) -> NodeId {
        self.nodes.push(Node {
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
        self.nodes[usize::from(node)].keys.push((key, new));
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
        let Some(node) = self.nodes.get(usize::from(node)) else {
            return NONE;
        };
        node.keys.iter().find(|(k, _)| *k == key).map_or(NONE, |(_, n)| *n)
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
