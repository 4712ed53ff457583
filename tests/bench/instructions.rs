//! What the tap costs in instructions, counted by valgrind: the same on every machine (but for what the C library and memchr choose
//! by the processor), so each row has a budget, and this fails past one.
//!
//! `cargo bench --bench instructions`; rows with `-- WORD` in their name only. Without valgrind nothing is counted, and that is said.
//!
//! The tap is everything between a read and the next one but the sockets: decoder, meter, the series' gaps and counters. The program
//! runs itself once under callgrind, which writes one file of totals for each call of [`counted_run`].

#[path = "events.rs"]
mod events;
#[path = "hostile.rs"]
mod hostile;
#[path = "tap.rs"]
mod tap;

use std::hint::black_box;
use std::io::Write;
use std::path::Path;
use std::process::Command;

use events::TYPICAL;
use flate2::{Compression, write::GzEncoder};
use goodput_proxy::measure::Stamp;
use goodput_proxy::observe::{Exchange, RequestTap};
use hostile::{From, Hostile};

/// Events of a typical stream that are counted, after as many that are not.
const EVENTS: usize = 400;

// Budgets: what was measured when they were set, and some 15 %.

/// Most instructions for a typical event, in the order of [`TYPICAL`]. The cheap ones are like the one before but for their text.
const TYPICAL_BUDGETS: [u64; TYPICAL.len()] = [890, 890, 4250, 1390, 3420, 4340, 5020, 4160, 870, 5520, 6640, 8290];
/// Most for one in gzip, by itself in a flush.
const ZIPPED: u64 = 28_200;
/// Most per byte of a large event: its text, and what stands beside it.
const LARGE: u64 = 41;
/// Most per byte of input made to cost, and of such lines of JSON: the shortest event is one of two bytes.
const HOSTILE: u64 = 125;
const LINES: u64 = 340;
/// Most per read of a byte.
const CUT: u64 = 530;
/// Most per byte that a bomb inflates to.
const BOMB: u64 = 225;

