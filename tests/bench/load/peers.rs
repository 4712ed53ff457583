//! The model server and the clients of a run, in one process, so that both read the same clock: each event carries the time it was
//! written at, and what the client sees is how long it was under way.

use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::{MissedTickBehavior, interval_at, sleep};

/// Events written to streams by every server of this process.
static WRITTEN: AtomicU64 = AtomicU64::new(0);
/// How often a client looks that does not read at once.
const LOOKS_EVERY: Duration = Duration::from_millis(50);
/// Most that it takes at a time.
const MOST: usize = 64 << 10;

/// How a stream runs.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    /// Time between two events.
    pub interval: Duration,
    /// Bytes of an event, framing included.
    pub bytes: usize,
    /// Fills an event up with tiny ones behind it: a lot to read for the proxy, little for the client.
    pub dense: bool,
}

/// What the clients of one side have seen.
#[derive(Debug, Default)]
pub struct Seen {
    /// Events.
    pub events: AtomicU64,
    /// Whether delays are kept.
    pub keeping: AtomicBool,
    /// Nanoseconds from an event's writing to its reading.
    pub delays: Mutex<Vec<u64>>,
    /// Nanoseconds from a request's writing to the first byte of its reply.
    pub first_bytes: Mutex<Vec<u64>>,
}

impl Seen {
    /// Takes the delays kept so far, sorted.
    pub fn take(&self) -> Vec<u64> {
        sorted(&self.delays)
    }

    /// The same of the times to a first byte.
    pub fn take_first_bytes(&self) -> Vec<u64> {
        sorted(&self.first_bytes)
    }
}

fn sorted(kept: &Mutex<Vec<u64>>) -> Vec<u64> {
    let mut taken = std::mem::take(&mut *kept.lock().expect("no thread panicked"));
    taken.sort_unstable();
    taken
}

/// The clock of both sides.
#[derive(Clone, Copy, Debug)]
pub struct Epoch(Instant);

#[allow(clippy::disallowed_methods)] // no part of the program: its clock follows the runtime's, this one is the system's
impl Epoch {
    pub fn begin() -> Self {
        Self(Instant::now())
    }

    pub fn now_ns(self) -> u64 {
        u64::try_from(self.0.elapsed().as_nanos()).expect("the run is shorter than centuries")
    }

    fn instant() -> Instant {
        Instant::now()
    }
}

const BEFORE: &str = "data: {\"id\":\"chatcmpl-8f0a4c1e5b7d\",\"object\":\"chat.completion.chunk\",\"created\":1730000000,\"model\":\"org/model-70b\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\"t";
const BEHIND: &str = "\"},\"logprobs\":null,\"finish_reason\":null}],\"usage\":null}\n\n";

const TINY: &str = "data: 1\n\n";

fn event(at: u64, bytes: usize, dense: bool) -> String {
    let text = format!("{BEFORE}{at:020}");
    let fill = bytes.saturating_sub(text.len() + BEHIND.len());
    if dense {
        return format!("{text}{BEHIND}{}", TINY.repeat(fill / TINY.len()));
    }
    format!("{text}{:x<fill$}{BEHIND}", "")
}

/// Answers each request with a stream whose pace its headers name, until the client leaves; or with one event and an end.
pub async fn server(epoch: Epoch) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let address = listener.local_addr().expect("an address");
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(serve(stream, epoch));
        }
    });
    address
}

