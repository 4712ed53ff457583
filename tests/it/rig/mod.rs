//! The proxy between a scripted model server and a raw client, in one process.
//!
//! [`Rig::new`] runs over in-memory pipes: with tokio's paused clock every duration is exact. [`Rig::tcp`] runs over loopback
//! sockets, where resets and real socket buffers matter; there a test waits for events, never for time.
//!
//! Every test that goes through [`both`] runs twice: on the short way (the relay) and on the full server.

#![allow(dead_code, unused_imports, unreachable_pub)] // shared by every test module and binary; not each uses all of it

mod admin;
pub mod client;
pub mod h2;
pub mod program;
pub mod script;
pub mod upstream;

use std::collections::BTreeMap;
use std::future::Future;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use goodput_proxy::aggregate::{SeriesSnapshot, Snapshot};
use goodput_proxy::clock;
use goodput_proxy::config::{Config, File, Sources, Syntax};
use goodput_proxy::lifecycle::{Lifecycle, Phase, UnderWay};
use goodput_proxy::observe::{Observer, Summary};
use goodput_proxy::proxy::counters::Counters;
use goodput_proxy::proxy::upstream::{BoxIo, Connector, Upstream as Sender};
use goodput_proxy::proxy::{ClientStream, Proxy, serve_connection};
use tokio::net::{TcpListener, TcpStream};

pub use client::{Client, Reply, chat, post};
pub use script::{DONE, chunk, chunked, content, finish, last_chunk, reply, send, sse_head, usage, wait};
pub use upstream::{Io, Seen, Step, Upstream};

/// Bytes an in-memory pipe holds.
const PIPE: usize = 64 * 1024;

/// Which way the requests go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// Plain requests over the relay.
    Relay,
    /// Everything over the full server.
    Full,
}

/// The proxy, its upstream and what it observed.
pub struct Rig {
    /// The scripted model server.
    pub upstream: Upstream,
    /// What the proxy measured.
    pub observer: Arc<Observer>,
    /// The proxy's own counters.
    pub counters: Arc<Counters>,
    /// The life cycle, to be moved on by a test.
    pub lifecycle: Lifecycle,
    /// What drain waits for.
    pub under_way: UnderWay,
    config: Config,
    proxy: Arc<Proxy>,
    pipe: usize,
}

impl Rig {
    /// A rig over in-memory pipes with the built-in configuration.
    pub fn new(way: Way, scripts: Vec<Vec<Step>>) -> Self {
        Self::configured(way, "", scripts)
    }

    /// The same with a configuration file's text (YAML).
    pub fn configured(way: Way, yaml: &str, scripts: Vec<Vec<Step>>) -> Self {
        Self::piped(way, yaml, PIPE, scripts)
    }

    /// The same with pipes that hold `pipe` bytes.
    pub fn piped(way: Way, yaml: &str, pipe: usize, scripts: Vec<Vec<Step>>) -> Self {
        let upstream = Upstream::new(scripts);
        let server = upstream.clone();
        let connector = Connector::new(move || {
            let server = server.clone();
            async move {
                let (ours, theirs) = tokio::io::duplex(pipe);
                tokio::spawn(server.serve(Box::new(theirs)));
                Ok(Box::new(ours) as BoxIo)
            }
        });
        Self::with(way, yaml, pipe, upstream, connector)
    }

