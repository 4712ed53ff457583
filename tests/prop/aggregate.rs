//! The aggregates against slow, obvious models.

use std::sync::Arc;

use goodput_proxy::aggregate::{
    AtomicHistogram, Budget, Cells, Clock, Histogram, Layout, MAX_STREAMS, QUANTILES, Sketch, Steps, Unit, WindowSetup,
};
use goodput_proxy::measure::Stamp;
use proptest::collection::vec;
use proptest::prelude::*;

/// Nanoseconds over the whole grid and past both of its ends, with runs of equal values.
fn values(most: usize) -> impl Strategy<Value = Vec<u64>> {
    let spread = (0_u32..46, any::<u64>()).prop_map(|(bits, noise)| (1_u64 << bits) | (noise & ((1 << bits) - 1)));
    vec(
        prop_oneof![8 => spread, 1 => Just(0), 1 => Just(200_000_000), 1 => Just(u64::MAX >> 8)],
        0..most,
    )
}

fn layout(edges: &[u64]) -> Arc<Layout> {
    Arc::new(Layout::new(Unit::Nanoseconds, edges.iter().copied()))
}

fn recorded(layout: &Arc<Layout>, values: &[u64]) -> Histogram {
    let mut histogram = Histogram::new(Arc::clone(layout));
    for value in values {
        histogram.record(*value);
    }
    histogram
}

fn merged(a: &Histogram, b: &Histogram) -> Histogram {
    let mut sum = a.clone();
    sum.merge(b);
    sum
}

fn nearest_rank(sorted: &[u64], q: f64) -> usize {
    ((q * sorted.len() as f64 - 1e-9).ceil() as usize).clamp(1, sorted.len())
}

