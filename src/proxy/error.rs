//! Replies of the proxy's own making: status, `x-goodput-error: <reason>` and a JSON body in the OpenAI error shape, each saying
//! what is wrong, where, and how to mend it. No other reply ever carries that header.
//!
//! hyper replies by itself to heads it cannot parse (400, 414, 431); `instead_of` has ours in their place. What an HTTP/2 library
//! answers below that (a stream or connection error, a head of more than twice the limit) is the protocol's own.

use std::borrow::Cow;

use bytes::Bytes;
use http::header::{CONTENT_LENGTH, CONTENT_TYPE, HeaderName, HeaderValue};
use http::{Response, StatusCode};

use super::upstream::SendError;
use crate::measure::Ending;

/// The header that marks a reply as the proxy's own.
pub const ERROR_HEADER: HeaderName = HeaderName::from_static("x-goodput-error");

/// Why a request is not forwarded: the client's fault, but for the last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// `CONNECT`.
    Connect,
    /// A target that is neither a path nor an http URL without user information, nor `*` with `OPTIONS`.
    BadTarget,
    /// No `Host`, more than one, or one that is no host.
    Host,
    /// Both a length and chunked coding.
    BothFramings,
    /// A transfer coding other than `chunked`.
    TransferCoding,
    /// The request body broke its own framing.
    MalformedBody,
    /// `limits.max_requests` are under way.
    TooManyRequests,
    /// A head that cannot be read.
    MalformedHead,
    /// A target longer than hyper takes.
    TargetTooLong,
    /// A head over `limits.max_header_bytes` or `limits.max_headers`.
    HeadTooLarge,
}

impl Refusal {
    /// Every reason.
    pub const ALL: [Self; 10] = [
        Self::Connect,
        Self::BadTarget,
        Self::Host,
        Self::BothFramings,
        Self::TransferCoding,
        Self::MalformedBody,
        Self::TooManyRequests,
        Self::MalformedHead,
        Self::TargetTooLong,
        Self::HeadTooLarge,
    ];

    /// The value of `x-goodput-error` and of the body's `code`.
    pub const fn reason(self) -> &'static str {
        match self {
            Self::Connect => "connect_refused",
            Self::BadTarget => "bad_target",
            Self::Host => "bad_host",
            Self::BothFramings => "both_framings",
            Self::TransferCoding => "transfer_coding",
            Self::MalformedBody => "malformed_body",
            Self::TooManyRequests => "too_many_requests",
            Self::MalformedHead => "malformed_head",
            Self::TargetTooLong => "target_too_long",
            Self::HeadTooLarge => "head_too_large",
        }
    }

    /// The status.
    pub const fn status(self) -> StatusCode {
        match self {
            Self::Connect => StatusCode::METHOD_NOT_ALLOWED,
            Self::BadTarget | Self::Host | Self::BothFramings | Self::MalformedBody | Self::MalformedHead => {
                StatusCode::BAD_REQUEST
            }
            Self::TransferCoding => StatusCode::NOT_IMPLEMENTED,
            Self::TooManyRequests => StatusCode::SERVICE_UNAVAILABLE,
            Self::TargetTooLong => StatusCode::URI_TOO_LONG,
            Self::HeadTooLarge => StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE,
        }
    }

    const fn message(self) -> &'static str {
        match self {
            Self::Connect => {
                "goodput-proxy forwards requests to one model server and opens no tunnels: do not use it as a CONNECT proxy."
            }
            Self::BadTarget => {
                "The request target is neither a path nor an absolute URL: send, for example, POST /v1/chat/completions."
            }
            Self::Host => "An HTTP/1.1 request needs exactly one Host header, with a host name and nothing else in it.",
            Self::BothFramings => "The request has both Content-Length and Transfer-Encoding: send one of them.",
            Self::TransferCoding => {
                "The request uses a transfer coding other than chunked: send the body chunked or with Content-Length."
            }
            Self::MalformedBody => {
                "The request body is not what its framing says (bad chunk): check the client, or a proxy in front of this one."
            }
            Self::TooManyRequests => {
                "As many requests are under way as limits.max_requests of the proxy's configuration lets in: try again later."
            }
            Self::MalformedHead => {
                "The request head is not well-formed HTTP/1.1: check the client, and that it does not speak TLS to this port."
            }
            Self::TargetTooLong => "The request target has more than 65,534 bytes: send what is long in the body.",
            Self::HeadTooLarge => {
                "The request head exceeds limits.max_header_bytes or limits.max_headers of the proxy's configuration."
            }
        }
    }
}

/// A reply of the proxy's own, and how the record sees it.
#[derive(Debug)]
pub struct Answer {
    /// The status.
    pub status: StatusCode,
    /// The value of `x-goodput-error` and of the body's `code`.
    pub reason: &'static str,
    /// Whose fault it was.
    pub ending: Ending,
    message: Cow<'static, str>,
}

