//! Every mistake with exactly what is said about it.

use goodput_proxy::config::{Flag, Sources, Syntax};

use super::{environment, load, sources};

fn problems(text: &str) -> Vec<String> {
    load(&sources(text, Syntax::Yaml)).expect_err("has problems")
}

#[test]
fn everything_wrong_with_a_file_is_said_in_one_run() {
    let text = "
listen: 8080
admin: localhost:9464
workers: 0
upstraem: {}
upstream:
  url: https://user:hunter2@model.example
  protocol: http2
  connect_timeout: 5
  pool_idle_timeout: off
  idle_timeout: 0.2
  max_header_bytes: 65536
  pool_max_idle: '10'
routes:
  - name: chat
    path: [/v1/chat/completions]
    slos:
      - name: a
        ttft: 200
        objective: 99
      - name: b
        when: { output_tokens: '<0', tenant: acme, stream: true }
        tpot: fast
  - name: chat
    paths: /x
windows: [5m, 1m, 1m]
profile: genai-perf
half_close: 'yes'
readiness: always
log: { level: infoo, format: jsno }
";
    assert_eq!(
        problems(text),
        [
            "upstraem: no key has this name; did you mean `upstream`?",
            "listen: 8080: is a number, not an address; write an IP address and a port, as in `0.0.0.0:8080` or `[::]:8080`",
            r#"admin: "localhost:9464": is not an address to listen on; write an IP address and a port, as in `0.0.0.0:8080` or `[::]:8080`"#,
            r#"readiness: "always": is none of the choices; write `self` or `upstream`"#,
            "workers: 0: is not a whole number in range; write a number from 1 to 1024, or `auto`",
            r#"upstream.url: "https://***@model.example": carries credentials, and requests go through as the client sent them; leave them out"#,
            r#"upstream.protocol: "http2": is none of the choices; write `http1`, `h2c` or `h2`"#,
            "upstream.connect_timeout: 5: a bare number is no duration, since 0.2 is 0.2 ms in one tool and 0.2 s in another; write the unit: `5s` or `5ms`",
            r#"upstream.pool_idle_timeout: "off": is not a duration; write a number and a unit (ns, us, ms, s, m, h), as in `200ms` or `0.2s`"#,
            r#"upstream.pool_max_idle: "10": is not a whole number; write a number from 0 to 65536"#,
            "upstream.idle_timeout: 0.2: a bare number is no duration, since 0.2 is 0.2 ms in one tool and 0.2 s in another; write the unit: `0.2s` or `0.2ms`",
            "upstream.max_header_bytes: 65536: a bare number is no size; write the unit: `65536B` or `65536KiB`",
            r#"half_close: "yes": is neither true nor false; write `true` or `false`, without quotes"#,
            "routes[0].path: no key has this name; did you mean `paths`?",
            "routes[0].slos[0].ttft: 200: a bare number is no duration, since 0.2 is 0.2 ms in one tool and 0.2 s in another; write the unit: `200s` or `200ms`",
            "routes[0].slos[0].objective: 99: is not between 0 and 1; write 0.99 for 99 percent",
            "routes[0].slos[1].when.stream: no key has this name; did you mean `streaming`?",
            r#"routes[0].slos[1].when.tenant: "acme": no header says who the tenant is; set `labels.tenant.header`"#,
            r#"routes[0].slos[1].when.output_tokens: "<0": is a range that holds no number, so nothing can ever match; write `<300`, `<=300`, `>10`, `>=10`, `10..300` (both included) or `300`"#,
            r#"routes[0].slos[1].tpot: "fast": is not a duration; write a number and a unit (ns, us, ms, s, m, h), as in `200ms` or `0.2s`"#,
            r#"routes[1].paths: "/x": is not a list; write it in brackets: `["/x"]`"#,
            r#"routes[1].name: "chat": two routes have this name; give each a name of its own"#,
            r#"windows: ["5m", "1m", "1m"]: `5m` is longer than `1m` behind it; write each once, shortest first, as in `[1m, 5m, 30m]`"#,
            r#"windows: ["5m", "1m", "1m"]: `1m` is as long as `1m` behind it; write each once, shortest first, as in `[1m, 5m, 30m]`"#,
            r#"profile: "genai-perf": is no definition that live traffic is measured by; write `goodput`; `goodput-proxy explain` applies other tools' definitions to a recorded stream"#,
            r#"log.format: "jsno": is none of the choices; write `auto`, `text` or `json`"#,
            r#"log.level: "infoo": is no log level; did you mean `info`?"#,
        ]
    );
}

