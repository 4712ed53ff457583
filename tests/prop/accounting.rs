//! Nothing disappears: whatever happens to requests, in whatever order, each becomes exactly one record, and the counts add up.

use std::sync::Arc;

use goodput_proxy::aggregate::Snapshot;
use goodput_proxy::config::Config;
use goodput_proxy::lifecycle::{Lifecycle, Phase};
use goodput_proxy::measure::{
    Bounds, Channel, Degraded, Ending, EventFacts, GapSink, ItlBounds, Match, Meter, Policy, Record, ReplyKind, Slo, Stamp,
    Undefined, Usage,
};
use goodput_proxy::observe::{Exchange, Observer};
use goodput_proxy::wire::{Decoder, EventSink, format_for};
use http::{HeaderMap, HeaderValue, Method, StatusCode};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::Index;

const CHAT: &str = "/v1/chat/completions";

/// What one upstream event may be.
const FRAMES: [&str; 11] = [
    "data: {\"choices\":[{\"index\":0,\"delta\":{\"role\":\"assistant\",\"content\":\"\"}}]}\n\n",
    "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"é\"}}]}\n\n",
    "data: {\"choices\":[{\"index\":1,\"delta\":{\"reasoning_content\":\"x\"}}]}\n\n",
    "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"x\"}}],\"usage\":{\"prompt_tokens\":3,\"completion_tokens\":9}}\r\n\r\n",
    "data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\n",
    "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":3,\"completion_tokens\":40}}\n\n",
    "data: {\"error\":{\"message\":\"t\",\"code\":504}}\n\n",
    "data: [DONE]\n\n",
    ": ping\n\n",
    "data: {\"choices\":[{\n\n",
    "data: null\n\nevent: x\nid: 7\n\n",
];

/// What becomes of a request after its frames.
#[derive(Clone, Copy, Debug)]
enum End {
    Wire(Ending),
    Answered(u16, Ending),
    Dropped,
}

fn ends() -> impl Strategy<Value = End> {
    prop_oneof![
        4 => Just(End::Wire(Ending::Complete)),
        1 => Just(End::Wire(Ending::UpstreamReset)),
        1 => Just(End::Wire(Ending::ClientGone)),
        1 => Just(End::Wire(Ending::Timeout)),
        1 => Just(End::Wire(Ending::Drained)),
        1 => Just(End::Answered(502, Ending::Unreachable)),
        1 => Just(End::Answered(400, Ending::Rejected)),
        1 => Just(End::Answered(504, Ending::Timeout)),
        2 => Just(End::Dropped),
    ]
}

#[derive(Clone, Debug)]
struct Script {
    streaming: bool,
    status: Option<u16>,
    frames: Vec<usize>,
    end: End,
    /// Further endings that must change nothing.
    again: bool,
}

fn scripts() -> impl Strategy<Value = Vec<Script>> {
    let status = prop_oneof![
        1 => Just(None),
        8 => Just(Some(200)),
        3 => prop::sample::select(vec![101_u16, 204, 307, 400, 404, 408, 429, 500, 503, 504]).prop_map(Some),
    ];
    let script = (any::<bool>(), status, vec(0..FRAMES.len(), 0..8), ends(), any::<bool>());
    let script = script.prop_map(|(streaming, status, frames, end, again)| Script {
        streaming,
        status,
        frames,
        end,
        again,
    });
    vec(script, 1..8)
}

/// One request on its way through its script: request, head, frames, end.
struct Running {
    exchange: Option<Exchange>,
    script: Script,
    step: usize,
}

impl Running {
    fn is_open(&self) -> bool {
        self.exchange.is_some()
    }

