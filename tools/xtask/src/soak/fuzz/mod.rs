//! `soak fuzz`: malformed input to everything that reads what strangers write.
//!
//! A target is a pure function of bytes: the same input always does the same, so a failure is printed in hex and
//! `--replay TARGET:HEX` runs it again. Inputs are made by a grammar of the target's, and by changing earlier ones.
//! The budget is CPU time of the target's thread, not time on the clock, so that a busy machine tests as much.

mod address;
mod dialog;
mod dns;
mod input;
mod reply;

use super::world::cargo;
use super::{Failure, Options};
use crate::interop::process::{self, interrupted};
use crate::interop::report::{self, Tally};
use fastrand::Rng;
use rustix::time::{ClockId, clock_gettime};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

/// CPU seconds for each target.
const FULL_SECONDS: u64 = 600;
const SMALL_SECONDS: u64 = 10;
/// Inputs between two looks at the clock.
const BATCH: u64 = 256;
/// Inputs that are kept to be changed.
const KEPT_MAX: usize = 512;
/// No input of [`input::BYTES_MAX`] may cost more CPU time than this: an attacker chooses it.
const INPUT_COST_MAX: Duration = Duration::from_secs(1);
/// A build of the profile `soak` from nothing.
const BUILD_LIMIT: Duration = Duration::from_secs(1500);

/// What is fed.
struct Target {
    name: &'static str,
    /// Makes an input that goes deep.
    grow: fn(&mut Rng) -> Vec<u8>,
    /// Feeds it; what it gives back is which rule was broken. It may also panic.
    feed: fn(&[u8]) -> Result<(), String>,
}

const TARGETS: [Target; 4] = [
    Target { name: "address", grow: address::grow, feed: address::feed },
    Target { name: "reply", grow: reply::grow, feed: reply::feed },
    Target { name: "dns", grow: dns::grow, feed: dns::feed },
    Target { name: "dialog", grow: dialog::grow, feed: dialog::feed },
];

pub fn run(options: &Options) -> Result<Option<Tally>, Failure> {
    if let Some(replay) = &options.replay {
        return self::replay(replay).map(Some);
    }
    if !options.small && !options.in_profile {
        return in_profile(options).map(|()| None);
    }
    let seed = options.seed();
    let seconds = options.seconds.unwrap_or(if options.small { SMALL_SECONDS } else { FULL_SECONDS });
    report::line(&format!("fuzz: seed {seed}, {seconds} CPU seconds for each of {} targets", TARGETS.len()));
    let outcomes = std::thread::scope(|scope| {
        let runs = TARGETS.map(|target| {
            let name = target.name;
            (name, scope.spawn(move || soak(&target, seed, Duration::from_secs(seconds))))
        });
        runs.map(|(name, run)| {
            let outcome = run.join().unwrap_or_else(|_| Err("the campaign itself panicked".into()));
            (name, outcome)
        })
    });
    interrupted()?;
    let mut tally = Tally::default();
    for (name, outcome) in outcomes {
        tally.check(name, outcome);
    }
    Ok(Some(tally))
}

/// Feeds one target until its CPU time is used up.
fn soak(target: &Target, seed: u64, budget: Duration) -> Result<String, String> {
    let mut random = Rng::with_seed(seed ^ input::hash(target.name.as_bytes()));
    let mut kept: Vec<Vec<u8>> = Vec::new();
    let (mut executions, mut slowest) = (0u64, Duration::ZERO);
    let start = cpu_time();
    while cpu_time() - start < budget && interrupted().is_ok() {
        for _ in 0..BATCH {
            let changed = random.choice(&kept).filter(|_| random.bool());
            let input = match changed {
                Some(old) => input::change(&mut random, old, &kept),
                None => (target.grow)(&mut random),
            };
            let fresh = changed.is_none();
            let cost = feed(target, &input).map_err(|complaint| {
                format!(
                    "{complaint}\n      seed {seed}, input {executions}; --replay {}:{}",
                    target.name,
                    hex(&input)
                )
            })?;
            slowest = slowest.max(cost);
            executions += 1;
            // What was changed is not kept: change upon change would leave nothing that goes deep.
            if fresh && kept.len() < KEPT_MAX {
                kept.push(input);
            } else if fresh && random.u8(..) < 16 {
                kept[random.usize(..KEPT_MAX)] = input;
            }
        }
    }
    let seconds = (cpu_time() - start).as_secs_f32();
    let rate = executions as f32 / seconds.max(0.001);
    Ok(format!("{executions} inputs in {seconds:.0} CPU s, {rate:.0}/s, slowest {} us", slowest.as_micros()))
}

