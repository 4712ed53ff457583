mod gauges;
mod log;

use std::sync::Arc;

use http::{HeaderMap, Method, StatusCode};

use super::*;
use crate::aggregate::{Measure, SeriesSnapshot};
use crate::lifecycle::{Lifecycle, Phase};
use crate::measure::{Bounds, Degraded, Ending, HeaderBounds, Match, Outcome, Policy, Slo, Undefined};

const MS: u64 = 1_000_000;
const CHAT: &str = "/v1/chat/completions";

fn ms(t: u64) -> Stamp {
    Stamp::from_nanos(t * MS)
}

fn slo(bounds: Bounds) -> Slo {
    Slo {
        name: "fast".into(),
        when: Match::default(),
        bounds,
        objective: 0.99,
        undefined: Undefined::Pass,
        client_error: Policy::Exclude,
        cancelled: Policy::Judge,
        header_bounds: None,
    }
}

fn ttft(ms: u64) -> Bounds {
    Bounds {
        ttft_ns: Some(ms * MS),
        ..Bounds::default()
    }
}

/// A proxy without sockets: an observer whose `chat` route has these SLOs.
struct Proxy {
    lifecycle: Lifecycle,
    observer: Arc<Observer>,
}

impl Proxy {
    fn new(slos: Vec<Slo>) -> Self {
        Self::with(|config| config.routes[0].slos = slos)
    }

    fn with(change: impl FnOnce(&mut Config)) -> Self {
        let mut config = Config::default();
        change(&mut config);
        let lifecycle = Lifecycle::new();
        let observer = Observer::new(&config, lifecycle.watch());
        Self { lifecycle, observer }
    }

