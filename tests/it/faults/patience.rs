//! Long silences that are healthy, and short ones that are not.

use std::time::Duration;

use goodput_proxy::aggregate::Measure;
use goodput_proxy::clock;
use goodput_proxy::lifecycle::Phase;
use tokio::time::sleep;

use super::super::rig::{DONE, Rig, Step, both, chat, chunk, content, finish, last_chunk, post, reply, sse_head, wait};

#[test]
fn minutes_of_prefill_are_waited_for_and_nothing_is_made_up_meanwhile() {
    both(|way| async move {
        for ms in [135_000, 310_000, 3_599_000] {
            let script = vec![
                Step::Body,
                wait(ms),
                sse_head(),
                chunk(content("a")),
                chunk(finish()),
                chunk(DONE),
                last_chunk(),
            ];
            let rig = Rig::new(way, vec![script]);
            let mut client = rig.client();
            client.send(chat()).await;
            let reply = client.reply().await;
            assert_eq!(reply.text(), [&content("a"), &finish(), DONE].concat());
            assert!(
                client.reads.iter().all(|r| r.0 == client.reads[0].0),
                "one moment: that of the reply"
            );
            assert_eq!((rig.record().outcome, rig.record().ttft_ms), ("ok", Some(ms as f64)));
            if ms < 600_000 {
                let ttft = &rig.series("chat", "m").histograms[Measure::Ttft.index()];
                assert!(ttft.edges.last().unwrap() / 1_000_000 >= ms.min(120_000));
            }
        }
    });
}

#[test]
fn a_thinking_pause_is_one_gap_and_no_end() {
    both(|way| async move {
        let mut script = vec![Step::Body, sse_head()];
        for at in 0..10 {
            if at > 0 {
                script.push(wait(if at == 5 { 100_000 } else { 20 }));
            }
            script.push(chunk(content("t")));
        }
        script.extend([chunk(finish()), chunk(DONE), last_chunk()]);
        let rig = Rig::new(way, vec![script]);
        assert!(rig.client().call(chat()).await.complete);
        let record = rig.record();
        assert_eq!(
            (record.outcome, record.output_tokens, record.stall_ms),
            ("ok", Some(10), Some(100_000.0))
        );
        let itl = &rig.series("chat", "m").histograms[Measure::Itl.index()];
        assert_eq!((itl.count, itl.sum), (9, (100_000 + 8 * 20) * 1_000_000));
    });
}

#[test]
fn a_head_that_stops_half_way_is_cut_at_the_limit_and_counted() {
    both(|way| async move {
        let rig = Rig::new(way, vec![vec![Step::Hold]]);
        let mut clients = Vec::new();
        for n in 0..300u64 {
            let mut client = rig.client();
            let parts = [
                "POST /v1/c",
                "G",
                "POST /v1/chat/completions HTTP/1.1\r\nHost: a\r\nX: ",
                "PRI * HT",
            ];
            client.send(parts[n as usize % parts.len()]).await;
            clients.push(client);
        }
        let begin = clock::now();
        for client in &mut clients {
            assert!(!client.rest().await.starts_with(b"HTTP/1.1 2"));
            let after = clock::now().since(begin) / 1_000_000;
            assert!((29_999..=30_001).contains(&after), "{after} ms");
        }
        rig.under_way.connections.empty().await;
        assert_eq!(rig.upstream.connections(), 0);
        assert_eq!(rig.counters.header_timeouts.get(), 300);
        assert_eq!(rig.records().len(), 0);
    });
}

#[test]
fn a_head_that_trickles_is_cut_too_but_an_idle_connection_is_not() {
    both(|way| async move {
        let rig = Rig::configured(
            way,
            "limits: { header_timeout: 3s }\n",
            vec![reply("200 OK", "text/plain", "ok")],
        );
        let mut idle = rig.client();
        sleep(Duration::from_secs(3600)).await;
        assert_eq!(idle.call(post("/x", "{}")).await.status(), 200);
        sleep(Duration::from_secs(3600)).await;
        assert_eq!(idle.call(post("/x", "{}")).await.status(), 200);

        let begin = clock::now();
        let request = post("/x", "{}");
        let mut sent = 0;
        while sent < request.len() && idle.try_send(&request[sent..=sent]).await.is_ok() {
            sent += 1;
            sleep(Duration::from_millis(500)).await;
        }
        assert!(sent <= 8, "{sent} bytes were taken");
        assert_eq!(idle.rest().await, b"");
        assert!(clock::now().since(begin) <= 4_000_000_000);
        assert_eq!(rig.counters.header_timeouts.get(), 1);
    });
}

