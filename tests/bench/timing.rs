//! What an event takes in the tap, in time and beside a full parse of the same bytes: `cargo bench --bench timing`. For people, on a
//! quiet machine; what fails a build is the count of instructions.

#[path = "events.rs"]
mod events;
#[path = "tap.rs"]
mod tap;

use std::cell::Cell;
use std::hint::black_box;
use std::time::Duration;

use criterion::{BenchmarkGroup, Criterion, Throughput, measurement::WallTime};
use events::TYPICAL;
use goodput_proxy::clock;
use goodput_proxy::measure::Stamp;

const EVENTS: usize = 400;

/// The JSON of a framed event.
fn json(event: &[u8]) -> &[u8] {
    let start = event.iter().position(|b| *b == b'{').expect("an object");
    event[start..].trim_ascii_end()
}

/// Nanoseconds an event of `run`, which takes [`EVENTS`] of them, in criterion's best sample.
fn bench(group: &mut BenchmarkGroup<'_, WallTime>, name: &str, mut run: impl FnMut()) -> f64 {
    let best = Cell::new(f64::INFINITY);
    group.bench_function(name, |bencher| {
        bencher.iter_custom(|times| {
            let start = clock::now();
            for _ in 0..times {
                run();
            }
            let ns = clock::now().since(start);
            best.set(best.get().min(ns as f64 / times as f64 / EVENTS as f64));
            Duration::from_nanos(ns)
        });
    });
    best.get()
}

fn main() {
    let mut criterion = Criterion::default()
        .warm_up_time(Duration::from_millis(500))
        .measurement_time(Duration::from_secs(2))
        .configure_from_args();
    let observer = tap::observer();
    let mut lines = Vec::new();
    for row in TYPICAL {
        let events = row.stream(EVENTS);
        let mut group = criterion.benchmark_group(row.name);
        group.throughput(Throughput::Elements(EVENTS as u64));
        let (mut exchange, mut at) = (tap::stream(&observer, row.format, 0, None), 10);
        let ours = bench(&mut group, "tap", || {
            for event in &events {
                at += 10_000_000;
                exchange.chunk(Stamp::from_nanos(at), black_box(event));
            }
        });
        let json: Vec<&[u8]> = events.iter().map(|event| json(event)).collect();
        let parse = bench(&mut group, "serde_json", || {
            for event in &json {
                black_box(serde_json::from_slice::<serde_json::Value>(black_box(event)).expect("JSON"));
            }
        });
        group.finish();
        let bytes = events[EVENTS - 1].len();
        lines.push(format!(
            "| {} | {bytes} | {ours:.0} | {parse:.0} | {:.2} |",
            row.name,
            ours / parse
        ));
    }
    criterion.final_summary();
    println!(
        "\n| event | bytes | tap, ns | serde_json, ns | ratio |\n|---|---|---|---|---|\n{}",
        lines.join("\n")
    );
}
