//! The whole proxy: both listeners, two runtimes, and the order of its end. The only file that sees everything.
//!
//! Traffic runs on its own runtime (on the calling thread when `workers` is 1); admin, ticker and drain on another thread and
//! runtime, so that a scrape never delays a chunk nor a busy stream a probe; where they share one core, by [`Rank`]. The admin port
//! is the first to answer and the last to close.

mod error;

use std::future::Future;
use std::net::{SocketAddr, TcpListener};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;
use std::{io, thread};

use rustls::pki_types::ServerName;
use socket2::{Domain, Protocol, Socket, Type};
use tokio::runtime::{self, Runtime};
use tokio::sync::oneshot;
use tokio::time::{MissedTickBehavior, interval, sleep, timeout};

use crate::admin::{self, AdminState};
use crate::aggregate::Snapshot;
use crate::background::Rank;
use crate::clock;
use crate::config::{Config, Readiness};
use crate::expose::{Configured, ProxyStats};
use crate::lifecycle::{self, Exit, Lifecycle, Phase, Shutdown, UnderWay};
use crate::material::Material;
use crate::measure::{Bound, Slo};
use crate::observe::Observer;
use crate::proxy::counters::Counters;
use crate::proxy::upstream::{Connector, Upstream};
use crate::proxy::{Proxy, accept};
use crate::reload::{Current, Origin, Reloader};

pub use error::AppError;

/// Connections that the kernel holds for us while we are at `limits.max_connections` (it may allow fewer).
const BACKLOG: i32 = 4096;

/// After the cut, connections have this long to record what they cut.
const CUT_PATIENCE: Duration = Duration::from_secs(1);

/// What admin replies are on their way at the end (that of `/drain`, a last scrape) have this long.
const LAST_REPLIES: Duration = Duration::from_millis(100);

/// A proxy with its addresses bound.
#[derive(Debug)]
pub struct App {
    config: Config,
    traffic: TcpListener,
    traffic_address: SocketAddr,
    admin: TcpListener,
    admin_address: SocketAddr,
    lifecycle: Lifecycle,
    observer: Arc<Observer>,
    origin: Option<Origin>,
    material: Material,
}

impl App {
    /// Binds both addresses; nothing is served yet.
    ///
    /// # Errors
    /// When one of them cannot be bound.
    pub fn build(config: Config) -> Result<Self, AppError> {
        let material = Material::load(&config).map_err(AppError::Files)?;
        let (traffic, traffic_address) = bind("listen", config.listen)?;
        let (admin, admin_address) = bind("admin", config.admin)?;
        let lifecycle = Lifecycle::new();
        Ok(Self {
            observer: Observer::new(&config, lifecycle.watch()),
            lifecycle,
            config,
            traffic,
            traffic_address,
            admin,
            admin_address,
            origin: None,
            material,
        })
    }

    /// Takes new configurations from `origin` while it runs.
    pub fn reloading(mut self, origin: Origin) -> Self {
        self.origin = Some(origin);
        self
    }

    /// Where clients connect to.
    pub const fn traffic_address(&self) -> SocketAddr {
        self.traffic_address
    }

    /// Where metrics and probes are.
    pub const fn admin_address(&self) -> SocketAddr {
        self.admin_address
    }

    /// What will have been measured, for whoever runs the proxy within a program.
    pub fn observer(&self) -> Arc<Observer> {
        Arc::clone(&self.observer)
    }

    /// Serves until `shutdown` asks for the end and the drain is through.
    ///
    /// # Errors
    /// When threads or runtimes cannot be had.
    pub fn run(self, shutdown: Shutdown) -> Result<Exit, AppError> {
        let traffic_runtime = traffic_runtime(self.config.workers).map_err(AppError::Runtime)?;
        let workers = self.config.workers;
        let admin_runtime = runtime::Builder::new_current_thread()
            .enable_all()
            .thread_name("scrape")
            .on_thread_start(move || Rank::Last.beside(workers).take())
            .build()
            .map_err(AppError::Runtime)?;
        self.announce();
        lifecycle::descriptors::provide(self.config.limits.max_connections);

        let parts = Arc::new(Parts {
            observer: self.observer,
            counters: Arc::new(Counters::default()),
            under_way: UnderWay::default(),
            current: Arc::new(Current::new(self.config)),
            shutdown,
            lifecycle: self.lifecycle,
            material: self.material,
        });
        let (traffic_ended, until_traffic_ended) = oneshot::channel::<()>();
        let (admin_lives, admin_ended) = oneshot::channel::<()>();
        let admin = {
            let (parts, listener, origin) = (Arc::clone(&parts), self.admin, self.origin);
            let work = move || {
                let _lives = admin_lives;
                Rank::Below.beside(workers).take();
                admin_runtime.block_on(admin_side(parts, listener, origin, until_traffic_ended))
            };
            thread::Builder::new()
                .name("admin".to_owned())
                .spawn(work)
                .map_err(AppError::Runtime)?
        };

        let served = traffic_runtime.block_on(traffic_side(parts, self.traffic, admin_ended));
        traffic_runtime.shutdown_background();
        drop(traffic_ended);
        served?;
        admin.join().map_err(|_| AppError::AdminEnded)?
    }

