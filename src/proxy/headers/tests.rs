use super::*;

fn map(fields: &[(&str, &str)]) -> HeaderMap {
    let mut headers = HeaderMap::new();
    for (name, value) in fields {
        headers.append(HeaderName::from_bytes(name.as_bytes()).unwrap(), value.parse().unwrap());
    }
    headers
}

fn fields(headers: &HeaderMap) -> Vec<(String, String)> {
    let mut all: Vec<_> = headers
        .iter()
        .map(|(n, v)| (n.to_string(), v.to_str().unwrap().to_owned()))
        .collect();
    all.sort();
    all
}

fn request(uri: &str, version: Version, list: &[(&str, &str)]) -> Result<(String, Vec<(String, String)>), Refusal> {
    let mut headers = map(list);
    let target = forward_request(&Method::POST, &uri.parse().unwrap(), version, &mut headers, false)?;
    Ok((target.as_str().to_owned(), fields(&headers)))
}

fn expected(list: &[(&str, &str)]) -> Vec<(String, String)> {
    let mut all: Vec<_> = list.iter().map(|(n, v)| ((*n).to_owned(), (*v).to_owned())).collect();
    all.sort();
    all
}

#[test]
fn hop_by_hop_fields_end_here_and_others_go_on() {
    let (_, got) = request(
        "/v1/models",
        Version::HTTP_11,
        &[
            ("host", "a"),
            ("connection", "close, X-Hop"),
            ("x-hop", "1"),
            ("keep-alive", "timeout=5"),
            ("proxy-connection", "keep-alive"),
            ("transfer-encoding", "chunked"),
            ("upgrade", "h2c"),
            ("accept", "*/*"),
            ("accept", "text/event-stream"),
        ],
    )
    .unwrap();
    assert_eq!(
        got,
        expected(&[("host", "a"), ("accept", "*/*"), ("accept", "text/event-stream")])
    );
}

#[test]
fn a_nomination_cannot_take_end_to_end_fields_away() {
    let kept = [
        ("authorization", "Bearer x"),
        ("content-length", "3"),
        ("content-type", "application/json"),
        ("host", "a"),
        ("x-forwarded-for", "1.2.3.4"),
    ];
    let mut given = kept.to_vec();
    given.push((
        "connection",
        "Authorization, Host, content-type, Content-Length, X-Forwarded-For, , bad name",
    ));
    let (_, got) = request("/", Version::HTTP_11, &given).unwrap();
    assert_eq!(got, expected(&kept));
}

#[test]
fn only_trailers_survives_of_te() {
    for (te, left) in [("trailers", true), ("gzip, Trailers;q=1", true), ("gzip", false)] {
        let (_, got) = request("/", Version::HTTP_11, &[("host", "a"), ("te", te), ("connection", "TE")]).unwrap();
        let mut want = vec![("host", "a")];
        if left {
            want.push(("te", "trailers"));
        }
        assert_eq!(got, expected(&want), "{te}");
    }
}

#[test]
fn the_target_goes_on_byte_for_byte() {
    for target in [
        "/v1/models/meta%2FLlama-3?x=%2520",
        "//x",
        "/a/../b/./c",
        "/?",
        "/a?b?c&&d=%zz",
        "/é{}|\"",
    ] {
        let (got, _) = request(target, Version::HTTP_11, &[("host", "a")]).unwrap();
        assert_eq!(got, target);
    }
}

#[test]
fn absolute_form_becomes_origin_form_with_the_targets_host() {
    let (target, got) = request("http://llm:8000/v1/chat?x=1", Version::HTTP_11, &[("host", "other")]).unwrap();
    assert_eq!((target.as_str(), got), ("/v1/chat?x=1", expected(&[("host", "llm:8000")])));
}

#[test]
fn http2_authority_becomes_host_and_cookie_crumbs_one_field() {
    let (_, got) = request("http://llm/v1", Version::HTTP_2, &[("cookie", "a=1"), ("cookie", "b=2")]).unwrap();
    assert_eq!(got, expected(&[("host", "llm"), ("cookie", "a=1; b=2")]));
}

