//! What the proxy costs under load: `cargo run --release --example cost -- [scrape] [curves] [overhead] [race]
//! [--proxy PATH] [--rounds 3] [--seconds 4] [--lines 10000]`; without a word, all four.
//!
//! - *scrape*: delay of chunks with and without a scrape of `--lines` samples every 100 ms, and CPU time a scrape.
//! - *curves*: CPU time a chunk against streams, rate, size, routes and models.
//! - *overhead*: `goodput_overhead_seconds` beside what clients see as added by the proxy.
//! - *race*: the same streams and calls through nginx and HAProxy, where they are installed.
//!
//! Everything is measured in turn, `--rounds` times, and the median is shown: a machine that is busy for a while is so for all. The
//! proxy is the program at PATH, or this one once more. A delay is from an event's writing by the server to its reading by the
//! client, both in this process.

#![allow(dead_code, unreachable_pub)] // parts of the chaos run, not all of which are used here

#[path = "../../chaos/arguments.rs"]
mod arguments;
mod peers;
#[path = "../../chaos/process.rs"]
mod process;
mod race;

use std::net::SocketAddr;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use arguments::Arguments;
use peers::{Epoch, Pace, Seen};
use process::{Program, Proxy, cpu_ns};
use tokio::task::JoinSet;
use tokio::time::{interval, sleep};

/// Connections opened at a time.
const OPENING: usize = 50;

/// How long and how often.
#[derive(Clone, Copy)]
struct Plan {
    rounds: usize,
    window: Duration,
    lines: usize,
}

/// Streams over so many routes and models.
#[derive(Clone, Copy)]
struct Load {
    streams: usize,
    pace: Pace,
    routes: usize,
    models: usize,
}

fn main() -> ExitCode {
    let arguments = match Arguments::read() {
        Ok(arguments) => arguments,
        Err(ended) => return ended,
    };
    let plan = Plan {
        rounds: arguments.number("--rounds", 3) as usize,
        window: Duration::from_secs(arguments.number("--seconds", 4)),
        lines: arguments.number("--lines", 10_000) as usize,
    };
    let program = arguments.program();
    let parts = ["scrape", "curves", "overhead", "race"];
    let all = !parts.iter().any(|part| arguments.has(part));
    let wanted = |part: &str| all || arguments.has(part);
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    runtime.block_on(async {
        let epoch = Epoch::begin();
        if wanted("scrape") {
            scrape(&program, plan, epoch).await;
        }
        if wanted("curves") {
            curves(&program, plan, epoch).await;
        }
        if wanted("overhead") {
            overhead(&program, plan, epoch).await;
        }
        if wanted("race") {
            race::race(&program, plan, epoch).await;
        }
    });
    ExitCode::SUCCESS
}

/// A proxy with `routes` routes of its own and room for `models` models on each, and its server.
async fn proxy(program: &Program, epoch: Epoch, routes: usize, models: usize) -> (Proxy, SocketAddr) {
    let server = peers::server(epoch).await;
    let route = |i| format!("  - {{ name: route-{i}, paths: [/{i}/v1/chat/completions], format: openai_chat }}\n");
    let routes: String = (0..routes).map(route).collect();
    let config = format!(
        "upstream: {{ url: 'http://{server}' }}\nslo: ttft=500ms,tpot=50ms,e2e=60s\nlimits: {{ max_connections: 20000 }}\n\
         labels: {{ models: {{ cap: {} }} }}\ndrain: {{ delay: off, timeout: 1s }}\nroutes:\n{routes}",
        models.max(1)
    );
    (Proxy::start(program, &config), server)
}