/// Feeds one input; gives the time it took.
fn feed(target: &Target, input: &[u8]) -> Result<Duration, String> {
    let (start, cpu) = (Instant::now(), cpu_time());
    let outcome = catch_unwind(AssertUnwindSafe(|| (target.feed)(input)));
    let taken = start.elapsed();
    match outcome {
        Err(panic) => {
            let words = panic.downcast_ref::<String>().map(String::as_str);
            Err(format!(
                "panic: {}",
                words.or(panic.downcast_ref::<&str>().copied()).unwrap_or("without words")
            ))
        }
        Ok(Err(complaint)) => Err(complaint),
        Ok(Ok(())) if cpu_time() - cpu > INPUT_COST_MAX => Err(format!("took {} ms", taken.as_millis())),
        Ok(Ok(())) => Ok(cpu_time() - cpu),
    }
}

/// CPU time of this thread.
fn cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), u32::try_from(time.tv_nsec).unwrap_or(0))
}

/// Runs this campaign in a binary of the profile `soak`.
fn in_profile(options: &Options) -> Result<(), Failure> {
    let mut build = cargo();
    build.args(["build", "--profile", "soak", "--package", "xtask"]);
    process::run(build, "", &std::env::temp_dir(), BUILD_LIMIT)?.success("cargo build")?;
    let this = std::env::current_exe().map_err(|error| Failure(format!("where am I: {error}")))?;
    let target = this.parent().and_then(Path::parent).ok_or_else(|| Failure("no target folder".into()))?;
    let mut again = Command::new(target.join("soak/xtask"));
    again.args(["soak", "fuzz", "--in-profile", "--seed", &options.seed().to_string()]);
    if let Some(seconds) = options.seconds {
        again.args(["--seconds", &seconds.to_string()]);
    }
    let status = again.status().map_err(|error| Failure(format!("the profile's binary: {error}")))?;
    if status.success() { Ok(()) } else { Err(Failure(format!("fuzz: {status}"))) }
}

fn replay(text: &str) -> Result<Tally, Failure> {
    let wrong = || Failure("--replay takes TARGET:HEX, as a failure prints it".into());
    let (name, digits) = text.split_once(':').ok_or_else(wrong)?;
    let target = TARGETS.iter().find(|target| target.name == name).ok_or_else(wrong)?;
    let input = unhex(digits).ok_or_else(wrong)?;
    let mut tally = Tally::default();
    tally.check(name, feed(target, &input).map(|cost| format!("{} us", cost.as_micros())));
    Ok(tally)
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn unhex(digits: &str) -> Option<Vec<u8>> {
    let pairs = (0..digits.len()).step_by(2);
    pairs.map(|at| u8::from_str_radix(digits.get(at..at + 2)?, 16).ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A second of each: the targets are sound, and what they make is what they mean to make.
    #[test]
    fn every_target_runs_and_replays() {
        for target in &TARGETS {
            let outcome = soak(target, 7, Duration::from_millis(300));
            assert!(outcome.is_ok(), "{}: {outcome:?}", target.name);
        }
    }

    #[test]
    fn a_failure_tells_how_to_replay_it() {
        fn feed(input: &[u8]) -> Result<(), String> {
            assert!(input.is_empty(), "not empty");
            Ok(())
        }
        let target = Target { name: "none", grow: |_| vec![0xab, 1], feed };
        let complaint = soak(&target, 7, Duration::from_millis(300)).unwrap_err();
        assert!(complaint.starts_with("panic: not empty") && complaint.ends_with("none:ab01"), "{complaint}");
    }

    #[test]
    fn hex_goes_both_ways() {
        assert_eq!(unhex(&hex(&[0, 0x7f, 0xff])), Some(vec![0, 0x7f, 0xff]));
        assert_eq!((unhex("0"), unhex("zz"), unhex("é")), (None, None, None));
    }
}
