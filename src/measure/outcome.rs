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

/// How much of a reply's content is known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Seen {
    /// Nothing: forwarded unread, or it could not be read (to its end).
    #[default]
    Unread,
    /// A unary reply.
    Whole {
        /// Some choice holds output.
        output: bool,
        /// A truthy error object.
        error: bool,
    },
    /// A stream.
    Stream {
        /// At least one token-bearing event.
        output: bool,
        /// The terminal signal, or a finish reason for every choice.
        finished: bool,
        /// An error event.
        error: bool,
    },
}

impl Seen {
    fn error(self) -> bool {
        matches!(self, Self::Whole { error: true, .. } | Self::Stream { error: true, .. })
    }

    /// The outcome of a reply of which nothing is missing.
    fn complete(self) -> Outcome {
        match self {
            Self::Unread => Outcome::Ok,
            Self::Whole { output: false, .. } | Self::Stream { output: false, .. } => Outcome::Empty,
            Self::Whole { output: true, .. } | Self::Stream { finished: true, .. } => Outcome::Ok,
            Self::Stream { finished: false, .. } => Outcome::Unterminated,
        }
    }
}

/// Decides the outcome: from the upstream's `status` (none when it gave no head), what its reply said, and how the wire ended.
///
/// * An error status decides by itself, also when the client did not wait for the end of the error's body.
/// * An error inside a 2xx reply wins over whatever follows it.
/// * A stream that was finished when the client left, or when a limit or the shutdown deadline cut it, lost nothing: it is judged
///   as complete. Broken off by the upstream it is not, since the client sees a broken transfer.
/// * Complete without a token is `empty`, whether a terminal signal came or not. An unread reply is `ok` when complete.
/// * 101 and 3xx replies go by the same rules as 2xx: on a route that is read, a redirect without a token is `empty`.
pub fn decide(ending: Ending, status: Option<u16>, seen: Seen) -> Outcome {
    let cut = match ending {
        Ending::Rejected => return Outcome::Rejected,
        Ending::Unreachable => return Outcome::UpstreamUnreachable,
        Ending::ClientGone => Outcome::ClientCancelled,
        Ending::Drained => Outcome::Drained,
        Ending::Timeout => Outcome::Timeout,
        // "Complete" without a head: there was nothing to complete.
        Ending::UpstreamReset | Ending::Complete => Outcome::UpstreamReset,
    };
    if let Some(outcome) = status.and_then(of_error_status) {
        return outcome;
    }
    if seen.error() {
        return Outcome::StreamError;
    }
    let whole = match ending {
        Ending::Complete => status.is_some(),
        Ending::UpstreamReset => false,
        Ending::ClientGone | Ending::Drained | Ending::Timeout | Ending::Rejected | Ending::Unreachable => {
            matches!(seen, Seen::Stream { finished: true, .. })
        }
    };
    if whole { seen.complete() } else { cut }
}

