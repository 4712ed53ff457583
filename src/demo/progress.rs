//! The line that says how far the demo is: rewritten every second on a terminal, else a new line every few seconds.

use std::io::{IsTerminal, Write};
use std::sync::Arc;
use std::time::Duration;

use tokio::time::{MissedTickBehavior, interval};

use super::summary::{Judged, outcomes, quantile};
use crate::aggregate::{Measure, Snapshot};
use crate::clock;
use crate::observe::Observer;

/// Between two lines on a terminal.
const EVERY: Duration = Duration::from_secs(1);
/// Between two lines elsewhere.
const SELDOM: Duration = Duration::from_secs(5);

/// Shows progress until dropped.
pub(super) async fn show(observer: Arc<Observer>, length: Duration) {
    let terminal = std::io::stdout().is_terminal();
    let start = clock::now();
    let mut ticks = interval(if terminal { EVERY } else { SELDOM });
    ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
    ticks.tick().await;
    loop {
        ticks.tick().await;
        let now = clock::now();
        let line = line(&observer.snapshot(now), Duration::from_nanos(now.since(start)), length);
        // A closed standard output is no reason to stop measuring.
        let _ = if terminal {
            write!(std::io::stdout(), "\r\x1b[2K{line}")
        } else {
            writeln!(std::io::stdout(), "{line}")
        };
        let _ = std::io::stdout().flush();
    }
}

/// Takes the rewritten line off the terminal.
pub(super) fn clear() {
    if std::io::stdout().is_terminal() {
        let _ = write!(std::io::stdout(), "\r\x1b[2K");
    }
}

fn line(snapshot: &Snapshot, elapsed: Duration, length: Duration) -> String {
    let requests: u64 = outcomes(snapshot).iter().map(|(_, n)| n).sum();
    let in_flight: u64 = snapshot.series.iter().map(|s| s.in_flight).sum();
    let median = |measure| quantile(snapshot, measure, 0.5).map_or_else(|| "-".to_owned(), |s| format!("{:.1}", s * 1e3));
    let ratio = Judged::of(snapshot)
        .ratio()
        .map_or_else(|| "-".to_owned(), |r| format!("{:.1} %", r * 100.0));
    format!(
        "{:>3} / {} s  {requests} requests, {in_flight} in flight  P50: TTFT {} ms, TPOT {} ms, E2E {} ms  goodput {ratio}",
        elapsed.as_secs(),
        length.as_secs(),
        median(Measure::Ttft),
        median(Measure::Tpot),
        median(Measure::E2e),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn before_the_first_request_there_is_nothing_to_tell() {
        assert_eq!(
            line(&Snapshot::default(), Duration::from_millis(1500), Duration::from_secs(30)),
            "  1 / 30 s  0 requests, 0 in flight  P50: TTFT - ms, TPOT - ms, E2E - ms  goodput -"
        );
    }
}
