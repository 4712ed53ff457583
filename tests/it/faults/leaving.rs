//! Clients that leave, in every phase of a request: the upstream is released at once and the request is counted once.

use std::sync::Arc;
use std::time::Duration;

use goodput_proxy::clock;
use goodput_proxy::proxy::upstream::{BoxIo, Connector};
use tokio::sync::Notify;

use super::super::rig::{
    Client, DONE, Rig, Step, Upstream, Way, both, both_tcp, chat, chunk, content, finish, last_chunk, post, sse_head, wait,
};

/// A generation of 2000 tokens, one every 20 ms.
fn long() -> Vec<Step> {
    let mut script = vec![Step::Body, sse_head()];
    for _ in 0..2000 {
        script.extend([wait(20), chunk(content("t"))]);
    }
    script.extend([chunk(DONE), last_chunk()]);
    script
}

/// Asserts that the only request was cancelled, once, and left nothing behind.
fn assert_cancelled(rig: &Rig, tokens: u64) {
    let record = rig.record();
    assert_eq!(record.outcome, "client_cancelled");
    if tokens > 0 {
        assert_eq!(record.output_tokens, Some(tokens));
    }
    assert_eq!(rig.under_way.requests.count(), 0);
    assert!(rig.snapshot().series.iter().all(|s| s.in_flight == 0));
}

/// How a client leaves.
#[derive(Clone, Copy, Debug)]
enum Exit {
    /// It closes, or resets.
    Drop,
    /// It ends its write side and reads on.
    Fin,
}

async fn leave(exit: Exit, mut client: Client) -> Option<Client> {
    match exit {
        Exit::Drop => {
            client.reset();
            None
        }
        Exit::Fin => {
            client.fin().await;
            Some(client)
        }
    }
}

#[test]
fn a_client_that_leaves_a_stream_stops_its_generation() {
    both(|way| async move {
        for exit in [Exit::Drop, Exit::Fin] {
            let rig = Rig::new(way, vec![long()]);
            let mut client = rig.client();
            client.send(chat()).await;
            client.head().await.unwrap();
            while client.seen().windows(7).filter(|w| w == b"content").count() < 5 {
                client.read().await;
            }
            let left = clock::now();
            let _kept = leave(exit, client).await;
            rig.upstream.until(|u| !u.closed().is_empty()).await;
            let closed = rig.upstream.closed()[0].1;
            assert!(closed.since(left) <= 20_000_000, "{exit:?}: {} ns", closed.since(left));
            assert!(rig.upstream.written() < 7 * 120, "{exit:?}: it wrote on");
            rig.finished(1).await;
            assert_cancelled(&rig, 5);
        }
    });
}

#[test]
fn a_reset_stops_a_generation_over_sockets_too() {
    both_tcp(|way| async move {
        let gate = Arc::new(Notify::new());
        let script = vec![Step::Body, sse_head(), chunk(content("a")), Step::Gate(gate)];
        let rig = Rig::tcp(way, "", vec![script]).await;
        let mut client = rig.tcp_client().await;
        client.send(chat()).await;
        client.read_until(&content("a")).await;
        client.reset();
        rig.upstream.until(|u| !u.closed().is_empty()).await;
        rig.finished(1).await;
        assert_cancelled(&rig, 1);
    });
}