/// Over HTTP/2 a head is frames among others: the connection's PINGs, which nobody can answer amid a frame, are its limit.
#[test]
fn half_a_head_over_http2_is_cut_by_the_pings_however_it_trickles() {
    both(|way| async move {
        // Preface, empty SETTINGS, and HEADERS of 100 bytes on stream 1.
        let begun = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0\0\0\x64\x01\x04\0\0\0\x01\x82";
        for pause in [None, Some(Duration::from_secs(5))] {
            let rig = Rig::new(way, vec![vec![Step::Hold]]);
            let mut client = rig.client();
            let begin = clock::now();
            client.send(begun).await;
            while let Some(pause) = pause
                && client.try_send(b"\x86").await.is_ok()
            {
                sleep(pause).await;
            }
            client.rest().await;
            let after = clock::now().since(begin) / 1_000_000_000;
            assert!((79..=85).contains(&after), "{after} s");
            rig.under_way.connections.empty().await;
            assert_eq!(rig.upstream.connections(), 0);
        }
    });
}

#[test]
fn nothing_idle_or_half_begun_holds_up_a_drain() {
    both(|way| async move {
        let rig = Rig::new(way, vec![reply("200 OK", "text/plain", "ok")]);
        let mut clients = Vec::new();
        for _ in 0..10 {
            let mut client = rig.client();
            assert_eq!(client.call(post("/x", "{}")).await.status(), 200);
            clients.push(client);
            clients.push(rig.client());
        }
        for part in ["POST /v1/chat/completions HTTP/1.1\r\nHo", "PRI *", "\r\n"] {
            let mut client = rig.client();
            client.send(part).await;
            clients.push(client);
        }
        // A used connection with half of its next head.
        let mut client = rig.client();
        client.call(post("/x", "{}")).await;
        client.send("POST /x HT").await;
        clients.push(client);
        sleep(Duration::from_millis(1)).await;
        assert_eq!(rig.under_way.connections.count(), 24);
        let begin = clock::now();
        rig.lifecycle.advance(Phase::Draining);
        rig.lifecycle.advance(Phase::Closing);
        rig.under_way.connections.empty().await;
        assert!(clock::now().since(begin) < 1_000_000_000);
        for mut client in clients {
            assert_eq!(client.rest().await, b"");
        }
    });
}

#[test]
fn streams_count_as_under_way_to_their_last_byte_and_a_drain_waits_for_them() {
    both(|way| async move {
        let script = vec![
            Step::Body,
            sse_head(),
            chunk(content("a")),
            wait(60_000),
            chunk(finish()),
            chunk(DONE),
            last_chunk(),
        ];
        let rig = Rig::new(way, vec![script]);
        let mut clients = Vec::new();
        for _ in 0..10 {
            let mut client = rig.client();
            client.send(chat()).await;
            client.read_until(&content("a")).await;
            clients.push(client);
        }
        assert_eq!(rig.under_way.requests.count(), 10);
        assert_eq!(rig.snapshot().series.iter().map(|s| s.in_flight).sum::<u64>(), 10);
        let begin = clock::now();
        rig.lifecycle.advance(Phase::Closing);
        rig.under_way.connections.empty().await;
        assert!(clock::now().since(begin) >= 59_000_000_000);
        for mut client in clients {
            let rest = String::from_utf8(client.rest().await).unwrap();
            assert!(rest.ends_with("0\r\n\r\n") && rest.contains(DONE), "{rest:?}");
        }
        assert!(rig.records().iter().all(|r| r.outcome == "ok"));
        assert_eq!(rig.snapshot().series.iter().map(|s| s.in_flight).sum::<u64>(), 0);
    });
}

#[test]
fn at_the_deadline_a_stream_is_cut_without_a_clean_end_and_recorded_as_drained() {
    both(|way| async move {
        let rig = Rig::new(way, vec![vec![Step::Body, sse_head(), chunk(content("a")), Step::Hold]]);
        let mut client = rig.client();
        client.send(chat()).await;
        client.read_until(&content("a")).await;
        rig.lifecycle.advance(Phase::Closing);
        sleep(Duration::from_secs(5)).await;
        rig.lifecycle.advance(Phase::Stopped);
        assert!(!client.rest().await.ends_with(b"0\r\n\r\n"));
        rig.under_way.connections.empty().await;
        assert_eq!(rig.record().outcome, "drained");
        assert_eq!(rig.under_way.requests.count(), 0);
    });
}
