//! Bounded label values: what a client or a server wrote becomes one of a small set of names.
//!
//! A value is kept when it is on the allow-list, or when an upstream confirmed it and the cap has room; it is never evicted, since
//! a counter that vanishes and comes back is a reset. Everything else is [`OTHER`], a missing value is [`UNKNOWN`].

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use super::setup::LabelPolicy;

/// Label of values that were not kept.
pub const OTHER: &str = "other";
/// Label of a request that named none.
pub const UNKNOWN: &str = "unknown";

/// The place of a kept value.
pub(super) type LabelId = u32;
/// The place of [`UNKNOWN`].
pub(super) const UNKNOWN_ID: LabelId = 0;
/// The place of [`OTHER`].
pub(super) const OTHER_ID: LabelId = 1;

/// The kept values of one label.
#[derive(Debug)]
pub(super) struct LabelMap {
    names: Vec<Arc<str>>,
    ids: BTreeMap<Arc<str>, LabelId>,
    /// Values kept at most besides the allow-list.
    cap: usize,
    /// Those of them that are kept.
    others: usize,
    folded: u64,
}

impl LabelMap {
    /// Longest value kept, bytes; a longer one is [`OTHER`].
    pub(super) const MAX_BYTES: usize = 256;
    /// Most values kept, whatever allow-lists there were since the start; a further one is [`OTHER`].
    pub(super) const MAX_NAMES: usize = 4096;

    pub(super) fn new(policy: &LabelPolicy) -> Self {
        let mut map = Self {
            names: Vec::new(),
            ids: BTreeMap::new(),
            cap: 0,
            others: 0,
            folded: 0,
        };
        map.keep(UNKNOWN);
        map.keep(OTHER);
        map.follow(policy);
        map
    }

    /// Goes by `policy` from now on. What is kept stays, wherever it came from.
    pub(super) fn follow(&mut self, policy: &LabelPolicy) {
        for name in &policy.allow {
            if !self.ids.contains_key(name.as_str()) && self.names.len() < Self::MAX_NAMES {
                self.keep(name);
            }
        }
        self.cap = policy.cap;
        let allowed = policy.allow.iter().filter_map(|name| self.ids.get(name.as_str()));
        let allowed: HashSet<LabelId> = allowed.copied().chain([UNKNOWN_ID, OTHER_ID]).collect();
        self.others = self.names.len() - allowed.len();
    }

    /// The places of the allow-listed values, or that of [`UNKNOWN`] when there are none.
    pub(super) fn known(&self, policy: &LabelPolicy) -> Vec<LabelId> {
        let places = policy.allow.iter().filter_map(|name| self.ids.get(name.as_str()).copied());
        let mut known: Vec<_> = places.filter(|id| ![UNKNOWN_ID, OTHER_ID].contains(id)).collect();
        if known.is_empty() {
            known.push(UNKNOWN_ID);
        }
        known
    }

    /// The place of `value`; `confirmed` says that an upstream answered it with success, without which nothing new is kept.
    pub(super) fn id(&mut self, value: Option<&str>, confirmed: bool) -> LabelId {
        let Some(value) = value.filter(|v| !v.is_empty()) else {
            return UNKNOWN_ID;
        };
        if let Some(id) = self.ids.get(value) {
            return *id;
        }
        if confirmed && self.others < self.cap && self.names.len() < Self::MAX_NAMES && value.len() <= Self::MAX_BYTES {
            self.others += 1;
            return self.keep(value);
        }
        self.folded += 1;
        OTHER_ID
    }

    /// The value at `id`.
    pub(super) fn name(&self, id: LabelId) -> Arc<str> {
        Arc::clone(&self.names[id as usize])
    }

    /// Every place so far.
    #[cfg(test)]
    pub(super) fn ids(&self) -> std::ops::Range<LabelId> {
        0..self.names.len() as LabelId
    }

    /// How many times a value became [`OTHER`].
    pub(super) fn folded(&self) -> u64 {
        self.folded
    }

    fn keep(&mut self, name: &str) -> LabelId {
        let (id, name) = (self.names.len() as LabelId, Arc::<str>::from(name));
        self.names.push(Arc::clone(&name));
        self.ids.insert(name, id);
        id
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(allow: &[&str], cap: usize) -> LabelMap {
        LabelMap::new(&LabelPolicy {
            allow: allow.iter().map(|a| (*a).to_owned()).collect(),
            cap,
        })
    }

    fn label(map: &mut LabelMap, value: &str, confirmed: bool) -> String {
        let id = map.id(Some(value), confirmed);
        map.name(id).to_string()
    }

    #[test]
    fn past_the_cap_new_values_are_other_and_old_ones_stay() {
        let mut map = map(&["gpt"], 2);
        assert_eq!(label(&mut map, "a", true), "a");
        assert_eq!(label(&mut map, "b", true), "b");
        assert_eq!(label(&mut map, "c", true), "other");
        assert_eq!(label(&mut map, "a", true), "a");
        assert_eq!(label(&mut map, "gpt", false), "gpt");
        assert_eq!(map.folded(), 1);
    }

    #[test]
    fn ten_thousand_refused_names_leave_no_trace() {
        let mut map = map(&[], 32);
        for i in 0..10_000 {
            assert_eq!(label(&mut map, &format!("model-{i}"), false), "other");
        }
        assert_eq!((map.ids(), map.folded()), (0..2, 10_000));
    }

    #[test]
    fn a_new_policy_keeps_what_is_kept_and_counts_it_towards_the_new_cap() {
        let mut map = map(&["gpt"], 2);
        assert_eq!(
            (label(&mut map, "a", true), label(&mut map, "b", true)),
            ("a".into(), "b".into())
        );
        let policy = |allow: &[&str], cap| LabelPolicy {
            allow: allow.iter().map(|a| (*a).to_owned()).collect(),
            cap,
        };
        map.follow(&policy(&["b"], 3));
        assert_eq!(label(&mut map, "gpt", false), "gpt");
        assert_eq!(label(&mut map, "c", true), "c", "`gpt` and `a` are two of three");
        assert_eq!(label(&mut map, "d", true), "other");
        map.follow(&policy(&[], 1));
        assert_eq!(
            (label(&mut map, "d", true), label(&mut map, "c", false)),
            ("other".into(), "c".into())
        );
    }

    #[test]
    fn an_absent_or_empty_value_is_unknown() {
        let mut map = map(&[], 1);
        assert_eq!((map.id(None, true), map.id(Some(""), true)), (UNKNOWN_ID, UNKNOWN_ID));
        assert_eq!(map.folded(), 0);
    }

    #[test]
    fn an_overlong_value_is_other() {
        let mut map = map(&[], 2);
        assert_eq!(label(&mut map, &"x".repeat(257), true), "other");
        assert_eq!(label(&mut map, &"x".repeat(256), true).len(), 256);
    }

    #[test]
    fn a_client_cannot_take_the_fixed_names() {
        let mut map = map(&["other"], 4);
        assert_eq!(
            (map.id(Some("other"), true), map.id(Some("unknown"), true)),
            (OTHER_ID, UNKNOWN_ID)
        );
        assert_eq!(map.ids(), 0..2);
    }
}
