//! Fits a request's target and framing to the next hop: origin form over HTTP/1.1, absolute form over HTTP/2 (where hyper makes
//! pseudo-headers of it). Path and query stay byte for byte; no field is added that the hop does not require.

use http::header::{CONTENT_LENGTH, HOST, TRANSFER_ENCODING};
use http::uri::{Authority, Parts, PathAndQuery, Scheme};
use http::{HeaderValue, Method, Request, Uri, Version};
use http_body::Body;

use super::error::SendError;

/// `authority` is the upstream's own, for a request that names no host.
pub(super) fn http1<B: Body>(request: &mut Request<B>, authority: &HeaderValue) -> Result<(), SendError> {
    // hyper panics on versions it does not speak, and the version of this hop is ours to choose.
    *request.version_mut() = Version::HTTP_11;
    if let Some(named) = request.uri().authority() {
        // Absolute form, or HTTP/2 on the client's side: the target wins over `Host` (RFC 9112, 3.2.2).
        let host = HeaderValue::from_str(named.as_str()).map_err(|e| SendError::Request(e.to_string()))?;
        request.headers_mut().insert(HOST, host);
        let mut origin = Parts::default();
        origin.path_and_query = request
            .uri()
            .path_and_query()
            .cloned()
            .or_else(|| Some(PathAndQuery::from_static("/")));
        *request.uri_mut() = Uri::from_parts(origin).map_err(|e| SendError::Request(e.to_string()))?;
    } else if !request.headers().contains_key(HOST) {
        request.headers_mut().insert(HOST, authority.clone());
    }
    // hyper sends no body of unknown length with these methods unless told how.
    let bodiless_by_habit = matches!(*request.method(), Method::GET | Method::HEAD);
    if bodiless_by_habit
        && !request.body().is_end_stream()
        && request.body().size_hint().exact().is_none()
        && !request.headers().contains_key(CONTENT_LENGTH)
    {
        request
            .headers_mut()
            .insert(TRANSFER_ENCODING, HeaderValue::from_static("chunked"));
    }
    Ok(())
}

/// As [`http1`], for HTTP/2.
pub(super) fn h2<B>(request: &mut Request<B>, scheme: Scheme, authority: &HeaderValue) -> Result<(), SendError> {
    *request.version_mut() = Version::HTTP_2;
    let host = request.headers_mut().remove(HOST).unwrap_or_else(|| authority.clone());
    let mut parts = std::mem::take(request.uri_mut()).into_parts();
    if parts.authority.is_none() {
        let named = Authority::try_from(host.as_bytes()).map_err(|e| SendError::Request(format!("Host: {e}")))?;
        parts.authority = Some(named);
    }
    parts.scheme = Some(scheme);
    if parts.path_and_query.is_none() {
        parts.path_and_query = Some(PathAndQuery::from_static("/"));
    }
    *request.uri_mut() = Uri::from_parts(parts).map_err(|e| SendError::Request(e.to_string()))?;
    Ok(())
}
