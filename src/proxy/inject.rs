//! Opt-in (`inject_usage`): asks the server for usage where the client left that open.
//!
//! The request body streams through; before the brace that ends its top-level object, `"stream_options":{"include_usage":true}` goes in
//! if the client asked for a stream and named no `stream_options` itself, in any form. A body that is not one JSON object passes
//! as it is. Constant memory; only such a request loses its length and is sent chunked.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::task::{Context, Poll, ready};

use bytes::{Bytes, BytesMut};
use http::header::{ACCEPT_ENCODING, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, HeaderMap};
use http::{HeaderValue, Method};
use http_body::{Body, Frame, SizeHint};

use super::peek::PeekBody;
use crate::wire::{RequestScanner, format_for};

pub(super) const INSERTION: &[u8] = b",\"stream_options\":{\"include_usage\":true}";

/// Whether a request is of the kind that may be asked for usage: a chat or completions call with a JSON body as it is.
pub(super) fn is_candidate(method: &Method, path: &str, headers: &HeaderMap) -> bool {
    *method == Method::POST
        && format_for(path).is_some_and(|format| matches!(format.name, "openai_chat" | "openai_completions"))
        && headers.get(CONTENT_TYPE).is_some_and(is_json)
        && !headers.contains_key(CONTENT_ENCODING)
}

fn is_json(value: &HeaderValue) -> bool {
    let media = value.as_bytes().split(|b| *b == b';').next().unwrap_or_default();
    media.trim_ascii().eq_ignore_ascii_case(b"application/json")
}

/// Fits a candidate's head: its length may change, and a compressed reply could not be mended.
pub(super) fn prepare(headers: &mut HeaderMap) {
    headers.remove(CONTENT_LENGTH);
    headers.remove(ACCEPT_ENCODING);
}

/// Finds the place for the insertion in a body that comes in pieces.
pub(super) struct Splicer {
    scanner: RequestScanner,
    depth: u64,
    in_string: bool,
    escaped: bool,
    done: bool,
}

impl Splicer {
    pub(super) fn new() -> Self {
        let scanner = RequestScanner::new(Some("application/json"), None);
        Self {
            scanner,
            depth: 0,
            in_string: false,
            escaped: false,
            done: false,
        }
    }

    /// Where in `bytes` the insertion goes, once at most.
    pub(super) fn feed(&mut self, bytes: &[u8]) -> Option<usize> {
        if self.done {
            return None;
        }
        let Some(end) = bytes.iter().position(|byte| self.ends_with(*byte)) else {
            self.scanner.feed(bytes);
            return None;
        };
        self.scanner.feed(&bytes[..=end]);
        self.done = true;
        let facts = self.scanner.facts();
        (facts.stream == Some(true) && !facts.stream_options).then_some(end)
    }

    /// Whether `byte` ends the top-level object.
    fn ends_with(&mut self, byte: u8) -> bool {
        if self.in_string {
            self.in_string = self.escaped || byte != b'"';
            self.escaped = !self.escaped && byte == b'\\';
            return false;
        }
        match byte {
            b'"' => self.in_string = true,
            b'{' | b'[' => self.depth += 1,
            b'}' | b']' => {
                self.depth = self.depth.saturating_sub(1);
                return self.depth == 0;
            }
            _ => {}
        }
        false
    }
}

/// A request body that may ask for usage on its way.
pub(super) struct InjectBody {
    body: PeekBody,
    splicer: Option<Splicer>,
    injected: Arc<AtomicBool>,
}

impl InjectBody {
    /// Passes `body` as it is.
    pub(super) fn plain(body: PeekBody) -> Self {
        Self {
            body,
            splicer: None,
            injected: Arc::default(),
        }
    }

    /// A candidate; `injected` tells afterwards whether the server was asked.
    pub(super) fn candidate(body: PeekBody, injected: Arc<AtomicBool>) -> Self {
        Self {
            body,
            splicer: Some(Splicer::new()),
            injected,
        }
    }
}

