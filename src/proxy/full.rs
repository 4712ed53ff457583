//! The full server: hyper's HTTP/1.1 and HTTP/2, for what the relay does not understand and where it is not used.
//!
//! On drain an idle connection closes at once, a busy one when its replies are through; one that never sent a whole head is
//! dropped. When the phase is [`Phase::Stopped`], everything is dropped: the exchanges then record themselves as drained.
//!
//! hyper's own head limit stays off: it also counts the time a connection is idle between requests, and a proxy that closes idle
//! connections after 30 s breaks load balancers that keep theirs for 60 s. [`super::client::Http1Io`] holds each head to the limit
//! from its first byte.

use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use hyper::body::Incoming;
use hyper::server::conn::{http1, http2};
use hyper::service::{Service, service_fn};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::{sleep, timeout};
use tower::Service as _;

use super::Proxy;
use super::client::{Client, Http1Io};
use super::connection::ClientStream;
use super::service::{self, ReplyBody};
use super::sniff::Prefixed;
use crate::config::{Config, Limits};
use crate::lifecycle::Phase;

/// hyper's own cap on header fields, for which it needs no allocation.
const HYPER_MAX_HEADERS: usize = 100;

/// Bytes that hyper buffers for a client that reads slowly, and in one read of a body.
const BUFFER_BYTES: usize = 64 * 1024;

/// Flow-control windows of an HTTP/2 client: one stream's uploads, all of a connection's.
const H2_STREAM_WINDOW: u32 = 1 << 20;
const H2_CONNECTION_WINDOW: u32 = 4 << 20;

/// An HTTP/2 client that says nothing is asked whether it is still there, and then given this long.
const H2_PING_INTERVAL: Duration = Duration::from_secs(60);
const H2_PING_TIMEOUT: Duration = Duration::from_secs(20);

/// A draining HTTP/2 connection without a stream waits this long for the client to confirm the goodbye.
const H2_GOODBYE: Duration = Duration::from_millis(200);

/// After a reply to a request whose body was not read: the client's bytes are read and dropped this long, since closing on unread
/// bytes resets the connection, and the reset may take the reply with it.
const LINGER: Duration = Duration::from_secs(2);

/// hyper's servers, set up once.
#[derive(Clone, Debug)]
pub(super) struct Servers {
    http1: http1::Builder,
    http2: http2::Builder<TokioExecutor>,
}

impl Servers {
    pub(super) fn new(config: &Config) -> Self {
        Self {
            http1: http1_server(&config.limits, config.half_close),
            http2: http2_server(&config.limits),
        }
    }
}

fn http1_server(limits: &Limits, half_close: bool) -> http1::Builder {
    let mut server = http1::Builder::new();
    server
        .timer(TokioTimer::new())
        .header_read_timeout(None)
        .preserve_header_case(true)
        .auto_date_header(false)
        .half_close(half_close)
        .pipeline_flush(false)
        .max_header_size(limits.max_header_bytes)
        .max_buf_size(limits.max_header_bytes.max(BUFFER_BYTES));
    if limits.max_headers != HYPER_MAX_HEADERS {
        server.max_headers(limits.max_headers);
    }
    server
}

fn http2_server(limits: &Limits) -> http2::Builder<TokioExecutor> {
    let mut server = http2::Builder::new(TokioExecutor::new());
    server
        .timer(TokioTimer::new())
        .auto_date_header(false)
        // Heads up to twice the limit are read, so that their refusal is ours and says why.
        .max_header_list_size(u32::try_from(2 * limits.max_header_bytes).unwrap_or(u32::MAX))
        .initial_stream_window_size(H2_STREAM_WINDOW)
        .initial_connection_window_size(H2_CONNECTION_WINDOW)
        .max_send_buf_size(BUFFER_BYTES)
        .keep_alive_interval(H2_PING_INTERVAL)
        .keep_alive_timeout(H2_PING_TIMEOUT);
    server
}

/// The seam between a connection and what answers its requests. The call itself begins the exchange, not the first poll of what it
/// gives: hyper drops that unpolled when the client's FIN came right behind its request, and such a request counts too.
fn handler(
    proxy: &Arc<Proxy>,
    client: &Arc<Client>,
) -> impl Service<Request<Incoming>, Response = Response<ReplyBody>, Error = Infallible, Future: Send> + use<> {
    let (proxy, client) = (Arc::clone(proxy), Arc::clone(client));
    // What stands between hyper and the handler (limits, timeouts) goes here, as tower layers.
    let answering = tower::service_fn(move |request| service::handle(&proxy, &client, request));
    service_fn(move |request| answering.clone().call(request))
}

