//! Opt-in (`inject_usage`): takes the event out of a client's stream that it got only because the proxy asked for it: the one with
//! usage and an empty list of choices. Every other byte stays.
//!
//! At most one incomplete event is held back, up to [`HELD_CAP`] bytes; an event longer than that is no usage event and passes as it
//! comes.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::{Bytes, BytesMut};
use http::header::{CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, HeaderMap};
use http_body::{Body, Frame, SizeHint};
use serde::Deserialize;
use serde::de::IgnoredAny;

use super::client::Client;

/// Longest incomplete event that is held back, bytes.
const HELD_CAP: usize = 16 * 1024;

/// Whether a reply is an event stream that can be mended. Its length, if it has one, is then no longer right.
pub(super) fn prepare(headers: &mut HeaderMap) -> bool {
    let is_stream = headers.get(CONTENT_TYPE).is_some_and(|value| {
        let media = value.as_bytes().split(|b| *b == b';').next().unwrap_or_default();
        media.trim_ascii().eq_ignore_ascii_case(b"text/event-stream")
    });
    let strips = is_stream && !headers.contains_key(CONTENT_ENCODING);
    if strips {
        headers.remove(CONTENT_LENGTH);
    }
    strips
}

/// Splits a stream into events and leaves the usage event out.
#[derive(Debug)]
pub(super) struct Stripper {
    held: BytesMut,
    /// The line so far is empty: another line end closes the event.
    line_empty: bool,
    /// The last byte was a CR: a LF after it is of the same line end.
    after_cr: bool,
    /// That LF, if it comes, belongs to an event that was closed: dropped with it, or not.
    closed: Option<bool>,
    /// The event under way is over the cap and passes.
    passing: bool,
}

impl Stripper {
    pub(super) fn new() -> Self {
        Self {
            held: BytesMut::new(),
            line_empty: true,
            after_cr: false,
            closed: None,
            passing: false,
        }
    }

    /// What of the stream goes on, now that `chunk` came.
    pub(super) fn feed(&mut self, chunk: &Bytes) -> Bytes {
        let mut out = Output::new(chunk);
        let mut from = 0;
        let mut at = 0;
        while at < chunk.len() {
            let byte = chunk[at];
            at += 1;
            if byte == b'\n' && std::mem::take(&mut self.after_cr) {
                if let Some(dropped) = self.closed.take() {
                    out.piece(from..at, !dropped);
                    from = at;
                }
                continue;
            }
            self.after_cr = byte == b'\r';
            self.closed = None;
            if byte != b'\n' && byte != b'\r' {
                self.line_empty = false;
                let rest = &chunk[at..];
                at += memchr::memchr2(b'\n', b'\r', rest).unwrap_or(rest.len());
                continue;
            }
            if !std::mem::replace(&mut self.line_empty, true) {
                continue;
            }
            let dropped = self.close(&chunk[from..at], &mut out);
            out.piece(from..at, !dropped);
            from = at;
            self.closed = self.after_cr.then_some(dropped);
        }
        self.keep(chunk, from, &mut out);
        out.finish()
    }

    /// An event is complete with `end`. Whether it is left out; if not, what was held of it goes on.
    fn close(&mut self, end: &[u8], out: &mut Output<'_>) -> bool {
        if std::mem::take(&mut self.passing) {
            return false;
        }
        let dropped = if self.held.is_empty() {
            is_usage_only(end)
        } else {
            is_usage_only(&[&self.held, end].concat())
        };
        let held = std::mem::take(&mut self.held);
        if !dropped {
            out.held(&held);
        }
        dropped
    }

    /// Holds back what came of an incomplete event.
    fn keep(&mut self, chunk: &Bytes, from: usize, out: &mut Output<'_>) {
        let rest = &chunk[from..];
        if !self.passing && self.held.len() + rest.len() > HELD_CAP {
            self.passing = true;
            out.held(&std::mem::take(&mut self.held));
        }
        if self.passing {
            out.piece(from..chunk.len(), true);
        } else {
            out.piece(from..chunk.len(), false);
            self.held.extend_from_slice(rest);
        }
    }

