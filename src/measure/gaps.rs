//! Where a live stream's gaps and tokens go while it runs.

/// Takes what a stream says about inter-token times and token counts while it runs.
///
/// Called from the data path: an implementation adds to counters and must not block, allocate or panic.
pub trait GapSink {
    /// A gap of `gap_ns` between two consecutive token-bearing events of one choice, the later one holding `tokens` (at least 1):
    /// `tokens` ITL samples of `gap_ns / tokens` each, and one inter-chunk sample of `gap_ns`.
    fn gap(&mut self, gap_ns: u64, tokens: u64);

    /// `n` more output tokens than said before. At the end the record may hold more (never taken back if it holds fewer), and only
    /// then is it certain what they were counted from.
    fn tokens(&mut self, n: u64);
}

/// Drops everything: for replies that belong to no series.
impl GapSink for () {
    fn gap(&mut self, _gap_ns: u64, _tokens: u64) {}
    fn tokens(&mut self, _n: u64) {}
}