/// Serves an HTTP/1.1 client, of whose bytes `prefix` is read.
pub(super) async fn http1<I: ClientStream>(io: I, prefix: Bytes, proxy: Arc<Proxy>) {
    let client = Arc::new(Client::default());
    let io = Prefixed::new(prefix, io);
    let io = Http1Io::new(
        io,
        Arc::clone(&client),
        Arc::clone(&proxy.counters),
        proxy.limits.header_timeout,
        proxy.half_close,
    );
    let service = handler(&proxy, &client);
    let mut conn = proxy
        .servers
        .http1
        .serve_connection(TokioIo::new(io), service)
        .with_upgrades();
    let mut phase = proxy.phase.clone();

    let ended = tokio::select! {
        biased;
        ended = &mut conn => Some(ended),
        () = phase.reached(Phase::Closing) => None,
    };
    let ended = match ended {
        Some(ended) => ended,
        // Half a head, and nothing before it.
        None if !client.has_begun() => return,
        None => {
            Pin::new(&mut conn).graceful_shutdown();
            tokio::select! {
                biased;
                ended = &mut conn => ended,
                () = phase.reached(Phase::Stopped) => {
                    abort(conn, &client);
                    return;
                }
            }
        }
    };
    let unread = client.is_upload_cut() || ended.as_ref().is_err_and(hyper::Error::is_parse);
    if let Err(error) = &ended {
        count(error, &proxy);
    }
    if unread {
        if let Some(io) = io_of(conn) {
            Box::pin(linger(io, phase.reached(Phase::Closing))).await;
        }
    } else if ended.is_err() {
        abort(conn, &client);
    }
}

type Http1Connection<I, S> = http1::UpgradeableConnection<TokioIo<Http1Io<Prefixed<I>>>, S>;

/// Drops a connection whose reply is not through, so that nobody can take the end for a clean one.
fn abort<I, S>(conn: Http1Connection<I, S>, client: &Client)
where
    I: ClientStream,
    S: Service<Request<Incoming>, Response = Response<ReplyBody>, Error = Infallible>,
{
    if client.is_old()
        && let Some(io) = io_of(conn)
    {
        io.reset_on_close();
    }
}

/// The client's transport. Not in [`http1`] itself, which would have room for all the parts as long as the connection.
fn io_of<I, S>(conn: Http1Connection<I, S>) -> Option<I>
where
    I: ClientStream,
    S: Service<Request<Incoming>, Response = Response<ReplyBody>, Error = Infallible>,
{
    let parts = conn.into_parts()?;
    Some(parts.io.into_inner().into_inner().into_inner())
}

fn count(error: &hyper::Error, proxy: &Proxy) {
    if error.is_parse_too_large() {
        proxy.counters.heads_too_large.add();
    } else if error.is_parse() {
        proxy.counters.heads_malformed.add();
    }
    tracing::debug!(%error, "client connection ended");
}

/// Ends our side and reads the client's to its end, for a while.
async fn linger<I: ClientStream>(mut io: I, cut: impl Future<Output = ()>) {
    let drain = async {
        let _ = io.shutdown().await;
        let mut dropped = vec![0; BUFFER_BYTES / 4];
        while io.read(&mut dropped).await.is_ok_and(|n| n > 0) {}
    };
    tokio::select! {
        _ = timeout(LINGER, drain) => {}
        () = cut => {}
    }
}

/// As [`http1`], with HTTP/2.
pub(super) async fn http2<I: ClientStream>(io: I, prefix: Bytes, proxy: Arc<Proxy>) {
    let client = Arc::new(Client::multiplexed());
    let service = handler(&proxy, &client);
    let mut conn = proxy
        .servers
        .http2
        .serve_connection(TokioIo::new(Prefixed::new(prefix, io)), service);
    let mut phase = proxy.phase.clone();

    let ended = tokio::select! {
        biased;
        ended = &mut conn => Some(ended),
        () = phase.reached(Phase::Closing) => None,
    };
    let ended = match ended {
        Some(ended) => ended,
        None => {
            Pin::new(&mut conn).graceful_shutdown();
            let goodbye = async {
                loop {
                    sleep(H2_GOODBYE).await;
                    if client.is_quiet() {
                        return;
                    }
                }
            };
            tokio::select! {
                biased;
                ended = &mut conn => ended,
                () = phase.reached(Phase::Stopped) => return,
                () = goodbye => return,
            }
        }
    };
    if let Err(error) = ended {
        tracing::debug!(%error, "HTTP/2 client connection ended");
    }
}
