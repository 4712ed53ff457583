//! The cancellation matrix: when an exchange was cut, by whom, and what it then counts as. Every cell leaves exactly one record.
//!
//! Each reply has its head at 100 ms, a token at 200, the finish reason at 210 and the terminal signal at 220. It is cut early,
//! within every bound, and late, past some: a client that leaves then has left out of impatience.

use goodput_proxy::clock;
use goodput_proxy::lifecycle::Phase;
use tokio::sync::Notify;

use std::sync::Arc;

use super::measured::{MS, pass};
use super::rig::{DONE, Rig, Step, Way, both, both_tcp, chat, chunk, content, finish, last_chunk, send, sse_head, wait};

const SLO: &str = "slo: ttft=400ms,e2e=1s";
const EARLY: u64 = 300;
const LATE: u64 = 1500;

/// How far the reply was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum When {
    BeforeHead,
    AfterHead,
    MidStream,
    AfterFinish,
    AfterTerminator,
}

use When::{AfterFinish, AfterHead, AfterTerminator, BeforeHead, MidStream};

const ROWS: [When; 5] = [BeforeHead, AfterHead, MidStream, AfterFinish, AfterTerminator];

impl When {
    /// The reply up to here, and how long it takes.
    fn begun(self, head: &Step) -> (Vec<Step>, u64) {
        let all = [
            (100, head.clone()),
            (100, chunk(content("x"))),
            (10, chunk(finish())),
            (10, chunk(DONE)),
        ];
        let so_far = &all[..self as usize];
        let steps = so_far.iter().flat_map(|(ms, step)| [wait(*ms), step.clone()]).collect();
        (steps, so_far.iter().map(|(ms, _)| ms).sum())
    }

    /// The reply up to here, silence until `at`, and then `end`.
    fn cut(self, at: u64, end: impl IntoIterator<Item = Step>) -> Vec<Step> {
        let (mut script, spent) = self.begun(&sse_head());
        script.push(wait(at - spent));
        script.extend(end);
        script
    }

    fn status(self) -> Option<u16> {
        (self != BeforeHead).then_some(200)
    }

    /// TTFT in ms.
    fn ttft(self) -> Option<f64> {
        matches!(self, MidStream | AfterFinish | AfterTerminator).then_some(200.0)
    }

    /// The bounds that are broken at `at`.
    fn broken(self, at: u64) -> Vec<&'static str> {
        match (at, self) {
            (EARLY, _) => vec![],
            (_, BeforeHead | AfterHead) => vec!["ttft", "e2e"],
            (_, MidStream | AfterFinish | AfterTerminator) => vec!["e2e"],
        }
    }
}

/// What the one record must say.
struct Cell {
    outcome: &'static str,
    status: Option<u16>,
    verdict: &'static str,
}

/// Checks the only record of `rig`, and that every count agrees with it.
fn check(rig: &Rig, way: Way, when: When, at: u64, cell: &Cell) {
    let context = format!("{way:?}, {when:?} at {at} ms");
    let record = rig.record();
    assert_eq!((record.outcome, record.status), (cell.outcome, cell.status), "{context}");
    assert_eq!((record.ttft_ms, record.e2e_ms), (when.ttft(), at as f64), "{context}");
    assert_eq!(record.verdict, Some(cell.verdict), "{context}");
    let excluded = cell.verdict == "excluded";
    assert_eq!(record.excluded, excluded.then_some("cancelled"), "{context}");
    assert_eq!(record.broken, if excluded { vec![] } else { when.broken(at) }, "{context}");

    let snapshot = rig.snapshot();
    let chat = snapshot.series.iter().filter(|s| &*s.route == "chat");
    let (mut requests, mut verdicts, mut in_flight) = (0, [0; 3], 0);
    for series in chat {
        requests += series.requests.iter().map(|(_, n)| n).sum::<u64>();
        let slo = &series.slos[0];
        assert_eq!(slo.evaluated, slo.good + slo.bad, "{context}");
        verdicts[0] += slo.good;
        verdicts[1] += slo.bad;
        verdicts[2] += slo.excluded.iter().map(|(_, n)| n).sum::<u64>();
        in_flight += series.in_flight;
    }
    let expected = ["good", "bad", "excluded"].map(|v| u64::from(v == cell.verdict));
    assert_eq!((requests, verdicts, in_flight), (1, expected, 0), "{context}");
}