impl From<Refusal> for Answer {
    fn from(refusal: Refusal) -> Self {
        Self {
            status: refusal.status(),
            reason: refusal.reason(),
            ending: Ending::Rejected,
            message: refusal.message().into(),
        }
    }
}

impl From<&SendError> for Answer {
    fn from(error: &SendError) -> Self {
        let mend = match error {
            SendError::Unreachable(_) => "Check that the model server runs and that upstream.url names it.",
            SendError::ClosedBeforeHead => "It may have processed the request, so it was not sent again.",
            SendError::Malformed(_) => "Check that upstream.url names its HTTP port.",
            SendError::Timeout(_) => "The limit is set in the section upstream of the proxy's configuration.",
            SendError::RequestBody(_) => "Check the client, or a proxy in front of this one.",
            SendError::HeadTooLarge | SendError::Request(_) => "",
        };
        let message = format!("{error}. {mend}");
        Self {
            status: error.status(),
            reason: error.reason(),
            ending: error.ending(),
            message: message.trim_end().to_owned().into(),
        }
    }
}

impl Answer {
    /// The reply as it goes out.
    pub fn into_response(self) -> Response<Bytes> {
        let overload = self.status == StatusCode::SERVICE_UNAVAILABLE;
        let by_client = self.ending == Ending::Rejected || self.status.is_client_error();
        let kind = if by_client && !overload {
            "invalid_request_error"
        } else {
            "server_error"
        };
        let error = serde_json::json!({
            "error": { "message": self.message, "type": kind, "param": null, "code": self.reason }
        });
        let body = Bytes::from(error.to_string());
        let length = HeaderValue::from(body.len());
        let mut response = Response::new(body);
        *response.status_mut() = self.status;
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        headers.insert(CONTENT_LENGTH, length);
        headers.insert(ERROR_HEADER, HeaderValue::from_static(self.reason));
        response
    }

    /// The reply as HTTP/1.1 bytes; `is_head`: without the body.
    pub(super) fn into_bytes(self, is_head: bool, close: bool) -> Vec<u8> {
        let (parts, body) = self.into_response().into_parts();
        let reason = parts.status.canonical_reason().unwrap_or_default();
        let mut out = format!("HTTP/1.1 {} {reason}\r\n", parts.status.as_u16()).into_bytes();
        for (name, value) in &parts.headers {
            out.extend_from_slice(name.as_str().as_bytes());
            out.extend_from_slice(b": ");
            out.extend_from_slice(value.as_bytes());
            out.extend_from_slice(b"\r\n");
        }
        if close {
            out.extend_from_slice(b"connection: close\r\n");
        }
        out.extend_from_slice(b"\r\n");
        if !is_head {
            out.extend_from_slice(&body);
        }
        out
    }
}

/// What goes out instead of `written`, when that is the bare reply by which hyper's server refuses a head it cannot read.
pub(super) fn instead_of(written: &[u8]) -> Option<Bytes> {
    let rest = written.strip_prefix(b"HTTP/1.1 4")?;
    let bare = |line: &[u8]| rest.strip_prefix(line) == Some(b"\r\nconnection: close\r\ncontent-length: 0\r\n\r\n");
    let refusal = if bare(b"00 Bad Request") {
        Refusal::MalformedHead
    } else if bare(b"14 URI Too Long") {
        Refusal::TargetTooLong
    } else if bare(b"31 Request Header Fields Too Large") {
        Refusal::HeadTooLarge
    } else {
        return None;
    };
    Some(Answer::from(refusal).into_bytes(false, true).into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(answer: Answer, status: u16, reason: &str, kind: &str) {
        let reply = answer.into_response();
        assert_eq!(reply.status().as_u16(), status);
        assert_eq!(reply.headers()[&ERROR_HEADER], reason);
        assert_eq!(reply.headers()[CONTENT_LENGTH], reply.body().len().to_string());
        let json: serde_json::Value = serde_json::from_slice(reply.body()).unwrap();
        let error = &json["error"];
        assert_eq!(error["code"], reason);
        assert_eq!(error["param"], serde_json::Value::Null);
        assert_eq!(error["type"], kind);
        assert!(error["message"].as_str().unwrap().len() > 20);
    }

    #[test]
    fn every_refusal_is_json_in_the_openai_shape_with_its_reason_in_the_header() {
        for refusal in Refusal::ALL {
            let kind = match refusal {
                Refusal::TooManyRequests => "server_error",
                _ => "invalid_request_error",
            };
            check(refusal.into(), refusal.status().as_u16(), refusal.reason(), kind);
        }
    }

    #[test]
    fn an_upstream_failure_says_what_to_check() {
        let error = SendError::Unreachable("127.0.0.1:8000: connection refused".into());
        let answer = Answer::from(&error);
        assert!(answer.message.contains("127.0.0.1:8000: connection refused"));
        assert!(answer.message.ends_with("upstream.url names it."));
        check(answer, 502, "upstream_unreachable", "server_error");
    }
}
