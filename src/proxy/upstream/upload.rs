//! The request body on its way to the upstream: held back while the client waits for `100 Continue`, its end and failure marked.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use http_body_util::BodyExt;
use http_body_util::combinators::UnsyncBoxBody;
use tokio::time::Sleep;

use super::error::BoxError;
use super::marks::{Gate, Marks};
use crate::clock;

/// How long a body with `Expect: 100-continue` waits for the upstream's word; servers that never send 100 exist (RFC 9110,
/// 10.1.1 asks for a limit), and the client itself gives up after about a second.
pub const EXPECT_PATIENCE: Duration = Duration::from_secs(1);

/// A request body of any type, so that connections in the pool have one type.
pub(super) struct Upload {
    /// None: there is no body.
    body: Option<UnsyncBoxBody<Bytes, BoxError>>,
    marks: Arc<Marks>,
    patience: Option<Pin<Box<Sleep>>>,
    /// HTTP/2: no socket of our own, the end of the body counts as sent.
    end_is_sent: bool,
}

impl Upload {
    pub(super) fn new<B>(body: B) -> Self
    where
        B: Body<Data = Bytes> + Send + 'static,
        B::Error: Into<BoxError>,
    {
        let body = (!body.is_end_stream()).then(|| body.map_err(Into::into).boxed_unsync());
        Self {
            body,
            marks: Arc::new(Marks::new()),
            patience: None,
            end_is_sent: false,
        }
    }

    /// The upload is about to be sent over the connection (or as the stream) that `marks` belongs to.
    pub(super) fn bind(&mut self, marks: Arc<Marks>, gate: Gate, end_is_sent: bool) {
        marks.begin(gate);
        self.marks = marks;
        self.end_is_sent = end_is_sent;
        if self.body.is_none() {
            self.ended();
        }
    }

    fn ended(&self) {
        self.marks.upload_ended();
        if self.end_is_sent {
            self.marks.sent(clock::now());
            self.marks.wake();
        }
    }

    fn poll_gate(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        match self.marks.gate() {
            Gate::Open => {}
            Gate::Shut => return Poll::Pending,
            Gate::Held => {
                let patience = self
                    .patience
                    .get_or_insert_with(|| Box::pin(tokio::time::sleep(EXPECT_PATIENCE)));
                ready!(patience.as_mut().poll(cx));
                self.marks.open();
            }
        }
        self.patience = None;
        Poll::Ready(())
    }
}

impl Body for Upload {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let this = self.get_mut();
        ready!(this.poll_gate(cx));
        let Some(body) = &mut this.body else {
            return Poll::Ready(None);
        };
        let item = ready!(Pin::new(&mut *body).poll_frame(cx));
        match &item {
            None => this.ended(),
            Some(Ok(frame)) => {
                if frame.is_trailers() || body.is_end_stream() {
                    this.ended();
                }
            }
            Some(Err(_)) => this.marks.upload_failed(),
        }
        Poll::Ready(item)
    }

    fn is_end_stream(&self) -> bool {
        self.body.as_ref().is_none_or(Body::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        self.body.as_ref().map_or_else(|| SizeHint::with_exact(0), Body::size_hint)
    }
}
