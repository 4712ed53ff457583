//! PURE: what is asserted of header rules and of the opt-in changes to bodies for any bytes (see [`crate::fuzzing`]).

use bytes::Bytes;
use http::header::{self, HeaderMap, HeaderName, HeaderValue};
use http::{Method, Uri, Version};

use super::headers::{forward_request, forward_response, is_nominable, is_websocket};
use super::inject::{INSERTION, Splicer};
pub(crate) use super::relay::fuzz::{chunked, relay_head};
use super::strip::Stripper;
use crate::fuzzing::pieces;

/// No hop-by-hop field goes on, no end-to-end field gets lost, none is added.
pub(crate) fn headers(data: &[u8]) {
    let Some((pick, bytes)) = data.split_first() else { return };
    let version = [Version::HTTP_10, Version::HTTP_11, Version::HTTP_2][usize::from(*pick % 3)];
    let mut table = [httparse::EMPTY_HEADER; 64];
    let mut parsed = httparse::Request::new(&mut table);
    let Ok(httparse::Status::Complete(_)) = parsed.parse(bytes) else {
        return;
    };
    let (Some(Ok(method)), Some(Ok(uri))) = (
        parsed.method.map(|m| Method::from_bytes(m.as_bytes())),
        parsed.path.map(|p| p.parse::<Uri>()),
    ) else {
        return;
    };
    let mut before = HeaderMap::new();
    for field in parsed.headers.iter() {
        let pair = (
            HeaderName::from_bytes(field.name.as_bytes()),
            HeaderValue::from_bytes(field.value),
        );
        if let (Ok(name), Ok(value)) = pair {
            before.append(name, value);
        }
    }
    let websocket = is_websocket(version, &before);
    let mut after = before.clone();
    if let Ok(target) = forward_request(&method, &uri, version, &mut after, websocket) {
        let target = target.to_string();
        assert!(target.starts_with('/') || target == "*", "{target:?}");
        assert!(target.bytes().all(|b| b > b' ' && b != 0x7f), "{target:?}");
        let hosts = after.get_all(header::HOST).iter().count();
        assert!(hosts == 1 || hosts == 0 && version < Version::HTTP_11);
        assert!(after.get_all(header::TE).iter().all(|v| v == "trailers"));
        compare(&before, &after, websocket);
    }
    for upgrade in [false, true] {
        let mut after = before.clone();
        forward_response(&mut after, upgrade);
        assert!(!(after.contains_key(header::CONTENT_LENGTH) && before.contains_key(header::TRANSFER_ENCODING)));
        compare(&before, &after, upgrade);
    }
}

fn compare(before: &HeaderMap, after: &HeaderMap, upgrade: bool) {
    for name in ["keep-alive", "proxy-connection", "transfer-encoding"] {
        assert!(!after.contains_key(name), "{name} goes on");
    }
    match after.get(header::CONNECTION) {
        Some(value) => assert!(upgrade && value == "Upgrade"),
        None => assert!(!upgrade),
    }
    assert!(upgrade || !after.contains_key(header::UPGRADE));
    for name in after.keys() {
        let ours = [header::HOST, header::CONNECTION].contains(name);
        assert!(ours || before.contains_key(name), "{name} was added");
    }
    // Framing cannot be nominated away, but it is each hop's own.
    let mended = [
        header::HOST,
        header::TE,
        header::COOKIE,
        header::CONTENT_LENGTH,
        header::TRANSFER_ENCODING,
    ];
    for name in before
        .keys()
        .filter(|name| !is_nominable(name.as_str()) && !mended.contains(name))
    {
        let all = |map: &HeaderMap| map.get_all(name).iter().cloned().collect::<Vec<_>>();
        assert_eq!(all(before), all(after), "{name}");
    }
}

/// Leaving out usage events takes nothing else, at any cut.
pub(crate) fn strip(data: &[u8]) {
    let Some((cut, body)) = data.split_first() else { return };
    let stripped = |pieces: &[&[u8]]| {
        let (mut stripper, mut out) = (Stripper::new(), Vec::new());
        for piece in pieces {
            out.extend_from_slice(&stripper.feed(&Bytes::copy_from_slice(piece)));
        }
        out.extend_from_slice(&stripper.rest());
        out
    };
    let whole = stripped(&[body]);
    assert_eq!(stripped(&pieces(body, *cut)), whole);
    if memchr::memmem::find(body, b"\"usage\"").is_none() {
        assert_eq!(whole, body);
    }
    let mut left = body.iter();
    assert!(
        whole.iter().all(|byte| left.any(|b| b == byte)),
        "something was added or moved"
    );
}

/// Asking for usage leaves valid JSON valid, changes nothing else in it, and never changes what is no object.
pub(crate) fn splice(data: &[u8]) {
    let Some((cut, body)) = data.split_first() else { return };
    let spliced = |pieces: &[&[u8]]| {
        let (mut splicer, mut out) = (Splicer::new(), Vec::new());
        for piece in pieces {
            match splicer.feed(piece) {
                Some(at) => out.extend_from_slice(&[&piece[..at], INSERTION, &piece[at..]].concat()),
                None => out.extend_from_slice(piece),
            }
        }
        out
    };
    let whole = spliced(&[body]);
    assert_eq!(spliced(&pieces(body, *cut)), whole);
    if let Ok(mut json) = serde_json::from_slice::<serde_json::Value>(body)
        && whole != body
    {
        assert_eq!(json["stream"], true);
        json["stream_options"] = serde_json::json!({"include_usage": true});
        assert_eq!(serde_json::from_slice::<serde_json::Value>(&whole).ok(), Some(json));
    }
}
