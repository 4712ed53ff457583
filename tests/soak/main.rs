//! Many open streams for a while: `cargo run --release --example soak -- [--streams 9900] [--seconds 60] [--interval 2000]
//! [--proxy PATH]`.
//!
//! Each stream gets an event every `--interval` ms and must arrive byte for byte. Prints what the proxy's process holds: idle, with
//! all streams open, while they last, and after them; once over the relay, once over the full server. A stream takes two
//! descriptors of a process, so the limit on open files is the limit on streams. The proxy is this program once more,
//! or the one at PATH.

#![allow(dead_code, unreachable_pub)] // parts of the chaos run, not all of which are used here

#[path = "../chaos/arguments.rs"]
mod arguments;
#[path = "../chaos/process.rs"]
mod process;
#[path = "../chaos/reply.rs"]
mod reply;

use std::io;
use std::net::SocketAddr;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use arguments::Arguments;
use process::{Program, Proxy, Usage};
use reply::Reply;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, watch};
use tokio::time::{sleep, timeout};

/// Connections being opened at a time.
const OPENING: usize = 128;

#[derive(Clone, Copy)]
struct Size {
    streams: usize,
    lasting: Duration,
    interval: Duration,
}

fn main() -> ExitCode {
    let arguments = match Arguments::read() {
        Ok(arguments) => arguments,
        Err(ended) => return ended,
    };
    let possible = (open_files().saturating_sub(100)) / 2;
    let asked = arguments.number("--streams", 9900) as usize;
    if asked > possible {
        println!("the limit on open files allows {possible} streams, not {asked}");
    }
    let size = Size {
        streams: asked.min(possible),
        lasting: Duration::from_secs(arguments.number("--seconds", 60)),
        interval: Duration::from_millis(arguments.number("--interval", 2000)),
    };
    let program = arguments.program();
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    for relay in [true, false] {
        runtime.block_on(soak(relay, size, &program));
    }
    ExitCode::SUCCESS
}

/// The soft limit on open files.
fn open_files() -> usize {
    let limits = std::fs::read_to_string("/proc/self/limits").unwrap_or_default();
    let line = limits.lines().find_map(|line| line.strip_prefix("Max open files"));
    let soft = line.and_then(|line| line.split_whitespace().next()?.parse().ok());
    soft.unwrap_or(1024)
}

async fn soak(relay: bool, size: Size, program: &Program) {
    let (stop, stopped) = watch::channel(false);
    let upstream = upstream(size.interval, stopped).await;
    let config = format!(
        "relay: {relay}\nupstream: {{ url: 'http://{upstream}', pool_idle_timeout: 1s }}\nlimits: {{ max_connections: {} }}\n\
         drain: {{ delay: off, timeout: 5s }}\n",
        size.streams + 100
    );
    let mut proxy = Proxy::start(program, &config);
    let idle = proxy.usage();
    println!("relay {relay}; idle: {idle}");

    let (opening, open) = (Arc::new(Semaphore::new(OPENING)), Arc::new(AtomicUsize::new(0)));
    let mut clients = tokio::task::JoinSet::new();
    for _ in 0..size.streams {
        clients.spawn(client(proxy.traffic, Arc::clone(&opening), Arc::clone(&open)));
    }
    while open.load(Relaxed) < size.streams && !clients.is_empty() {
        sleep(Duration::from_millis(100)).await;
        if let Some(ended) = clients.try_join_next() {
            panic!("a stream ended while others were opened: {ended:?}");
        }
    }
    let full = proxy.usage();
    println!(
        "{} streams open: {full}; {}",
        size.streams,
        per_stream(idle, full, size.streams)
    );
    let mut most = full.rss_kib;
    for _ in 0..size.lasting.as_secs().div_ceil(10) {
        sleep(Duration::from_secs(10)).await;
        let now = proxy.usage();
        most = most.max(now.rss_kib);
        println!("  {now}; {}", per_stream(idle, now, size.streams));
    }
    let in_flight = proxy.metrics().await.sum("goodput_in_flight", "");
    assert_eq!(in_flight as usize, size.streams);
    let last = proxy.usage();
    assert!(
        last.rss_kib < full.rss_kib + full.rss_kib / 5 + 8192,
        "memory grows: {full}, then {last}"
    );

    stop.send(true).expect("the upstream runs");
    let (mut whole, mut events) = (0, 0);
    while let Some(ended) = clients.join_next().await {
        let seen = ended.expect("no client panics").expect("every stream arrives whole");
        whole += 1;
        events += seen;
    }
    let after = proxy.settled(idle.descriptors).await;
    let metrics = proxy.metrics().await;
    println!(
        "{whole} streams whole, {events} events; after them: {after}, most {:.1} MiB",
        most as f64 / 1024.0
    );
    let outcomes = metrics.by("goodput_requests_total", "outcome");
    println!("outcomes: {outcomes:?}");
    assert_eq!(outcomes, [("ok".to_owned(), size.streams as f64)]);
    assert_eq!(metrics.sum("goodput_in_flight", ""), 0.0);
    assert!(
        after.descriptors <= idle.descriptors,
        "descriptors leaked: {idle}, then {after}"
    );
    let (status, log) = proxy.stop().await;
    assert_eq!(status, Some(0), "{log}");
}

