//! PURE: which header fields go on and which end here. Nothing is ever added.
//!
//! Hop-by-hop fields, and those that `Connection` nominates, end at each hop (RFC 9110 7.6.1). A nomination cannot take away a
//! field that is end-to-end by definition or that others trust: a client must not delete its own `Authorization` or somebody's
//! `X-Forwarded-For` on the way. What goes on stays in its order.

use http::header::{self, HeaderMap, HeaderName, HeaderValue};
use http::uri::{PathAndQuery, Scheme};
use http::{Method, Uri, Version};

use super::error::Refusal;

/// Hop-by-hop by definition. `te` and, for a websocket handshake, `connection` and `upgrade` are handled apart.
const HOP_BY_HOP: [HeaderName; 5] = [
    header::CONNECTION,
    HeaderName::from_static("keep-alive"),
    HeaderName::from_static("proxy-connection"),
    header::TRANSFER_ENCODING,
    header::UPGRADE,
];

/// Fields that a `Connection` nomination does not remove, besides everything beginning with `x-forwarded-` or `access-control-`.
const NOT_NOMINABLE: [&str; 37] = [
    "accept",
    "accept-encoding",
    "accept-language",
    "api-key",
    "authorization",
    "cache-control",
    "content-disposition",
    "content-encoding",
    "content-language",
    "content-length",
    "content-location",
    "content-range",
    "content-type",
    "cookie",
    "date",
    "etag",
    "expect",
    "expires",
    "forwarded",
    "host",
    "last-modified",
    "location",
    "origin",
    "proxy-authorization",
    "range",
    "retry-after",
    "set-cookie",
    "te",
    "traceparent",
    "tracestate",
    "trailer",
    "transfer-encoding",
    "user-agent",
    "vary",
    "www-authenticate",
    "x-api-key",
    "x-request-id",
];

/// Makes a client's request head fit for the next hop: origin-form target, one `Host`, end-to-end fields only.
///
/// # Errors
/// When the head is one that must not be forwarded.
pub(super) fn forward_request(
    method: &Method,
    uri: &Uri,
    version: Version,
    headers: &mut HeaderMap,
    upgrade: bool,
) -> Result<PathAndQuery, Refusal> {
    if method == Method::CONNECT {
        return Err(Refusal::Connect);
    }
    // Once only: chunked twice over is another coding, whether in one field or in two.
    if is_coded_otherwise(headers) {
        return Err(Refusal::TransferCoding);
    }
    let target = uri.path_and_query().cloned().ok_or(Refusal::BadTarget)?;
    if target == "*" && method != Method::OPTIONS {
        return Err(Refusal::BadTarget);
    }
    if let Some(authority) = uri.authority() {
        let is_web = uri.scheme().is_some_and(|s| *s == Scheme::HTTP || *s == Scheme::HTTPS);
        // User information before a host only ever makes one host look like another (RFC 9110 4.2.4).
        if !is_web || authority.as_str().contains('@') {
            return Err(Refusal::BadTarget);
        }
        // Absolute form, or HTTP/2: the target's authority is the host (RFC 9112 3.2.2).
        let host = authority.as_str();
        if version < Version::HTTP_2 || !headers.contains_key(header::HOST) {
            let host = HeaderValue::from_str(host).map_err(|_| Refusal::BadTarget)?;
            headers.insert(header::HOST, host);
        }
    }
    match headers.get_all(header::HOST).iter().count() {
        1 => {}
        0 if version < Version::HTTP_11 => {}
        _ => return Err(Refusal::Host),
    }
    if !headers.get(header::HOST).is_none_or(|host| is_host(host.as_bytes())) {
        return Err(Refusal::Host);
    }
    if version >= Version::HTTP_2 {
        join_cookies(headers);
    }
    let trailers = has_token(headers, &header::TE, "trailers");
    if trailers {
        headers.insert(header::TE, HeaderValue::from_static("trailers"));
    }
    strip(headers, upgrade, |name| *name == header::TE && !trailers);
    Ok(target)
}

/// Makes an upstream's response head fit for the client. With both framings in it, chunked wins and the length ends here.
pub(super) fn forward_response(headers: &mut HeaderMap, upgrade: bool) {
    let coded = headers.contains_key(header::TRANSFER_ENCODING);
    strip(headers, upgrade, |name| *name == header::CONTENT_LENGTH && coded);
}

/// Whether a body is coded otherwise than chunked, once: its framing goes on as chunked, and the coding's name would be lost.
pub(super) fn is_coded_otherwise(headers: &HeaderMap) -> bool {
    let mut codings = headers.get_all(header::TRANSFER_ENCODING).iter();
    codings.next().is_some_and(|first| !is_chunked(first)) || codings.next().is_some()
}

