//! One request: observed, made fit for the next hop, sent, and its reply handed back with a metered body. Never fails: whatever
//! goes wrong before a head is an answer of the proxy's own.

use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::task::{Context, Poll};

use bytes::Bytes;
use http::header::{CONNECTION, CONTENT_LENGTH};
use http::{HeaderMap, HeaderValue, Request, Response, StatusCode, Uri, Version};
use http_body::{Body, Frame, SizeHint};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::upgrade::OnUpgrade;

use super::Proxy;
use super::client::Client;
use super::error::{Answer, Refusal};
use super::inject::InjectBody;
use super::metered::{Guards, MeteredBody};
use super::peek::{PeekBody, UploadState};
use super::strip::StripBody;
use super::upstream::{self, BodyError, Hooks, SendError};
use super::{headers, inject, strip, tunnel};
use crate::clock;
use crate::config::Limits;
use crate::measure::Stamp;
use crate::observe::{Exchange, RequestTap};

/// The body of a reply: the upstream's, or one of the proxy's own.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "nearly every reply is the large one")]
pub(super) enum ReplyBody {
    Upstream(MeteredBody<upstream::Body>),
    /// Without the usage event that only the proxy asked for.
    Stripped(Box<StripBody<MeteredBody<upstream::Body>>>),
    Own(Full<Bytes>),
}

/// Answers `request`, whose head was parsed just now.
pub(super) fn handle(
    proxy: &Arc<Proxy>,
    client: &Arc<Client>,
    request: Request<Incoming>,
) -> impl Future<Output = Result<Response<ReplyBody>, Infallible>> + Send + use<> {
    let t0 = clock::now();
    let both_framings = client.take_both_framings();
    let let_in = proxy.under_way.requests.enter_within(proxy.limits.max_requests);
    let refusal = match &let_in {
        _ if both_framings => Some(Refusal::BothFramings),
        _ if is_over(&request, &proxy.limits) => Some(Refusal::HeadTooLarge),
        None => Some(Refusal::TooManyRequests),
        Some(_) => None,
    };
    let guards = Guards::new(client, let_in);
    let proxy = Arc::clone(proxy);
    let path = request.uri().path();
    let exchange = proxy.observer.begin(t0, request.method(), path, request.headers());
    // Boxed: hyper keeps the place of this future as long as the connection, 5 KiB; this way only until the reply's head.
    Box::pin(async move {
        let handler = Handler {
            proxy,
            t0,
            exchange,
            guards,
            old_and_keeps: false,
        };
        Ok(match refusal {
            Some(refusal) => handler.refuse(&request, refusal),
            None => handler.forward(request).await,
        })
    })
}

/// Whether an HTTP/2 head, sized as that protocol sizes it (RFC 9113 6.5.2), is over a limit; those of HTTP/1 hyper holds to them.
fn is_over(request: &Request<Incoming>, limits: &Limits) -> bool {
    /// What a field counts beside its name and value, bytes.
    const FIELD: usize = 32;
    /// Names and framing of the four fields before the others, with their smallest values.
    const PSEUDO: usize = ":method:scheme:authority:path".len() + 4 * FIELD;
    if request.version() != Version::HTTP_2 {
        return false;
    }
    let (uri, headers) = (request.uri(), request.headers());
    let target = uri.path_and_query().map_or(0, |target| target.as_str().len()) + uri.authority().map_or(0, |a| a.as_str().len());
    let fields: usize = headers
        .iter()
        .map(|(name, value)| name.as_str().len() + value.len() + FIELD)
        .sum();
    headers.len() > limits.max_headers || PSEUDO + target + fields > limits.max_header_bytes
}

struct Handler {
    proxy: Arc<Proxy>,
    t0: Stamp,
    exchange: Exchange,
    guards: Guards,
    /// An HTTP/1.0 client that asked to keep its connection.
    old_and_keeps: bool,
}

impl Handler {
    async fn forward(mut self, mut request: Request<Incoming>) -> Response<ReplyBody> {
        let version = request.version();
        if version < Version::HTTP_11 {
            self.guards.client.mark_old();
            self.old_and_keeps = headers::keeps_alive(request.headers());
        }
        let websocket = headers::is_websocket(version, request.headers());
        let upgrade = request.extensions_mut().remove::<OnUpgrade>().filter(|_| websocket);
        let (method, uri) = (request.method().clone(), request.uri().clone());
        match headers::forward_request(&method, &uri, version, request.headers_mut(), websocket) {
            Ok(target) => *request.uri_mut() = Uri::from(target),
            Err(refusal) => return self.refuse(&request, refusal),
        }

        let inject = self.proxy.inject_usage && inject::is_candidate(&method, uri.path(), request.headers());
        if inject {
            inject::prepare(request.headers_mut());
        }

        let tap = self.exchange.request_tap();
        let upload = Arc::new(UploadState::default());
        let client = &self.guards.client;
        let injected = Arc::new(AtomicBool::new(false));
        let request = request.map(|body| {
            let body = PeekBody::new(body, tap.clone(), Arc::clone(client), Arc::clone(&upload));
            if inject {
                InjectBody::candidate(body, Arc::clone(&injected))
            } else {
                InjectBody::plain(body)
            }
        });
        let relay = version == Version::HTTP_11;
        let hooks = Arc::new(RequestHooks {
            tap,
            relay,
            client: Arc::clone(client),
            proxy: Arc::clone(&self.proxy),
        });
        let spent = clock::now().since(self.t0);

        let sent = self.proxy.upstream.send(request, hooks).await;
        // Over HTTP/2 others share the connection.
        let uploaded = version > Version::HTTP_11 || upload.is_ended();
        match sent {
            Ok(response) => self.reply(response, upgrade, spent, injected.load(Relaxed), uploaded),
            Err(SendError::RequestBody(_)) if upload.is_malformed() => self.answer(Refusal::MalformedBody.into(), uploaded),
            Err(error) => {
                if let SendError::RequestBody(why) = &error {
                    tracing::debug!(why, "the request body broke off");
                }
                if matches!(error, SendError::Unreachable(_)) {
                    self.proxy.counters.upstream_connect_errors.add();
                }
                self.answer(Answer::from(&error), uploaded)
            }
        }
    }

