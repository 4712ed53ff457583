//! Bytes on their way: the buffer that every read of a thread uses, and what a slow socket has not taken yet.

use std::cell::RefCell;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// Most bytes of one read.
pub(super) const READ_SIZE: usize = 64 * 1024;

/// Most bytes of one read of a request body, and so the most that a stalled upload keeps; see [`Portion`](super::upload::Portion).
pub(super) const UPLOAD_SIZE: usize = 512 * 1024;

thread_local! {
    static READ: RefCell<Box<[u8]>> = RefCell::new(vec![0; UPLOAD_SIZE].into_boxed_slice());
}

/// A buffer with a position; empty most of the time.
#[derive(Debug, Default)]
pub(super) struct Pending {
    bytes: Vec<u8>,
    from: usize,
}

impl Pending {
    pub(super) fn new(bytes: Vec<u8>) -> Self {
        Self { bytes, from: 0 }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.from == self.bytes.len()
    }

    /// A part of what was put here is with the peer, the rest is not.
    pub(super) fn is_partly_written(&self) -> bool {
        self.from > 0 && !self.is_empty()
    }

    /// Where more can be put behind what is pending.
    pub(super) fn tail(&mut self) -> &mut Vec<u8> {
        &mut self.bytes
    }

    fn push(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// Writes what is pending. Ready once nothing is.
    pub(super) fn poll_flush<W: AsyncWrite + Unpin + ?Sized>(
        &mut self,
        cx: &mut Context<'_>,
        to: &mut W,
    ) -> Poll<std::io::Result<()>> {
        while !self.is_empty() {
            match Pin::new(&mut *to).poll_write(cx, &self.bytes[self.from..]) {
                Poll::Ready(Ok(0)) => return Poll::Ready(Err(std::io::ErrorKind::WriteZero.into())),
                Poll::Ready(Ok(n)) => self.from += n,
                Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
                Poll::Pending => return Poll::Pending,
            }
        }
        // Given back at once, so that a quiet stream holds nothing: after the heads, only a slow peer has it needed again.
        (self.from, self.bytes) = (0, Vec::new());
        Poll::Ready(Ok(()))
    }

    /// Writes `bytes` behind what is pending and keeps what the socket does not take. The error is the socket's.
    pub(super) fn write<W: AsyncWrite + Unpin + ?Sized>(
        &mut self,
        cx: &mut Context<'_>,
        to: &mut W,
        bytes: &[u8],
    ) -> std::io::Result<()> {
        if self.is_empty() {
            let taken = match Pin::new(&mut *to).poll_write(cx, bytes) {
                Poll::Ready(written) => written?,
                Poll::Pending => 0,
            };
            self.push(&bytes[taken..]);
            return Ok(());
        }
        self.push(bytes);
        match self.poll_flush(cx, to) {
            Poll::Ready(flushed) => flushed,
            Poll::Pending => Ok(()),
        }
    }
}

/// Runs `read` with the thread's buffer, or with its first `limit` bytes. Not to be called within itself.
pub(super) fn with_buffer<T>(limit: usize, read: impl FnOnce(&mut [u8]) -> T) -> T {
    READ.with_borrow_mut(|buffer| {
        let limit = limit.min(buffer.len());
        read(&mut buffer[..limit])
    })
}

/// Reads once into `buffer`; `Ready(Ok(None))` at the end of the stream.
pub(super) fn poll_read<'b, R: AsyncRead + Unpin + ?Sized>(
    io: &mut R,
    cx: &mut Context<'_>,
    buffer: &'b mut [u8],
) -> Poll<std::io::Result<Option<&'b [u8]>>> {
    let mut read = ReadBuf::new(buffer);
    match Pin::new(io).poll_read(cx, &mut read) {
        Poll::Pending => Poll::Pending,
        Poll::Ready(Err(error)) => Poll::Ready(Err(error)),
        Poll::Ready(Ok(())) => {
            let len = read.filled().len();
            Poll::Ready(Ok((len > 0).then(|| &buffer[..len])))
        }
    }
}

/// Reads once into the thread's buffer and hands the bytes on; `Ready(Ok(None))` at the end of the stream.
pub(in crate::proxy) fn poll_read_with<R: AsyncRead + Unpin + ?Sized, T>(
    io: &mut R,
    cx: &mut Context<'_>,
    limit: usize,
    then: impl FnOnce(&mut Context<'_>, &[u8]) -> T,
) -> Poll<std::io::Result<Option<T>>> {
    with_buffer(limit, |buffer| {
        poll_read(io, cx, buffer).map_ok(|read| read.map(|bytes| then(cx, bytes)))
    })
}
