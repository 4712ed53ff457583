use super::*;

#[test]
fn a_stream_is_finished_when_every_choice_is_or_by_its_terminal_signal() {
    let mut run = Run::new();
    run.meter.asked(true, Some(2), false);
    run.on(100, token_on(0, Channel::Text)).on(110, finish(0));
    assert!(!run.meter.is_finished(), "the second choice has not even begun");
    run.on(120, token_on(1, Channel::Text));
    assert!(!run.meter.is_finished());
    run.on(130, finish(1));
    assert!(run.meter.is_finished());
    let (r, _) = run.end(140, Ending::ClientGone);
    assert_eq!((r.outcome, r.finish_reason_seen), (Outcome::Ok, true));

    let mut run = Run::new();
    run.on(100, token()).on(110, done());
    let (r, _) = run.end(120, Ending::ClientGone);
    assert_eq!((r.outcome, r.finish_reason_seen), (Outcome::Ok, false));
}

#[test]
fn the_five_ways_to_end_a_stream() {
    let nothing = EventFacts::default;
    let cases: [(&[EventFacts], Outcome); 5] = [
        (&[], Outcome::Unterminated),
        (&[done()], Outcome::Ok),
        (&[role(), done()], Outcome::Ok),
        (&[nothing(), done()], Outcome::Ok),
        (&[finish(0), done()], Outcome::Ok),
    ];
    for (tail, outcome) in cases {
        let mut run = Run::new();
        run.on(100, token());
        for facts in tail {
            run.on(110, *facts);
        }
        let (r, _) = run.complete(120);
        assert_eq!(r.outcome, outcome, "{tail:?}");
    }
}

#[test]
fn only_a_terminal_signal_is_empty() {
    let mut run = Run::new();
    run.on(100, done());
    let (r, _) = run.complete(110);
    assert_eq!((r.outcome, r.ttft_ns(), r.decode()), (Outcome::Empty, None, None));
}

#[test]
fn an_error_event_wins_over_the_terminal_signal_after_it() {
    let error = event(|f| f.error = true);
    for tokens in [0, 5] {
        let mut run = Run::new();
        for i in 0..tokens {
            run.on(100 + i, token());
        }
        run.on(200, error).on(200, done());
        let (r, _) = run.complete(200);
        assert_eq!((r.outcome, r.ttft_ns().is_some()), (Outcome::StreamError, tokens > 0));
    }
}

#[test]
fn an_open_ended_stream_needs_a_clean_end_only() {
    for (ending, outcome) in [
        (Ending::Complete, Outcome::Ok),
        (Ending::ClientGone, Outcome::ClientCancelled),
        (Ending::UpstreamReset, Outcome::UpstreamReset),
    ] {
        let mut run = Run::new();
        run.meter.head(ms(5), 200, ReplyKind::OpenEnded, true);
        run.on(100, token());
        assert_eq!(run.end(110, ending).0.outcome, outcome);
    }
}

#[test]
fn what_could_not_be_read_is_unknown_and_no_failure() {
    let mut run = Run::new();
    run.on(100, token());
    run.meter.unread();
    let (r, _) = run.complete(200);
    assert_eq!((r.outcome, r.read, r.ttft_ns()), (Outcome::Ok, false, Some(100 * MS)));

    let mut run = Run::new();
    run.on(100, event(|f| f.error = true));
    run.meter.unread();
    assert_eq!(run.complete(200).0.outcome, Outcome::StreamError, "what was read stays known");
}

#[test]
fn an_error_status_leaves_a_streaming_request_a_failed_stream() {
    let mut meter = Meter::new(ms(0), ItlBounds::NONE);
    meter.asked(true, None, false);
    meter.head(ms(10), 500, ReplyKind::Whole, false);
    let r = meter.finish(ms(20), Ending::Complete, None);
    assert_eq!(
        (r.outcome, r.streaming, r.status, r.read),
        (Outcome::UpstreamError, true, Some(500), false)
    );
}

#[test]
fn the_proxys_own_reply_has_its_status_but_not_its_verdict() {
    let meter = Meter::new(ms(0), ItlBounds::NONE);
    let r = meter.finish(ms(20), Ending::Unreachable, Some(502));
    assert_eq!(
        (r.outcome, r.status, r.t_head),
        (Outcome::UpstreamUnreachable, Some(502), None)
    );
}

#[test]
fn a_head_that_a_reply_of_the_proxys_own_took_the_place_of_does_not_decide() {
    for (status, own) in [(404, 502), (429, 502), (200, 400)] {
        let mut meter = Meter::new(ms(0), ItlBounds::NONE);
        meter.head(ms(5), status, ReplyKind::Unread, false);
        let r = meter.finish(ms(6), Ending::UpstreamReset, Some(own));
        assert_eq!((r.outcome, r.status), (Outcome::UpstreamReset, Some(own)), "{status}");
    }
}
