//! Which path answers what.

use bytes::Bytes;
use http::header::{ALLOW, CACHE_CONTROL, CONTENT_TYPE, WWW_AUTHENTICATE};
use http::{HeaderValue, Method, Request, Response, StatusCode};
use http_body_util::Full;

use super::{AdminState, scrape};
use crate::lifecycle::Phase;

/// A reply of the admin port: always whole, so that its length is known.
pub(super) type Reply = Response<Full<Bytes>>;

const TEXT: &str = "text/plain; charset=utf-8";
const JSON: &str = "application/json";

const INDEX: &str = "\
goodput-proxy

/metrics   Prometheus metrics: text, OpenMetrics or protobuf
/livez     200 while the process serves
/readyz    200 when ready, 503 and the reason when not
/drain     start draining, answer when nothing is in flight
/requests  the last requests: timings, tokens, outcome, verdict
/config    the effective configuration
";

#[derive(Clone, Copy)]
enum Endpoint {
    Index,
    Metrics,
    Live,
    Ready,
    Drain,
    Requests,
    Config,
}

impl Endpoint {
    fn of(path: &str) -> Option<Self> {
        Some(match path {
            "/" => Self::Index,
            "/metrics" => Self::Metrics,
            "/livez" => Self::Live,
            "/readyz" => Self::Ready,
            "/drain" => Self::Drain,
            "/requests" => Self::Requests,
            "/config" => Self::Config,
            _ => return None,
        })
    }

    /// Whether it asks for the token; `/metrics` does when `metrics` says so. The kubelet's probes can send none.
    fn is_guarded(self, metrics: bool) -> bool {
        match self {
            Self::Live | Self::Ready => false,
            Self::Metrics => metrics,
            _ => true,
        }
    }

    /// Draining changes something, so asking for its head alone is not allowed; a GET is, since a `preStop` hook can send no other.
    fn methods(self) -> &'static str {
        if matches!(self, Self::Drain) {
            "GET, POST"
        } else {
            "GET, HEAD"
        }
    }
}

/// The reply to `request`; its body is never read.
pub(super) async fn answer<B>(request: &Request<B>, state: &AdminState) -> Reply {
    let Some(endpoint) = Endpoint::of(request.uri().path()) else {
        return reply(StatusCode::NOT_FOUND, TEXT, "no such endpoint; / lists them\n");
    };
    if let Some(auth) = &state.auth
        && endpoint.is_guarded(auth.metrics)
        && !auth.token.get().is_in(request.headers())
    {
        let mut reply = reply(
            StatusCode::UNAUTHORIZED,
            TEXT,
            "send the token of admin_auth.token_file as `Authorization: Bearer ...`\n",
        );
        reply
            .headers_mut()
            .insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        return reply;
    }
    if !allowed(endpoint.methods(), request.method()) {
        let mut reply = reply(StatusCode::METHOD_NOT_ALLOWED, TEXT, "method not allowed here\n");
        reply
            .headers_mut()
            .insert(ALLOW, HeaderValue::from_static(endpoint.methods()));
        return reply;
    }
    match endpoint {
        Endpoint::Index => reply(StatusCode::OK, TEXT, INDEX),
        Endpoint::Metrics => scrape::answer(request.headers(), state).await,
        // Never looks at the upstream, nor at the phase: a restart would mend neither.
        Endpoint::Live => reply(StatusCode::OK, TEXT, "live\n"),
        Endpoint::Ready => ready(state).await,
        Endpoint::Drain => drained(state.source.drain().await),
        Endpoint::Requests => reply(StatusCode::OK, JSON, state.source.requests()),
        Endpoint::Config => reply(StatusCode::OK, JSON, state.source.config()),
    }
}

fn allowed(methods: &str, method: &Method) -> bool {
    methods.split(", ").any(|name| name == method.as_str())
}

async fn ready(state: &AdminState) -> Reply {
    match state.phase.now() {
        Phase::Ready => {
            let upstream = match &state.upstream {
                Some(upstream) => upstream.takes_connections().await,
                None => Ok(()),
            };
            match upstream {
                Ok(()) => reply(StatusCode::OK, TEXT, "ready\n"),
                Err(why) => reply(
                    StatusCode::SERVICE_UNAVAILABLE,
                    TEXT,
                    format!("the upstream takes no connection: {why}\n"),
                ),
            }
        }
        Phase::Starting => reply(StatusCode::SERVICE_UNAVAILABLE, TEXT, "starting\n"),
        Phase::Draining | Phase::Closing => reply(StatusCode::SERVICE_UNAVAILABLE, TEXT, "draining\n"),
        Phase::Stopped => reply(StatusCode::SERVICE_UNAVAILABLE, TEXT, "stopping\n"),
    }
}

fn drained(left: usize) -> Reply {
    match left {
        0 => reply(StatusCode::OK, TEXT, "drained\n"),
        left => reply(
            StatusCode::SERVICE_UNAVAILABLE,
            TEXT,
            format!("time is up, {left} still in flight\n"),
        ),
    }
}

/// A reply with its type, never to be cached.
pub(super) fn reply(status: StatusCode, content_type: &'static str, body: impl Into<Bytes>) -> Reply {
    let mut reply = Response::new(Full::new(body.into()));
    *reply.status_mut() = status;
    reply
        .headers_mut()
        .insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    reply
        .headers_mut()
        .insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    reply
}
