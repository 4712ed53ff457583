//! One client: request after request on a connection kept where possible, each with its fate.

use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use goodput_proxy::clock;
use goodput_proxy::measure::Stamp;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::time::{sleep, timeout};

use super::plan::{Fault, Plan, Random};
use super::reply::Reply;
use super::upstream::Upstream;

/// An exchange that takes longer is stuck.
const PATIENCE: Duration = Duration::from_secs(30);

/// What all clients saw.
#[derive(Debug, Default)]
pub struct Tally {
    /// Whole heads sent.
    pub heads: AtomicU64,
    /// Requests that got a response head.
    pub answered: AtomicU64,
    /// Replies without harm that arrived byte for byte, and their bytes.
    pub identical: AtomicU64,
    pub bytes: AtomicU64,
    /// How often each fate.
    pub kinds: Mutex<BTreeMap<Fault, u64>>,
    /// Broken promises.
    pub failures: Mutex<Vec<String>>,
}

impl Tally {
    fn fail(&self, what: String) {
        let mut failures = self.failures.lock().expect("no client panicked");
        if failures.len() < 20 {
            failures.push(what);
        }
    }
}

/// Works until `until`.
pub async fn work(proxy: SocketAddr, upstream: Upstream, mut random: Random, until: Stamp, tally: Arc<Tally>) {
    let (mut kept, mut before) = (None, None);
    while clock::now() < until {
        let plan = Plan::random(&mut random);
        *tally.kinds.lock().expect("no client panicked").entry(plan.fault).or_default() += 1;
        let connection = match kept.take() {
            Some(stream) => Ok(stream),
            None => TcpStream::connect(proxy).await,
        };
        let mut stream = match connection {
            Ok(stream) => stream,
            Err(error) => {
                tally.fail(format!("cannot connect: {error}"));
                return;
            }
        };
        let _ = stream.set_nodelay(true);
        match timeout(PATIENCE, exchange(&mut stream, plan, before, &upstream, &mut random, &tally)).await {
            Ok(Ok(true)) => (kept, before) = (Some(stream), Some(plan)),
            // The proxy closed, or we did: legal where something was disturbed, which `exchange` has judged.
            Ok(Ok(false) | Err(_)) => before = None,
            Err(_) => tally.fail(format!("stuck for {PATIENCE:?}: {plan:?}")),
        }
    }
}

fn head(plan: Plan, framing: &str) -> String {
    format!(
        "POST /v1/chat/completions HTTP/1.1\r\nHost: chaos\r\nContent-Type: application/json\r\nX-Chaos: {plan}\r\n{framing}\r\n"
    )
}

