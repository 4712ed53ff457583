//! Gaps between tokens: per token, per chunk, per request.

use goodput_proxy::aggregate::Measure;

use super::super::rig::{DONE, Rig, both, chat, chunk, content, finish, last_chunk, sse_head, usage, wait};
use super::{delta, event, samples, scraped, sse, stream, times, tokens, value};

/// A content event with this running usage.
fn running(completion: u64) -> String {
    format!(
        r#"{{"choices":[{{"index":0,"delta":{{"content":"x"}},"finish_reason":null}}],"usage":{{"prompt_tokens":7,"completion_tokens":{completion},"total_tokens":{}}}}}"#,
        completion + 7
    )
}

#[test]
fn a_chunk_of_several_tokens_gives_an_itl_sample_for_each_and_one_inter_chunk_sample() {
    // P079
    both(|way| async move {
        let steps = [
            event(&running(1)),
            wait(40),
            event(&running(5)),
            wait(40),
            event(&running(9)),
            chunk(finish()),
            chunk(DONE),
        ];
        let rig = stream(way, steps).await;
        let record = rig.record();
        assert_eq!(times(&record), (Some(0.0), Some(0.0), Some(10.0), Some(40.0), 80.0));
        let series = rig.series("chat", "m");
        assert_eq!(samples(&series, Measure::Itl), (80.0, 8));
        assert_eq!(samples(&series, Measure::InterChunk), (80.0, 2));
        let itl = &series.histograms[Measure::Itl.index()];
        let at = itl
            .edges
            .iter()
            .position(|edge| *edge == 10_000_000)
            .expect("10 ms is an edge");
        assert_eq!(itl.counts[at], 8, "each of them 10 ms");
        assert_eq!(tokens(&record), (Some(9), Some("usage")));
    });
}

