//! What the proxy costs under load: `cargo run --release --example cost -- [scrape] [probes] [curves] [knee] [overhead] [race]
//! [--proxy PATH] [--pin] [--rounds 3] [--seconds 4] [--lines 10000]`; without a word, all six.
//!
//! - *scrape*: delay of chunks with and without a scrape of `--lines` samples every 100 ms, and CPU time a scrape.
//! - *probes*: how long `/livez` takes while traffic, scrapes or both keep the proxy busy.
//! - *curves*: CPU time a chunk against streams, size, routes and models.
//! - *knee*: the same against the rate, up to the one at which chunks come late.
//! - *overhead*: `goodput_overhead_seconds` and what a bare hop adds, beside what clients see as added by the proxy.
//! - *race*: the same streams and calls through nginx and HAProxy, where they are installed.
//!
//! Everything is measured in turn, `--rounds` times, and the median is shown: a machine that is busy for a while is so for all. The
//! proxy is the program at PATH, or this one once more; with `--pin` it has a core for itself, and the load the others. A delay is
//! from an event's writing by the server to its reading by the client, both in this process.

#![allow(dead_code, unreachable_pub)] // parts of the chaos run, not all of which are used here

#[path = "../../chaos/arguments.rs"]
mod arguments;
mod cores;
mod curves;
mod figures;
mod hop;
mod overhead;
mod peers;
#[path = "../../chaos/process.rs"]
mod process;
mod race;
mod scrape;

use std::net::SocketAddr;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use arguments::Arguments;
use cores::Cores;
use peers::{Epoch, Pace, Seen};
use process::{CpuTime, Program, Proxy};
use tokio::task::JoinSet;
use tokio::time::sleep;

/// Connections opened at a time.
const OPENING: usize = 50;

/// What is run, on which cores, how long and how often.
struct Plan {
    program: Program,
    cores: Cores,
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
    readers: Readers,
}

/// Which clients read an event as soon as it is there, and tell its delay; the others look now and then.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Readers {
    AllAtOnce,
    OneInTenAtOnce,
}

fn main() -> ExitCode {
    if let [_, word, upstream] = &std::env::args().collect::<Vec<_>>()[..]
        && word == hop::WORD
    {
        return hop::main(upstream);
    }
    let arguments = match Arguments::read() {
        Ok(arguments) => arguments,
        Err(ended) => return ended,
    };
    let cores = if arguments.has("--pin") {
        Cores::pinned()
    } else {
        Cores::SHARED
    };
    let plan = Plan {
        program: cores.program(arguments.program()),
        cores,
        rounds: arguments.number("--rounds", 3) as usize,
        window: Duration::from_secs(arguments.number("--seconds", 4)),
        lines: arguments.number("--lines", 10_000) as usize,
    };
    let parts = ["scrape", "probes", "curves", "knee", "overhead", "race"];
    let all = !parts.iter().any(|part| arguments.has(part));
    let wanted = |part: &str| all || arguments.has(part);
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    runtime.block_on(async {
        let epoch = Epoch::begin();
        if wanted("scrape") {
            scrape::scrape(&plan, epoch).await;
        }
        if wanted("probes") {
            scrape::probes(&plan, epoch).await;
        }
        if wanted("curves") {
            curves::curves(&plan, epoch).await;
        }
        if wanted("knee") {
            curves::knee(&plan, epoch).await;
        }
        if wanted("overhead") {
            overhead::overhead(&plan, epoch).await;
        }
        if wanted("race") {
            race::race(&plan, epoch).await;
        }
    });
    ExitCode::SUCCESS
}

/// A proxy with `routes` routes of its own and room for `models` models on each, and its server.
async fn proxy(plan: &Plan, epoch: Epoch, routes: usize, models: usize) -> (Proxy, SocketAddr) {
    let server = peers::server(epoch).await;
    let route = |i| format!("  - {{ name: route-{i}, paths: [/{i}/v1/chat/completions], format: openai_chat }}\n");
    let routes: String = (0..routes).map(route).collect();
    let config = format!(
        "upstream: {{ url: 'http://{server}' }}\nslo: ttft=500ms,tpot=50ms,e2e=60s\nlimits: {{ max_connections: 20000 }}\n\
         labels: {{ models: {{ cap: {} }} }}\ndrain: {{ delay: off, timeout: 1s }}\nroutes:\n{routes}",
        models.max(1)
    );
    (Proxy::start(&plan.program, &config), server)
}

/// Opens the streams of `load` to `to`.
async fn open(to: SocketAddr, load: Load, epoch: Epoch) -> (JoinSet<std::io::Result<()>>, Arc<Seen>) {
    let (mut streams, seen) = (JoinSet::new(), Arc::new(Seen::default()));
    for i in 0..load.streams {
        let path = format!("/{}/v1/chat/completions", i % load.routes);
        let model = format!("organisation/model-{}", i / load.routes % load.models);
        let at_once = load.readers == Readers::AllAtOnce || i % 10 == 0;
        streams.spawn(peers::watch(to, path, model, load.pace, at_once, epoch, Arc::clone(&seen)));
        // Few streams are spread over the interval, so that their chunks do not wait for each other.
        let apart = load.pace.interval / load.streams as u32;
        if apart >= Duration::from_millis(1) {
            sleep(apart).await;
        } else if i % OPENING == OPENING - 1 {
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

/// One window's delays at the clients, events, and CPU nanoseconds of the process `pid`.
async fn window(pid: u32, seen: &Seen, length: Duration) -> (Vec<u64>, u64, u64) {
    let (events, cpu) = (seen.events.load(Relaxed), CpuTime::of(pid));
    seen.keeping.store(true, Relaxed);
    sleep(length).await;
    seen.keeping.store(false, Relaxed);
    let (events, cpu) = (seen.events.load(Relaxed) - events, cpu.ns());
    (seen.take(), events, cpu)
}

const USUAL: Load = Load {
    streams: 200,
    pace: Pace {
        interval: Duration::from_millis(50),
        bytes: 250,
        dense: false,
    },
    routes: 1,
    models: 1,
    readers: Readers::AllAtOnce,
};
