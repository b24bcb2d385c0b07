//! `soak fuzz`: malformed input to every parser of data from strangers, operators and the store's file.
//!
//! The targets are those of tools/fuzz. They are pure functions of bytes, so a failure is printed in hex and `--replay
//! TARGET:HEX` runs it again. The full version uses libFuzzer (guided.rs). The small version uses the committed
//! corpora, inputs made by grammars, and mutations of both. Its budget is CPU time of the target's thread, so a busy
//! machine tests as much as an idle one.

mod guided;
mod log;

use super::crowd::each;
use super::options::SoakOptions;
use crate::failure::{Failure, ensure};
use crate::interop::process::interrupted;
use crate::interop::report::{self, Tally};
use fastrand::Rng;
use fuzz::{TARGETS, Target, corpus, hex, input, unhex};
use rustix::time::{ClockId, clock_gettime};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};

/// CPU seconds for each target of the small version.
const SMALL_SECONDS: u64 = 4;
/// How many inputs are executed between two readings of the clock.
const BATCH: u64 = 64;
/// How many inputs are kept for mutation.
const KEPT_MAX: usize = 512;
/// The most CPU time of an input of [`input::BYTES_MAX`] bytes, since an attacker may choose it.
const INPUT_COST_MAX: Duration = Duration::from_secs(1);

/// Runs the campaign in the version that the options select, and counts its checks.
///
/// # Errors
///
/// A failure is replayed with an unknown target, or the libFuzzer runs cannot be set up.
pub fn run(options: &SoakOptions, tally: &mut Tally) -> Result<(), Failure> {
    if let Some(replay) = &options.replay {
        return self::replay(replay, tally);
    }
    let targets: Vec<Target> = TARGETS.into_iter().filter(|target| options.wants(target.name)).collect();
    ensure!(!targets.is_empty(), "no target has this text in its name");
    if options.small { small(options, &targets, tally) } else { guided::run(options, &targets, tally) }
}

fn small(options: &SoakOptions, targets: &[Target], tally: &mut Tally) -> Result<(), Failure> {
    let seed = options.seed();
    let seconds = options.seconds.unwrap_or(SMALL_SECONDS);
    report::line(&format!("fuzz: seed {seed}, {seconds} CPU seconds for each of {} targets", targets.len()));
    let outcomes = each(targets.len(), targets.len(), |number| {
        let known = corpus::read(targets[number].name).map_err(|error| error.to_string())?;
        soak(&targets[number], known, seed, Duration::from_secs(seconds))
    })?;
    for (target, outcome) in targets.iter().zip(outcomes) {
        tally.check(target.name, outcome);
    }
    Ok(())
}

/// Runs one target with the known inputs, and then with new ones until its CPU time is used up.
fn soak(target: &Target, known: Vec<Vec<u8>>, seed: u64, budget: Duration) -> Result<String, String> {
    let mut random = Rng::with_seed(seed ^ input::hash(target.name.as_bytes()));
    let (mut executions, mut slowest) = (0u64, Duration::ZERO);
    let start = cpu_time();
    let mut feed = |input: &[u8]| {
        let cost = feed(target, input).map_err(|complaint| {
            let place = format!("--replay {}:{}", target.name, hex(input));
            format!("{complaint}\n      seed {seed}, input {executions}; {place}")
        })?;
        slowest = slowest.max(cost);
        executions += 1;
        Ok::<(), String>(())
    };
    known.iter().try_for_each(|input| feed(input))?;
    let mut kept = known;
    while cpu_time() - start < budget && interrupted().is_ok() {
        for _ in 0..BATCH {
            let changed = random.choice(&kept).filter(|_| random.bool());
            let input = match changed {
                Some(old) => input::change(&mut random, old, &kept),
                None => (target.grow)(&mut random),
            };
            let fresh = changed.is_none();
            feed(&input)?;
            // Mutated inputs are not kept: repeated mutation would leave none that passes the first checks.
            if fresh && kept.len() < KEPT_MAX {
                kept.push(input);
            } else if fresh && random.u8(..) < 16 {
                let at = random.usize(..kept.len());
                kept[at] = input;
            }
        }
    }
    let seconds = (cpu_time() - start).as_secs_f32();
    let rate = executions as f32 / seconds.max(0.001);
    Ok(format!("{executions} inputs in {seconds:.0} CPU s, {rate:.0}/s, slowest {} us", slowest.as_micros()))
}

/// Executes one input and returns its time.
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

/// The CPU time of this thread.
fn cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), u32::try_from(time.tv_nsec).unwrap_or(0))
}

fn replay(text: &str, tally: &mut Tally) -> Result<(), Failure> {
    let wrong = || Failure("--replay takes TARGET:HEX, as a failure prints it".into());
    let (name, digits) = text.split_once(':').ok_or_else(wrong)?;
    let target = TARGETS.iter().find(|target| target.name == name).ok_or_else(wrong)?;
    let input = unhex(digits).ok_or_else(wrong)?;
    tally.check(name, feed(target, &input).map(|cost| format!("{} us", cost.as_micros())));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_tells_how_to_replay_it() {
        fn feed(input: &[u8]) -> Result<(), String> {
            assert!(input.is_empty(), "not empty");
            Ok(())
        }
        let target = Target { name: "none", grow: |_| vec![0xab, 1], feed, ..TARGETS[0] };
        let complaint = soak(&target, Vec::new(), 7, Duration::from_millis(300)).unwrap_err();
        assert!(complaint.starts_with("panic: not empty") && complaint.ends_with("none:ab01"), "{complaint}");
        let complaint = soak(&target, vec![vec![7]], 7, Duration::from_millis(300)).unwrap_err();
        assert!(complaint.ends_with("input 0; --replay none:07"), "{complaint}");
    }
}
