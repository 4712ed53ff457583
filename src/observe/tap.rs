//! The taps: what reads the traffic as it passes. They hold no byte of it, and whatever goes wrong in them costs a measurement,
//! never the traffic.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use super::Observer;
use super::request::{Body, Request};
use crate::aggregate::{Burst, Series};
use crate::measure::{Degraded, EventFacts, Meter, Stamp};
use crate::wire::{EventSink, RequestFacts};

/// Reads with `read`; none when it panicked.
pub(super) fn guarded<T>(read: impl FnOnce() -> T) -> Option<T> {
    // What a panic leaves half done is thrown away by the caller.
    catch_unwind(AssertUnwindSafe(read)).ok()
}

/// Bytes at which the taps panic, so that a test can see the traffic go on without them. Nothing of this is in the program.
#[cfg(test)]
pub(crate) const PANIC: &[u8] = b"panic on purpose";

/// Where a tap looks at `bytes`.
#[inline]
pub(super) fn looks_at(bytes: &[u8]) {
    #[cfg(test)]
    assert!(memchr::memmem::find(bytes, PANIC).is_none(), "on purpose");
    let _ = bytes;
}

/// The request body's side of an [`super::Exchange`].
#[derive(Clone, Debug)]
pub struct RequestTap {
    pub(super) request: Arc<Request>,
    pub(super) observer: Arc<Observer>,
}

impl RequestTap {
    /// A connection attempt or reuse began (one or two per request).
    pub fn attempt(&self) {
        self.request.attempts.fetch_add(1, Relaxed);
    }

    /// Body bytes on their way to the upstream.
    pub fn chunk(&self, bytes: &[u8]) {
        let mut upload = self.request.upload();
        let Body::Reading(scanner) = &mut upload.body else { return };
        if guarded(|| {
            looks_at(bytes);
            scanner.feed(bytes);
        })
        .is_none()
        {
            upload.body = Body::Read(RequestFacts::default());
            self.observer.aggregates.degraded(Degraded::Panic);
        }
    }

    /// The last body byte was handed to the upstream socket at `at`.
    pub fn sent(&self, at: Stamp) {
        self.request.upload().sent(at);
    }
}

/// What a reply's reader is connected to.
pub(super) struct Reply<'a> {
    observer: &'a Observer,
    request: &'a Request,
    meter: &'a mut Meter,
    said: &'a mut Said,
    burst: Burst,
}

impl<'a> Reply<'a> {
    /// For one read.
    pub(super) fn new(observer: &'a Observer, request: &'a Request, meter: &'a mut Meter, said: &'a mut Said) -> Self {
        Self {
            observer,
            request,
            meter,
            said,
            burst: Burst::default(),
        }
    }

    /// The read is through.
    pub(super) fn done(&mut self) {
        if let Some(series) = &self.said.series {
            self.burst.flush(series);
        }
    }
}

/// What the reply, and the request before it, said besides the events.
#[derive(Debug, Default)]
pub(super) struct Said {
    /// What the request body had said when the reply began.
    pub(super) asked: RequestFacts,
    /// The reply's model, for requests that named none.
    pub(super) model: Option<Box<str>>,
    /// The series that the request counts on, once resolved.
    series: Option<Arc<Series>>,
    /// Reasons already counted: each once a request.
    degraded: [bool; Degraded::ALL.len()],
}

impl Said {
    /// The series of `request`; found once, then the same to the end. `confirmed` says that the upstream answered with success.
    pub(super) fn series(&mut self, observer: &Observer, request: &Request, confirmed: bool) -> &Arc<Series> {
        self.series.get_or_insert_with(|| {
            let model = self.asked.model.as_deref().or(self.model.as_deref());
            let series = observer
                .aggregates
                .series(request.judged_by().slot.route, model, request.tenant.as_deref(), confirmed);
            *request.series() = Some(Arc::clone(&series));
            series
        })
    }

    /// Counts that the reply could not be read for `why`.
    pub(super) fn degraded(&mut self, observer: &Observer, why: Degraded) {
        if !std::mem::replace(&mut self.degraded[why as usize], true) {
            observer.aggregates.degraded(why);
        }
    }

    /// Whether anything could not be read.
    pub(super) fn is_degraded(&self) -> bool {
        self.degraded.contains(&true)
    }
}

impl EventSink for Reply<'_> {
    fn event(&mut self, at: Stamp, facts: &EventFacts) {
        // Events are read in replies without an error status only.
        let series = self.said.series(self.observer, self.request, true);
        self.meter.event(at, facts, &mut self.burst.towards(series));
    }

    fn model(&mut self, name: &str) {
        if self.said.model.is_none() && name.len() <= RequestFacts::MAX_MODEL {
            self.said.model = Some(name.into());
        }
    }

    fn degraded(&mut self, why: Degraded) {
        self.said.degraded(self.observer, why);
    }
}