#[test]
fn a_client_that_leaves_during_a_long_silence_releases_the_upstream_at_once() {
    both(|way| async move {
        for (request, stream) in [(chat(), true), (post("/v1/chat/completions", r#"{"model":"m"}"#), false)] {
            for exit in [Exit::Drop, Exit::Fin] {
                let rig = Rig::new(way, vec![vec![Step::Body, wait(20_000), sse_head(), Step::Hold]]);
                let mut client = rig.client();
                client.send(&request).await;
                rig.upstream
                    .until(|u| u.seen().first().is_some_and(|s| !s.body.is_empty()))
                    .await;
                tokio::time::sleep(Duration::from_secs(1)).await;
                let left = clock::now();
                let _kept = leave(exit, client).await;
                rig.upstream.until(|u| !u.closed().is_empty()).await;
                assert_eq!(rig.upstream.closed()[0].1.since(left), 0, "stream {stream}, {exit:?}");
                rig.finished(1).await;
                assert_cancelled(&rig, 0);
                assert_eq!(rig.record().e2e_ms, 1000.0);
            }
        }
    });
}

#[test]
fn a_client_that_leaves_during_its_upload_leaves_no_whole_request_behind() {
    both(|way| async move {
        let rig = Rig::new(way, vec![vec![Step::Body, sse_head(), Step::Hold]]);
        let mut client = rig.client();
        client
            .send("POST /v1/chat/completions HTTP/1.1\r\nHost: a\r\nContent-Length: 1000\r\n\r\n{\"model\"")
            .await;
        rig.upstream.until(|u| u.seen().len() == 1).await;
        client.reset();
        rig.upstream.until(|u| !u.closed().is_empty()).await;
        assert_eq!(rig.upstream.seen()[0].body, b"", "the body never was whole");
        rig.finished(1).await;
        assert_cancelled(&rig, 0);
    });
}

#[test]
fn a_client_that_cannot_be_read_for_want_of_room_is_seen_leaving_all_the_same() {
    both_tcp(|way| async move {
        let upload = "POST /v1/chat/completions HTTP/1.1\r\nHost: a\r\nContent-Length: 100000000\r\n\r\n".to_owned();
        for (request, body, exit) in [
            (&upload, false, Exit::Drop),
            (&upload, false, Exit::Fin),
            (&chat(), true, Exit::Drop),
            (&chat(), true, Exit::Fin),
        ] {
            let gate = Arc::new(Notify::new());
            let mut script = vec![Step::Stall(Arc::clone(&gate)), Step::Hold];
            if body {
                script.insert(0, Step::Body);
            }
            let rig = Rig::piped(way, "", 1024, vec![script]);
            let mut client = rig.tcp_client().await;
            client.send([request.as_bytes(), &[b'z'; 100 << 10]].concat()).await;
            rig.upstream.until(|u| u.seen().len() == 1).await;
            // A FIN behind what the kernel has no room for does not arrive; a reset does.
            if !body && matches!(exit, Exit::Drop) {
                let piece = [b'z'; 64 << 10];
                while tokio::time::timeout(Duration::from_millis(100), client.try_send(piece))
                    .await
                    .is_ok()
                {}
            }
            let left = leave(exit, client).await;
            rig.under_way.requests.empty().await;
            assert_cancelled(&rig, 0);
            gate.notify_one();
            rig.upstream.until(|u| !u.closed().is_empty()).await;
            drop(left);
        }
    });
}

#[test]
fn a_client_that_leaves_a_chunked_upload_never_gets_it_a_clean_end() {
    both(|way| async move {
        let rig = Rig::new(way, vec![vec![Step::Body, sse_head(), Step::Hold]]);
        let mut client = rig.client();
        client
            .send("POST /v1/chat/completions HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n8\r\n{\"model\"\r\n")
            .await;
        rig.upstream.until(|u| u.seen().len() == 1).await;
        client.reset();
        rig.upstream.until(|u| !u.closed().is_empty()).await;
        assert_eq!(rig.upstream.seen()[0].raw_body, b"", "no last chunk was made up");
        rig.finished(1).await;
        assert_cancelled(&rig, 0);
    });
}

/// A rig whose upstream connections come into being only when `gate` opens.
fn connecting(way: Way, gate: &Arc<Notify>) -> Rig {
    let gate = Arc::clone(gate);
    let connector = Connector::new(move || {
        let gate = Arc::clone(&gate);
        async move {
            gate.notified().await;
            Ok(Box::new(tokio::io::duplex(64).0) as BoxIo)
        }
    });
    Rig::with(
        way,
        "upstream: { connect_timeout: 60s }\n",
        64 << 10,
        Upstream::new(Vec::new()),
        connector,
    )
}

#[test]
fn a_client_that_leaves_before_there_is_a_connection_is_counted_at_once() {
    both(|way| async move {
        let gate = Arc::new(Notify::new());
        let rig = connecting(way, &gate);
        let mut client = rig.client();
        client.send(chat()).await;
        tokio::time::sleep(Duration::from_secs(1)).await;
        client.reset();
        tokio::time::sleep(Duration::from_millis(1)).await;
        assert_cancelled(&rig, 0);
        assert_eq!(rig.record().e2e_ms, 1000.0);
    });
}

#[test]
fn a_client_that_leaves_before_its_head_is_whole_was_no_request() {
    both(|way| async move {
        let rig = Rig::new(way, vec![vec![Step::Hold]]);
        for part in ["", "P", "POST /v1/chat/completions HTTP/1.1\r\nHo", "\r\n"] {
            let mut client = rig.client();
            client.send(part).await;
            client.reset();
        }
        rig.under_way.connections.empty().await;
        assert_eq!(rig.records().len(), 0);
        assert_eq!(rig.upstream.connections(), 0);
    });
}

#[test]
fn a_client_that_leaves_after_the_terminal_signal_got_all_it_wanted() {
    both(|way| async move {
        for exit in [Exit::Drop, Exit::Fin] {
            let script = vec![
                Step::Body,
                sse_head(),
                chunk(content("a")),
                chunk(finish()),
                chunk(DONE),
                wait(60_000),
                last_chunk(),
            ];
            let rig = Rig::new(way, vec![script]);
            let mut client = rig.client();
            client.send(chat()).await;
            client.read_until(DONE).await;
            let _kept = leave(exit, client).await;
            rig.upstream.until(|u| !u.closed().is_empty()).await;
            assert_eq!(rig.finished(1).await[0].outcome, "ok", "{exit:?}");
            assert_eq!(rig.under_way.requests.count(), 0);
        }
    });
}

#[test]
fn a_fin_after_the_request_is_leaving_unless_half_close_says_otherwise() {
    both(|way| async move {
        for (yaml, request) in [
            ("half_close: true\n", chat()),
            (
                "half_close: true\n",
                chat().replace("HTTP/1.1\r\n", "HTTP/1.1\r\nConnection: close\r\n"),
            ),
            ("half_close: true\n", chat().replace("HTTP/1.1", "HTTP/1.0")),
        ] {
            let mut script = vec![Step::Body, sse_head()];
            for _ in 0..5 {
                script.extend([wait(1000), chunk(content("t"))]);
            }
            script.extend([chunk(finish()), chunk(DONE), last_chunk()]);
            let rig = Rig::configured(way, yaml, vec![script]);
            let mut client = rig.client();
            client.send(request).await;
            client.fin().await;
            let all = String::from_utf8(client.rest().await).unwrap();
            assert_eq!(all.matches("content\":\"t").count(), 5);
            assert!(all.contains(DONE));
            assert_eq!((rig.record().outcome, rig.record().e2e_ms), ("ok", 5000.0));
        }
        let rig = Rig::new(way, vec![long()]);
        let mut client = rig.client();
        client.send(chat()).await;
        client.fin().await;
        assert!(!client.rest().await.ends_with(b"0\r\n\r\n"));
        rig.finished(1).await;
        assert_cancelled(&rig, 0);
    });
}

#[test]
fn a_pipelined_request_is_served_after_the_one_before_it() {
    both(|way| async move {
        let rig = Rig::new(
            way,
            vec![vec![
                Step::Body,
                sse_head(),
                wait(100),
                chunk(content("a")),
                chunk(DONE),
                last_chunk(),
            ]],
        );
        let mut client = rig.client();
        client.send([chat(), chat(), chat()].concat()).await;
        for _ in 0..3 {
            assert!(client.reply().await.complete);
        }
        let waits: Vec<Option<f64>> = rig.records().iter().map(|r| r.ttft_ms).collect();
        assert_eq!(waits, [Some(100.0); 3], "each is measured from its own beginning");
        assert_eq!(rig.upstream.connections(), 1);
    });
}

#[test]
fn clients_that_cancel_at_every_step_leave_no_count_behind() {
    both(|way| async move {
        let rig = Rig::new(way, vec![long()]);
        let request = chat();
        for n in 0..200usize {
            let mut client = rig.client();
            match n % 5 {
                0 => {}
                1 => client.send(&request[..request.len() * n / 200]).await,
                2 => client.send(&request).await,
                3 => {
                    client.send(&request).await;
                    client.head().await.unwrap();
                }
                _ => {
                    client.send(&request).await;
                    client.read_until(&content("t")).await;
                    tokio::time::sleep(Duration::from_millis(n as u64)).await;
                }
            }
            client.reset();
        }
        rig.under_way.connections.empty().await;
        assert_eq!(rig.under_way.requests.count(), 0);
        let records = rig.records();
        // Of the second kind only those with a whole head were requests, of the last three all.
        let head = request.find("\r\n\r\n").unwrap() + 4;
        let begun = (0..200).filter(|n| n % 5 == 1 && request.len() * n / 200 >= head).count();
        assert_eq!(records.len(), begun + 3 * 40);
        assert!(records.iter().all(|r| r.outcome == "client_cancelled"));
        assert!(rig.snapshot().series.iter().all(|s| s.in_flight == 0));
    });
}