    fn announce(&self) {
        tracing::info!(
            listen = %self.traffic_address,
            admin = %self.admin_address,
            upstream = %self.config.upstream.url(),
            workers = self.config.workers,
            profile = %self.config.profile,
            version = env!("CARGO_PKG_VERSION"),
            "goodput-proxy starts"
        );
        let mut judged = 0;
        for route in &self.config.routes {
            for slo in &route.slos {
                judged += 1;
                tracing::info!(route = %route.name, slo = %slo.name, bounds = %bounds(slo), objective = slo.objective, "SLO");
            }
        }
        if judged == 0 {
            tracing::info!("no SLO is configured: requests are measured but not judged (see --slo)");
        }
    }
}

/// What both sides share.
struct Parts {
    current: Arc<Current>,
    lifecycle: Lifecycle,
    shutdown: Shutdown,
    under_way: UnderWay,
    observer: Arc<Observer>,
    counters: Arc<Counters>,
    material: Material,
}

async fn traffic_side(parts: Arc<Parts>, listener: TcpListener, admin_ended: oneshot::Receiver<()>) -> Result<(), AppError> {
    let listener = tokio::net::TcpListener::from_std(listener).map_err(AppError::Runtime)?;
    let config = parts.current.config();
    let proxy = Proxy::new(
        &config,
        Arc::clone(&parts.observer),
        upstream(&config, &parts.material),
        parts.lifecycle.watch(),
        parts.under_way.clone(),
        Arc::clone(&parts.counters),
    );
    let mut phase = parts.lifecycle.watch();
    let serving = async {
        parts.lifecycle.advance(Phase::Ready);
        accept(listener, proxy, parts.material.clients.clone()).await;
        phase.reached(Phase::Stopped).await;
        // Cut connections end by themselves, each with its record.
        let _ = timeout(CUT_PATIENCE, parts.under_way.connections.empty()).await;
    };
    tokio::select! {
        () = serving => Ok(()),
        _ = admin_ended => Err(AppError::AdminEnded),
    }
}

async fn admin_side(
    parts: Arc<Parts>,
    listener: TcpListener,
    origin: Option<Origin>,
    traffic_ended: oneshot::Receiver<()>,
) -> Result<Exit, AppError> {
    let listener = tokio::net::TcpListener::from_std(listener).map_err(AppError::Runtime)?;
    let config = parts.current.config();
    let configured = Configured::new(&config);
    let state = AdminState::new(
        Arc::clone(&parts) as Arc<dyn admin::Source>,
        configured,
        parts.lifecycle.watch(),
    );
    let state = match &parts.material.token {
        Some(token) => state.guarded(Arc::clone(token), config.admin_auth.metrics),
        None => state,
    };
    let state = match config.readiness {
        Readiness::Own => state,
        // Of TCP only, or the Unix socket: a handshake would be load, and its failure is seen in the traffic.
        Readiness::Upstream => state.ready_with(Connector::to(&config.upstream.target)),
    };
    let _reloads = if let Some(origin) = origin {
        let state = state.clone();
        let reloader = Reloader {
            origin,
            current: Arc::clone(&parts.current),
            observer: Arc::clone(&parts.observer),
            mounted: parts.material.watched(),
            taken: Box::new(move |config| state.reconfigure(Configured::new(config))),
        };
        Some(reloader.start().map_err(AppError::Runtime)?)
    } else {
        None
    };
    tokio::spawn(admin::serve(listener, state, parts.material.admin.clone()));
    tokio::spawn(tick(Arc::clone(&parts.observer)));
    let Parts {
        lifecycle,
        shutdown,
        under_way,
        ..
    } = &*parts;
    let exit = lifecycle::run(lifecycle.clone(), shutdown.clone(), under_way.clone(), config.drain).await;
    // Resolves with an error, when the other end is dropped.
    let _ = traffic_ended.await;
    sleep(LAST_REPLIES).await;
    match exit {
        Exit::Clean => tracing::info!("stopped, nothing was cut"),
        Exit::Deadline(cut) => tracing::warn!(cut, "stopped at the drain deadline"),
        Exit::Interrupted(cut) => tracing::warn!(cut, "stopped at once by a second signal"),
    }
    Ok(exit)
}