#[test]
fn a_problem_of_the_environment_or_a_flag_names_it() {
    let variables = [
        ("GOODPUT__LISTEN", "8080"),
        ("GOODPUT__UPSTREAM__CONNECT_TIMEOUT", "5"),
        ("GOODPUT__UPSTREM__URL", "http://a"),
        ("GOODPUT__UPSTREAM", "http://a"),
        ("GOODPUT__ROUTES", "x"),
        ("GOODPUT__QQ", "x"),
        ("GOODPUT__WINDOWS", "1m,2"),
        ("RUST_LOG", "infoo"),
    ];
    let flags = vec![Flag {
        name: "--slo",
        key: "slo",
        value: "ttft:0.2".to_owned(),
    }];
    let sources = Sources {
        environment: environment(&variables),
        flags,
        ..Sources::default()
    };
    assert_eq!(
        load(&sources).expect_err("has problems"),
        [
            r#"GOODPUT__QQ (environment): "x": no key has this name; leave it out"#,
            r#"GOODPUT__ROUTES (environment): "x": routes cannot be set in the environment; write them in the file; one SLO for all: GOODPUT__SLO"#,
            r#"GOODPUT__UPSTREAM (environment): "http://a": is a section; set one of its keys, as in GOODPUT__UPSTREAM__URL"#,
            r#"GOODPUT__UPSTREM__URL (environment): "http://a": no key has this name; did you mean GOODPUT__UPSTREAM__URL?"#,
            r#"GOODPUT__LISTEN (environment): "8080": is not an address to listen on; write an IP address and a port, as in `0.0.0.0:8080` or `[::]:8080`"#,
            r#"GOODPUT__UPSTREAM__CONNECT_TIMEOUT (environment): "5": a bare number is no duration, since 0.2 is 0.2 ms in one tool and 0.2 s in another; write the unit: `5s` or `5ms`"#,
            r#"--slo: "ttft:0.2": `ttft:0.2` would be 0.2 ms, but 0.2 is seconds in other tools; write the unit: `ttft=0.2s` or `ttft=0.2ms`"#,
            r#"GOODPUT__WINDOWS (environment): "2": a bare number is no duration, since 0.2 is 0.2 ms in one tool and 0.2 s in another; write the unit: `2s` or `2ms`"#,
            r#"RUST_LOG (environment): "infoo": is no log level; did you mean `info`?"#
        ]
    );
}

#[test]
fn an_slo_that_can_never_match_is_a_problem() {
    let after = |first: &str, second: &str| {
        let text = format!("routes: [{{ name: chat, slos: [{{ name: a, {first} e2e: 1s }}, {{ name: b, {second} e2e: 2s }}] }}]");
        load(&sources(
            &format!("labels: {{ tenant: {{ header: x-t }} }}\n{text}"),
            Syntax::Yaml,
        ))
        .map(|_| ())
    };
    let never = Err(vec![
        "routes[0].slos[1]: can never match: SLO `a` before it takes the same requests; put the narrower SLO first or take one out"
            .to_owned(),
    ]);
    for (first, second, taken) in [
        ("", "when: { model: x },", true),
        ("", "", true),
        ("when: {},", "when: { streaming: true },", true),
        (
            "when: { model: 'llama*' },",
            "when: { model: llama-3, streaming: true },",
            true,
        ),
        ("when: { output_tokens: '<300' },", "when: { output_tokens: '10..20' },", true),
        (
            "when: { tenant: x, header: 'a: b' },",
            "when: { header: 'A: b', tenant: x },",
            true,
        ),
        ("when: { model: llama-3 },", "when: { model: 'llama*' },", false),
        (
            "when: { output_tokens: '<300' },",
            "when: { output_tokens: '10..300' },",
            false,
        ),
        ("when: { streaming: true },", "when: { streaming: false },", false),
        ("when: { streaming: true },", "", false),
        ("when: { tenant: x },", "when: { tenant: y },", false),
    ] {
        assert_eq!(
            after(first, second),
            if taken { never.clone() } else { Ok(()) },
            "{first} then {second}"
        );
    }
}

