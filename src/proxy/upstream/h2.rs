//! HTTP/2 connections (prior knowledge, or picked by ALPN over TLS), shared by all requests, each driven by a task of its own. One
//! is made when first needed; another beside it when all have as many streams as their server allows at once, since a request that
//! waited for one of them to end would wait for somebody's whole reply.
//!
//! Caps: [`MAX_STREAMS`] a connection, [`MAX_CONNECTIONS`]; past both, requests wait for a stream of the least busy connection.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Poll;
use std::time::Duration;

use http::{Request, Response};
use hyper::body::Incoming;
use hyper::client::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use tokio::time::timeout;

use super::conn::Failure;
use super::error::SendError;
use super::limits::{Limits, Progress};
use super::marks::Marks;
use super::socket::{Socket, StampedIo};
use super::upload::Upload;
use super::{Sent, error};
use crate::clock;
use crate::config;
use crate::measure::Stamp;

/// Receive window of one stream: what a client that reads nothing may leave waiting here, bytes.
const STREAM_WINDOW: u32 = 256 * 1024;

/// Receive window of the connection, bytes: those of all its streams fit in, so nobody who reads is held up by those who do not.
const CONNECTION_WINDOW: u32 = 64 * 1024 * 1024;

/// Most streams on one connection.
const MAX_STREAMS: usize = 200;
const _: () = assert!(MAX_STREAMS * STREAM_WINDOW as usize <= CONNECTION_WINDOW as usize);

/// Most connections.
const MAX_CONNECTIONS: usize = 256;

/// A PING this often while streams are open finds a dead peer.
const PING_INTERVAL: Duration = Duration::from_secs(30);
const PING_TIMEOUT: Duration = Duration::from_secs(20);

#[derive(Default)]
pub(super) struct H2 {
    live: Mutex<Vec<Live>>,
    /// Held while connecting, so that waiting requests share what comes of it.
    connecting: tokio::sync::Mutex<()>,
}

/// One connection.
struct Live {
    sender: http2::SendRequest<Upload>,
    socket: Arc<Marks>,
    load: Arc<Load>,
}

/// How busy a connection is.
struct Load {
    /// Streams under way.
    open: AtomicUsize,
    /// As many as the server allows at once.
    most: AtomicUsize,
    /// When the last one ended, ns.
    idle_since: AtomicU64,
}

/// A stream on a connection, counted there until it is dropped.
pub(super) struct Stream {
    sender: http2::SendRequest<Upload>,
    /// The socket's marks.
    pub(super) socket: Arc<Marks>,
    load: Arc<Load>,
}

impl H2 {
    /// A stream, and whether its connection was there before. The connection is waited for as long as for one of its own.
    pub(super) async fn get<F>(&self, config: &config::Upstream, connect: F) -> Result<(Stream, bool), SendError>
    where
        F: Future<Output = Result<Socket, SendError>>,
    {
        if let Some(stream) = self.take(config) {
            return Ok((stream, true));
        }
        let Ok(_connecting) = timeout(config.connect_timeout, self.connecting.lock()).await else {
            let patience = config.connect_timeout;
            let why = format!("no connection within {patience:?} (upstream.connect_timeout), others wait too");
            return Err(SendError::Unreachable(why));
        };
        if let Some(stream) = self.take(config) {
            return Ok((stream, true));
        }
        let fresh = Live::open(connect.await?, config).await?;
        let stream = fresh.stream();
        self.live().push(fresh);
        Ok((stream, false))
    }

    /// A stream of a connection that has room for it; the fullest of them, so that others may fall idle and be let go.
    fn take(&self, config: &config::Upstream) -> Option<Stream> {
        let mut live = self.live();
        live.retain(|connection| !connection.sender.is_closed());
        let roomy = live.iter().filter(|connection| connection.load.has_room());
        let chosen = match roomy.max_by_key(|connection| connection.load.open()) {
            Some(connection) => connection.stream(),
            None if live.len() < MAX_CONNECTIONS => return None,
            None => live.iter().min_by_key(|connection| connection.load.open())?.stream(),
        };
        let now = clock::now();
        live.retain(|connection| !connection.load.is_idle_for(config.pool_idle_timeout, now));
        Some(chosen)
    }