    /// The stream ended: whatever is held goes on.
    pub(super) fn rest(&mut self) -> Bytes {
        std::mem::take(&mut self.held).freeze()
    }
}

/// Gathers what goes on of one chunk; the chunk itself, uncopied, when all of it does and nothing else.
struct Output<'c> {
    chunk: &'c Bytes,
    /// The part of the chunk that goes on so far, while that is one run and nothing was held before.
    run: std::ops::Range<usize>,
    copied: Option<BytesMut>,
}

impl<'c> Output<'c> {
    fn new(chunk: &'c Bytes) -> Self {
        Self {
            chunk,
            run: 0..0,
            copied: None,
        }
    }

    fn piece(&mut self, range: std::ops::Range<usize>, goes_on: bool) {
        if !goes_on || range.is_empty() {
            return;
        }
        match &mut self.copied {
            Some(copied) => copied.extend_from_slice(&self.chunk[range]),
            None if self.run.is_empty() => self.run = range,
            None if self.run.end == range.start => self.run.end = range.end,
            None => {
                let chunk = self.chunk;
                self.copy().extend_from_slice(&chunk[range]);
            }
        }
    }

    fn held(&mut self, held: &[u8]) {
        if !held.is_empty() {
            self.copy().extend_from_slice(held);
        }
    }

    fn copy(&mut self) -> &mut BytesMut {
        let run = std::mem::take(&mut self.run);
        let chunk = self.chunk;
        self.copied.get_or_insert_with(|| {
            let mut copied = BytesMut::with_capacity(HELD_CAP.min(chunk.len() * 2));
            copied.extend_from_slice(&chunk[run]);
            copied
        })
    }

    fn finish(self) -> Bytes {
        self.copied.map_or_else(|| self.chunk.slice(self.run), BytesMut::freeze)
    }
}

/// Whether a complete event holds usage and an empty list of choices, and no error.
fn is_usage_only(event: &[u8]) -> bool {
    #[derive(Deserialize)]
    struct Chunk {
        choices: Vec<IgnoredAny>,
        usage: Option<Usage>,
        #[serde(default)]
        error: Option<IgnoredAny>,
    }
    #[derive(Deserialize)]
    struct Usage {}

    // Most events end here, unparsed.
    if memchr::memmem::find(event, b"\"usage\"").is_none() {
        return false;
    }
    let mut data = Vec::with_capacity(event.len());
    for line in event.split(|b| matches!(b, b'\n' | b'\r')) {
        if let Some(value) = line.strip_prefix(b"data:") {
            data.extend_from_slice(value);
            data.push(b'\n');
        }
    }
    serde_json::from_slice::<Chunk>(&data).is_ok_and(|c| c.choices.is_empty() && c.usage.is_some() && c.error.is_none())
}

/// A response body without the usage event.
pub(super) struct StripBody<B: Body> {
    body: B,
    stripper: Stripper,
    /// What ended the body, while held bytes go first.
    last: Option<Option<Result<Frame<Bytes>, B::Error>>>,
    /// Whether an HTTP/2 connection was given its turn before an error.
    yielded: bool,
    client: Arc<Client>,
}

impl<B: Body> StripBody<B> {
    pub(super) fn new(body: B, client: Arc<Client>) -> Self {
        Self {
            body,
            stripper: Stripper::new(),
            last: None,
            yielded: false,
            client,
        }
    }
}