/// The upstream over connections as configured.
fn upstream(config: &Config, material: &Material) -> Upstream {
    let connector = Connector::to(&config.upstream.target);
    let connector = match (&config.upstream.tls, &material.upstream) {
        (Some(tls), Some(settings)) => match ServerName::try_from(tls.server_name.clone()) {
            Ok(name) => connector.over_tls(Arc::clone(settings), name),
            // invariant: the check accepts names of servers only.
            Err(_) => unreachable!("a checked name"),
        },
        _ => connector,
    };
    Upstream::with_connector(&config.upstream, connector)
}

async fn tick(observer: Arc<Observer>) {
    let mut ticks = interval(observer.tick_every());
    ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
    loop {
        ticks.tick().await;
        observer.tick(clock::now());
    }
}

impl admin::Source for Parts {
    fn snapshot(&self) -> Snapshot {
        self.observer.snapshot(clock::now())
    }

    fn requests(&self) -> String {
        self.observer.requests()
    }

    fn config(&self) -> String {
        self.current.config().effective().to_string()
    }

    fn stats(&self) -> ProxyStats {
        let mut stats = proxy_stats(&self.counters, &self.under_way);
        self.current.add_to(&mut stats);
        stats
    }

    fn drain(&self) -> Pin<Box<dyn Future<Output = usize> + Send>> {
        let (shutdown, phase, under_way) = (self.shutdown.clone(), self.lifecycle.watch(), self.under_way.clone());
        let drain = self.current.config().drain;
        Box::pin(async move { shutdown.drained(phase, &under_way, drain).await })
    }
}

/// The data path's counters as a scrape sees them.
pub fn proxy_stats(counters: &Counters, under_way: &UnderWay) -> ProxyStats {
    ProxyStats {
        connections_open: under_way.connections.count() as u64,
        connections: counters.connections.get(),
        accept_errors: counters.accept_errors.get(),
        tls_handshake_errors: counters.tls_handshake_errors.get(),
        header_timeouts: counters.header_timeouts.get(),
        heads_malformed: counters.heads_malformed.get(),
        heads_too_large: counters.heads_too_large.get(),
        informational_dropped: counters.informational_dropped.get(),
        upgrades: counters.upgrades.get(),
        upstream_attempts: counters.upstream_attempts.get(),
        upstream_connects: counters.upstream_connects.get(),
        upstream_connect_errors: counters.upstream_connect_errors.get(),
        overhead_request: Some(counters.overhead_request.snapshot()),
        overhead_chunk: Some(counters.overhead_chunk.snapshot()),
        ..ProxyStats::default()
    }
}

fn traffic_runtime(workers: usize) -> io::Result<Runtime> {
    if workers <= 1 {
        return runtime::Builder::new_current_thread().enable_all().build();
    }
    runtime::Builder::new_multi_thread()
        .worker_threads(workers)
        .thread_name("traffic")
        .enable_all()
        .build()
}

fn bind(key: &'static str, address: SocketAddr) -> Result<(TcpListener, SocketAddr), AppError> {
    let bound = || {
        let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
        socket.set_reuse_address(true)?;
        socket.set_nonblocking(true)?;
        socket.bind(&address.into())?;
        socket.listen(BACKLOG)?;
        let listener = TcpListener::from(socket);
        let address = listener.local_addr()?;
        Ok((listener, address))
    };
    bound().map_err(|source| AppError::Bind { key, address, source })
}

fn bounds(slo: &Slo) -> String {
    let set = Bound::ALL
        .into_iter()
        .filter_map(|bound| Some((bound.name(), slo.bounds.get(bound)?)));
    let texts: Vec<String> = set
        .map(|(name, ns)| format!("{name}<={:?}", Duration::from_nanos(ns)))
        .collect();
    texts.join(" ")
}

#[cfg(test)]
mod tests;