    fn live(&self) -> MutexGuard<'_, Vec<Live>> {
        self.live.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Load {
    fn open(&self) -> usize {
        self.open.load(Relaxed)
    }

    fn has_room(&self) -> bool {
        let open = self.open();
        // Whatever a server says: on an idle connection a stream is at least first in line.
        open == 0 || open < self.most.load(Relaxed).min(MAX_STREAMS)
    }

    fn is_idle_for(&self, limit: Duration, now: Stamp) -> bool {
        let since = Stamp::from_nanos(self.idle_since.load(Relaxed));
        self.open() == 0 && u128::from(now.since(since)) > limit.as_nanos()
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        self.load.idle_since.store(clock::now().as_nanos(), Relaxed);
        self.load.open.fetch_sub(1, Relaxed);
    }
}

impl Live {
    async fn open(io: Socket, config: &config::Upstream) -> Result<Self, SendError> {
        let socket = Arc::new(Marks::new());
        let mut builder = http2::Builder::new(TokioExecutor::new());
        builder
            .timer(TokioTimer::new())
            .initial_stream_window_size(STREAM_WINDOW)
            .initial_connection_window_size(CONNECTION_WINDOW)
            .keep_alive_interval(PING_INTERVAL)
            .keep_alive_timeout(PING_TIMEOUT)
            .max_header_list_size(u32::try_from(config.max_header_bytes).unwrap_or(u32::MAX));
        let io = TokioIo::new(StampedIo::new(io, Arc::clone(&socket)));
        let (sender, connection) = builder
            .handshake(io)
            .await
            .map_err(|e| SendError::Unreachable(format!("HTTP/2 handshake: {}", error::chain(&e))))?;
        let load = Arc::new(Load {
            open: AtomicUsize::new(0),
            most: AtomicUsize::new(MAX_STREAMS),
            idle_since: AtomicU64::new(clock::now().as_nanos()),
        });
        tokio::spawn(drive(connection, Arc::clone(&load)));
        Ok(Self { sender, socket, load })
    }

    fn stream(&self) -> Stream {
        self.load.open.fetch_add(1, Relaxed);
        Stream {
            sender: self.sender.clone(),
            socket: Arc::clone(&self.socket),
            load: Arc::clone(&self.load),
        }
    }
}

/// Drives a connection to its end, and keeps up with what its server allows.
async fn drive(connection: http2::Connection<TokioIo<StampedIo>, Upload, TokioExecutor>, load: Arc<Load>) {
    let mut connection = pin!(connection);
    let ended = poll_fn(|cx| {
        let ended = connection.as_mut().poll(cx);
        if ended.is_pending() {
            load.most.store(connection.current_max_send_streams(), Relaxed);
        }
        ended
    })
    .await;
    if let Err(error) = ended {
        tracing::debug!(error = error::chain(&error), "an HTTP/2 connection to the upstream ended");
    }
}

impl Stream {
    /// Sends `request`, whose upload is bound to `marks`, and waits for the head. Dropped, it resets the stream.
    pub(super) async fn exchange(
        &mut self,
        request: Request<Upload>,
        marks: &Arc<Marks>,
        limits: &mut Limits,
        sent: &mut Sent,
    ) -> Result<Response<Incoming>, Failure> {
        let mut response = pin!(self.sender.try_send_request(request));
        let result = poll_fn(|cx| {
            marks.wake_on_sent(cx.waker());
            sent.report(marks);
            if let Poll::Ready(result) = response.as_mut().poll(cx) {
                return Poll::Ready(Ok(result));
            }
            limits.poll(cx, marks).map(Err)
        })
        .await;
        match result {
            Ok(Ok(response)) => {
                limits.progress = Progress::Head;
                Ok(response)
            }
            Ok(Err(mut failed)) => {
                let unsent = failed.take_message().map(Box::new);
                Err(Failure {
                    error: SendError::before_head(&failed.into_error(), marks.has_upload_failed()),
                    unsent,
                })
            }
            Err(limit) => Err(Failure {
                error: SendError::Timeout(limit),
                unsent: None,
            }),
        }
    }
}
