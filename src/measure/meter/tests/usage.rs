use super::*;

#[test]
fn without_usage_the_events_count() {
    for null_like in [None, Some(output(0))] {
        let mut run = Run::new();
        for i in 0..10 {
            run.on(100 + i, token());
        }
        run.on(110, event(|f| f.usage = null_like));
        run.on(110, done());
        let (r, heard) = run.complete(110);
        assert_eq!((r.tokens.output, r.tokens.source), (10, TokenSource::Events), "{null_like:?}");
        assert_eq!(heard.tokens, 10);
    }
}

#[test]
fn cumulative_usage_in_every_event_is_not_added_up() {
    let mut run = Run::new();
    for n in 1..=3 {
        run.on(100 * n, with(token(), n));
    }
    let (r, heard) = run.complete(300);
    assert_eq!((r.tokens.output, r.tokens.prompt), (3, Some(100)));
    assert_eq!(heard.tokens, 3);
}

#[test]
fn the_last_usage_of_a_choice_wins_and_missing_fields_keep_their_value() {
    // Anthropic: message_start {input 25, output 1}, then message_delta {output 15} and {output 18}.
    let usage = |prompt, output| Usage {
        prompt,
        output: Some(output),
        ..Usage::default()
    };
    let mut start = of(0);
    start.usage = Some(usage(Some(25), 1));
    let mut run = Run::new();
    run.on(10, start);
    for at in [100, 110, 120] {
        run.on(at, token());
    }
    for n in [15, 18] {
        let mut delta = finish(0);
        delta.usage = Some(usage(None, n));
        run.on(130, delta);
    }
    run.on(130, done());
    let (r, _) = run.complete(130);
    assert_eq!((r.tokens.prompt, r.tokens.output, r.tokens.first_event), (Some(25), 18, 1));
    assert_eq!(r.tokens.source, TokenSource::Usage);
}

#[test]
fn usage_from_before_the_tokens_says_nothing_about_them() {
    // The same, cut before the first message_delta.
    let mut run = Run::new();
    run.on(10, with(role(), 1));
    for at in [100, 110, 120] {
        run.on(at, token());
    }
    let (r, _) = run.end(130, Ending::ClientGone);
    assert_eq!((r.tokens.output, r.tokens.source), (3, TokenSource::Events));
    assert_eq!(r.outcome, Outcome::ClientCancelled);
}

#[test]
fn usage_beside_choices_counts_whatever_shape_carries_it() {
    let mut run = Run::new();
    run.on(100, token()).on(200, with(finish(0), 251)).on(201, done());
    let (r, _) = run.complete(201);
    assert_eq!((r.tokens.output, r.tokens.source), (251, TokenSource::Usage));
}

#[test]
fn a_total_in_the_last_token_event_is_not_taken_for_that_events_tokens() {
    let mut run = Run::new();
    for at in [100, 120, 140] {
        run.on(at, token());
    }
    run.on(160, with(token(), 31));
    let (r, heard) = run.complete(160);
    assert_eq!(heard.gaps, [(20, 1), (20, 1), (20, 1)]);
    assert_eq!((r.tokens.output, r.itl_count), (31, 3));
}

#[test]
fn reasoning_tokens_stay_inside_the_output() {
    let mut run = Run::new();
    let mut last = closing(164);
    last.usage = Some(Usage {
        prompt: Some(2_743),
        output: Some(164),
        reasoning: Some(153),
        cached: Some(7),
    });
    run.on(100, token()).on(200, last).on(200, done());
    let (r, _) = run.complete(200);
    let t = r.tokens;
    assert_eq!(
        (t.output, t.reasoning, t.prompt, t.cached),
        (164, Some(153), Some(2_743), Some(7))
    );
}

#[test]
fn one_closing_usage_per_choice_is_added_up() {
    // llama-server with n=2.
    let mut run = Run::new();
    for c in [1, 0, 1, 0] {
        run.on(100, token_on(c, Channel::Text));
    }
    run.on(200, finish(1))
        .on(200, finish(0))
        .on(210, closing(7))
        .on(210, closing(5))
        .on(210, done());
    let (r, heard) = run.complete(210);
    assert_eq!((r.tokens.output, r.tokens.prompt), (12, Some(100)));
    assert_eq!((r.tokens.source, heard.tokens), (TokenSource::Usage, 12));
}

