//! Hundreds of clients, a model server that comes and goes, every fault at random, and the real program between them.
//!
//! What is asserted: every stream that nothing disturbed arrives byte for byte; a stream that broke never looks whole; each request
//! has one outcome; good + bad = evaluated, evaluated + excluded = judged; afterwards gauges, connections, descriptors and memory are
//! back where they were; no panic; a clean exit.
//!
//! All choices come from one seed. Where the work of the kernel's scheduler decides, the same seed gives another run.

#![allow(dead_code, unreachable_pub)] // shared by a test and two programs; not each uses all of it

pub mod arguments;
pub mod client;
pub mod plan;
pub mod process;
pub mod reply;
pub mod upstream;

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use goodput_proxy::clock;
use tokio::time::sleep;

use client::Tally;
use plan::Random;
use process::{Program, Proxy, Usage};
use upstream::Upstream;

/// A run's size.
#[derive(Clone, Copy, Debug)]
pub struct Size {
    /// Concurrent clients.
    pub clients: usize,
    /// How long they work between two looks at what the proxy holds.
    pub wave: Duration,
    /// How many such waves.
    pub waves: usize,
    /// The upstream lives at least so long between two restarts, and at most three times that, ms.
    pub calm_ms: u64,
    /// Send SIGHUP with every restart of the upstream.
    pub reloads: bool,
}

/// Memory may grow by so much after the first wave, KiB: the allocator's slack, the rings of recent requests and windows.
const SLACK_KIB: u64 = 24 * 1024;

/// Runs it; the report is what a person reads.
///
/// # Panics
/// When the proxy broke a promise.
pub async fn run(program: &Program, relay: bool, seed: u64, size: Size) -> String {
    let upstream = Upstream::start().await;
    let mut proxy = Proxy::start(
        program,
        &format!(
            "relay: {relay}\nupstream: {{ url: 'http://{}', pool_idle_timeout: 1s }}\n\
             slo_defaults: {{ cancelled: judge }}\nroutes:\n  - name: chaos\n    paths: [/v1/chat/completions]\n    slos:\n      \
             - {{ name: all, ttft: 100ms, e2e: 1s }}\ndrain: {{ delay: off, timeout: 5s }}\n",
            upstream.address
        ),
    );
    let tally = Arc::new(Tally::default());
    let idle = proxy.usage();
    let mut report = format!("seed {seed}, relay {relay}, {} clients\nidle: {idle}\n", size.clients);
    let (mut after_first, mut last) = (None::<Usage>, idle);
    for wave in 0..size.waves {
        let from = clock::now();
        let until = from.plus(u64::try_from(size.wave.as_nanos()).expect("no such wave"));
        let mut workers = tokio::task::JoinSet::new();
        for worker in 0..size.clients {
            let random = Random::new(seed ^ ((wave * size.clients + worker) as u64).wrapping_mul(0x9E37_79B9));
            workers.spawn(client::work(
                proxy.traffic,
                upstream.clone(),
                random,
                until,
                Arc::clone(&tally),
            ));
        }
        let mut random = Random::new(seed + wave as u64);
        while clock::now() < until {
            sleep(Duration::from_millis(size.calm_ms + random.below(2 * size.calm_ms))).await;
            upstream.restart(Duration::from_millis(20 + random.below(200))).await;
            if size.reloads {
                proxy.signal("HUP");
            }
        }
        while let Some(worker) = workers.join_next().await {
            worker.expect("a client task does not panic");
        }
        let busy = proxy.usage();
        last = proxy.settled(idle.descriptors).await;
        report += &format!("wave {}: busy {busy}; after it {last}\n", wave + 1);
        after_first.get_or_insert(last);
    }

    let metrics = proxy.metrics().await;
    let mut wrong = tally.failures.lock().expect("no client panicked").clone();
    let first = after_first.expect("a wave");
    if last.rss_kib > first.rss_kib + SLACK_KIB {
        wrong.push(format!("memory grew from {} to {} KiB", first.rss_kib, last.rss_kib));
    }
    if last.descriptors > idle.descriptors || last.threads > first.threads {
        wrong.push(format!(
            "descriptors or threads leaked: {idle} at first, {first} after a wave, {last} after the last"
        ));
    }
    for (name, value) in metrics.of(&[
        "goodput_in_flight",
        "goodput_overdue",
        "goodput_stalled",
        "goodput_proxy_open_connections",
    ]) {
        // The look itself is a connection of the admin port, which is not counted here.
        if value != 0.0 {
            wrong.push(format!("{name} is {value} at rest"));
        }
    }
    let (sent, answered) = (tally.heads.load(Relaxed), tally.answered.load(Relaxed));
    let accepted = metrics.sum("goodput_requests_total", "") as u64;
    let judged = metrics.sum("goodput_requests_total", "route=\"chaos\"") as u64;
    let [evaluated, good, bad, excluded] = ["evaluated", "good", "bad", "excluded"]
        .map(|what| metrics.sum(&format!("goodput_slo_{what}_total"), "slo=\"all\"") as u64);
    // A head that its client followed with a reset may never have been read.
    if accepted > sent || accepted < answered {
        wrong.push(format!("{accepted} outcomes for {sent} heads sent and {answered} answered"));
    }
    if good + bad != evaluated || evaluated + excluded != judged {
        wrong.push(format!(
            "{good} good + {bad} bad, {evaluated} evaluated, {excluded} excluded, {judged} judged"
        ));
    }
    let panics = metrics.sum("goodput_tap_degraded_total", "reason=\"panic\"");
    if panics != 0.0 {
        wrong.push(format!("the reader panicked {panics} times"));
    }
    let (status, log) = proxy.stop().await;
    if status != Some(0) {
        wrong.push(format!("exit status {status:?}"));
    }
    if let Some(line) = log.lines().find(|line| line.contains("panicked")) {
        wrong.push(line.to_owned());
    }
    report += &format!(
        "{sent} heads sent, {answered} answered, {accepted} outcomes: {:?}\n{evaluated} evaluated = {good} good + {bad} bad; \
         {excluded} excluded\n{} upstream restarts; undisturbed and identical: {} streams, {} bytes\nfaults: {:?}\n",
        metrics.by("goodput_requests_total", "outcome"),
        upstream.restarts(),
        tally.identical.load(Relaxed),
        tally.bytes.load(Relaxed),
        tally.kinds.lock().expect("no client panicked"),
    );
    assert!(wrong.is_empty(), "{report}\nbroken promises: {wrong:#?}\nlog:\n{log}");
    assert!(tally.identical.load(Relaxed) > 0, "{report}");
    report
}