    /// `spent`: what the request itself cost, ns; `injected`: the proxy asked for usage in the client's name; `uploaded`: all of the
    /// request was read, or others share its connection.
    fn reply(
        mut self,
        mut response: Response<upstream::Body>,
        upgrade: Option<OnUpgrade>,
        spent: u64,
        injected: bool,
        uploaded: bool,
    ) -> Response<ReplyBody> {
        let at = response.body().read_at();
        let switching = response.status() == StatusCode::SWITCHING_PROTOCOLS;
        if switching && upgrade.is_none() {
            let error = SendError::Malformed("101 without a websocket handshake".to_owned());
            return self.answer(Answer::from(&error), uploaded);
        }
        if headers::is_coded_otherwise(response.headers()) && !response.body().is_end_stream() {
            let error = SendError::Malformed("its transfer coding is not chunked".to_owned());
            return self.answer(Answer::from(&error), uploaded);
        }
        self.exchange.head(at, response.status(), response.headers());
        if injected {
            self.exchange.expect_usage();
        }
        headers::forward_response(response.headers_mut(), switching);
        // The client's version is hyper's business; the upstream's own (1.0, 2) must not show.
        *response.version_mut() = Version::HTTP_11;
        if let Some(client_side) = upgrade.filter(|_| switching) {
            self.proxy.counters.upgrades.add();
            self.guards.client.mark_tunnel();
            let server_side = hyper::upgrade::on(&mut response);
            tokio::spawn(tunnel::run(
                client_side,
                server_side,
                self.exchange,
                self.guards,
                self.proxy.phase.clone(),
            ));
            return response.map(|_| ReplyBody::Own(Full::default()));
        }
        if !uploaded {
            // An early reply: hyper closes if the rest of the upload is not read, and the client must not be left to find out.
            response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
        }
        let ends_with_connection = !response.headers().contains_key(CONTENT_LENGTH) && !response.body().is_end_stream();
        if self.old_and_keeps && ends_with_connection {
            // Of a reply of version 1.1, hyper would say that the connection is kept.
            *response.version_mut() = Version::HTTP_10;
        }
        self.proxy.counters.overhead_request.record(spent + clock::now().since(at));
        let counters = Arc::clone(&self.proxy.counters);
        let strips = injected && strip::prepare(response.headers_mut());
        let client = strips.then(|| Arc::clone(&self.guards.client));
        response.map(|body| {
            let body = MeteredBody::new(body, self.exchange, self.guards, counters);
            match client {
                Some(client) => ReplyBody::Stripped(Box::new(StripBody::new(body, client))),
                None => ReplyBody::Upstream(body),
            }
        })
    }

    /// Answers a request that is not forwarded, whose body nobody will read.
    fn refuse(self, request: &Request<Incoming>, refusal: Refusal) -> Response<ReplyBody> {
        let read = request.body().is_end_stream();
        if !read {
            self.guards.client.cut_upload();
        }
        match refusal {
            Refusal::TooManyRequests => {}
            Refusal::HeadTooLarge => self.proxy.counters.heads_too_large.add(),
            _ => self.proxy.counters.heads_malformed.add(),
        }
        self.answer(refusal.into(), read || request.version() > Version::HTTP_11)
    }

    /// `uploaded` is as in [`Self::reply`].
    fn answer(mut self, answer: Answer, uploaded: bool) -> Response<ReplyBody> {
        tracing::debug!(
            reason = answer.reason,
            status = answer.status.as_u16(),
            "answered by the proxy itself"
        );
        self.exchange.answered(clock::now(), answer.status, answer.ending);
        let mut response = answer.into_response();
        if !uploaded {
            response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
        }
        response.map(|bytes| ReplyBody::Own(Full::new(bytes)))
    }
}

struct RequestHooks {
    tap: RequestTap,
    /// The client can be sent informational replies.
    relay: bool,
    client: Arc<Client>,
    proxy: Arc<Proxy>,
}

impl Hooks for RequestHooks {
    fn attempt(&self, reused: bool) {
        self.tap.attempt();
        self.proxy.counters.upstream_attempts.add();
        if !reused {
            self.proxy.counters.upstream_connects.add();
        }
    }

    fn sent(&self, at: Stamp) {
        self.tap.sent(at);
    }

    fn informational(&self, status: StatusCode, headers: &HeaderMap) {
        let mut headers = headers.clone();
        headers::forward_response(&mut headers, false);
        if !self.relay || !self.client.inform(status, &headers) {
            self.proxy.counters.informational_dropped.add();
        }
    }
}

#[warn(clippy::missing_trait_methods)]
impl Body for ReplyBody {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        match self.get_mut() {
            Self::Upstream(body) => Pin::new(body).poll_frame(cx),
            Self::Stripped(body) => Pin::new(body).poll_frame(cx),
            Self::Own(body) => Pin::new(body).poll_frame(cx).map_err(|never| match never {}),
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Upstream(body) => body.is_end_stream(),
            Self::Stripped(body) => body.is_end_stream(),
            Self::Own(body) => body.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Upstream(body) => body.size_hint(),
            Self::Stripped(body) => body.size_hint(),
            Self::Own(body) => body.size_hint(),
        }
    }
}