#[test]
fn per_choice_running_usage_and_then_a_total_is_the_total() {
    // vLLM with n=2 and continuous_usage_stats.
    let mut run = Run::new();
    run.on(90, with(of(0), 0)).on(90, with(of(1), 0));
    for n in 1..=3 {
        run.on(100 * n, with(token_on(0, Channel::Text), n));
        run.on(100 * n, with(token_on(1, Channel::Text), 2 * n));
    }
    run.on(310, closing(9)).on(310, done());
    let (r, heard) = run.complete(310);
    assert_eq!((r.tokens.output, r.tokens.prompt), (9, Some(100)));
    assert_eq!(heard.gaps, [(100, 1), (100, 2), (100, 1), (100, 2)]);
    assert_eq!((heard.tokens, r.tokens.source), (9, TokenSource::Usage));
}

#[test]
fn running_usage_of_several_choices_adds_up_without_a_total() {
    let mut run = Run::new();
    run.on(100, with(token_on(0, Channel::Text), 4))
        .on(100, with(token_on(1, Channel::Text), 6));
    let (r, _) = run.end(110, Ending::ClientGone);
    assert_eq!((r.tokens.output, r.tokens.source), (10, TokenSource::Usage));
}

#[test]
fn usage_of_a_choices_less_event_replaces_itself_for_one_choice() {
    let mut run = Run::new();
    run.on(100, token()).on(110, closing(4)).on(120, closing(6)).on(120, done());
    let (r, _) = run.complete(120);
    assert_eq!(r.tokens.output, 6);
}

#[test]
fn the_live_count_never_goes_down() {
    let mut run = Run::new();
    for i in 0..5 {
        run.on(100 + i, token());
    }
    assert_eq!(run.meter.live().output_tokens, 5);
    run.on(110, closing(3)).on(110, done());
    let (r, heard) = run.complete(110);
    assert_eq!(r.tokens.output, 3);
    assert_eq!(heard.tokens, 5);
}

#[test]
fn usage_is_likely_once_expected_or_seen() {
    let mut run = Run::new();
    run.on(100, token());
    assert_eq!(run.meter.likely_source(), TokenSource::Events);
    run.on(110, closing(3));
    assert_eq!(run.meter.likely_source(), TokenSource::Usage);
    let mut asked = Run::new();
    asked.meter.asked(true, Some(1), true);
    assert_eq!(asked.meter.likely_source(), TokenSource::Usage);
    let mut running = Run::new();
    running.on(100, with(token(), 1));
    assert_eq!(running.meter.likely_source(), TokenSource::Usage);
}

#[test]
fn an_absurd_usage_is_not_believed() {
    let mut run = Run::new();
    run.on(100, with(token(), u64::MAX))
        .on(110, closing(u64::MAX))
        .on(110, done());
    let (r, heard) = run.complete(110);
    assert_eq!((r.tokens.output, r.tokens.source), (1, TokenSource::Events));
    assert_eq!(heard.tokens, 1);
}

#[test]
fn usage_per_choice_adds_up_once_though_it_comes_in_two_places() {
    // llama-server completions, n=2: in each finish event, and once more at the end.
    let mut run = Run::new();
    for c in [1, 0] {
        run.on(100, token_on(c, Channel::Text));
    }
    run.on(200, with(finish(1), 7)).on(200, with(finish(0), 5));
    assert_eq!(run.meter.clone().finish(ms(201), Ending::ClientGone, None).tokens.output, 12);
    run.on(210, closing(7)).on(210, closing(5)).on(210, done());
    let (r, _) = run.complete(210);
    assert_eq!((r.tokens.output, r.tokens.source), (12, TokenSource::Usage));
}

#[test]
fn a_closing_usage_that_is_missing_leaves_what_the_events_say() {
    let mut run = Run::new();
    for c in [0, 1, 2, 0, 1, 2] {
        run.on(100, token_on(c, Channel::Text));
    }
    run.on(210, closing(2)).on(210, closing(2));
    let (r, _) = run.end(210, Ending::UpstreamReset);
    assert_eq!((r.tokens.output, r.tokens.source), (6, TokenSource::Events));
}
