//! What the parts of one request share: its exchange, the tap of its body, and the gauges that look at it while it is under way.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::asked::TraceId;
use super::routes::Judged;
use super::rules::Rules;
use crate::aggregate::Series;
use crate::measure::{AskedBounds, Live, Meter, Stamp, TokenSource};
use crate::wire::{Format, RequestFacts, RequestScanner};

/// One request, from its head on.
#[derive(Debug)]
pub(super) struct Request {
    pub(super) t0: Stamp,
    /// In force when it began; it is judged by them to its end.
    pub(super) rules: Arc<Rules>,
    /// Index into the routes of its rules.
    pub(super) route: usize,
    /// How its reply is read; none: only time and bytes.
    pub(super) format: Option<&'static Format>,
    /// The value of the `api` label.
    pub(super) api: &'static str,
    /// Whether SLOs are for it at all.
    pub(super) judged: bool,
    pub(super) tenant: Option<Box<str>>,
    /// For each SLO of the route whether its header condition holds; empty when none has one.
    pub(super) slo_headers: Vec<bool>,
    pub(super) bounds: AskedBounds,
    pub(super) trace: Option<TraceId>,
    pub(super) attempts: AtomicU32,
    pub(super) upload: Mutex<Upload>,
    pub(super) progress: Progress,
    /// The series it counts on, once that is known.
    pub(super) series: Mutex<Option<Arc<Series>>>,
}

/// The request body on its way.
#[derive(Debug)]
pub(super) struct Upload {
    pub(super) body: Body,
    pub(super) sent: Option<Stamp>,
}

/// What reads the body, or what it has said. Boxed while it is read: the scanner is 700 bytes, of no use to a reply that streams.
#[derive(Debug)]
pub(super) enum Body {
    Reading(Box<RequestScanner>),
    /// Through, or not read (any more).
    Read(RequestFacts),
}

impl Upload {
    pub(super) fn new(scanner: Option<RequestScanner>) -> Self {
        let unread = Body::Read(RequestFacts::default());
        Self {
            body: scanner.map_or(unread, |scanner| Body::Reading(Box::new(scanner))),
            sent: None,
        }
    }

    /// The last byte of the body was handed to the upstream at `at`.
    pub(super) fn sent(&mut self, at: Stamp) {
        self.sent.get_or_insert(at);
        if let Body::Reading(scanner) = &self.body {
            self.body = Body::Read(scanner.facts());
        }
    }
}

impl Request {
    /// What judging needs of its route.
    pub(super) fn judged_by(&self) -> &Judged {
        self.rules.routes.get(self.route)
    }

    pub(super) fn upload(&self) -> MutexGuard<'_, Upload> {
        self.upload.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What the body has said so far.
    pub(super) fn facts(&self) -> RequestFacts {
        match &self.upload().body {
            Body::Reading(scanner) => scanner.facts(),
            Body::Read(facts) => facts.clone(),
        }
    }

    /// Whether a request that said `facts` wants a stream.
    pub(super) fn wants_stream(&self, facts: &RequestFacts) -> bool {
        facts.stream.unwrap_or(self.format.is_some_and(|f| f.lines))
    }

    pub(super) fn series(&self) -> MutexGuard<'_, Option<Arc<Series>>> {
        self.series.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Where the reply stands, for readers on other threads; written once a chunk, without a lock. The numbers may be torn against each
/// other by a chunk, which a gauge can bear.
#[derive(Debug, Default)]
pub(super) struct Progress {
    /// Stamps plus 1; 0 is none.
    first: AtomicU64,
    last: AtomicU64,
    /// The largest gap plus 1; 0 is none.
    stall: AtomicU64,
    tokens: AtomicU64,
    /// Whether those will most likely be settled by the server's usage.
    by_usage: AtomicBool,
    /// How many of the tokens a scrape has seen; [`SETTLED`] once the request has ended.
    shown: AtomicU64,
    streaming: AtomicBool,
    head: AtomicBool,
}

/// No more tokens are to be shown: the record has the rest.
const SETTLED: u64 = u64::MAX;

impl Progress {
    pub(super) fn store(&self, meter: &Meter) {
        self.by_usage.store(meter.likely_source() == TokenSource::Usage, Relaxed);
        self.store_live(&meter.live());
    }

