//! The upstream side of the data path: connections, their reuse, and one exchange over them.
//!
//! [`Upstream::send`] gives the response head and a [`Body`] that hides the HTTP client behind it. Over HTTP/1.1 nothing is spawned
//! for an exchange: the connection is polled in place by `send` until the head, then by the body. Dropping either closes the
//! socket at once, so a client that leaves frees the model server, whether a byte came back or not.
//!
//! Invariants:
//! - a request is sent a second time only when a *reused* connection handed it back unwritten, and then once, over a fresh one;
//! - a broken response body is an error, never a clean end;
//! - head and body bytes pass unchanged; names keep their case between HTTP/1.1 hops (hyper carries it in the extensions).
//!
//! Caps: idle connections and their age ([`config::Upstream`]), head bytes and fields (same), 64 KiB of body in hyper's buffers.

mod body;
mod conn;
mod connect;
mod error;
mod h2;
mod limits;
mod marks;
mod prepare;
mod socket;
mod tls;
mod upload;

#[cfg(test)]
mod tests;

use std::fmt;
use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use bytes::Bytes;
use http::header::{CONTENT_LENGTH, EXPECT, TRANSFER_ENCODING};
use http::uri::Scheme;
use http::{HeaderMap, HeaderValue, Request, Response, StatusCode, Version};
use hyper::body::Incoming;

use self::conn::{Conn, Failure};
use self::limits::Limits;
use self::marks::{Gate, Marks};
use self::upload::Upload;
use super::pool::Pool;
use crate::clock;
use crate::config::{self, Protocol, Target};
use crate::measure::Stamp;

pub use self::body::Body;
pub use self::connect::Connector;
pub use self::error::{BodyError, BoxError, Limit, SendError};
pub(in crate::proxy) use self::socket::switched;
pub use self::socket::{BoxIo, Io, Socket};
pub use self::upload::EXPECT_PATIENCE;

/// What the caller wants to hear while a request is under way. All calls come from the task that polls `send` or the body,
/// but for `informational`, which an HTTP/1.1 parse makes. None may block.
pub trait Hooks: Send + Sync + 'static {
    /// The request goes out over a connection, reused or fresh: once, or twice when it came back unsent.
    fn attempt(&self, _reused: bool) {}

    /// The last request byte was handed to the socket at `at` (over HTTP/2: to the stream). Never called for an upload that was
    /// cut short.
    fn sent(&self, _at: Stamp) {}

    /// An informational reply other than 100 and 101 arrived. 100 is not handed on: by then the upload is being read, and that
    /// is what makes hyper's server send its own 100 to the client. HTTP/1.1 only; hyper drops them on HTTP/2.
    fn informational(&self, _status: StatusCode, _headers: &HeaderMap) {}
}

impl Hooks for () {}

/// Reports the end of the upload once.
pub(crate) struct Sent {
    hooks: Arc<dyn Hooks>,
    reported: bool,
}

impl Sent {
    fn report(&mut self, marks: &Marks) {
        if !self.reported
            && let Some(at) = marks.sent_at()
        {
            self.reported = true;
            self.hooks.sent(at);
        }
    }
}

/// The model server: connector, pool and limits. Cheap to clone. One runtime must own it, since its idle connections belong to
/// that runtime's reactor.
#[derive(Clone)]
pub struct Upstream(Arc<Inner>);

struct Inner {
    config: config::Upstream,
    connector: Connector,
    /// The upstream's own authority, for requests that name no host.
    authority: HeaderValue,
    pool: Arc<Pool<Conn>>,
    h2: h2::H2,
}

impl Upstream {
    /// The configured upstream. Connects when first needed.
    pub fn new(config: &config::Upstream) -> Self {
        Self::with_connector(config, Connector::to(&config.target))
    }

    /// The same over connections of another making.
    pub fn with_connector(config: &config::Upstream, connector: Connector) -> Self {
        let authority = match &config.target {
            Target::Tcp { host, port } if *port == if config.tls.is_some() { 443 } else { 80 } => host.clone(),
            Target::Tcp { host, port } => format!("{host}:{port}"),
            Target::Unix(_) => "localhost".to_owned(),
        };
        Self(Arc::new(Inner {
            config: config.clone(),
            connector,
            // A host that is no header value cannot be connected to either.
            authority: HeaderValue::from_str(&authority).unwrap_or_else(|_| HeaderValue::from_static("localhost")),
            pool: Arc::new(Pool::new(config.pool_max_idle, config.pool_idle_timeout)),
            h2: h2::H2::default(),
        }))
    }

    /// A fresh connection, for those who speak over it themselves; `left`: what is left of the whole exchange's limit.
    pub(in crate::proxy) async fn connect(&self, left: Option<Duration>) -> Result<Socket, SendError> {
        self.0.connect(left).await
    }

    /// Sends `request` and gives the final response head with its body. Hop-by-hop fields are the caller's business, extensions
    /// pass both ways untouched (a 101 carries hyper's `OnUpgrade` there). Dropping the future closes the connection.
    pub async fn send<B>(&self, request: Request<B>, hooks: Arc<dyn Hooks>) -> Result<Response<Body>, SendError>
    where
        B: http_body::Body<Data = Bytes> + Send + 'static,
        B::Error: Into<BoxError>,
    {
        let limits = Limits::new(&self.0.config, clock::now());
        let sent = Sent { hooks, reported: false };
        let mut request = request.map(Upload::new);
        match self.0.config.protocol {
            Protocol::Http1 => {
                prepare::http1(&mut request, &self.0.authority)?;
                self.0.send_http1(request, limits, sent).await
            }
            Protocol::H2c | Protocol::H2 => {
                let scheme = if self.0.config.tls.is_some() {
                    Scheme::HTTPS
                } else {
                    Scheme::HTTP
                };
                prepare::h2(&mut request, scheme, &self.0.authority)?;
                self.0.send_h2(request, limits, sent).await
            }
        }
    }
}