/// Opens the streams of `load` to `to`.
async fn open(to: SocketAddr, load: Load, epoch: Epoch) -> (JoinSet<std::io::Result<()>>, Arc<Seen>) {
    let (mut streams, seen) = (JoinSet::new(), Arc::new(Seen::default()));
    for i in 0..load.streams {
        let path = format!("/{}/v1/chat/completions", i % load.routes);
        let model = format!("organisation/model-{}", i / load.routes % load.models);
        streams.spawn(peers::watch(to, path, model, load.pace, epoch, Arc::clone(&seen)));
        if i % OPENING == OPENING - 1 {
            sleep(Duration::from_millis(10)).await;
        }
    }
    // Until each has had its first event.
    while (seen.events.load(Relaxed) as usize) < load.streams {
        sleep(Duration::from_millis(10)).await;
        assert!(streams.try_join_next().is_none(), "a stream ended");
    }
    (streams, seen)
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

/// A quantile of sorted nanoseconds, in microseconds.
fn quantile_us(sorted: &[u64], q: f64) -> f64 {
    let at = (sorted.len() as f64 * q).ceil() as usize;
    sorted.get(at.max(1) - 1).map_or(f64::NAN, |n| *n as f64 / 1e3)
}

fn mean_us(values: &[u64]) -> f64 {
    values.iter().sum::<u64>() as f64 / values.len() as f64 / 1e3
}

/// One window's delays at the clients, events, and CPU nanoseconds of the process `pid`.
async fn window(pid: u32, seen: &Seen, length: Duration) -> (Vec<u64>, u64, u64) {
    let (events, cpu) = (seen.events.load(Relaxed), cpu_ns(pid));
    seen.keeping.store(true, Relaxed);
    sleep(length).await;
    seen.keeping.store(false, Relaxed);
    let (events, cpu) = (seen.events.load(Relaxed) - events, cpu_ns(pid) - cpu);
    (seen.take(), events, cpu)
}

const USUAL: Load = Load {
    streams: 200,
    pace: Pace {
        interval: Duration::from_millis(50),
        bytes: 250,
    },
    routes: 1,
    models: 1,
};

async fn scrape(program: &Program, plan: Plan, epoch: Epoch) {
    // One route; as many models as it takes.
    let (mut proxy, _) = proxy(program, epoch, 1, 200).await;
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
    let (streams, seen) = open(proxy.traffic, USUAL, epoch).await;
    println!("scrape: {lines} lines; {} streams of 20 chunks a second", USUAL.streams);
    let mut rows: [Vec<[f64; 4]>; 2] = Default::default();
    let mut each = Vec::new();
    for _ in 0..plan.rounds {
        let mut used = [0.0; 2];
        for scraping in [false, true] {
            let scrapes = if scraping { plan.window.as_millis() / 100 } else { 0 };
            let scraper = async {
                let mut every = interval(Duration::from_millis(100));
                for _ in 0..scrapes {
                    every.tick().await;
                    proxy.metrics().await;
                }
            };
            let ((delays, events, cpu), ()) = tokio::join!(window(proxy.pid(), &seen, plan.window), scraper);
            let [p50, p99, max] = [0.5, 0.99, 1.0].map(|q| quantile_us(&delays, q));
            used[usize::from(scraping)] = cpu as f64 / events as f64;
            rows[usize::from(scraping)].push([p50, p99, max, cpu as f64 / events as f64 / 1e3]);
            if scraping {
                each.push((used[1] - used[0]) * events as f64 / scrapes as f64 / 1e6);
            }
        }
    }
    println!("| | p50 delay, µs | p99, µs | max, µs | CPU a chunk, µs |\n|---|---|---|---|---|");
    for (name, rows) in ["no scrape", "a scrape every 100 ms"].iter().zip(&rows) {
        let [p50, p99, max, cpu] = [0, 1, 2, 3].map(|i| median(rows.iter().map(|row| row[i]).collect()));
        println!("| {name} | {p50:.0} | {p99:.0} | {max:.0} | {cpu:.1} |");
    }
    println!("a scrape takes {:.1} ms of CPU\n", median(each));
    drop(streams);
    proxy.stop().await;
}

async fn curves(program: &Program, plan: Plan, epoch: Epoch) {
    let mut points: Vec<(String, Load)> = Vec::new();
    for streams in [20, 100, 400, 1000, 2000] {
        // The same chunks a second over more streams.
        let pace = Pace {
            interval: Duration::from_micros(streams as u64 * 500),
            ..USUAL.pace
        };
        points.push((format!("{streams} streams"), Load { streams, pace, ..USUAL }));
    }
    for (rate, micros) in [(5, 200_000), (10, 100_000), (20, 50_000), (40, 25_000), (80, 12_500)] {
        let pace = Pace {
            interval: Duration::from_micros(micros),
            ..USUAL.pace
        };
        points.push((format!("{rate} a second and stream"), Load { pace, ..USUAL }));
    }
    for bytes in [250, 1 << 10, 4 << 10, 16 << 10, 64 << 10] {
        let pace = Pace {
            interval: Duration::from_millis(200),
            bytes,
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
            let (mut proxy, _) = proxy(program, epoch, load.routes, load.models).await;
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
        "curves: {} streams, 20 chunks of 250 bytes a second, unless said otherwise",
        USUAL.streams
    );
    println!("| | chunks a second | CPU a chunk, µs | p50 delay, µs | p99, µs | memory, MiB |\n|---|---|---|---|---|---|");
    for ((name, _), rows) in points.iter().zip(&rows) {
        let [rate, cpu, p50, p99, rss] = [0, 1, 2, 3, 4].map(|i| median(rows.iter().map(|row| row[i]).collect()));
        println!("| {name} | {rate:.0} | {cpu:.1} | {p50:.0} | {p99:.0} | {rss:.1} |");
    }
    println!();
}

async fn overhead(program: &Program, plan: Plan, epoch: Epoch) {
    let (mut proxy, server) = proxy(program, epoch, 1, 1).await;
    let load = Load { streams: 20, ..USUAL };
    let mut rows: Vec<[f64; 6]> = Vec::new();
    // In turn: both ways at once would wait for each other.
    for _ in 0..plan.rounds {
        let mut delays = [Vec::new(), Vec::new()];
        let mut firsts = [Vec::new(), Vec::new()];
        let before = proxy.metrics().await;
        for (at, to) in [server, proxy.traffic].into_iter().enumerate() {
            let (streams, seen) = open(to, load, epoch).await;
            delays[at] = window(proxy.pid(), &seen, plan.window).await.0;
            drop(streams);
            peers::calls(to, 500, "organisation/model-0", epoch, &seen)
                .await
                .expect("calls");
            firsts[at] = seen.take_first_bytes();
        }
        let after = proxy.metrics().await;
        let stage = |name: &str| {
            let label = format!("stage=\"{name}\"");
            let grown = |family| after.sum(family, &label) - before.sum(family, &label);
            grown("goodput_overhead_seconds_sum") / grown("goodput_overhead_seconds_count") * 1e6
        };
        rows.push([
            stage("chunk"),
            mean_us(&delays[1]) - mean_us(&delays[0]),
            quantile_us(&delays[1], 0.5) - quantile_us(&delays[0], 0.5),
            stage("request"),
            mean_us(&firsts[1]) - mean_us(&firsts[0]),
            quantile_us(&firsts[1], 0.5) - quantile_us(&firsts[0], 0.5),
        ]);
    }
    let [chunk, mean, p50, request, first_mean, first_p50] =
        [0, 1, 2, 3, 4, 5].map(|i| median(rows.iter().map(|row| row[i]).collect()));
    println!(
        "overhead: {} streams of 20 chunks a second, then 500 calls; proxied minus direct",
        load.streams
    );
    println!("| | goodput_overhead_seconds, mean, µs | added at the client: mean, µs | p50, µs |\n|---|---|---|---|");
    println!("| a chunk | {chunk:.1} | {mean:.1} | {p50:.1} |");
    println!(
        "| to the first byte of a call (request and chunk) | {request:.1} + {chunk:.1} | {first_mean:.1} | {first_p50:.1} |"
    );
    println!("What is added at the client holds the kernel's part, too: two more hops over the loopback and a wake-up.");
    proxy.stop().await;
}