fn per_stream(idle: Usage, now: Usage, streams: usize) -> String {
    let grown = now.rss_kib.saturating_sub(idle.rss_kib) as f64;
    format!("{:.2} KiB a stream", grown / streams as f64)
}

fn event(number: usize) -> String {
    format!("data: {{\"choices\":[{{\"index\":0,\"delta\":{{\"content\":\"token {number}\"}}}}]}}\n\n")
}

const LAST: &str = "data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n";

async fn upstream(interval: Duration, stopped: watch::Receiver<bool>) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let address = listener.local_addr().expect("an address");
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(serve(stream, interval, stopped.clone()));
        }
    });
    address
}

async fn serve(mut stream: TcpStream, interval: Duration, mut stopped: watch::Receiver<bool>) -> io::Result<()> {
    let _ = stream.set_nodelay(true);
    let mut read = Vec::new();
    while !read.ends_with(b"}") {
        if stream.read_buf(&mut read).await? == 0 {
            return Ok(());
        }
    }
    drop(read);
    let chunk = |text: &str| format!("{:x}\r\n{text}\r\n", text.len());
    stream
        .write_all(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n")
        .await?;
    let mut number = 0;
    while !*stopped.borrow() {
        stream.write_all(chunk(&event(number)).as_bytes()).await?;
        number += 1;
        let _ = timeout(interval, stopped.changed()).await;
    }
    stream.write_all(format!("{}0\r\n\r\n", chunk(LAST)).as_bytes()).await
}

/// Opens a stream and reads it to its end; how many events it had.
async fn client(proxy: SocketAddr, opening: Arc<Semaphore>, open: Arc<AtomicUsize>) -> io::Result<usize> {
    let permit = opening.acquire().await.expect("never closed");
    let mut stream = TcpStream::connect(proxy).await?;
    let body = "{\"model\":\"m\",\"stream\":true}";
    let head = "POST /v1/chat/completions HTTP/1.1\r\nHost: soak\r\nContent-Type: application/json\r\n";
    stream
        .write_all(format!("{head}Content-Length: {}\r\n\r\n{body}", body.len()).as_bytes())
        .await?;
    let mut buf = Vec::new();
    while !buf.windows(7).any(|w| w == b"token 0") {
        if stream.read_buf(&mut buf).await? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
    }
    drop(permit);
    open.fetch_add(1, Relaxed);
    let reply = Reply::read(&mut stream, &mut buf, |_| true).await?;
    let reply = reply.filter(|reply| reply.complete).ok_or(io::ErrorKind::UnexpectedEof)?;
    let events = reply.body.windows(6).filter(|w| w == b"token ").count();
    let sent: String = (0..events).map(event).chain([LAST.to_owned()]).collect();
    if reply.body == sent.as_bytes() {
        Ok(events)
    } else {
        Err(io::ErrorKind::InvalidData.into())
    }
}