    /// A `POST` of `body` to `path`, sent whole at 1 ms.
    fn post(&self, path: &str, head: &[(&'static str, &str)], body: &str) -> Exchange {
        let exchange = self.observer.begin(ms(0), &Method::POST, path, &headers(head));
        let tap = exchange.request_tap();
        tap.attempt();
        tap.chunk(body.as_bytes());
        tap.sent(ms(1));
        exchange
    }

    fn chat(&self) -> Exchange {
        self.post(CHAT, &[], r#"{"model":"m","stream":true,"messages":[]}"#)
    }

    fn series(&self, route: &str, model: &str) -> SeriesSnapshot {
        let snapshot = self.observer.snapshot(ms(0));
        let found = snapshot.series.into_iter().find(|s| &*s.route == route && &*s.model == model);
        found.unwrap_or_else(|| panic!("no series {route} {model}"))
    }

    fn last(&self) -> Arc<Summary> {
        self.observer.recent(1).remove(0)
    }
}

fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
    let mut map = HeaderMap::new();
    for (name, value) in pairs {
        map.append(*name, value.parse().unwrap());
    }
    map
}

fn head(exchange: &mut Exchange, at: u64, status: StatusCode, content_type: &'static str) {
    exchange.head(ms(at), status, &headers(&[("content-type", content_type)]));
}

fn sse(exchange: &mut Exchange, at: u64) {
    head(exchange, at, StatusCode::OK, "text/event-stream");
}

fn token(exchange: &mut Exchange, at: u64) {
    exchange.chunk(
        ms(at),
        b"data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"x\"}}]}\n\n",
    );
}

fn done(exchange: &mut Exchange, at: u64) {
    exchange.chunk(ms(at), b"data: [DONE]\n\n");
}

fn outcomes(series: &SeriesSnapshot) -> Vec<(Outcome, u64)> {
    let counted = series.requests.iter().filter(|(_, n)| *n > 0);
    counted.map(|(labels, n)| (labels.outcome, *n)).collect()
}

#[test]
fn a_stream_becomes_one_judged_record() {
    let proxy = Proxy::new(vec![slo(ttft(200))]);
    let mut x = proxy.chat();
    sse(&mut x, 5);
    token(&mut x, 200);
    token(&mut x, 220);
    x.chunk(
        ms(230),
        b"data: {\"choices\":[],\"usage\":{\"prompt_tokens\":7,\"completion_tokens\":3}}\n\n",
    );
    done(&mut x, 230);
    x.finish(ms(240), Ending::Complete);

    let s = proxy.series("chat", "m");
    assert_eq!(outcomes(&s), [(Outcome::Ok, 1)]);
    let count = |m: Measure| (s.histograms[m.index()].count, s.histograms[m.index()].sum);
    assert_eq!(count(Measure::Ttft), (1, 200 * MS));
    assert_eq!(count(Measure::Itl), (1, 20 * MS));
    assert_eq!(count(Measure::Tpot), (1, 10 * MS));
    assert_eq!(count(Measure::E2e), (1, 240 * MS));
    assert_eq!(count(Measure::Upload), (1, MS));
    assert_eq!((s.output_tokens, s.prompt_tokens, s.in_flight), ([3, 0], 7, 0));
    assert_eq!((s.slos[0].evaluated, s.slos[0].good), (1, 1));
    let last = proxy.last();
    assert_eq!(
        (last.outcome, last.verdict, last.ttft_ms, last.tpot_ms),
        ("ok", Some("good"), Some(200.0), Some(10.0))
    );
    assert_eq!((last.output_tokens, last.attempts, &*last.model), (Some(3), 1, "m"));
}

#[test]
fn the_token_counter_moves_with_the_scrapes_and_what_none_has_seen_has_the_source_of_the_end() {
    let proxy = Proxy::new(vec![]);
    let mut x = proxy.chat();
    sse(&mut x, 5);
    token(&mut x, 10);
    token(&mut x, 20);
    assert_eq!(proxy.series("chat", "m").output_tokens, [0, 2]);
    token(&mut x, 30);
    let usage = b"data: {\"choices\":[],\"usage\":{\"prompt_tokens\":7,\"completion_tokens\":9}}\n\n";
    x.chunk(ms(40), usage);
    done(&mut x, 40);
    x.finish(ms(50), Ending::Complete);
    assert_eq!(proxy.series("chat", "m").output_tokens, [7, 2], "never taken back");

    let mut cut = proxy.chat();
    sse(&mut cut, 105);
    token(&mut cut, 110);
    cut.finish(ms(120), Ending::ClientGone);
    assert_eq!(proxy.series("chat", "m").output_tokens, [7, 3]);
}

#[test]
fn the_first_ending_counts_and_later_ones_do_nothing() {
    let proxy = Proxy::new(vec![slo(ttft(200))]);
    let mut x = proxy.chat();
    sse(&mut x, 5);
    token(&mut x, 100);
    done(&mut x, 100);
    x.finish(ms(110), Ending::UpstreamReset);
    x.finish(ms(120), Ending::Complete);
    x.answered(ms(130), StatusCode::BAD_GATEWAY, Ending::Unreachable);
    token(&mut x, 140);
    drop(x);
    assert_eq!(outcomes(&proxy.series("chat", "m")), [(Outcome::UpstreamReset, 1)]);
    assert_eq!(proxy.observer.recent(10).len(), 1);
}

#[test]
fn a_dropped_exchange_is_the_clients_leaving_or_the_drains_cut() {
    let proxy = Proxy::new(vec![]);
    drop(proxy.chat());
    let mut finished = proxy.chat();
    sse(&mut finished, 5);
    token(&mut finished, 10);
    done(&mut finished, 10);
    drop(finished);
    proxy.lifecycle.advance(Phase::Closing);
    drop(proxy.chat());
    proxy.lifecycle.advance(Phase::Stopped);
    drop(proxy.chat());
    let ended: Vec<_> = proxy.observer.recent(9).iter().rev().map(|s| s.outcome).collect();
    assert_eq!(ended, ["client_cancelled", "ok", "client_cancelled", "drained"]);
}

#[test]
fn the_proxys_own_answers_have_their_status_and_their_fault() {
    let proxy = Proxy::new(vec![slo(ttft(200))]);
    let answered = |status, ending| {
        proxy.chat().answered(ms(3), status, ending);
        let last = proxy.last();
        (last.outcome, last.status, last.verdict, last.excluded)
    };
    assert_eq!(
        answered(StatusCode::BAD_REQUEST, Ending::Rejected),
        ("rejected", Some(400), Some("excluded"), Some("rejected"))
    );
    assert_eq!(
        answered(StatusCode::BAD_GATEWAY, Ending::Unreachable),
        ("upstream_unreachable", Some(502), Some("bad"), None)
    );
    assert_eq!(
        answered(StatusCode::GATEWAY_TIMEOUT, Ending::Timeout),
        ("timeout", Some(504), Some("bad"), None)
    );
}

#[test]
fn a_model_gets_a_label_only_when_an_upstream_answered_it_with_success() {
    let proxy = Proxy::new(vec![]);
    for i in 0..100 {
        let mut x = proxy.post(CHAT, &[], &format!(r#"{{"model":"no-{i}"}}"#));
        head(&mut x, 5, StatusCode::NOT_FOUND, "application/json");
        x.finish(ms(6), Ending::Complete);
    }
    assert_eq!(outcomes(&proxy.series("chat", "other")), [(Outcome::ClientError, 100)]);
    let models = |route: &str| {
        let snapshot = proxy.observer.snapshot(ms(0));
        let of = snapshot.series.iter().filter(|s| &*s.route == route);
        of.map(|s| s.model.to_string()).collect::<Vec<_>>()
    };
    assert_eq!(models("chat"), ["other", "unknown"]);
    let mut x = proxy.chat();
    sse(&mut x, 5);
    drop(x);
    assert_eq!(models("chat"), ["m", "other", "unknown"]);
}

#[test]
fn a_request_that_names_no_model_counts_under_the_replys() {
    let proxy = Proxy::new(vec![]);
    let mut x = proxy.post(CHAT, &[], r#"{"stream":true}"#);
    sse(&mut x, 5);
    x.chunk(
        ms(9),
        b"data: {\"model\":\"served\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\"x\"}}]}\n\n",
    );
    done(&mut x, 10);
    x.finish(ms(10), Ending::Complete);
    assert_eq!(outcomes(&proxy.series("chat", "served")), [(Outcome::Ok, 1)]);

    let mut x = proxy.post(CHAT, &[], "{}");
    head(&mut x, 5, StatusCode::OK, "application/json");
    x.chunk(
        ms(6),
        br#"{"model":"whole","choices":[{"index":0,"message":{"content":"hi"}}],"usage":{"prompt_tokens":1,"completion_tokens":2}}"#,
    );
    x.finish(ms(7), Ending::Complete);
    let s = proxy.series("chat", "whole");
    assert_eq!((outcomes(&s), s.output_tokens), (vec![(Outcome::Ok, 1)], [2, 0]));
    assert_eq!(
        (s.histograms[Measure::Ttft.index()].count, proxy.last().streaming),
        (0, false)
    );
}

#[test]
fn a_unary_reply_without_output_is_empty_and_a_broken_one_is_unknown() {
    let proxy = Proxy::new(vec![]);
    let reply = |body: &[u8]| {
        let mut x = proxy.post(CHAT, &[], r#"{"model":"m"}"#);
        head(&mut x, 5, StatusCode::OK, "application/json");
        x.chunk(ms(6), body);
        x.finish(ms(7), Ending::Complete);
        (proxy.last().outcome, proxy.last().output_tokens)
    };
    assert_eq!(reply(b""), ("empty", Some(0)));
    assert_eq!(reply(br#"{"choices":[]}"#), ("empty", Some(0)));
    assert_eq!(reply(br#"{"error":{"message":"x"}}"#), ("stream_error", Some(0)));
    assert_eq!(reply(br#"{"choices":[{"#), ("ok", None));
    let degraded = proxy.observer.snapshot(ms(0)).degraded;
    assert_eq!(degraded[Degraded::Malformed as usize], 1);
}

#[test]
fn a_coding_that_cannot_be_read_leaves_time_and_bytes() {
    let proxy = Proxy::new(vec![]);
    let mut x = proxy.chat();
    let coded = headers(&[("content-type", "text/event-stream"), ("content-encoding", "x-unheard-of")]);
    x.head(ms(5), StatusCode::OK, &coded);
    x.chunk(ms(10), b"\x01\x02\x03");
    x.chunk(ms(20), b"\x01\x02\x03");
    x.finish(ms(30), Ending::Complete);
    let last = proxy.last();
    assert_eq!((last.outcome, last.output_tokens, last.ttft_ms), ("ok", None, None));
    assert_eq!((last.ttfb_ms, last.e2e_ms, last.streaming), (Some(10.0), 30.0, true));
    assert_eq!(proxy.observer.snapshot(ms(0)).degraded[Degraded::Encoding as usize], 1);
}

#[test]
fn embeddings_are_judged_by_e2e_and_other_paths_not_at_all() {
    let proxy = Proxy::with(|config| {
        for route in &mut config.routes {
            route.slos = vec![slo(Bounds {
                e2e_ns: Some(50 * MS),
                ..ttft(1)
            })];
        }
    });
    let mut x = proxy.post("/v1/embeddings", &[], r#"{"model":"e","input":"text"}"#);
    head(&mut x, 5, StatusCode::OK, "application/json");
    x.chunk(ms(50), b"{}");
    x.finish(ms(50), Ending::Complete);
    let last = proxy.last();
    assert_eq!(
        (&*last.model, last.outcome, last.verdict, last.output_tokens),
        ("e", "ok", Some("good"), None)
    );
    let mut x = proxy.observer.begin(ms(0), &Method::GET, "/v1/models", &HeaderMap::new());
    head(&mut x, 5, StatusCode::OK, "application/json");
    x.finish(ms(900), Ending::Complete);
    assert_eq!((proxy.last().verdict, &*proxy.last().route), (None, "other"));
}

#[test]
fn bounds_tenant_and_trace_come_from_the_requests_head() {
    let trace = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    let proxy = Proxy::with(|config| {
        config.labels.tenant_header = Some("x-tenant".to_owned());
        let gold = Slo {
            name: "gold".into(),
            when: Match {
                header: Some(("x-tier".to_owned(), "gold".to_owned())),
                ..Match::default()
            },
            ..slo(ttft(10))
        };
        let open = Slo {
            header_bounds: Some(HeaderBounds {
                min_ns: 50 * MS,
                max_ns: 500 * MS,
            }),
            ..slo(ttft(200))
        };
        config.routes[0].slos = vec![gold, open];
    });
    let verdict = |head: &[(&'static str, &str)]| {
        let mut x = proxy.post(CHAT, head, r#"{"model":"m","stream":true}"#);
        sse(&mut x, 5);
        token(&mut x, 100);
        done(&mut x, 100);
        x.finish(ms(100), Ending::Complete);
        let last = proxy.last();
        (last.slo.as_ref().map(ToString::to_string), last.broken.clone())
    };
    let open = || Some("fast".to_owned());
    assert_eq!(verdict(&[]), (open(), vec![]));
    assert_eq!(verdict(&[("x-tier", "silver")]), (open(), vec![]));
    assert_eq!(verdict(&[("x-tier", "gold")]), (Some("gold".to_owned()), vec!["ttft"]));
    assert_eq!(verdict(&[("x-slo-ttft-ms", "99")]), (open(), vec!["ttft"]));
    assert_eq!(
        verdict(&[("x-slo-ttft-ms", "1")]),
        (open(), vec!["ttft"]),
        "clamped to 50 ms, still broken"
    );
    assert_eq!(
        verdict(&[("x-tenant", "acme"), ("traceparent", trace), ("x-slo-ttft-ms", "60")]),
        (open(), vec!["ttft"])
    );
    assert_eq!(proxy.last().trace_id.as_deref(), Some("4bf92f3577b34da6a3ce929d0e0e4736"));
    let snapshot = proxy.observer.snapshot(ms(0));
    let acme = snapshot.series.iter().find(|s| s.tenant.as_deref() == Some("acme")).unwrap();
    let exemplars = acme.histograms[Measure::Ttft.index()].exemplars.iter().flatten();
    assert_eq!(
        exemplars.map(|e| (&*e.trace_id, e.value)).collect::<Vec<_>>(),
        [("4bf92f3577b34da6a3ce929d0e0e4736", 100 * MS)]
    );
}
