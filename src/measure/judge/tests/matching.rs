use super::*;

#[test]
fn the_first_slo_that_matches_decides() {
    let short = Slo {
        when: Match {
            output_tokens: Some(0..=299),
            ..Match::default()
        },
        ..slo(only(Bound::E2e, MS))
    };
    let slos = [short, slo(only(Bound::E2e, 10_000 * MS))];
    let by = |r: &Record| judge(r, &Asked::default(), &slos, &ItlBounds::NONE).unwrap();
    let mut r = record();
    r.tokens.output = 299;
    assert_eq!(
        by(&r),
        Verdict {
            slo: 0,
            judgement: broke(&[Bound::E2e])
        }
    );
    r.tokens.output = 300;
    assert_eq!(
        by(&r),
        Verdict {
            slo: 1,
            judgement: Judgement::Good
        }
    );
}

#[test]
fn every_condition_of_a_match_must_hold() {
    let when = |change: fn(&mut Match)| {
        let mut when = Match::default();
        change(&mut when);
        [Slo {
            when,
            ..slo(Bounds::default())
        }]
    };
    let asked = Asked {
        model: Some("meta/llama-3"),
        tenant: Some("a"),
        headers: &[true],
        bounds: AskedBounds::default(),
    };
    let matches = |change, asked: &Asked<'_>| judge(&record(), asked, &when(change), &ItlBounds::NONE).is_some();
    assert!(matches(|w| w.model = Some("meta/*".into()), &asked));
    assert!(!matches(|w| w.model = Some("mistral*".into()), &asked));
    assert!(!matches(|w| w.model = Some("*".into()), &Asked::default()), "no model named");
    assert!(matches(|w| w.tenant = Some("a".into()), &asked));
    assert!(!matches(|w| w.tenant = Some("b".into()), &asked));
    assert!(matches(|w| w.header = Some(("x-tier".into(), "gold".into())), &asked));
    assert!(!matches(
        |w| w.header = Some(("x-tier".into(), "gold".into())),
        &Asked::default()
    ));
    assert!(matches(|w| w.streaming = Some(true), &asked));
    assert!(!matches(|w| w.streaming = Some(false), &asked));
    assert!(matches(|w| w.prompt_tokens = Some(100..=100), &asked));
    assert!(!matches(|w| w.prompt_tokens = Some(101..=u64::MAX), &asked));
    assert!(matches(|w| w.output_tokens = Some(11..=11), &asked));
}

#[test]
fn unknown_token_counts_match_no_range_but_a_failure_has_no_output() {
    let by_output = [Slo {
        when: Match {
            output_tokens: Some(0..=299),
            ..Match::default()
        },
        ..slo(Bounds::default())
    }];
    let judged = |r: &Record| judge(r, &Asked::default(), &by_output, &ItlBounds::NONE).is_some();
    let mut r = record();
    r.read = false;
    assert!(!judged(&r), "an unread reply may hold any number");
    r.outcome = Outcome::UpstreamError;
    assert!(judged(&r), "errors do not slip past the conditions");
    let mut r = record();
    r.tokens.prompt = None;
    let by_prompt = [Slo {
        when: Match {
            prompt_tokens: Some(0..=u64::MAX),
            ..Match::default()
        },
        ..slo(Bounds::default())
    }];
    assert_eq!(judge(&r, &Asked::default(), &by_prompt, &ItlBounds::NONE), None);
}

#[test]
fn a_request_brings_its_own_bounds_only_where_allowed_and_within_the_range() {
    let asked = AskedBounds {
        ttft_ns: Some(50 * MS),
        tpot_ns: Some(900 * MS),
    };
    let own = slo(only(Bound::Ttft, 200 * MS));
    assert_eq!(effective(&own, &asked), own.bounds);
    let open = Slo {
        header_bounds: Some(HeaderBounds {
            min_ns: 100 * MS,
            max_ns: 500 * MS,
        }),
        ..own
    };
    let bounds = effective(&open, &asked);
    assert_eq!((bounds.ttft_ns, bounds.tpot_ns), (Some(100 * MS), Some(500 * MS)));
    assert_eq!(effective(&open, &AskedBounds::default()), open.bounds);
}

