//! The demo's clients: open-loop Poisson traffic over real connections. A request is sent when it is due, however many are still
//! under way, so that a slow engine is not spared. What the clients see is kept as a cross-check only.

use std::net::SocketAddr;
use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderValue, Method, Request, header};
use http_body_util::{BodyExt, Full};
use hyper_util::rt::TokioIo;
use serde_json::json;
use tokio::net::TcpStream;
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use super::engine::FAULT_HEADER;
use super::plan::{Kind, Plan, Planned};
use crate::clock;
use crate::measure::Stamp;

/// Most requests under way at once; past it a request is counted as skipped.
const MAX_UNDER_WAY: usize = 2048;
/// After the last request was sent, the rest have this long.
const PATIENCE: Duration = Duration::from_secs(20);
/// The same when the run was stopped early: what is left then is cut.
const STOPPED_PATIENCE: Duration = Duration::from_secs(2);
/// The model every request names.
const MODEL: &str = "demo-8b";

/// What the clients saw.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Tally {
    /// Requests sent.
    pub(super) sent: u64,
    /// Replies with status 200 that ended as HTTP says they should.
    pub(super) complete: u64,
    /// Replies with another status.
    pub(super) refused: u64,
    /// Replies that broke off.
    pub(super) broken: u64,
    /// Replies the client left on purpose.
    pub(super) left: u64,
    /// Requests not sent, since too many were under way.
    pub(super) skipped: u64,
    /// Sum of the times to the first body bytes of streams, and their number.
    pub(super) first: (Duration, u64),
}

impl Tally {
    /// Mean time to the first body bytes of a stream, as the clients saw it.
    pub(super) fn mean_first(&self) -> Option<Duration> {
        u32::try_from(self.first.1).ok().filter(|n| *n > 0).map(|n| self.first.0 / n)
    }
}

/// A shared [`Tally`].
pub(super) type Shared = Arc<Mutex<Tally>>;

/// Sends what `plan` holds for `length` to `address`, or until `stop` turns true; then waits for what is under way.
pub(super) async fn run(plan: Plan, length: Duration, address: SocketAddr, tally: Shared, mut stop: watch::Receiver<bool>) {
    let start = clock::now();
    let slots = Arc::new(Semaphore::new(MAX_UNDER_WAY));
    let mut under_way = JoinSet::new();
    let sending = async {
        for planned in plan.take_while(|p| p.at < length) {
            sleep(planned.at.saturating_sub(elapsed(start))).await;
            while under_way.try_join_next().is_some() {}
            let Ok(slot) = Arc::clone(&slots).try_acquire_owned() else {
                count(&tally, |t| t.skipped += 1);
                continue;
            };
            let tally = Arc::clone(&tally);
            under_way.spawn(async move {
                let _slot = slot;
                send(planned, address, &tally).await;
            });
        }
        sleep(length.saturating_sub(elapsed(start))).await;
    };
    let patience = tokio::select! {
        () = sending => PATIENCE,
        // An error means that nobody can ask any more.
        Ok(_) = stop.wait_for(|stop| *stop) => STOPPED_PATIENCE,
    };
    let rest = async { while under_way.join_next().await.is_some() {} };
    let _ = timeout(patience, rest).await;
}

fn elapsed(since: Stamp) -> Duration {
    Duration::from_nanos(clock::now().since(since))
}

fn count(tally: &Shared, what: impl FnOnce(&mut Tally)) {
    what(&mut tally.lock().unwrap_or_else(PoisonError::into_inner));
}

/// How one exchange ended for its client.
enum End {
    Complete,
    Refused,
    Broken,
    Left,
}

