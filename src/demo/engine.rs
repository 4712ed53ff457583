//! The simulated model server: an OpenAI-compatible HTTP server on a free loopback port, whose tokens come from a [`Batch`] that
//! steps in real time on a thread of its own.
//!
//! A request says what is to go wrong with it in [`FAULT_HEADER`]. Every queue is bounded: past [`MAX_COMMANDS`] or the batch's own
//! cap a request gets 429, past [`MAX_BODY`] 413.

use std::collections::HashMap;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use std::{io, thread};

use http::{Method, Request, Response, StatusCode, header};
use http_body_util::{BodyExt, Limited};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc, oneshot};

use super::batch::{Batch, Id};
use super::plan::{Fault, OUTPUT_MAX};
use super::random::Random;
use super::reply::{Ask, Reply};
use crate::clock;

/// The header that orders a fault.
pub(super) const FAULT_HEADER: &str = "x-demo-fault";
/// Most admissions waiting for the scheduler's thread.
const MAX_COMMANDS: usize = 1024;
/// Largest request body, bytes.
const MAX_BODY: usize = 1 << 20;
/// Tokens of an output when the request sets no limit.
const DEFAULT_OUTPUT: u64 = 128;
/// A scheduler this far behind forgets the past: catching up would hand out tokens in bunches, which no engine does.
const MAX_LAG: Duration = Duration::from_millis(3);

/// Where the engine listens, and how many requests it has begun to answer.
#[derive(Debug)]
pub(super) struct Engine {
    /// Loopback address.
    pub(super) address: SocketAddr,
    /// Requests received.
    pub(super) received: Arc<AtomicU64>,
}

impl Engine {
    /// Binds, and serves on the present runtime for as long as it lives.
    pub(super) async fn start(seed: u64, spike: f64) -> io::Result<Self> {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
        let address = listener.local_addr()?;
        let (commands, work) = sync_channel(MAX_COMMANDS);
        let batch = Batch::new(seed, spike);
        thread::Builder::new()
            .name("demo-engine".to_owned())
            .spawn(move || schedule(batch, &work))?;
        let server = Arc::new(Server {
            commands,
            received: Arc::new(AtomicU64::new(0)),
            random: Mutex::new(Random::new(seed.wrapping_add(1))),
        });
        let received = Arc::clone(&server.received);
        tokio::spawn(accept(listener, server));
        Ok(Self { address, received })
    }
}

/// What a connection needs of the engine.
struct Server {
    commands: SyncSender<Admission>,
    received: Arc<AtomicU64>,
    random: Mutex<Random>,
}

/// A sequence on its way into the batch.
struct Admission {
    prompt: u64,
    output: u64,
    /// One `()` per token; room for all of them. Closed when the client left.
    tokens: mpsc::Sender<()>,
    taken: oneshot::Sender<bool>,
}

async fn accept(listener: TcpListener, server: Arc<Server>) {
    while let Ok((stream, _)) = listener.accept().await {
        tokio::spawn(connection(stream, Arc::clone(&server)));
    }
}

async fn connection(stream: TcpStream, server: Arc<Server>) {
    // Tokens are small writes; a refused option only makes them slower.
    let _ = stream.set_nodelay(true);
    let service = service_fn(move |request| {
        let server = Arc::clone(&server);
        async move { Ok::<_, Infallible>(server.answer(request).await) }
    });
    // Clients that leave and replies that break off end it with an error: that is the demo.
    let _ = hyper::server::conn::http1::Builder::new()
        .serve_connection(TokioIo::new(stream), service)
        .await;
}

