//! The response body. Polling it is what moves the HTTP/1.1 connection: no other task does. So while the client takes nothing,
//! nothing is read from the upstream, and an upload that is still running waits too.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Body as HttpBody, Frame, SizeHint};
use hyper::body::Incoming;

use super::Sent;
use super::conn::Conn;
use super::error::BodyError;
use super::h2::Stream;
use super::limits::{Limits, Progress};
use super::marks::Marks;
use crate::measure::Stamp;
use crate::proxy::pool::{Kept, Pool};

/// A response body from the upstream. Its type says nothing of the HTTP client behind it.
///
/// Dropped before its end, it closes the HTTP/1.1 connection (or resets the HTTP/2 stream) at once. After an error nothing more
/// comes.
pub struct Body {
    state: State,
    limits: Limits,
    sent: Sent,
    read_at: Stamp,
}

enum State {
    /// `pool`: where the connection goes after a clean end, if it may be used again.
    Http1 {
        incoming: Incoming,
        conn: Conn,
        pool: Option<Arc<Pool<Conn>>>,
    },
    /// `marks` are the stream's own.
    H2 {
        incoming: Incoming,
        marks: Arc<Marks>,
        stream: Stream,
    },
    Done,
}

impl Body {
    pub(super) fn http1(incoming: Incoming, conn: Conn, pool: Option<Arc<Pool<Conn>>>, limits: Limits, sent: Sent) -> Self {
        let read_at = conn.marks().read_at().unwrap_or(limits.started());
        Self {
            state: State::Http1 { incoming, conn, pool },
            limits,
            sent,
            read_at,
        }
    }

    pub(super) fn h2(incoming: Incoming, marks: Arc<Marks>, stream: Stream, limits: Limits, sent: Sent) -> Self {
        let read_at = stream.socket.read_at().unwrap_or(limits.started());
        // A stream has no reads of its own: what is handed out stands for them.
        marks.read(read_at);
        Self {
            state: State::H2 { incoming, marks, stream },
            limits,
            sent,
            read_at,
        }
    }

    /// When the read that brought the latest frame (or the end) was taken from the socket; before the first frame, the read that
    /// brought the head, or one that was waiting right behind it. Frames of one read share it. Over HTTP/2 it is the
    /// connection's latest read when the frame was handed out: for a reader that lags behind, later than the frame's own.
    pub const fn read_at(&self) -> Stamp {
        self.read_at
    }

    /// Gives the connection back at once when there is no body.
    pub(super) fn settle(&mut self, cx: &mut Context<'_>) {
        if self.is_end_stream() {
            self.end(cx);
        }
    }

    /// The body is through: the connection goes to the pool when it is idle, and is closed when it is not (an upload that the
    /// reply did not wait for, a version or framing that rules reuse out).
    fn end(&mut self, cx: &mut Context<'_>) {
        let State::Http1 { mut conn, pool, .. } = std::mem::replace(&mut self.state, State::Done) else {
            return;
        };
        let idle = conn.is_idle(cx, false);
        self.sent.report(conn.marks());
        if let Some(pool) = pool
            && idle
        {
            pool.put(conn);
        }
    }

    fn fail(&mut self, error: BodyError) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        self.state = State::Done;
        Poll::Ready(Some(Err(error)))
    }
}

impl HttpBody for Body {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        let this = self.get_mut();
        let over_h2 = matches!(this.state, State::H2 { .. });
        let (incoming, marks, socket, ended_with) = match &mut this.state {
            State::Http1 { incoming, conn, .. } => {
                let ended_with = conn.drive(cx);
                (incoming, &**conn.marks(), &**conn.marks(), ended_with)
            }
            State::H2 { incoming, marks, stream } => (incoming, &**marks, &*stream.socket, None),
            State::Done => return Poll::Ready(None),
        };
        this.sent.report(marks);
        let polled = Pin::new(incoming).poll_frame(cx);
        this.read_at = socket.read_at().unwrap_or(this.read_at);
        if over_h2 && polled.is_ready() {
            marks.read(this.read_at);
        }
        match polled {
            Poll::Ready(Some(Ok(frame))) => {
                if frame.is_data() {
                    this.limits.progress = Progress::Body;
                }
                if frame.is_trailers() || this.is_end_stream() {
                    this.end(cx);
                }
                Poll::Ready(Some(Ok(frame)))
            }
            Poll::Ready(None) => {
                this.end(cx);
                Poll::Ready(None)
            }
            Poll::Ready(Some(Err(error))) => {
                // The connection's own error says more than the one hyper leaves in the body.
                let error = BodyError::of(ended_with.as_ref().unwrap_or(&error), marks.has_upload_failed());
                this.fail(error)
            }
            Poll::Pending => match this.limits.poll(cx, marks) {
                Poll::Ready(limit) => this.fail(BodyError::Timeout(limit)),
                Poll::Pending => Poll::Pending,
            },
        }
    }

    fn is_end_stream(&self) -> bool {
        match &self.state {
            State::Http1 { incoming, .. } | State::H2 { incoming, .. } => incoming.is_end_stream(),
            State::Done => true,
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.state {
            State::Http1 { incoming, .. } | State::H2 { incoming, .. } => incoming.size_hint(),
            State::Done => SizeHint::with_exact(0),
        }
    }
}

impl fmt::Debug for Body {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Body")
            .field("ended", &matches!(self.state, State::Done))
            .finish_non_exhaustive()
    }
}
