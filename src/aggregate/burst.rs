//! What the events of one read add to a series, put together.
//!
//! Events that came in one read share its time, so all their gaps but the first are 0. Alike gaps in a row become one addition to
//! each histogram: an addition is atomic, and costs as much as all else that an event does to the meter.

use super::series::Series;
use crate::measure::GapSink;

/// Gaps and tokens not yet given to their series; [`Burst::flush`] gives the rest.
#[derive(Debug, Default)]
pub struct Burst {
    /// The last gap, ns, and the tokens behind it.
    gap: (u64, u64),
    /// How often it came in a row.
    times: u64,
    tokens: u64,
}

impl Burst {
    /// Where the gaps and tokens of a request that counts on `series` go: always the same one until the next flush.
    pub fn towards<'a>(&'a mut self, series: &'a Series) -> impl GapSink {
        Adding { burst: self, series }
    }

    /// Gives `series` what it was not given yet.
    pub fn flush(&mut self, series: &Series) {
        self.flush_gaps(series);
        if self.tokens > 0 {
            series.tokens(std::mem::take(&mut self.tokens));
        }
    }

    fn flush_gaps(&mut self, series: &Series) {
        let times = std::mem::take(&mut self.times);
        if times > 0 {
            series.gaps(self.gap.0, self.gap.1, times);
        }
    }
}

struct Adding<'a> {
    burst: &'a mut Burst,
    series: &'a Series,
}

impl GapSink for Adding<'_> {
    #[inline]
    fn gap(&mut self, gap_ns: u64, tokens: u64) {
        let gap = (gap_ns, tokens);
        if self.burst.gap != gap {
            self.burst.flush_gaps(self.series);
            self.burst.gap = gap;
        }
        self.burst.times += 1;
    }

    #[inline]
    fn tokens(&mut self, n: u64) {
        self.burst.tokens = self.burst.tokens.saturating_add(n);
    }
}
