//! One request under way, from its head to its one record.
//!
//! Its state sits in an `Option` that the first ending takes; the drop is the last to try. Nothing here fails, blocks or keeps a
//! byte of the traffic, and a panic of the reader costs the measurement of this request only.

use std::fmt;
use std::sync::Arc;

use http::{Method, StatusCode};

use super::asked::{self, TraceId};
use super::fields::Fields;
use super::live::Place;
use super::request::{Progress, Request, Upload};
use super::tap::{Reply, RequestTap, Said, guarded, looks_at};
use super::{Observer, recorder};
use crate::clock;
use crate::lifecycle::Phase;
use crate::measure::{AskedBounds, Degraded, Ending, Meter, ReplyKind, Stamp, grpc};
use crate::wire::{Decoder, RequestFacts, RequestScanner, Terminal, WholeFacts};

const CONTENT_TYPE: &str = "content-type";
const CONTENT_ENCODING: &str = "content-encoding";
const GRPC_STATUS: &str = "grpc-status";

/// One request under way. Dropped unfinished, it finishes itself: as drained when the proxy's deadline cut it, else as the
/// client's leaving.
pub struct Exchange {
    observer: Arc<Observer>,
    request: Arc<Request>,
    state: Option<Box<State>>,
}

/// What is gone once the record is made.
struct State {
    meter: Meter,
    decoder: Option<Decoder>,
    said: Said,
    /// The status of a reply of the proxy's own.
    own_status: Option<u16>,
    _place: Option<Place>,
}

impl Exchange {
    pub(super) fn new(
        observer: &Arc<Observer>,
        t0: Stamp,
        method: &Method,
        path: &str,
        headers: &(impl Fields + ?Sized),
    ) -> Self {
        let rules = observer.rules();
        let how = rules.routes.find(method, path, headers);
        let route = rules.routes.get(how.route);
        let tenant = rules
            .tenant_header
            .as_ref()
            .and_then(|name| headers.first_text(name.as_str()));
        // Embeddings name a model too, so every judged request's body is read, even where its reply is not.
        let scanner = how.judged.then(|| {
            let (kind, coding) = (headers.joined(CONTENT_TYPE), headers.joined(CONTENT_ENCODING));
            RequestScanner::new(kind.as_deref(), coding.as_deref())
        });
        let itl = route.itl;
        let request = Arc::new(Request {
            t0,
            route: how.route,
            format: how.format,
            api: how.api,
            judged: how.judged,
            tenant: tenant.map(Into::into),
            slo_headers: route.headers_hold(headers),
            bounds: if route.header_bounds {
                asked::bounds(headers)
            } else {
                AskedBounds::default()
            },
            trace: TraceId::of(headers),
            attempts: Default::default(),
            upload: Upload::new(scanner).into(),
            progress: Progress::default(),
            series: Default::default(),
            rules,
        });
        let state = State {
            meter: Meter::new(t0, itl),
            decoder: None,
            said: Said::default(),
            own_status: None,
            _place: observer.under_way.enter(&request),
        };
        Self {
            observer: Arc::clone(observer),
            request,
            state: Some(Box::new(state)),
        }
    }

    /// The tap for the request body; shared, since the body is sent while the reply may already be under way.
    pub fn request_tap(&self) -> RequestTap {
        RequestTap {
            request: Arc::clone(&self.request),
            observer: Arc::clone(&self.observer),
        }
    }

    /// The final response head was received at `at`.
    pub fn head(&mut self, at: Stamp, status: StatusCode, headers: &(impl Fields + ?Sized)) {
        let Some(state) = &mut self.state else { return };
        state.asked(&self.request);
        let (content_type, encoding) = (headers.joined(CONTENT_TYPE), headers.joined(CONTENT_ENCODING));
        // An upgraded connection has no reply to read.
        let format = self.request.format.filter(|_| status != StatusCode::SWITCHING_PROTOCOLS);
        let decoder = Decoder::new(format, content_type.as_deref(), encoding.as_deref(), state.said.asked.stream);
        let grpc = content_type.as_deref().is_some_and(grpc::is_grpc);
        let kind = match format {
            _ if grpc => ReplyKind::Call,
            _ if !decoder.is_reading() => ReplyKind::Unread,
            _ if !decoder.is_stream() => ReplyKind::Whole,
            Some(format) if format.terminal == Terminal::CleanEnd => ReplyKind::OpenEnded,
            Some(_) | None => ReplyKind::Stream,
        };
        state.meter.head(at, status.as_u16(), kind, decoder.is_stream());
        self.request.progress.head(&state.meter);
        if format.is_some() && !grpc && status.as_u16() < 400 {
            state.decoder = Some(decoder);
        }
        state.call_status(headers);
        // Without a model from the request, the reply's first event may still name one.
        if state.said.asked.model.is_some() {
            state.said.series(&self.observer, &self.request, status.is_success());
        }
    }