fn of_error_status(status: u16) -> Option<Outcome> {
    match status {
        429 | 503 => Some(Outcome::Overloaded),
        408 | 500.. => Some(Outcome::UpstreamError),
        400..=499 => Some(Outcome::ClientError),
        0..=399 => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TOKENS: Seen = Seen::Stream {
        output: true,
        finished: false,
        error: false,
    };
    const NOTHING: Seen = Seen::Stream {
        output: false,
        finished: false,
        error: false,
    };
    const FINISHED: Seen = Seen::Stream {
        output: true,
        finished: true,
        error: false,
    };
    const FAILED: Seen = Seen::Stream {
        output: true,
        finished: true,
        error: true,
    };

    /// When (rows) and by whom (columns: client, upstream reset, upstream clean end, drain, limit) a 200 stream ended.
    #[test]
    fn every_cell_of_the_cancellation_matrix_has_its_outcome() {
        use Outcome::*;
        let endings = [
            Ending::ClientGone,
            Ending::UpstreamReset,
            Ending::Complete,
            Ending::Drained,
            Ending::Timeout,
        ];
        let rows: [(&str, Option<u16>, Seen, [Outcome; 5]); 5] = [
            (
                "before the head",
                None,
                Seen::Unread,
                [ClientCancelled, UpstreamReset, UpstreamReset, Drained, Timeout],
            ),
            (
                "head, no token",
                Some(200),
                NOTHING,
                [ClientCancelled, UpstreamReset, Empty, Drained, Timeout],
            ),
            (
                "mid-stream",
                Some(200),
                TOKENS,
                [ClientCancelled, UpstreamReset, Unterminated, Drained, Timeout],
            ),
            (
                "finish reasons or terminal signal",
                Some(200),
                FINISHED,
                [Ok, UpstreamReset, Ok, Ok, Ok],
            ),
            ("after an error event", Some(200), FAILED, [StreamError; 5]),
        ];
        for (when, status, seen, outcomes) in rows {
            for (ending, expected) in endings.into_iter().zip(outcomes) {
                assert_eq!(decide(ending, status, seen), expected, "{when}, {ending:?}");
            }
        }
    }

    #[test]
    fn an_error_status_decides_whatever_happens_to_its_body() {
        let cases = [
            (400, Outcome::ClientError),
            (404, Outcome::ClientError),
            (408, Outcome::UpstreamError),
            (422, Outcome::ClientError),
            (429, Outcome::Overloaded),
            (499, Outcome::ClientError),
            (500, Outcome::UpstreamError),
            (502, Outcome::UpstreamError),
            (503, Outcome::Overloaded),
            (504, Outcome::UpstreamError),
            (599, Outcome::UpstreamError),
        ];
        for (status, expected) in cases {
            for ending in [
                Ending::Complete,
                Ending::ClientGone,
                Ending::UpstreamReset,
                Ending::Drained,
                Ending::Timeout,
            ] {
                assert_eq!(decide(ending, Some(status), Seen::Unread), expected, "{status} {ending:?}");
            }
        }
    }

    #[test]
    fn the_proxys_own_replies_are_rejected_or_unreachable() {
        assert_eq!(decide(Ending::Rejected, None, Seen::Unread), Outcome::Rejected);
        assert_eq!(decide(Ending::Rejected, Some(200), TOKENS), Outcome::Rejected);
        assert_eq!(decide(Ending::Unreachable, None, Seen::Unread), Outcome::UpstreamUnreachable);
    }

    #[test]
    fn a_unary_reply_is_ok_with_output_empty_without_and_a_stream_error_with_an_error_object() {
        let whole = |output, error| Seen::Whole { output, error };
        assert_eq!(decide(Ending::Complete, Some(200), whole(true, false)), Outcome::Ok);
        assert_eq!(decide(Ending::Complete, Some(200), whole(false, false)), Outcome::Empty);
        assert_eq!(decide(Ending::Complete, Some(200), whole(false, true)), Outcome::StreamError);
        assert_eq!(
            decide(Ending::ClientGone, Some(200), whole(true, false)),
            Outcome::ClientCancelled
        );
        assert_eq!(
            decide(Ending::UpstreamReset, Some(200), whole(true, false)),
            Outcome::UpstreamReset
        );
    }

    #[test]
    fn a_stream_with_a_terminal_signal_but_no_token_is_empty() {
        let seen = Seen::Stream {
            output: false,
            finished: true,
            error: false,
        };
        assert_eq!(decide(Ending::Complete, Some(200), seen), Outcome::Empty);
        assert_eq!(decide(Ending::ClientGone, Some(200), seen), Outcome::Empty);
    }

    #[test]
    fn an_unread_reply_is_ok_once_complete_redirects_and_upgrades_included() {
        for status in [101, 200, 204, 304, 307] {
            assert_eq!(decide(Ending::Complete, Some(status), Seen::Unread), Outcome::Ok, "{status}");
        }
        assert_eq!(decide(Ending::ClientGone, Some(200), Seen::Unread), Outcome::ClientCancelled);
        assert_eq!(decide(Ending::Drained, Some(200), Seen::Unread), Outcome::Drained);
        assert_eq!(decide(Ending::Complete, Some(307), NOTHING), Outcome::Empty);
    }
}
