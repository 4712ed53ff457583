//! The demo: a simulated engine and open-loop traffic around the real proxy, nothing else needed and nothing else contacted.
//!
//! ```text
//! plan (seed) -> traffic -> proxy (App) -> engine (batch model)
//!                             `-> progress, summary: the proxy's own numbers
//! ```
//!
//! The seed decides which requests are sent and what goes wrong with them; latencies are those of this machine at that moment.

mod batch;
mod engine;
mod plan;
mod progress;
mod random;
mod reply;
mod summary;
mod traffic;

use std::net::SocketAddr;
use std::sync::{Arc, PoisonError, atomic::Ordering};
use std::time::Duration;
use std::{fmt, io, thread};

use tokio::sync::watch;

use crate::app::{App, AppError};
use crate::clock;
use crate::config::{Config, Target};
use crate::lifecycle::Shutdown;
use crate::measure::Bounds;
use crate::observe::{Observer, Summary};

use engine::Engine;
use plan::Plan;
use summary::{Facts, Finished};
use traffic::Shared;

/// Most requests a second.
pub const MAX_RATE: f64 = 500.0;
/// Longest run.
pub const MAX_LENGTH: Duration = Duration::from_secs(3600);
/// How long the proxy may take to come to an end.
const DRAIN: Duration = Duration::from_secs(2);

/// What to run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Options {
    /// For how long requests are sent; at most [`MAX_LENGTH`].
    pub length: Duration,
    /// Requests a second on average, in (0, [`MAX_RATE`]].
    pub rate: f64,
    /// Names the requests.
    pub seed: u64,
    /// Share of the engine's steps that a long prefill slows down, 0 to 1.
    pub spike: f64,
    /// Take a free port for traffic when the configured one is taken.
    pub any_listen: bool,
    /// The same for metrics and probes.
    pub any_admin: bool,
}

/// Why there was no demo.
#[derive(Debug)]
pub enum DemoError {
    /// The proxy could not run.
    App(AppError),
    /// Neither engine nor runtime.
    Io(io::Error),
}

impl fmt::Display for DemoError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::App(error) => error.fmt(f),
            Self::Io(error) => write!(f, "the demo engine cannot start: {error}"),
        }
    }
}

impl std::error::Error for DemoError {}

/// What a run came to.
#[derive(Debug)]
pub struct Outcome {
    /// The summary, for people.
    pub text: String,
    /// Requests that the clients sent.
    pub sent: u64,
    /// Requests that the proxy recorded.
    pub recorded: u64,
    /// Requests that the engine received.
    pub received: u64,
}

/// Runs the demo with `config`'s addresses and SLOs; `stop` ends it early. `say` takes the lines that come before the end.
///
/// # Errors
/// When addresses, threads or runtimes cannot be had.
pub fn run(config: Config, options: Options, stop: watch::Receiver<bool>, say: impl Fn(&str)) -> Result<Outcome, DemoError> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(DemoError::Io)?;
    runtime.block_on(async {
        let engine = Engine::start(options.seed, options.spike).await.map_err(DemoError::Io)?;
        // The command line's SLO is every LLM route's only one.
        let bounds = config
            .routes
            .iter()
            .flat_map(|r| &r.slos)
            .map(|s| s.bounds)
            .next()
            .unwrap_or_default();
        let (app, notes) = build(with_engine(config, &engine, options), options).map_err(DemoError::App)?;
        notes.iter().for_each(|note| say(note));
        let (traffic, admin, observer) = (app.traffic_address(), app.admin_address(), app.observer());
        say(&format!("clients -> proxy {traffic} -> engine {}", engine.address));
        say(&format!(
            "metrics: http://{admin}/metrics   requests: http://{admin}/requests"
        ));
        let shutdown = Shutdown::new();
        let proxy = {
            let shutdown = shutdown.clone();
            thread::Builder::new()
                .name("demo-proxy".to_owned())
                .spawn(move || app.run(shutdown))
                .map_err(DemoError::Io)?
        };
        let tally = Shared::default();
        let start = clock::now();
        let plan = Plan::new(options.seed, options.rate);
        tokio::select! {
            () = traffic::run(plan, options.length, traffic, Arc::clone(&tally), stop) => {}
            () = progress::show(Arc::clone(&observer), options.length) => {}
        }
        progress::clear();
        let took = Duration::from_nanos(clock::now().since(start));
        shutdown.signal();
        let ended = tokio::task::spawn_blocking(move || proxy.join()).await;
        if let Ok(Ok(Err(error))) = ended {
            return Err(DemoError::App(error));
        }
        let tally = *tally.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(outcome(
            &observer,
            bounds,
            took,
            tally,
            engine.received.load(Ordering::Relaxed),
        ))
    })
}

/// `config` in front of `engine`, remembering every request of the run.
fn with_engine(mut config: Config, engine: &Engine, options: Options) -> Config {
    config.upstream.target = Target::Tcp {
        host: engine.address.ip().to_string(),
        port: engine.address.port(),
    };
    config.drain.delay = Duration::ZERO;
    config.drain.timeout = DRAIN;
    let expected = options.rate * options.length.as_secs_f64();
    config.requests_kept = (expected * 1.5) as usize + 1000;
    config
}

/// Binds the proxy; each taken port is replaced by a free one where that is allowed, and noted.
fn build(mut config: Config, options: Options) -> Result<(App, Vec<String>), AppError> {
    let mut notes = Vec::new();
    loop {
        match App::build(config.clone()) {
            Err(AppError::Bind { key, address, source }) if address.port() != 0 => {
                let (any, place) = match key {
                    "admin" => (options.any_admin, &mut config.admin),
                    _ => (options.any_listen, &mut config.listen),
                };
                if !any {
                    return Err(AppError::Bind { key, address, source });
                }
                notes.push(format!("{address} cannot be had ({source}): {key} takes a free port instead"));
                *place = SocketAddr::new(address.ip(), 0);
            }
            other => return other.map(|app| (app, notes)),
        }
    }
}

fn outcome(observer: &Observer, bounds: Bounds, took: Duration, tally: traffic::Tally, received: u64) -> Outcome {
    let snapshot = observer.snapshot(clock::now());
    let finished: Vec<Finished> = observer.recent(usize::MAX).iter().map(|s| finished(s)).collect();
    let facts = Facts {
        snapshot: &snapshot,
        finished: &finished,
        bounds,
        took,
        tally,
        received,
    };
    Outcome {
        text: summary::render(&facts),
        sent: tally.sent,
        recorded: summary::outcomes(&snapshot).iter().map(|(_, n)| n).sum(),
        received,
    }
}

fn finished(summary: &Summary) -> Finished {
    Finished {
        tpot_ms: summary.tpot_ms,
        evaluated: matches!(summary.verdict, Some("good" | "bad")),
        ok: summary.outcome == crate::measure::Outcome::Ok.name(),
        broken: summary.broken.clone(),
    }
}
