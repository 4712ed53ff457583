//! The HTTP/2 connection (prior knowledge, or picked by ALPN over TLS), shared by all requests and driven by one task of its own. It is made when
//! first needed and again when it is gone.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use http::{Request, Response};
use hyper::body::Incoming;
use hyper::client::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use tokio::sync::Mutex;

use super::conn::Failure;
use super::error::SendError;
use super::limits::{Limits, Progress};
use super::marks::Marks;
use super::socket::{BoxIo, StampedIo};
use super::upload::Upload;
use super::{Sent, error};
use crate::config;

/// Receive window of one stream: what a client that reads nothing may leave waiting here, bytes.
const STREAM_WINDOW: u32 = 256 * 1024;

/// Receive window of the connection: 256 such clients before one that reads is held up, bytes.
const CONNECTION_WINDOW: u32 = 64 * 1024 * 1024;

/// A PING this often while streams are open finds a dead peer.
const PING_INTERVAL: Duration = Duration::from_secs(30);
const PING_TIMEOUT: Duration = Duration::from_secs(20);

#[derive(Default)]
pub(super) struct H2 {
    /// Held while connecting, so that waiting requests share what comes of it.
    live: Mutex<Option<Live>>,
}

#[derive(Clone)]
pub(super) struct Live {
    sender: http2::SendRequest<Upload>,
    /// The socket's marks.
    pub(super) socket: Arc<Marks>,
}

impl H2 {
    /// The live connection, and whether it was there before.
    pub(super) async fn get<F>(&self, config: &config::Upstream, connect: F) -> Result<(Live, bool), SendError>
    where
        F: Future<Output = Result<BoxIo, SendError>>,
    {
        let mut live = self.live.lock().await;
        if let Some(live) = &*live
            && !live.sender.is_closed()
        {
            return Ok((live.clone(), true));
        }
        let fresh = Live::open(connect.await?, config).await?;
        *live = Some(fresh.clone());
        Ok((fresh, false))
    }
}

impl Live {
    async fn open(io: BoxIo, config: &config::Upstream) -> Result<Self, SendError> {
        let socket = Arc::new(Marks::new());
        let mut builder = http2::Builder::new(TokioExecutor::new());
        builder
            .timer(TokioTimer::new())
            .initial_stream_window_size(STREAM_WINDOW)
            .initial_connection_window_size(CONNECTION_WINDOW)
            .keep_alive_interval(PING_INTERVAL)
            .keep_alive_timeout(PING_TIMEOUT)
            .max_header_list_size(u32::try_from(config.max_header_bytes).unwrap_or(u32::MAX));
        let io = TokioIo::new(StampedIo::new(io, Arc::clone(&socket)));
        let (sender, connection) = builder
            .handshake(io)
            .await
            .map_err(|e| SendError::Unreachable(format!("HTTP/2 handshake: {}", error::chain(&e))))?;
        tokio::spawn(async move {
            if let Err(error) = connection.await {
                tracing::debug!(error = error::chain(&error), "the HTTP/2 connection to the upstream ended");
            }
        });
        Ok(Self { sender, socket })
    }

    /// Sends `request`, whose upload is bound to `marks`, and waits for the head. Dropped, it resets the stream.
    pub(super) async fn exchange(
        &mut self,
        request: Request<Upload>,
        marks: &Arc<Marks>,
        limits: &mut Limits,
        sent: &mut Sent,
    ) -> Result<Response<Incoming>, Failure> {
        let mut response = pin!(self.sender.try_send_request(request));
        let result = poll_fn(|cx| {
            marks.wake_on_sent(cx.waker());
            sent.report(marks);
            if let Poll::Ready(result) = response.as_mut().poll(cx) {
                return Poll::Ready(Ok(result));
            }
            limits.poll(cx, marks).map(Err)
        })
        .await;
        match result {
            Ok(Ok(response)) => {
                limits.progress = Progress::Head;
                Ok(response)
            }
            Ok(Err(mut failed)) => {
                let unsent = failed.take_message().map(Box::new);
                Err(Failure {
                    error: SendError::before_head(&failed.into_error(), marks.has_upload_failed()),
                    unsent,
                })
            }
            Err(limit) => Err(Failure {
                error: SendError::Timeout(limit),
                unsent: None,
            }),
        }
    }
}
