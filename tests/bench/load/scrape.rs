//! Whether a scrape delays a chunk, or a busy proxy a probe.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use tokio::time::{interval, sleep};

use super::figures::{Rounds, quantile_us};
use super::peers::{self, Epoch, Pace, Seen};
use super::process::CpuTime;
use super::process::Proxy;
use super::{Load, Plan, USUAL, open, proxy, window};

/// Time between two scrapes: 150 times as often as usual, so that many chunks meet one.
const SCRAPE_EVERY: Duration = Duration::from_millis(100);
/// Time between two probes.
const PROBE_EVERY: Duration = Duration::from_millis(20);
/// What fills the proxy's core: each round brings more than it can read.
const FULL: Load = Load {
    streams: 64,
    pace: Pace {
        interval: Duration::from_millis(1),
        bytes: 16 << 10,
        dense: true,
    },
    ..USUAL
};
const QUANTILES: [f64; 4] = [0.5, 0.99, 0.999, 1.0];

/// A proxy that shows so many lines as the plan says: one route, as many models as it takes.
async fn filled(plan: &Plan, epoch: Epoch) -> (Proxy, usize) {
    let (proxy, _) = proxy(plan, epoch, 1, 200).await;
    let mut lines = 0;
    for i in 0..200 {
        let seen = Seen::default();
        let model = format!("organisation/model-{i}");
        peers::calls(proxy.traffic, 2, &model, epoch, &seen).await.expect("a call");
        lines = proxy.metrics().await.lines();
        if lines >= plan.lines {
            break;
        }
    }
    (proxy, lines)
}

pub async fn scrape(plan: &Plan, epoch: Epoch) {
    let (mut proxy, lines) = filled(plan, epoch).await;
    let (streams, seen) = open(proxy.traffic, USUAL, epoch).await;
    let mut rows: [Vec<[f64; 5]>; 2] = Default::default();
    let mut each = Vec::new();
    for round in 0..plan.rounds {
        let mut used = [0.0; 2];
        // Each goes first in turn, so that a drift favours neither.
        for scraping in [round % 2 == 1, round % 2 == 0] {
            let scrapes = if scraping {
                plan.window.as_millis() / SCRAPE_EVERY.as_millis()
            } else {
                0
            };
            let scraper = async {
                let mut every = interval(SCRAPE_EVERY);
                for _ in 0..scrapes {
                    every.tick().await;
                    proxy.metrics().await;
                }
            };
            let ((delays, events, cpu), ()) = tokio::join!(window(proxy.pid(), &seen, plan.window), scraper);
            let [p50, p99, p999, max] = QUANTILES.map(|q| quantile_us(&delays, q));
            used[usize::from(scraping)] = cpu as f64 / events as f64;
            rows[usize::from(scraping)].push([p50, p99, p999, max, cpu as f64 / events as f64 / 1e3]);
        }
        let events = plan.window.as_secs_f64() * f64::from(20 * USUAL.streams as u32);
        let scrapes = plan.window.as_secs_f64() / SCRAPE_EVERY.as_secs_f64();
        each.push((used[1] - used[0]) * events / scrapes / 1e6);
    }
    println!(
        "scrape: {lines} lines; {} streams of 20 chunks a second; {}; {} rounds in turn, median [lowest..highest]",
        USUAL.streams,
        plan.cores.told(),
        plan.rounds
    );
    println!("| | p50 delay, µs | p99, µs | p99.9, µs | max, µs | CPU a chunk, µs |\n|---|---|---|---|---|---|");
    for (name, rows) in ["no scrape", "a scrape every 100 ms"].iter().zip(&rows) {
        let [p50, p99, p999, max, cpu] = [0, 1, 2, 3, 4].map(|i| Rounds::column(rows, i).spread(usize::from(i == 4)));
        println!("| {name} | {p50} | {p99} | {p999} | {max} | {cpu} |");
    }
    let [p50, p99, p999, max] = [0, 1, 2, 3].map(|i| {
        let differences = rows[1].iter().zip(&rows[0]).map(|(with, without)| with[i] - without[i]);
        differences.collect::<Rounds>().spread(0)
    });
    println!("| added, round by round | {p50} | {p99} | {p999} | {max} | |");
    println!(
        "a scrape takes {} ms of CPU\n",
        each.into_iter().collect::<Rounds>().spread(1)
    );
    drop(streams);
    proxy.stop().await;
}

/// How long `/livez` takes while the data path has its core full, and while a scrape is on its way besides.
pub async fn probes(plan: &Plan, epoch: Epoch) {
    let (mut proxy, lines) = filled(plan, epoch).await;
    println!(
        "probes: /livez every {} ms, a new connection each; {lines} lines a scrape; {}",
        PROBE_EVERY.as_millis(),
        plan.cores.told()
    );
    println!("| | proxy's CPU, cores | p50, ms | p99, ms | max, ms | slowest scrape, ms |\n|---|---|---|---|---|---|");
    for (name, load, scraping) in [
        ("no traffic", None, false),
        ("no traffic, scrapes back to back", None, true),
        ("more than it can read", Some(FULL), false),
        ("more than it can read, scrapes back to back", Some(FULL), true),
    ] {
        let streams = match load {
            Some(load) => Some(open(proxy.traffic, load, epoch).await),
            None => None,
        };
        sleep(Duration::from_millis(500)).await;
        let over = AtomicBool::new(false);
        let scraper = async {
            let mut slowest = 0;
            while scraping && !over.load(Relaxed) {
                let start = epoch.now_ns();
                proxy.metrics().await;
                slowest = slowest.max(epoch.now_ns() - start);
                sleep(Duration::from_millis(1)).await;
            }
            slowest
        };
        let prober = async {
            let (mut took, mut every) = (Vec::new(), interval(PROBE_EVERY));
            let (start, cpu) = (epoch.now_ns(), CpuTime::of(proxy.pid()));
            while epoch.now_ns() - start < plan.window.as_nanos() as u64 {
                every.tick().await;
                let asked = epoch.now_ns();
                assert!(proxy.is_live().await, "/livez says no");
                took.push(epoch.now_ns() - asked);
            }
            let used = cpu.ns() as f64 / (epoch.now_ns() - start) as f64;
            over.store(true, Relaxed);
            took.sort_unstable();
            (took, used)
        };
        let ((took, used), slowest) = tokio::join!(prober, scraper);
        let [p50, p99, max] = [0.5, 0.99, 1.0].map(|q| quantile_us(&took, q) / 1e3);
        println!(
            "| {name} | {used:.2} | {p50:.2} | {p99:.2} | {max:.2} | {:.0} |",
            slowest as f64 / 1e6
        );
        drop(streams);
        sleep(Duration::from_millis(500)).await;
    }
    println!();
    proxy.stop().await;
}
