mod ending;
mod usage;

use super::*;
use crate::measure::{Bound, Bounds, Outcome};

const MS: u64 = 1_000_000;

fn ms(t: u64) -> Stamp {
    Stamp::from_nanos(1_000 * MS + t * MS)
}

/// Collects what the meter hands on while it runs.
#[derive(Default)]
struct Heard {
    gaps: Vec<(u64, u64)>,
    tokens: u64,
}

impl GapSink for Heard {
    fn gap(&mut self, gap_ns: u64, tokens: u64) {
        self.gaps.push((gap_ns / MS, tokens));
    }

    fn tokens(&mut self, n: u64) {
        self.tokens += n;
    }
}

/// One stream under test: a 200 head at 5 ms, then events at given milliseconds.
struct Run {
    meter: Meter,
    heard: Heard,
}

impl Run {
    fn new() -> Self {
        Self::watching(ItlBounds::NONE)
    }

    fn watching(itl: ItlBounds) -> Self {
        let mut meter = Meter::new(ms(0), itl);
        meter.asked(true, None, false);
        meter.head(ms(5), 200, ReplyKind::Stream, true);
        Self {
            meter,
            heard: Heard::default(),
        }
    }

    fn on(&mut self, at: u64, facts: EventFacts) -> &mut Self {
        self.meter.byte(ms(at));
        self.meter.event(ms(at), &facts, &mut self.heard);
        self
    }

    fn end(self, at: u64, ending: Ending) -> (Record, Heard) {
        let (mut heard, counted) = (self.heard, self.meter.live().output_tokens);
        let record = self.meter.finish(ms(at), ending, None);
        // As the aggregates do.
        heard.tokens(record.tokens.output.saturating_sub(counted));
        (record, heard)
    }

    fn complete(self, at: u64) -> (Record, Heard) {
        self.end(at, Ending::Complete)
    }
}

fn event(said: impl FnOnce(&mut EventFacts)) -> EventFacts {
    let mut facts = EventFacts::default();
    said(&mut facts);
    facts
}

/// An event that names `choice`.
fn of(choice: u32) -> EventFacts {
    event(|f| (f.choices, f.choice) = (1, choice))
}

fn role() -> EventFacts {
    of(0)
}

fn token_on(choice: u32, channel: Channel) -> EventFacts {
    let mut facts = of(choice);
    facts.fragment(choice, channel);
    facts
}

fn token() -> EventFacts {
    token_on(0, Channel::Text)
}

fn output(n: u64) -> Usage {
    Usage {
        prompt: Some(100),
        output: Some(n),
        ..Usage::default()
    }
}

fn with(mut facts: EventFacts, n: u64) -> EventFacts {
    facts.usage = Some(output(n));
    facts
}

fn finish(choice: u32) -> EventFacts {
    let mut facts = of(choice);
    facts.finish(choice);
    facts
}

fn closing(n: u64) -> EventFacts {
    with(EventFacts::default(), n)
}

fn done() -> EventFacts {
    event(|f| f.terminal = true)
}

#[test]
fn a_role_only_delta_sets_no_ttft() {
    let mut run = Run::new();
    run.on(10, role()).on(500, token()).on(510, done());
    let (r, _) = run.complete(520);
    assert_eq!(r.ttft_ns(), Some(500 * MS));
    assert_eq!(r.ttfb_ns(), Some(10 * MS));
    assert_eq!((r.e2e_ns(), r.outcome), (520 * MS, Outcome::Ok));
}

#[test]
fn reasoning_is_a_token_but_not_a_visible_one() {
    let mut run = Run::new();
    run.on(1_000, token_on(0, Channel::Reasoning)).on(60_000, token());
    let (r, heard) = run.complete(60_000);
    assert_eq!(r.ttft_ns(), Some(1_000 * MS));
    assert_eq!(r.visible_ttft_ns(), Some(60_000 * MS));
    assert_eq!(heard.gaps, [(59_000, 1)]);
}

#[test]
fn tool_calls_alone_give_ttft_and_gaps() {
    let mut run = Run::new();
    for at in [100, 150, 200] {
        run.on(at, token_on(0, Channel::Tool));
    }
    let (r, heard) = run.complete(200);
    assert_eq!((r.ttft_ns(), r.visible_ttft_ns()), (Some(100 * MS), Some(100 * MS)));
    assert_eq!(heard.gaps, [(50, 1), (50, 1)]);
}

