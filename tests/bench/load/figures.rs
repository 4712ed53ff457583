//! Figures of a run: quantiles of one round, the median and the spread of all.

/// What the rounds gave for one cell of a table.
pub struct Rounds(Vec<f64>);

impl Rounds {
    /// Of column `at`.
    pub fn column<const N: usize>(rows: &[[f64; N]], at: usize) -> Self {
        rows.iter().map(|row| row[at]).collect()
    }

    /// The one in the middle.
    pub fn median(&self) -> f64 {
        self.0.get(self.0.len() / 2).copied().unwrap_or(f64::NAN)
    }

    /// Median, lowest and highest, with so many digits.
    pub fn spread(&self, digits: usize) -> String {
        let (lowest, highest) = (self.0.first().unwrap_or(&f64::NAN), self.0.last().unwrap_or(&f64::NAN));
        format!("{:.digits$} [{lowest:.digits$}..{highest:.digits$}]", self.median())
    }
}

impl FromIterator<f64> for Rounds {
    fn from_iter<T: IntoIterator<Item = f64>>(values: T) -> Self {
        let mut values: Vec<f64> = values.into_iter().collect();
        values.sort_by(f64::total_cmp);
        Self(values)
    }
}

/// A quantile of sorted nanoseconds, in microseconds.
pub fn quantile_us(sorted: &[u64], q: f64) -> f64 {
    let at = (sorted.len() as f64 * q).ceil() as usize;
    sorted.get(at.max(1) - 1).map_or(f64::NAN, |n| *n as f64 / 1e3)
}

/// Their mean, in microseconds.
pub fn mean_us(values: &[u64]) -> f64 {
    values.iter().sum::<u64>() as f64 / values.len() as f64 / 1e3
}