    fn store_live(&self, live: &Live) {
        let stamp = |t: Option<Stamp>| t.map_or(0, |t| t.as_nanos().saturating_add(1));
        self.first.store(stamp(live.t_first), Relaxed);
        self.last.store(stamp(live.t_last), Relaxed);
        self.stall.store(live.stall_ns.map_or(0, |ns| ns.saturating_add(1)), Relaxed);
        self.tokens.store(live.output_tokens, Relaxed);
        self.streaming.store(live.streaming, Relaxed);
    }

    /// The response head arrived: what was asked for no longer matters.
    pub(super) fn head(&self, meter: &Meter) {
        self.store(meter);
        self.head.store(true, Relaxed);
    }

    /// The tokens that no scrape has seen yet, which counts them as seen, and what they will most likely be counted from.
    pub(super) fn show(&self) -> (u64, TokenSource) {
        let tokens = self.tokens.load(Relaxed);
        let more = |shown: u64| (shown < tokens).then_some(tokens);
        let before = self.shown.fetch_update(Relaxed, Relaxed, more).unwrap_or(tokens);
        let by_usage = self.by_usage.load(Relaxed);
        (
            tokens - before,
            if by_usage { TokenSource::Usage } else { TokenSource::Events },
        )
    }

    /// The request has ended: how many of its tokens scrapes have seen, the last one included.
    pub(super) fn settle(&self) -> u64 {
        self.shown.swap(SETTLED, Relaxed)
    }

    pub(super) fn has_head(&self) -> bool {
        self.head.load(Relaxed)
    }

    pub(super) fn load(&self, t0: Stamp) -> Live {
        let stamp = |n: &AtomicU64| n.load(Relaxed).checked_sub(1);
        Live {
            t0,
            t_first: stamp(&self.first).map(Stamp::from_nanos),
            t_last: stamp(&self.last).map(Stamp::from_nanos),
            stall_ns: stamp(&self.stall),
            streaming: self.streaming.load(Relaxed),
            output_tokens: self.tokens.load(Relaxed),
        }
    }
}

#[cfg(test)]
impl Request {
    /// A request of no route in particular.
    pub(super) fn for_tests() -> Self {
        Self {
            t0: Stamp::default(),
            rules: Arc::new(Rules::new(&crate::config::Config::default())),
            route: 0,
            format: None,
            api: "other",
            judged: false,
            tenant: None,
            slo_headers: Vec::new(),
            bounds: AskedBounds::default(),
            trace: None,
            attempts: AtomicU32::new(0),
            upload: Mutex::new(Upload::new(None)),
            progress: Progress::default(),
            series: Mutex::new(None),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn progress_gives_back_what_was_stored_also_a_stamp_of_zero() {
        let progress = Progress::default();
        let t0 = Stamp::from_nanos(5);
        let mut live = Live {
            t0,
            t_first: None,
            t_last: None,
            stall_ns: None,
            streaming: false,
            output_tokens: 0,
        };
        assert_eq!((progress.load(t0), progress.has_head()), (live, false));
        live = Live {
            t_first: Some(Stamp::from_nanos(0)),
            t_last: Some(Stamp::from_nanos(9)),
            stall_ns: Some(0),
            streaming: true,
            output_tokens: 3,
            ..live
        };
        progress.store_live(&live);
        assert_eq!(progress.load(t0), live);
    }

    #[test]
    fn tokens_are_shown_once_and_none_after_the_end() {
        let progress = Progress::default();
        assert_eq!(progress.show(), (0, TokenSource::Events));
        progress.tokens.store(5, Relaxed);
        assert_eq!(progress.show(), (5, TokenSource::Events));
        assert_eq!(progress.show(), (0, TokenSource::Events));
        progress.tokens.store(7, Relaxed);
        progress.by_usage.store(true, Relaxed);
        assert_eq!(progress.show(), (2, TokenSource::Usage));
        progress.tokens.store(9, Relaxed);
        assert_eq!(progress.settle(), 7);
        assert_eq!(progress.show(), (0, TokenSource::Usage));
    }
}
