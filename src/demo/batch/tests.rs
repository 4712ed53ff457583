use super::*;
use crate::demo::plan::Plan;

/// What a run of the model came to, ms.
#[derive(Debug)]
struct Run {
    ttft_mean: f64,
    tpot_mean: f64,
    tpot_p99: f64,
    e2e_mean: f64,
    gaps: Vec<f64>,
}

/// The planned requests of `seconds` at `rate`, run through the model in its own time.
fn run(rate: f64, seconds: f64, spike: f64) -> Run {
    let mut random = Random::new(11);
    let mut due: Vec<(f64, u64, u64)> = Plan::new(5, rate)
        .take_while(|p| p.at.as_secs_f64() < seconds)
        .map(|p| (p.at.as_secs_f64(), p.prompt, p.output))
        .collect();
    let arrived: Vec<f64> = due.iter().map(|d| d.0).collect();
    let mut ready: Vec<(f64, Id)> = due
        .iter_mut()
        .zip(0..)
        .map(|(d, id)| (d.0 + Batch::frontend(&mut random).as_secs_f64(), id))
        .collect();
    ready.sort_by(|a, b| a.0.total_cmp(&b.0));
    let mut ready = ready.into_iter().peekable();
    let mut batch = Batch::new(9, spike);
    let mut stamps: Vec<Vec<f64>> = vec![Vec::new(); due.len()];
    let mut now = 0.0;
    loop {
        while let Some((_, id)) = ready.next_if(|(at, _)| *at <= now) {
            let (_, prompt, output) = due[id as usize];
            assert!(batch.admit(id, prompt, output));
        }
        if batch.is_idle() {
            let Some((at, _)) = ready.peek() else { break };
            now = *at;
            continue;
        }
        let step = batch.step();
        now += step.takes.as_secs_f64();
        step.tokens.iter().for_each(|(id, _)| stamps[*id as usize].push(now));
    }
    let mean = |values: Vec<f64>| values.iter().sum::<f64>() / values.len() as f64 * 1e3;
    let each = || stamps.iter().zip(&arrived);
    let mut tpots: Vec<f64> = stamps
        .iter()
        .filter(|s| s.len() > 1)
        .map(|s| (s[s.len() - 1] - s[0]) / (s.len() - 1) as f64)
        .collect();
    tpots.sort_by(f64::total_cmp);
    Run {
        ttft_mean: mean(each().map(|(s, at)| s[0] - at).collect()),
        tpot_p99: tpots[tpots.len() * 99 / 100] * 1e3,
        tpot_mean: mean(tpots),
        e2e_mean: mean(each().map(|(s, at)| s[s.len() - 1] - at).collect()),
        gaps: {
            let mut gaps: Vec<f64> = stamps
                .iter()
                .flat_map(|s| s.windows(2).map(|w| (w[1] - w[0]) * 1e3))
                .collect();
            gaps.sort_by(f64::total_cmp);
            gaps
        },
    }
}

#[test]
fn at_twenty_requests_a_second_the_means_are_the_published_ones() {
    let run = run(20.0, 600.0, 0.0);
    assert!((152.0..172.0).contains(&run.ttft_mean), "TTFT {}", run.ttft_mean);
    assert!((7.0..7.6).contains(&run.tpot_mean), "TPOT {}", run.tpot_mean);
    assert!((12.0..18.0).contains(&run.tpot_p99), "TPOT p99 {}", run.tpot_p99);
    assert!((1050.0..1150.0).contains(&run.e2e_mean), "E2E {}", run.e2e_mean);
    let median = run.gaps[run.gaps.len() / 2];
    assert!((6.9..7.5).contains(&median), "ITL p50 {median}");
}

#[test]
fn a_spike_makes_one_token_in_a_hundred_take_sixty_milliseconds() {
    let run = run(20.0, 60.0, 0.01);
    let slow: Vec<f64> = run.gaps.iter().copied().filter(|g| *g > 45.0).collect();
    let share = slow.len() as f64 / run.gaps.len() as f64;
    assert!((0.007..0.013).contains(&share), "{share}");
    let mean = slow.iter().sum::<f64>() / slow.len() as f64;
    assert!((57.0..64.0).contains(&mean), "{mean}");
    assert!(run.gaps[run.gaps.len() / 2] < 8.0);
}

#[test]
fn more_load_makes_every_token_and_the_first_one_slower() {
    let (low, high) = (run(5.0, 60.0, 0.0), run(35.0, 60.0, 0.0));
    assert!(
        low.tpot_mean < 6.9 && high.tpot_mean > low.tpot_mean + 1.0,
        "{} {}",
        low.tpot_mean,
        high.tpot_mean
    );
    assert!(high.ttft_mean > low.ttft_mean + 20.0, "{} {}", low.ttft_mean, high.ttft_mean);
}

#[test]
fn a_long_prompt_takes_as_many_steps_as_its_prefill_needs() {
    let mut batch = Batch::new(1, 0.0);
    assert!(batch.admit(1, PREFILL_BUDGET * 2 + 1, 2));
    assert!(batch.step().tokens.is_empty());
    assert!(batch.step().tokens.is_empty());
    assert_eq!(batch.step().tokens, [(1, false)]);
    assert_eq!(batch.step().tokens, [(1, true)]);
    assert!(batch.is_idle());
}

#[test]
fn past_the_running_cap_sequences_wait_and_past_the_waiting_cap_they_are_refused() {
    let mut batch = Batch::new(1, 0.0);
    let all = MAX_WAITING as u64;
    assert!((0..all).all(|id| batch.admit(id, 1, 3)));
    assert!(!batch.admit(all, 1, 3));
    batch.cancel(0);
    assert!(batch.admit(all, 1, 3));
    batch.step();
    assert_eq!(
        (batch.running.len(), batch.waiting.len()),
        (MAX_RUNNING, MAX_WAITING - MAX_RUNNING)
    );
}
