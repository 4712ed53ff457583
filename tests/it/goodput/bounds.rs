//! Each bound, on the nanosecond: met at its very value, broken one above it.

use super::super::rig::{Rig, both, chat, post, reply};
use super::{one, tokens, verdict, with};

#[test]
fn every_bound_is_met_at_its_value_and_broken_one_nanosecond_above_it() {
    both(|way| async move {
        // TTFT 200 ms, gaps 30 and 70 ms, TPOT 50 ms, E2E 300 ms.
        for (bound, met, broken) in [
            ("ttft", "200ms", "199.999999ms"),
            ("tpot", "50ms", "49.999999ms"),
            ("itl_p99", "70ms", "69.999999ms"),
            ("stall", "70ms", "69.999999ms"),
            ("e2e", "300ms", "299.999999ms"),
        ] {
            let judged = |limit: &str| {
                let config = with(&[&format!("{{name: s, {bound}: {limit}}}")]);
                async move { one(way, &config, &chat(), tokens(&[200, 230, 300], 3)).await }
            };
            assert_eq!(verdict(&judged(met).await), (Some("s"), Some("good"), &[][..]), "{bound}");
            assert_eq!(
                verdict(&judged(broken).await),
                (Some("s"), Some("bad"), &[bound][..]),
                "{bound}"
            );
        }
    });
}

#[test]
fn tpot_is_compared_without_rounding() {
    both(|way| async move {
        // 100 ms over 3 tokens: 33.333333.. ms each.
        for (limit, good) in [("33.333333ms", false), ("33.333334ms", true)] {
            let config = with(&[&format!("{{name: s, tpot: {limit}}}")]);
            let record = one(way, &config, &chat(), tokens(&[10, 110], 4)).await;
            assert_eq!(record.verdict, Some(if good { "good" } else { "bad" }), "{limit}");
        }
    });
}

#[test]
fn each_request_is_judged_by_its_own_tpot() {
    // P083
    both(|way| async move {
        let scripts = [50, 50, 200].map(|tpot| tokens(&[10, 10 + tpot], 2));
        let rig = Rig::configured(way, &with(&["{name: s, tpot: 100ms}"]), scripts.into());
        let mut client = rig.client();
        for _ in 0..3 {
            assert!(client.call(chat()).await.complete);
        }
        let slo = super::slo(&rig, "s");
        assert_eq!((slo.evaluated, slo.good, slo.bad), (3, 2, 1));
    });
}

#[test]
fn the_p99_of_a_requests_gaps_lets_one_in_a_hundred_be_longer() {
    both(|way| async move {
        let script = |long: u64| {
            let gaps = (0..100).map(|i| if i < long { 50 } else { 10 });
            let times: Vec<u64> = std::iter::once(0)
                .chain(gaps)
                .scan(5, |at, gap| {
                    *at += gap;
                    Some(*at)
                })
                .collect();
            tokens(&times, 101)
        };
        let config = with(&["{name: s, itl_p99: 10ms}"]);
        assert_eq!(one(way, &config, &chat(), script(1)).await.verdict, Some("good"));
        assert_eq!(one(way, &config, &chat(), script(2)).await.broken, ["itl_p99"]);
    });
}

#[test]
fn a_bound_without_a_sample_passes_fails_or_excludes() {
    both(|way| async move {
        for (undefined, verdict, excluded, broken) in [
            ("pass", "good", None, &[][..]),
            ("fail", "bad", None, &["tpot"][..]),
            ("exclude", "excluded", Some("undefined"), &[][..]),
        ] {
            let config = with(&[&format!("{{name: s, ttft: 1s, tpot: 10ms, undefined: {undefined}}}")]);
            let record = one(way, &config, &chat(), tokens(&[100], 1)).await;
            assert_eq!((record.verdict, record.excluded), (Some(verdict), excluded), "{undefined}");
            assert_eq!(record.broken, broken, "{undefined}");
        }
    });
}

#[test]
fn a_broken_bound_makes_a_request_bad_whatever_is_undefined_beside_it() {
    both(|way| async move {
        let config = with(&["{name: s, ttft: 50ms, tpot: 10ms, undefined: exclude}"]);
        let record = one(way, &config, &chat(), tokens(&[100], 1)).await;
        assert_eq!((record.verdict, &record.broken[..]), (Some("bad"), &["ttft"][..]));
    });
}

#[test]
fn a_unary_reply_has_no_sample_for_the_bounds_of_streams() {
    both(|way| async move {
        let body = r#"{"choices":[{"index":0,"message":{"content":"hi"},"finish_reason":"stop"}],"usage":{"prompt_tokens":3,"completion_tokens":9}}"#;
        let request = post("/v1/chat/completions", r#"{"model":"m"}"#);
        for (undefined, verdict) in [("pass", "good"), ("fail", "bad"), ("exclude", "excluded")] {
            let config = with(&[&format!("{{name: s, ttft: 1ms, e2e: 1s, undefined: {undefined}}}")]);
            let record = one(way, &config, &request, reply("200 OK", "application/json", body)).await;
            assert_eq!((record.verdict, record.streaming), (Some(verdict), false), "{undefined}");
        }
    });
}

#[test]
fn embeddings_are_judged_by_e2e() {
    both(|way| async move {
        let config = "routes: [{name: embeddings, slos: [{name: s, e2e: 100ms}]}]";
        for (ms, verdict) in [(100, "good"), (101, "bad")] {
            let mut script = vec![super::wait(ms)];
            script.extend(reply("200 OK", "application/json", r#"{"data":[]}"#));
            let request = post("/v1/embeddings", r#"{"model":"m","input":"x"}"#);
            let record = one(way, config, &request, script).await;
            assert_eq!(
                (record.verdict, &*record.route, record.outcome),
                (Some(verdict), "embeddings", "ok")
            );
        }
    });
}