    /// A rig over loopback sockets.
    pub async fn tcp(way: Way, yaml: &str, scripts: Vec<Vec<Step>>) -> Self {
        let upstream = Upstream::new(scripts);
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("an address");
        let server = upstream.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                stream.set_nodelay(true).expect("a TCP socket");
                tokio::spawn(server.clone().serve(Box::new(stream)));
            }
        });
        let connector = Connector::new(move || async move {
            let stream = TcpStream::connect(address).await?;
            stream.set_nodelay(true)?;
            Ok(Box::new(stream) as BoxIo)
        });
        Self::with(way, yaml, PIPE, upstream, connector)
    }

    /// A rig without a scripted server, whose upstream is `url`.
    pub fn to(way: Way, url: &str) -> Self {
        let yaml = format!("upstream: {{ url: \"{url}\" }}\n");
        let connector = Connector::to(&config(&yaml).upstream.target);
        Self::with(way, &yaml, PIPE, Upstream::new(Vec::new()), connector)
    }

    /// A rig over connections of the test's own making.
    pub fn with(way: Way, yaml: &str, pipe: usize, upstream: Upstream, connector: Connector) -> Self {
        let mut config = config(yaml);
        config.relay = way == Way::Relay;
        let lifecycle = Lifecycle::new();
        let under_way = UnderWay::default();
        let counters = Arc::new(Counters::default());
        let observer = Observer::new(&config, lifecycle.watch());
        let sender = Sender::with_connector(&config.upstream, connector);
        let proxy = Proxy::new(
            &config,
            Arc::clone(&observer),
            sender,
            lifecycle.watch(),
            under_way.clone(),
            Arc::clone(&counters),
        );
        lifecycle.advance(Phase::Ready);
        Self {
            upstream,
            observer,
            counters,
            lifecycle,
            under_way,
            config,
            proxy,
            pipe,
        }
    }

    /// A new client connection over a pipe.
    pub fn client(&self) -> Client {
        Client::new(Box::new(self.pipe()))
    }

    /// The client's end of a new connection over a pipe.
    pub fn pipe(&self) -> tokio::io::DuplexStream {
        let (ours, theirs) = tokio::io::duplex(self.pipe);
        self.serve(theirs);
        ours
    }

    /// Has the proxy serve `io`, a client.
    pub fn serve(&self, io: impl ClientStream) {
        tokio::spawn(serve_connection(io, Arc::clone(&self.proxy)));
    }

    /// A new client connection over TCP.
    pub async fn tcp_client(&self) -> Client {
        Client::new(Box::new(self.tcp_stream().await))
    }

    /// The client's end of a new TCP connection to the proxy.
    pub async fn tcp_stream(&self) -> TcpStream {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("an address");
        let (ours, theirs) = tokio::join!(TcpStream::connect(address), listener.accept());
        let (theirs, _) = theirs.expect("a connection");
        theirs.set_nodelay(true).expect("a TCP socket");
        tokio::spawn(serve_connection(theirs, Arc::clone(&self.proxy)));
        let ours = ours.expect("a connection");
        ours.set_nodelay(true).expect("a TCP socket");
        ours
    }

    /// Every finished request, oldest first.
    pub fn records(&self) -> Vec<Summary> {
        let mut records: Vec<Summary> = self.observer.recent(usize::MAX).iter().map(|s| (**s).clone()).collect();
        records.reverse();
        records
    }

    /// The only finished request.
    pub fn record(&self) -> Summary {
        let mut records = self.records();
        assert_eq!(records.len(), 1, "finished requests: {records:#?}");
        records.remove(0)
    }

    /// Resolves once `n` requests have finished.
    pub async fn finished(&self, n: usize) -> Vec<Summary> {
        // A record is made in the same turn that ends the exchange: whoever caused the end yields a few turns at most.
        for _ in 0..100_000 {
            if self.records().len() >= n {
                return self.records();
            }
            tokio::task::yield_now().await;
        }
        panic!("{n} requests should have finished, these have: {:#?}", self.records());
    }

    /// What a scrape sees now.
    pub fn snapshot(&self) -> Snapshot {
        self.observer.snapshot(clock::now())
    }

    /// The series of `route` and `model`.
    pub fn series(&self, route: &str, model: &str) -> SeriesSnapshot {
        let snapshot = self.snapshot();
        let found = snapshot.series.iter().find(|s| &*s.route == route && &*s.model == model);
        found
            .cloned()
            .unwrap_or_else(|| panic!("no series {route}/{model} among {:?}", names(&snapshot)))
    }
}

fn names(snapshot: &Snapshot) -> Vec<(Arc<str>, Arc<str>)> {
    snapshot
        .series
        .iter()
        .map(|s| (Arc::clone(&s.route), Arc::clone(&s.model)))
        .collect()
}

/// The configuration of a YAML text over the built-in defaults. Many rigs share a few texts, and a check takes its time.
pub fn config(yaml: &str) -> Config {
    static CHECKED: Mutex<BTreeMap<String, Config>> = Mutex::new(BTreeMap::new());
    let known = CHECKED.lock().expect("no test panics in there").get(yaml).cloned();
    known.unwrap_or_else(|| {
        let config = check(yaml);
        let mut checked = CHECKED.lock().expect("no test panics in there");
        checked.insert(yaml.to_owned(), config.clone());
        config
    })
}

fn check(yaml: &str) -> Config {
    if yaml.is_empty() {
        return Config::default();
    }
    let file = File {
        name: "test".to_owned(),
        text: yaml.to_owned(),
        syntax: Syntax::Yaml,
    };
    Config::load(&Sources {
        file: Some(file),
        ..Sources::default()
    })
    .unwrap_or_else(|problems| panic!("{problems:#?}"))
}

/// An address of this host that refuses: bound, never listening, so nobody else can get it as long as the socket is kept.
pub fn nobody() -> (socket2::Socket, SocketAddr) {
    let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).expect("a socket");
    socket
        .bind(&SocketAddr::from(([127, 0, 0, 1], 0)).into())
        .expect("a free port");
    let address = socket.local_addr().expect("bound").as_socket().expect("an address");
    (socket, address)
}

/// Runs a test on both ways, each on a paused clock of its own.
pub fn both<F: Future<Output = ()>>(test: impl Fn(Way) -> F) {
    on(Way::Relay, &test);
    on(Way::Full, &test);
}

/// Runs a test on one way, on a paused clock.
pub fn on<F: Future<Output = ()>>(way: Way, test: impl Fn(Way) -> F) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .start_paused(true)
        .build()
        .expect("a runtime");
    eprintln!("on {way:?}");
    runtime.block_on(async {
        // A stuck exchange must fail, not hang: paused time runs ahead only when nothing else can.
        tokio::time::timeout(Duration::from_secs(86_400 * 30), test(way))
            .await
            .expect("the test comes to an end");
    });
}

/// Runs a test on both ways over real sockets and the real clock.
pub fn both_tcp<F: Future<Output = ()>>(test: impl Fn(Way) -> F) {
    for way in [Way::Relay, Way::Full] {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .expect("a runtime");
        eprintln!("on {way:?}");
        runtime.block_on(async {
            tokio::time::timeout(Duration::from_secs(60), test(way))
                .await
                .expect("the test comes to an end within a minute");
        });
    }
}
