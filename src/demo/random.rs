//! A small seeded generator, so that a seed names the same requests on every machine and in every release.

use std::f64::consts::TAU;

/// SplitMix64: one word of state, good enough for arrivals and lengths, nothing secret.
#[derive(Clone, Debug)]
pub(super) struct Random(u64);

impl Random {
    /// The sequence of `seed`.
    pub(super) fn new(seed: u64) -> Self {
        Self(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Uniform in (0, 1): never 0, so that its logarithm exists.
    pub(super) fn unit(&mut self) -> f64 {
        ((self.next() >> 12) as f64 + 0.5) / (1_u64 << 52) as f64
    }

    /// True with probability `p`.
    pub(super) fn chance(&mut self, p: f64) -> bool {
        self.unit() < p
    }

    /// Exponential with this mean.
    pub(super) fn exponential(&mut self, mean: f64) -> f64 {
        -mean * self.unit().ln()
    }

    /// Log-normal with this *mean* and spread `sigma` of the logarithm.
    pub(super) fn lognormal(&mut self, mean: f64, sigma: f64) -> f64 {
        let normal = (-2.0 * self.unit().ln()).sqrt() * (TAU * self.unit()).cos();
        mean * (sigma * normal - sigma * sigma / 2.0).exp()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const N: u32 = 200_000;

    fn mean(mut draw: impl FnMut(&mut Random) -> f64) -> f64 {
        let mut random = Random::new(7);
        (0..N).map(|_| draw(&mut random)).sum::<f64>() / f64::from(N)
    }

    #[test]
    fn the_sequence_is_the_published_one() {
        // First outputs of SplitMix64 for seed 1234567.
        let mut random = Random::new(1_234_567);
        assert_eq!(
            [random.next(), random.next()],
            [6_457_827_717_110_365_317, 3_203_168_211_198_807_973]
        );
    }

    #[test]
    fn means_are_what_was_asked_for() {
        assert!((mean(Random::unit) - 0.5).abs() < 0.005);
        assert!((mean(|r| r.exponential(50.0)) - 50.0).abs() < 0.5);
        assert!((mean(|r| r.lognormal(130.0, 0.6)) - 130.0).abs() < 1.3);
        assert!((mean(|r| f64::from(u8::from(r.chance(0.01)))) - 0.01).abs() < 0.001);
    }
}
