//! Replies that do not end as they should: the client sees a broken transfer, never a whole one, and all that came before it.

use super::super::rig::{
    DONE, Rig, Step, both, both_tcp, chat, chunk, content, finish, h2, last_chunk, post, send, sse_head, wait,
};

const ROLE: &str = "data: {\"choices\":[{\"index\":0,\"delta\":{\"role\":\"assistant\",\"content\":\"\"}}]}\n\n";

#[test]
fn a_reset_within_a_stream_is_never_shown_as_its_end() {
    both_tcp(|way| async move {
        for end in [Step::Reset, Step::Close, Step::Fin] {
            let script = vec![
                Step::Body,
                sse_head(),
                chunk(ROLE),
                chunk(content("a")),
                chunk(content("b")),
                chunk(content("c")),
                end.clone(),
            ];
            let rig = Rig::tcp(way, "", vec![script]).await;
            let mut client = rig.tcp_client().await;
            client.send(chat()).await;
            let reply = client.reply().await;
            assert!(!reply.complete, "{end:?}");
            assert!(!reply.raw_body.ends_with(b"0\r\n\r\n"));
            let whole = [ROLE, &content("a"), &content("b"), &content("c")].concat();
            if matches!(end, Step::Reset) {
                // What a reset overtakes is lost in the kernel, but nothing is made up.
                assert!(whole.starts_with(&reply.text()));
            } else {
                assert_eq!(reply.text(), whole, "all that came is delivered, and no more");
                assert_eq!(rig.finished(1).await[0].output_tokens, Some(3));
            }
            assert_eq!(rig.finished(1).await[0].outcome, "upstream_reset");
        }
    });
}

#[test]
fn a_stream_cut_at_any_byte_of_its_framing_is_never_whole() {
    both(|way| async move {
        let wire = [super::super::rig::chunked(content("a")), b"0\r\n\r\n".to_vec()].concat();
        let cuts: Vec<usize> = (0..wire.len()).collect();
        let scripts = cuts
            .iter()
            .map(|cut| vec![Step::Body, sse_head(), Step::Send(wire[..*cut].to_vec()), Step::Close])
            .collect();
        let rig = Rig::new(way, scripts);
        for cut in cuts {
            let reply = rig.client().call(chat()).await;
            assert!(!reply.complete, "cut at {cut}");
            assert_eq!(rig.records().pop().unwrap().outcome, "upstream_reset", "cut at {cut}");
        }
    });
}

#[test]
fn an_http2_client_sees_a_reset_stream_where_the_upstream_broke_off() {
    both(|way| async move {
        let script = vec![Step::Body, sse_head(), chunk(content("a")), wait(10), Step::Close];
        let rig = Rig::new(way, vec![script]);
        let mut sender = h2::client(&rig).await;
        let (head, body, error) = h2::call(&mut sender, h2::chat()).await;
        assert_eq!(head.status, 200);
        assert_eq!(body, content("a").as_bytes());
        let error = error.expect("a broken body");
        assert!(error.contains("stream error received"), "{error}");
        assert_eq!(rig.finished(1).await[0].outcome, "upstream_reset");
    });
}

#[test]
fn a_reply_shorter_than_its_length_breaks_off_after_what_came() {
    both(|way| async move {
        for (length, sent) in [(1000, 400), (1, 0), (1000, 999), (100_000, 70_000)] {
            let head = format!("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\r\n");
            let rig = Rig::new(way, vec![vec![Step::Body, send(head), send("x".repeat(sent)), Step::Fin]]);
            let reply = rig.client().call(post("/v1/chat/completions", "{}")).await;
            assert!(!reply.complete);
            assert_eq!(reply.body.len(), sent);
            assert_eq!(reply.header("content-length"), Some(length.to_string().as_str()));
            assert_eq!(rig.finished(1).await[0].outcome, "upstream_reset");
        }
    });
}

#[test]
fn a_limit_of_our_own_breaks_the_reply_off_too() {
    both(|way| async move {
        let mut script = vec![Step::Body, sse_head()];
        for _ in 0..10 {
            script.extend([chunk(content("t")), wait(1000)]);
        }
        script.extend([chunk(finish()), chunk(DONE), last_chunk()]);
        let rig = Rig::configured(way, "upstream: { total_timeout: 2500ms }\n", vec![script]);
        let reply = rig.client().call(chat()).await;
        assert!(!reply.complete);
        assert_eq!(reply.text(), content("t").repeat(3), "what came before is delivered");
        assert_eq!((rig.record().outcome, rig.record().e2e_ms), ("timeout", 2500.0));
        rig.upstream.until(|u| !u.closed().is_empty()).await;
    });
}

#[test]
fn every_limit_counts_from_the_same_moment_on_both_ways() {
    both(|way| async move {
        let ok = "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\n";
        let in_time = vec![Step::Body, wait(900), send(ok), wait(90), send("ok"), wait(900), send("ok")];
        let late_body = vec![Step::Body, wait(900), send(ok), wait(200), send("okok")];
        let late_head = vec![Step::Body, wait(1100), send(ok)];
        let informed = vec![
            Step::Body,
            send("HTTP/1.1 102 Processing\r\n\r\n"),
            wait(1100),
            send(ok),
            send("okok"),
        ];
        for (yaml, script, status, outcome, e2e) in [
            ("first_byte_timeout: 1s", in_time.clone(), 200, "ok", 1890.0),
            ("first_byte_timeout: 1s", late_body.clone(), 200, "timeout", 1000.0),
            ("first_byte_timeout: 1s", late_head.clone(), 504, "timeout", 1000.0),
            ("first_byte_timeout: 1s", informed.clone(), 504, "timeout", 1000.0),
            ("idle_timeout: 1s", in_time.clone(), 200, "ok", 1890.0),
            ("idle_timeout: 150ms", late_body, 200, "timeout", 1050.0),
            ("idle_timeout: 1s", late_head, 200, "timeout", 2100.0),
            ("idle_timeout: 1s", informed, 200, "ok", 1100.0),
            ("total_timeout: 1500ms", in_time, 200, "timeout", 1500.0),
        ] {
            let rig = Rig::configured(way, &format!("upstream: {{ {yaml} }}\n"), vec![script]);
            let mut client = rig.client();
            client.send(post("/x", "{}")).await;
            let mut head = client.head().await.unwrap();
            while head.starts_with("HTTP/1.1 1") {
                head = client.head().await.unwrap();
            }
            client.rest_within(5000).await;
            let record = rig.record();
            assert_eq!((record.outcome, record.e2e_ms), (outcome, e2e), "{yaml}");
            assert_eq!(head.split(' ').nth(1), Some(status.to_string().as_str()), "{yaml}");
        }
    });
}

#[test]
fn a_slow_client_is_not_the_upstreams_idle_time() {
    both(|way| async move {
        let piece = "x".repeat(1000);
        let mut script = vec![Step::Body, sse_head()];
        script.extend((0..400).map(|_| chunk(&piece)));
        script.push(last_chunk());
        let rig = Rig::piped(way, "upstream: { idle_timeout: 1s }\n", 4096, vec![script]);
        let mut client = rig.client();
        client.send(post("/x", "{}")).await;
        client.head().await.unwrap();
        tokio::time::sleep(std::time::Duration::from_secs(30)).await;
        assert_eq!(client.rest_of_stream_len().await, 400_000);
        assert_eq!(rig.finished(1).await[0].outcome, "ok");
    });
}
