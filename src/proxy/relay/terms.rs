//! What an exchange over the relay is told, and what becomes of it.

use super::head::{BadHead, Limits};
use crate::measure::Ending;
use crate::proxy::upstream::Limit;

/// How an exchange over the relay ended.
#[derive(Debug)]
pub(in crate::proxy) enum End {
    /// The reply is through. `reusable`: the upstream connection may serve again.
    Complete { reusable: bool },
    /// The client is gone.
    ClientGone,
    /// Nothing reached the client yet: the proxy answers by itself.
    NoHead(Failure),
    /// The reply broke off: the client must see an aborted body.
    Aborted(Ending),
}

/// Why there is no reply to pass on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::proxy) enum Failure {
    /// The connection ended before a head.
    Closed,
    /// What came is no response head.
    Head(BadHead),
    /// One of the proxy's limits.
    Timeout(Limit),
}

/// What the exchange must know of its request and of the configuration.
#[derive(Clone, Copy, Debug)]
pub(super) struct Terms {
    /// The request was HEAD.
    pub(super) is_head: bool,
    /// The client's connection closes after the reply.
    pub(super) close: bool,
    /// Serve on after the client's FIN.
    pub(super) half_close: bool,
    /// Sockets are heard of by the thread that polls them: no wake-up is still on its way while they are read.
    pub(super) one_worker: bool,
    /// How large the response head may be.
    pub(super) head: Limits,
}