fn live(t_first: Option<u64>, t_last: Option<u64>) -> Live {
    Live {
        t0: ms(0),
        t_first: t_first.map(ms),
        t_last: t_last.map(ms),
        stall_ns: None,
        streaming: true,
        output_tokens: 10,
    }
}

fn overdue_at(now: u64, live: &Live, slos: &[Slo]) -> Option<Overdue> {
    overdue(ms(now), live, &Asked::default(), slos)
}

#[test]
fn a_request_under_way_is_overdue_once_it_can_no_longer_be_good() {
    let late = |bound| {
        Some(Overdue {
            slo: 0,
            broken: [bound].into_iter().collect(),
        })
    };
    let ttft = [slo(only(Bound::Ttft, 200 * MS))];
    assert_eq!(overdue_at(200, &live(None, None), &ttft), None);
    assert_eq!(overdue_at(201, &live(None, None), &ttft), late(Bound::Ttft));
    assert_eq!(overdue_at(900, &live(Some(200), Some(200)), &ttft), None);
    assert_eq!(overdue_at(900, &live(Some(201), Some(201)), &ttft), late(Bound::Ttft));
    let unary = Live {
        streaming: false,
        ..live(None, None)
    };
    assert_eq!(overdue_at(900, &unary, &ttft), None, "a unary reply has no TTFT");
    let stall = [slo(only(Bound::Stall, 100 * MS))];
    assert_eq!(overdue_at(300, &live(Some(100), Some(200)), &stall), None);
    assert_eq!(overdue_at(301, &live(Some(100), Some(200)), &stall), late(Bound::Stall));
    let was_silent = Live {
        stall_ns: Some(101 * MS),
        ..live(Some(100), Some(300))
    };
    assert_eq!(overdue_at(300, &was_silent, &stall), late(Bound::Stall));
    let e2e = [slo(only(Bound::E2e, 500 * MS))];
    assert_eq!(overdue_at(500, &unary, &e2e), None);
    assert_eq!(overdue_at(501, &unary, &e2e), late(Bound::E2e));
    let tpot = [slo(only(Bound::Tpot, 1))];
    assert_eq!(
        overdue_at(9_000, &live(Some(1), Some(2)), &tpot),
        None,
        "known at the end only"
    );
}

#[test]
fn a_request_is_not_overdue_while_an_slo_that_can_still_match_is_met() {
    let short = Slo {
        when: Match {
            output_tokens: Some(0..=9),
            ..Match::default()
        },
        ..slo(only(Bound::E2e, 100 * MS))
    };
    let medium = Slo {
        when: Match {
            output_tokens: Some(10..=299),
            ..Match::default()
        },
        ..slo(only(Bound::E2e, 200 * MS))
    };
    let slos = [short, medium, slo(only(Bound::E2e, 1_000 * MS))];
    // 10 tokens so far: `short` is out of the question, `medium` may still be exceeded.
    assert_eq!(overdue_at(900, &live(Some(50), Some(900)), &slos), None);
    let over = overdue_at(1_001, &live(Some(50), Some(900)), &slos).unwrap();
    assert_eq!((over.slo, over.broken.only()), (1, Some(Bound::E2e)));
    assert_eq!(
        overdue_at(201, &live(Some(50), Some(200)), &slos[..2]).map(|o| o.slo),
        Some(1),
        "with nothing after them, the open ones are all there is"
    );
}

#[test]
fn a_request_that_no_slo_is_for_is_never_overdue() {
    let other = [Slo {
        when: Match {
            model: Some("other".into()),
            ..Match::default()
        },
        ..slo(only(Bound::E2e, 1))
    }];
    assert_eq!(overdue_at(9_000, &live(None, None), &other), None);
    assert_eq!(judge(&record(), &Asked::default(), &other, &ItlBounds::NONE), None);
}