proptest! {
    #[test]
    fn merging_is_associative_and_equals_recording_all(a in values(60), b in values(60), c in values(60)) {
        let layout = layout(&[200_000_000]);
        let [ha, hb, hc] = [&a, &b, &c].map(|v| recorded(&layout, v));
        let left = merged(&merged(&ha, &hb), &hc).snapshot();
        prop_assert_eq!(&left, &merged(&ha, &merged(&hb, &hc)).snapshot());
        prop_assert_eq!(&left, &recorded(&layout, &[a, b, c].concat()).snapshot());
    }

    #[test]
    fn subtracting_a_former_state_leaves_exactly_what_came_since(before in values(80), since in values(80)) {
        let layout = layout(&[200_000_000]);
        let mut histogram = recorded(&layout, &[before.clone(), since.clone()].concat());
        histogram.subtract(&recorded(&layout, &before));
        prop_assert_eq!(histogram.snapshot(), recorded(&layout, &since).snapshot());
    }

    #[test]
    fn classic_counts_equal_a_naive_count(values in values(200), edges in vec(1_u64..1 << 44, 0..40)) {
        let snapshot = recorded(&layout(&edges), &values).snapshot();
        for (i, count) in snapshot.counts.iter().enumerate() {
            let above = i.checked_sub(1).map(|below| snapshot.edges[below]);
            let within = |v: &&u64| above.is_none_or(|a| **v > a) && snapshot.edges.get(i).is_none_or(|e| *v <= e);
            prop_assert_eq!(*count, values.iter().filter(within).count() as u64);
        }
        prop_assert_eq!(snapshot.count, values.len() as u64);
        prop_assert_eq!(snapshot.zero + snapshot.native.iter().map(|(_, n)| n).sum::<u64>(), snapshot.count);
    }

    #[test]
    fn the_native_bucket_is_that_of_the_logarithm(values in values(200), edges in vec(1_u64..1 << 44, 0..8)) {
        let layout = layout(&edges);
        for value in values.into_iter().filter(|v| *v > 0) {
            let exact = (value as f64 / 1e9).log2() * 32.0;
            // At an edge the logarithm rounds; every edge is checked with exact arithmetic where the grid is made.
            if (exact - exact.round()).abs() > 1e-7 {
                let expected = (exact.ceil() as i32).clamp(-640, 417);
                prop_assert_eq!(layout.native(layout.cell(value)), Some(expected), "{}", value);
            }
        }
    }

    #[test]
    fn a_quantile_lies_in_the_cell_of_the_nearest_rank(mut values in values(300), q in 0.0..=1.0) {
        prop_assume!(!values.is_empty());
        let layout = layout(&[200_000_000]);
        let answer = recorded(&layout, &values).quantile(q).expect("there are samples");
        values.sort_unstable();
        let exact = values[nearest_rank(&values, q) - 1].min(8_192_000_000_000);
        prop_assert_eq!(layout.cell(answer), layout.cell(exact));
        if exact > 1_000 {
            prop_assert!(answer.abs_diff(exact) as f64 <= 0.022 * exact as f64 + 1.0, "{} for {}", answer, exact);
        }
    }

    #[test]
    fn an_atomic_histogram_counts_as_a_plain_one_does(values in vec((values(2), 1_u64..5), 0..60)) {
        let layout = layout(&[200_000_000]);
        let (atomic, mut plain) = (AtomicHistogram::new(Arc::clone(&layout)), Histogram::new(layout));
        for (value, n) in values.iter().filter_map(|(v, n)| Some((v.first()?, n))) {
            atomic.record_n(*value, *n);
            (0..*n).for_each(|_| { plain.record(*value); });
        }
        prop_assert_eq!(atomic.snapshot(), plain.snapshot());
    }

    /// Samples and ticks at any times: a window holds every sample after its oldest boundary, once, and that is never outside it.
    #[test]
    fn a_window_counts_every_sample_it_covers_exactly_once(
        events in vec((1_u64..9_000, any::<bool>(), 0_u32..5), 1..400),
        length in 1_000_u64..60_000,
    ) {
        let window = WindowSetup { name: "w".into(), length_ns: length };
        let mut clock = Clock::new(&[window], Stamp::default());
        let mut steps = Steps::new(1);
        let (mut now, mut totals, mut samples) = (0, [0_u64; 5], Vec::new());
        for (wait, is_tick, id) in events {
            now += wait;
            let at = Stamp::from_nanos(now);
            if is_tick {
                let tick = clock.tick(at);
                steps.absorb(&clock, &tick, &cumulative(&totals));
            } else {
                totals[id as usize] += 1;
                samples.push((now, id));
            }
            let mut counted = [0; 5];
            steps.add_window(&clock, 0, at, &cumulative(&totals), &mut counted);
            let covered = clock.covered_ns(0, at);
            prop_assert!(covered <= length);
            let mut expected = [0; 5];
            for (_, id) in samples.iter().filter(|(then, _)| *then > now - covered) {
                expected[*id as usize] += 1;
            }
            prop_assert_eq!(counted, expected);
        }
    }

    /// For as many values as a stream may hold, with some that are equal, and in orders other than none.
    #[test]
    fn a_sketch_answers_with_the_values_at_the_nearest_ranks(
        mut values in vec(prop_oneof![3 => 0_u64..1 << 40, 1 => 0_u64..40], 1..=2_048),
        sorted in 0_usize..=2_048,
    ) {
        let sorted = sorted.min(values.len());
        values[..sorted].sort_unstable();
        let mut sketch = Sketch::new(60, Budget::new(MAX_STREAMS), Stamp::default());
        values.iter().for_each(|v| sketch.insert(*v));
        let (answers, count) = sketch.quantiles(Stamp::default()).expect("within the cap");
        prop_assert_eq!(count, values.len() as u64);
        values.sort_unstable();
        prop_assert_eq!(answers, QUANTILES.map(|q| values[nearest_rank(&values, q) - 1]));
    }
}

fn cumulative(totals: &[u64]) -> Cells {
    (0..).zip(totals.iter().copied()).filter(|(_, n)| *n > 0).collect()
}
