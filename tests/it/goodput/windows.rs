//! Rolling goodput: what hangs already counts, windows forget at exact times, and silence is not 0.

use goodput_proxy::aggregate::{Measure, SloWindow};
use goodput_proxy::clock;

use super::super::rig::{Rig, both, chat, chunk, content, sse_head};
use super::{pass, scraped, slo, tokens, value, wait, with};

/// Lets `seconds` pass as a running proxy would, with its ticks.
async fn tick(rig: &Rig, seconds: u64) {
    assert_eq!(rig.observer.tick_every().as_millis(), 1000);
    for _ in 0..seconds {
        pass(1000).await;
        rig.observer.tick(clock::now());
    }
}

/// The windows of SLO `s` on chat/m: evaluated, good, overdue.
fn windows(rig: &Rig) -> [(u64, u64, u64); 3] {
    let series = rig.series("chat", "m");
    let of = |w: &SloWindow| (w.evaluated, w.good, w.overdue);
    let windows = &series.slos[0].windows;
    assert_eq!(windows.iter().map(|w| &*w.window).collect::<Vec<_>>(), ["1m", "5m", "30m"]);
    [of(&windows[0]), of(&windows[1]), of(&windows[2])]
}

#[test]
fn a_request_that_hangs_lowers_the_ratio_before_it_ends_and_is_counted_once_at_its_end() {
    both(|way| async move {
        let hangs = vec![wait(100), sse_head(), wait(50), chunk(content("x")), wait(600_000)];
        let rig = Rig::configured(
            way,
            &with(&["{name: s, ttft: 200ms, e2e: 1s}"]),
            vec![tokens(&[100, 110], 2), hangs],
        );
        let mut client = rig.client();
        assert!(client.call(chat()).await.complete);
        let ratio = |families: &[_]| value(families, "goodput_ratio", &[("model", "m"), ("slo", "s"), ("window", "1m")]);
        assert_eq!(ratio(&scraped(&rig).await), Some(1.0));

        client.send(chat()).await;
        pass(1000).await;
        assert_eq!(
            (windows(&rig)[0], ratio(&scraped(&rig).await)),
            ((1, 1, 0), Some(1.0)),
            "at its bound, not past it"
        );
        pass(1).await;
        assert_eq!((windows(&rig)[0], ratio(&scraped(&rig).await)), ((1, 1, 1), Some(0.5)));
        let counted = slo(&rig, "s");
        assert_eq!(
            (counted.evaluated, counted.good, counted.bad),
            (1, 1, 0),
            "counters move at the end"
        );

        // The good one leaves the window; what hangs does not.
        tick(&rig, 61).await;
        assert_eq!(
            (windows(&rig)[0], ratio(&scraped(&rig).await)),
            ((0, 0, 1), Some(0.0)),
            "goodput 0, not silence"
        );
        assert_eq!(
            value(&scraped(&rig).await, "goodput_rate", &[("model", "m"), ("window", "1m")]),
            Some(0.0)
        );
        drop(client);
        rig.finished(2).await;
        let counted = slo(&rig, "s");
        assert_eq!(
            (counted.evaluated, counted.good, counted.bad),
            (2, 1, 1),
            "impatience: a bound was broken"
        );
        assert_eq!(windows(&rig)[0], (1, 0, 0));
    });
}

#[test]
fn a_backend_that_never_answers_shows_as_goodput_0() {
    both(|way| async move {
        let config = format!("{}\nlabels: {{models: {{allow: [m]}}}}", with(&["{name: s, ttft: 200ms}"]));
        let rig = Rig::configured(way, &config, vec![vec![wait(600_000)]]);
        let mut clients = Vec::new();
        for _ in 0..3 {
            let mut client = rig.client();
            client.send(chat()).await;
            clients.push(client);
        }
        pass(200).await;
        let ratio = |families: &[_]| value(families, "goodput_ratio", &[("model", "m"), ("window", "1m")]);
        assert_eq!(ratio(&scraped(&rig).await), None, "nothing is known yet");
        pass(1).await;
        let scrape = scraped(&rig).await;
        assert_eq!(ratio(&scrape), Some(0.0));
        let gauge = |name, bound| value(&scrape, name, &[("route", "chat"), ("model", "m"), ("bound", bound)]);
        assert_eq!(gauge("goodput_overdue", "ttft"), Some(3.0));
        assert_eq!(
            value(&scrape, "goodput_in_flight", &[("route", "chat"), ("model", "m")]),
            Some(3.0)
        );
        assert_eq!(windows(&rig), [(0, 0, 3); 3]);
    });
}