/// Runs every row, early and late. `cut` runs one exchange that is cut at the given time; `cell` says what it must count as.
fn matrix<F: Future<Output = Rig>>(cut: impl Fn(Way, When, u64) -> F, cell: impl Fn(When, u64) -> Cell) {
    both(|way| {
        let (cut, cell) = (&cut, &cell);
        async move {
            for when in ROWS {
                for at in [EARLY, LATE] {
                    let rig = cut(way, when, at).await;
                    rig.finished(1).await;
                    check(&rig, way, when, at, &cell(when, at));
                }
            }
        }
    });
}

/// A finished stream lost nothing: it is judged as complete.
fn finished(when: When, at: u64) -> Option<Cell> {
    matches!(when, AfterFinish | AfterTerminator).then(|| Cell {
        outcome: "ok",
        status: Some(200),
        verdict: if at == EARLY { "good" } else { "bad" },
    })
}

fn client_left(when: When, at: u64) -> Cell {
    finished(when, at).unwrap_or(Cell {
        outcome: "client_cancelled",
        status: when.status(),
        verdict: if at == EARLY { "excluded" } else { "bad" },
    })
}

#[test]
fn a_client_that_drops_its_connection_has_left() {
    let cut = |way, when: When, at| async move {
        let rig = Rig::configured(way, SLO, vec![when.cut(at, [wait(60_000)])]);
        let begin = clock::now();
        let mut client = rig.client();
        client.send(chat()).await;
        pass(at).await;
        client.reset();
        rig.upstream.until(|upstream| !upstream.closed().is_empty()).await;
        assert_eq!(
            rig.upstream.closed()[0].1.since(begin),
            at * MS,
            "the upstream is released at once"
        );
        rig
    };
    matrix(cut, client_left);
}

#[test]
fn a_client_that_ends_its_side_has_left() {
    let cut = |way, when: When, at| async move {
        let rig = Rig::configured(way, SLO, vec![when.cut(at, [wait(60_000)])]);
        let begin = clock::now();
        let mut client = rig.client();
        client.send(chat()).await;
        pass(at).await;
        client.fin().await;
        rig.upstream.until(|upstream| !upstream.closed().is_empty()).await;
        assert_eq!(
            rig.upstream.closed()[0].1.since(begin),
            at * MS,
            "the upstream is released at once"
        );
        rig
    };
    matrix(cut, client_left);
}

#[test]
fn with_half_close_a_client_that_ends_its_side_is_served_on() {
    both(|way| async move {
        for when in ROWS {
            // All that is missing comes 50 ms after the client's end.
            let (_, spent) = when.begun(&sse_head());
            let all = [sse_head(), chunk(content("x")), chunk(finish()), chunk(DONE), last_chunk()];
            let mut script = when.cut(EARLY, [wait(50)]);
            script.extend(all.into_iter().skip(when as usize));
            assert!(spent < EARLY);
            let rig = Rig::configured(way, &format!("{SLO}\nhalf_close: true"), vec![script]);
            let mut client = rig.client();
            client.send(chat()).await;
            pass(EARLY).await;
            client.fin().await;
            let reply = client.reply().await;
            assert!(reply.complete, "{when:?}");
            assert_eq!(reply.text(), [content("x"), finish(), DONE.to_owned()].concat());
            let record = rig.record();
            assert_eq!(
                (record.outcome, record.verdict, record.e2e_ms),
                ("ok", Some("good"), 350.0),
                "{when:?}"
            );
            assert_eq!(record.ttft_ms, when.ttft().or(Some(350.0)), "{when:?}");
        }
    });
}

fn upstream_broke_off(when: When, _: u64) -> Cell {
    Cell {
        outcome: "upstream_reset",
        // Before a head the proxy answers by itself.
        status: when.status().or(Some(502)),
        verdict: "bad",
    }
}

/// One exchange whose upstream ends it with `end`; whether the client saw a complete reply.
async fn ended_by_upstream(way: Way, when: When, at: u64, end: Vec<Step>) -> (Rig, bool) {
    let rig = Rig::configured(way, SLO, vec![when.cut(at, end)]);
    let reply = rig.client().call(chat()).await;
    (rig, reply.complete)
}

#[test]
fn an_upstream_that_breaks_off_is_a_reset_even_after_the_terminal_signal() {
    let cut = |way, when: When, at| async move {
        let (rig, complete) = ended_by_upstream(way, when, at, vec![Step::Reset]).await;
        assert_eq!(complete, when == BeforeHead, "a broken reply never looks whole");
        rig
    };
    matrix(cut, upstream_broke_off);
}

