//! Events as servers write them, cut as networks cut them: the bytes pass at once and unchanged, and the reading finds the events.

use goodput_proxy::aggregate::Measure;
use goodput_proxy::measure::Degraded;

use super::super::rig::{
    DONE, Reply, Rig, Step, Way, both, chat, chunk, chunked, content, finish, last_chunk, send, sse_head, wait,
};

/// Milliseconds between two parts of [`streamed`].
pub(super) const GAP: u64 = 20;

/// A stream of `parts`, one HTTP chunk each and [`GAP`] apart.
pub(super) fn script(parts: &[Vec<u8>]) -> Vec<Step> {
    let mut script = vec![sse_head()];
    for (at, part) in parts.iter().enumerate() {
        if at > 0 {
            script.push(wait(GAP));
        }
        script.push(chunk(part));
    }
    script.push(last_chunk());
    script
}

/// Has `parts` streamed through a fresh proxy and checks that every one of them passed unchanged and on time.
async fn streamed(way: Way, parts: &[&str]) -> (Rig, Reply) {
    let parts: Vec<Vec<u8>> = parts.iter().map(|p| p.as_bytes().to_vec()).collect();
    let rig = Rig::new(way, vec![script(&parts)]);
    let mut client = rig.client();
    let reply = client.call(chat()).await;
    assert!(reply.complete);
    assert_eq!(reply.body, parts.concat());
    let ms = GAP * (parts.len() as u64 - 1);
    assert_eq!(rig.record().e2e_ms, ms as f64);
    let begin = client.reads[0].0;
    let in_time: usize = parts.iter().map(|part| chunked(part).len()).sum::<usize>() - chunked(&parts[parts.len() - 1]).len();
    let before: usize = client
        .reads
        .iter()
        .filter(|(at, _)| at.since(begin) < ms * 1_000_000)
        .map(|(_, n)| n)
        .sum();
    // Larger parts are cut into other chunks by the full server.
    if parts.len() > 1 && in_time < 32 << 10 {
        assert_eq!(
            before,
            reply.head.len() + in_time,
            "all but the last part came before the last was sent"
        );
    }
    (rig, reply)
}

fn degraded(rig: &Rig, why: Degraded) -> u64 {
    rig.snapshot().degraded[why as usize]
}

/// Asserts one finished stream of `tokens` events and nothing that could not be read.
fn assert_tokens(rig: &Rig, tokens: u64) {
    let record = rig.record();
    assert_eq!((record.outcome, record.output_tokens), ("ok", Some(tokens)));
    assert_eq!(rig.snapshot().degraded, [0; Degraded::ALL.len()]);
}

#[test]
fn a_field_needs_no_space_after_its_colon_and_loses_at_most_one() {
    both(|way| async move {
        for space in ["", " ", "   "] {
            let event = format!("data:{space}{{\"choices\":[{{\"index\":0,\"delta\":{{\"content\":\"hi\"}}}}]}}\n\n");
            let (rig, _) = streamed(way, &[&event, "data:[DONE]\n\n"]).await;
            assert_tokens(&rig, 1);
        }
    });
}

#[test]
fn events_that_come_in_one_read_share_a_time() {
    both(|way| async move {
        let five = ["a", "b", "c", "d", "e"].map(content).concat();
        let (rig, _) = streamed(way, &[&five, &[&finish(), DONE].concat()]).await;
        assert_tokens(&rig, 5);
        let record = rig.record();
        assert_eq!(
            (record.ttft_ms, record.stall_ms, record.tpot_ms),
            (Some(0.0), Some(0.0), Some(0.0))
        );
        let itl = &rig.series("chat", "m").histograms[Measure::Itl.index()];
        assert_eq!((itl.count, itl.sum), (4, 0), "a gap of zero is a sample");
    });
}

#[test]
fn lines_may_end_in_crlf() {
    both(|way| async move {
        let event = content("x").replace('\n', "\r\n");
        let end = [finish(), DONE.to_owned()].concat().replace('\n', "\r\n");
        let (rig, _) = streamed(way, &[&event.repeat(1000), &end]).await;
        assert_tokens(&rig, 1000);
    });
}

#[test]
fn a_crlf_cut_in_two_is_one_line_end() {
    both(|way| async move {
        let parts = [
            "data: {\"choices\":[{\"index\":0,\r\ndata: \"delta\":\r",
            "\ndata: {\"content\":\"x\"}}]}\r\n\r",
            "\ndata: [DONE]\r\n\r\n",
        ];
        let (rig, _) = streamed(way, &parts).await;
        assert_tokens(&rig, 1);
    });
}

#[test]
fn an_event_may_be_spread_over_several_data_lines() {
    both(|way| async move {
        let event = "data: {\"choices\":[{\"index\":0,\ndata: \"delta\":{\"content\":\"x\"}}]}\n\n";
        let (rig, _) = streamed(way, &[event, DONE]).await;
        assert_tokens(&rig, 1);
    });
}

#[test]
fn comments_pass_and_are_neither_events_nor_tokens() {
    both(|way| async move {
        for comment in [
            ": OPENROUTER PROCESSING\n\n",
            ": ping\n\n",
            ":\n\n",
            ":\n",
            "id: 7\n: x\n\n",
            "event: ping\n\n",
        ] {
            let parts = [
                comment,
                &comment.repeat(3),
                &content("a"),
                comment,
                &content("b"),
                &[comment, DONE].concat(),
            ];
            let (rig, _) = streamed(way, &parts).await;
            assert_tokens(&rig, 2);
            assert_eq!(
                (rig.record().ttfb_ms, rig.record().ttft_ms),
                (Some(0.0), Some(2.0 * GAP as f64)),
                "{comment:?}"
            );
        }
    });
}

