//! Whatever clients write, the number of series stays bounded.

use std::collections::BTreeSet;

use super::super::rig::{DONE, Rig, both, chunk, content, finish, post, reply};
use super::{scraped, sse, value};

/// Requests of a kind; enough that a leak shows.
const MANY: usize = 500;

fn lines(families: &[super::Parsed]) -> usize {
    families.iter().map(|family| family.samples.len()).sum()
}

fn labels(families: &[super::Parsed], name: &str) -> BTreeSet<String> {
    let samples = families.iter().flat_map(|family| &family.samples);
    samples.filter_map(|line| line.labels.get(name).cloned()).collect()
}

#[test]
fn random_paths_make_no_series() {
    // P110
    both(|way| async move {
        let rig = Rig::new(way, vec![reply("404 Not Found", "application/json", "{}")]);
        let mut client = rig.client();
        let scan = |i: usize| format!("GET /{i:x}/wp-login-{i}.php?x={i} HTTP/1.1\r\nHost: a\r\n\r\n");
        // The first request fills the windows.
        client.call(scan(0)).await;
        let before = scraped(&rig).await;
        for i in 1..MANY {
            client.call(scan(i)).await;
            client
                .call(format!("GET /v1/responses/resp_{i} HTTP/1.1\r\nHost: a\r\n\r\n"))
                .await;
        }
        let after = scraped(&rig).await;
        assert_eq!(lines(&after), lines(&before));
        let routes = [
            "chat",
            "completions",
            "embeddings",
            "generate",
            "messages",
            "other",
            "responses",
        ];
        assert_eq!(labels(&after, "route"), routes.map(str::to_owned).into());
        let other = [("route", "other"), ("outcome", "client_error"), ("streaming", "false")];
        assert_eq!(value(&after, "goodput_requests_total", &other), Some((2 * MANY - 1) as f64));
    });
}

#[test]
fn models_that_no_upstream_confirmed_get_no_label() {
    // P111
    both(|way| async move {
        let rig = Rig::new(way, vec![reply("404 Not Found", "application/json", "{}")]);
        let mut client = rig.client();
        let call = |i: usize| post("/v1/chat/completions", &format!(r#"{{"model":"model-{i}","stream":true}}"#));
        client.call(call(0)).await;
        let before = scraped(&rig).await;
        for i in 1..MANY {
            client.call(call(i)).await;
        }
        let after = scraped(&rig).await;
        assert_eq!(lines(&after), lines(&before));
        assert_eq!(labels(&after, "model"), ["other", "unknown"].map(str::to_owned).into());
        let other = [
            ("route", "chat"),
            ("model", "other"),
            ("outcome", "client_error"),
            ("streaming", "true"),
        ];
        assert_eq!(value(&after, "goodput_requests_total", &other), Some(MANY as f64));
    });
}

#[test]
fn confirmed_models_get_labels_up_to_the_cap_and_allowed_ones_always() {
    // P111
    both(|way| async move {
        let config = "labels: {models: {allow: [gpt], cap: 3}}";
        let rig = Rig::configured(way, config, vec![sse([chunk(content("x")), chunk(finish()), chunk(DONE)])]);
        let mut client = rig.client();
        for model in ["a", "b", "c", "d", "e", "a", "gpt"] {
            let body = format!(r#"{{"model":"{model}","stream":true}}"#);
            client.call(post("/v1/chat/completions", &body)).await;
        }
        let scrape = scraped(&rig).await;
        let count = |model| {
            let labels = [("route", "chat"), ("model", model), ("outcome", "ok"), ("streaming", "true")];
            value(&scrape, "goodput_requests_total", &labels)
        };
        let counts = ["a", "b", "c", "d", "e", "gpt", "other"].map(count);
        assert_eq!(counts, [Some(2.0), Some(1.0), Some(1.0), None, None, Some(1.0), Some(2.0)]);
        assert_eq!(
            value(&scrape, "goodput_proxy_label_overflow_total", &[("label", "model")]),
            Some(2.0)
        );
    });
}

#[test]
fn tenants_are_capped_and_a_request_without_one_is_unknown() {
    // P111
    both(|way| async move {
        let config = "labels: {tenant: {header: x-tenant, allow: [gold], cap: 1}}";
        let rig = Rig::configured(way, config, vec![sse([chunk(content("x")), chunk(finish()), chunk(DONE)])]);
        let mut client = rig.client();
        for tenant in ["x-tenant: gold\r\n", "x-tenant: a\r\n", "x-tenant: b\r\n", ""] {
            let request = super::super::rig::chat().replacen("\r\n", &format!("\r\n{tenant}"), 1);
            client.call(request).await;
        }
        let scrape = scraped(&rig).await;
        let count = |tenant| {
            let labels = [
                ("route", "chat"),
                ("model", "m"),
                ("tenant", tenant),
                ("outcome", "ok"),
                ("streaming", "true"),
            ];
            value(&scrape, "goodput_requests_total", &labels)
        };
        assert_eq!(
            ["gold", "a", "b", "other", "unknown"].map(count),
            [Some(1.0), Some(1.0), None, Some(1.0), Some(1.0)]
        );
    });
}
