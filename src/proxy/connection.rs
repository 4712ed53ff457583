//! One client connection from its first byte to its close: the future of its task.
//!
//! HTTP/2 with prior knowledge or HTTP/1, told apart by [`super::sniff`]; plain exchanges go over the [relay](super::relay), all
//! else over the [full server](super::full).

use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, Waker, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, Interest};
use tokio::net::TcpStream;
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;

use super::relay::{Between, End, Step, Transfer};
use super::sniff::{Sniffed, sniff};
use super::{Proxy, full};
use crate::lifecycle::{Phase, Tracked, Until};

/// A client's transport.
pub trait ClientStream: AsyncRead + AsyncWrite + Unpin + Send + 'static {
    /// Whether a written byte is sent without a flush, which the relay never does.
    const UNBUFFERED: bool = true;

    /// Makes the coming close a reset, where there is such a thing: an HTTP/1.0 client takes a clean close as the end of a body.
    fn reset_on_close(&self) {}

    /// Whether a read could bring nothing, neither bytes nor an end: one that was in vain is then still awaited. Never true where the
    /// transport cannot tell.
    fn is_quiet(&self) -> bool {
        false
    }

    /// Whether the client is gone as far as can be told without reading: it reset the connection or, with `fin`, ended its side. An
    /// end that is still behind bytes for which the socket has no room cannot be seen. Never true where the transport cannot tell.
    fn is_gone(&self, _fin: bool) -> bool {
        false
    }
}

impl ClientStream for TcpStream {
    #[inline]
    fn is_quiet(&self) -> bool {
        // Asks the reactor only, not the system.
        self.try_io(Interest::READABLE, || Ok(())).is_err()
    }

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

    fn is_quiet(&self) -> bool {
        (**self).is_quiet()
    }

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

/// Serves one client connection to its end.
pub fn serve_connection<I: ClientStream>(io: I, proxy: Arc<Proxy>) -> impl Future<Output = ()> + Send {
    Connection::new(io, proxy, None)
}

/// A client connection; ready once it is over.
///
/// Written out, not as `async` blocks within each other: every one of these keeps its state in a place of its own, each a cache
/// miss that every chunk of hundreds of streams pays. Here a chunk finds its [`Transfer`] in the task itself.
pub(super) struct Connection<I> {
    stage: Stage<I>,
    stopped: Until,
    proxy: Arc<Proxy>,
    _open: Tracked,
    _slot: Option<OwnedSemaphorePermit>,
}

#[expect(clippy::large_enum_variant, reason = "the large one is there to lie in the task, see above")]
enum Stage<I> {
    /// An exchange over the relay.
    Exchange(Transfer<I>),
    /// On the way to one: to the connection's first bytes, and then from request to request.
    Between(Between<I>),
    /// Boxed, like what is between: a stream over the relay must not hold the memory of hyper's server for hours.
    Full(Pin<Box<dyn Future<Output = ()> + Send>>),
    Over,
}

impl<I: ClientStream> Connection<I> {
    /// Holds `slot` to its end.
    pub(super) fn new(io: I, proxy: Arc<Proxy>, slot: Option<OwnedSemaphorePermit>) -> Self {
        Self {
            stage: Stage::Between(Box::pin(begin(io, Arc::clone(&proxy)))),
            stopped: proxy.phase.until(Phase::Stopped),
            _open: proxy.under_way.connections.enter(),
            _slot: slot,
            proxy,
        }
    }

    /// The exchange came to `end`, or was cut.
    fn leave(&mut self, end: Option<End>) {
        if let (Stage::Exchange(transfer), Some(end), Some(relay)) =
            (std::mem::replace(&mut self.stage, Stage::Over), end, &self.proxy.relay)
            && let Some(between) = relay.after(transfer, &end)
        {
            self.stage = Stage::Between(between);
        }
    }

    fn enter(&mut self, step: Step<I>) {
        self.stage = match step {
            Step::Exchange(transfer) => Stage::Exchange(transfer),
            Step::Http1(io, read) => Stage::Full(Box::pin(full::http1(io, read, Arc::clone(&self.proxy)))),
            Step::Http2(io, read) => Stage::Full(Box::pin(full::http2(io, read, Arc::clone(&self.proxy)))),
            Step::Closed => Stage::Over,
        };
    }
}

impl<I: ClientStream> Future for Connection<I> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let this = &mut *self;
        loop {
            match &mut this.stage {
                Stage::Exchange(transfer) => {
                    let end = ready!(this.stopped.poll(cx, |cx| transfer.poll(cx)));
                    this.leave(end);
                }
                Stage::Between(between) => {
                    let step = ready!(this.stopped.poll(cx, |cx| between.as_mut().poll(cx)));
                    this.enter(step.unwrap_or(Step::Closed));
                }
                Stage::Full(serving) => {
                    ready!(serving.as_mut().poll(cx));
                    this.stage = Stage::Over;
                }
                Stage::Over => return Poll::Ready(()),
            }
        }
    }
}

/// What the connection's first bytes lead to.
async fn begin<I: ClientStream>(mut io: I, proxy: Arc<Proxy>) -> Step<I> {
    // Boxed, since the rest waits for hours and this does not.
    let sniffed = Box::pin(async {
        let mut phase = proxy.phase.clone();
        tokio::select! {
            biased;
            sniffed = sniff(&mut io, proxy.limits.header_timeout) => sniffed,
            () = phase.reached(Phase::Closing) => Ok(Sniffed::Nothing),
        }
    });
    match sniffed.await {
        // The bytes are moved, not copied: else the first read would stay with the connection to its end.
        Ok(Sniffed::Http1(read)) => match proxy.relay.as_ref().filter(|_| I::UNBUFFERED) {
            Some(relay) => Arc::clone(relay).next(io, read.into()).await,
            None => Step::Http1(io, read),
        },
        Ok(Sniffed::Http2(read)) => Step::Http2(io, read),
        Ok(Sniffed::Nothing) => Step::Closed,
        Ok(Sniffed::TooSlow) => {
            proxy.counters.header_timeouts.add();
            Step::Closed
        }
        Err(error) => {
            tracing::debug!(%error, "client connection failed before its first byte");
            Step::Closed
        }
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

#[cfg(test)]
mod tests;
