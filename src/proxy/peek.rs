//! The request body on its way up: each chunk is shown to the tap and handed on as it is, unbuffered.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;

use super::client::Client;
use crate::observe::RequestTap;

/// What became of an upload, for whoever answers the request.
#[derive(Debug, Default)]
pub(super) struct UploadState {
    malformed: AtomicBool,
    ended: AtomicBool,
}

impl UploadState {
    /// The client's whole body was read.
    pub(super) fn is_ended(&self) -> bool {
        self.ended.load(Relaxed)
    }

    /// The body broke its own framing; the client may still be there to be told.
    pub(super) fn is_malformed(&self) -> bool {
        self.malformed.load(Relaxed)
    }
}

/// The client's request body.
#[derive(Debug)]
pub(super) struct PeekBody {
    body: Incoming,
    tap: RequestTap,
    client: Arc<Client>,
    state: Arc<UploadState>,
    ended: bool,
}

impl PeekBody {
    pub(super) fn new(body: Incoming, tap: RequestTap, client: Arc<Client>, state: Arc<UploadState>) -> Self {
        let ended = body.is_end_stream();
        state.ended.store(ended, Relaxed);
        Self {
            body,
            tap,
            client,
            state,
            ended,
        }
    }
}

#[warn(clippy::missing_trait_methods)]
impl Body for PeekBody {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        let this = self.get_mut();
        let item = ready!(Pin::new(&mut this.body).poll_frame(cx));
        match &item {
            Some(Ok(frame)) => {
                if let Some(bytes) = frame.data_ref() {
                    this.tap.chunk(bytes);
                }
                this.ended = frame.is_trailers() || this.body.is_end_stream();
            }
            Some(Err(error)) => this.state.malformed.store(is_malformed(error), Relaxed),
            None => this.ended = true,
        }
        if this.ended {
            this.state.ended.store(true, Relaxed);
        }
        Poll::Ready(item)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl Drop for PeekBody {
    fn drop(&mut self) {
        if !self.ended {
            self.client.cut_upload();
        }
    }
}

/// hyper reports bad chunks through the kind of an `io::Error`; what the socket says has other kinds, a short body is an EOF.
fn is_malformed(error: &hyper::Error) -> bool {
    let mut source: Option<&(dyn std::error::Error + 'static)> = std::error::Error::source(error);
    while let Some(cause) = source {
        if let Some(io) = cause.downcast_ref::<std::io::Error>() {
            return matches!(io.kind(), std::io::ErrorKind::InvalidData | std::io::ErrorKind::InvalidInput);
        }
        source = cause.source();
    }
    false
}