    /// The proxy has asked for usage in the client's name; after [`Self::head`].
    pub fn expect_usage(&mut self) {
        if let Some(state) = &mut self.state {
            state.meter.expect_usage();
        }
    }

    /// One read's worth of response body, taken from the upstream at `at`. Never fails, never keeps the bytes.
    pub fn chunk(&mut self, at: Stamp, bytes: &[u8]) {
        if !bytes.is_empty() {
            self.chunks(at, [bytes]);
        }
    }

    /// As [`Exchange::chunk`] for a read whose payload lies in pieces, none of them empty.
    pub fn chunks<'b>(&mut self, at: Stamp, pieces: impl IntoIterator<Item = &'b [u8]>) {
        let Some(state) = &mut self.state else { return };
        let mut pieces = pieces.into_iter().peekable();
        if pieces.peek().is_none() {
            return;
        }
        state.meter.byte(at);
        state.read(&self.observer, &self.request, |decoder, reply| {
            for bytes in pieces {
                looks_at(bytes);
                decoder.feed(at, bytes, reply);
            }
            None
        });
        self.request.progress.store(&state.meter);
    }

    /// The trailers of the reply. [`Self::finish`] follows.
    pub fn trailers(&mut self, trailers: &(impl Fields + ?Sized)) {
        if let Some(state) = &mut self.state {
            state.call_status(trailers);
        }
    }

    /// The proxy held a ready frame back from the upstream since the client was not taking more.
    pub fn client_limited(&mut self) {
        if let Some(state) = &mut self.state {
            state.meter.client_limited();
        }
    }

    /// The exchange ended. The first call counts, later ones do nothing.
    pub fn finish(&mut self, at: Stamp, ending: Ending) {
        let Some(mut state) = self.state.take() else { return };
        if ending == Ending::Complete {
            state.complete(&self.observer, &self.request, at);
        }
        if state.meter.status().is_none() {
            state.asked(&self.request);
        }
        let upload = self.request.upload().sent;
        if let Some(sent) = upload {
            state.meter.sent(sent);
        }
        let State {
            meter,
            mut said,
            own_status,
            _place,
            decoder: _,
        } = *state;
        let tokens_counted = meter.live().output_tokens;
        let tokens_shown = self.request.progress.settle();
        let record = meter.finish(at, ending, own_status);
        let confirmed = record.status.is_some_and(|s| own_status.is_none() && (200..300).contains(&s));
        let series = Arc::clone(said.series(&self.observer, &self.request, confirmed));
        recorder::record(
            &self.observer,
            &self.request,
            &recorder::Ended {
                record: &record,
                series: &series,
                model: said.asked.model.as_deref(),
                tokens_counted,
                tokens_shown,
            },
        );
    }

    /// The proxy answered by itself with `status`; `ending` says whose fault it was.
    pub fn answered(&mut self, at: Stamp, status: StatusCode, ending: Ending) {
        if let Some(state) = &mut self.state {
            state.own_status = Some(status.as_u16());
        }
        self.finish(at, ending);
    }
}

impl State {
    /// Takes over what the request body has said.
    fn asked(&mut self, request: &Request) {
        let facts = request.facts();
        self.meter.asked(
            request.wants_stream(&facts),
            choices(&facts),
            facts.include_usage == Some(true) || request.format.is_some_and(|f| f.closing_usage),
        );
        self.said.asked = facts;
    }

