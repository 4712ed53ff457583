//! The data path over in-memory pipes on the paused clock: real bytes on both sides, the peers scripted.

/// Each test runs twice: by the full server alone, and with the relay taking what is plain.
macro_rules! both_ways {
    ($($name:ident),+ $(,)?) => {
        mod full {
            $(#[tokio::test(start_paused = true)]
            async fn $name() {
                super::$name(false).await;
            })+
        }
        mod relay {
            $(#[tokio::test(start_paused = true)]
            async fn $name() {
                super::$name(true).await;
            })+
        }
    };
}

mod drain;
mod fail_open;
mod forward;
mod limits;
mod overhead;
mod refuse;
mod tls;
mod usage;

use std::sync::Arc;

use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};
use tokio::sync::mpsc;

use super::counters::Counters;
use super::upstream::{BoxIo, Connector, Upstream};
use super::{Proxy, serve_connection};
use crate::config::Config;
use crate::lifecycle::{Lifecycle, Phase, UnderWay};
use crate::observe::Observer;

/// What a pipe holds before its writer must wait.
const PIPE_BYTES: usize = 64 * 1024;

struct Rig {
    proxy: Arc<Proxy>,
    lifecycle: Lifecycle,
    under_way: UnderWay,
    counters: Arc<Counters>,
    /// The far ends of upstream connections, in the order they were opened.
    upstream: mpsc::Receiver<Peer>,
}

impl Rig {
    fn new(relay: bool) -> Self {
        Self::with(&Config {
            relay,
            ..Config::default()
        })
    }

    fn with(config: &Config) -> Self {
        let (peers, upstream) = mpsc::channel(64);
        let connector = Connector::new(move || {
            let peers = peers.clone();
            async move {
                let (near, far) = duplex(PIPE_BYTES);
                peers.send(Peer(far)).await.expect("the test keeps the receiver");
                Ok(Box::new(near) as BoxIo)
            }
        });
        Self::over(config, connector, upstream)
    }

    /// Over connections of `connector`'s making, whose far ends come by `upstream`, if they do.
    fn over(config: &Config, connector: Connector, upstream: mpsc::Receiver<Peer>) -> Self {
        let (lifecycle, under_way, counters) = (Lifecycle::new(), UnderWay::default(), Arc::new(Counters::default()));
        lifecycle.advance(Phase::Ready);
        let proxy = Proxy::new(
            config,
            Observer::new(config, lifecycle.watch()),
            Upstream::with_connector(&config.upstream, connector),
            lifecycle.watch(),
            under_way.clone(),
            Arc::clone(&counters),
        );
        Self {
            proxy,
            lifecycle,
            under_way,
            counters,
            upstream,
        }
    }

    /// A new client connection.
    fn client(&self) -> Peer {
        let (near, far) = duplex(PIPE_BYTES);
        tokio::spawn(serve_connection(near, Arc::clone(&self.proxy)));
        Peer(far)
    }

    /// The next upstream connection.
    async fn upstream(&mut self) -> Peer {
        self.upstream.recv().await.expect("an upstream connection")
    }
}

/// The far end of a connection.
struct Peer(DuplexStream);

impl Peer {
    async fn send(&mut self, bytes: impl AsRef<[u8]>) {
        self.0.write_all(bytes.as_ref()).await.expect("the connection is open");
    }

    /// A message head, to its empty line and not a byte further.
    async fn head(&mut self) -> String {
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            head.push(self.0.read_u8().await.expect("a whole head"));
        }
        String::from_utf8(head).expect("an ASCII head")
    }

    async fn bytes(&mut self, len: usize) -> String {
        let mut bytes = vec![0; len];
        self.0.read_exact(&mut bytes).await.expect("that many bytes");
        String::from_utf8(bytes).expect("text")
    }

    /// Everything to the end of the connection.
    async fn rest(&mut self) -> String {
        let mut rest = Vec::new();
        self.0.read_to_end(&mut rest).await.expect("a clean end");
        String::from_utf8(rest).expect("text")
    }
}

/// Lets every task that can run do so.
async fn settle() {
    for _ in 0..64 {
        tokio::task::yield_now().await;
    }
}