#[warn(clippy::missing_trait_methods)]
impl Body for InjectBody {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        let this = self.get_mut();
        let item = ready!(Pin::new(&mut this.body).poll_frame(cx));
        let (Some(splicer), Some(Ok(frame))) = (&mut this.splicer, &item) else {
            return Poll::Ready(item);
        };
        let Some((bytes, at)) = frame.data_ref().and_then(|bytes| Some((bytes, splicer.feed(bytes)?))) else {
            return Poll::Ready(item);
        };
        this.injected.store(true, Relaxed);
        let mut with = BytesMut::with_capacity(bytes.len() + INSERTION.len());
        with.extend_from_slice(&bytes[..at]);
        with.extend_from_slice(INSERTION);
        with.extend_from_slice(&bytes[at..]);
        Poll::Ready(Some(Ok(Frame::data(with.freeze()))))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        if self.splicer.is_some() {
            SizeHint::default()
        } else {
            self.body.size_hint()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The body as it is sent when `pieces` come in.
    fn spliced(pieces: &[&[u8]]) -> String {
        let mut splicer = Splicer::new();
        let mut out = Vec::new();
        for piece in pieces {
            match splicer.feed(piece) {
                Some(at) => out.extend_from_slice(&[&piece[..at], INSERTION, &piece[at..]].concat()),
                None => out.extend_from_slice(piece),
            }
        }
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn usage_is_asked_for_at_the_end_of_the_object_at_every_split() {
        let body = br#" {"model":"m","messages":[{"content":"}\"]}\\"}],"stream":true } "#;
        let want = r#" {"model":"m","messages":[{"content":"}\"]}\\"}],"stream":true ,"stream_options":{"include_usage":true}} "#;
        for cut in 0..=body.len() {
            assert_eq!(spliced(&[&body[..cut], &body[cut..]]), want, "cut at {cut}");
        }
        let json: serde_json::Value = serde_json::from_str(want).unwrap();
        assert_eq!(json["stream_options"]["include_usage"], true);
    }

    #[test]
    fn a_client_that_decided_for_itself_is_left_alone() {
        for body in [
            r#"{"stream":true,"stream_options":{"include_usage":false}}"#,
            r#"{"stream_options":null,"stream":true}"#,
            r#"{"stream_options":{},"stream":true}"#,
            r#"{"stream":false}"#,
            r#"{"model":"m"}"#,
            r#"{}"#,
            r#"[{"stream":true}]"#,
            r#"{"a":{"stream":true}}"#,
            "not json",
            r#"{"stream":true"#,
        ] {
            assert_eq!(spliced(&[body.as_bytes()]), body);
        }
    }

    #[test]
    fn nested_stream_options_do_not_count() {
        let got = spliced(&[br#"{"a":{"stream_options":1},"stream":true}"#]);
        assert_eq!(
            got,
            r#"{"a":{"stream_options":1},"stream":true,"stream_options":{"include_usage":true}}"#
        );
    }

    #[test]
    fn only_json_chat_and_completions_calls_are_candidates() {
        let headers = |list: &[(&'static str, &'static str)]| -> HeaderMap {
            list.iter()
                .map(|(n, v)| (n.parse::<http::HeaderName>().unwrap(), HeaderValue::from_static(v)))
                .collect()
        };
        let json = headers(&[("content-type", "Application/JSON; charset=utf-8")]);
        assert!(is_candidate(&Method::POST, "/v1/chat/completions", &json));
        assert!(is_candidate(&Method::POST, "/v1/completions", &json));
        assert!(!is_candidate(&Method::POST, "/v1/responses", &json));
        assert!(!is_candidate(&Method::GET, "/v1/completions", &json));
        assert!(!is_candidate(
            &Method::POST,
            "/v1/completions",
            &headers(&[("content-type", "text/plain")])
        ));
        let coded = headers(&[("content-type", "application/json"), ("content-encoding", "gzip")]);
        assert!(!is_candidate(&Method::POST, "/v1/completions", &coded));
    }
}
