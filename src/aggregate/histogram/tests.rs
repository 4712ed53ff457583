use super::super::grid::Unit;
use super::*;

const MS: u64 = 1_000_000;

fn layout() -> Arc<Layout> {
    Arc::new(Layout::new(Unit::Nanoseconds, [100 * MS, 200 * MS]))
}

#[test]
fn the_rank_is_the_ceiling() {
    for (q, n, rank) in [
        (0.5, 1, 1),
        (0.99, 1, 1),
        (0.99, 100, 99),
        (0.99, 101, 100),
        (0.9, 10, 9),
        (0.95, 20, 19),
        (0.5, 2, 1),
        (1.0, 7, 7),
    ] {
        assert_eq!(nearest_rank(q, n), Some(rank), "ceil({q} * {n})");
    }
    assert_eq!(nearest_rank(0.5, 0), None);
}

#[test]
fn of_one_sample_every_quantile_is_the_same_and_within_its_cell() {
    let mut h = Histogram::new(layout());
    h.record(500 * MS);
    assert_eq!(h.quantile(0.5), h.quantile(0.99));
    let value = h.quantile(0.5).unwrap();
    assert!(value.abs_diff(500 * MS) < 6 * MS, "{value}");
}

#[test]
fn p99_of_101_samples_is_the_100th() {
    let mut h = Histogram::new(layout());
    (0..99).for_each(|_| {
        h.record(10 * MS);
    });
    h.record(1000 * MS);
    h.record(9000 * MS);
    let p99 = h.quantile(0.99).unwrap();
    assert!(p99.abs_diff(1000 * MS) < 12 * MS, "{p99}");
}

#[test]
fn an_empty_histogram_has_no_quantile() {
    assert_eq!(Histogram::new(layout()).quantile(0.5), None);
}

#[test]
fn a_quantile_never_crosses_a_classic_edge() {
    let mut h = Histogram::new(layout());
    h.record(200 * MS);
    assert!(h.quantile(0.5).unwrap() <= 200 * MS);
    let mut h = Histogram::new(layout());
    h.record(200 * MS + 1);
    assert!(h.quantile(0.5).unwrap() > 200 * MS);
}

#[test]
fn subtracting_a_former_state_leaves_what_came_since() {
    let mut h = Histogram::new(layout());
    h.record(150 * MS);
    let earlier = h.clone();
    h.record(20 * MS);
    h.subtract(&earlier);
    assert_eq!((h.count(), h.sum()), (1, 20 * MS));
}

#[test]
fn saturated_values_are_counted() {
    let mut h = Histogram::new(layout());
    for value in [0, 1, 20_000_000 * MS, u64::MAX] {
        h.record(value);
    }
    assert_eq!(h.count(), 4);
    assert_eq!(h.quantile(1.0), Some(8_192_000 * MS));
    assert_eq!(h.quantile(0.25), Some(0));
}

#[test]
fn an_atomic_histogram_holds_what_a_plain_one_would() {
    let (atomic, mut plain) = (AtomicHistogram::new(layout()), Histogram::new(layout()));
    for value in [0, 3, 5 * MS, 5 * MS, 200 * MS, 70_000 * MS] {
        atomic.record(value);
        plain.record(value);
    }
    let (mut a, mut b) = (Cells::new(), Cells::new());
    atomic.copy_cells(7, &mut a);
    plain.copy_cells(7, &mut b);
    assert_eq!((a, atomic.sum()), (b, plain.sum()));
}

#[test]
fn no_tokens_are_no_sample() {
    let atomic = AtomicHistogram::new(layout());
    atomic.record_n(5, 0);
    let mut cells = Cells::new();
    atomic.copy_cells(0, &mut cells);
    assert_eq!(cells, []);
}

#[test]
fn two_threads_lose_nothing() {
    let atomic = AtomicHistogram::new(layout());
    std::thread::scope(|scope| {
        for seed in 0..2_u64 {
            let atomic = &atomic;
            scope.spawn(move || (0..50_000).for_each(|i| atomic.record_n((i * 7 + seed) % 1000 * MS, 2)));
        }
    });
    let mut cells = Cells::new();
    atomic.copy_cells(0, &mut cells);
    assert_eq!(cells.iter().map(|(_, n)| n).sum::<u64>(), 200_000);
    let sum: u64 = (0..2_u64)
        .flat_map(|seed| (0..50_000).map(move |i| (i * 7 + seed) % 1000 * MS * 2))
        .sum();
    assert_eq!(atomic.sum(), sum);
}
