//! The tap of one request, from its head to its record, without a socket.

use std::sync::Arc;

use goodput_proxy::config::Config;
use goodput_proxy::lifecycle::Lifecycle;
use goodput_proxy::measure::Stamp;
use goodput_proxy::observe::{Exchange, Observer};
use goodput_proxy::wire::FORMATS;
use http::header::{CONTENT_ENCODING, CONTENT_TYPE, HeaderMap, HeaderValue};
use http::{Method, StatusCode};

const BODY: &[u8] = br#"{"model":"m","messages":[{"role":"user","content":"hello"}],"stream":true}"#;

/// Everything as configured by default.
pub(crate) fn observer() -> Arc<Observer> {
    Observer::new(&Config::default(), Lifecycle::new().watch())
}

/// Headers with this content type, and a coding where there is one.
pub(crate) fn head(content_type: &'static str, coding: Option<&'static str>) -> HeaderMap {
    let mut headers = HeaderMap::new();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    if let Some(coding) = coding {
        headers.insert(CONTENT_ENCODING, HeaderValue::from_static(coding));
    }
    headers
}

/// A request of `format` whose head was read at `at`; nothing of its body.
pub(crate) fn ask(observer: &Arc<Observer>, format: &str, at: u64) -> Exchange {
    let format = FORMATS.iter().find(|f| f.name == format).expect("a format of that name");
    // A star in a path stands for itself, too.
    observer.begin(
        Stamp::from_nanos(at),
        &Method::POST,
        format.paths[0],
        &head("application/json", None),
    )
}

/// The same, whose request body is through and whose reply, a stream, begins.
pub(crate) fn stream(observer: &Arc<Observer>, format: &str, at: u64, coding: Option<&'static str>) -> Exchange {
    let mut exchange = ask(observer, format, at);
    exchange.request_tap().chunk(BODY);
    exchange.request_tap().sent(Stamp::from_nanos(at + 1));
    let content_type = if format == "ollama" {
        "application/x-ndjson"
    } else {
        "text/event-stream"
    };
    let headers = head(content_type, coding);
    exchange.head(Stamp::from_nanos(at + 2), StatusCode::OK, &headers);
    exchange
}
