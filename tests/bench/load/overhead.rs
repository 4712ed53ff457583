//! `goodput_overhead_seconds` beside what clients see.
//!
//! The metric counts from a chunk's read to the end of the write that hands it on. What a client sees more than without the proxy is
//! that, and the way from the server to that read: one more hop over the loopback and a wake-up. A bare hop in the proxy's place
//! (`hop`) has the same way and tells its own time from read to handed on, most of which is the kernel's as well, so what it adds
//! less that time is the way; way and metric together should be what is added.

use super::figures::{Rounds, mean_us, quantile_us};
use super::hop::Hop;
use super::peers::{self, Epoch};
use super::{Load, Plan, USUAL, open, proxy, window};

/// Of one round, in µs.
const CHUNK: usize = 0;
const HOP_OWN: usize = 1;
const CHUNK_HOP: usize = 2;
const CHUNK_PROXY: usize = 3;
const P50_HOP: usize = 4;
const P50_PROXY: usize = 5;
const REQUEST: usize = 6;
const FIRST_HOP: usize = 7;
const FIRST_PROXY: usize = 8;

pub async fn overhead(plan: &Plan, epoch: Epoch) {
    let (mut proxy, server) = proxy(plan, epoch, 1, 1).await;
    let mut hop = Hop::start(plan.cores, server);
    let load = Load { streams: 20, ..USUAL };
    let mut rows: Vec<[f64; 9]> = Vec::new();
    // In turn: all ways at once would wait for each other.
    for _ in 0..plan.rounds {
        let mut row = [0.0; 9];
        let (mut delays, mut firsts): ([Vec<u64>; 3], [Vec<u64>; 3]) = Default::default();
        let before = proxy.metrics().await;
        let ways = [(server, proxy.pid()), (hop.traffic, hop.pid()), (proxy.traffic, proxy.pid())];
        for (at, (to, pid)) in ways.into_iter().enumerate() {
            let (streams, seen) = open(to, load, epoch).await;
            hop.own_us();
            delays[at] = window(pid, &seen, plan.window).await.0;
            if to == hop.traffic {
                row[HOP_OWN] = hop.own_us();
            }
            drop(streams);
            let calls = peers::calls(to, 500, "organisation/model-0", epoch, &seen);
            calls.await.expect("calls");
            firsts[at] = seen.take_first_bytes();
        }
        let after = proxy.metrics().await;
        let stage = |name: &str| {
            let label = format!("stage=\"{name}\"");
            let grown = |family| after.sum(family, &label) - before.sum(family, &label);
            grown("goodput_overhead_seconds_sum") / grown("goodput_overhead_seconds_count") * 1e6
        };
        row[CHUNK] = stage("chunk");
        row[REQUEST] = stage("request");
        let p50 = |values: &[u64]| quantile_us(values, 0.5);
        row[CHUNK_HOP] = mean_us(&delays[1]) - mean_us(&delays[0]);
        row[CHUNK_PROXY] = mean_us(&delays[2]) - mean_us(&delays[0]);
        row[P50_HOP] = p50(&delays[1]) - p50(&delays[0]);
        row[P50_PROXY] = p50(&delays[2]) - p50(&delays[0]);
        row[FIRST_HOP] = mean_us(&firsts[1]) - mean_us(&firsts[0]);
        row[FIRST_PROXY] = mean_us(&firsts[2]) - mean_us(&firsts[0]);
        rows.push(row);
    }
    let of = |figure: &dyn Fn(&[f64; 9]) -> f64| rows.iter().map(figure).collect::<Rounds>().spread(1);
    println!(
        "overhead: {} streams of 20 chunks a second, then 500 calls; {}; {} rounds in turn, median [lowest..highest], µs, means unless said otherwise",
        load.streams,
        plan.cores.told(),
        plan.rounds
    );
    println!("| a chunk | |\n|---|---|");
    println!("| goodput_overhead_seconds, read to handed on | {} |", of(&|r| r[CHUNK]));
    println!(
        "| the way there: added by a bare hop, less its own time | {} |",
        of(&|r| r[CHUNK_HOP] - r[HOP_OWN])
    );
    println!("| both together | {} |", of(&|r| r[CHUNK] + r[CHUNK_HOP] - r[HOP_OWN]));
    println!("| added by the proxy at the client | {} |", of(&|r| r[CHUNK_PROXY]));
    println!(
        "| that less both: not accounted for | {} |",
        of(&|r| r[CHUNK_PROXY] - r[CHUNK] - r[CHUNK_HOP] + r[HOP_OWN])
    );
    println!("| a bare hop's own time, read to handed on | {} |", of(&|r| r[HOP_OWN]));
    println!("| added at p50: by the proxy | {} |", of(&|r| r[P50_PROXY]));
    println!("| added at p50: by a bare hop | {} |", of(&|r| r[P50_HOP]));
    println!("\n| to the first byte of a call | |\n|---|---|");
    println!(
        "| goodput_overhead_seconds, request and chunk | {} |",
        of(&|r| r[REQUEST] + r[CHUNK])
    );
    println!("| added by a bare hop | {} |", of(&|r| r[FIRST_HOP]));
    println!("| added by the proxy at the client | {} |", of(&|r| r[FIRST_PROXY]));
    println!();
    drop(hop);
    proxy.stop().await;
}
