//! The model server: does what each request's plan says, and can be killed and started again on the same port.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;
use tokio::time::sleep;

use super::plan::{Fault, Plan, Random};

/// A handle on the server.
#[derive(Clone)]
pub struct Upstream {
    /// Where it listens.
    pub address: SocketAddr,
    /// Odd while it is down.
    epoch: Arc<AtomicU64>,
    orders: mpsc::Sender<(Duration, oneshot::Sender<()>)>,
}

impl Upstream {
    /// Starts it on a free port.
    pub async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("an address");
        let (orders, inbox) = mpsc::channel(1);
        let epoch = Arc::new(AtomicU64::new(0));
        tokio::spawn(accept(listener, address, Arc::clone(&epoch), inbox));
        Self { address, epoch, orders }
    }

    /// Kills it with all its connections and starts it again after `pause`.
    pub async fn restart(&self, pause: Duration) {
        let (done, until_done) = oneshot::channel();
        self.orders.send((pause, done)).await.expect("the server runs");
        until_done.await.expect("the server is back");
    }

    /// How often it was restarted.
    pub fn restarts(&self) -> u64 {
        self.epoch.load(SeqCst) / 2
    }

    /// A number that changes when it goes down and when it comes back; odd while it is down.
    pub fn epoch(&self) -> u64 {
        self.epoch.load(SeqCst)
    }
}

async fn accept(
    mut listener: TcpListener,
    address: SocketAddr,
    epoch: Arc<AtomicU64>,
    mut orders: mpsc::Receiver<(Duration, oneshot::Sender<()>)>,
) {
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            Some((pause, done)) = orders.recv() => {
                epoch.fetch_add(1, SeqCst);
                drop(listener);
                connections.shutdown().await;
                sleep(pause).await;
                listener = TcpListener::bind(address).await.expect("the port is still ours");
                epoch.fetch_add(1, SeqCst);
                let _ = done.send(());
            }
            accepted = listener.accept() => {
                if let Ok((stream, _)) = accepted {
                    let _ = stream.set_nodelay(true);
                    connections.spawn(serve(stream));
                }
            }
            Some(_) = connections.join_next() => {}
            else => return,
        }
    }
}

async fn serve(mut stream: TcpStream) {
    let mut read = Vec::new();
    while let Ok(Some(plan)) = request(&mut stream, &mut read).await {
        if !matches!(reply(&mut stream, plan).await, Ok(true)) {
            return;
        }
    }
}

/// Reads a request to its end, for its plan.
async fn request(stream: &mut TcpStream, read: &mut Vec<u8>) -> io::Result<Option<Plan>> {
    let end = loop {
        if let Some(end) = read.windows(4).position(|w| w == b"\r\n\r\n") {
            break end + 4;
        }
        if stream.read_buf(read).await? == 0 {
            return Ok(None);
        }
    };
    let head = String::from_utf8_lossy(&read[..end]).to_ascii_lowercase();
    read.drain(..end);
    let field = |name: &str| head.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "));
    let length: usize = field("content-length").and_then(|n| n.parse().ok()).unwrap_or_default();
    let chunked = field("transfer-encoding").is_some();
    // The chunked bodies sent here hold no other "0".
    while read.len() < length || chunked && !read.ends_with(b"\r\n0\r\n\r\n") {
        if stream.read_buf(read).await? == 0 {
            return Ok(None);
        }
    }
    if chunked {
        read.clear();
    } else {
        drop(read.drain(..length));
    }
    Ok(field("x-chaos").and_then(|plan| plan.parse().ok()))
}

/// Whether the connection goes on.
async fn reply(stream: &mut TcpStream, plan: Plan) -> io::Result<bool> {
    let mut random = Random::new(plan.seed ^ 0xBEEF);
    sleep(Duration::from_micros(random.below(3000))).await;
    let events = plan.reply();
    let sse = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n";
    match plan.fault {
        Fault::ResetBeforeHead => return reset(stream),
        Fault::CloseBeforeHead => return Ok(false),
        Fault::GarbageHead => {
            let garbage: Vec<u8> = (0..200).map(|_| random.next().to_le_bytes()[0] & 0x7f).collect();
            stream.write_all(&[b"X", garbage.as_slice(), b"\r\n\r\n"].concat()).await?;
            return Ok(false);
        }
        Fault::HugeHead => {
            let head = format!("HTTP/1.1 200 OK\r\nX: {}\r\n", "a".repeat(400_000));
            // Refused before it is through.
            let _ = stream.write_all(head.as_bytes()).await;
            return Ok(false);
        }
        Fault::Unavailable => {
            let head = format!("HTTP/1.1 503 Busy\r\nContent-Length: {}\r\n\r\n", events[0].len());
            stream.write_all(&[head.as_bytes(), &events[0]].concat()).await?;
            return Ok(true);
        }
        Fault::Length => {
            let length: usize = events.iter().map(Vec::len).sum();
            stream
                .write_all(format!("{sse}Content-Length: {length}\r\n\r\n").as_bytes())
                .await?;
        }
        Fault::UntilClose => {
            let head = sse.replace("1.1", "1.0");
            stream.write_all(format!("{head}\r\n").as_bytes()).await?;
        }
        Fault::EarlyHints => {
            let hints = "HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n";
            stream
                .write_all(format!("{hints}{sse}Transfer-Encoding: chunked\r\n\r\n").as_bytes())
                .await?;
        }
        _ => {
            stream
                .write_all(format!("{sse}Transfer-Encoding: chunked\r\n\r\n").as_bytes())
                .await?;
        }
    }
    let plain = matches!(plan.fault, Fault::Length | Fault::UntilClose);
    for (number, event) in (0..).zip(&events) {
        if random.below(3) > 0 {
            sleep(Duration::from_micros(random.below(6000))).await;
        }
        let chunk = [format!("{:x}\r\n", event.len()).as_bytes(), event, b"\r\n"].concat();
        if number == plan.at {
            match plan.fault {
                Fault::UpstreamReset => return reset(stream),
                Fault::UpstreamFin => {
                    stream.write_all(&chunk[..chunk.len() / 2]).await?;
                    return Ok(false);
                }
                Fault::BadChunk => {
                    stream.write_all(b"zz\r\nhello\r\n").await?;
                    return Ok(false);
                }
                Fault::Stall => {
                    // Until the proxy gives up.
                    let mut scrap = [0; 64];
                    while stream.read(&mut scrap).await? > 0 {}
                    return Ok(false);
                }
                _ => {}
            }
        }
        stream.write_all(if plain { event } else { &chunk }).await?;
    }
    if !plain {
        stream.write_all(b"0\r\n\r\n").await?;
    }
    Ok(plan.fault != Fault::UntilClose)
}

fn reset(stream: &TcpStream) -> io::Result<bool> {
    socket2::SockRef::from(stream).set_linger(Some(Duration::ZERO))?;
    Ok(false)
}