#[test]
fn the_first_token_interval_is_no_itl_sample() {
    let mut run = Run::new();
    for at in [500, 520, 540] {
        run.on(at, token());
    }
    let (r, heard) = run.complete(540);
    assert_eq!(heard.gaps, [(20, 1), (20, 1)]);
    assert_eq!((r.itl_count, r.token_events, r.stall_ns), (2, 3, Some(20 * MS)));
}

#[test]
fn events_of_one_read_have_a_gap_of_zero() {
    let mut run = Run::new();
    run.on(100, token()).on(100, token()).on(120, token());
    let (r, heard) = run.complete(120);
    assert_eq!(heard.gaps, [(0, 1), (20, 1)]);
    assert_eq!(r.itl_count, 2);
}

#[test]
fn a_single_token_has_no_tpot_no_itl_and_no_stall() {
    let mut run = Run::new();
    run.on(300, with(token(), 1)).on(900, closing(1)).on(900, done());
    let (r, heard) = run.complete(900);
    assert_eq!(r.ttft_ns(), Some(300 * MS));
    assert_eq!((r.decode(), r.stall_ns, r.itl_count), (None, None, 0));
    assert_eq!(heard.gaps, []);
}

#[test]
fn per_event_usage_turns_one_gap_into_a_sample_a_token() {
    let mut run = Run::new();
    run.on(0, with(role(), 0));
    for (at, n) in [(10, 1), (50, 5), (90, 9)] {
        run.on(at, with(token(), n));
    }
    run.on(90, closing(9)).on(90, done());
    let (r, heard) = run.complete(90);
    assert_eq!(heard.gaps, [(40, 4), (40, 4)]);
    assert_eq!((r.itl_count, r.tokens.output, r.tokens.first_event), (8, 9, 1));
    assert_eq!(r.decode(), Some((80 * MS, 8)));
    assert_eq!(r.tpot_ns(), Some(10 * MS));
    assert_eq!((heard.tokens, r.tokens.source), (9, TokenSource::Usage));
}

#[test]
fn a_first_event_of_several_tokens_leaves_them_out_of_tpot() {
    let mut run = Run::new();
    run.on(100, with(token(), 5));
    for (at, n) in [(110, 6), (120, 7), (130, 8), (140, 9), (150, 10)] {
        run.on(at, with(token(), n));
    }
    let (r, _) = run.complete(150);
    assert_eq!((r.tokens.first_event, r.decode()), (5, Some((50 * MS, 5))));
    assert_eq!(r.tpot_ns(), Some(10 * MS));
}

#[test]
fn tpot_uses_the_total_of_the_closing_usage() {
    // Speculative decoding: 10 events, 31 tokens.
    let mut run = Run::new();
    for i in 0..10 {
        run.on(100 + 30 * i, token());
    }
    run.on(400, closing(31)).on(401, done());
    let (r, heard) = run.complete(402);
    assert_eq!(r.decode(), Some((270 * MS, 30)));
    assert_eq!(r.tpot_ns(), Some(9 * MS));
    assert_eq!((r.tokens.source, r.token_events, r.itl_count), (TokenSource::Usage, 10, 9));
    assert_eq!(r.e2e_ns(), 402 * MS);
    assert_eq!(heard.tokens, 31);
}

#[test]
fn the_worked_example_of_the_contract() {
    // TTFT 500 ms, 100 tokens, 700 ms of decode.
    let mut run = Run::new();
    for i in 0..100 {
        run.meter.event(ms(500).plus(i * 700 * MS / 99), &token(), &mut run.heard);
    }
    run.on(1_200, closing(100)).on(1_200, done());
    let (r, _) = run.complete(1_200);
    assert_eq!(r.ttft_ns(), Some(500 * MS));
    assert_eq!(r.decode(), Some((700 * MS, 99)));
    assert_eq!(r.tpot_ns(), Some(7_070_707));
}

#[test]
fn interleaved_choices_have_gaps_of_their_own_and_one_ttft() {
    let mut run = Run::new();
    run.meter.asked(true, Some(2), false);
    for i in 0..20 {
        run.on(100 + 10 * i, token_on(u32::from(i % 2 == 1), Channel::Text));
    }
    run.on(300, closing(20)).on(300, done());
    let (r, heard) = run.complete(300);
    assert_eq!(heard.gaps, vec![(20, 1); 18]);
    assert_eq!((r.tokens.output, r.ttft_ns(), r.itl_count), (20, Some(100 * MS), 18));
}