#[test]
fn bounds_that_nothing_could_break_are_a_problem() {
    for (route, expected) in [
        (
            "{ name: chat, slos: [{ name: a }] }",
            "routes[0].slos[0]: has no bound, so every request would be good; write `ttft`, `tpot`, `itl_p99`, `stall` or `e2e`",
        ),
        (
            "{ name: mine, paths: [/mine], slos: [{ name: a, ttft: 1s }] }",
            "routes[0].format: is missing, and the paths do not say how replies are read: bounds on tokens would always be met; write one of openai_chat, openai_completions, openai_responses, anthropic, ollama, tgi, sglang, llamacpp, triton",
        ),
        (
            "{ name: mine, paths: [/mine], format: none, slos: [{ name: a, e2e: 1s }] }",
            "routes[0].slos: the replies of this route are not judged; choose another `format`",
        ),
        (
            "{ name: embeddings, slos: [{ name: a, tpot: 1s }] }",
            "routes[0].slos: bounds the tokens of replies that are not read: such a bound would always be met; keep `e2e` only, or choose another `format`",
        ),
    ] {
        assert_eq!(problems(&format!("routes: [{route}]")), [expected]);
    }
    for route in [
        "{ name: mine, paths: [/mine], slos: [{ name: a, e2e: 1s }] }",
        "{ name: mine, paths: ['/v1/*'], slos: [{ name: a, ttft: 1s }] }",
        "{ name: mine, paths: [/mine], format: auto, slos: [{ name: a, ttft: 1s }] }",
        "{ name: chat, slos: [{ name: a, header_bounds: { min: 1ms, max: 1s } }] }",
    ] {
        let loaded = load(&sources(&format!("routes: [{route}]"), Syntax::Yaml));
        assert!(loaded.is_ok(), "{route}: {loaded:?}");
    }
}