impl fmt::Debug for Upstream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Upstream")
            .field("target", &self.0.config.target)
            .finish_non_exhaustive()
    }
}

impl Inner {
    async fn send_http1(
        &self,
        mut request: Request<Upload>,
        mut limits: Limits,
        mut sent: Sent,
    ) -> Result<Response<Body>, SendError> {
        let gate = if expects_continue(request.headers()) {
            Gate::Held
        } else {
            Gate::Open
        };
        let mut pooled = self.pool.take().await;
        loop {
            let reused = pooled.is_some();
            let mut conn = match pooled.take() {
                Some(conn) => conn,
                None => Conn::open(self.connect(limits.total_left()).await?, &self.config).await?,
            };
            sent.hooks.attempt(reused);
            request.body_mut().bind(Arc::clone(conn.marks()), gate, false);
            listen(&mut request, conn.marks(), &sent.hooks);
            match conn.exchange(request, &mut limits, &mut sent).await {
                Ok(response) => return Ok(self.received(response, conn, limits, sent).await),
                Err(Failure {
                    unsent: Some(unsent), ..
                }) if reused => request = *unsent,
                Err(Failure { error, .. }) => return Err(error),
            }
        }
    }

    async fn received(&self, response: Response<Incoming>, mut conn: Conn, limits: Limits, sent: Sent) -> Response<Body> {
        if response.status() == StatusCode::SWITCHING_PROTOCOLS {
            conn.hand_over().await;
        }
        let (mut head, incoming) = response.into_parts();
        // A 204 has no body. One that announces it may send it all the same, where the next reply is expected.
        let surplus = head.status == StatusCode::NO_CONTENT
            && (head.headers.contains_key(TRANSFER_ENCODING) || head.headers.get(CONTENT_LENGTH).is_some_and(|n| n != "0"));
        let chunked_too = head.headers.contains_key(TRANSFER_ENCODING) && head.headers.remove(CONTENT_LENGTH).is_some();
        // Both framings in one head may be an attack on whoever reads the other one, so the connection is not trusted further.
        // And hyper would talk HTTP/1.0 on a connection that once answered with it, and then drop bodies without a length.
        let reusable = !chunked_too && !surplus && head.version == Version::HTTP_11;
        let pool = reusable.then(|| Arc::clone(&self.pool));
        let mut body = Body::http1(incoming, conn, pool, limits, sent);
        poll_fn(|cx| {
            body.settle(cx);
            Poll::Ready(())
        })
        .await;
        Response::from_parts(head, body)
    }

    async fn send_h2(
        &self,
        mut request: Request<Upload>,
        mut limits: Limits,
        mut sent: Sent,
    ) -> Result<Response<Body>, SendError> {
        let mut retried = false;
        loop {
            let (mut stream, reused) = self.h2.get(&self.config, self.connect(limits.total_left())).await?;
            sent.hooks.attempt(reused);
            let marks = Arc::new(Marks::new());
            request.body_mut().bind(Arc::clone(&marks), Gate::Open, true);
            match stream.exchange(request, &marks, &mut limits, &mut sent).await {
                Ok(response) => {
                    return Ok(response.map(|incoming| Body::h2(incoming, marks, stream, limits, sent)));
                }
                Err(Failure {
                    unsent: Some(unsent), ..
                }) if reused && !retried => {
                    retried = true;
                    request = *unsent;
                }
                Err(Failure { error, .. }) => return Err(error),
            }
        }
    }

    /// A fresh connection within the connect timeout and what is left of the whole exchange.
    async fn connect(&self, left: Option<Duration>) -> Result<Socket, SendError> {
        let patience = self.config.connect_timeout;
        let left = left.unwrap_or(patience);
        match tokio::time::timeout(patience.min(left), self.connector.connect()).await {
            Ok(Ok(io)) => Ok(io),
            Ok(Err(error)) => Err(self.unreachable(error.to_string())),
            Err(_) if left < patience => Err(SendError::Timeout(Limit::Total)),
            Err(_) => Err(self.unreachable(format!("no connection within {patience:?} (upstream.connect_timeout)"))),
        }
    }

    fn unreachable(&self, why: String) -> SendError {
        let name = self.name();
        // An address as written is in the system's answer already.
        SendError::Unreachable(if why.starts_with(&name) {
            why
        } else {
            format!("{name}: {why}")
        })
    }

    fn name(&self) -> String {
        match &self.config.target {
            Target::Tcp { host, port } => format!("{host}:{port}"),
            Target::Unix(path) => format!("unix:{}", path.display()),
        }
    }
}

/// Whether the client waits for `100 Continue`.
fn expects_continue(headers: &HeaderMap) -> bool {
    headers
        .get(EXPECT)
        .is_some_and(|value| value.as_bytes().eq_ignore_ascii_case(b"100-continue"))
}

/// Hears informational replies on this attempt: 100 opens the upload, others go to the hook.
fn listen(request: &mut Request<Upload>, marks: &Arc<Marks>, hooks: &Arc<dyn Hooks>) {
    let (marks, hooks) = (Arc::clone(marks), Arc::clone(hooks));
    hyper::ext::on_informational(request, move |response| match response.status() {
        StatusCode::CONTINUE => marks.open(),
        status => hooks.informational(status, response.headers()),
    });
}