#[test]
fn a_comment_after_an_id_makes_no_empty_event() {
    both(|way| async move {
        let (rig, _) = streamed(way, &[&format!("id: 7\n{}: ping\n\n", content("a")), DONE]).await;
        assert_tokens(&rig, 1);
    });
}

#[test]
fn keep_alive_comments_of_five_hundred_streams_at_once_break_none() {
    both(|way| async move {
        let script = vec![
            sse_head(),
            chunk(content("a")),
            wait(10),
            chunk(":\n\n"),
            wait(10),
            chunk([&content("b"), DONE].concat()),
            last_chunk(),
        ];
        let rig = Rig::new(way, vec![script]);
        let calls: Vec<_> = (0..500)
            .map(|_| {
                let mut client = rig.client();
                tokio::spawn(async move { client.call(chat()).await.complete })
            })
            .collect();
        for call in calls {
            assert!(call.await.unwrap());
        }
        let records = rig.records();
        assert_eq!(records.len(), 500);
        assert!(
            records
                .iter()
                .all(|r| r.outcome == "ok" && r.output_tokens == Some(2) && r.stall_ms == Some(20.0))
        );
        assert_eq!(rig.snapshot().degraded, [0; Degraded::ALL.len()]);
    });
}

#[test]
fn every_ping_of_a_long_prefill_arrives_when_it_is_sent() {
    both(|way| async move {
        let mut script = vec![sse_head()];
        for _ in 0..8 {
            script.extend([wait(15_000), chunk(": ping\n\n")]);
        }
        script.extend([chunk(content("a")), chunk(finish()), chunk(DONE), last_chunk()]);
        let rig = Rig::new(way, vec![script]);
        let mut client = rig.client();
        let begin = goodput_proxy::clock::now();
        client.send(chat()).await;
        client.head().await.unwrap();
        for n in 1..=8u64 {
            client.read_until(&"8\r\n: ping\n\n\r\n".repeat(n as usize)).await;
            let at = goodput_proxy::clock::now().since(begin);
            assert_eq!(at, n * 15_000_000_000, "ping {n}");
        }
        client.rest_of_stream().await;
        assert_eq!(rig.record().ttft_ms, Some(120_000.0));
    });
}

#[test]
fn a_line_of_two_mebibytes_passes_and_what_follows_is_read() {
    both(|way| async move {
        let long = format!(
            "data: {{\"choices\":[{{\"index\":0,\"delta\":{{\"content\":\"{}\"}}}}]}}\n\n",
            "x".repeat(2 << 20)
        );
        let script = vec![
            sse_head(),
            chunk(&long),
            chunk(content("a")),
            chunk(content("b")),
            chunk(finish()),
            chunk(DONE),
            last_chunk(),
        ];
        let rig = Rig::new(way, vec![script]);
        let reply = rig.client().call(chat()).await;
        assert_eq!(reply.text(), [&long, &content("a"), &content("b"), &finish(), DONE].concat());
        assert_eq!(rig.record().outcome, "ok");
        assert_eq!(rig.record().output_tokens, Some(3), "the long one is read, too");
        assert_eq!(rig.snapshot().degraded, [0; Degraded::ALL.len()]);
    });
}

#[test]
fn a_stream_without_a_line_end_passes_to_its_end() {
    // That its reading is given up at a cap, with a reason, is the decoder's own test.
    both(|way| async move {
        for begin in ["data: ", "", "event:"] {
            let piece = "x".repeat(32 << 10);
            let mut script = vec![sse_head(), chunk(format!("{begin}x"))];
            script.extend((0..64).map(|_| chunk(&piece)));
            script.push(last_chunk());
            let rig = Rig::new(way, vec![script]);
            let mut client = rig.client();
            client.send(chat()).await;
            client.head().await.unwrap();
            assert_eq!(client.rest_of_stream_len().await, begin.len() + 1 + 64 * piece.len());
            assert_eq!(rig.record().output_tokens.unwrap_or(0), 0);
        }
    });
}

#[test]
fn what_cannot_be_read_passes_as_it_is() {
    both(|way| async move {
        let odd: &[u8] = b"data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"\xff\xfe\"}}]}\n\ndata: {oops\n\n\0\0\n\n";
        let script = vec![
            sse_head(),
            chunk(odd),
            wait(5),
            chunk([content("a"), DONE.to_owned()].concat()),
            last_chunk(),
        ];
        let rig = Rig::new(way, vec![script]);
        let reply = rig.client().call(chat()).await;
        assert_eq!(reply.body, [odd, content("a").as_bytes(), DONE.as_bytes()].concat());
        assert_eq!(rig.record().outcome, "ok");
        assert_eq!(degraded(&rig, Degraded::Malformed), 1, "that of `oops`");
    });
}

#[test]
fn a_pause_within_the_framing_delays_nothing_that_came() {
    both(|way| async move {
        // The size line, the data and its CRLF each in a write of their own.
        let event = content("a");
        let size = format!("{:x}\r\n", event.len());
        let script = vec![
            sse_head(),
            wait(1000),
            send(&size),
            wait(1000),
            send(&event),
            wait(1000),
            send("\r\n"),
            wait(1000),
            chunk(DONE),
            last_chunk(),
        ];
        let rig = Rig::new(way, vec![script]);
        let mut client = rig.client();
        client.send(chat()).await;
        client.head().await.unwrap();
        client.read_until(&event).await;
        client.rest_of_stream().await;
        let record = rig.record();
        assert_eq!((record.ttft_ms, record.e2e_ms), (Some(2000.0), 4000.0));
        let token = client
            .reads
            .iter()
            .find(|r| r.1 >= event.len() && r.0.since(client.reads[0].0) > 0)
            .unwrap();
        assert_eq!(token.0.since(client.reads[0].0), 2_000_000_000);
    });
}