#[test]
fn an_overdue_request_counts_under_the_first_slo_that_can_still_match() {
    both(|way| async move {
        let slos = [
            "{name: short, when: {output_tokens: \"<3\"}, e2e: 1s}",
            "{name: long, e2e: 3s}",
        ];
        let mut script = vec![sse_head()];
        script.extend((0..4).flat_map(|_| [wait(500), chunk(content("x"))]));
        script.push(wait(600_000));
        let rig = Rig::configured(way, &with(&slos), vec![script]);
        let mut client = rig.client();
        client.send(chat()).await;
        let overdue = || {
            let series = rig.series("chat", "m");
            [0, 1].map(|slo| series.slos[slo].windows[0].overdue)
        };
        // Past 1 s, but it may still become a long one, which has time.
        pass(1100).await;
        assert_eq!(overdue(), [0, 0]);
        pass(1901).await;
        assert_eq!(overdue(), [0, 1], "4 tokens: no longer a short one, and past 3 s");
    });
}

#[test]
fn windows_forget_one_after_the_other_and_an_empty_one_says_nothing() {
    both(|way| async move {
        let rig = Rig::configured(
            way,
            &with(&["{name: s, ttft: 200ms}"]),
            vec![tokens(&[100, 110], 30), tokens(&[300, 310], 2)],
        );
        let mut client = rig.client();
        tick(&rig, 10).await;
        assert!(client.call(chat()).await.complete);
        assert!(client.call(chat()).await.complete);
        assert_eq!(windows(&rig), [(2, 1, 0); 3]);

        let of =
            |families: &[_], name: &str, window: &str| value(families, name, &[("model", "m"), ("slo", "s"), ("window", window)]);
        tick(&rig, 20).await;
        let scrape = scraped(&rig).await;
        for window in ["1m", "5m", "30m"] {
            let covered = 30.42;
            assert_eq!(of(&scrape, "goodput_ratio", window), Some(0.5));
            assert_eq!(of(&scrape, "goodput_rate", window), Some(1.0 / covered));
            assert_eq!(of(&scrape, "goodput_good_tokens_rate", window), Some(30.0 / covered));
        }

        // They came in the 1 m window's step from second 10 on, and in the others' first: each leaves once its start is too old.
        let seen = || windows(&rig).map(|(evaluated, ..)| evaluated > 0);
        let mut now = 30;
        for (second, after) in [
            (70, [false, true, true]),
            (300, [false, false, true]),
            (1800, [false, false, false]),
        ] {
            let before = seen();
            tick(&rig, second - 1 - now).await;
            assert_eq!(seen(), before, "second {second}");
            tick(&rig, 1).await;
            assert_eq!(seen(), after, "second {second}");
            now = second;
        }

        let scrape = scraped(&rig).await;
        for name in [
            "goodput_ratio",
            "goodput_rate",
            "goodput_good_tokens_rate",
            "goodput_rolling_seconds",
        ] {
            let lines = scrape
                .iter()
                .flat_map(|f| &f.samples)
                .filter(|l| l.name == name && l.label("model") == "m");
            assert_eq!(lines.count(), 0, "{name}");
        }
        assert_eq!(
            (slo(&rig, "s").evaluated, slo(&rig, "s").good),
            (2, 1),
            "counters forget nothing"
        );
    });
}

#[test]
fn rolling_quantiles_are_those_of_their_window() {
    both(|way| async move {
        let scripts = (1..=20).map(|i| tokens(&[i * 10, i * 10 + 5], 2)).collect();
        let rig = Rig::new(way, scripts);
        let mut client = rig.client();
        for _ in 0..10 {
            assert!(client.call(chat()).await.complete);
        }
        tick(&rig, 90).await;
        for _ in 0..10 {
            assert!(client.call(chat()).await.complete);
        }
        let quantiles = |measure, window| {
            let series = rig.series("chat", "m");
            let found = series.rolling.iter().find(|r| r.measure == measure && &*r.window == window);
            found.map(|r| (r.quantiles.map(|ns| ns / 1_000_000), r.count))
        };
        assert_eq!(quantiles(Measure::Ttft, "1m"), Some(([150, 190, 200, 200], 10)));
        assert_eq!(quantiles(Measure::Ttft, "5m"), Some(([100, 180, 190, 200], 20)));
        assert_eq!(quantiles(Measure::E2e, "30m"), Some(([105, 185, 195, 205], 20)));
        assert_eq!(quantiles(Measure::Tpot, "1m"), Some(([5; 4], 10)));
    });
}

#[test]
fn throughput_counts_tokens_while_they_come() {
    both(|way| async move {
        let mut script = vec![sse_head()];
        script.extend((0..60).flat_map(|_| [wait(1000), chunk(content("x"))]));
        script.push(wait(600_000));
        let rig = Rig::configured(way, &with(&["{name: s, ttft: 2s}"]), vec![script]);
        let mut client = rig.client();
        client.send(chat()).await;
        pass(500).await;
        tick(&rig, 30).await;
        let rates = rig.series("chat", "m").rates;
        assert_eq!((&*rates[0].window, rates[0].output_tokens, rates[0].requests), ("1m", 30, 0));
        assert_eq!(rates[0].seconds, 30.5);
    });
}