#[test]
fn choices_beyond_the_table_count_but_give_no_gaps() {
    let mut run = Run::new();
    for round in 0..2 {
        for c in 0..20 {
            run.on(100 + 10 * round, token_on(c, Channel::Text));
        }
    }
    for c in 0..20 {
        run.on(200, finish(c));
    }
    assert!(!run.meter.is_finished(), "some finish could not be told apart");
    run.on(200, done());
    let (r, heard) = run.complete(200);
    assert_eq!((r.tokens.output, r.token_events), (40, 40));
    assert_eq!(heard.gaps, vec![(10, 1); 16]);
    assert_eq!(r.outcome, Outcome::Ok);
}

#[test]
fn a_unary_reply_has_tokens_and_e2e_only() {
    let mut meter = Meter::new(ms(0), ItlBounds::NONE);
    meter.head(ms(1_900), 200, ReplyKind::Whole, false);
    meter.byte(ms(1_950));
    meter.whole(&output(42), true, false);
    let r = meter.finish(ms(2_000), Ending::Complete, None);
    assert_eq!((r.outcome, r.streaming, r.read), (Outcome::Ok, false, true));
    assert_eq!(
        (r.ttft_ns(), r.visible_ttft_ns(), r.decode(), r.stall_ns),
        (None, None, None, None)
    );
    assert_eq!((r.e2e_ns(), r.ttfb_ns()), (2_000 * MS, Some(1_950 * MS)));
    assert_eq!(
        (r.tokens.output, r.tokens.prompt, r.tokens.source),
        (42, Some(100), TokenSource::Usage)
    );
}

#[test]
fn a_unary_reply_without_usage_holds_at_least_one_token() {
    let mut meter = Meter::new(ms(0), ItlBounds::NONE);
    meter.head(ms(1), 200, ReplyKind::Whole, false);
    meter.whole(&Usage::default(), true, false);
    let r = meter.finish(ms(2), Ending::Complete, None);
    assert_eq!((r.tokens.output, r.tokens.source), (1, TokenSource::Events));
}

#[test]
fn the_meter_never_goes_backwards() {
    let mut run = Run::new();
    run.on(100, token()).on(90, token()).on(110, token());
    run.meter.sent(Stamp::from_nanos(0));
    let (r, heard) = run.complete(50);
    assert_eq!(heard.gaps, [(0, 1), (10, 1)]);
    assert_eq!((r.t_end, r.upload_ns(), r.e2e_ns()), (ms(110), Some(0), 110 * MS));
}

#[test]
fn samples_above_each_watched_bound_are_counted_without_rounding() {
    let itl = ItlBounds {
        ns: [10 * MS, 13 * MS, u64::MAX, u64::MAX],
    };
    let mut run = Run::watching(itl);
    run.on(0, with(token(), 1));
    // 40 ms for 4 tokens is exactly 10 ms each; 40 ms for 3 is 13.33.
    run.on(40, with(token(), 5)).on(80, with(token(), 8)).on(91, with(token(), 9));
    let (r, _) = run.complete(91);
    assert_eq!((r.itl_count, r.itl_over), (8, [4, 3, 0, 0]));
}

#[test]
fn distinct_itl_bounds_of_the_slos_are_watched_in_order() {
    let slo = |ns| crate::measure::Slo {
        name: "s".into(),
        when: crate::measure::Match::default(),
        bounds: Bounds {
            itl_p99_ns: ns,
            ..Bounds::default()
        },
        objective: 0.99,
        undefined: crate::measure::Undefined::Pass,
        client_error: crate::measure::Policy::Exclude,
        cancelled: crate::measure::Policy::Judge,
        header_bounds: None,
    };
    let itl = ItlBounds::of(&[slo(Some(30)), slo(None), slo(Some(10)), slo(Some(30))]);
    assert_eq!(itl.ns, [10, 30, u64::MAX, u64::MAX]);
    assert_eq!(
        (itl.position(30), itl.position(20), itl.position(u64::MAX)),
        (Some(1), None, None)
    );
    assert_eq!(slo(Some(30)).bounds.get(Bound::ItlP99), Some(30));
}
