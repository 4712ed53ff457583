//! Joint goodput: exact counts of every kind of verdict, with the sums that must always hold.

use goodput_proxy::measure::Bound;

use super::super::rig::{Client, DONE, Rig, both, chat, chunk, reply, sse_head};
use super::{chat_series, counts, pass, scraped, slo, sse, tokens, value, wait, with};

const SLO: &str = "{name: joint, ttft: 200ms, tpot: 20ms, e2e: 1s}";

/// A chat request with both framings: the proxy refuses it by itself.
const AMBIGUOUS: &str = "POST /v1/chat/completions HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n";

/// The client leaves after `ms`.
async fn leave_after(mut client: Client, ms: u64) {
    client.send(chat()).await;
    pass(ms).await;
    drop(client);
    pass(1).await;
}

#[test]
fn every_verdict_is_counted_once_and_the_sums_hold() {
    both(|way| async move {
        let error = |status: &str| reply(status, "application/json", r#"{"error":{"message":"no"}}"#);
        let good = || tokens(&[100, 110, 120], 3);
        let scripts = vec![
            good(),
            good(),
            good(),
            tokens(&[201, 211], 2),
            tokens(&[300, 310], 2),
            tokens(&[100, 121], 2),
            tokens(&[100, 1001], 2),
            tokens(&[500, 1500], 2),
            error("500 Oh"),
            error("429 Slow"),
            error("404 None"),
            error("422 Bad"),
            sse([chunk(DONE)]),
            vec![wait(60_000)],
            vec![wait(60_000)],
            vec![sse_head(), wait(60_000)],
        ];
        let rig = Rig::configured(way, &with(&[SLO]), scripts);
        for _ in 0..13 {
            rig.client().call(chat()).await;
        }
        leave_after(rig.client(), 200).await;
        leave_after(rig.client(), 201).await;
        leave_after(rig.client(), 1001).await;
        assert_eq!(rig.client().call(AMBIGUOUS).await.status(), 400);

        let joint = slo(&rig, "joint");
        assert_eq!((joint.evaluated, joint.good, joint.bad), (13, 3, 10));
        assert_eq!(
            counts(&joint.violations, Bound::name),
            [("ttft", 5), ("tpot", 3), ("e2e", 3)],
            "two of them by clients that did not wait"
        );
        assert_eq!(counts(&joint.sole_violations, Bound::name), [("ttft", 2), ("tpot", 1)]);
        assert_eq!(
            counts(&joint.excluded, |why| why),
            [("client_error", 2), ("cancelled", 1), ("rejected", 1)]
        );
        let excluded: u64 = joint.excluded.iter().map(|(_, n)| n).sum();
        let accepted: u64 = chat_series(&rig).iter().flat_map(|s| &s.requests).map(|(_, n)| n).sum();
        assert_eq!(
            (joint.good + joint.bad, joint.evaluated + excluded),
            (joint.evaluated, accepted)
        );
        assert_eq!((accepted, rig.records().len()), (17, 17));
    });
}

#[test]
fn a_scrape_says_what_the_verdicts_were() {
    both(|way| async move {
        let scripts = vec![
            tokens(&[100, 110, 120], 30),
            tokens(&[300, 310], 2),
            tokens(&[300, 600, 1100], 3),
        ];
        let rig = Rig::configured(way, &with(&[SLO]), scripts);
        let mut client = rig.client();
        for _ in 0..3 {
            client.call(chat()).await;
        }
        let scrape = scraped(&rig).await;
        let of = |name: &str, more: &[(&str, &str)]| {
            let labels: Vec<_> = [("route", "chat"), ("model", "m"), ("slo", "joint")]
                .into_iter()
                .chain(more.iter().copied())
                .collect();
            value(&scrape, name, &labels)
        };
        assert_eq!(
            [
                "goodput_slo_evaluated_total",
                "goodput_slo_good_total",
                "goodput_slo_bad_total"
            ]
            .map(|name| of(name, &[])),
            [Some(3.0), Some(1.0), Some(2.0)]
        );
        let bounds = |name: &str| ["ttft", "tpot", "e2e"].map(|bound| of(name, &[("bound", bound)]));
        assert_eq!(bounds("goodput_slo_violations_total"), [Some(2.0), Some(1.0), Some(1.0)]);
        assert_eq!(bounds("goodput_slo_sole_violations_total"), [Some(1.0), Some(0.0), Some(0.0)]);
        assert_eq!(of("goodput_slo_excluded_total", &[("reason", "cancelled")]), Some(0.0));
        let tokens = value(&scrape, "goodput_good_tokens_total", &[("route", "chat"), ("model", "m")]);
        assert_eq!(tokens, Some(30.0), "of the good request only");
        assert_eq!(
            value(&scrape, "goodput_slo_target_seconds", &[("slo", "joint"), ("bound", "tpot")]),
            Some(0.02)
        );
        // The share within a bound is exact: the bound is an edge.
        let within = value(
            &scrape,
            "goodput_ttft_seconds_bucket",
            &[("route", "chat"), ("model", "m"), ("le", "0.2")],
        );
        assert_eq!(within, Some(1.0));
    });
}

#[test]
fn each_policy_decides_what_an_ending_counts_as() {
    both(|way| async move {
        let not_found = || reply("404 None", "application/json", "{}");
        for (policy, verdict) in [("exclude", "excluded"), ("bad", "bad")] {
            let config = with(&[&format!("{{name: s, e2e: 1s, client_error: {policy}}}")]);
            assert_eq!(
                super::one(way, &config, &chat(), not_found()).await.verdict,
                Some(verdict),
                "{policy}"
            );
        }
        for (policy, early, late) in [
            ("judge", "excluded", "bad"),
            ("exclude", "excluded", "excluded"),
            ("bad", "bad", "bad"),
        ] {
            let config = with(&[&format!("{{name: s, ttft: 100ms, cancelled: {policy}}}")]);
            for (ms, verdict) in [(100, early), (101, late)] {
                let rig = Rig::configured(way, &config, vec![vec![wait(60_000)]]);
                leave_after(rig.client(), ms).await;
                assert_eq!(rig.record().verdict, Some(verdict), "{policy} after {ms} ms");
            }
        }
    });
}

#[test]
fn the_defaults_of_all_slos_can_be_changed_in_one_place() {
    both(|way| async move {
        let config = format!(
            "{}\nslo_defaults: {{client_error: bad, undefined: fail}}",
            with(&["{name: s, tpot: 1s}"])
        );
        let not_found = reply("404 None", "application/json", "{}");
        assert_eq!(super::one(way, &config, &chat(), not_found).await.verdict, Some("bad"));
        assert_eq!(super::one(way, &config, &chat(), tokens(&[5], 1)).await.broken, ["tpot"]);
    });
}
