//! The demo for a moment on real sockets: engine, proxy and clients agree on every request.

use std::time::Duration;

use goodput_proxy::config::{Config, Flag, Sources};
use goodput_proxy::demo::{Options, run};
use tokio::sync::watch;

#[test]
fn clients_proxy_and_engine_count_the_same_requests() {
    let flag = |name, key, value: &str| Flag {
        name,
        key,
        value: value.to_owned(),
    };
    let flags = vec![
        flag("--listen", "listen", "127.0.0.1:0"),
        flag("--admin", "admin", "127.0.0.1:0"),
        flag("--slo", "slo", "ttft=500ms,tpot=30ms,e2e=3s"),
    ];
    let config = Config::load(&Sources {
        flags,
        ..Sources::default()
    })
    .unwrap();
    let options = Options {
        length: Duration::from_secs(2),
        rate: 30.0,
        seed: 7,
        spike: 0.01,
        any_listen: false,
        any_admin: false,
    };
    let (_stop, stopped) = watch::channel(false);
    let outcome = run(config, options, stopped, |_| {}).unwrap();
    assert!(outcome.sent > 30, "{}", outcome.text);
    assert_eq!(
        (outcome.recorded, outcome.received),
        (outcome.sent, outcome.sent),
        "{}",
        outcome.text
    );
    assert!(outcome.text.contains("goodput"), "{}", outcome.text);
}