async fn send(planned: Planned, address: SocketAddr, tally: &Shared) {
    count(tally, |t| t.sent += 1);
    let mut first = None;
    let end = exchange(planned, address, &mut first).await.unwrap_or(End::Broken);
    count(tally, |t| {
        match end {
            End::Complete => t.complete += 1,
            End::Refused => t.refused += 1,
            End::Broken => t.broken += 1,
            End::Left => t.left += 1,
        }
        if let Some(first) = first.filter(|_| planned.kind != Kind::ChatUnary && !matches!(end, End::Refused)) {
            t.first.0 += first;
            t.first.1 += 1;
        }
    });
}

/// Any error means that the exchange broke off.
async fn exchange(
    planned: Planned,
    address: SocketAddr,
    first: &mut Option<Duration>,
) -> Result<End, Box<dyn std::error::Error + Send + Sync>> {
    let begun = clock::now();
    let stream = TcpStream::connect(address).await?;
    stream.set_nodelay(true)?;
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
    let mut connection = pin!(connection);
    let request = request(planned, address)?;
    // The connection is driven here and not in a task: leaving drops it at once.
    let mut frames = 0;
    let talk = async {
        let response = sender.send_request(request).await?;
        let refused = response.status() != http::StatusCode::OK;
        let mut body = response.into_body();
        while let Some(frame) = body.frame().await {
            frame?;
            first.get_or_insert_with(|| elapsed(begun));
            frames += 1;
            if planned.leaves_after.is_some_and(|after| frames >= after) {
                return Ok(End::Left);
            }
        }
        Ok::<_, hyper::Error>(if refused { End::Refused } else { End::Complete })
    };
    let mut talk = pin!(talk);
    tokio::select! {
        biased;
        end = &mut talk => Ok(end?),
        // Once the connection is through, what it received is still to be read.
        closed = &mut connection => {
            closed?;
            Ok(talk.await?)
        }
    }
}

fn request(planned: Planned, address: SocketAddr) -> http::Result<Request<Full<Bytes>>> {
    let prompt = "word ".repeat(usize::try_from(planned.prompt).unwrap_or_default());
    let stream = planned.kind != Kind::ChatUnary;
    let mut body = json!({"model": MODEL, "max_tokens": planned.output, "stream": stream});
    if stream && planned.usage {
        body["stream_options"] = json!({"include_usage": true});
    }
    let path = match planned.kind {
        Kind::Chat | Kind::ChatUnary => {
            body["messages"] = json!([{"role": "user", "content": prompt}]);
            "/v1/chat/completions"
        }
        Kind::Completions => {
            body["prompt"] = json!(prompt);
            "/v1/completions"
        }
    };
    let mut request = Request::builder()
        .method(Method::POST)
        .uri(path)
        .header(header::HOST, address.to_string())
        .header(header::CONTENT_TYPE, "application/json")
        .body(Full::new(Bytes::from(body.to_string())))?;
    if let Some(fault) = planned.fault {
        request
            .headers_mut()
            .insert(FAULT_HEADER, HeaderValue::from_static(fault.name()));
    }
    Ok(request)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::demo::engine::Engine;

    /// Traffic straight to the engine, on real sockets for a moment: every request ends in exactly one way, and both sides agree.
    #[tokio::test]
    async fn clients_and_engine_agree_on_the_requests() {
        let engine = Engine::start(3, 0.0).await.unwrap();
        let tally = Shared::default();
        let (_keep, stop) = watch::channel(false);
        run(
            Plan::new(4, 40.0),
            Duration::from_millis(500),
            engine.address,
            Arc::clone(&tally),
            stop,
        )
        .await;
        let tally = *tally.lock().unwrap();
        let planned = Plan::new(4, 40.0).take_while(|p| p.at < Duration::from_millis(500)).count() as u64;
        assert_eq!((tally.sent, tally.skipped), (planned, 0));
        assert_eq!(tally.complete + tally.refused + tally.broken + tally.left, planned);
        assert_eq!(engine.received.load(std::sync::atomic::Ordering::Relaxed), planned);
        assert!(tally.mean_first().unwrap() > Duration::from_millis(20));
    }
}
