//! Requests that two hops could frame differently: refused, or forwarded in the one way that cannot be misread.

use super::super::rig::{Rig, Step, Way, both, chunk, content, last_chunk, reply, send, sse_head};

/// What came of sending `bytes` and then ending the write side.
struct Outcome {
    /// Statuses of the replies, in order.
    statuses: Vec<u16>,
    /// Request lines the upstream saw.
    lines: Vec<String>,
    /// The raw bodies it saw.
    bodies: Vec<String>,
    heads: Vec<String>,
}

/// A proxy that serves on after a client's FIN, so that every request before it counts.
fn rig(way: Way) -> Rig {
    Rig::configured(way, "half_close: true\n", vec![reply("200 OK", "text/plain", "ok")])
}

async fn sent(rig: &Rig, bytes: &[u8]) -> Outcome {
    let before = rig.upstream.seen().len();
    let mut client = rig.client();
    client.send(bytes).await;
    client.fin().await;
    let mut statuses = Vec::new();
    while let Some(head) = client.head().await {
        statuses.push(head.split(' ').nth(1).unwrap().parse().unwrap());
        let length = head
            .lines()
            .find_map(|l| l.to_ascii_lowercase().strip_prefix("content-length: ")?.parse::<usize>().ok());
        let mut left = length.unwrap_or(0);
        while left > 0 {
            let have = client.take(left);
            left -= have;
            if left > 0 && client.read().await == 0 {
                break;
            }
        }
    }
    let seen = rig.upstream.seen().split_off(before);
    Outcome {
        statuses,
        lines: seen.iter().map(|s| s.line().to_owned()).collect(),
        bodies: seen
            .iter()
            .map(|s| String::from_utf8_lossy(&s.raw_body).into_owned())
            .collect(),
        heads: seen.iter().map(|s| s.head.clone()).collect(),
    }
}

/// The request that an attacker hides.
const HIDDEN: &str = "GET /admin HTTP/1.1\r\nHost: a\r\n\r\n";

#[test]
fn both_framings_are_refused_and_what_follows_is_no_request() {
    both(|way| async move {
        let rig = rig(way);
        for fields in [
            "Content-Length: 4\r\nTransfer-Encoding: chunked\r\n",
            "Transfer-Encoding: chunked\r\nContent-Length: 4\r\n",
            "content-length: 4\r\ntransfer-encoding: chunked\r\n",
            "Content-Length: 4\r\nTransfer-Encoding:chunked\r\n",
            "Content-Length: 4\r\nX: y\r\nTransfer-Encoding:\tchunked \r\n",
            "Content-Length: 0\r\nTransfer-Encoding: chunked\r\n",
            "Content-Length: 4\r\nTransfer-Encoding: identity\r\n",
            "Content-Length: 4\r\nTransfer-Encoding: gzip, chunked\r\n",
        ] {
            let request = format!("POST /v1/chat/completions HTTP/1.1\r\nHost: a\r\n{fields}\r\n0\r\n\r\n{HIDDEN}");
            let outcome = sent(&rig, request.as_bytes()).await;
            assert_eq!(outcome.statuses.len(), 1, "{fields:?}: {:?}", outcome.statuses);
            assert!(matches!(outcome.statuses[0], 400 | 501), "{fields:?}: {:?}", outcome.statuses);
            assert_eq!(outcome.lines, [""; 0], "{fields:?}");
        }
    });
}

