//! Connections to the upstream: every address of a name is tried, a refused one falls through at once, a silent one is overtaken.

use std::fmt;
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::{TcpStream, UnixStream, lookup_host};
use tokio::task::JoinSet;

use super::socket::{BoxIo, Socket};
use crate::config::Target;
use crate::proxy::tcp;

/// A silent address is given this long before the next one is tried beside it (RFC 8305, 5).
pub(super) const ATTEMPT_DELAY: Duration = Duration::from_millis(250);

/// Most addresses of one name that are tried.
const MAX_ADDRESSES: usize = 16;

type Connecting = Pin<Box<dyn Future<Output = io::Result<Socket>> + Send>>;

/// Makes connections. Cheap to clone.
#[derive(Clone)]
pub struct Connector(pub(super) Arc<dyn Fn() -> Connecting + Send + Sync>);

impl Connector {
    /// Calls `connect` for each connection.
    pub fn new<F, Fut>(connect: F) -> Self
    where
        F: Fn() -> Fut + Send + Sync + 'static,
        Fut: Future<Output = io::Result<BoxIo>> + Send + 'static,
    {
        Self(Arc::new(move || {
            let connecting = connect();
            Box::pin(async move { connecting.await.map(Socket::Other) })
        }))
    }

    /// The connector for a configured target.
    pub fn to(target: &Target) -> Self {
        match target {
            Target::Tcp { host, port } => {
                let host: Arc<str> = host.trim_start_matches('[').trim_end_matches(']').into();
                let port = *port;
                Self(Arc::new(move || Box::pin(tcp(Arc::clone(&host), port))))
            }
            Target::Unix(path) => {
                let path: Arc<PathBuf> = Arc::new(path.clone());
                Self(Arc::new(move || {
                    let path = Arc::clone(&path);
                    Box::pin(async move { UnixStream::connect(&*path).await.map(Socket::Unix) })
                }))
            }
        }
    }

    pub(crate) async fn connect(&self) -> io::Result<Socket> {
        (self.0)().await
    }
}

impl fmt::Debug for Connector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Connector")
    }
}

async fn tcp(host: Arc<str>, port: u16) -> io::Result<Socket> {
    let addresses: Vec<SocketAddr> = lookup_host((&*host, port)).await?.take(MAX_ADDRESSES).collect();
    let stream = any_of(addresses).await?;
    tcp::set_up(&stream);
    Ok(Socket::Tcp(stream))
}

/// The first of `addresses` that answers. Each starts when the one before has failed or been silent for [`ATTEMPT_DELAY`].
pub(super) async fn any_of(addresses: Vec<SocketAddr>) -> io::Result<TcpStream> {
    let mut rest = addresses.into_iter();
    let first = rest
        .next()
        .ok_or_else(|| io::Error::new(io::ErrorKind::NotFound, "the name has no address"))?;
    if rest.len() == 0 {
        return attempt(first).await;
    }
    let mut attempts = JoinSet::new();
    attempts.spawn(attempt(first));
    let mut failures = Vec::new();
    loop {
        tokio::select! {
            ended = attempts.join_next() => match ended {
                Some(Ok(Ok(stream))) => return Ok(stream),
                Some(Ok(Err(error))) => failures.push(error),
                Some(Err(error)) => failures.push(io::Error::other(error)),
                None => return Err(all_failed(&failures)),
            },
            () = tokio::time::sleep(ATTEMPT_DELAY), if rest.len() > 0 => {}
        }
        if let Some(address) = rest.next() {
            attempts.spawn(attempt(address));
        }
    }
}

async fn attempt(address: SocketAddr) -> io::Result<TcpStream> {
    TcpStream::connect(address)
        .await
        .map_err(|error| io::Error::new(error.kind(), format!("{address}: {error}")))
}

fn all_failed(failures: &[io::Error]) -> io::Error {
    let kind = failures.first().map_or(io::ErrorKind::Other, io::Error::kind);
    let texts: Vec<String> = failures.iter().map(ToString::to_string).collect();
    io::Error::new(kind, texts.join("; "))
}
