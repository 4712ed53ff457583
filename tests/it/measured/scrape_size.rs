//! A scrape holds what routes and models can have, and no more.

use std::collections::BTreeSet;

use super::super::rig::{DONE, Rig, both, chat, chunk, content, finish};
use super::{Parsed, scraped, sse};

fn lines(families: &[Parsed], labels: &[(&str, &str)]) -> usize {
    let samples = families.iter().flat_map(|family| &family.samples);
    samples
        .filter(|line| labels.iter().all(|(key, value)| line.label(key) == *value))
        .count()
}

#[test]
fn before_any_request_fallback_models_have_counters_and_no_histogram() {
    // P109
    both(|way| async move {
        let rig = Rig::configured(
            way,
            "slo: ttft=1s",
            vec![sse([chunk(content("x")), chunk(finish()), chunk(DONE)])],
        );
        let start = scraped(&rig).await;
        for model in ["other", "unknown"] {
            let families = start.iter().filter(|f| {
                f.samples
                    .iter()
                    .any(|l| l.label("route") == "chat" && l.label("model") == model)
            });
            assert!(families.clone().any(|f| f.name == "goodput_requests_total"));
            assert!(families.clone().any(|f| f.name == "goodput_slo_bad_total"));
            assert!(families.clone().any(|f| f.name == "goodput_output_tokens_total"));
            assert!(families.clone().any(|f| f.name == "goodput_prompt_tokens_total"));
            assert!(families.clone().any(|f| f.name == "goodput_good_tokens_total"));
            assert!(families.clone().all(|f| f.kind != "histogram"), "{model}");
        }
        let all = lines(&start, &[]);
        assert!(all < 1200, "{all} lines at start");

        assert!(rig.client().call(chat()).await.complete);
        let after = scraped(&rig).await;
        let own = lines(&after, &[("route", "chat"), ("model", "m")]);
        assert!(own > 400, "{own} lines of the one model");
        assert_eq!(
            lines(&after, &[]) - own,
            all + added(&start, &after),
            "nothing else has grown"
        );
    });
}

/// Lines without a route that came between two scrapes: the proxy's own overhead, known once there was traffic.
fn added(before: &[Parsed], after: &[Parsed]) -> usize {
    lines(after, &[("route", "")]) - lines(before, &[("route", "")])
}

#[test]
fn routes_whose_replies_are_not_read_have_no_family_of_tokens() {
    both(|way| async move {
        let rig = Rig::new(way, vec![super::super::rig::reply("200 OK", "application/json", "{}")]);
        let mut client = rig.client();
        client
            .call(super::post("/v1/embeddings", r#"{"model":"m","input":"x"}"#))
            .await;
        client.call("GET /v1/models HTTP/1.1\r\nHost: a\r\n\r\n").await;
        let scrape = scraped(&rig).await;
        for route in ["embeddings", "other"] {
            let of_route = scrape.iter().filter(|f| f.samples.iter().any(|l| l.label("route") == route));
            let names: BTreeSet<_> = of_route.map(|f| f.name.as_str()).collect();
            for name in [
                "goodput_ttfb_seconds",
                "goodput_e2e_seconds",
                "goodput_upload_seconds",
                "goodput_requests_total",
                "goodput_in_flight",
            ] {
                assert!(names.contains(name), "{route} {name}");
            }
            for name in names {
                let of_tokens = ["token", "ttft", "tpot", "itl", "inter_chunk", "stall_", "by_output"];
                assert!(!of_tokens.iter().any(|part| name.contains(part)), "{route} {name}");
            }
        }
    });
}