async fn serve(mut stream: TcpStream, epoch: Epoch) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let mut read = Vec::new();
    loop {
        read.clear();
        while !read.ends_with(b"}") {
            if stream.read_buf(&mut read).await? == 0 {
                return Ok(());
            }
        }
        let head = String::from_utf8_lossy(&read).into_owned();
        let number = |name: &str| {
            let line = head.lines().find_map(|line| line.strip_prefix(name)).unwrap_or("0");
            line.trim().parse::<u64>().unwrap_or(0)
        };
        let (interval_us, bytes) = (number("x-interval-us:"), number("x-bytes:") as usize);
        let dense = number("x-dense:") == 1;
        let chunk = || {
            let event = event(epoch.now_ns(), bytes, dense);
            format!("{:x}\r\n{event}\r\n", event.len())
        };
        let head = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n";
        stream.write_all(format!("{head}{}", chunk()).as_bytes()).await?;
        if interval_us == 0 {
            stream.write_all(b"e\r\ndata: [DONE]\n\n\r\n0\r\n\r\n").await?;
            continue;
        }
        // Streams start at their own times, so they are spread over the interval.
        let every = Duration::from_micros(interval_us);
        let mut ticks = interval_at((Epoch::instant() + every).into(), every);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
        loop {
            ticks.tick().await;
            stream.write_all(chunk().as_bytes()).await?;
            WRITTEN.fetch_add(1, Relaxed);
        }
    }
}

fn request(path: &str, model: &str, pace: Option<Pace>) -> String {
    let body = format!("{{\"model\":\"{model}\",\"stream\":true}}");
    let (interval, bytes, dense) = pace.map_or((0, 250, 0), |p| (p.interval.as_micros(), p.bytes, u8::from(p.dense)));
    format!(
        "POST {path} HTTP/1.1\r\nhost: bench\r\ncontent-type: application/json\r\nx-interval-us: {interval}\r\nx-bytes: {bytes}\r\nx-dense: {dense}\r\n\
         content-length: {}\r\n\r\n{body}",
        body.len()
    )
}

/// Events written to streams so far.
pub fn written() -> u64 {
    WRITTEN.load(Relaxed)
}

/// Reads one stream for as long as it runs. Unless it reads `at_once`, it counts the events, but tells no delays.
pub async fn watch(
    to: SocketAddr,
    path: String,
    model: String,
    pace: Pace,
    at_once: bool,
    epoch: Epoch,
    seen: Arc<Seen>,
) -> io::Result<()> {
    let mut stream = TcpStream::connect(to).await?;
    stream.set_nodelay(true)?;
    stream.write_all(request(&path, &model, Some(pace)).as_bytes()).await?;
    let (mut buf, mark) = (
        Vec::with_capacity(if at_once { 2 * pace.bytes } else { MOST }),
        BEHIND.as_bytes(),
    );
    loop {
        if stream.read_buf(&mut buf).await? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let now = epoch.now_ns();
        let mut from = 0;
        while let Some(end) = memchr::memmem::find(&buf[from..], mark) {
            let event = &buf[from..from + end];
            from += end + mark.len();
            seen.events.fetch_add(1, Relaxed);
            if at_once && seen.keeping.load(Relaxed) {
                let written = written_at(event).ok_or(io::ErrorKind::InvalidData)?;
                seen.delays
                    .lock()
                    .expect("no thread panicked")
                    .push(now.saturating_sub(written));
            }
        }
        buf.drain(..from);
        if !at_once {
            sleep(LOOKS_EVERY).await;
        }
    }
}

fn written_at(event: &[u8]) -> Option<u64> {
    let at = memchr::memmem::find(event, BEFORE.as_bytes())? + BEFORE.len();
    std::str::from_utf8(event.get(at..at + 20)?).ok()?.parse().ok()
}

/// Makes `count` short calls one after another, and keeps the times to their first bytes.
pub async fn calls(to: SocketAddr, count: usize, model: &str, epoch: Epoch, seen: &Seen) -> io::Result<()> {
    let mut stream = TcpStream::connect(to).await?;
    stream.set_nodelay(true)?;
    let call = request("/v1/chat/completions", model, None);
    let mut buf = Vec::new();
    for _ in 0..count {
        buf.clear();
        let start = epoch.now_ns();
        stream.write_all(call.as_bytes()).await?;
        while !buf.ends_with(b"\r\n0\r\n\r\n") {
            let is_first = buf.is_empty();
            if stream.read_buf(&mut buf).await? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            if is_first {
                seen.first_bytes
                    .lock()
                    .expect("no thread panicked")
                    .push(epoch.now_ns() - start);
            }
        }
    }
    Ok(())
}