fn is_chunked(coding: &HeaderValue) -> bool {
    coding.as_bytes().trim_ascii().eq_ignore_ascii_case(b"chunked")
}

/// Whether a `Host` is a name or address with or without a port (RFC 9112 3.2); it may be empty. Anything else, a list or a path,
/// is read differently by different servers.
pub(super) fn is_host(value: &[u8]) -> bool {
    let stands = |b: &u8| {
        b.is_ascii_alphanumeric()
            || matches!(b, b'-' | b'.' | b'_' | b'~' | b'%' | b'!' | b'$' | b'&' | b'\'')
            || matches!(b, b'(' | b')' | b'*' | b'+' | b';' | b'=' | b':' | b'[' | b']')
    };
    value.iter().all(stands)
}

/// Whether this is a websocket handshake, the only upgrade that is tunnelled.
pub(super) fn is_websocket(version: Version, headers: &HeaderMap) -> bool {
    version == Version::HTTP_11
        && has_token(headers, &header::CONNECTION, "upgrade")
        && headers
            .get(header::UPGRADE)
            .is_some_and(|v| v.as_bytes().trim_ascii().eq_ignore_ascii_case(b"websocket"))
}

/// Whether a client asks to keep its connection, as one of HTTP/1.0 must.
pub(super) fn keeps_alive(headers: &HeaderMap) -> bool {
    has_token(headers, &header::CONNECTION, "keep-alive")
}

/// Whether the comma-separated field `name` holds `token`, parameters (`;…`) aside.
fn has_token(headers: &HeaderMap, name: &HeaderName, token: &str) -> bool {
    headers
        .get_all(name)
        .iter()
        .flat_map(|v| v.as_bytes().split(|b| *b == b','))
        .filter_map(|item| item.split(|b| *b == b';').next())
        .any(|item| item.trim_ascii().eq_ignore_ascii_case(token.as_bytes()))
}

/// Takes out what ends here, and what is `unfit`.
fn strip(headers: &mut HeaderMap, upgrade: bool, unfit: impl Fn(&HeaderName) -> bool) {
    // A head without `Connection` nominates nothing: the common case costs no allocation.
    let nominated: Vec<HeaderName> = headers
        .get_all(header::CONNECTION)
        .iter()
        .flat_map(|v| v.as_bytes().split(|b| *b == b','))
        .filter_map(|item| HeaderName::from_bytes(item.trim_ascii()).ok())
        .filter(|name| is_nominable(name.as_str()))
        .collect();
    let kept = |name: &HeaderName| {
        if upgrade && (*name == header::UPGRADE || *name == header::CONNECTION) {
            return true;
        }
        !(HOP_BY_HOP.contains(name) || nominated.contains(name) || unfit(name))
    };
    retain(headers, kept);
    if upgrade {
        headers.insert(header::CONNECTION, HeaderValue::from_static("Upgrade"));
    }
}

/// Keeps what is `kept`, in its order: removing from within puts the last field into the gap.
fn retain(headers: &mut HeaderMap, kept: impl Fn(&HeaderName) -> bool) {
    let Some(first) = headers.keys().position(|name| !kept(name)) else {
        return;
    };
    if !headers.keys().skip(first).any(&kept) {
        while let Some(name) = headers.keys().nth(first).cloned() {
            headers.remove(name);
        }
        return;
    }
    let before = std::mem::take(headers);
    headers.reserve(before.len());
    let mut latest = None;
    for (name, value) in before {
        // A field said again comes without its name.
        if let Some(name) = name {
            latest = kept(&name).then_some(name);
        }
        if let Some(name) = &latest {
            headers.append(name.clone(), value);
        }
    }
}

pub(super) fn is_nominable(name: &str) -> bool {
    !NOT_NOMINABLE.contains(&name) && !name.starts_with("x-forwarded-") && !name.starts_with("access-control-")
}

/// HTTP/2 may split `Cookie` into several fields; HTTP/1 has one (RFC 9113 8.2.3).
fn join_cookies(headers: &mut HeaderMap) {
    if headers.get_all(header::COOKIE).iter().nth(1).is_none() {
        return;
    }
    let crumbs: Vec<&[u8]> = headers.get_all(header::COOKIE).iter().map(HeaderValue::as_bytes).collect();
    if let Ok(joined) = HeaderValue::from_bytes(&crumbs.join(&b"; "[..])) {
        headers.insert(header::COOKIE, joined);
    }
}

#[cfg(test)]
mod tests;
