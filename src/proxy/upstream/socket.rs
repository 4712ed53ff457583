//! The socket as hyper sees it: every read is stamped, the end of the request is noticed, and a broken write does not hide a
//! response that is already on its way.

use std::io;
use std::mem::MaybeUninit;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use hyper::upgrade::Upgraded;
use hyper_util::rt::TokioIo;
use socket2::SockRef;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpStream, UnixStream};
use tokio_rustls::client::TlsStream;

use super::marks::Marks;
use crate::clock;

/// What a connection to the upstream may be made of.
pub trait Io: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Io for T {}

/// [`Io`] of any kind.
pub type BoxIo = Box<dyn Io>;

/// A connection to the upstream. The common one lies where its owner lies: behind a box it would be a place more in memory to
/// visit for every chunk.
pub enum Socket {
    /// TCP.
    Tcp(TcpStream),
    /// A Unix socket.
    Unix(UnixStream),
    /// TLS over another one.
    Tls(Box<TlsStream<Self>>),
    /// Anything else.
    Other(BoxIo),
}

impl Socket {
    /// Whether the peer has said, ended or broken off something, as the system knows it: tokio hears of that in the reactor's next turn
    /// only. One system call; never true of [`Socket::Other`], which cannot be asked.
    pub(in crate::proxy) fn has_news(&self) -> bool {
        let socket = match self {
            Self::Tcp(io) => SockRef::from(io),
            Self::Unix(io) => SockRef::from(io),
            Self::Tls(io) => return io.get_ref().0.has_news(),
            Self::Other(_) => return false,
        };
        match socket.peek(&mut [MaybeUninit::uninit()]) {
            Ok(_) => true,
            Err(error) => !matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted),
        }
    }
}

/// Calls the method on whichever it is.
macro_rules! either {
    ($self:ident . $method:ident ( $($argument:expr),* )) => {
        match $self.get_mut() {
            Socket::Tcp(io) => Pin::new(io).$method($($argument),*),
            Socket::Unix(io) => Pin::new(io).$method($($argument),*),
            Socket::Tls(io) => Pin::new(io).$method($($argument),*),
            Socket::Other(io) => Pin::new(io).$method($($argument),*),
        }
    };
}

impl AsyncRead for Socket {
    #[inline]
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        either!(self.poll_read(cx, buf))
    }
}

impl AsyncWrite for Socket {
    #[inline]
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        either!(self.poll_write(cx, buf))
    }

    fn poll_write_vectored(self: Pin<&mut Self>, cx: &mut Context<'_>, bufs: &[io::IoSlice<'_>]) -> Poll<io::Result<usize>> {
        either!(self.poll_write_vectored(cx, bufs))
    }

    fn is_write_vectored(&self) -> bool {
        match self {
            Self::Tcp(io) => io.is_write_vectored(),
            Self::Unix(io) => io.is_write_vectored(),
            Self::Tls(io) => io.is_write_vectored(),
            Self::Other(io) => io.is_write_vectored(),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        either!(self.poll_flush(cx))
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        either!(self.poll_shutdown(cx))
    }
}

pub(super) struct StampedIo {
    io: Socket,
    marks: Arc<Marks>,
    broken: bool,
}

impl StampedIo {
    pub(super) fn new(io: Socket, marks: Arc<Marks>) -> Self {
        Self {
            io,
            marks,
            broken: false,
        }
    }

    /// An upstream that answers 413 and closes makes our next write fail while its answer waits to be read. hyper gives up the
    /// whole connection on a failed write, so the failure is kept back: the write stays pending, and the read side, which such a
    /// socket always brings to an end, tells what happened.
    fn poll_written(&mut self, written: Poll<io::Result<usize>>) -> Poll<io::Result<usize>> {
        match &written {
            Poll::Ready(Ok(_)) => self.marks.wrote(),
            Poll::Ready(Err(_)) => self.broken = true,
            Poll::Pending => {}
        }
        if self.broken { Poll::Pending } else { written }
    }
}

/// The bare socket of a connection that has switched protocols, and what was read of it already. A tunnel awaits no reply, so its
/// failed writes must not be kept back: they would never end.
pub(in crate::proxy) fn switched(upgraded: Upgraded) -> (Bytes, Socket) {
    match upgraded.downcast::<TokioIo<StampedIo>>() {
        Ok(parts) => (parts.read_buf, parts.io.into_inner().io),
        Err(other) => (Bytes::new(), Socket::Other(Box::new(TokioIo::new(other)))),
    }
}

impl AsyncRead for StampedIo {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        let read = Pin::new(&mut self.io).poll_read(cx, buf);
        if read.is_pending() && self.marks.is_asked() && self.io.has_news() {
            // Whatever it is, it is the end of an idle connection.
            return Poll::Ready(Ok(()));
        }
        ready!(read)?;
        if buf.filled().len() > before {
            self.marks.read(clock::now());
        }
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for StampedIo {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        if self.broken {
            return Poll::Pending;
        }
        let written = Pin::new(&mut self.io).poll_write(cx, buf);
        self.poll_written(written)
    }

    fn poll_write_vectored(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bufs: &[io::IoSlice<'_>]) -> Poll<io::Result<usize>> {
        if self.broken {
            return Poll::Pending;
        }
        let written = Pin::new(&mut self.io).poll_write_vectored(cx, bufs);
        self.poll_written(written)
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(Pin::new(&mut self.io).poll_flush(cx))?;
        self.marks.flushed(clock::now);
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(cx)
    }
}
