//! A scripted model server that speaks raw bytes: split UTF-8, broken chunks, early FINs and resets, which no HTTP library would send.

use std::collections::VecDeque;
use std::future::Future;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use goodput_proxy::clock;
use goodput_proxy::measure::Stamp;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::sync::{Notify, watch};

/// Any byte stream.
pub trait Io: AsyncRead + AsyncWrite + Send + Unpin {
    /// Makes the close a reset where the transport knows one.
    fn abort(&mut self) {}
}

impl Io for tokio::net::TcpStream {
    fn abort(&mut self) {
        let _ = socket2::SockRef::from(&*self).set_linger(Some(Duration::ZERO));
    }
}

impl Io for tokio::io::DuplexStream {}

/// One thing the server does. It reads the request head by itself before, unless the script begins with `Hold`, `Close` or `Reset`.
#[derive(Clone, Debug)]
pub enum Step {
    /// Reads the whole request body, by its length or chunked framing.
    Body,
    /// Reads `n` more raw bytes.
    Take(usize),
    /// Writes these bytes in one write.
    Send(Vec<u8>),
    /// Writes these bytes so many times.
    Repeat(Vec<u8>, usize),
    /// Lets time pass (paused clock only: over TCP use [`Step::Gate`]).
    Wait(Duration),
    /// Waits until the test opens the gate.
    Gate(Arc<Notify>),
    /// Waits until the test opens the gate, and reads nothing meanwhile.
    Stall(Arc<Notify>),
    /// Ends the write side, cleanly.
    Fin,
    /// Closes with a reset.
    Reset,
    /// Closes without reading further.
    Close,
    /// Reads until the peer closes.
    Hold,
    /// Answers with the request's target as the body.
    EchoTarget,
}

/// A request as the server saw it.
#[derive(Clone, Debug, Default)]
pub struct Seen {
    /// Which connection, counted from 0.
    pub connection: usize,
    /// The raw head, with the empty line.
    pub head: String,
    /// The raw bytes that followed, framing included.
    pub raw_body: Vec<u8>,
    /// The body without its framing.
    pub body: Vec<u8>,
}

impl Seen {
    /// The value of header `name` (any case), if there is exactly one.
    pub fn header(&self, name: &str) -> Option<&str> {
        let mut values = self.headers(name);
        let one = values.pop();
        one.filter(|_| values.is_empty())
    }

    /// Every value of header `name`, in order.
    pub fn headers(&self, name: &str) -> Vec<&str> {
        self.head
            .lines()
            .skip(1)
            .filter_map(|l| l.split_once(':'))
            .filter(|(n, _)| n.eq_ignore_ascii_case(name))
            .map(|(_, v)| v.trim())
            .collect()
    }

    /// The request line.
    pub fn line(&self) -> &str {
        self.head.lines().next().unwrap_or_default()
    }
}

#[derive(Default)]
struct State {
    scripts: VecDeque<Vec<Step>>,
    last: Vec<Step>,
    seen: Vec<Seen>,
    connections: usize,
    closed: Vec<(usize, Stamp)>,
    written: usize,
}

/// The server's shared state: scripts to come, requests seen.
#[derive(Clone)]
pub struct Upstream {
    state: Arc<Mutex<State>>,
    changed: watch::Sender<u64>,
}

impl Upstream {
    /// Plays `scripts`, one per request in order of arrival; the last one repeats.
    pub fn new(scripts: Vec<Vec<Step>>) -> Self {
        let last = scripts.last().cloned().unwrap_or_default();
        let state = State {
            scripts: scripts.into(),
            last,
            ..State::default()
        };
        Self {
            state: Arc::new(Mutex::new(state)),
            changed: watch::Sender::new(0),
        }
    }

    /// The requests seen so far.
    pub fn seen(&self) -> Vec<Seen> {
        self.state.lock().unwrap().seen.clone()
    }

    /// The only request seen.
    pub fn only(&self) -> Seen {
        let seen = self.seen();
        assert_eq!(seen.len(), 1, "requests seen by the upstream: {seen:#?}");
        seen.into_iter().next().unwrap()
    }

    /// Connections accepted so far.
    pub fn connections(&self) -> usize {
        self.state.lock().unwrap().connections
    }

    /// Bytes written so far.
    pub fn written(&self) -> usize {
        self.state.lock().unwrap().written
    }

    /// When the peer closed each connection: (connection, moment).
    pub fn closed(&self) -> Vec<(usize, Stamp)> {
        self.state.lock().unwrap().closed.clone()
    }

    /// Resolves once `true` of the state.
    pub async fn until(&self, what: impl Fn(&Self) -> bool) {
        let mut changed = self.changed.subscribe();
        while !what(self) {
            changed.changed().await.expect("the upstream lives as long as the test");
        }
    }

    fn note(&self, f: impl FnOnce(&mut State)) {
        f(&mut self.state.lock().unwrap());
        self.changed.send_modify(|n| *n += 1);
    }

    /// Serves one connection by the scripts.
    pub async fn serve(self, mut io: Box<dyn Io>) {
        let mut number = 0;
        self.note(|s| {
            number = s.connections;
            s.connections += 1;
        });
        let mut buf = Vec::new();
        loop {
            let script = {
                let s = self.state.lock().unwrap();
                // A script is spent when its request begins, not when its connection opens.
                s.scripts.front().cloned().unwrap_or_else(|| s.last.clone())
            };
            let silent = matches!(script.first(), Some(Step::Hold | Step::Close | Step::Reset));
            let mut seen = Seen {
                connection: number,
                ..Seen::default()
            };
            if !silent {
                match read_head(&mut io, &mut buf).await {
                    Some(head) => seen.head = head,
                    None => break,
                }
            }
            let index = {
                let mut index = 0;
                self.note(|s| {
                    s.scripts.pop_front();
                    index = s.seen.len();
                    if !silent {
                        s.seen.push(seen.clone());
                    }
                });
                index
            };
            if !self
                .play(&script, &mut io, &mut buf, &mut seen, (!silent).then_some(index))
                .await
            {
                break;
            }
        }
        self.note(|s| s.closed.push((number, clock::now())));
    }

