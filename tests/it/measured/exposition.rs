//! The scrape of a proxy that really served: known children, awkward names, formats.

use std::io::Read;

use goodput_proxy::measure::Outcome;

use super::super::exposition::parser::{lint, parse};
use super::super::rig::{DONE, Rig, both, chat, chunk, content, finish, post, reply, wait};
use super::{scraped, sse, value};

fn ok() -> Vec<super::Step> {
    sse([chunk(content("x")), chunk(finish()), chunk(DONE)])
}

#[test]
fn every_outcome_exists_at_0_before_the_first_request() {
    // P109
    both(|way| async move {
        let rig = Rig::configured(
            way,
            "{slo: \"ttft=1s\", labels: {models: {allow: [m]}}}",
            vec![reply("500 Oh", "text/plain", "no")],
        );
        let count = |families: &[super::Parsed], streaming, outcome| {
            let labels = [
                ("route", "chat"),
                ("model", "m"),
                ("api", "chat"),
                ("streaming", streaming),
                ("outcome", outcome),
            ];
            value(families, "goodput_requests_total", &labels)
        };
        let before = scraped(&rig).await;
        for outcome in Outcome::ALL {
            for streaming in ["true", "false"] {
                assert_eq!(count(&before, streaming, outcome.name()), Some(0.0), "{outcome:?}");
            }
        }
        let slo = [("route", "chat"), ("model", "m"), ("slo", "default")];
        for name in [
            "goodput_slo_evaluated_total",
            "goodput_slo_good_total",
            "goodput_slo_bad_total",
            "goodput_slo_violations_total",
            "goodput_slo_sole_violations_total",
        ] {
            assert_eq!(value(&before, name, &slo), Some(0.0), "{name}");
        }
        for reason in ["client_error", "cancelled", "rejected", "undefined"] {
            let labels = [("route", "chat"), ("model", "m"), ("slo", "default"), ("reason", reason)];
            assert_eq!(value(&before, "goodput_slo_excluded_total", &labels), Some(0.0), "{reason}");
        }
        super::pass(3_600_000).await;
        rig.client().call(chat()).await;
        let after = scraped(&rig).await;
        assert_eq!(count(&after, "true", "upstream_error"), Some(1.0));
        let names = |families: &[super::Parsed]| {
            let lines = families.iter().filter(|f| f.kind == "counter").flat_map(|f| &f.samples);
            lines.map(|line| (line.name.clone(), line.labels.clone())).collect::<Vec<_>>()
        };
        assert_eq!(names(&before), names(&after), "no counter was born by the request");
    });
}

#[test]
fn a_model_name_with_quote_backslash_newline_and_umlaut_survives() {
    // P112
    both(|way| async move {
        let rig = Rig::new(way, vec![ok()]);
        let request = post("/v1/chat/completions", r#"{"model":"a\"b\\c\n\u00e9ü","stream":true}"#);
        assert!(rig.client().call(request).await.complete);
        let model = "a\"b\\c\néü";
        assert_eq!(&*rig.record().model, model);
        let labels = [("route", "chat"), ("model", model), ("outcome", "ok"), ("streaming", "true")];
        assert_eq!(value(&scraped(&rig).await, "goodput_requests_total", &labels), Some(1.0));
        let open = rig
            .admin("/metrics", "Accept: application/openmetrics-text; version=1.0.0\r\n")
            .await
            .text();
        let families = parse(&open);
        lint(&families);
        assert_eq!(value(&families, "goodput_requests_total", &labels), Some(1.0));
    });
}

const TEXT: &str = "text/plain; version=0.0.4; charset=utf-8";
const OPEN: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
const TRACED: &str = "traceparent: 00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01\r\n";

#[test]
fn the_format_follows_accept() {
    // P113
    both(|way| async move {
        let rig = Rig::configured(way, "slo: ttft=10ms", vec![sse([wait(50), chunk(content("x")), chunk(DONE)])]);
        let traced = chat().replacen("\r\n", &format!("\r\n{TRACED}"), 1);
        assert!(rig.client().call(traced).await.complete);
        for (accept, content_type) in [
            ("", TEXT),
            ("Accept: text/plain;version=0.0.4\r\n", TEXT),
            ("Accept: */*\r\n", TEXT),
            ("Accept: application/openmetrics-text;version=1.0.0\r\n", OPEN),
            ("Accept: image/png\r\n", TEXT),
        ] {
            let reply = rig.admin("/metrics", accept).await;
            assert_eq!(
                (reply.status(), reply.header("content-type")),
                (200, Some(content_type)),
                "{accept}"
            );
            let text = reply.text();
            let open = content_type == OPEN;
            assert_eq!(text.ends_with("# EOF\n"), open, "{accept}");
            assert_eq!(
                text.contains("4bf92f3577b34da6a3ce929d0e0e4736"),
                open,
                "an exemplar, {accept}"
            );
            lint(&parse(&text));
        }
    });
}

#[test]
fn prometheus_3_gets_a_content_type_it_knows_and_gzip_only_when_asked() {
    // P114
    both(|way| async move {
        let rig = Rig::new(way, vec![ok()]);
        assert!(rig.client().call(chat()).await.complete);
        let accept = "Accept: application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.5,\
                      application/openmetrics-text;version=0.0.1;q=0.4,text/plain;version=1.0.0;escaping=allow-utf-8;q=0.3,\
                      text/plain;version=0.0.4;q=0.2,*/*;q=0.1\r\n";
        let plain = rig.admin("/metrics", accept).await;
        assert_eq!(
            (plain.header("content-type"), plain.header("content-encoding")),
            (Some(OPEN), None)
        );
        let zipped = rig.admin("/metrics", &format!("{accept}Accept-Encoding: gzip\r\n")).await;
        assert_eq!(
            (zipped.header("content-type"), zipped.header("content-encoding")),
            (Some(OPEN), Some("gzip"))
        );
        let mut text = String::new();
        flate2::read::GzDecoder::new(&zipped.body[..])
            .read_to_string(&mut text)
            .unwrap();
        let families = parse(&text);
        lint(&families);
        let labels = [("route", "chat"), ("model", "m"), ("outcome", "ok"), ("streaming", "true")];
        assert_eq!(value(&families, "goodput_requests_total", &labels), Some(1.0));
        assert!(text.ends_with("# EOF\n"));
    });
}