/// One exchange, on a connection that `before` went over. Whether the connection can be used again.
async fn exchange(
    stream: &mut TcpStream,
    plan: Plan,
    before: Option<Plan>,
    upstream: &Upstream,
    random: &mut Random,
    tally: &Tally,
) -> io::Result<bool> {
    let epoch = upstream.epoch();
    let mut body = b"{\"model\":\"m\",\"stream\":true,\"messages\":[]}".to_vec();
    match plan.fault {
        Fault::GarbageRequest => {
            let garbage: Vec<u8> = (0..random.below(3000)).map(|_| random.next().to_le_bytes()[0]).collect();
            stream.write_all(&garbage).await?;
            let _ = stream.shutdown().await;
            let mut buf = Vec::new();
            let _ = Reply::read(stream, &mut buf, |_| true).await?;
            return Ok(false);
        }
        Fault::PartOfHead => {
            let head = head(plan, "Content-Length: 2\r\n");
            let part = random.below(head.len() as u64 - 1) as usize;
            stream.write_all(&head.as_bytes()[..part]).await?;
            return Ok(false);
        }
        Fault::PartOfBody => {
            tally.heads.fetch_add(1, Relaxed);
            stream.write_all(head(plan, "Content-Length: 5000\r\n").as_bytes()).await?;
            stream.write_all(&body).await?;
            sleep(Duration::from_millis(random.below(20))).await;
            return Ok(false);
        }
        Fault::BigUpload => {
            body.pop();
            body.extend_from_slice(format!(",\"x\":\"{}\"}}", "y".repeat(300_000)).as_bytes());
        }
        _ => {}
    }
    let request = if plan.fault == Fault::ChunkedUpload {
        let size = format!("{:x}\r\n", body.len());
        [
            head(plan, "Transfer-Encoding: chunked\r\n").as_bytes(),
            size.as_bytes(),
            &body,
            b"\r\n0\r\n\r\n",
        ]
        .concat()
    } else {
        [head(plan, &format!("Content-Length: {}\r\n", body.len())).as_bytes(), &body].concat()
    };
    let times = if plan.fault == Fault::Pipelined { 3 } else { 1 };
    tally.heads.fetch_add(times, Relaxed);
    if let Err(error) = stream.write_all(&request.repeat(times as usize)).await {
        if plan.fault.is_harmless() && plan.fault != Fault::BigUpload && upstream.epoch() == epoch && epoch.is_multiple_of(2) {
            tally.fail(format!("{plan:?}: the proxy took no request: {error}"));
        }
        return Err(error);
    }
    match plan.fault {
        Fault::HalfClose => stream.shutdown().await?,
        Fault::Reset => socket2::SockRef::from(&*stream).set_linger(Some(Duration::ZERO))?,
        _ => {}
    }
    let whole: Vec<u8> = plan.reply().concat();
    let leave_at = whole.len() as u64 * plan.at / plan.events.max(1);
    let mut buf = Vec::new();
    for _ in 0..times {
        let slow = plan.fault == Fault::SlowReader;
        let stays = |seen: usize| !matches!(plan.fault, Fault::Cancel | Fault::Reset) || (seen as u64) < leave_at;
        if slow {
            sleep(Duration::from_millis(random.below(300))).await;
        }
        let reading = Reply::read(stream, &mut buf, stays);
        let read = if plan.fault == Fault::Stall {
            // Nobody else will end it.
            match timeout(Duration::from_millis(300), reading).await {
                Ok(read) => read,
                Err(_) => return Ok(false),
            }
        } else {
            reading.await
        };
        let undisturbed = plan.fault.is_harmless() && upstream.epoch() == epoch && epoch.is_multiple_of(2);
        let reply = match read {
            Ok(Some(reply)) => reply,
            Ok(None) | Err(_) => {
                if undisturbed {
                    tally.fail(format!(
                        "{plan:?}: no reply ({:?}) on the connection of {before:?}",
                        read.err()
                    ));
                }
                return Ok(false);
            }
        };
        tally.answered.fetch_add(1, Relaxed);
        judge(plan, undisturbed, &reply, &whole, tally);
        if !reply.complete || reply.field("connection") == Some("close") {
            if times > 1 && undisturbed {
                tally.fail(format!(
                    "{plan:?}: the connection did not live for the next request: {}",
                    reply.head
                ));
            }
            return Ok(false);
        }
    }
    Ok(!matches!(plan.fault, Fault::Cancel | Fault::Reset | Fault::HalfClose) && buf.is_empty())
}

fn judge(plan: Plan, undisturbed: bool, reply: &Reply, whole: &[u8], tally: &Tally) {
    let own = reply.field("x-goodput-error").is_some();
    let status = if plan.fault == Fault::Unavailable { 503 } else { 200 };
    if undisturbed {
        if reply.status == status && !own && reply.complete && reply.body == whole {
            tally.identical.fetch_add(1, Relaxed);
            tally.bytes.fetch_add(whole.len() as u64, Relaxed);
        } else {
            tally.fail(format!(
                "{plan:?}: {} of {} bytes, complete {}, {}",
                reply.body.len(),
                whole.len(),
                reply.complete,
                reply.head
            ));
        }
    } else if own {
        if reply.status < 400 {
            tally.fail(format!("{plan:?}: an error of the proxy's own with status {}", reply.status));
        }
    } else if !whole.starts_with(&reply.body) {
        tally.fail(format!("{plan:?}: bytes that the upstream never sent"));
    } else if reply.complete && reply.body != whole && plan.fault != Fault::UntilClose {
        // HTTP/1.0 cannot tell the end of a body from the end of a server.
        tally.fail(format!("{plan:?}: a broken stream looks whole"));
    }
}