#[warn(clippy::missing_trait_methods)]
impl<B> Body for StripBody<B>
where
    B: Body<Data = Bytes> + Unpin,
    B::Error: Unpin,
{
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        let this = self.get_mut();
        loop {
            if let Some(last) = this.last.take() {
                if matches!(last, Some(Err(_))) && this.client.poll_flushed(&mut this.yielded, cx).is_pending() {
                    this.last = Some(last);
                    return Poll::Pending;
                }
                return Poll::Ready(last);
            }
            let item = ready!(Pin::new(&mut this.body).poll_frame(cx));
            let out = match &item {
                Some(Ok(frame)) if frame.is_data() => frame.data_ref().map(|bytes| this.stripper.feed(bytes)).unwrap_or_default(),
                _ => {
                    this.last = Some(item);
                    this.stripper.rest()
                }
            };
            if !out.is_empty() {
                this.client.hand();
                return Poll::Ready(Some(Ok(Frame::data(out))));
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.last.is_none() && self.stripper.held.is_empty() && self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::default()
    }
}

impl<B: Body> fmt::Debug for StripBody<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StripBody").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use http_body_util::{BodyExt, Full};

    use super::*;

    const TOKEN: &str = "data: {\"choices\":[{\"delta\":{\"content\":\"\\\"usage\\\"\"}}],\"usage\":null}\n\n";
    const USAGE: &str = "data: {\"choices\":[],\"usage\":{\"completion_tokens\":3}}\n\n";
    const DONE: &str = "data: [DONE]\n\n";

    fn stripped(pieces: &[&str]) -> String {
        let mut stripper = Stripper::new();
        let mut out = Vec::new();
        for piece in pieces {
            out.extend_from_slice(&stripper.feed(&Bytes::copy_from_slice(piece.as_bytes())));
        }
        out.extend_from_slice(&stripper.rest());
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn only_the_usage_event_is_taken_out_at_every_split_and_line_end() {
        for end in ["\n", "\r\n", "\r"] {
            let text = |parts: &[&str]| parts.concat().replace('\n', end);
            let all = text(&[": ping\n\n", TOKEN, USAGE, "\n", DONE]);
            let want = text(&[": ping\n\n", TOKEN, "\n", DONE]);
            for cut in 0..=all.len() {
                assert_eq!(stripped(&[&all[..cut], &all[cut..]]), want, "{end:?} cut at {cut}");
            }
            let bytes: Vec<String> = all.chars().map(String::from).collect();
            assert_eq!(
                stripped(&bytes.iter().map(String::as_str).collect::<Vec<_>>()),
                want,
                "{end:?} byte by byte"
            );
        }
    }

    #[test]
    fn events_that_only_look_like_it_stay() {
        for event in [
            "data: {\"choices\":[],\"prompt_filter_results\":[]}\n\n",
            "data: {\"choices\":[],\"usage\":null}\n\n",
            "data: {\"choices\":[{\"index\":0}],\"usage\":{\"completion_tokens\":3}}\n\n",
            "data: {\"choices\":[],\"usage\":{},\"error\":{\"message\":\"x\"}}\n\n",
            "data: {\"usage\":{\"completion_tokens\":3}}\n\n",
            "data: {\"choices\":[],\"usage\":{\"completion_tokens\":3}}",
        ] {
            assert_eq!(stripped(&[event]), event);
        }
    }

    #[test]
    fn a_chunk_that_goes_on_whole_is_not_copied() {
        let chunk = Bytes::from([TOKEN, DONE].concat());
        assert_eq!(Stripper::new().feed(&chunk).as_ptr(), chunk.as_ptr());
    }

    #[test]
    fn an_event_over_the_cap_passes_as_it_comes_and_the_next_is_read_again() {
        let mut stripper = Stripper::new();
        let long = Bytes::from(vec![b'x'; HELD_CAP]);
        assert!(stripper.feed(&long).is_empty());
        assert_eq!(stripper.feed(&Bytes::from_static(b"y")).len(), HELD_CAP + 1);
        assert_eq!(stripper.feed(&Bytes::from_static(b"z")), "z");
        assert_eq!(
            stripper.feed(&Bytes::from(["\n\n", USAGE, DONE].concat())),
            ["\n\n", DONE].concat()
        );
    }

    #[tokio::test]
    async fn what_is_held_goes_on_before_the_end() {
        let body = StripBody::new(Full::new(Bytes::from([DONE, "data: cut"].concat())), Arc::default());
        assert!(!body.is_end_stream());
        assert_eq!(body.collect().await.unwrap().to_bytes(), [DONE, "data: cut"].concat());
    }
}
