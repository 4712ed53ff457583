//! Allocations on the data path, counted: none for an event or a chunk, a fixed few for a request. A test and not a benchmark, since
//! a count is the same on every machine; a binary of its own, since it counts in the global allocator.

mod events;
mod tap;

use allocation_counter::measure;
use events::TYPICAL;
use goodput_proxy::measure::{Ending, Stamp};
use goodput_proxy::wire::FORMATS;
use tap::{head, observer, stream};

/// Most allocations of a unary request from its head to its record, sockets aside.
const PER_REQUEST: u64 = 5;
/// Most of those that a whole stream has on top, however long it is.
const PER_STREAM: u64 = 4;

/// Most bytes that an open stream holds from its head to its record, sockets aside.
const HELD_BY_A_STREAM: i64 = 2_700;

#[test]
fn an_event_allocates_nothing_in_any_format_cut_or_whole() {
    for format in FORMATS {
        assert!(
            TYPICAL.iter().any(|row| row.format == format.name),
            "no stream of {}",
            format.name
        );
    }
    let observer = observer();
    for row in TYPICAL {
        let events = row.stream(400);
        let mut exchange = stream(&observer, row.format, 0, None);
        let mut at = 10;
        let mut feed = |piece: &[u8]| {
            at += 1000;
            exchange.chunk(Stamp::from_nanos(at), piece);
        };
        // The first gap of a series makes its histograms.
        events[..200].iter().for_each(|event| feed(event));
        let allocated = measure(|| {
            events[200..].iter().for_each(|event| feed(event));
            events[200..220]
                .iter()
                .flatten()
                .for_each(|byte| feed(std::slice::from_ref(byte)));
        });
        exchange.finish(Stamp::from_nanos(1_000_000), Ending::Complete);
        let last = observer.recent(1).remove(0);
        assert_eq!(allocated.count_total, 0, "{}", row.name);
        // A running count stands above the number of events.
        assert!(
            last.output_tokens.is_some_and(|n| n >= 420),
            "{}: {:?}",
            row.name,
            last.output_tokens
        );
    }
}

#[test]
fn an_open_stream_holds_few_bytes() {
    let observer = observer();
    let chunks = TYPICAL[0].stream(4);
    let open = |at: u64| {
        let mut exchange = stream(&observer, TYPICAL[0].format, at, None);
        for (chunk, later) in chunks.iter().zip(10..) {
            exchange.chunk(Stamp::from_nanos(at + later * 1000), chunk);
        }
        exchange
    };
    // The first stream makes its series, and the place of its kind among those under way.
    let first: Vec<_> = (0..16).map(open).collect();
    drop(first);
    let mut held = None;
    let allocated = measure(|| held = Some(open(1_000_000)));
    println!("bytes held by an open stream: {}", allocated.bytes_current);
    assert!(
        allocated.bytes_current <= HELD_BY_A_STREAM,
        "{} bytes",
        allocated.bytes_current
    );
}

#[test]
fn a_request_allocates_a_fixed_few_times() {
    let observer = observer();
    let chunks = TYPICAL[0].stream(100);
    let run = |at: u64, chunks: &[Vec<u8>]| {
        let mut exchange = stream(&observer, TYPICAL[0].format, at, None);
        for (chunk, later) in chunks.iter().zip(10..) {
            exchange.chunk(Stamp::from_nanos(at + later * 1000), chunk);
        }
        exchange.finish(Stamp::from_nanos(at + 1_000_000), Ending::Complete);
    };
    // Past the sketches' cap and the ring's length, where the state is steady.
    for i in 0..6000 {
        run(i * 2_000_000, &chunks[..2]);
    }
    let headers = measure(|| {
        head("application/json", None);
        head("text/event-stream", None);
    });
    let short = measure(|| run(20_000_000_000, &[])).count_total - headers.count_total;
    let long = measure(|| run(20_002_000_000, &chunks)).count_total - headers.count_total;
    println!(
        "allocations of a request without a body: {short}, with {} chunks: {long}",
        chunks.len()
    );
    assert!(short <= PER_REQUEST, "{short} allocations");
    assert!(long <= short + PER_STREAM, "{long} allocations, {short} without chunks");
}
