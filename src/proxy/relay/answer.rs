//! Replies of the proxy's own over the relay, and the end of a connection whose upload nobody reads.

use std::future::poll_fn;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};

use super::head::BadHead;
use super::pending::{READ_SIZE, poll_read_with};
use super::terms::Failure;
use crate::clock;
use crate::observe::Exchange;
use crate::proxy::error::Answer;
use crate::proxy::upstream::SendError;

/// After an early reply the rest of an upload is read and dropped for this long, so that the close does not destroy the reply on
/// its way (RFC 9112 9.6).
const LINGER: Duration = Duration::from_secs(1);

impl From<Failure> for SendError {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::Closed => Self::ClosedBeforeHead,
            Failure::Head(BadHead::TooLarge) => Self::HeadTooLarge,
            Failure::Head(BadHead::Malformed) => {
                Self::Malformed("it is not HTTP/1.1, or its framing is contradictory".to_owned())
            }
            Failure::Timeout(limit) => Self::Timeout(limit),
        }
    }
}

/// Answers by itself. `uploading`: the client is still sending its request. Whether its connection can serve another.
pub(super) async fn refuse<C>(
    client: &mut C,
    observed: &mut Exchange,
    answer: impl Into<Answer>,
    is_head: bool,
    uploading: bool,
    close: bool,
) -> bool
where
    C: AsyncRead + AsyncWrite + Unpin,
{
    // Boxed: every exchange has room for this future, and few come here.
    let answered = Box::pin(send(client, observed, answer.into(), is_head, uploading || close)).await;
    if uploading {
        Box::pin(linger(client)).await;
    }
    answered && !uploading && !close
}

/// Writes an answer of the proxy's own, before anything else reached the client; HEAD gets the head alone. Whether the client took it.
async fn send<C: AsyncWrite + Unpin>(
    client: &mut C,
    observed: &mut Exchange,
    answer: Answer,
    is_head: bool,
    close: bool,
) -> bool {
    observed.answered(clock::now(), answer.status, answer.ending);
    let out = answer.into_bytes(is_head, close);
    client.write_all(&out).await.is_ok()
}

/// Ends the write side and drops what the client still sends, for a while.
pub(super) async fn linger<C: AsyncRead + AsyncWrite + Unpin>(client: &mut C) {
    let drain = async {
        if client.shutdown().await.is_ok() {
            while matches!(
                poll_fn(|cx| poll_read_with(client, cx, READ_SIZE, |_, _| ())).await,
                Ok(Some(()))
            ) {}
        }
    };
    let _ = tokio::time::timeout(LINGER, drain).await;
}
