//! The short way: an HTTP/1.1 client and an HTTP/1.1 upstream, both sockets read and written in place by one task.
//!
//! Most of a streaming proxy's cost is the system calls and wake-ups per chunk. Here one read of the upstream becomes one write to
//! the client, with the chunk framing as it came, and the tap reads beside it. The relay understands plain requests only (see
//! [`head`]): at the first byte of anything else (HTTP/2, upgrades, expectations, chunked uploads, odd or malformed heads) it
//! hands the connection, with what it has read, to the full server and never sees it again.
//!
//! [`between`] goes from one exchange to the next, a [`Transfer`] is an exchange under way; whoever owns the connection polls the
//! one or the other.
//!
//! Invariants are those of the full path: bytes unchanged, nothing held back, a second send only of what was never sent, a broken
//! reply never looks whole, one record per request.

mod answer;
mod between;
mod chunked;
pub(crate) mod fuzz;
mod head;
mod limits;
mod pending;
mod start;
mod terms;
mod transfer;
mod upload;

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

pub(in crate::proxy) use self::pending::poll_read_with;
pub(in crate::proxy) use self::terms::End;
pub(in crate::proxy) use self::transfer::Transfer;
use super::counters::Counters;
use super::pool::Pool;
use super::upstream::{Socket, Upstream};
use crate::config::{self, Config, Protocol};
use crate::lifecycle::{PhaseWatch, Tracker};
use crate::observe::Observer;

/// What all connections share.
pub(in crate::proxy) struct Relay {
    observer: Arc<Observer>,
    server: Upstream,
    pool: Arc<Pool<Socket>>,
    upstream: config::Upstream,
    header_timeout: Duration,
    max_head: usize,
    max_fields: usize,
    half_close: bool,
    one_worker: bool,
    max_requests: Option<usize>,
    requests: Tracker,
    counters: Arc<Counters>,
    phase: PhaseWatch,
}

impl fmt::Debug for Relay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Relay").finish_non_exhaustive()
    }
}

/// What comes next on a connection.
#[expect(clippy::large_enum_variant, reason = "nearly every step is the large one")]
pub(in crate::proxy) enum Step<C> {
    /// An exchange, to be polled to its end and then given to [`Relay::after`].
    Exchange(Transfer<C>),
    /// The full server must take the connection, beginning with these bytes.
    Http1(C, Bytes),
    /// As before, in HTTP/2.
    Http2(C, Bytes),
    /// Nothing: it is done with.
    Closed,
}

/// What leads to the next [`Step`]. Must be polled after every change of the phase.
pub(in crate::proxy) type Between<C> = Pin<Box<dyn Future<Output = Step<C>> + Send>>;

impl Relay {
    /// The relay for a checked configuration; none where every exchange needs the full server.
    pub(in crate::proxy) fn new(
        config: &Config,
        observer: &Arc<Observer>,
        upstream: &Upstream,
        requests: &Tracker,
        counters: &Arc<Counters>,
        phase: &PhaseWatch,
    ) -> Option<Arc<Self>> {
        // TLS keeps bytes of its own that only a flush sends, which the relay never does.
        if !config.relay || config.upstream.protocol != Protocol::Http1 || config.upstream.tls.is_some() || config.inject_usage {
            return None;
        }
        Some(Arc::new(Self {
            observer: Arc::clone(observer),
            server: upstream.clone(),
            pool: Arc::new(Pool::new(config.upstream.pool_max_idle, config.upstream.pool_idle_timeout)),
            upstream: config.upstream.clone(),
            header_timeout: config.limits.header_timeout,
            max_head: config.limits.max_header_bytes,
            max_fields: config.limits.max_headers,
            half_close: config.half_close,
            one_worker: config.workers <= 1,
            max_requests: config.limits.max_requests,
            requests: requests.clone(),
            counters: Arc::clone(counters),
            phase: phase.clone(),
        }))
    }
}
