use super::*;

const S: u64 = 1_000_000_000;

fn at(seconds: u64) -> Stamp {
    Stamp::from_nanos(seconds * S)
}

/// A clock with one window of a minute and a series with one cumulative cell.
struct Rig {
    clock: Clock,
    steps: Steps,
    total: u64,
}

impl Rig {
    fn new() -> Self {
        let window = WindowSetup {
            name: "1m".into(),
            length_ns: 60 * S,
        };
        Self {
            clock: Clock::new(&[window], at(0)),
            steps: Steps::new(1),
            total: 0,
        }
    }

    fn cells(&self) -> Cells {
        if self.total > 0 { vec![(3, self.total)] } else { Cells::new() }
    }

    fn tick(&mut self, now: Stamp) {
        let tick = self.clock.tick(now);
        self.steps.absorb(&self.clock, &tick, &self.cells());
    }

    /// (samples in the window, seconds it covers)
    fn window(&self, now: Stamp) -> (u64, u64) {
        let mut totals = [0; 4];
        let any = self.steps.add_window(&self.clock, 0, now, &self.cells(), &mut totals);
        assert_eq!(any, totals[3] > 0);
        (totals[3], self.clock.covered_ns(0, now) / S)
    }
}

#[test]
fn before_any_sample_a_window_is_empty() {
    let mut rig = Rig::new();
    assert_eq!(rig.window(at(0)), (0, 0));
    rig.tick(at(5));
    assert_eq!(rig.window(at(5)), (0, 5));
}

#[test]
fn samples_show_before_the_first_tick() {
    let mut rig = Rig::new();
    rig.total = 4;
    assert_eq!(rig.window(at(2)), (4, 2));
}

#[test]
fn one_sample_a_second_fills_the_window_and_no_more() {
    let mut rig = Rig::new();
    for now in 1..=300 {
        rig.total += 1;
        rig.tick(at(now));
        let (samples, covered) = rig.window(at(now));
        assert_eq!(samples, covered, "at {now} s");
        assert!(covered == now || (55..=60).contains(&covered), "at {now} s: {covered}");
    }
}

#[test]
fn a_sample_leaves_when_the_window_has_passed_and_is_counted_once_until_then() {
    let mut rig = Rig::new();
    rig.tick(at(5));
    rig.total = 1;
    for now in 6..=65 {
        rig.tick(at(now));
        assert_eq!(rig.window(at(now)).0, 1, "at {now} s");
    }
    rig.tick(at(66));
    assert_eq!(rig.window(at(66)).0, 0);
}

#[test]
fn a_late_ticker_makes_the_window_shorter_never_older() {
    let mut rig = Rig::new();
    rig.total = 7;
    assert_eq!(rig.window(at(61)), (0, 0), "no boundary inside the window");
    rig.tick(at(200));
    assert_eq!(rig.window(at(200)), (0, 0));
    rig.total += 2;
    rig.tick(at(203));
    assert_eq!(rig.window(at(203)), (2, 3));
}

#[test]
fn a_clock_that_steps_back_counts_nothing_twice() {
    let mut rig = Rig::new();
    rig.total = 1;
    rig.tick(at(10));
    rig.tick(at(8));
    rig.total = 2;
    rig.tick(at(10));
    assert_eq!(rig.window(at(9)), (2, 10));
}

#[test]
fn a_quiet_series_holds_no_steps() {
    let mut rig = Rig::new();
    rig.total = 1;
    for now in 1..=200 {
        rig.tick(at(now));
    }
    assert!(rig.steps.windows[0].closed.is_empty() && rig.steps.windows[0].open.is_empty());
}

#[test]
fn steps_are_bounded_however_often_the_ticker_runs() {
    let mut rig = Rig::new();
    for tenth in 1..=3000 {
        rig.total += 1;
        rig.tick(Stamp::from_nanos(tenth * S / 10));
        assert!(rig.steps.windows[0].closed.len() <= STEPS as usize);
        assert!(rig.clock.windows[0].closed.len() <= STEPS as usize);
    }
}

#[test]
fn sums_and_differences_are_exact() {
    let (a, b) = (vec![(1, 5), (4, 1), (9, 2)], vec![(0, 1), (4, 3), (9, 2), (12, 8)]);
    let both = sum(&a, &b);
    assert_eq!(both, [(0, 1), (1, 5), (4, 4), (9, 4), (12, 8)]);
    assert_eq!(difference(&both, &a), b);
    assert_eq!(difference(&both, &both), []);
}
