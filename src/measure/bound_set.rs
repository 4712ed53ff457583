//! A set of bounds, as small as a byte.

use super::Bound;

/// Some of the five bounds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct BoundSet(u8);

impl BoundSet {
    /// None of them.
    pub const EMPTY: Self = Self(0);

    /// Adds `bound`.
    pub const fn insert(&mut self, bound: Bound) {
        self.0 |= 1 << bound as u8;
    }

    /// Whether `bound` is in the set.
    pub const fn contains(self, bound: Bound) -> bool {
        self.0 & (1 << bound as u8) != 0
    }

    /// Whether no bound is in the set.
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// How many bounds are in the set.
    pub const fn len(self) -> u32 {
        self.0.count_ones()
    }

    /// The bounds in either set.
    #[must_use]
    pub const fn union(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// The bounds, in the order of [`Bound::ALL`].
    pub fn iter(self) -> impl Iterator<Item = Bound> {
        Bound::ALL.into_iter().filter(move |b| self.contains(*b))
    }

    /// The one bound in the set, when there is exactly one.
    pub fn only(self) -> Option<Bound> {
        if self.len() == 1 { self.iter().next() } else { None }
    }
}

impl FromIterator<Bound> for BoundSet {
    fn from_iter<I: IntoIterator<Item = Bound>>(bounds: I) -> Self {
        let mut set = Self::EMPTY;
        for bound in bounds {
            set.insert(bound);
        }
        set
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_holds_what_was_put_in_and_lists_it_in_contract_order() {
        let set: BoundSet = [Bound::E2e, Bound::Ttft, Bound::E2e].into_iter().collect();
        assert_eq!(set.iter().collect::<Vec<_>>(), [Bound::Ttft, Bound::E2e]);
        assert_eq!((set.len(), set.is_empty(), set.contains(Bound::Tpot)), (2, false, false));
        assert_eq!(set.only(), None);
    }

    #[test]
    fn only_names_the_single_member() {
        for bound in Bound::ALL {
            assert_eq!(BoundSet::from_iter([bound]).only(), Some(bound));
        }
        assert_eq!(BoundSet::EMPTY.only(), None);
    }
}
