//! What an SLO says about one finished request.

use super::{Bound, BoundSet};

/// Why a request was not evaluated although an SLO was meant for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Excluded {
    /// The client's own error (upstream 4xx), by the `client_error` policy.
    ClientError,
    /// The client left, by the `cancelled` policy.
    Cancelled,
    /// Refused by the proxy itself.
    Rejected,
    /// A bound without a sample, by the `undefined` policy.
    Undefined,
}

impl Excluded {
    /// Every reason.
    pub const ALL: [Self; 4] = [Self::ClientError, Self::Cancelled, Self::Rejected, Self::Undefined];

    /// The value of the `reason` label.
    pub const fn name(self) -> &'static str {
        match self {
            Self::ClientError => "client_error",
            Self::Cancelled => "cancelled",
            Self::Rejected => "rejected",
            Self::Undefined => "undefined",
        }
    }

    /// The position in [`Excluded::ALL`].
    pub const fn index(self) -> usize {
        self as usize
    }
}

/// Good, bad or not evaluated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Judgement {
    /// Every bound met and the outcome `ok`.
    Good,
    /// Evaluated and not good.
    Bad {
        /// The bounds it broke; empty when only the outcome was bad.
        broken: BoundSet,
        /// Whether the outcome was anything but `ok`.
        outcome_bad: bool,
    },
    /// Counted with its reason, not evaluated.
    Excluded(Excluded),
}

/// The judgement of the first SLO that matched. A request that no SLO matches has no verdict: it is not judged at all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// Index into the route's SLOs.
    pub slo: usize,
    /// What it says.
    pub judgement: Judgement,
}

impl Verdict {
    /// Whether the request counts in good / evaluated.
    pub const fn is_evaluated(&self) -> bool {
        !matches!(self.judgement, Judgement::Excluded(_))
    }

    /// Whether the request is good.
    pub const fn is_good(&self) -> bool {
        matches!(self.judgement, Judgement::Good)
    }

    /// The bounds an evaluated request broke.
    pub const fn broken(&self) -> BoundSet {
        match self.judgement {
            Judgement::Bad { broken, .. } => broken,
            Judgement::Good | Judgement::Excluded(_) => BoundSet::EMPTY,
        }
    }

    /// The bound that alone kept the request from being good: its outcome was `ok` and every other bound was met.
    pub fn sole_violation(&self) -> Option<Bound> {
        match self.judgement {
            Judgement::Bad {
                broken,
                outcome_bad: false,
            } => broken.only(),
            Judgement::Bad { outcome_bad: true, .. } | Judgement::Good | Judgement::Excluded(_) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bad(broken: &[Bound], outcome_bad: bool) -> Verdict {
        Verdict {
            slo: 0,
            judgement: Judgement::Bad {
                broken: broken.iter().copied().collect(),
                outcome_bad,
            },
        }
    }

    #[test]
    fn a_sole_violation_needs_an_ok_outcome_and_one_broken_bound() {
        assert_eq!(bad(&[Bound::Tpot], false).sole_violation(), Some(Bound::Tpot));
        assert_eq!(bad(&[Bound::Tpot], true).sole_violation(), None);
        assert_eq!(bad(&[Bound::Tpot, Bound::E2e], false).sole_violation(), None);
        assert_eq!(bad(&[], true).sole_violation(), None);
    }
}
