use super::*;
use crate::measure::Bound;

#[test]
fn a_request_under_way_is_in_flight_and_gone_afterwards() {
    let proxy = Proxy::new(vec![]);
    let a = proxy.chat();
    let mut b = proxy.chat();
    assert_eq!(
        proxy.series("chat", "other").in_flight,
        2,
        "no reply has confirmed the model yet"
    );
    sse(&mut b, 5);
    assert_eq!(
        (proxy.series("chat", "other").in_flight, proxy.series("chat", "m").in_flight),
        (1, 1)
    );
    drop(a);
    b.finish(ms(10), Ending::Complete);
    assert_eq!(
        (proxy.series("chat", "other").in_flight, proxy.series("chat", "m").in_flight),
        (0, 0)
    );
}

#[test]
fn a_backend_that_hangs_lowers_the_ratio_before_anything_ends() {
    let proxy = Proxy::new(vec![slo(ttft(200))]);
    let x = proxy.chat();
    let at = |now: u64| {
        let snapshot = proxy.observer.snapshot(ms(now));
        let s = snapshot.series.into_iter().find(|s| s.in_flight == 1).unwrap();
        (s.overdue, s.slos[0].windows[0].overdue, s.slos[0].windows[0].ratio())
    };
    assert_eq!(at(200), (vec![(Bound::Ttft, 0)], 0, None));
    assert_eq!(at(201), (vec![(Bound::Ttft, 1)], 1, Some(0.0)));
    drop(x);
}

#[test]
fn a_unary_request_under_way_is_not_past_a_ttft_bound() {
    let proxy = Proxy::new(vec![slo(ttft(200))]);
    let x = proxy.post(CHAT, &[], r#"{"model":"m","stream":false}"#);
    let snapshot = proxy.observer.snapshot(ms(9_000));
    assert!(snapshot.series.iter().all(|s| s.overdue.iter().all(|(_, n)| *n == 0)));
    drop(x);
}

#[test]
fn a_silent_stream_is_stalled_by_its_slos_bound_or_after_ten_seconds() {
    let stalled_at = |slos, now| {
        let proxy = Proxy::new(slos);
        let mut x = proxy.chat();
        sse(&mut x, 5);
        token(&mut x, 100);
        let snapshot = proxy.observer.snapshot(ms(now));
        snapshot.series.iter().map(|s| s.stalled).sum::<u64>()
    };
    assert_eq!((stalled_at(vec![], 10_100), stalled_at(vec![], 10_101)), (0, 1));
    let bounded = || {
        vec![slo(Bounds {
            stall_ns: Some(500 * MS),
            ..Bounds::default()
        })]
    };
    assert_eq!((stalled_at(bounded(), 600), stalled_at(bounded(), 601)), (0, 1));
}

#[test]
fn a_late_first_token_stays_overdue_until_the_end() {
    let proxy = Proxy::new(vec![slo(ttft(200))]);
    let mut x = proxy.chat();
    sse(&mut x, 5);
    token(&mut x, 300);
    token(&mut x, 310);
    let s = |now| {
        let snapshot = proxy.observer.snapshot(ms(now));
        snapshot.series.into_iter().find(|s| &*s.model == "m").unwrap()
    };
    assert_eq!(s(310).overdue, [(Bound::Ttft, 1)]);
    assert_eq!(s(310).output_tokens, [0, 2], "the token counter moves while the stream runs");
    done(&mut x, 320);
    x.finish(ms(320), Ending::Complete);
    let s = s(320);
    assert_eq!((s.overdue, s.slos[0].bad), (vec![(Bound::Ttft, 0)], 1));
    assert_eq!(s.slos[0].sole_violations, [(Bound::Ttft, 1)]);
}
