//! New routes and SLOs while streams run: nothing counted is lost, nothing falls.

use super::*;

fn with_slos(slos: Vec<Slo>) -> Setup {
    let mut setup = setup();
    setup.routes[0].slos = slos;
    setup
}

fn ttft(name: &str, ms: u64) -> Slo {
    slo(
        name,
        Bounds {
            ttft_ns: Some(ms * MS),
            ..Bounds::default()
        },
    )
}

fn chat(aggregates: &Aggregates, now: Stamp) -> SeriesSnapshot {
    let snapshot = aggregates.snapshot(now, |_| InFlight::default());
    snapshot.series.into_iter().find(|s| &*s.model == "m").unwrap()
}

fn named<'a>(series: &'a SeriesSnapshot, slo: &str) -> &'a SloSnapshot {
    series.slos.iter().find(|s| &*s.slo == slo).unwrap()
}

fn buckets(series: &SeriesSnapshot, measure: Measure) -> Vec<(u64, u64)> {
    let h = &series.histograms[measure.index()];
    let mut upto = 0;
    let cumulative = h.edges.iter().zip(&h.counts).map(|(edge, n)| {
        upto += n;
        (*edge, upto)
    });
    cumulative.collect()
}

#[test]
fn counts_move_to_the_new_edges_and_every_common_edge_stays_exact() {
    let aggregates = aggregates();
    let series = aggregates.series(0, Some("m"), None, true);
    for ms in [90, 150, 201, 700] {
        series.apply(&finished(&record(ms, 10, 5), Judgement::Good));
    }
    (0..8).for_each(|_| series.gaps(10 * MS, 2, 1));
    aggregates.tick(at(6));
    series.apply(&finished(&record(90, 10, 5), bad(&[Bound::Tpot])));
    let before = chat(&aggregates, at(7));

    aggregates
        .reconfigure(&with_slos(vec![ttft("new", 300), ttft("fast", 333)]))
        .unwrap();
    let after = chat(&aggregates, at(7));
    for measure in Measure::ALL {
        let (old, new) = (&before.histograms[measure.index()], &after.histograms[measure.index()]);
        assert_eq!(
            (old.count, old.sum, &old.native),
            (new.count, new.sum, &new.native),
            "{measure:?}"
        );
        let old = buckets(&before, measure);
        for (edge, upto) in buckets(&after, measure) {
            if let Some((_, was)) = old.iter().find(|(e, _)| *e == edge) {
                assert_eq!(upto, *was, "{measure:?} up to {edge}");
            }
        }
    }
    assert!(buckets(&after, Measure::Ttft).iter().any(|(edge, _)| *edge == 333 * MS));
    assert_eq!(
        (before.requests.clone(), before.output_tokens, before.good_tokens),
        (after.requests.clone(), after.output_tokens, after.good_tokens)
    );
    let (old, new) = (named(&before, "fast"), named(&after, "fast"));
    assert_eq!((old.good, old.bad), (4, 1));
    assert_eq!((new.good, new.bad, new.evaluated), (4, 1, 5));
    assert_eq!(new.violations, [(Bound::Ttft, 0), (Bound::Tpot, 1)]);
    assert_eq!((named(&after, "new").evaluated, after.slos.len()), (0, 2));
    for (old, new) in old.windows.iter().zip(&new.windows) {
        assert_eq!((old.evaluated, old.good), (new.evaluated, new.good), "{}", old.window);
    }
    assert_eq!(new.windows[0].evaluated, 5);
    let rolling = |s: &SeriesSnapshot| {
        s.rolling
            .iter()
            .map(|r| (r.measure, r.quantiles, r.count))
            .collect::<Vec<_>>()
    };
    assert_eq!(rolling(&before), rolling(&after));
}

#[test]
fn what_began_before_is_counted_after() {
    let aggregates = aggregates();
    let series = aggregates.series(0, Some("m"), None, true);
    series.gaps(10 * MS, 1, 1);
    aggregates.reconfigure(&with_slos(vec![ttft("fast", 50)])).unwrap();
    aggregates.reconfigure(&with_slos(vec![ttft("fast", 60)])).unwrap();
    assert_eq!(
        lock(&aggregates.registry).replaced.len(),
        6,
        "`unknown`, `other` and `m`, twice"
    );
    series.gaps(20 * MS, 3, 1);
    series.tokens(4);
    series.tokens_from(4, TokenSource::Events);
    let of = |s: &SeriesSnapshot| (s.histograms[Measure::Itl.index()].count, s.output_tokens[1]);
    assert_eq!(of(&chat(&aggregates, at(2))), (4, 4));
    series.apply(&Finished {
        tokens_counted: 4,
        tokens_shown: 4,
        ..finished(&record(40, 10, 6), Judgement::Good)
    });
    series.gaps(30 * MS, 1, 1);
    let current = series.current();
    drop(series);
    let after = chat(&aggregates, at(3));
    assert_eq!((of(&after), after.output_tokens[0]), ((5, 4), 2));
    assert_eq!(named(&after, "fast").good, 1);
    assert!(
        lock(&aggregates.registry).replaced.is_empty(),
        "nobody can record there any more"
    );
    assert!(Arc::ptr_eq(&current, &aggregates.series(0, Some("m"), None, true)));
}

#[test]
fn routes_and_slos_keep_their_places_and_the_removed_their_counts() {
    let aggregates = aggregates();
    let series = aggregates.series(0, Some("m"), None, true);
    series.apply(&finished(&record(90, 10, 5), Judgement::Good));
    let mut new = with_slos(vec![ttft("b", 1), ttft("a", 2)]);
    new.routes.swap(0, 1);
    new.routes.insert(
        0,
        RouteSetup {
            name: "mine".into(),
            ..new.routes[0].clone()
        },
    );
    let slot = |route, slos: &[usize]| RouteSlot {
        route,
        slos: slos.to_vec(),
    };
    assert_eq!(
        aggregates.reconfigure(&new),
        Ok(vec![slot(2, &[]), slot(1, &[]), slot(0, &[1, 2])])
    );
    assert_eq!(named(&chat(&aggregates, at(2)), "fast").good, 1);
    new.routes.truncate(1);
    aggregates.reconfigure(&new).unwrap();
    assert_eq!(named(&chat(&aggregates, at(2)), "fast").good, 1);
}

#[test]
fn the_same_setup_again_replaces_nothing() {
    let aggregates = aggregates();
    let series = aggregates.series(0, Some("m"), None, true);
    let mut same = setup();
    same.routes[0].slos[0].objective = 0.5;
    aggregates.reconfigure(&same).unwrap();
    assert!(Arc::ptr_eq(&series, &series.current()));
    assert!(lock(&aggregates.registry).replaced.is_empty());
}

#[test]
fn too_many_names_are_refused_and_change_nothing() {
    let aggregates = aggregates();
    let slos = |from: usize| (from..from + 64).map(|i| ttft(&format!("slo-{i}"), 7)).collect::<Vec<_>>();
    aggregates.reconfigure(&with_slos(slos(0))).unwrap();
    assert_eq!(aggregates.reconfigure(&with_slos(slos(64))), Err(Full::Slos));
    let mut routes = setup();
    let of = routes.routes[1].clone();
    routes.routes.extend((0..255).map(|i| RouteSetup {
        name: format!("route-{i}").into(),
        ..of.clone()
    }));
    assert_eq!(aggregates.reconfigure(&routes), Err(Full::Routes));
    routes.routes.pop();
    assert_eq!(aggregates.reconfigure(&routes).map(|slots| slots.len()), Ok(256));
}