    /// Whether the connection goes on.
    async fn play(
        &self,
        script: &[Step],
        io: &mut Box<dyn Io>,
        buf: &mut Vec<u8>,
        seen: &mut Seen,
        index: Option<usize>,
    ) -> bool {
        for step in script {
            match step {
                Step::Body => {
                    let Some(used) = read_body(io, buf, seen).await else {
                        return false;
                    };
                    seen.raw_body = buf.drain(..used).collect();
                    self.note(|s| {
                        if let Some(i) = index {
                            s.seen[i] = seen.clone();
                        }
                    });
                }
                Step::Take(n) => {
                    while buf.len() < *n {
                        if io.read_buf(buf).await.unwrap_or(0) == 0 {
                            return false;
                        }
                    }
                    seen.raw_body.extend(buf.drain(..*n));
                    self.note(|s| {
                        if let Some(i) = index {
                            s.seen[i] = seen.clone();
                        }
                    });
                }
                Step::Send(bytes) => {
                    if io.write_all(bytes).await.is_err() || io.flush().await.is_err() {
                        return false;
                    }
                    self.note(|s| s.written += bytes.len());
                }
                Step::Repeat(bytes, times) => {
                    for _ in 0..*times {
                        if io.write_all(bytes).await.is_err() {
                            return false;
                        }
                        self.note(|s| s.written += bytes.len());
                    }
                }
                Step::Wait(time) => {
                    if !stays(io, buf, tokio::time::sleep(*time)).await {
                        return false;
                    }
                }
                Step::Gate(gate) => {
                    if !stays(io, buf, gate.notified()).await {
                        return false;
                    }
                }
                Step::Stall(gate) => gate.notified().await,
                Step::Fin => {
                    let _ = io.shutdown().await;
                    let mut scrap = Vec::new();
                    let _ = io.read_to_end(&mut scrap).await;
                    return false;
                }
                Step::Reset => {
                    io.abort();
                    return false;
                }
                Step::Close => return false,
                Step::EchoTarget => {
                    let target = seen.line().split(' ').nth(1).unwrap_or_default();
                    let reply = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{target}", target.len());
                    if io.write_all(reply.as_bytes()).await.is_err() {
                        return false;
                    }
                }
                Step::Hold => {
                    let mut scrap = [0u8; 4096];
                    while io.read(&mut scrap).await.unwrap_or(0) > 0 {}
                    return false;
                }
            }
        }
        true
    }
}

/// Reads what comes until `until` resolves, as a real server's event loop would: false when the peer left meanwhile.
async fn stays(io: &mut Box<dyn Io>, buf: &mut Vec<u8>, until: impl Future<Output = ()>) -> bool {
    tokio::pin!(until);
    loop {
        tokio::select! {
            () = &mut until => return true,
            n = io.read_buf(buf) => if n.unwrap_or(0) == 0 {
                return false;
            },
        }
    }
}

async fn read_head(io: &mut Box<dyn Io>, buf: &mut Vec<u8>) -> Option<String> {
    loop {
        if let Some(end) = buf.windows(4).position(|w| w == b"\r\n\r\n") {
            let head: Vec<u8> = buf.drain(..end + 4).collect();
            return Some(String::from_utf8_lossy(&head).into_owned());
        }
        if io.read_buf(buf).await.ok()? == 0 {
            return None;
        }
    }
}

/// Reads until the body is whole; returns how many bytes of `buf` it took.
async fn read_body(io: &mut Box<dyn Io>, buf: &mut Vec<u8>, seen: &mut Seen) -> Option<usize> {
    let length = seen
        .header("content-length")
        .map(|v| v.parse::<usize>().expect("a number as content-length"));
    let chunked = seen
        .headers("transfer-encoding")
        .iter()
        .any(|v| v.eq_ignore_ascii_case("chunked"));
    loop {
        if chunked {
            if let Some((body, used)) = dechunk(buf) {
                seen.body = body;
                return Some(used);
            }
        } else if buf.len() >= length.unwrap_or(0) {
            let n = length.unwrap_or(0);
            seen.body = buf[..n].to_vec();
            return Some(n);
        }
        if io.read_buf(buf).await.ok()? == 0 {
            return None;
        }
    }
}

/// Undoes chunked framing; none while incomplete. Trailers are skipped.
pub fn dechunk(mut raw: &[u8]) -> Option<(Vec<u8>, usize)> {
    let (all, mut body) = (raw.len(), Vec::new());
    loop {
        let line = raw.windows(2).position(|w| w == b"\r\n")?;
        let size = std::str::from_utf8(&raw[..line]).expect("ascii chunk size");
        let size = usize::from_str_radix(size.split(';').next().unwrap().trim(), 16).expect("hex chunk size");
        raw = &raw[line + 2..];
        if size == 0 {
            loop {
                let line = raw.windows(2).position(|w| w == b"\r\n")?;
                raw = &raw[line + 2..];
                if line == 0 {
                    return Some((body, all - raw.len()));
                }
            }
        }
        if raw.len() < size + 2 {
            return None;
        }
        body.extend_from_slice(&raw[..size]);
        assert_eq!(&raw[size..size + 2], b"\r\n", "chunk end");
        raw = &raw[size + 2..];
    }
}