impl Server {
    async fn answer(&self, request: Request<Incoming>) -> Response<Reply> {
        let path = request.uri().path().to_owned();
        let fault = request
            .headers()
            .get(FAULT_HEADER)
            .and_then(|v| v.to_str().ok())
            .and_then(Fault::named);
        if request.method() != Method::POST {
            return error(
                StatusCode::NOT_FOUND,
                "the demo engine serves POST /v1/chat/completions and /v1/completions",
            );
        }
        let Ok(body) = Limited::new(request.into_body(), MAX_BODY).collect().await else {
            return error(StatusCode::PAYLOAD_TOO_LARGE, "the request body is over 1 MiB or broke off");
        };
        let ask = match Ask::parse(&path, &body.to_bytes()) {
            Ok(ask) => ask,
            Err(why) => return error(StatusCode::BAD_REQUEST, &why),
        };
        self.received.fetch_add(1, Ordering::Relaxed);
        match fault {
            Some(Fault::Overloaded) => return error(StatusCode::TOO_MANY_REQUESTS, "simulated overload"),
            Some(Fault::Internal) => return error(StatusCode::INTERNAL_SERVER_ERROR, "simulated failure"),
            Some(Fault::InStream | Fault::Reset | Fault::Stall) | None => {}
        }
        let frontend = Batch::frontend(&mut self.random.lock().unwrap_or_else(PoisonError::into_inner));
        tokio::time::sleep(frontend).await;
        let output = ask.max_tokens.unwrap_or(DEFAULT_OUTPUT).clamp(1, OUTPUT_MAX);
        let Some(tokens) = self.admit(ask.prompt_tokens, output).await else {
            return error(StatusCode::TOO_MANY_REQUESTS, "the engine's queue is full");
        };
        Reply::begin(ask, output, fault, tokens).await
    }

    /// The stream of token ticks; none when the engine is full.
    async fn admit(&self, prompt: u64, output: u64) -> Option<mpsc::Receiver<()>> {
        let room = usize::try_from(output).unwrap_or(usize::MAX);
        let (tokens, ticks) = mpsc::channel(room);
        let (taken, answer) = oneshot::channel();
        self.commands
            .try_send(Admission {
                prompt,
                output,
                tokens,
                taken,
            })
            .ok()?;
        answer.await.ok()?.then_some(ticks)
    }
}

/// An error in OpenAI's shape.
fn error(status: StatusCode, message: &str) -> Response<Reply> {
    let body = serde_json::json!({"error": {"message": message, "type": "demo_engine", "code": status.as_u16()}});
    let mut response = Response::new(Reply::whole(body.to_string()));
    *response.status_mut() = status;
    response
        .headers_mut()
        .insert(header::CONTENT_TYPE, header::HeaderValue::from_static("application/json"));
    response
}

/// The scheduler's thread: steps the batch in real time and hands out its tokens. Ends with the last [`Server`].
fn schedule(mut batch: Batch, work: &Receiver<Admission>) {
    let mut clients: HashMap<Id, mpsc::Sender<()>> = HashMap::new();
    let mut next = 0;
    let mut due = clock::now();
    let mut take = |batch: &mut Batch, clients: &mut HashMap<_, _>, new: Admission| {
        next += 1;
        let taken = batch.admit(next, new.prompt, new.output);
        if taken {
            clients.insert(next, new.tokens);
        }
        // Nobody waits any more when the client has left meanwhile; its next token finds that out.
        let _ = new.taken.send(taken);
    };
    loop {
        if batch.is_idle() {
            let Ok(new) = work.recv() else { return };
            take(&mut batch, &mut clients, new);
            due = clock::now();
        }
        while let Ok(new) = work.try_recv() {
            take(&mut batch, &mut clients, new);
        }
        let step = batch.step();
        due = due.plus(u64::try_from(step.takes.as_nanos()).unwrap_or(u64::MAX));
        let now = clock::now();
        thread::sleep(Duration::from_nanos(due.since(now)));
        if Duration::from_nanos(now.since(due)) > MAX_LAG {
            due = now;
        }
        for (id, last) in step.tokens {
            let gone = clients.get(&id).is_none_or(|client| client.try_send(()).is_err());
            if gone {
                batch.cancel(id);
            }
            if gone || last {
                clients.remove(&id);
            }
        }
    }
}