#[test]
fn odd_framing_fields_never_let_a_hidden_request_through() {
    both(|way| async move {
        let rig = rig(way);
        for fields in [
            "Content-Length: 4\r\nContent-Length: 5\r\n",
            "Content-Length: 4, 5\r\n",
            "Content-Length: +4\r\n",
            "Content-Length: -1\r\n",
            "Content-Length: 0x4\r\n",
            "Content-Length: 4 4\r\n",
            "Content-Length: 99999999999999999999999\r\n",
            "Content-Length : 4\r\n",
            " Content-Length: 4\r\n",
            "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n",
            "Transfer-Encoding: identity\r\n",
            "Transfer-Encoding: xchunked\r\n",
            "Transfer-Encoding: chunked, identity\r\n",
            "Transfer-Encoding: chunked\r\n chunked\r\n",
            "Transfer-Encoding : chunked\r\n",
            "Transfer-Encoding\x0b: chunked\r\n",
            "X: a\rTransfer-Encoding: chunked\r\n",
            "X: a\0b\r\n",
            "Host: b\r\n",
        ] {
            let request = format!("POST /x HTTP/1.1\r\nHost: a\r\n{fields}\r\n0\r\n\r\n{HIDDEN}");
            let outcome = sent(&rig, request.as_bytes()).await;
            assert!(
                !outcome.lines.iter().any(|l| l.contains("/admin")),
                "{fields:?}: {:?}",
                outcome.lines
            );
            // A doubled host leaves the framing clear: there what follows is answered by itself.
            assert!(
                !outcome.statuses.is_empty() && outcome.statuses.iter().all(|s| matches!(s, 400 | 501)),
                "{fields:?}: {:?}",
                outcome.statuses
            );
        }
    });
}

#[test]
fn bare_line_feeds_and_other_chunk_errors_are_refused() {
    both(|way| async move {
        let rig = rig(way);
        for body in [
            "5\nhello\r\n0\r\n\r\n",
            "5;a\n=b\r\nhello\r\n0\r\n\r\n",
            "5\r\nhello\n0\r\n\r\n",
            "5\r\nhello0\r\n\r\n",
            "5\r\nhelloXX0\r\n\r\n",
            "\r\nhello\r\n0\r\n\r\n",
            "-5\r\nhello\r\n0\r\n\r\n",
            "0x5\r\nhello\r\n0\r\n\r\n",
            "g\r\nhello\r\n0\r\n\r\n",
            "fffffffffffffffff\r\nhello\r\n0\r\n\r\n",
        ] {
            let request = format!("POST /x HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n{body}{HIDDEN}");
            let outcome = sent(&rig, request.as_bytes()).await;
            assert_eq!(outcome.statuses, [400], "{body:?}");
            assert!(
                !outcome.lines.iter().any(|l| l.contains("/admin")),
                "{body:?}: {:?}",
                outcome.lines
            );
            assert_eq!(outcome.bodies.concat(), "", "{body:?}: no whole body reached the upstream");
        }
    });
}

#[test]
fn a_sound_chunked_upload_reaches_the_upstream_in_canonical_chunks() {
    both(|way| async move {
        let rig = rig(way);
        for body in [
            "5\r\nhello\r\n0\r\n\r\n",
            "005;ext=\"v\"\r\nhello\r\n000\r\n\r\n",
            "3\r\nhel\r\n2\r\nlo\r\n0\r\nX-Trailer: 1\r\n\r\n",
        ] {
            let request = format!("POST /x HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n{body}{HIDDEN}");
            let outcome = sent(&rig, request.as_bytes()).await;
            assert_eq!(outcome.statuses, [200, 200], "{body:?}");
            assert_eq!(outcome.lines, ["POST /x HTTP/1.1", "GET /admin HTTP/1.1"]);
            assert!(
                outcome.heads[0]
                    .to_ascii_lowercase()
                    .contains("transfer-encoding: chunked\r\n")
            );
            let (mut lines, mut text) = (outcome.bodies[0].split("\r\n"), String::new());
            while let Some(size) = lines.next().filter(|s| *s != "0") {
                let data = lines.next().unwrap();
                assert_eq!(
                    usize::from_str_radix(size, 16).unwrap(),
                    data.len(),
                    "no extension, no padding: {body:?}"
                );
                text.push_str(data);
            }
            assert_eq!(text, "hello");
        }
    });
}

#[test]
fn a_pipelined_request_is_answered_in_turn_and_its_bytes_are_its_own() {
    both(|way| async move {
        let rig = rig(way);
        let request = format!(
            "POST /a HTTP/1.1\r\nHost: a\r\nContent-Length: {}\r\n\r\n{HIDDEN}GET /b HTTP/1.1\r\nHost: a\r\n\r\n",
            HIDDEN.len()
        );
        let outcome = sent(&rig, request.as_bytes()).await;
        assert_eq!(outcome.statuses, [200, 200]);
        assert_eq!(outcome.lines, ["POST /a HTTP/1.1", "GET /b HTTP/1.1"]);
        assert_eq!(outcome.bodies[0], HIDDEN);
    });
}

