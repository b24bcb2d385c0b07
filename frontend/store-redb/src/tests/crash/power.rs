//! The campaign: many seeds of every load, each with its own disk that loses power repeatedly.
//!
//! `cargo xtask soak power` sets the seeds in `MAILPROBE_POWER_SEEDS` and `MAILPROBE_POWER_FIRST`. With
//! `MAILPROBE_POWER_PLANT=1` one sync of three does nothing, and the campaign must fail soon.

use super::*;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// How many rounds a seed has: damage of one would show in the next.
const ROUNDS: u32 = 4;
/// One sync of so many does nothing.
const PLANTED: u32 = 3;

/// Runs one seed of one of the loads.
fn survive_seed(seed: u64, lies: Option<u32>) -> Survived {
    let plan = Plan { crash: Crash::PowerLoss, seed, rounds: ROUNDS, lies };
    match seed % 4 {
        0 => run_plan::<Told>(plan).1,
        1 => run_plan::<batches::Told>(plan).1,
        2 => run_plan::<connections::Told>(plan).1,
        _ => run_plan::<learned::Told>(plan).1,
    }
}

pub(super) fn variable(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().unwrap())
}

impl Survived {
    fn add(&mut self, one: Survived) {
        self.rounds += one.rounds;
        self.under_load += one.under_load;
        self.in_recovery += one.in_recovery;
    }
}

#[test]
fn a_few_seeds_of_every_load() {
    let all: Vec<Survived> = (0..24).map(|seed| survive_seed(seed, None)).collect();
    let sum = |of: fn(&Survived) -> u32| all.iter().map(of).sum::<u32>();
    assert!(sum(|one| one.under_load) > 8 && sum(|one| one.in_recovery) > 4, "{all:?}");
}

#[test]
fn a_sync_that_is_missing_is_found() {
    let is_found = |seed| catch_unwind(AssertUnwindSafe(|| survive_seed(seed, Some(PLANTED)))).is_err();
    assert!((0..200).any(is_found), "the campaign cannot fail");
}

#[test]
#[ignore = "a campaign: cargo xtask soak power"]
fn campaign() {
    let first = variable("MAILPROBE_POWER_FIRST").unwrap_or(0);
    let seeds = variable("MAILPROBE_POWER_SEEDS").unwrap_or(200);
    let lies = variable("MAILPROBE_POWER_PLANT").map(|_| PLANTED);
    let threads = std::thread::available_parallelism().unwrap().get() as u64;
    let workers: Vec<_> = (0..threads)
        .map(|thread| {
            std::thread::spawn(move || {
                let (mut sum, mut failed) = (Survived::default(), Vec::new());
                for seed in (first..first + seeds).filter(|seed| seed % threads == thread) {
                    match catch_unwind(AssertUnwindSafe(|| survive_seed(seed, lies))) {
                        Ok(one) => sum.add(one),
                        Err(_told) => failed.push(seed),
                    }
                }
                (sum, failed)
            })
        })
        .collect();
    let (mut sum, mut failed) = (Survived::default(), Vec::new());
    for worker in workers {
        let (one, mut of_one) = worker.join().unwrap();
        sum.add(one);
        failed.append(&mut of_one);
    }
    failed.sort_unstable();
    let Survived { rounds, under_load, in_recovery } = sum;
    println!(
        "{seeds} seeds from {first}: {rounds} rounds, {under_load} cut under load, {in_recovery} in recovery"
    );
    assert!(failed.is_empty(), "seeds that lost something: {failed:?}");
}
