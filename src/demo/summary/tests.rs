use super::*;
use crate::aggregate::{RequestLabels, SeriesSnapshot, SloSnapshot};

fn histogram(native: &[(i32, u64)], sum: u64) -> HistogramSnapshot {
    HistogramSnapshot {
        native: native.to_vec(),
        sum,
        count: native.iter().map(|(_, n)| n).sum(),
        ..HistogramSnapshot::default()
    }
}

fn series(outcomes: &[(Outcome, u64)], good: u64, tpot: (u64, u64)) -> SeriesSnapshot {
    let labels = |outcome| RequestLabels {
        api: "chat",
        streaming: true,
        outcome,
    };
    let evaluated = outcomes.iter().map(|(_, n)| n).sum::<u64>() - 1;
    SeriesSnapshot {
        requests: outcomes.iter().map(|(o, n)| (labels(*o), *n)).collect(),
        // Index -224 is 2^-7 s, 7.8 ms.
        histograms: Measure::ALL
            .iter()
            .map(|_| histogram(&[(-224, 9), (-32, 1)], 10_000_000_000))
            .collect(),
        output_tokens: [100, 20],
        slos: vec![SloSnapshot {
            slo: "default".into(),
            evaluated,
            good,
            bad: evaluated - good,
            excluded: vec![("cancelled", 1)],
            violations: vec![(Bound::Ttft, 0), (Bound::Tpot, tpot.0)],
            sole_violations: vec![(Bound::Ttft, 0), (Bound::Tpot, tpot.1)],
            windows: Vec::new(),
        }],
        ..SeriesSnapshot::default()
    }
}

fn snapshot() -> Snapshot {
    let one = series(&[(Outcome::Ok, 8), (Outcome::Overloaded, 2)], 5, (3, 2));
    let two = series(&[(Outcome::Ok, 4)], 3, (0, 0));
    Snapshot {
        series: vec![one, two],
        ..Snapshot::default()
    }
}

#[test]
fn series_are_added_up() {
    let judged = Judged::of(&snapshot());
    let broken = vec![(Bound::Ttft, 0, 0), (Bound::Tpot, 3, 2)];
    assert_eq!(
        judged,
        Judged {
            evaluated: 12,
            good: 8,
            excluded: 2,
            broken
        }
    );
    assert_eq!(outcomes(&snapshot()), [(Outcome::Ok, 12), (Outcome::Overloaded, 2)]);
}

#[test]
fn quantiles_are_the_middle_of_the_bucket_at_the_nearest_rank() {
    let at = |q| quantile(&snapshot(), Measure::Itl, q).unwrap();
    assert_eq!(at(0.5), 2_f64.powf(-224.5 / 32.0));
    assert_eq!(at(0.9), 2_f64.powf(-224.5 / 32.0));
    assert_eq!(at(0.91), 2_f64.powf(-32.5 / 32.0));
    assert_eq!(quantile(&Snapshot::default(), Measure::Itl, 0.5), None);
}

#[test]
fn a_tighter_tpot_bound_takes_only_what_it_breaks() {
    let request = |tpot: Option<f64>, broken: &[&'static str]| Finished {
        tpot_ms: tpot,
        evaluated: true,
        ok: true,
        broken: broken.to_vec(),
    };
    let all = [
        request(Some(8.0), &[]),
        request(Some(20.0), &[]),
        request(Some(40.0), &["tpot"]),
        request(None, &[]),
        request(Some(8.0), &["ttft"]),
        Finished {
            ok: false,
            ..request(Some(8.0), &[])
        },
        Finished {
            evaluated: false,
            ..request(Some(8.0), &[])
        },
    ];
    let at = |ms| ratio_with_tpot(&all, ms).unwrap() * 6.0;
    assert_eq!([at(50.0), at(30.0), at(20.0), at(15.0), at(7.0)], [4.0, 3.0, 3.0, 2.0, 1.0]);
    assert_eq!(ratio_with_tpot(&all[6..], 30.0), None);
}

#[test]
fn the_text_names_counts_bounds_and_what_broke() {
    let snapshot = snapshot();
    let facts = Facts {
        snapshot: &snapshot,
        finished: &[],
        bounds: Bounds {
            ttft_ns: Some(500_000_000),
            tpot_ns: Some(30_000_000),
            ..Bounds::default()
        },
        took: Duration::from_secs(2),
        tally: Tally {
            sent: 14,
            complete: 9,
            refused: 2,
            broken: 1,
            left: 2,
            ..Tally::default()
        },
        received: 14,
    };
    let text = render(&facts);
    for line in [
        "2.0 s, 14 requests (7.0/s), 240 output tokens (120/s)",
        "SLO         ttft <= 500 ms, tpot <= 30 ms",
        "goodput     66.7 %: 8 of 12 judged, 4.0 good requests/s; 2 not judged",
        "broken by   ttft 0 (0 alone), tpot 3 (2 alone)",
        "outcomes    ok 12, overloaded 2",
        "cross-check clients sent 14 (9 complete, 2 refused, 1 broken, 2 left), the proxy recorded 14, the engine received 14; \
         clients' mean time to first bytes -",
    ] {
        assert!(text.lines().any(|l| l == line), "no `{line}` in:\n{text}");
    }
    assert!(text.contains("each token waits for the whole batch"));
}

#[test]
fn the_columns_of_the_last_table_are_its_bounds() {
    let facts = Facts {
        snapshot: &Snapshot::default(),
        finished: &[],
        bounds: Bounds::default(),
        took: Duration::from_secs(1),
        tally: Tally::default(),
        received: 0,
    };
    let header: Vec<String> = TIGHTER_MS.iter().map(|ms| format!("{ms} ms")).collect();
    let text = render(&facts);
    let line = text.lines().find(|l| l.starts_with("had TPOT")).unwrap();
    assert_eq!(
        line.split("  ")
            .map(str::trim)
            .filter(|c| !c.is_empty())
            .skip(1)
            .collect::<Vec<_>>(),
        header
    );
}
