//! What can go wrong between the proxy and the upstream, typed by whose fault it is and what the caller does next.

use std::error::Error as StdError;
use std::{fmt, io};

use http::StatusCode;

use crate::measure::Ending;

/// Any error of a request body; its source is the client's side.
pub type BoxError = Box<dyn StdError + Send + Sync>;

/// One of the proxy's own time limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    /// From the request sent to the first response body byte.
    FirstByte,
    /// Between two reads of a response.
    Idle,
    /// The whole exchange.
    Total,
}

impl Limit {
    /// The value of `x-goodput-error`.
    pub const fn reason(self) -> &'static str {
        match self {
            Self::FirstByte => "first_byte_timeout",
            Self::Idle => "idle_timeout",
            Self::Total => "total_timeout",
        }
    }
}

/// Why there is no response head: the caller answers by itself.
#[derive(Debug)]
pub enum SendError {
    /// No connection could be made: every address refused, unknown name, or the connect timeout. The text says which.
    Unreachable(String),
    /// The upstream closed or reset the connection before a head was complete. It may have read the request: not sent again.
    ClosedBeforeHead,
    /// What came is not a response head (or not one that can be forwarded safely).
    Malformed(String),
    /// The response head has more bytes or fields than configured.
    HeadTooLarge,
    /// One of the proxy's own limits passed.
    Timeout(Limit),
    /// The client's upload broke off or is malformed. The text is for the log.
    RequestBody(String),
    /// The request cannot be put on the wire (for example an authority that is none).
    Request(String),
}

impl SendError {
    /// How the exchange ended, for the record.
    pub const fn ending(&self) -> Ending {
        match self {
            Self::Unreachable(_) => Ending::Unreachable,
            Self::ClosedBeforeHead | Self::Malformed(_) | Self::HeadTooLarge => Ending::UpstreamReset,
            Self::Timeout(_) => Ending::Timeout,
            Self::RequestBody(_) => Ending::ClientGone,
            Self::Request(_) => Ending::Rejected,
        }
    }

    /// The value of `x-goodput-error`.
    pub const fn reason(&self) -> &'static str {
        match self {
            Self::Unreachable(_) => "upstream_unreachable",
            Self::ClosedBeforeHead => "upstream_closed",
            Self::Malformed(_) => "upstream_malformed",
            Self::HeadTooLarge => "upstream_head_too_large",
            Self::Timeout(limit) => limit.reason(),
            Self::RequestBody(_) => "request_body",
            Self::Request(_) => "bad_request",
        }
    }

    /// The status of the proxy's own answer.
    pub const fn status(&self) -> StatusCode {
        match self {
            Self::Unreachable(_) | Self::ClosedBeforeHead | Self::Malformed(_) | Self::HeadTooLarge => StatusCode::BAD_GATEWAY,
            Self::Timeout(_) => StatusCode::GATEWAY_TIMEOUT,
            Self::RequestBody(_) | Self::Request(_) => StatusCode::BAD_REQUEST,
        }
    }

    /// Sorts an error that hyper gave in place of a head.
    pub(super) fn before_head(error: &hyper::Error, upload_failed: bool) -> Self {
        if upload_failed || error.is_body_write_aborted() {
            Self::RequestBody(chain(error))
        } else if error.is_parse_too_large() {
            Self::HeadTooLarge
        } else if error.is_parse() {
            Self::Malformed(error.to_string())
        } else {
            Self::ClosedBeforeHead
        }
    }
}

impl fmt::Display for SendError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unreachable(why) => write!(f, "cannot reach the upstream: {why}"),
            Self::ClosedBeforeHead => f.write_str("the upstream closed the connection before it sent a response head"),
            Self::Malformed(why) => write!(f, "the upstream's response head is malformed: {why}"),
            Self::HeadTooLarge => {
                f.write_str("the upstream's response head exceeds the limits (upstream.max_header_bytes, upstream.max_headers)")
            }
            Self::Timeout(limit) => write!(f, "the upstream did not answer in time ({})", limit.reason()),
            Self::RequestBody(_) => f.write_str("the request body broke off before its end"),
            Self::Request(why) => write!(f, "the request cannot be forwarded: {why}"),
        }
    }
}

impl StdError for SendError {}

/// Why a response body broke off. The client must see an aborted body, never a clean end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BodyError {
    /// The connection was reset, or the stream on it.
    Reset,
    /// It ended before its length or its last chunk.
    Truncated,
    /// Its framing is malformed.
    Malformed,
    /// One of the proxy's own limits passed.
    Timeout(Limit),
    /// The client's upload broke off while the reply was under way.
    RequestBody,
}

impl BodyError {
    /// How the exchange ended, for the record.
    pub const fn ending(self) -> Ending {
        match self {
            Self::Reset | Self::Truncated | Self::Malformed => Ending::UpstreamReset,
            Self::Timeout(_) => Ending::Timeout,
            Self::RequestBody => Ending::ClientGone,
        }
    }

    /// A short name for logs.
    pub const fn reason(self) -> &'static str {
        match self {
            Self::Reset => "upstream_reset",
            Self::Truncated => "upstream_truncated",
            Self::Malformed => "upstream_malformed",
            Self::Timeout(limit) => limit.reason(),
            Self::RequestBody => "request_body",
        }
    }

    /// Sorts an error of hyper's body or connection.
    pub(super) fn of(error: &hyper::Error, upload_failed: bool) -> Self {
        if upload_failed || error.is_body_write_aborted() {
            return Self::RequestBody;
        }
        let mut source: Option<&(dyn StdError + 'static)> = error.source();
        while let Some(cause) = source {
            if let Some(io) = cause.downcast_ref::<io::Error>() {
                // hyper's decoders report framing through the kind of an `io::Error`; what the socket itself says is a reset.
                return match io.kind() {
                    io::ErrorKind::UnexpectedEof => Self::Truncated,
                    io::ErrorKind::InvalidData | io::ErrorKind::InvalidInput => Self::Malformed,
                    _ => Self::Reset,
                };
            }
            source = cause.source();
        }
        if error.is_incomplete_message() {
            Self::Truncated
        } else {
            Self::Reset
        }
    }
}

impl fmt::Display for BodyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the response body broke off ({})", self.reason())
    }
}

impl StdError for BodyError {}

/// An error and its causes in one line.
pub(super) fn chain(error: &dyn StdError) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text.push_str(": ");
        text.push_str(&cause.to_string());
        source = cause.source();
    }
    text
}