    fn advance(&mut self, at: Stamp) {
        let step = self.step;
        self.step += 1;
        let Some(mut exchange) = self.exchange.take() else { return };
        let Script {
            streaming,
            status,
            frames,
            end,
            again,
        } = &self.script;
        let frames: &[usize] = if status.is_some() { frames } else { &[] };
        match (step, status) {
            (0, _) => {
                let tap = exchange.request_tap();
                tap.attempt();
                tap.chunk(format!(r#"{{"model":"m","n":2,"stream":{streaming}}}"#).as_bytes());
                tap.sent(at);
            }
            (1, Some(status)) => {
                let mut headers = HeaderMap::new();
                let kind = if *streaming { "text/event-stream" } else { "application/json" };
                headers.insert("content-type", HeaderValue::from_static(kind));
                exchange.head(at, StatusCode::from_u16(*status).expect("a status"), &headers);
            }
            (1, None) => {}
            (n, _) if n < 2 + frames.len() => exchange.chunk(at, FRAMES[frames[n - 2]].as_bytes()),
            _ => {
                match *end {
                    End::Wire(ending) => exchange.finish(at, ending),
                    End::Answered(status, ending) => {
                        exchange.answered(at, StatusCode::from_u16(status).expect("a status"), ending);
                    }
                    End::Dropped => {}
                }
                if *again && !matches!(end, End::Dropped) {
                    exchange.finish(at, Ending::Complete);
                    exchange.chunk(at, FRAMES[1].as_bytes());
                }
                return;
            }
        }
        self.exchange = Some(exchange);
    }
}

fn slo() -> Slo {
    Slo {
        name: "all".into(),
        when: Match::default(),
        bounds: Bounds {
            ttft_ns: Some(30),
            tpot_ns: Some(10),
            itl_p99_ns: Some(15),
            stall_ns: Some(20),
            e2e_ns: Some(80),
        },
        objective: 0.99,
        undefined: Undefined::Pass,
        client_error: Policy::Exclude,
        cancelled: Policy::Judge,
        header_bounds: None,
    }
}

fn observer(lifecycle: &Lifecycle, undefined: Undefined) -> Arc<Observer> {
    let mut config = Config::default();
    config.routes.retain(|r| ["chat", "other"].contains(&&*r.name));
    config.routes[0].slos = vec![Slo { undefined, ..slo() }];
    Observer::new(&config, lifecycle.watch())
}

/// Requests, evaluated, good, bad, excluded, in flight, overdue: over all series.
fn totals(snapshot: &Snapshot) -> [u64; 7] {
    let mut sum = [0; 7];
    for s in &snapshot.series {
        sum[0] += s.requests.iter().map(|(_, n)| n).sum::<u64>();
        for slo in &s.slos {
            sum[1] += slo.evaluated;
            sum[2] += slo.good;
            sum[3] += slo.bad;
            sum[4] += slo.excluded.iter().map(|(_, n)| n).sum::<u64>();
            sum[6] += slo.windows[0].overdue;
        }
        sum[5] += s.in_flight;
    }
    sum
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn every_request_ends_in_exactly_one_record_and_the_counts_add_up(
        scripts in scripts(),
        order in vec(any::<Index>(), 0..60),
        drain_at in 0_usize..80,
        undefined in prop::sample::select(vec![Undefined::Pass, Undefined::Fail, Undefined::Exclude]),
    ) {
        let lifecycle = Lifecycle::new();
        let observer = observer(&lifecycle, undefined);
        let accepted = scripts.len() as u64;
        let mut running: Vec<_> = scripts
            .into_iter()
            .map(|script| Running {
                exchange: Some(observer.begin(Stamp::from_nanos(0), &Method::POST, CHAT, &HeaderMap::new())),
                script,
                step: 0,
            })
            .collect();
        for (i, index) in order.iter().enumerate() {
            if i == drain_at {
                lifecycle.advance(Phase::Stopped);
            }
            let at = Stamp::from_nanos(10 * i as u64);
            let n = index.index(running.len());
            running[n].advance(at);
            let open = running.iter().filter(|r| r.is_open()).count() as u64;
            let [requests, evaluated, good, bad, excluded, in_flight, overdue] = totals(&observer.snapshot(at));
            prop_assert_eq!(in_flight, open);
            prop_assert_eq!(requests + open, accepted);
            prop_assert_eq!(good + bad, evaluated);
            prop_assert_eq!(evaluated + excluded, requests);
            prop_assert!(overdue <= open);
        }
        // What is left is dropped by whoever held it.
        drop(running);
        let [requests, evaluated, good, bad, excluded, in_flight, overdue] = totals(&observer.snapshot(Stamp::from_nanos(1_000)));
        prop_assert_eq!(requests, accepted);
        prop_assert_eq!(observer.recent(usize::MAX).len() as u64, accepted);
        prop_assert_eq!(good + bad, evaluated);
        prop_assert_eq!(evaluated + excluded, accepted);
        prop_assert_eq!((in_flight, overdue), (0, 0));
    }

    #[test]
    fn any_split_of_a_stream_gives_the_same_record(
        frames in vec(0..FRAMES.len(), 0..12),
        cuts in vec(any::<Index>(), 0..40),
    ) {
        // Each event's bytes share a time; the cuts fall within events, so no event's completing read changes its time.
        let timed: Vec<(u64, &[u8])> =
            frames.iter().enumerate().map(|(i, f)| (10 * i as u64, FRAMES[*f].as_bytes())).collect();
        let whole = read(timed.iter().copied());
        let mut pieces = timed.clone();
        for cut in cuts {
            if pieces.is_empty() {
                break;
            }
            let at = cut.index(pieces.len());
            let (t, bytes) = pieces[at];
            let (a, b) = bytes.split_at(cut.index(bytes.len() + 1));
            pieces.splice(at..=at, [(t, a), (t, b)]);
        }
        prop_assert_eq!(&whole, &read(pieces.into_iter()));
        let bytewise = timed.iter().flat_map(|(t, bytes)| bytes.chunks(1).map(|b| (*t, b)));
        prop_assert_eq!(&whole, &read(bytewise));
    }

    #[test]
    fn the_meter_never_goes_backwards(events in vec((0_u64..200, event()), 0..60), t0 in 0_u64..50, end in 0_u64..200) {
        let itl = ItlBounds { ns: [5, 10, 20, u64::MAX] };
        let mut meter = Meter::new(Stamp::from_nanos(t0), itl);
        meter.head(Stamp::from_nanos(0), 200, ReplyKind::Stream, true);
        let mut heard = Heard::default();
        let mut counted = 0;
        for (at, facts) in &events {
            meter.event(Stamp::from_nanos(*at), facts, &mut heard);
            let now = meter.live().output_tokens;
            prop_assert!(now >= counted, "the live count fell from {} to {}", counted, now);
            counted = now;
        }
        prop_assert_eq!(counted, heard.tokens);
        let r = meter.finish(Stamp::from_nanos(end), Ending::Complete, None);
        prop_assert!(r.t_end >= r.t0);
        if let (Some(first), Some(last)) = (r.t_first, r.t_last) {
            prop_assert!(r.t0 <= first && first <= last && last <= r.t_end);
            prop_assert!(r.t_visible.is_none_or(|v| first <= v && v <= last));
        }
        prop_assert_eq!(r.itl_count, heard.samples);
        prop_assert_eq!(r.stall_ns, heard.largest);
        prop_assert!(r.itl_over.iter().all(|over| *over <= r.itl_count));
        prop_assert!(r.itl_over[0] >= r.itl_over[1] && r.itl_over[1] >= r.itl_over[2]);
        // Gaps of one choice do not overlap, and there are three.
        prop_assert!(heard.sum <= 3 * r.t_last.map_or(0, |l| l.since(r.t0)));
        prop_assert!(r.tokens.first_event >= 1);
    }
}

/// What a meter handed on.
#[derive(Default)]
struct Heard {
    tokens: u64,
    samples: u64,
    sum: u64,
    largest: Option<u64>,
}

impl GapSink for Heard {
    fn gap(&mut self, gap_ns: u64, tokens: u64) {
        self.samples += tokens;
        self.sum += gap_ns;
        self.largest = self.largest.max(Some(gap_ns));
    }

    fn tokens(&mut self, n: u64) {
        self.tokens += n;
    }
}

/// An arbitrary event of up to three choices.
fn event() -> impl Strategy<Value = EventFacts> {
    let channel = prop::sample::select(vec![Channel::Text, Channel::Reasoning, Channel::Tool]);
    let usage = prop::option::of(prop_oneof![0_u64..50, Just(u64::MAX)]);
    (0_u32..3, vec((0_u32..3, channel), 0..3), usage, any::<bool>(), any::<bool>()).prop_map(
        |(choices, fragments, output, finish, terminal)| {
            let mut facts = EventFacts::default();
            facts.choices = choices;
            for (choice, channel) in fragments {
                facts.choice = choice;
                facts.fragment(choice, channel);
                if finish {
                    facts.finish(choice);
                }
            }
            facts.terminal = terminal;
            facts.usage = output.map(|n| Usage {
                output: Some(n),
                ..Usage::default()
            });
            facts
        },
    )
}

/// A decoder's events into a meter.
struct Metered(Meter, Vec<Degraded>);

impl EventSink for Metered {
    fn event(&mut self, at: Stamp, facts: &EventFacts) {
        self.0.event(at, facts, &mut ());
    }

    fn model(&mut self, _name: &str) {}

    fn degraded(&mut self, why: Degraded) {
        self.1.push(why);
    }
}

/// The record of a chat stream that arrived in these reads.
fn read<'a>(reads: impl Iterator<Item = (u64, &'a [u8])>) -> (Record, Vec<Degraded>) {
    let mut meter = Meter::new(Stamp::from_nanos(0), ItlBounds::of(&[slo()]));
    meter.asked(true, Some(2), false);
    meter.head(Stamp::from_nanos(0), 200, ReplyKind::Stream, true);
    let mut decoder = Decoder::new(format_for(CHAT), Some("text/event-stream"), None, Some(true));
    let mut sink = Metered(meter, Vec::new());
    for (at, bytes) in reads {
        sink.0.byte(Stamp::from_nanos(at));
        decoder.feed(Stamp::from_nanos(at), bytes, &mut sink);
    }
    decoder.finish(Stamp::from_nanos(500), &mut sink);
    (sink.0.finish(Stamp::from_nanos(500), Ending::Complete, None), sink.1)
}
