//! `soak power`: the power fails while the ledger is written, and again while it recovers; and under a server, at every
//! change of its data folder ([`folder`]).
//!
//! The disk is a redb storage in memory that loses, tears and reorders unsynced data. The loads are holds and their
//! answers, API keys, batches with idempotency keys, attempts of connections, and the engine's memory. The loads and
//! the conditions afterwards are the store's own tests (frontend/store-redb/src/tests/crash.rs). The campaign runs many seeds
//! of them. Then it plants a sync that does nothing, which the tests must find.

mod folder;

use super::options::SoakOptions;
use super::store_test::StoreTest;
use crate::failure::{Failure, ensure};
use crate::interop::report::{self, Tally};

const SEEDS: u64 = 10_000;
const SEEDS_SMALL: u64 = 40;
/// How many seeds may pass before a planted defect is found.
const SEEDS_PLANTED: u64 = 200;
/// How many recoveries of the full campaign must lose power.
const IN_RECOVERY_MIN: u64 = 1_000;
const TEST: &str = "tests::crash::power::campaign";

/// Runs the campaign and counts its checks.
pub fn run(options: &SoakOptions, tally: &mut Tally) -> Result<(), Failure> {
    let first = options.seed().saturating_mul(1_000_000) % 1_000_000_000_000;
    let seeds = if options.small { SEEDS_SMALL } else { SEEDS };
    report::line(&format!("power: {seeds} seeds from {first}"));
    if options.wants("folder") {
        tally.check("a server's folder", folder::run(options, options.seed()));
    }
    if !options.wants("ledger") {
        return Ok(());
    }
    let run = |seeds: u64, plant: bool| {
        let variables = [
            ("MAILPROBE_POWER_FIRST", first),
            ("MAILPROBE_POWER_SEEDS", seeds),
            ("MAILPROBE_POWER_PLANT", 1),
        ];
        let variables = if plant { &variables[..] } else { &variables[..2] };
        StoreTest::run(!options.small, TEST, variables)
    };
    tally.check("no seed loses anything that was answered", survived(&run(seeds, false)?, options));
    tally.check("a sync that does nothing is found", found(&run(SEEDS_PLANTED, true)?));
    Ok(())
}

/// The last line of the campaign: seeds, rounds, and how many of them lost power.
fn told(run: &StoreTest) -> Option<String> {
    run.line(" in recovery")
}

fn survived(run: &StoreTest, options: &SoakOptions) -> Result<String, String> {
    let line = told(run).ok_or_else(|| format!("it did not run: {}", run.complaint()))?;
    ensure!(run.succeeded, "{line}; {}", run.complaint());
    let cut = line.rsplit(", ").next().and_then(|part| part.split(' ').next()?.parse::<u64>().ok());
    let is_enough = options.small || cut.is_some_and(|cut| cut >= IN_RECOVERY_MIN);
    if is_enough { Ok(line) } else { Err(format!("{line}: fewer than {IN_RECOVERY_MIN} in recovery")) }
}

fn found(run: &StoreTest) -> Result<String, String> {
    // redb may panic again while it drops a database that lost a sync. cargo reports the end of the test.
    if run.errors.contains("SIGABRT") {
        return Ok("within 200 seeds: redb ended the process".into());
    }
    let line = told(run).ok_or("it did not run")?;
    let is_found = !run.succeeded && run.errors.contains("seeds that lost something");
    if is_found { Ok("within 200 seeds".into()) } else { Err(format!("not found: {line}")) }
}