#[test]
fn heads_that_must_not_go_on_are_refused() {
    let host = ("host", "a");
    assert_eq!(request("/", Version::HTTP_11, &[]).unwrap_err(), Refusal::Host);
    assert_eq!(
        request("/", Version::HTTP_11, &[host, ("host", "b")]).unwrap_err(),
        Refusal::Host
    );
    assert_eq!(request("/", Version::HTTP_10, &[]).unwrap(), ("/".to_owned(), vec![]));
    assert_eq!(
        request("llm:8000", Version::HTTP_11, &[host]).unwrap_err(),
        Refusal::BadTarget
    );
    for (codings, refused) in [
        (&["gzip, chunked"][..], true),
        (&["chunked, chunked"], true),
        (&["chunked", "chunked"], true),
        (&["chunked", "identity"], true),
        (&["identity", "chunked"], true),
        (&["Chunked"], false),
    ] {
        let mut fields = vec![host];
        fields.extend(codings.iter().map(|coding| ("transfer-encoding", *coding)));
        let coded = request("/", Version::HTTP_11, &fields);
        assert_eq!(coded.err(), refused.then_some(Refusal::TransferCoding), "{codings:?}");
    }
    for url in ["http://u:p@llm/v1", "http://llm@evil/v1", "ftp://llm/v1", "*"] {
        assert_eq!(
            request(url, Version::HTTP_11, &[host]).unwrap_err(),
            Refusal::BadTarget,
            "{url}"
        );
    }
    let asterisk = forward_request(
        &Method::OPTIONS,
        &"*".parse().unwrap(),
        Version::HTTP_11,
        &mut map(&[host]),
        false,
    );
    assert_eq!(asterisk.unwrap(), "*");
    let connect = forward_request(
        &Method::CONNECT,
        &"a:1".parse().unwrap(),
        Version::HTTP_11,
        &mut map(&[host]),
        false,
    );
    assert_eq!(connect.unwrap_err(), Refusal::Connect);
}

#[test]
fn a_host_is_a_name_or_an_address_and_nothing_else() {
    for host in ["llm", "llm.svc_1:8000", "[::1]:8000", "10.0.0.1", "a%2db", ""] {
        assert!(request("/", Version::HTTP_11, &[("host", host)]).is_ok(), "{host}");
    }
    for host in [
        "llm/evil",
        "llm evil",
        "llm, evil",
        "llm,evil",
        "u@llm",
        "llm?a",
        "llm#a",
        "llm\\a",
        "http://llm/",
    ] {
        let refused = request("/", Version::HTTP_11, &[("host", host)]);
        assert_eq!(refused.unwrap_err(), Refusal::Host, "{host}");
    }
}

#[test]
fn a_websocket_handshake_keeps_its_upgrade_and_nothing_else_does() {
    let mut headers = map(&[
        ("host", "a"),
        ("connection", "keep-alive, Upgrade"),
        ("upgrade", "websocket"),
        ("keep-alive", "1"),
    ]);
    assert!(is_websocket(Version::HTTP_11, &headers));
    assert!(!is_websocket(Version::HTTP_10, &headers));
    forward_request(&Method::GET, &"/".parse().unwrap(), Version::HTTP_11, &mut headers, true).unwrap();
    assert_eq!(
        fields(&headers),
        expected(&[("host", "a"), ("connection", "Upgrade"), ("upgrade", "websocket")])
    );
    assert!(!is_websocket(
        Version::HTTP_11,
        &map(&[("connection", "upgrade"), ("upgrade", "h2c")])
    ));
    assert!(!is_websocket(Version::HTTP_11, &map(&[("upgrade", "websocket")])));
}

#[test]
fn a_response_with_both_framings_loses_the_length() {
    let mut headers = map(&[
        ("content-length", "5"),
        ("transfer-encoding", "chunked"),
        ("connection", "close"),
        ("date", "x"),
    ]);
    forward_response(&mut headers, false);
    assert_eq!(fields(&headers), expected(&[("date", "x")]));
    let mut headers = map(&[("content-length", "5"), ("x-accel-buffering", "no")]);
    forward_response(&mut headers, false);
    assert_eq!(
        fields(&headers),
        expected(&[("content-length", "5"), ("x-accel-buffering", "no")])
    );
}