#[test]
fn a_reply_with_both_framings_is_read_as_chunks_and_ends_its_connection() {
    both(|way| async move {
        for fields in [
            "Content-Length: 3\r\nTransfer-Encoding: chunked\r\n",
            "Transfer-Encoding: chunked\r\nContent-Length: 3\r\n",
        ] {
            let head = format!("HTTP/1.1 200 OK\r\n{fields}\r\n");
            let rig = Rig::new(
                way,
                vec![
                    vec![send(head), chunk("hello"), last_chunk()],
                    reply("200 OK", "text/plain", "next"),
                ],
            );
            let mut client = rig.client();
            let first = client.call("GET /a HTTP/1.1\r\nHost: a\r\n\r\n").await;
            assert_eq!((first.text().as_str(), first.headers("content-length").len()), ("hello", 0));
            let next = client.call("GET /b HTTP/1.1\r\nHost: a\r\n\r\n").await;
            assert_eq!(next.text(), "next");
            assert_eq!(rig.upstream.connections(), 2, "{fields:?}");
        }
    });
}

#[test]
fn a_reply_whose_framing_cannot_be_told_is_not_passed_on() {
    both(|way| async move {
        let heads = [
            "HTTP/1.1 200 OK\r\nContent-Length: 3\r\nContent-Length: 5\r\n\r\nhello",
            "HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\nhello",
            "HTTP/1.1 200 OK\r\nContent-Length: -5\r\n\r\nhello",
            "HTTP/1.1 099 Low\r\nContent-Length: 5\r\n\r\nhello",
            "HTTP/3.0 200 OK\r\nContent-Length: 5\r\n\r\nhello",
            "SSH-2.0-OpenSSH_9.6\r\n",
        ];
        let scripts = heads.iter().map(|head| vec![send(head), Step::Hold]).collect();
        let rig = Rig::new(way, scripts);
        for head in heads {
            let reply = rig.client().call("GET /a HTTP/1.1\r\nHost: a\r\n\r\n").await;
            assert_eq!(reply.status(), 502, "{head:?}");
            assert_eq!(reply.header("x-goodput-error"), Some("upstream_malformed"), "{head:?}");
            assert_eq!(rig.records().pop().unwrap().outcome, "upstream_reset");
        }
    });
}

#[test]
fn bytes_behind_a_reply_are_never_anothers_reply() {
    both(|way| async move {
        let extra = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nokHTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nforged";
        let chunked_extra =
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\nHTTP/1.1 200 OK\r\n\r\nforged";
        let bodiless = "HTTP/1.1 204 No Content\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nforged";
        for first in [extra, chunked_extra, bodiless] {
            let rig = Rig::new(way, vec![vec![send(first)], reply("200 OK", "text/plain", "right")]);
            let mut client = rig.client();
            client.call("GET /a HTTP/1.1\r\nHost: a\r\n\r\n").await;
            let next = client.call("GET /b HTTP/1.1\r\nHost: a\r\n\r\n").await;
            assert_eq!(next.text(), "right", "{first:?}");
            assert_eq!(rig.upstream.connections(), 2);
        }
    });
}

#[test]
fn a_broken_chunk_of_a_reply_ends_it_after_what_was_sound() {
    both(|way| async move {
        let event = content("a");
        for bad in ["5\nhello\r\n", "zz\r\n", "5\r\nhelloXX", "\r\n", "5;a\n=b\r\nhello\r\n"] {
            let rig = Rig::new(
                way,
                vec![vec![sse_head(), chunk(&event), send(bad), chunk("more"), last_chunk()]],
            );
            let reply = rig.client().call(super::super::rig::chat()).await;
            assert!(!reply.complete, "{bad:?}");
            assert!(reply.text().starts_with(&event), "{bad:?}");
            assert!(!reply.text().contains("more"), "{bad:?}");
            assert_eq!(
                (rig.record().outcome, rig.record().output_tokens),
                ("upstream_reset", Some(1))
            );
        }
    });
}
