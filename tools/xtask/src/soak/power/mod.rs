//! `soak power`: the power fails while the ledger is written, and again while it recovers; and under a server, at every
//! change of its data folder ([`folder`]).
//!
//! The disk is a redb storage in memory that loses, tears and reorders unsynced data. The loads are holds and their
//! answers, API keys, batches with idempotency keys, attempts of connections, and the engine's memory. The loads and
//! the conditions afterwards are the store's own tests (frontend/store-redb/src/tests/crash.rs). The campaign runs many seeds
//! of them. Then it plants a sync that does nothing, which the tests must find.

mod folder;

use super::options::SoakOptions;
use super::world::cargo;
use crate::failure::Failure;
use crate::interop::report::{self, Tally};
use std::process::Output;

const SEEDS: u64 = 10_000;
const SEEDS_SMALL: u64 = 40;
/// How many seeds may pass before a planted defect is found.
const SEEDS_PLANTED: u64 = 200;
/// How many recoveries of the full campaign must lose power.
const IN_RECOVERY_MIN: u64 = 1_000;
const TEST: &str = "tests::crash::power::campaign";

/// Runs the campaign and returns the counts of its checks.
pub fn run(options: &SoakOptions) -> Result<Tally, Failure> {
    let first = options.seed().saturating_mul(1_000_000) % 1_000_000_000_000;
    let seeds = if options.small { SEEDS_SMALL } else { SEEDS };
    report::line(&format!("power: {seeds} seeds from {first}"));
    let mut tally = Tally::default();
    if options.wants("folder") {
        tally.check("a server's folder", folder::run(options, options.seed()));
    }
    if !options.wants("ledger") {
        return Ok(tally);
    }
    let output = campaign(options, first, seeds, false)?;
    tally.check("no seed loses anything that was answered", survived(&output, options));
    let planted = campaign(options, first, SEEDS_PLANTED, true)?;
    tally.check("a sync that does nothing is found", found(&planted));
    Ok(tally)
}

fn campaign(options: &SoakOptions, first: u64, seeds: u64, plant: bool) -> Result<Output, Failure> {
    let mut command = cargo();
    command.args(["test", "--package", "store-redb", "--lib"]);
    if !options.small {
        command.arg("--release");
    }
    command.args(["--", "--ignored", "--exact", "--nocapture", TEST]);
    command.env("MAILPROBE_POWER_FIRST", first.to_string()).env("MAILPROBE_POWER_SEEDS", seeds.to_string());
    if plant {
        command.env("MAILPROBE_POWER_PLANT", "1");
    }
    command
        .env("RUST_BACKTRACE", "0")
        .output()
        .map_err(|error| Failure(format!("cargo did not start: {error}")))
}

/// The last line of the campaign: seeds, rounds, and how many of them lost power.
fn told(output: &Output) -> Option<String> {
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    text.lines().find(|line| line.contains(" in recovery")).map(str::to_owned)
}

fn survived(output: &Output, options: &SoakOptions) -> Result<String, String> {
    let errors = String::from_utf8_lossy(&output.stderr);
    let last = |count: usize| {
        let lines: Vec<&str> = errors.lines().collect();
        lines[lines.len().saturating_sub(count)..].join("\n")
    };
    let line = told(output).ok_or_else(|| format!("it did not run: {}", last(10)))?;
    if !output.status.success() {
        return Err(format!("{line}; {}", last(10)));
    }
    let cut = line.rsplit(", ").next().and_then(|part| part.split(' ').next()?.parse::<u64>().ok());
    if options.small || cut.is_some_and(|cut| cut >= IN_RECOVERY_MIN) {
        Ok(line)
    } else {
        Err(format!("{line}: fewer than {IN_RECOVERY_MIN} in recovery"))
    }
}

fn found(output: &Output) -> Result<String, String> {
    let errors = String::from_utf8_lossy(&output.stderr);
    // redb may panic again while it drops a database that lost a sync. cargo reports the end of the test.
    if errors.contains("SIGABRT") {
        return Ok("within 200 seeds: redb ended the process".into());
    }
    let line = told(output).ok_or("it did not run")?;
    match errors.lines().find(|line| line.contains("seeds that lost something")) {
        Some(_) if !output.status.success() => Ok("within 200 seeds".into()),
        _ => Err(format!("not found: {line}")),
    }
}