    /// Takes what became of a gRPC call from a head or from trailers.
    fn call_status(&mut self, fields: &(impl Fields + ?Sized)) {
        if let Some(status) = fields.first_text(GRPC_STATUS) {
            self.meter.call_status(grpc::http_status(status));
        }
    }

    /// Lets the decoder read. Once it cannot, or has panicked, the reply counts as unread from there on.
    fn read(
        &mut self,
        observer: &Observer,
        request: &Request,
        read: impl FnOnce(&mut Decoder, &mut Reply<'_>) -> Option<WholeFacts>,
    ) -> Option<WholeFacts> {
        let decoder = self.decoder.as_mut()?;
        let mut reply = Reply::new(observer, request, &mut self.meter, &mut self.said);
        let said = guarded(|| {
            let whole = read(decoder, &mut reply);
            (whole, decoder.is_reading())
        });
        let _ = guarded(|| reply.done());
        let (whole, reading) = said.unwrap_or_else(|| {
            self.said.degraded(observer, Degraded::Panic);
            (None, false)
        });
        if !reading {
            self.decoder = None;
            self.meter.unread();
        }
        whole
    }

    /// The body ended as HTTP says it should.
    fn complete(&mut self, observer: &Observer, request: &Request, at: Stamp) {
        let stream = self.decoder.as_ref().is_some_and(Decoder::is_stream);
        let whole = self.read(observer, request, |decoder, reply| decoder.finish(at, reply));
        match whole {
            Some(whole) => self.meter.whole(&whole.usage, whole.has_output, whole.error),
            // A unary reply that says nothing is empty; one that could not be read is unknown.
            None if !stream && self.said.is_degraded() => self.meter.unread(),
            None => {}
        }
    }
}

impl Drop for Exchange {
    fn drop(&mut self) {
        if self.state.is_some() {
            let cut = self.observer.phase.now() == Phase::Stopped;
            self.finish(clock::now(), if cut { Ending::Drained } else { Ending::ClientGone });
        }
    }
}

impl fmt::Debug for Exchange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Exchange")
            .field("open", &self.state.is_some())
            .finish_non_exhaustive()
    }
}

/// The choices that a request asks for; none when it does not say.
fn choices(facts: &RequestFacts) -> Option<u64> {
    if facts.n.is_none() && facts.prompts.is_none() {
        return None;
    }
    Some(facts.n.unwrap_or(1).saturating_mul(facts.prompts.unwrap_or(1)))
}

#[cfg(test)]
mod tests {
    use http::HeaderMap;

    use super::*;
    use crate::config::Config;
    use crate::lifecycle::Lifecycle;

    #[test]
    fn a_panic_of_the_reader_costs_this_measurement_and_nothing_else() {
        let observer = Observer::new(&Config::default(), Lifecycle::new().watch());
        let at = Stamp::from_nanos;
        let mut exchange = observer.begin(at(0), &Method::POST, "/v1/chat/completions", &HeaderMap::new());
        let mut headers = HeaderMap::new();
        headers.insert(
            http::header::CONTENT_TYPE,
            http::HeaderValue::from_static("text/event-stream"),
        );
        exchange.head(at(5), StatusCode::OK, &headers);
        let state = exchange.state.as_mut().unwrap();
        let read = state.read(&observer, &exchange.request, |_, _| panic!("on purpose"));
        assert_eq!(read, None);
        exchange.chunk(at(10), b"data: {}\n\n");
        exchange.finish(at(20), Ending::Complete);
        let last = observer.recent(1).remove(0);
        assert_eq!((last.outcome, last.output_tokens, last.e2e_ms), ("ok", None, 0.000_02));
        assert_eq!(observer.snapshot(at(20)).degraded[Degraded::Panic as usize], 1);
    }

    #[test]
    fn as_many_choices_are_asked_for_as_prompts_times_n() {
        let asked = |n, prompts| {
            choices(&RequestFacts {
                n,
                prompts,
                ..RequestFacts::default()
            })
        };
        assert_eq!(asked(None, None), None);
        assert_eq!(asked(Some(2), None), Some(2));
        assert_eq!(asked(None, Some(3)), Some(3));
        assert_eq!(asked(Some(2), Some(3)), Some(6));
    }
}
