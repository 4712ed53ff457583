//! Durations come from the monotonic clock alone, and no clock that goes back makes one negative or huge.

use goodput_proxy::aggregate::Measure;
use goodput_proxy::config::Config;
use goodput_proxy::lifecycle::Lifecycle;
use goodput_proxy::measure::{Ending, Stamp};
use goodput_proxy::observe::Observer;
use http::{HeaderMap, HeaderValue, Method, StatusCode};

use super::super::rig::{DONE, both, chunk, content, finish, wait};
use super::{MS, samples, stream, times};

#[test]
fn wall_time_has_no_part_in_a_duration() {
    // P115
    both(|way| async move {
        // The paused clock runs an hour ahead of the wall clock, which stands nearly still meanwhile.
        let before = goodput_proxy::clock::unix_seconds();
        let hour = 3_600_000;
        let steps = [
            wait(hour),
            chunk(content("x")),
            wait(hour),
            chunk(content("y")),
            chunk(finish()),
            chunk(DONE),
        ];
        let record = stream(way, steps).await.record();
        let hours = |n: u64| (n * hour) as f64;
        assert_eq!(
            times(&record),
            (Some(hours(1)), Some(hours(1)), Some(hours(1)), Some(hours(1)), hours(2))
        );
        assert!(record.ended - before < 3600.0, "only the stamp of the record is wall time");
    });
}

#[test]
fn a_clock_that_stands_still_or_goes_back_gives_durations_of_0() {
    // P115
    let observer = Observer::new(&Config::default(), Lifecycle::new().watch());
    let at = |ms: u64| Stamp::from_nanos(ms * MS);
    let mut headers = HeaderMap::new();
    headers.insert("content-type", HeaderValue::from_static("text/event-stream"));
    let mut exchange = observer.begin(at(10_000), &Method::POST, "/v1/chat/completions", &HeaderMap::new());
    exchange.head(at(9_000), StatusCode::OK, &headers);
    for ms in [9_500, 10_100, 5_000, 10_100, 0] {
        exchange.chunk(at(ms), content("x").as_bytes());
    }
    exchange.chunk(at(1), DONE.as_bytes());
    exchange.finish(at(2), Ending::Complete);
    let record = observer.recent(1).remove(0);
    assert_eq!(
        (record.ttft_ms, record.e2e_ms, record.stall_ms),
        (Some(0.0), 100.0, Some(100.0))
    );
    assert_eq!(record.tpot_ms, Some(25.0));
    let snapshot = observer.snapshot(at(0));
    let series = snapshot
        .series
        .iter()
        .find(|s| (&*s.route, &*s.model) == ("chat", "unknown"))
        .expect("it named no model");
    assert_eq!(samples(series, Measure::Itl), (100.0, 4));
    assert_eq!(samples(series, Measure::Ttft), (0.0, 1));
}
