//! One outcome a request, decided from what the stream said and how the transport ended.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::task::{Context, Poll};
use std::time::Duration;

use goodput_proxy::clock;
use goodput_proxy::proxy::upstream::{BoxIo, Connector};
use tokio::io::{AsyncRead, AsyncWrite, DuplexStream, ReadBuf};

use super::super::rig::{DONE, Rig, Step, Upstream, both, chat, chunk, content, finish, reply, sse_head, wait};
use super::{MS, event, pass, scraped, sse, stream, value};

/// What the counter of requests says of each outcome that occurred, over all streams of `chat`.
async fn counted(rig: &Rig, outcome: &str) -> Option<f64> {
    let labels = [
        ("route", "chat"),
        ("model", "m"),
        ("api", "chat"),
        ("streaming", "true"),
        ("outcome", outcome),
    ];
    value(&scraped(rig).await, "goodput_requests_total", &labels)
}

#[test]
fn an_error_object_in_a_200_stream_is_a_stream_error() {
    // P096
    both(|way| async move {
        let error = "data: {\"error\":{\"message\":\"t\",\"code\":504}}\n\n";
        let steps = [wait(10), chunk(error), chunk(DONE)];
        let rig = Rig::configured(way, "slo: e2e=1s", vec![sse(steps)]);
        let reply = rig.client().call(chat()).await;
        assert_eq!(reply.text(), [error, DONE].concat());
        let record = rig.record();
        assert_eq!(
            (record.outcome, record.ttft_ms, record.verdict),
            ("stream_error", None, Some("bad"))
        );
        assert_eq!((record.status, record.broken), (Some(200), vec![]));
        assert_eq!(
            (counted(&rig, "ok").await, counted(&rig, "stream_error").await),
            (Some(0.0), Some(1.0))
        );
    });
}

