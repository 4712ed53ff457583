//! One HTTP/1.1 connection, polled in place: its future belongs to whoever waits for the response, never to a task of its own.
//! So a chunk costs no wake-up of another task, and dropping the owner closes the socket at once.

use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};

use http::{Request, Response, StatusCode};
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;

use super::Sent;
use super::error::SendError;
use super::limits::{Limits, Progress};
use super::marks::Marks;
use super::socket::{Socket, StampedIo};
use super::upload::Upload;
use crate::config;
use crate::proxy::pool::Kept;

/// Cap of hyper's read buffer beyond a head, and of its write buffer, bytes per connection.
const BUFFER_BYTES: usize = 64 * 1024;

/// hyper's own cap on header fields, for which it needs no allocation.
const HYPER_MAX_HEADERS: usize = 100;

type Driver = Pin<Box<dyn Future<Output = hyper::Result<()>> + Send>>;

pub(super) struct Conn {
    /// None once the connection has ended.
    driver: Option<Driver>,
    sender: http1::SendRequest<Upload>,
    marks: Arc<Marks>,
}

/// Why there is no response, and the request again when none of it was written.
pub(super) struct Failure {
    pub(super) error: SendError,
    pub(super) unsent: Option<Box<Request<Upload>>>,
}

impl Kept for Conn {
    /// Finds out that the upstream has closed it: hyper reads an idle connection for its end.
    fn is_idle(&mut self, cx: &mut Context<'_>, ask: bool) -> bool {
        self.marks.ask(ask);
        self.drive(cx);
        self.marks.ask(false);
        self.driver.is_some() && self.sender.is_ready()
    }
}

impl Conn {
    pub(super) async fn open(io: Socket, config: &config::Upstream) -> Result<Self, SendError> {
        let marks = Arc::new(Marks::new());
        let mut builder = http1::Builder::new();
        builder
            .preserve_header_case(true)
            .max_header_size(config.max_header_bytes)
            .max_buf_size(config.max_header_bytes.saturating_add(BUFFER_BYTES));
        if config.max_headers != HYPER_MAX_HEADERS {
            builder.max_headers(config.max_headers);
        }
        let io = TokioIo::new(StampedIo::new(io, Arc::clone(&marks)));
        let (sender, driver) = builder
            .handshake(io)
            .await
            .map_err(|error| SendError::Unreachable(error.to_string()))?;
        Ok(Self {
            driver: Some(Box::pin(driver.with_upgrades())),
            sender,
            marks,
        })
    }

    pub(super) fn marks(&self) -> &Arc<Marks> {
        &self.marks
    }

    /// Moves reads and writes on. Gives the error the connection ended with, if it did just now.
    pub(super) fn drive(&mut self, cx: &mut Context<'_>) -> Option<hyper::Error> {
        let driver = self.driver.as_mut()?;
        let Poll::Ready(ended) = driver.as_mut().poll(cx) else {
            return None;
        };
        // Dropping it hands a request that was never taken up back to its sender.
        self.driver = None;
        ended.err()
    }

    pub(super) const fn has_ended(&self) -> bool {
        self.driver.is_none()
    }

    /// Sends `request` and waits for the final head.
    pub(super) async fn exchange(
        &mut self,
        request: Request<Upload>,
        limits: &mut Limits,
        sent: &mut Sent,
    ) -> Result<Response<Incoming>, Failure> {
        let mut response = pin!(self.sender.try_send_request(request));
        let mut ended_with = None;
        let result = poll_fn(|cx| {
            ended_with = self.drive(cx).or(ended_with.take());
            sent.report(&self.marks);
            if let Poll::Ready(result) = response.as_mut().poll(cx) {
                return Poll::Ready(Ok(result));
            }
            limits.poll(cx, &self.marks).map(Err)
        })
        .await;
        match result {
            Ok(Ok(response)) => {
                if response.status() != StatusCode::SWITCHING_PROTOCOLS {
                    self.marks.final_head();
                }
                limits.progress = Progress::Head;
                Ok(response)
            }
            Ok(Err(mut failed)) => {
                let unsent = failed.take_message().map(Box::new);
                let error = ended_with.unwrap_or_else(|| failed.into_error());
                Err(Failure {
                    error: SendError::before_head(&error, self.marks.has_upload_failed()),
                    unsent,
                })
            }
            Err(limit) => Err(Failure {
                error: SendError::Timeout(limit),
                unsent: None,
            }),
        }
    }

    /// Drives the connection to its end, as a protocol switch does by itself: hyper then hands the socket out.
    pub(super) async fn hand_over(&mut self) {
        poll_fn(|cx| {
            self.drive(cx);
            if self.has_ended() { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
    }
}