#[test]
fn routes_that_get_in_each_others_way_are_a_problem() {
    for (routes, expected) in [
        (
            "[{ name: other, paths: ['*'] }]",
            vec![r#"routes[0].name: "other": `other` is the name of what no route takes; choose another name"#],
        ),
        (
            "[{ name: mine }]",
            vec!["routes[0].paths: is missing; write the paths, as in `[/v1/chat/completions]`"],
        ),
        (
            "[{ paths: [/a] }]",
            vec!["routes[0].name: is missing; write the value of the `route` label; a built-in name takes that route's place"],
        ),
        (
            "[{ name: 'my route', paths: [a, '/b?c'], methods: [post], header: x, format: openai }]",
            vec![
                r#"routes[0].name: "my route": is not a name; write at most 64 letters, digits, `.`, `_` or `-`"#,
                r#"routes[0].paths[0]: "a": is not a path; write a path, as in `/v1/chat/completions` or `/v2/models/*/generate*`"#,
                r#"routes[0].paths[1]: "/b?c": is not a path alone; a query never takes part in matching; write a path, as in `/v1/chat/completions` or `/v2/models/*/generate*`"#,
                r#"routes[0].methods[0]: "post": is not a method; write it in capitals, as in `POST`, or `"*"` for all"#,
                r#"routes[0].header: "x": is not a header; write name and value in one text: `"x-tier: gold"`"#,
                r#"routes[0].format: "openai": no format has this name; did you mean `openai_chat`?"#,
            ],
        ),
        (
            "[{ name: a, paths: ['/v1/*'] }, { name: b, paths: [/v1/x, '/v1/*/y'] }]",
            vec![
                "routes[1]: can never match: route `a` before it takes the same requests; put the narrower route first or take one out",
            ],
        ),
        (
            "[3, { name: a, paths: [/a] }]",
            vec!["routes[0]: 3: is not a section; write keys below it: name, paths, methods, header, format, slos"],
        ),
        (
            "chat",
            vec![r#"routes: "chat": is not a list; write its entries with `- ` in front"#],
        ),
    ] {
        assert_eq!(problems(&format!("routes: {routes}")), expected, "{routes}");
    }
    for routes in [
        "[{ name: a, paths: ['/v1/*'], header: 'x: y' }, { name: b, paths: [/v1/x] }]",
        "[{ name: a, paths: ['/v1/*'] }, { name: b, paths: [/v1/x], methods: [GET] }]",
        "[{ name: a, paths: [/v1/x] }, { name: b, paths: ['/v1/*'] }]",
    ] {
        let loaded = load(&sources(&format!("routes: {routes}"), Syntax::Yaml));
        assert!(loaded.is_ok(), "{routes}: {loaded:?}");
    }
}

#[test]
fn more_itl_bounds_than_a_stream_can_watch_are_a_problem() {
    let slos = |bounds: &[&str]| {
        let slos: Vec<String> = bounds
            .iter()
            .enumerate()
            .map(|(at, bound)| format!("{{ name: s{at}, when: {{ model: m{at} }}, itl_p99: {bound} }}"))
            .collect();
        load(&sources(
            &format!("routes: [{{ name: chat, slos: [{}] }}]", slos.join(", ")),
            Syntax::Yaml,
        ))
        .map(|_| ())
    };
    assert_eq!(slos(&["1ms", "2ms", "3ms", "4ms", "4ms", "0.001s"]), Ok(()));
    let what = "routes[0]: has 5 different `itl_p99` bounds; use at most 4 different values in one route";
    assert_eq!(slos(&["1ms", "2ms", "3ms", "4ms", "5ms"]), Err(vec![what.to_owned()]));
}

#[test]
fn values_that_contradict_each_other_are_a_problem() {
    for (text, expected) in [
        (
            "listen: 127.0.0.1:9464",
            "admin: is the traffic address too; give metrics and probes a port of their own, as in `0.0.0.0:9464`",
        ),
        (
            "listen: 127.0.0.1:8000",
            "upstream.url: is the proxy's own traffic address; write the model server's",
        ),
        (
            "upstream: { url: 'http://localhost:8080' }",
            r#"upstream.url: "http://localhost:8080": is the proxy's own traffic address; write the model server's"#,
        ),
        (
            "labels: { tenant: { header: Authorization } }",
            r#"labels.tenant.header: "Authorization": holds a secret, which would become a label; name a header that a gateway sets, as `x-tenant`"#,
        ),
        (
            "labels: { tenant: { allow: [a] } }",
            r#"labels.tenant.allow: ["a"]: names tenants, but no header says who they are; set `labels.tenant.header`"#,
        ),
        (
            "windows: []",
            "windows: []: names no window; write each once, shortest first, as in `[1m, 5m, 30m]`",
        ),
        (
            "windows: [1m, 60s]",
            r#"windows: ["1m", "60s"]: `1m` is as long as `60s` behind it; write each once, shortest first, as in `[1m, 5m, 30m]`"#,
        ),
        (
            "windows: [1s]",
            r#"windows[0]: "1s": is no length for a window; write one from 10s to 24h"#,
        ),
        (
            "windows: 1m",
            r#"windows: "1m": is not a list; write it in brackets: `["1m"]`"#,
        ),
        (
            "slo: { ttft: 500ms }",
            "slo: is a section, not one text; write `ttft=500ms,tpot=15ms,e2e=2s`, or `ttft:500 tpot:15 e2el:2000` on the command line (milliseconds)",
        ),
        (
            "upstream: { idle_timeout: 0s }",
            r#"upstream.idle_timeout: "0s": is no time at all; write a number and a unit (ns, us, ms, s, m, h), as in `200ms` or `0.2s`, or `off`"#,
        ),
        (
            "drain: { timeout: soon }",
            r#"drain.timeout: "soon": is not a duration; write a number and a unit (ns, us, ms, s, m, h), as in `200ms` or `0.2s`"#,
        ),
        (
            "routes: [{ name: embeddings, slos: [{ name: a, e2e: 1s, when: { output_tokens: '<9' } }] }]",
            "routes[0].slos: SLO `a` can never match: it asks for the tokens of replies that are not read; leave `prompt_tokens` and `output_tokens` out, or choose another `format`",
        ),
        (
            "slo: ttft=500",
            r#"slo: "ttft=500": `ttft=500`: a bare number is no duration, since 0.2 is 0.2 ms in one tool and 0.2 s in another; write the unit: `500s` or `500ms`"#,
        ),
        (
            "routes: [{ name: chat, slos: [{ name: a, e2e: 1s, header_bounds: { min: 2s, max: 1s } }] }]",
            r#"routes[0].slos[0].header_bounds.min: "2s": is above `max`; write the smaller one here"#,
        ),
        (
            "routes: [{ name: chat, slos: [{ name: a, e2e: 1s, header_bounds: { max: 1s } }] }]",
            "routes[0].slos[0].header_bounds.min: is missing; write the smallest bound a request may bring in `x-slo-ttft-ms`, `x-slo-tpot-ms`",
        ),
        (
            "routes: [{ name: chat, slos: [{ name: a, e2e: 1s, when: { model: x } }, { name: a, e2e: 1s }] }]",
            r#"routes[0].slos[1].name: "a": two SLOs of the route have this name; give each a name of its own"#,
        ),
    ] {
        assert_eq!(problems(text), [expected], "{text}");
    }
    for text in [
        "listen: 127.0.0.1:0\nadmin: 127.0.0.1:0",
        "listen: 127.0.0.1:9464\nadmin: 127.0.0.2:9464",
        "drain: { delay: 0s, timeout: 0s }",
        "drain: { delay: off, timeout: 1s }",
    ] {
        assert!(load(&sources(text, Syntax::Yaml)).is_ok(), "{text}");
    }
}