#[test]
fn an_error_after_five_tokens_is_a_stream_error_and_keeps_its_ttft() {
    // P096
    both(|way| async move {
        let mut steps = vec![wait(20)];
        steps.extend((0..5).map(|_| chunk(content("x"))));
        steps.extend([
            wait(10),
            event(r#"{"error":{"message":"t","code":504}}"#),
            chunk(finish()),
            chunk(DONE),
        ]);
        let record = stream(way, steps).await.record();
        assert_eq!(
            (record.outcome, record.ttft_ms, record.output_tokens),
            ("stream_error", Some(20.0), Some(5))
        );
    });
}

#[test]
fn an_error_that_is_null_or_false_or_empty_is_none() {
    // P096
    both(|way| async move {
        for nothing in ["null", "false", "\"\"", "{}", "0"] {
            let with = event(&format!(
                r#"{{"choices":[{{"index":0,"delta":{{"content":"x"}}}}],"error":{nothing}}}"#
            ));
            let record = stream(way, [with, chunk(finish()), chunk(DONE)]).await.record();
            assert_eq!(record.outcome, "ok", "{nothing}");
        }
    });
}

#[test]
fn a_stream_of_nothing_but_its_terminal_signal_is_empty() {
    // P097
    both(|way| async move {
        let rig = Rig::configured(way, "slo: e2e=1s", vec![sse([chunk(DONE)])]);
        assert_eq!(rig.client().call(chat()).await.text(), DONE);
        let record = rig.record();
        assert_eq!((record.outcome, record.verdict, record.ttft_ms), ("empty", Some("bad"), None));
        assert_eq!(counted(&rig, "ok").await, Some(0.0));
    });
}

#[test]
fn a_failed_event_is_a_stream_error_and_no_success() {
    // P098
    both(|way| async move {
        let steps = [
            event(r#"{"type":"response.created","response":{"error":null}}"#),
            wait(10),
            chunk("event: error\ndata: {\"type\":\"error\",\"code\":\"server_error\",\"message\":\"x\"}\n\n"),
            event(r#"{"type":"response.failed","response":{"error":{"code":"server_error"}}}"#),
        ];
        let rig = super::stream_of(way, super::ask("/v1/responses"), steps).await;
        assert_eq!(rig.record().outcome, "stream_error");
        let scrape = scraped(&rig).await;
        let count = |outcome| {
            value(
                &scrape,
                "goodput_requests_total",
                &[
                    ("route", "responses"),
                    ("model", "m"),
                    ("streaming", "true"),
                    ("outcome", outcome),
                ],
            )
        };
        assert_eq!((count("ok"), count("stream_error")), (Some(0.0), Some(1.0)));
    });
}

#[test]
fn a_stream_that_stalls_and_then_breaks_off_is_an_upstream_reset() {
    // P098
    both(|way| async move {
        let script = vec![sse_head(), wait(10), chunk(content("x")), wait(5000), Step::Reset];
        let rig = Rig::new(way, vec![script]);
        assert!(!rig.client().call(chat()).await.complete);
        let record = rig.record();
        assert_eq!(
            (record.outcome, record.ttft_ms, record.e2e_ms),
            ("upstream_reset", Some(10.0), 5010.0)
        );
        assert_eq!(
            (counted(&rig, "ok").await, counted(&rig, "upstream_reset").await),
            (Some(0.0), Some(1.0))
        );
    });
}

#[test]
fn a_stream_silent_past_the_idle_limit_is_a_timeout() {
    // P098
    both(|way| async move {
        let script = vec![sse_head(), chunk(content("x")), wait(60_000)];
        let rig = Rig::configured(way, "upstream: { idle_timeout: 2s }", vec![script]);
        assert!(!rig.client().call(chat()).await.complete);
        let record = rig.record();
        assert_eq!(
            (record.outcome, record.e2e_ms, record.output_tokens),
            ("timeout", 2000.0, Some(1))
        );
    });
}

#[test]
fn a_cancel_before_the_head_and_one_amid_the_stream_count_once_and_as_the_clients() {
    // P099
    both(|way| async move {
        let mut amid = vec![sse_head()];
        amid.extend((0..5).map(|_| chunk(content("x"))));
        amid.push(wait(60_000));
        let rig = Rig::new(way, vec![vec![wait(60_000)], amid]);

        let mut client = rig.client();
        client.send(chat()).await;
        super::pass(1000).await;
        drop(client);
        rig.finished(1).await;

        let mut client = rig.client();
        client.send(chat()).await;
        client.head().await.expect("a head");
        super::pass(1).await;
        drop(client);
        let records = rig.finished(2).await;

        let seen: Vec<_> = records
            .iter()
            .map(|r| (r.outcome, r.status, r.ttft_ms, r.output_tokens))
            .collect();
        assert_eq!(
            seen,
            [
                ("client_cancelled", None, None, None),
                ("client_cancelled", Some(200), Some(0.0), Some(5))
            ]
        );
        assert_eq!(records[0].e2e_ms, 1000.0);
        let snapshot = rig.snapshot();
        assert_eq!(snapshot.series.iter().map(|s| s.in_flight).sum::<u64>(), 0);
        assert_eq!(
            rig.series("chat", "m").output_tokens.iter().sum::<u64>(),
            5,
            "tokens seen so far are kept"
        );
    });
}

#[test]
fn an_end_signal_or_a_finish_reason_completes_a_stream() {
    // P100
    both(|way| async move {
        let token = || chunk(content("x"));
        let unfinished = event(r#"{"choices":[{"index":0,"delta":{},"finish_reason":null}]}"#);
        for (name, outcome, steps) in [
            ("neither", "unterminated", vec![token()]),
            ("signal only", "ok", vec![token(), chunk(DONE)]),
            ("null, then the signal", "ok", vec![token(), unfinished, chunk(DONE)]),
            (
                "no choices, then the signal",
                "ok",
                vec![token(), event(r#"{"choices":[]}"#), chunk(DONE)],
            ),
            ("both", "ok", vec![token(), chunk(finish()), chunk(DONE)]),
            ("reason only", "ok", vec![token(), chunk(finish())]),
        ] {
            assert_eq!(stream(way, steps).await.record().outcome, outcome, "{name}");
        }
    });
}

#[test]
fn each_error_status_has_its_outcome_and_a_failed_stream_stays_a_stream() {
    both(|way| async move {
        for (status, outcome) in [
            ("400 Bad Request", "client_error"),
            ("404 Not Found", "client_error"),
            ("408 Request Timeout", "upstream_error"),
            ("429 Too Many Requests", "overloaded"),
            ("500 Internal Server Error", "upstream_error"),
            ("503 Service Unavailable", "overloaded"),
        ] {
            let body = r#"{"error":{"message":"no"}}"#;
            let rig = Rig::new(way, vec![reply(status, "application/json", body)]);
            assert_eq!(rig.client().call(chat()).await.text(), body);
            let record = rig.record();
            assert_eq!(
                (record.outcome, record.streaming, record.ttft_ms),
                (outcome, true, None),
                "{status}"
            );
            assert_eq!(record.output_tokens, None, "of an error nothing was read");
        }
    });
}

/// An upstream connection whose end is seen one look late.
struct Late {
    io: DuplexStream,
    armed: Arc<AtomicBool>,
}

impl AsyncRead for Late {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        if self.armed.swap(false, Relaxed) {
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        Pin::new(&mut self.io).poll_read(cx, buf)
    }
}

impl AsyncWrite for Late {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.io).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(cx)
    }
}

#[test]
fn a_request_that_was_sent_again_counts_once_and_its_e2e_spans_both_attempts() {
    // P101
    both(|way| async move {
        let reply = || sse([chunk(content("x")), chunk(finish()), chunk(DONE)]);
        let (mut first, mut second) = (reply(), vec![wait(70)]);
        first.extend([wait(1000), Step::Close]);
        second.extend(reply());
        let upstream = Upstream::new(vec![first, second]);
        let armed = Arc::new(AtomicBool::new(false));
        let connector = {
            let (upstream, armed) = (upstream.clone(), Arc::clone(&armed));
            Connector::new(move || {
                let (io, theirs) = tokio::io::duplex(4096);
                tokio::spawn(upstream.clone().serve(Box::new(theirs)));
                let armed = Arc::clone(&armed);
                async move { Ok(Box::new(Late { io, armed }) as BoxIo) }
            })
        };
        let rig = Rig::with(way, "", 4096, upstream, connector);
        let mut client = rig.client();
        assert!(client.call(chat()).await.complete);
        pass(999).await;
        tokio::time::advance(Duration::from_millis(1)).await;
        armed.store(true, Relaxed);
        let begin = clock::now();
        assert!(client.call(chat()).await.complete);
        assert_eq!(clock::now().since(begin), 70 * MS);
        let records = rig.records();
        assert_eq!(records.len(), 2);
        assert_eq!((records[1].outcome, records[1].attempts, records[1].e2e_ms), ("ok", 2, 70.0));
        assert_eq!(counted(&rig, "ok").await, Some(2.0));
        let scrape = scraped(&rig).await;
        assert_eq!(value(&scrape, "goodput_proxy_upstream_attempts_total", &[]), Some(3.0));
    });
}
