//! The request's way to the upstream, one part of a [`Transfer`].

use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite};

use super::pending::{UPLOAD_SIZE, poll_read_with};
use super::terms::End;
use super::transfer::Transfer;
use crate::clock;

/// Bytes of a request body passed on in one poll before others get their turn: they take longer than the reads of a reply.
pub(super) const UPLOAD_SHARE: u64 = 256 * 1024;

impl<C: AsyncRead + AsyncWrite + Unpin> Transfer<'_, C> {
    /// Sends what there is of the request.
    pub(super) fn poll_upload(&mut self, cx: &mut Context<'_>) -> (bool, Option<End>) {
        if self.sent || self.upload_broken || self.over.is_some() {
            return (false, None);
        }
        match self.up.poll_flush(cx, &mut **self.upstream) {
            Poll::Pending => return (false, None),
            Poll::Ready(Err(_)) => {
                // An early reply (413) may be waiting to be read: it decides.
                self.upload_broken = true;
                return (true, None);
            }
            Poll::Ready(Ok(())) => {}
        }
        if self.body_left == 0 {
            self.upload_ended();
            return (true, None);
        }
        let limit = usize::try_from(self.body_left).unwrap_or(UPLOAD_SIZE).min(UPLOAD_SIZE);
        let (up, upstream, tap) = (&mut self.up, &mut *self.upstream, &self.request_tap);
        let read = poll_read_with(self.client, cx, limit, |cx, bytes| {
            let written = up.write(cx, &mut **upstream, bytes);
            tap.chunk(bytes);
            (bytes.len(), written.is_ok())
        });
        match read {
            Poll::Pending => (false, None),
            Poll::Ready(Ok(Some((n, written)))) => {
                self.body_left -= n as u64;
                self.upload_broken = !written;
                // At once: a reply that is read in this same turn must find the request sent.
                if written && self.body_left == 0 && self.up.is_empty() {
                    self.upload_ended();
                }
                (true, None)
            }
            // The request can never be completed.
            Poll::Ready(Ok(None) | Err(_)) => (true, Some(End::ClientGone)),
        }
    }

    fn upload_ended(&mut self) {
        self.sent = true;
        let now = clock::now();
        self.deadlines.sent(now);
        self.request_tap.sent(now);
    }
}
