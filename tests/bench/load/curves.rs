//! CPU a chunk against what there is more of, and the rate at which the proxy no longer keeps up.

use std::time::Duration;

use tokio::time::sleep;

use super::figures::{Rounds, quantile_us};
use super::peers::{self, Epoch, Pace};
use super::process::CpuTime;
use super::{Load, Plan, Readers, USUAL, open, proxy, window};

/// Chunks a second in all, until the knee is passed.
const RATES: [u64; 12] = [
    1_000, 2_000, 4_000, 8_000, 16_000, 24_000, 32_000, 48_000, 64_000, 96_000, 128_000, 192_000,
];
const KNEE_STREAMS: usize = 400;
/// Past the knee the p99 of a chunk's delay is so many times that at the lowest rate,
const DELAYED: f64 = 20.0;
/// or less than this share of what was written has arrived.
const DELIVERED: f64 = 0.98;
/// The load program is at its own limit when it writes less than this share of what it should.
const WRITTEN: f64 = 0.95;

pub async fn curves(plan: &Plan, epoch: Epoch) {
    let mut points: Vec<(String, Load)> = Vec::new();
    for streams in [20, 100, 400, 1000, 2000] {
        // The same chunks a second over more streams.
        let pace = Pace {
            interval: Duration::from_micros(streams as u64 * 500),
            ..USUAL.pace
        };
        points.push((format!("{streams} streams"), Load { streams, pace, ..USUAL }));
    }
    for bytes in [250, 1 << 10, 4 << 10, 16 << 10, 64 << 10] {
        let pace = Pace {
            interval: Duration::from_millis(200),
            bytes,
            ..USUAL.pace
        };
        points.push((format!("{bytes} bytes"), Load { pace, ..USUAL }));
    }
    for routes in [1, 10, 50] {
        points.push((format!("{routes} routes"), Load { routes, ..USUAL }));
    }
    for models in [1, 10, 100] {
        points.push((format!("{models} models"), Load { models, ..USUAL }));
    }
    let mut rows: Vec<Vec<[f64; 5]>> = vec![Vec::new(); points.len()];
    for _ in 0..plan.rounds {
        for ((_, load), rows) in points.iter().zip(&mut rows) {
            let (mut proxy, _) = proxy(plan, epoch, load.routes, load.models).await;
            let (streams, seen) = open(proxy.traffic, *load, epoch).await;
            sleep(Duration::from_millis(500)).await;
            let (delays, events, cpu) = window(proxy.pid(), &seen, plan.window).await;
            rows.push([
                events as f64 / plan.window.as_secs_f64(),
                cpu as f64 / events as f64 / 1e3,
                quantile_us(&delays, 0.5),
                quantile_us(&delays, 0.99),
                proxy.usage().rss_kib as f64 / 1024.0,
            ]);
            drop(streams);
            proxy.stop().await;
        }
    }
    println!(
        "curves: {} streams, 20 chunks of 250 bytes a second, unless said otherwise; {}",
        USUAL.streams,
        plan.cores.told()
    );
    println!("| | chunks a second | CPU a chunk, µs | p50 delay, µs | p99, µs | memory, MiB |\n|---|---|---|---|---|---|");
    for ((name, _), rows) in points.iter().zip(&rows) {
        let [rate, cpu, p50, p99, rss] = [0, 1, 2, 3, 4].map(|i| Rounds::column(rows, i).median());
        println!("| {name} | {rate:.0} | {cpu:.1} | {p50:.0} | {p99:.0} | {rss:.1} |");
    }
    println!();
}

/// Why a round went no further.
enum End {
    /// What was within bounds before this rate.
    Knee,
    /// The load program wrote less than it should.
    Load,
    /// There is no higher rate.
    List,
}

/// More chunks a second over the same streams, until they come late or not at all. Nine clients of ten only look now and then, so that
/// the load program spends less a chunk than the proxy; the others tell the delay.
pub async fn knee(plan: &Plan, epoch: Epoch) {
    let mut rows: Vec<Vec<[f64; 7]>> = vec![Vec::new(); RATES.len()];
    let mut ends = Vec::new();
    for _ in 0..plan.rounds {
        let mut light = f64::NAN;
        let mut end = (RATES[RATES.len() - 1], End::List);
        for (at, rate) in RATES.into_iter().enumerate() {
            let row = at_rate(plan, epoch, rate).await;
            rows[at].push(row);
            let [_, written, delivered, _, p99, _, _] = row;
            if at == 0 {
                // What the others are held against.
                light = p99;
                continue;
            }
            let before = RATES[at - 1];
            if written < WRITTEN * rate as f64 {
                end = (before, End::Load);
                break;
            }
            if delivered < DELIVERED * written || p99 > DELAYED * light {
                end = (before, End::Knee);
                break;
            }
        }
        ends.push(end);
    }
    println!(
        "knee: {KNEE_STREAMS} streams of {} bytes a chunk; {}; {} rounds, medians",
        USUAL.pace.bytes,
        plan.cores.told(),
        plan.rounds
    );
    println!(
        "| asked for a second | written | delivered | p50 delay, µs | p99, µs | CPU a chunk, µs | cores: proxy | load |\n\
         |---|---|---|---|---|---|---|---|"
    );
    for (rate, rows) in RATES.iter().zip(&rows).filter(|(_, rows)| !rows.is_empty()) {
        let [cpu, written, delivered, p50, p99, ours, load] = [0, 1, 2, 3, 4, 5, 6].map(|i| Rounds::column(rows, i).median());
        println!("| {rate} | {written:.0} | {delivered:.0} | {p50:.0} | {p99:.0} | {cpu:.1} | {ours:.2} | {load:.2} |");
    }
    for (round, (rate, end)) in ends.into_iter().enumerate() {
        print!("round {}: ", round + 1);
        match end {
            End::Knee => println!(
                "the knee: {rate} chunks a second were the most that arrived ({DELIVERED} of them) with a p99 below {DELAYED} times that of {}",
                RATES[0]
            ),
            End::Load => println!("no knee up to {rate} chunks a second: the load program cannot write more"),
            End::List => println!("no knee up to {rate} chunks a second, the last rate tried"),
        }
    }
    println!();
}

/// CPU a chunk in µs, chunks written and delivered a second, p50 and p99 in µs, cores used by the proxy and by the load program.
async fn at_rate(plan: &Plan, epoch: Epoch, rate: u64) -> [f64; 7] {
    let load = Load {
        streams: KNEE_STREAMS,
        pace: Pace {
            interval: Duration::from_micros(KNEE_STREAMS as u64 * 1_000_000 / rate),
            ..USUAL.pace
        },
        readers: Readers::OneInTenAtOnce,
        ..USUAL
    };
    let (mut proxy, _) = proxy(plan, epoch, 1, 1).await;
    let (streams, seen) = open(proxy.traffic, load, epoch).await;
    sleep(Duration::from_millis(500)).await;
    let own = std::process::id();
    let (written, load_cpu, start) = (peers::written(), CpuTime::of(own), epoch.now_ns());
    let (delays, events, cpu) = window(proxy.pid(), &seen, plan.window).await;
    let ns = (epoch.now_ns() - start) as f64;
    let row = [
        cpu as f64 / events as f64 / 1e3,
        (peers::written() - written) as f64 / ns * 1e9,
        events as f64 / ns * 1e9,
        quantile_us(&delays, 0.5),
        quantile_us(&delays, 0.99),
        cpu as f64 / ns,
        load_cpu.ns() as f64 / ns,
    ];
    drop(streams);
    proxy.stop().await;
    row
}
