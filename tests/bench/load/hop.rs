//! A bare hop: bytes from one socket to the other on one thread, unread. What it adds is the price of being in between at all; like
//! the proxy's, its own time runs from a read to the end of the write that hands it on.

use std::io::{self, BufRead, BufReader, Write};
use std::net::SocketAddr;
use std::process::{Child, ChildStdout, ExitCode, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};

use super::cores::Cores;
use super::peers::Epoch;

/// The first word that makes this program a hop; the upstream's address is the second.
pub const WORD: &str = "hop";

/// Bytes read at a time, as the proxy's relay does.
const READ_SIZE: usize = 64 << 10;

/// Replies handed on, and the time that took.
#[derive(Debug, Default)]
struct Own {
    ns: AtomicU64,
    reads: AtomicU64,
}

/// A hop under way; ended when dropped.
#[derive(Debug)]
pub struct Hop {
    child: Child,
    said: BufReader<ChildStdout>,
    pub traffic: SocketAddr,
}

impl Hop {
    /// Starts one before `upstream`, where a proxy would be.
    pub fn start(cores: Cores, upstream: SocketAddr) -> Self {
        let mut command = cores.command(std::env::current_exe().expect("this program has a path"));
        command.args([WORD, &upstream.to_string()]);
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("the hop starts");
        let mut said = BufReader::new(child.stdout.take().expect("piped"));
        let mut line = String::new();
        said.read_line(&mut line).expect("its address");
        let traffic = line.trim().parse().expect("an address");
        Self { child, said, traffic }
    }

    /// The process.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Asks for its own time a read of a reply so far, µs.
    pub fn own_us(&mut self) -> f64 {
        let asked = self.child.stdin.as_mut().expect("piped").write_all(b"\n");
        asked.expect("the hop lives");
        let mut line = String::new();
        self.said.read_line(&mut line).expect("an answer");
        line.trim().parse().expect("a number")
    }
}

impl Drop for Hop {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Is a hop before `upstream`, until standard input ends; each line on it asks for the mean.
pub fn main(upstream: &str) -> ExitCode {
    let upstream = upstream.parse().expect("an address");
    let own = Arc::new(Own::default());
    let serving = Arc::clone(&own);
    let (bound, address) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        runtime.expect("a runtime").block_on(async {
            let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
            bound.send(listener.local_addr()).expect("main waits");
            let epoch = Epoch::begin();
            while let Ok((client, _)) = listener.accept().await {
                tokio::spawn(forward(client, upstream, Arc::clone(&serving), epoch));
            }
        });
    });
    println!("{}", address.recv().expect("it binds").expect("an address"));
    for _ in io::stdin().lock().lines() {
        let (ns, reads) = (own.ns.swap(0, Relaxed), own.reads.swap(0, Relaxed));
        println!("{}", ns as f64 / reads.max(1) as f64 / 1e3);
    }
    ExitCode::SUCCESS
}

async fn forward(client: TcpStream, upstream: SocketAddr, own: Arc<Own>, epoch: Epoch) -> io::Result<()> {
    let upstream = TcpStream::connect(upstream).await?;
    client.set_nodelay(true)?;
    upstream.set_nodelay(true)?;
    let ((from_client, to_client), (from_upstream, to_upstream)) = (client.into_split(), upstream.into_split());
    tokio::select! {
        up = copy(from_client, to_upstream, |_| {}, epoch) => up,
        down = copy(from_upstream, to_client, |ns| {
            own.ns.fetch_add(ns, Relaxed);
            own.reads.fetch_add(1, Relaxed);
        }, epoch) => down,
    }
}

async fn copy(mut from: OwnedReadHalf, mut to: OwnedWriteHalf, took: impl Fn(u64), epoch: Epoch) -> io::Result<()> {
    let mut buf = vec![0; READ_SIZE];
    loop {
        let read = from.read(&mut buf).await?;
        if read == 0 {
            return Ok(());
        }
        let at = epoch.now_ns();
        to.write_all(&buf[..read]).await?;
        took(epoch.now_ns() - at);
    }
}
