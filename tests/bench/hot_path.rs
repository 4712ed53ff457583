//! What one event costs: instructions counted by valgrind, which are the same on every machine and fail past their budget, and time
//! beside a full parse of the same bytes, for people.
//!
//! `cargo bench --bench hot_path`. Without valgrind the counts are skipped, and that is said.

#[path = "events.rs"]
mod events;

use std::hint::black_box;
use std::process::Command;

use events::{Counted, TYPICAL, decoder, stream};
use goodput_proxy::clock;
use goodput_proxy::measure::Stamp;

/// Most instructions for an event like the one before but for its text, framing included.
const ALIKE: u64 = 800;
/// Most for an event that has to be scanned, per byte.
const SCANNED_PER_BYTE: u64 = 20;

const EVENTS: usize = 2000;

/// An openai_chat stream whose events differ in more than their text.
const UNLIKE: (&str, &str, &str) = (
    "openai_chat",
    "text/event-stream",
    r#"{"id":"chatcmpl-{}","object":"chat.completion.chunk","created":1730000000,"model":"org/model-70b-instruct","choices":[{"index":0,"delta":{"content":" tok"},"logprobs":null,"finish_reason":null}],"usage":null}"#,
);

fn rows() -> impl Iterator<Item = (usize, &'static (&'static str, &'static str, &'static str))> {
    TYPICAL.iter().chain([&UNLIKE]).enumerate()
}

fn feed(row: &(&str, &str, &str), events: &[Vec<u8>]) -> Counted {
    let (mut decoder, mut seen) = (decoder(row), Counted::default());
    for event in events {
        decoder.feed(Stamp::from_nanos(1), black_box(event), &mut seen);
    }
    seen
}

/// Instructions of this program when it feeds `count` events of row `at`; none without valgrind.
fn instructions(at: usize, count: usize) -> Option<u64> {
    let out = Command::new("valgrind")
        .args(["--tool=callgrind", "--callgrind-out-file=/dev/null"])
        .arg(std::env::current_exe().ok()?)
        .args(["--feed", &at.to_string(), &count.to_string()])
        .output()
        .ok()?;
    let text = String::from_utf8_lossy(&out.stderr);
    let line = text.lines().find(|l| l.contains("Collected"))?;
    line.rsplit(' ').next()?.trim().parse().ok()
}

/// Nanoseconds an event of `run`, the best of a few.
fn ns(events: usize, mut run: impl FnMut()) -> f64 {
    let mut best = f64::MAX;
    for _ in 0..20 {
        let start = clock::now();
        run();
        best = best.min(clock::now().since(start) as f64 / events as f64);
    }
    best
}

fn main() {
    let args: Vec<String> = std::env::args().collect();
    if let Some(i) = args.iter().position(|a| a == "--feed") {
        let [at, count] = [1, 2].map(|n| args[i + n].parse::<usize>().expect("a number"));
        let (_, row) = rows().nth(at).expect("a row");
        // All of them in either case, so that the difference is the feeding alone.
        let events = stream(row, EVENTS + 200);
        black_box(feed(row, &events[..count]));
        return;
    }
    let mut over = Vec::new();
    for (at, row) in rows() {
        let events = stream(row, EVENTS);
        let bytes = events[0].len();
        assert_eq!(feed(row, &events).events, EVENTS);
        let ours = ns(EVENTS, || {
            black_box(feed(row, &events));
        });
        let json: Vec<&[u8]> = events.iter().map(|e| e.strip_prefix(b"data: ").unwrap_or(e)).collect();
        let parse = ns(EVENTS, || {
            for event in &json {
                black_box(serde_json::from_slice::<serde_json::Value>(event).expect("JSON"));
            }
        });
        let counted = instructions(at, 200).zip(instructions(at, 200 + EVENTS));
        let each = counted.map(|(few, many)| (many - few) / EVENTS as u64);
        println!(
            "{:<20} {bytes} bytes: {ours:.0} ns, {:.2} of a serde_json parse, {} instructions",
            row.0,
            ours / parse,
            each.map_or_else(|| "?".to_owned(), |n| n.to_string())
        );
        let budget = if at == 0 { ALIKE } else { SCANNED_PER_BYTE * bytes as u64 };
        match each {
            Some(each) if each > budget => over.push(format!("{} ({at}): {each} instructions, at most {budget}", row.0)),
            Some(_) => {}
            None => eprintln!("NOT CHECKED: no valgrind on this machine, instruction counts are skipped"),
        }
    }
    assert!(over.is_empty(), "{over:#?}");
}
