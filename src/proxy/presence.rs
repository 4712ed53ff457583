//! Whether a client that is not read is still there: one whose upload waits for the upstream, or that has sent too much ahead.
//!
//! A read is what tells an end, and there is no room for what it would bring. But the socket knows of a reset, and of an end with
//! nothing before it that it had to refuse; it is asked once a second. A client that ends its side while it has more to send than
//! the kernel takes is seen only when the upstream reads on: its FIN has not arrived.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::time::{Sleep, sleep};

use super::connection::ClientStream;

/// Between two questions.
const INTERVAL: Duration = Duration::from_secs(1);

/// When to ask next. Nothing until the first time that a client is not read.
#[derive(Debug, Default)]
pub(super) struct Presence(Option<Pin<Box<Sleep>>>);

impl Presence {
    /// Ready when the client is gone; an end of its side counts with `fin`.
    pub(super) fn poll_gone<C: ClientStream>(&mut self, cx: &mut Context<'_>, client: &mut C, fin: bool) -> Poll<()> {
        loop {
            let next = self.0.get_or_insert_with(|| Box::pin(sleep(INTERVAL)));
            std::task::ready!(next.as_mut().poll(cx));
            self.0 = None;
            if client.is_gone(fin) {
                return Poll::Ready(());
            }
        }
    }
}