#[test]
fn the_time_to_the_first_token_is_no_itl_sample() {
    // P080
    both(|way| async move {
        let steps = [
            wait(500),
            delta(r#"{"content":"a"}"#),
            wait(20),
            delta(r#"{"content":"b"}"#),
            wait(20),
            delta(r#"{"content":"c"}"#),
            chunk(finish()),
            chunk(DONE),
        ];
        let rig = stream(way, steps).await;
        let series = rig.series("chat", "m");
        assert_eq!(samples(&series, Measure::Itl), (40.0, 2));
        assert_eq!(samples(&series, Measure::InterChunk), (40.0, 2));
        assert_eq!(samples(&series, Measure::Stall), (20.0, 1));
    });
}

#[test]
fn tpot_ends_at_the_last_token_and_e2e_at_the_end_of_the_body() {
    // P081
    both(|way| async move {
        let rig = Rig::new(
            way,
            vec![vec![
                sse_head(),
                wait(500),
                chunk(content("a")),
                wait(500),
                chunk(content("b")),
                wait(500),
                chunk(usage(3, 2)),
                wait(100),
                chunk(DONE),
                wait(50),
                last_chunk(),
            ]],
        );
        assert!(rig.client().call(chat()).await.complete);
        assert_eq!(
            times(&rig.record()),
            (Some(500.0), Some(500.0), Some(500.0), Some(500.0), 1650.0)
        );
    });
}

#[test]
fn without_counts_per_chunk_tpot_comes_from_the_closing_usage_and_itl_from_the_chunks() {
    // P082
    both(|way| async move {
        let mut steps = vec![delta(r#"{"content":"abc"}"#)];
        steps.extend((1..10).flat_map(|_| [wait(30), delta(r#"{"content":"abc"}"#)]));
        steps.extend([chunk(finish()), chunk(usage(3, 31)), chunk(DONE)]);
        let rig = stream(way, steps).await;
        let record = rig.record();
        assert_eq!(record.tpot_ms, Some(9.0), "270 / (31 - 1)");
        assert_eq!(tokens(&record), (Some(31), Some("usage")));
        let series = rig.series("chat", "m");
        assert_eq!(samples(&series, Measure::Itl), (270.0, 9));
        assert_eq!(samples(&series, Measure::InterChunk), (270.0, 9));
    });
}

#[test]
fn a_first_chunk_of_several_tokens_is_left_out_of_tpots_divisor() {
    // P082
    both(|way| async move {
        let steps = [
            wait(10),
            event(&running(4)),
            wait(60),
            event(&running(10)),
            chunk(finish()),
            chunk(usage(7, 10)),
            chunk(DONE),
        ];
        let rig = stream(way, steps).await;
        assert_eq!(rig.record().tpot_ms, Some(10.0), "60 / (10 - 4)");
        assert_eq!(samples(&rig.series("chat", "m"), Measure::Itl), (60.0, 6));
    });
}

#[test]
fn tokens_of_one_read_have_gaps_of_0_and_a_tpot_of_0() {
    // P108
    both(|way| async move {
        let all: String = (0..50).map(|_| content("x")).chain([finish(), DONE.to_owned()]).collect();
        let rig = stream(way, [wait(100), chunk(all)]).await;
        let record = rig.record();
        assert_eq!(times(&record), (Some(100.0), Some(100.0), Some(0.0), Some(0.0), 100.0));
        let series = rig.series("chat", "m");
        let itl = &series.histograms[Measure::Itl.index()];
        assert_eq!((itl.sum, itl.count, itl.zero), (0, 49, 49));
        // A rate over no time is left out, never infinite.
        scraped(&rig).await;
    });
}

#[test]
fn a_request_that_was_cancelled_before_a_token_gives_no_rate() {
    // P108
    both(|way| async move {
        let rig = Rig::configured(way, "slo: ttft=1s", vec![vec![sse_head(), wait(60_000)]]);
        let mut client = rig.client();
        client.send(chat()).await;
        client.head().await.expect("a head");
        drop(client);
        rig.finished(1).await;
        assert_eq!(tokens(&rig.record()), (Some(0), Some("events")));
        let scrape = scraped(&rig).await;
        let labels = [("route", "chat"), ("model", "m")];
        assert_eq!(value(&scrape, "goodput_tpot_seconds_count", &labels), Some(0.0));
        assert_eq!(value(&scrape, "goodput_good_tokens_total", &labels), Some(0.0));
        assert_eq!(
            value(&scrape, "goodput_ratio", &[("window", "1m")]),
            None,
            "excluded: nothing was judged"
        );
    });
}

#[test]
fn events_of_one_read_share_its_time() {
    both(|way| async move {
        let two = [content("a"), content("b")].concat();
        let steps = [
            wait(10),
            chunk(&two),
            wait(30),
            chunk(&two),
            chunk([finish(), DONE.to_owned()].concat()),
        ];
        let rig = stream(way, steps).await;
        assert_eq!(times(&rig.record()), (Some(10.0), Some(10.0), Some(10.0), Some(30.0), 40.0));
        assert_eq!(samples(&rig.series("chat", "m"), Measure::Itl), (30.0, 3));
    });
}

#[test]
fn gaps_with_counts_that_are_lost_on_the_way_fall_back_to_one_token_an_event() {
    // P079 P082
    both(|way| async move {
        let steps = [
            event(&running(1)),
            wait(40),
            delta(r#"{"content":"x"}"#),
            wait(40),
            event(&running(9)),
            chunk(finish()),
            chunk(usage(7, 9)),
            chunk(DONE),
        ];
        let rig = stream(way, steps).await;
        assert_eq!(samples(&rig.series("chat", "m"), Measure::Itl), (80.0, 2));
        assert_eq!(rig.record().tpot_ms, Some(10.0));
    });
}

#[test]
fn a_slow_reader_is_flagged_since_its_gaps_include_the_clients_time() {
    both(|way| async move {
        let text = "x".repeat(2000);
        let steps = (0..40).map(|_| chunk(content(&text))).chain([chunk(finish()), chunk(DONE)]);
        let rig = Rig::piped(way, "", 4096, vec![sse(steps)]);
        let mut client = rig.client();
        client.send(chat()).await;
        client.head().await.expect("a head");
        super::pass(5000).await;
        client.rest_of_stream().await;
        let record = rig.record();
        assert_eq!(
            (record.client_limited, record.outcome, record.output_tokens),
            (true, "ok", Some(40))
        );
    });
}
