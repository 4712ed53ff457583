//! Which SLO judges a request: the first of its route that matches, known at its end.

use super::super::rig::{Rig, both, chat, post, reply};
use super::{one, tokens, verdict, with, with_header};

/// The SLO that judged one request.
macro_rules! slo_of {
    ($way:expr, $config:expr, $request:expr, $script:expr) => {
        one($way, $config, $request, $script).await.slo.as_deref().map(str::to_owned)
    };
}

fn named(name: &str) -> Option<String> {
    Some(name.to_owned())
}

#[test]
fn an_slo_is_chosen_by_the_model_as_the_client_names_it() {
    both(|way| async move {
        let config = with(&[
            "{name: llama, when: {model: \"meta/llama-*\"}, ttft: 1s}",
            "{name: rest, ttft: 1s}",
        ]);
        let request = |model| post("/v1/chat/completions", &format!(r#"{{"model":"{model}","stream":true}}"#));
        assert_eq!(
            slo_of!(way, &config, &request("meta/llama-3-8b"), tokens(&[1], 1)),
            named("llama")
        );
        assert_eq!(slo_of!(way, &config, &request("meta/llama"), tokens(&[1], 1)), named("rest"));
    });
}

#[test]
fn an_slo_is_chosen_by_a_header() {
    both(|way| async move {
        let config = with(&[
            "{name: gold, when: {header: \"x-tier: gold\"}, ttft: 1s}",
            "{name: rest, ttft: 1s}",
        ]);
        assert_eq!(
            slo_of!(way, &config, &with_header(&chat(), "X-Tier: gold"), tokens(&[1], 1)),
            named("gold")
        );
        assert_eq!(
            slo_of!(way, &config, &with_header(&chat(), "X-Tier: silver"), tokens(&[1], 1)),
            named("rest")
        );
        assert_eq!(slo_of!(way, &config, &chat(), tokens(&[1], 1)), named("rest"));
    });
}

#[test]
fn an_slo_is_chosen_by_the_tenant() {
    both(|way| async move {
        let config = format!(
            "{}\nlabels: {{tenant: {{header: x-tenant, allow: [acme]}}}}",
            with(&["{name: acme, when: {tenant: acme}, ttft: 1s}", "{name: rest, ttft: 1s}"])
        );
        assert_eq!(
            slo_of!(way, &config, &with_header(&chat(), "x-tenant: acme"), tokens(&[1], 1)),
            named("acme")
        );
        assert_eq!(
            slo_of!(way, &config, &with_header(&chat(), "x-tenant: b"), tokens(&[1], 1)),
            named("rest")
        );
    });
}

#[test]
fn an_slo_is_chosen_by_whether_the_reply_streams() {
    both(|way| async move {
        let config = with(&[
            "{name: live, when: {streaming: true}, ttft: 1s}",
            "{name: batch, when: {streaming: false}, e2e: 1s}",
        ]);
        let body = r#"{"choices":[{"index":0,"message":{"content":"hi"}}]}"#;
        assert_eq!(slo_of!(way, &config, &chat(), tokens(&[1], 1)), named("live"));
        assert_eq!(
            slo_of!(way, &config, &chat(), reply("200 OK", "application/json", body)),
            named("batch"),
            "the reply counts"
        );
        assert_eq!(
            slo_of!(way, &config, &chat(), reply("500 Oh", "application/json", "{}")),
            named("live"),
            "a failed stream"
        );
    });
}

#[test]
fn an_slo_is_chosen_by_the_tokens_of_the_reply() {
    both(|way| async move {
        let config = with(&[
            "{name: short, when: {output_tokens: \"<300\", prompt_tokens: \"1..10\"}, e2e: 1s}",
            "{name: long, when: {output_tokens: \">=300\"}, ttft: 1s}",
        ]);
        assert_eq!(slo_of!(way, &config, &chat(), tokens(&[1, 2], 299)), named("short"));
        assert_eq!(slo_of!(way, &config, &chat(), tokens(&[1, 2], 300)), named("long"));
        let no_usage = super::sse([super::chunk(super::content("x")), super::chunk(super::DONE)]);
        let record = one(way, &config, &chat(), no_usage).await;
        assert_eq!(
            verdict(&record),
            (None, None, &[][..]),
            "of unknown prompt tokens: no SLO is meant for it"
        );
    });
}

#[test]
fn a_request_that_no_slo_is_meant_for_is_not_judged_at_all() {
    both(|way| async move {
        let config = with(&["{name: gold, when: {header: \"x-tier: gold\"}, ttft: 1s}"]);
        let rig = Rig::configured(way, &config, vec![tokens(&[1], 1)]);
        assert!(rig.client().call(chat()).await.complete);
        assert_eq!(verdict(&rig.record()), (None, None, &[][..]));
        let gold = super::slo(&rig, "gold");
        assert_eq!((gold.evaluated, gold.excluded.iter().map(|(_, n)| n).sum::<u64>()), (0, 0));
    });
}

#[test]
fn each_route_has_slos_of_its_own() {
    both(|way| async move {
        let config = "routes: [{name: chat, slos: [{name: s, ttft: 50ms}]}, {name: completions, slos: [{name: s, ttft: 200ms}]}]";
        let text = || {
            super::sse([
                super::wait(100),
                super::chunk("data: {\"choices\":[{\"index\":0,\"text\":\"x\",\"finish_reason\":\"stop\"}]}\n\n"),
                super::chunk(super::DONE),
            ])
        };
        let completion = post("/v1/completions", r#"{"model":"m","stream":true,"prompt":"x"}"#);
        assert_eq!(one(way, config, &completion, text()).await.verdict, Some("good"));
        assert_eq!(one(way, config, &chat(), tokens(&[100], 1)).await.verdict, Some("bad"));
    });
}

#[test]
fn bounds_that_a_request_brings_are_heeded_where_allowed_and_clamped() {
    both(|way| async move {
        let open = with(&["{name: s, ttft: 200ms, tpot: 50ms, header_bounds: {min: 50ms, max: 500ms}}"]);
        let closed = with(&["{name: s, ttft: 200ms, tpot: 50ms}"]);
        // TTFT 100 ms, TPOT 20 ms.
        for (config, line, broken) in [
            (&open, "x-other: 1", &[][..]),
            (&open, "x-slo-ttft-ms: 99", &["ttft"][..]),
            (&open, "x-slo-ttft-ms: 99.999999", &["ttft"][..]),
            (&open, "x-slo-ttft-ms: 100", &[][..]),
            (&open, "x-llm-d-slo-ttft-ms: 60", &["ttft"][..]),
            (&open, "x-slo-tpot-ms: 10", &[][..]),
            (&open, "x-slo-ttft-ms: -5", &[][..]),
            (&open, "x-slo-ttft-ms: soon", &[][..]),
            (&closed, "x-slo-ttft-ms: 1", &[][..]),
        ] {
            let record = one(way, config, &with_header(&chat(), line), tokens(&[100, 120], 2)).await;
            assert_eq!(record.broken, broken, "{line}");
        }
        // The range's other end: 600 ms asked for, 500 allowed.
        let record = one(
            way,
            &open,
            &with_header(&chat(), "x-slo-ttft-ms: 600"),
            tokens(&[501, 520], 2),
        )
        .await;
        assert_eq!(record.broken, ["ttft"]);
        let record = one(
            way,
            &open,
            &with_header(&chat(), "x-slo-ttft-ms: 600"),
            tokens(&[500, 520], 2),
        )
        .await;
        assert_eq!(record.verdict, Some("good"));
    });
}
