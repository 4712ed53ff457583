//! Replies of the proxy's own making: each names its reason in `x-goodput-error` and in a JSON body of the OpenAI error shape,
//! whoever in the proxy noticed.

use serde_json::Value;

use super::rig::{Reply, Rig, Step, Way, both, h2, on, reply, send};

fn assert_own(got: &Reply, status: u16, reason: &str, kind: &str) {
    assert_eq!(got.status(), status, "{}", got.head);
    assert_eq!(got.header("x-goodput-error"), Some(reason), "{}", got.head);
    assert_eq!(got.header("content-type"), Some("application/json"));
    assert!(got.complete, "{}", got.head);
    let json: Value = serde_json::from_slice(&got.body).unwrap();
    let error = &json["error"];
    assert_eq!((&error["code"], &error["type"]), (&reason.into(), &kind.into()));
    assert!(error["message"].as_str().unwrap().len() > 20, "{json}");
}

#[test]
fn a_head_that_cannot_be_read_is_answered_in_the_same_shape_and_the_connection_ends() {
    both(|way| async move {
        let long = format!("GET / HTTP/1.1\r\nHost: a\r\nX: {}\r\n\r\n", "x".repeat(70_000));
        let many = format!("GET / HTTP/1.1\r\nHost: a\r\n{}\r\n", "X: y\r\n".repeat(256));
        let target = format!("GET /{} HTTP/1.1\r\nHost: a\r\nUpgrade: x\r\n\r\n", "x".repeat(66_000));
        let large = "limits: { max_header_bytes: 1MiB }\n";
        for (yaml, request, status, reason) in [
            ("", "nonsense\r\n\r\n", 400, "malformed_head"),
            ("", "\x16\x03\x01\x02\x00\x01\x00\x01\r\n", 400, "malformed_head"),
            ("", "GET / HTTP/1.2\r\nHost: a\r\n\r\n", 400, "malformed_head"),
            ("", "GET / HTTP/1.1\r\nHost: a\r\nX : b\r\n\r\n", 400, "malformed_head"),
            (
                "",
                "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab",
                400,
                "malformed_head",
            ),
            (
                "",
                "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip\r\n\r\n",
                400,
                "malformed_head",
            ),
            ("", &long, 431, "head_too_large"),
            ("", &many, 431, "head_too_large"),
            (large, &target, 414, "target_too_long"),
        ] {
            let rig = Rig::configured(way, yaml, vec![reply("200 OK", "text/plain", "ok")]);
            let mut client = rig.client();
            let _ = client.try_send(request).await;
            let got = client.reply().await;
            assert_own(&got, status, reason, "invalid_request_error");
            assert_eq!(got.header("connection"), Some("close"));
            assert_eq!(client.rest().await, b"", "nothing behind it");
            assert_eq!(rig.upstream.seen().len(), 0);
        }
    });
}

#[test]
fn a_bad_head_behind_a_good_request_does_not_touch_that_ones_reply() {
    both(|way| async move {
        let rig = Rig::new(way, vec![reply("200 OK", "text/plain", "ok")]);
        let mut client = rig.client();
        let first = client.call("GET /x HTTP/1.1\r\nHost: a\r\n\r\nnonsense\r\n\r\n").await;
        assert_eq!((first.status(), first.text().as_str()), (200, "ok"));
        assert_eq!(first.header("x-goodput-error"), None);
        assert_own(&client.reply().await, 400, "malformed_head", "invalid_request_error");
    });
}

#[test]
fn an_upstreams_own_bare_400_stays_bare() {
    both(|way| async move {
        let bare = "HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n\r\n";
        let rig = Rig::new(way, vec![vec![Step::Body, send(bare)]]);
        let got = rig
            .client()
            .call("GET /x HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
            .await;
        assert_eq!((got.status(), got.header("x-goodput-error")), (400, None));
        assert_eq!(got.body, b"");
    });
}

#[test]
fn an_http_2_head_over_a_limit_is_refused_with_the_reason() {
    both(|way| async move {
        for (yaml, fields, value, admitted) in [
            ("", 255, 1, true),
            ("", 256, 1, false),
            ("limits: { max_headers: 5 }\n", 4, 1, true),
            ("limits: { max_headers: 5 }\n", 5, 1, false),
            ("", 1, 64_000, true),
            ("", 1, 65_500, false),
            ("", 2, 60_000, false),
        ] {
            let rig = Rig::configured(way, yaml, vec![reply("200 OK", "text/plain", "ok")]);
            let mut request = h2::post("/x", "");
            // The client adds its content-length, one field more.
            request.headers_mut().clear();
            for n in 0..fields {
                let name: http::HeaderName = format!("x-{n}").parse().unwrap();
                request.headers_mut().append(name, "v".repeat(value).parse().unwrap());
            }
            let (head, body, error) = h2::call(&mut h2::client(&rig).await, request).await;
            assert_eq!(error, None);
            let refused = u64::from(!admitted);
            assert_eq!(rig.counters.heads_too_large.get(), refused, "{yaml} {fields} {value}");
            if admitted {
                assert_eq!((head.status.as_u16(), &*body), (200, b"ok".as_slice()));
                continue;
            }
            assert_eq!(head.status.as_u16(), 431);
            assert_eq!(head.headers["x-goodput-error"], "head_too_large");
            let json: Value = serde_json::from_slice(&body).unwrap();
            assert_eq!(json["error"]["code"], "head_too_large");
            assert_eq!(rig.upstream.seen().len(), 0);
        }
    });
}

#[test]
fn a_reply_in_another_transfer_coding_is_not_passed_off_as_plain_chunks() {
    both(|way| async move {
        let coded = "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n2\r\n\x1f\x0b\r\n0\r\n\r\n";
        let twice = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n";
        for head in [coded, twice] {
            let rig = Rig::new(way, vec![vec![Step::Body, send(head), Step::Hold]]);
            let got = rig.client().call("GET /x HTTP/1.1\r\nHost: a\r\n\r\n").await;
            assert_own(&got, 502, "upstream_malformed", "server_error");
        }
    });
}

#[test]
fn an_upload_that_breaks_off_is_the_clients_fault_in_plain_words() {
    // Over the relay such a client has left and hears nothing.
    on(Way::Full, |way| async move {
        let rig = Rig::new(way, vec![reply("200 OK", "text/plain", "ok")]);
        let mut client = rig.client();
        client
            .send("POST /x HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\nhi")
            .await;
        client.fin().await;
        let got = client.reply().await;
        assert_own(&got, 400, "request_body", "invalid_request_error");
        assert!(!got.text().contains("user's Body"), "{}", got.text());
    });
}
