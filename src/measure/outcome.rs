//! How a request ended: what the transport saw ([`Ending`]) and the one verdict of the closed set ([`Outcome`]).

/// How the exchange ended on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// The client's side was dropped before the reply was through.
    ClientGone,
    /// The reply's body ended the way HTTP says it should.
    Complete,
    /// Cut by the proxy's own shutdown deadline.
    Drained,
    /// Refused by the proxy with a reply of its own (limits, malformed request).
    Rejected,
    /// One of the proxy's own time limits.
    Timeout,
    /// No connection to the upstream could be made.
    Unreachable,
    /// The upstream broke off: reset, short body, bad framing, closed before a head.
    UpstreamReset,
}

/// The outcome of a request. Exactly one per accepted request; together they sum to all of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Outcome {
    /// 2xx, complete, terminal signal or every finish reason seen where the format has one.
    Ok,
    /// 2xx and complete, but without a single token.
    Empty,
    /// Upstream 4xx other than 408 and 429.
    ClientError,
    /// Upstream 429 or 503.
    Overloaded,
    /// Other upstream 5xx, and 408.
    UpstreamError,
    /// An error event inside a 200 stream.
    StreamError,
    /// The body ended cleanly without a finish reason or terminal signal.
    Unterminated,
    /// The upstream broke off.
    UpstreamReset,
    /// No connection to the upstream.
    UpstreamUnreachable,
    /// One of the proxy's own limits.
    Timeout,
    /// The client left before the terminal signal.
    ClientCancelled,
    /// Cut by the proxy's own shutdown deadline.
    Drained,
    /// Refused by the proxy with its own 4xx/5xx.
    Rejected,
}

impl Outcome {
    /// Every outcome, in the order of the contract.
    pub const ALL: [Self; 13] = [
        Self::Ok,
        Self::Empty,
        Self::ClientError,
        Self::Overloaded,
        Self::UpstreamError,
        Self::StreamError,
        Self::Unterminated,
        Self::UpstreamReset,
        Self::UpstreamUnreachable,
        Self::Timeout,
        Self::ClientCancelled,
        Self::Drained,
        Self::Rejected,
    ];

    /// The value of the `outcome` label.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Empty => "empty",
            Self::ClientError => "client_error",
            Self::Overloaded => "overloaded",
            Self::UpstreamError => "upstream_error",
            Self::StreamError => "stream_error",
            Self::Unterminated => "unterminated",
            Self::UpstreamReset => "upstream_reset",
            Self::UpstreamUnreachable => "upstream_unreachable",
            Self::Timeout => "timeout",
            Self::ClientCancelled => "client_cancelled",
            Self::Drained => "drained",
            Self::Rejected => "rejected",
        }
    }

    /// The position in [`Outcome::ALL`].
    pub const fn index(self) -> usize {
        self as usize
    }
}
