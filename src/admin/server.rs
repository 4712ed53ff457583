//! Accepting and serving admin connections: HTTP/1.1, with TLS where it is configured, bounded in number, silence and size.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use rustls::ServerConfig;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio::time::timeout;
use tokio_io_timeout::TimeoutWriter;
use tokio_rustls::TlsAcceptor;

use super::{AdminState, routes};
use crate::mounted::Mounted;

/// Most admin connections at once; further ones wait in the kernel's backlog until one ends.
pub(super) const MAX_CONNECTIONS: usize = 128;
/// Longest wait for a TLS handshake, and for a complete request head; also how long an idle connection is kept.
const HEADER_TIMEOUT: Duration = Duration::from_secs(30);
/// Longest time a peer may take no byte of a reply.
const WRITE_TIMEOUT: Duration = Duration::from_secs(10);
/// Read buffer, and with it the largest request head, bytes.
const MAX_BUFFER: usize = 16 * 1024;
/// Pause after a failed accept (usually descriptors ran out).
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Serves the admin endpoints on `listener` until dropped, with TLS where there are `settings` for it.
pub async fn serve(listener: TcpListener, state: AdminState, settings: Option<Arc<Mounted<ServerConfig>>>) {
    let slots = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    loop {
        // An error means the semaphore was closed, which nobody does.
        let Ok(slot) = Arc::clone(&slots).acquire_owned().await else {
            return;
        };
        match listener.accept().await {
            Ok((socket, _)) => {
                // Without it a small reply may wait for the peer's delayed acknowledgement; it works all the same.
                let _ = socket.set_nodelay(true);
                let (state, settings) = (state.clone(), settings.as_ref().map(|mounted| mounted.get()));
                tokio::spawn(async move {
                    match settings {
                        Some(settings) => serve_tls_connection(socket, settings, state).await,
                        None => serve_connection(socket, state).await,
                    }
                    drop(slot);
                });
            }
            Err(error) => {
                tracing::warn!(%error, "admin port: accept failed");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

/// As [`serve_connection`], after a TLS handshake.
pub async fn serve_tls_connection(
    io: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    settings: Arc<ServerConfig>,
    state: AdminState,
) {
    match timeout(HEADER_TIMEOUT, TlsAcceptor::from(settings).accept(io)).await {
        Ok(Ok(io)) => serve_connection(io, state).await,
        Ok(Err(error)) => tracing::debug!(%error, "admin port: TLS handshake failed"),
        Err(_) => tracing::debug!("admin port: TLS handshake took longer than {HEADER_TIMEOUT:?}"),
    }
}

/// Serves one admin connection to its end.
pub async fn serve_connection(io: impl AsyncRead + AsyncWrite + Send + 'static, state: AdminState) {
    let mut io = TimeoutWriter::new(io);
    io.set_timeout(Some(WRITE_TIMEOUT));
    let service = service_fn(move |request| {
        let state = state.clone();
        async move { Ok::<_, Infallible>(routes::answer(&request, &state).await) }
    });
    let mut builder = http1::Builder::new();
    builder
        .timer(TokioTimer::new())
        .header_read_timeout(HEADER_TIMEOUT)
        .max_buf_size(MAX_BUFFER);
    if let Err(error) = builder.serve_connection(TokioIo::new(Box::pin(io)), service).await {
        tracing::debug!(%error, "admin connection ended early");
    }
}
