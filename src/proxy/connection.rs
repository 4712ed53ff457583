//! One client connection from its first byte to its close.
//!
//! HTTP/2 with prior knowledge or HTTP/1, told apart by [`super::sniff`]; hyper's server does the protocol. On drain an idle
//! connection closes at once, a busy one when its replies are through; one that never sent a whole head is dropped. When the phase
//! is [`Phase::Stopped`], everything is dropped: the exchanges then record themselves as drained.
//!
//! hyper's own head limit stays off: it also counts the time a connection is idle between requests, and a proxy that closes idle
//! connections after 30 s breaks load balancers that keep theirs for 60 s. [`super::client::Http1Io`] holds each head to the limit
//! from its first byte.

use std::convert::Infallible;
use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use hyper::body::Incoming;
use hyper::server::conn::{http1, http2};
use hyper::service::{Service, service_fn};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, Interest};
use tokio::net::TcpStream;
use tokio::time::{sleep, timeout};
use tokio_rustls::TlsAcceptor;
use tower::Service as _;

use super::Proxy;
use super::client::{Client, Http1Io};
use super::relay::Left;
use super::service::{self, ReplyBody};
use super::sniff::{Prefixed, Sniffed, sniff};
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

/// A client's transport.
pub trait ClientStream: AsyncRead + AsyncWrite + Unpin + Send + 'static {
    /// Whether a written byte is sent without a flush, which the relay never does.
    const UNBUFFERED: bool = true;

    /// Makes the coming close a reset, where there is such a thing: an HTTP/1.0 client takes a clean close as the end of a body.
    fn reset_on_close(&self) {}

    /// Whether the client is gone as far as can be told without reading: it reset the connection or, with `fin`, ended its side. An
    /// end that is still behind bytes for which the socket has no room cannot be seen. Never true where the transport cannot tell.
    fn is_gone(&self, _fin: bool) -> bool {
        false
    }
}

impl ClientStream for TcpStream {
    fn is_gone(&self, fin: bool) -> bool {
        // What the reactor has heard so far: asked for once and never awaited, so that no wake-up of the reader's is taken.
        let state = pin!(self.ready(Interest::READABLE | Interest::ERROR));
        match state.poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(Ok(state)) => state.is_error() || (fin && state.is_read_closed()),
            Poll::Ready(Err(_)) => true,
            Poll::Pending => false,
        }
    }

    fn reset_on_close(&self) {
        let _ = socket2::SockRef::from(self).set_linger(Some(Duration::ZERO));
    }
}

impl ClientStream for tokio::io::DuplexStream {}

impl<I: ClientStream> ClientStream for Box<I> {
    const UNBUFFERED: bool = I::UNBUFFERED;

    fn reset_on_close(&self) {
        (**self).reset_on_close();
    }

    fn is_gone(&self, fin: bool) -> bool {
        (**self).is_gone(fin)
    }
}

impl<I: ClientStream> ClientStream for tokio_rustls::server::TlsStream<I> {
    const UNBUFFERED: bool = false;

    fn reset_on_close(&self) {
        self.get_ref().0.reset_on_close();
    }

    fn is_gone(&self, fin: bool) -> bool {
        self.get_ref().0.is_gone(fin)
    }
}

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

/// Serves one client connection to its end.
///
/// Each part has a box of its own: a future is as large as the largest thing it may wait for, and a stream over the relay must not
/// hold the memory of hyper's server for hours (13 KiB a connection became 1.5).
pub async fn serve_connection<I: ClientStream>(mut io: I, proxy: Arc<Proxy>) {
    let _open = proxy.under_way.connections.enter();
    let sniffed = Box::pin(async {
        let mut phase = proxy.phase.clone();
        tokio::select! {
            biased;
            sniffed = sniff(&mut io, proxy.limits.header_timeout) => sniffed,
            () = phase.reached(Phase::Closing) => Ok(Sniffed::Nothing),
        }
    });
    match sniffed.await {
        Ok(Sniffed::Http1(prefix)) => {
            let left = match proxy.relay.as_ref().filter(|_| I::UNBUFFERED) {
                // Moved, not copied: else the first read would stay with the connection to its end.
                Some(relay) => Box::pin(relay.serve(io, prefix.into(), proxy.phase.clone())).await,
                None => Left::Full(io, prefix.into()),
            };
            if let Left::Full(io, read) = left {
                Box::pin(http1(io, read.into(), &proxy)).await;
            }
        }
        Ok(Sniffed::Http2(prefix)) => Box::pin(http2(io, prefix, &proxy)).await,
        Ok(Sniffed::Nothing) => {}
        Ok(Sniffed::TooSlow) => proxy.counters.header_timeouts.add(),
        Err(error) => tracing::debug!(%error, "client connection failed before its first byte"),
    }
}

/// As [`serve_connection`], after a TLS handshake, which has the time that a request's head has.
pub async fn serve_tls_connection<I: ClientStream>(io: I, settings: Arc<rustls::ServerConfig>, proxy: Arc<Proxy>) {
    let mut phase = proxy.phase.clone();
    let handshake = Box::pin(timeout(
        proxy.limits.header_timeout,
        TlsAcceptor::from(settings).accept(io).into_fallible(),
    ));
    let done = tokio::select! {
        biased;
        done = handshake => done,
        // Nothing was asked for yet, so nothing is lost.
        () = phase.reached(Phase::Closing) => return,
    };
    match done {
        // Boxed: the session is over 1 KiB, and every future on the way would have room for it.
        Ok(Ok(io)) => serve_connection(Box::new(io), proxy).await,
        // Counted before the close: whoever sees that finds the count.
        Ok(Err((error, _io))) => {
            proxy.counters.tls_handshake_errors.add();
            tracing::debug!(%error, "TLS handshake with a client failed");
        }
        Err(_) => {
            proxy.counters.tls_handshake_errors.add();
            tracing::debug!("TLS handshake with a client took longer than limits.header_timeout");
        }
    }
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

async fn http1<I: ClientStream>(io: I, prefix: Bytes, proxy: &Arc<Proxy>) {
    let client = Arc::new(Client::default());
    let io = Prefixed::new(prefix, io);
    let io = Http1Io::new(
        io,
        Arc::clone(&client),
        Arc::clone(&proxy.counters),
        proxy.limits.header_timeout,
        proxy.half_close,
    );
    let service = handler(proxy, &client);
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
        count(error, proxy);
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

async fn http2<I: ClientStream>(io: I, prefix: Bytes, proxy: &Arc<Proxy>) {
    let client = Arc::new(Client::multiplexed());
    let service = handler(proxy, &client);
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

#[cfg(test)]
mod tests;
