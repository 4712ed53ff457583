//! The request's way to the upstream, one part of a [`Transfer`].

use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite};

use super::pending::{READ_SIZE, UPLOAD_SIZE, poll_read_with};
use super::terms::End;
use super::transfer::Transfer;
use crate::clock;

/// Bytes of a request body passed on in one poll before others get their turn: they take longer than the reads of a reply.
pub(super) const UPLOAD_SHARE: u64 = 512 * 1024;

/// How much of a request body is read at a time: much, since every read and write wakes the peers (1 MiB read 512 KiB at a time
/// costs two thirds of what it costs in pieces of 128 KiB), but little once the upstream does not take it all at once, since what it
/// leaves stays with the stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Portion(usize);

impl Default for Portion {
    fn default() -> Self {
        Self(UPLOAD_SIZE)
    }
}

impl Portion {
    /// The one after a read of `read` bytes, which the upstream took at once or not.
    fn after(self, read: usize, taken: bool) -> Self {
        match taken {
            true if read < self.0 => self,
            true => Self((self.0 * 2).min(UPLOAD_SIZE)),
            false => Self(READ_SIZE),
        }
    }
}

impl<C: AsyncRead + AsyncWrite + Unpin> Transfer<C> {
    /// Sends what there is of the request.
    pub(super) fn poll_upload(&mut self, cx: &mut Context<'_>) -> (bool, Option<End>) {
        if self.sent || self.upload_broken || self.over.is_some() {
            return (false, None);
        }
        match self.up.poll_flush(cx, &mut self.upstream) {
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
        let limit = usize::try_from(self.body_left).unwrap_or(UPLOAD_SIZE).min(self.portion.0);
        let (up, upstream, tap) = (&mut self.up, &mut self.upstream, &self.request_tap);
        let read = poll_read_with(&mut self.client, cx, limit, |cx, bytes| {
            let written = up.write(cx, upstream, bytes);
            tap.chunk(bytes);
            (bytes.len(), written.is_ok())
        });
        match read {
            Poll::Pending => (false, None),
            Poll::Ready(Ok(Some((n, written)))) => {
                self.body_left -= n as u64;
                self.upload_broken = !written;
                self.portion = self.portion.after(n, self.up.is_empty());
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_portion_is_small_once_not_all_is_taken_and_grows_again_while_all_is() {
        let mut portion = Portion::default().after(UPLOAD_SIZE, false);
        let mut sizes = Vec::new();
        for _ in 0..5 {
            sizes.push(portion.0 / 1024);
            portion = portion.after(portion.0, true);
        }
        assert_eq!(sizes, [64, 128, 256, 512, 512]);
        assert_eq!(portion, Portion::default());
        assert_eq!(Portion(READ_SIZE).after(1000, true), Portion(READ_SIZE));
    }
}
