//! The native grid: exponential buckets of Prometheus schema 5 over exact integers.
//!
//! Bucket `i` holds the values `v` with `2^((i-1)/32) < v <= 2^(i/32)`, where `v` is in the exposed unit: seconds for times (given
//! here as integer nanoseconds), the plain number for counts. An edge is kept as the largest integer that the bucket holds, so the
//! comparison is exact and powers of two fall on their own edge. The table is made with integer arithmetic only: it is the same on
//! every machine, and a test checks every edge against big-number arithmetic.

/// Buckets per doubling: `2^schema`.
const PER_OCTAVE: i32 = 32;
/// Nanoseconds per second.
const NANOS: u128 = 1_000_000_000;
/// Fraction bits of the roots below.
const BITS: u32 = 62;

/// Lowest bucket of times: everything up to `2^-20` s (953 ns) is counted in it.
pub(super) const SECONDS_MIN: i32 = -20 * PER_OCTAVE;
/// Highest regular bucket of times, up to 8192 s; everything above is counted in the next one.
pub(super) const SECONDS_MAX: i32 = 13 * PER_OCTAVE;
/// Highest regular bucket of counts, up to 16 Mi tokens; everything above is counted in the next one.
pub(super) const COUNTS_MAX: i32 = 24 * PER_OCTAVE;

/// What the values of a histogram are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Integer nanoseconds, exposed as seconds.
    Nanoseconds,
    /// A number of tokens.
    Count,
}

/// The native buckets of `unit`, ascending: (index, largest integer in it). Buckets that can hold no integer are left out; the last
/// one takes everything above the grid.
pub(super) fn native_edges(unit: Unit) -> Vec<(i32, u64)> {
    let (indices, scale) = match unit {
        Unit::Nanoseconds => (SECONDS_MIN..=SECONDS_MAX, NANOS),
        Unit::Count => (0..=COUNTS_MAX, 1),
    };
    let overflow = (indices.end() + 1, u64::MAX);
    let roots = roots();
    let mut edges: Vec<(i32, u64)> = Vec::with_capacity(indices.clone().count() + 1);
    for index in indices {
        let root = roots[index.rem_euclid(PER_OCTAVE) as usize] * scale;
        let shift = BITS as i32 - index.div_euclid(PER_OCTAVE);
        // The largest shift to the right is 62 + 20 bits, the smallest 62 - 24: never a shift to the left.
        let edge = (root >> shift) as u64;
        if edges.last().is_none_or(|(_, below)| *below < edge) {
            edges.push((index, edge));
        }
    }
    edges.push(overflow);
    edges
}

/// `2^(j/32)` with [`BITS`] fraction bits, for j in 0..32, rounded down.
fn roots() -> [u128; PER_OCTAVE as usize] {
    let one = 1_u128 << BITS;
    let mut powers = [0; 5]; // 2^(1/2), 2^(1/4), .. 2^(1/32)
    let mut last = one << 1;
    for power in &mut powers {
        last = (last << BITS).isqrt();
        *power = last;
    }
    std::array::from_fn(|j| {
        let factors = powers.iter().enumerate().filter(|(bit, _)| j & (16 >> bit) != 0);
        factors.fold(one, |product, (_, power)| (product * power) >> BITS)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Little-endian base 2^32 digits: the slow reference.
    #[derive(Clone, PartialEq, Eq)]
    struct Big(Vec<u32>);

    impl Big {
        fn power(base: u64, exponent: u32) -> Self {
            (0..exponent).fold(Self(vec![1]), |n, _| n.times(base))
        }

        fn times(&self, factor: u64) -> Self {
            let (mut digits, mut carry) = (Vec::new(), 0_u128);
            for digit in &self.0 {
                carry += u128::from(*digit) * u128::from(factor);
                digits.push(carry as u32);
                carry >>= 32;
            }
            while carry > 0 {
                digits.push(carry as u32);
                carry >>= 32;
            }
            Self(digits)
        }

        fn cmp(&self, other: &Self) -> std::cmp::Ordering {
            let trimmed = |n: &Self| n.0.iter().rposition(|d| *d != 0).map_or(0, |i| i + 1);
            let (a, b) = (trimmed(self), trimmed(other));
            a.cmp(&b)
                .then_with(|| self.0[..a].iter().rev().cmp(other.0[..b].iter().rev()))
        }
    }

    /// `v / scale <= 2^(i/32)`, as `v^32 * 2^-i <= scale^32` on integers.
    fn within(v: u64, scale: u64, index: i32) -> bool {
        let (mut left, mut right) = (Big::power(v, 32), Big::power(scale, 32));
        if index < 0 {
            left = (0..-index).fold(left, |n, _| n.times(2));
        } else {
            right = (0..index).fold(right, |n, _| n.times(2));
        }
        left.cmp(&right).is_le()
    }

    #[test]
    fn every_edge_of_times_is_exact() {
        for (index, edge) in native_edges(Unit::Nanoseconds).into_iter().filter(|(i, _)| *i <= SECONDS_MAX) {
            assert!(within(edge, 1_000_000_000, index), "edge of bucket {index} is too high");
            assert!(!within(edge + 1, 1_000_000_000, index), "edge of bucket {index} is too low");
        }
    }

    #[test]
    fn every_edge_of_counts_is_exact() {
        for (index, edge) in native_edges(Unit::Count).into_iter().filter(|(i, _)| *i <= COUNTS_MAX) {
            assert!(within(edge, 1, index), "edge of bucket {index} is too high");
            assert!(!within(edge + 1, 1, index), "edge of bucket {index} is too low");
            assert!(
                index == 0 || !within(edge, 1, index - 1),
                "bucket {index} could be a lower one"
            );
        }
    }

    #[test]
    fn powers_of_two_are_edges() {
        let times = native_edges(Unit::Nanoseconds);
        for (index, edge) in [
            (-64, 250_000_000),
            (-32, 500_000_000),
            (0, 1_000_000_000),
            (32, 2_000_000_000),
            (416, 8_192_000_000_000),
        ] {
            assert!(times.contains(&(index, edge)), "bucket {index}");
        }
        let counts = native_edges(Unit::Count);
        for octave in 0..=24 {
            assert!(counts.contains(&(octave * 32, 1 << octave)), "2^{octave}");
        }
    }

    #[test]
    fn the_grid_of_times_has_a_bucket_for_every_index_and_one_above() {
        let times = native_edges(Unit::Nanoseconds);
        assert!(times.iter().map(|(i, _)| *i).eq(SECONDS_MIN..=SECONDS_MAX + 1));
        assert_eq!(times.first(), Some(&(SECONDS_MIN, 953)));
        assert_eq!(times.last(), Some(&(417, u64::MAX)));
    }
}
