//! Allocations on the data path, counted: none for an event or a chunk, a fixed few for a request. A test and not a benchmark, since
//! a count is the same on every machine; a binary of its own, since it counts in the global allocator.

mod events;

use std::sync::Arc;

use allocation_counter::measure;
use events::{Counted, TYPICAL, decoder, stream};
use goodput_proxy::config::Config;
use goodput_proxy::lifecycle::Lifecycle;
use goodput_proxy::measure::{Ending, Stamp};
use goodput_proxy::observe::{Exchange, Observer};
use goodput_proxy::wire::FORMATS;
use http::header::{CONTENT_TYPE, HeaderMap, HeaderValue};
use http::{Method, StatusCode};

/// Most allocations of a unary request from its head to its record, sockets aside.
const PER_REQUEST: u64 = 6;
/// Most of those that a whole stream has on top, however long it is.
const PER_STREAM: u64 = 4;

/// Most bytes that an open stream holds from its head to its record, sockets aside.
const HELD_BY_A_STREAM: i64 = 2_700;

const BODY: &[u8] = br#"{"model":"m","messages":[{"role":"user","content":"hello"}],"stream":true}"#;

fn head(content_type: &'static str) -> HeaderMap {
    let mut headers = HeaderMap::new();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    headers
}

fn begin(observer: &Arc<Observer>, at: u64) -> Exchange {
    let headers = head("application/json");
    let mut exchange = observer.begin(Stamp::from_nanos(at), &Method::POST, "/v1/chat/completions", &headers);
    exchange.request_tap().chunk(BODY);
    exchange.request_tap().sent(Stamp::from_nanos(at + 1));
    exchange.head(Stamp::from_nanos(at + 2), StatusCode::OK, &head("text/event-stream"));
    exchange
}

fn observer() -> Arc<Observer> {
    Observer::new(&Config::default(), Lifecycle::new().watch())
}

#[test]
fn an_event_allocates_nothing_in_any_format_cut_or_whole() {
    assert_eq!(TYPICAL.len(), FORMATS.len(), "a typical stream of each format");
    for row in TYPICAL {
        let events = stream(row, 400);
        let (warm, counted) = events.split_at(200);
        let (mut decoder, mut seen) = (decoder(row), Counted::default());
        warm.iter().for_each(|e| decoder.feed(Stamp::from_nanos(1), e, &mut seen));
        let allocated = measure(|| {
            for event in counted {
                decoder.feed(Stamp::from_nanos(2), event, &mut seen);
            }
            for byte in counted[..20].iter().flatten() {
                decoder.feed(Stamp::from_nanos(3), std::slice::from_ref(byte), &mut seen);
            }
        });
        assert_eq!(allocated.count_total, 0, "{}", row.0);
        assert_eq!((seen.events, seen.tokens > 0), (420, true), "{}", row.0);
    }
}

#[test]
fn a_chunk_of_a_measured_stream_allocates_nothing() {
    let observer = observer();
    let chunks = stream(&TYPICAL[0], 400);
    let mut exchange = begin(&observer, 0);
    // The first gap of a series makes its histograms.
    chunks[..200]
        .iter()
        .zip(10..)
        .for_each(|(c, at)| exchange.chunk(Stamp::from_nanos(at * 1000), c));
    let allocated = measure(|| {
        for (chunk, at) in chunks[200..].iter().zip(210..) {
            exchange.chunk(Stamp::from_nanos(at * 1000), chunk);
        }
    });
    assert_eq!(allocated.count_total, 0);
    exchange.finish(Stamp::from_nanos(1_000_000), Ending::Complete);
    assert_eq!(observer.recent(1)[0].output_tokens, Some(400));
}

#[test]
fn an_open_stream_holds_few_bytes() {
    let observer = observer();
    let chunks = stream(&TYPICAL[0], 4);
    let open = |at: u64| {
        let mut exchange = begin(&observer, at);
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
    let chunks = stream(&TYPICAL[0], 100);
    let run = |at: u64, chunks: &[Vec<u8>]| {
        let mut exchange = begin(&observer, at);
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
        head("application/json");
        head("text/event-stream");
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