#[test]
fn an_upstream_that_resets_its_socket_is_a_reset_in_every_row() {
    both_tcp(|way| async move {
        for when in ROWS {
            let gate = Arc::new(Notify::new());
            let mut script: Vec<Step> = when.begun(&sse_head()).0;
            script.retain(|step| !matches!(step, Step::Wait(_)));
            script.extend([Step::Gate(Arc::clone(&gate)), Step::Reset]);
            let rig = Rig::tcp(way, "", vec![script]).await;
            let mut client = rig.tcp_client().await;
            client.send(chat()).await;
            match when {
                BeforeHead => rig.upstream.until(|upstream| !upstream.seen().is_empty()).await,
                AfterHead => client.read_until("\r\n\r\n").await,
                MidStream => client.read_until("\"x\"").await,
                AfterFinish => client.read_until("stop").await,
                AfterTerminator => client.read_until("[DONE]").await,
            }
            gate.notify_one();
            if when == BeforeHead {
                assert_eq!(client.reply().await.status(), 502);
            } else {
                client.rest().await;
            }
            drop(client);
            rig.under_way.connections.empty().await;
            let record = rig.record();
            assert_eq!(
                (record.outcome, record.ttft_ms.is_some()),
                ("upstream_reset", when.ttft().is_some()),
                "{when:?}"
            );
        }
    });
}

fn upstream_ended_cleanly(when: When, at: u64) -> Cell {
    let bad = |outcome| Cell {
        outcome,
        status: when.status(),
        verdict: "bad",
    };
    match when {
        // Without a head there is nothing that could be complete.
        BeforeHead => upstream_broke_off(when, at),
        AfterHead => bad("empty"),
        MidStream => bad("unterminated"),
        AfterFinish | AfterTerminator => finished(when, at).expect("finished"),
    }
}

#[test]
fn a_clean_end_is_judged_by_what_came_before_it() {
    let cut = |way, when: When, at| async move {
        let end = if when == BeforeHead { Step::Fin } else { last_chunk() };
        let (rig, complete) = ended_by_upstream(way, when, at, vec![end]).await;
        assert!(complete);
        rig
    };
    matrix(cut, upstream_ended_cleanly);
}

#[test]
fn the_end_of_a_body_without_framing_is_a_clean_end() {
    let cut = |way, when: When, at| async move {
        let (steps, spent) = when.begun(&send("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n"));
        let plain = [content("x"), finish(), DONE.to_owned()];
        let mut events = plain.iter();
        let mut script: Vec<Step> = steps
            .into_iter()
            .enumerate()
            .map(|(i, step)| {
                if i > 1 && i % 2 == 1 {
                    send(events.next().expect("an event"))
                } else {
                    step
                }
            })
            .collect();
        script.extend([wait(at - spent), Step::Fin]);
        let rig = Rig::configured(way, SLO, vec![script]);
        assert!(rig.client().call(chat()).await.complete);
        rig
    };
    matrix(cut, upstream_ended_cleanly);
}

#[test]
fn what_the_drains_deadline_cuts_is_drained_unless_it_was_finished() {
    let cut = |way, when: When, at| async move {
        let rig = Rig::configured(way, SLO, vec![when.cut(at, [wait(60_000)])]);
        let mut client = rig.client();
        client.send(chat()).await;
        rig.lifecycle.advance(Phase::Draining);
        pass(at - 50).await;
        rig.lifecycle.advance(Phase::Closing);
        pass(50).await;
        assert_eq!(rig.records(), [], "drain waits");
        rig.lifecycle.advance(Phase::Stopped);
        rig.under_way.connections.empty().await;
        rig
    };
    let cell = |when: When, at| {
        finished(when, at).unwrap_or(Cell {
            outcome: "drained",
            status: when.status(),
            verdict: "bad",
        })
    };
    matrix(cut, cell);
}

#[test]
fn what_the_proxys_own_limit_cuts_is_a_timeout_unless_it_was_finished() {
    let cut = |way, when: When, at| async move {
        let config = format!("{SLO}\nupstream: {{ total_timeout: {at}ms }}");
        let rig = Rig::configured(way, &config, vec![when.cut(at, [wait(60_000)])]);
        let reply = rig.client().call(chat()).await;
        assert_eq!(reply.complete, when == BeforeHead);
        rig
    };
    let cell = |when: When, at| {
        finished(when, at).unwrap_or(Cell {
            outcome: "timeout",
            status: when.status().or(Some(504)),
            verdict: "bad",
        })
    };
    matrix(cut, cell);
}
