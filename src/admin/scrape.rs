//! `/metrics`: a snapshot, rendered in the format the scraper prefers.
//!
//! Rendering is CPU work of up to tens of milliseconds, so it runs beside the admin runtime's own thread and a probe never waits
//! for it; the threads it runs on give way to the data path (`background`). [`MAX_SCRAPES`] bounds both that work and the memory of
//! rendered replies, since a slot is given back only when the reply has been written out (or its connection was given up).

use std::io::Write;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;
use http::header::{ACCEPT, ACCEPT_ENCODING, CONTENT_ENCODING, HeaderName, RETRY_AFTER, VARY};
use http::{HeaderMap, HeaderValue, StatusCode};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::AdminState;
use super::routes::{Reply, reply};
use crate::expose::{Format, Model, ProcessSample, accepts_gzip, format_for, render};
use crate::lifecycle::Phase;

/// Scrapes being rendered or written at once; a further one waits.
const MAX_SCRAPES: usize = 4;
/// How long it waits before it is told to come back.
const MAX_WAIT: Duration = Duration::from_secs(5);
const ERROR_TYPE: &str = "text/plain; charset=utf-8";

/// Places for scrapes.
#[derive(Clone)]
pub(super) struct Slots(Arc<Semaphore>);

impl Default for Slots {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(MAX_SCRAPES)))
    }
}

/// A rendered reply and the slot it holds for as long as any of it is unwritten.
struct Rendered {
    bytes: Vec<u8>,
    _slot: OwnedSemaphorePermit,
}

impl AsRef<[u8]> for Rendered {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

/// The reply to a scrape with these request headers.
pub(super) async fn answer(headers: &HeaderMap, state: &AdminState) -> Reply {
    let format = format_for(&joined(headers, &ACCEPT));
    let gzip = accepts_gzip(&joined(headers, &ACCEPT_ENCODING));
    let waiting = Arc::clone(&state.scrapes.0).acquire_owned();
    let Ok(Ok(slot)) = tokio::time::timeout(MAX_WAIT, waiting).await else {
        let mut busy = reply(StatusCode::SERVICE_UNAVAILABLE, ERROR_TYPE, "too many scrapes at once\n");
        busy.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static("5"));
        return busy;
    };
    let from = state.clone();
    match tokio::task::spawn_blocking(move || exposition(&from, format, gzip)).await {
        Ok(Ok(bytes)) => {
            let mut reply = reply(
                StatusCode::OK,
                format.content_type(),
                Bytes::from_owner(Rendered { bytes, _slot: slot }),
            );
            reply
                .headers_mut()
                .insert(VARY, HeaderValue::from_static("accept, accept-encoding"));
            if gzip {
                reply.headers_mut().insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
            }
            reply
        }
        Ok(Err(error)) => failed(&error),
        Err(panicked) => failed(&panicked),
    }
}

fn failed(error: &dyn std::fmt::Display) -> Reply {
    tracing::error!(%error, "metrics could not be rendered");
    reply(
        StatusCode::INTERNAL_SERVER_ERROR,
        ERROR_TYPE,
        "metrics could not be rendered; the log has the reason\n",
    )
}

fn exposition(state: &AdminState, format: Format, gzip: bool) -> prometheus::Result<Vec<u8>> {
    let (snapshot, stats) = (state.source.snapshot(), state.source.stats());
    let ready = state.phase.now() == Phase::Ready;
    let plain = render(
        &Model::build(snapshot, stats, &state.configured(), ready, &ProcessSample::read()),
        format,
    )?;
    if !gzip {
        return Ok(plain);
    }
    let mut encoder = GzEncoder::new(Vec::with_capacity(plain.len() / 8), Compression::fast());
    encoder.write_all(&plain)?;
    Ok(encoder.finish()?)
}

/// All values of a header that is a list.
fn joined(headers: &HeaderMap, name: &HeaderName) -> String {
    headers
        .get_all(name)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .collect::<Vec<_>>()
        .join(",")
}