/// One input, fed to a tap.
struct Row {
    name: String,
    from: From,
    coding: Option<&'static str>,
    warm: Vec<Vec<u8>>,
    counted: Vec<Vec<u8>>,
    /// What a budget is for, how many of it are counted, and the budget.
    per: (&'static str, usize, u64),
}

fn rows() -> Vec<Row> {
    let mut rows = Vec::new();
    for (row, budget) in TYPICAL.iter().zip(TYPICAL_BUDGETS) {
        let mut events = row.stream(2 * EVENTS);
        rows.push(Row {
            name: format!("{} ({} bytes)", row.name, events[EVENTS].len()),
            from: From::Server(row.format),
            coding: None,
            counted: events.split_off(EVENTS),
            warm: events,
            per: ("event", EVENTS, budget),
        });
    }
    rows.push(zipped());
    for (name, before, unit, behind) in [
        (
            "large text",
            "data: {\"choices\":[{\"delta\":{\"content\":\"",
            "abcd",
            "\"}}]}\n\n",
        ),
        (
            "large logprobs",
            "data: {\"choices\":[{\"delta\":{\"content\":\"a\"},\"logprobs\":[{}",
            ",{\"token\":\" the\",\"logprob\":-3.17,\"bytes\":[32,116,104,101]}",
            "]}]}\n\n",
        ),
        (
            "large tool call",
            "data: {\"choices\":[{\"delta\":{\"tool_calls\":[{}",
            ",{\"index\":0,\"function\":{\"arguments\":\"\\\"city\"}}",
            "]}}]}\n\n",
        ),
    ] {
        for len in [250, 64 << 10, 1 << 20] {
            let event = format!(
                "{before}{}{behind}",
                unit.repeat((len - before.len() - behind.len()) / unit.len())
            );
            rows.push(Row {
                name: format!("{name} ({len} bytes)"),
                from: From::Server("openai_chat"),
                coding: None,
                warm: Vec::new(),
                per: ("byte", event.len(), LARGE),
                counted: event.as_bytes().chunks(64 << 10).map(<[u8]>::to_vec).collect(),
            });
        }
    }
    let sized = |what: &str, input: Hostile, per| Row {
        name: format!("{what}{} ({:?})", input.name, input.from),
        from: input.from,
        coding: input.coding,
        warm: Vec::new(),
        counted: input.pieces,
        per,
    };
    let len = |input: &Hostile| input.pieces.iter().map(Vec::len).sum();
    rows.extend(hostile::whole().map(|input| {
        let is_lines = input.from == From::Server("ollama");
        let per = ("byte", len(&input), if is_lines { LINES } else { HOSTILE });
        sized("", input, per)
    }));
    rows.extend(hostile::cut().into_iter().map(|input| {
        let per = ("read of a byte", len(&input), CUT);
        sized("", input, per)
    }));
    rows.extend(
        hostile::bombs()
            .into_iter()
            .map(|input| sized("a bomb of ", input, ("inflated byte", hostile::INFLATED, BOMB))),
    );
    rows
}

/// A typical stream in gzip, flushed after each event.
fn zipped() -> Row {
    let mut gzip = GzEncoder::new(Vec::new(), Compression::fast());
    let pieces = TYPICAL[0].stream(2 * EVENTS).into_iter().map(|event| {
        gzip.write_all(&event).and_then(|()| gzip.flush()).expect("to memory");
        std::mem::take(gzip.get_mut())
    });
    let mut warm: Vec<_> = pieces.collect();
    Row {
        name: "chat in gzip".to_owned(),
        from: From::Server("openai_chat"),
        coding: Some("gzip"),
        counted: warm.split_off(EVENTS),
        warm,
        per: ("event", EVENTS, ZIPPED),
    }
}

/// What is counted, and nothing else. Callgrind is told its name: no wildcard, which it does not always heed.
#[inline(never)]
fn counted_run(feed: &mut dyn FnMut(&[u8]), pieces: &[Vec<u8>]) {
    for piece in pieces {
        feed(black_box(piece));
    }
}

fn run(rows: &[Row]) {
    let observer = tap::observer();
    for row in rows {
        let mut feed_reply: (Exchange, u64);
        let feed_request: RequestTap;
        let feed: &mut dyn FnMut(&[u8]) = match row.from {
            From::Server(format) => {
                feed_reply = (tap::stream(&observer, format, 0, row.coding), 10);
                &mut |piece| {
                    feed_reply.1 += 10_000_000;
                    feed_reply.0.chunk(Stamp::from_nanos(feed_reply.1), piece);
                }
            }
            From::Client => {
                feed_request = tap::ask(&observer, "openai_chat", 0).request_tap();
                &mut |piece| feed_request.chunk(piece)
            }
        };
        row.warm.iter().for_each(|piece| feed(piece));
        counted_run(feed, &row.counted);
    }
}

/// Instructions of each row; none without valgrind.
fn counts(only: &[String], rows: usize) -> Option<Vec<u64>> {
    if Command::new("valgrind").arg("--version").output().is_err() {
        return None;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let out = folder.path().join("totals");
    let done = Command::new("valgrind")
        .args([
            "--quiet",
            "--tool=callgrind",
            "--toggle-collect=instructions::counted_run",
            "--dump-after=instructions::counted_run",
        ])
        .arg(format!("--callgrind-out-file={}", out.display()))
        .arg(std::env::current_exe().expect("this program has a path"))
        .arg("--run")
        .args(only)
        .output()
        .expect("valgrind runs");
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    let count = |row: usize| totals(&out.with_extension((row + 1).to_string()));
    Some((0..rows).map(count).collect())
}

fn totals(file: &Path) -> u64 {
    let text = std::fs::read_to_string(file).expect("a file of totals for each row");
    let totals = text.lines().find_map(|line| line.strip_prefix("totals: "));
    totals.and_then(|n| n.trim().parse().ok()).expect("a line of totals")
}

fn main() {
    // cargo adds `--bench`.
    let arguments: Vec<String> = std::env::args().skip(1).filter(|a| a != "--bench").collect();
    let words: Vec<String> = arguments.iter().filter(|a| !a.starts_with("--")).cloned().collect();
    let mut rows = rows();
    rows.retain(|row| words.is_empty() || words.iter().any(|word| row.name.contains(word.as_str())));
    assert!(!rows.is_empty(), "no row has any of {words:?} in its name");
    if arguments.iter().any(|a| a == "--run") {
        return run(&rows);
    }
    let Some(counts) = counts(&words, rows.len()) else {
        println!("INSTRUCTIONS NOT COUNTED: no valgrind on this machine");
        return;
    };
    let mut over = Vec::new();
    for (row, count) in rows.iter().zip(counts) {
        let (what, times, budget) = row.per;
        let each = count as f64 / times as f64;
        println!("{each:>9.1} instructions per {what:<14} (at most {budget:>5})  {}", row.name);
        if each > budget as f64 {
            over.push(&row.name);
        }
    }
    assert!(over.is_empty(), "past their budget: {over:#?}");
}
