//! After a websocket handshake: bytes both ways, unread, until both sides have ended. Its record has no token measures.
//!
//! What ends first decides how it ended: the orderly end of either side completes it, whatever follows; a reset or a refused write
//! is the fault of the side it came from. A peer whose process died with nothing unread ends orderly as far as TCP tells.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::OnceLock;
use std::task::{Context, Poll, ready};

use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf, copy_bidirectional};

use super::metered::Guards;
use super::sniff::Prefixed;
use super::upstream::switched;
use crate::clock;
use crate::lifecycle::{Phase, PhaseWatch};
use crate::measure::Ending;
use crate::observe::Exchange;

/// Splices the two sides. The exchange ends with the tunnel; cut at the drain deadline it finishes itself as drained.
pub(super) async fn run(client: OnUpgrade, server: OnUpgrade, mut exchange: Exchange, guards: Guards, mut phase: PhaseWatch) {
    let first = OnceLock::new();
    let spliced = async {
        let Ok(client) = client.await else {
            return Ending::ClientGone;
        };
        let Ok(server) = server.await else {
            return Ending::UpstreamReset;
        };
        let mut client = Side {
            io: TokioIo::new(client),
            broken: Ending::ClientGone,
            first: &first,
        };
        let (read, server) = switched(server);
        let mut server = Side {
            io: Prefixed::new(read, server),
            broken: Ending::UpstreamReset,
            first: &first,
        };
        // Whatever went wrong was noted by the side it went wrong on.
        let _ = copy_bidirectional(&mut client, &mut server).await;
        first.get().copied().unwrap_or(Ending::Complete)
    };
    let ending = tokio::select! {
        ending = spliced => Some(ending),
        () = phase.reached(Phase::Stopped) => None,
    };
    if let Some(ending) = ending {
        exchange.finish(clock::now(), ending);
    }
    drop((exchange, guards));
}

/// One side of a tunnel: notes how the tunnel ended if it ends here first.
struct Side<'a, I> {
    io: I,
    /// How the tunnel ended if this side fails.
    broken: Ending,
    first: &'a OnceLock<Ending>,
}

impl<I> Side<'_, I> {
    fn note<T>(&self, done: io::Result<T>) -> io::Result<T> {
        if done.is_err() {
            let _ = self.first.set(self.broken);
        }
        done
    }
}

impl<I: AsyncRead + Unpin> AsyncRead for Side<'_, I> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        let read = ready!(Pin::new(&mut self.io).poll_read(cx, buf));
        if read.is_ok() && buf.filled().len() == before && buf.remaining() > 0 {
            let _ = self.first.set(Ending::Complete);
        }
        Poll::Ready(self.note(read))
    }
}

impl<I: AsyncWrite + Unpin> AsyncWrite for Side<'_, I> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let written = ready!(Pin::new(&mut self.io).poll_write(cx, buf));
        Poll::Ready(self.note(written))
    }

    fn poll_write_vectored(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bufs: &[IoSlice<'_>]) -> Poll<io::Result<usize>> {
        let written = ready!(Pin::new(&mut self.io).poll_write_vectored(cx, bufs));
        Poll::Ready(self.note(written))
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = ready!(Pin::new(&mut self.io).poll_flush(cx));
        Poll::Ready(self.note(flushed))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let ended = ready!(Pin::new(&mut self.io).poll_shutdown(cx));
        Poll::Ready(self.note(ended))
    }
}
