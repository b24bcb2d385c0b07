//! The search for the highest rate that keeps its objectives: the rate is doubled until one is missed, and then
//! bisected. A miss is repeated before it counts, since a busy moment of the machine is no limit of the server.

use crate::cores::CoresUsed;
use crate::load::{Load, Loop, Target};
use crate::objective::{Objective, Verdict, in_seconds, time};
use crate::options::{LoadArgs, OutputArgs, OutputFiles, TargetArgs};
use crate::origin::Origin;
use crate::run::{ENDED_BY_SIGNAL, run};
use crate::stats::Failure;
use crate::summary::Summary;
use crate::{End, say};
use clap::Args;
use serde::Serialize;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use usage::values::decimal;

mod limit;
mod report;

/// Memory is constant if it grows by less than this during a run.
const FLAT: f64 = 0.05;
/// The objective that a search adds: the rate itself.
const RATE_KEPT: &str = "rate=97%";
/// A higher rate is a mistake.
const RATE_MAX: f64 = 10_000_000.0;
/// The lowest rate that is tried, unless a search begins below it.
const RATE_MIN: f64 = 1.0;
/// A run is significant only with this number of due requests.
const DUE_MIN: f64 = 10.0;

/// The options of `search`.
#[derive(Debug, Args)]
pub struct SearchArgs {
    #[command(flatten)]
    target: TargetArgs,
    /// Rate of the first step, in requests per second
    #[arg(long, value_name = "PER_SECOND", default_value = "100", value_parser = rate)]
    from: f64,
    /// Highest rate of a step, in requests per second
    #[arg(long, value_name = "PER_SECOND", default_value = "100000", value_parser = rate)]
    to: f64,
    /// Precision of the result, in percent of the rate
    #[arg(long, value_name = "PERCENT", default_value_t = 5.0, value_parser = decimal(0.1..=100.0))]
    precision: f64,
    /// Rate of the final run, in percent of the highest rate that met the objectives
    #[arg(long, value_name = "PERCENT", default_value_t = 80.0, value_parser = decimal(1.0..=100.0))]
    hold_at: f64,
    /// Length of the final run; 0s: no final run
    #[arg(long, value_name = "TIME", default_value = "1m", value_parser = time)]
    hold: Duration,
    #[command(flatten)]
    load: LoadArgs,
    #[command(flatten)]
    output: OutputArgs,
}

impl SearchArgs {
    /// Checks that each objective can be measured.
    ///
    /// # Errors
    ///
    /// One line: an objective is of an endpoint that the mix lacks.
    pub fn check(&self) -> Result<(), String> {
        self.output.suits(&self.load)
    }
}

/// Parses a rate for clap.
///
/// # Errors
///
/// One line: the text is no rate.
pub fn rate(text: &str) -> Result<f64, String> {
    let rate = text.parse().ok().filter(|rate: &f64| rate.is_finite() && *rate > 0.0 && *rate <= RATE_MAX);
    rate.ok_or_else(|| format!("a rate must be above 0 and at most {RATE_MAX}"))
}

/// The next rate of a search, and its end.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Bisection {
    first: f64,
    least: f64,
    most: f64,
    precision: f64,
    /// The highest rate that was kept, and the lowest that was not.
    kept: Option<f64>,
    missed: Option<f64>,
}

impl Bisection {
    fn next(&self) -> Option<f64> {
        match (self.kept, self.missed) {
            (None, None) => Some(self.first.min(self.most)),
            (Some(kept), None) => (kept < self.most).then(|| (kept * 2.0).min(self.most)),
            (None, Some(missed)) => (missed > self.least).then(|| (missed / 2.0).max(self.least)),
            (Some(kept), Some(missed)) => {
                (missed - kept > kept * self.precision).then(|| f64::midpoint(kept, missed))
            }
        }
    }

    fn told(&mut self, rate: f64, kept: bool) {
        if kept {
            self.kept = Some(rate);
        } else {
            self.missed = Some(rate);
        }
    }
}

/// One run of the search.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Step {
    pub asked: f64,
    pub rate: f64,
    pub p99_ms: f64,
    pub errors: u64,
    pub cores: Option<f64>,
    /// The busy shares of the cores of this machine, and of the client's busiest thread.
    pub machine_busy: Option<f64>,
    pub client_busy: f64,
    /// The busy cores of this machine by program.
    pub cores_used: Option<CoresUsed>,
    /// Requests with 429, and requests that found no free connection.
    pub limited: u64,
    pub unsent: u64,
    /// Whether it met every objective.
    pub kept: bool,
    /// The results in the order of the search's objectives.
    pub objectives: Vec<Verdict>,
}

/// The result of a search.
#[derive(Debug, Default, Serialize)]
pub struct Found {
    /// The date, the versions, the machine and the command.
    pub origin: Option<Origin>,
    /// The highest rate that was kept; `None` if not even the lowest was.
    pub highest: Option<f64>,
    /// What limits the rate, in one sentence.
    pub limit: String,
    pub objectives: Vec<Objective>,
    pub steps: Vec<Step>,
    /// The run at a share of this rate.
    pub held: Option<Summary>,
    /// Whether memory remained constant during this run.
    pub memory_flat: Option<bool>,
    /// Whether a signal ended the search early.
    pub interrupted: bool,
}

/// Searches, prints each step, holds the rate and reports.
///
/// # Errors
///
/// One line: a run failed.
pub fn search(args: &SearchArgs, stop: &Arc<AtomicBool>) -> Result<End, String> {
    crate::raise_open_files();
    let objectives = objectives(args)?;
    let addresses = args.load.supply()?;
    let files = args.output.open()?;
    let (target, world) = args.target.reach(&args.load)?;
    let origin = Some(Origin::now(target.version.clone()));
    let mut series = Series { args, target, objectives, addresses: Some(addresses), stop };
    let (highest, steps) = series.find()?;
    let held = match highest.filter(|_| !args.hold.is_zero() && !stop.load(Ordering::Relaxed)) {
        Some(highest) => series.unless_stopped(|series| series.hold(highest * args.hold_at / 100.0))?,
        None => None,
    };
    let interrupted = stop.load(Ordering::Relaxed);
    if interrupted && steps.is_empty() {
        return Err(ENDED_BY_SIGNAL.into());
    }
    let objectives = series.objectives;
    let memory_flat = held.as_ref().and_then(|held| held.server.rss_growth).map(|growth| growth < FLAT);
    let limit = limit::limit(&steps, highest, args.to);
    let end =
        report(files, &Found { origin, highest, limit, objectives, steps, held, memory_flat, interrupted })?;
    if let Some(world) = world {
        world.stop()?;
    }
    Ok(end)
}

/// The objectives of the search. Without one about latency, the slowest endpoint's p99 must be below a second.
fn objectives(args: &SearchArgs) -> Result<Vec<Objective>, String> {
    let mut objectives = args.output.objectives.clone();
    if objectives.is_empty() {
        objectives.push(format!("{}.p99=1s", args.load.slowest().name()).parse()?);
        objectives.push("errors=0.1%".parse()?);
    }
    objectives.push(RATE_KEPT.parse()?);
    Ok(objectives)
}

struct Series<'a> {
    args: &'a SearchArgs,
    target: Target,
    objectives: Vec<Objective>,
    /// They continue from run to run, so that no address is repeated.
    addresses: Option<crate::addresses::Addresses>,
    stop: &'a Arc<AtomicBool>,
}

impl Series<'_> {
    fn find(&mut self) -> Result<(Option<f64>, Vec<Step>), String> {
        let SearchArgs { from, to, precision, .. } = *self.args;
        let seconds = self.args.load.load(Loop::Open(from)).duration.as_secs_f64();
        let mut bisection = Bisection {
            first: from,
            least: lowest(from.min(to), seconds),
            most: to,
            precision: precision / 100.0,
            kept: None,
            missed: None,
        };
        let mut steps = Vec::new();
        while let Some(rate) = bisection.next() {
            let Some(mut step) = self.unless_stopped(|series| series.step(rate))? else { break };
            if !step.kept && !self.stop.load(Ordering::Relaxed) {
                steps.push(step);
                let Some(again) = self.unless_stopped(|series| series.step(rate))? else { break };
                step = again;
            }
            if self.stop.load(Ordering::Relaxed) {
                break;
            }
            bisection.told(rate, step.kept);
            steps.push(step);
        }
        Ok((bisection.kept, steps))
    }

    /// The result of a run; `None` if it failed because of a signal.
    fn unless_stopped<T>(
        &mut self,
        run: impl FnOnce(&mut Self) -> Result<T, String>,
    ) -> Result<Option<T>, String> {
        match run(self) {
            Err(_) if self.stop.load(Ordering::Relaxed) => Ok(None),
            other => other.map(Some),
        }
    }

    fn step(&mut self, rate: f64) -> Result<Step, String> {
        let summary = self.run(self.args.load.load(Loop::Open(rate)))?;
        let all = summary.endpoints.last();
        let step = Step {
            asked: rate,
            rate: summary.rate,
            p99_ms: all.and_then(|all| all.latency_ms.get("p99").copied()).unwrap_or(0.0),
            errors: summary.errors,
            cores: summary.server.cores,
            machine_busy: summary.client.machine_busy,
            client_busy: summary.client.busy,
            cores_used: summary.client.cores_used,
            limited: summary.limited,
            unsent: all.and_then(|all| all.failures.get(Failure::Unsent.name()).copied()).unwrap_or(0),
            kept: summary.met(),
            objectives: summary.objectives,
        };
        say(&line(&step))?;
        for warning in &summary.warnings {
            say(&format!("  warning: {warning}"))?;
        }
        Ok(step)
    }

    fn hold(&mut self, rate: f64) -> Result<Summary, String> {
        say(&format!("final run: {rate:.1}/s for {}", in_seconds(self.args.hold)))?;
        let load = Load { duration: self.args.hold, ..self.args.load.load(Loop::Open(rate)) };
        self.run(load)
    }

    fn run(&mut self, load: Load) -> Result<Summary, String> {
        let addresses = self.addresses.take().ok_or("an earlier run failed")?;
        let (outcome, addresses) = run(&self.target, &load, addresses, self.stop)?;
        self.addresses = Some(addresses);
        let mut summary = Summary::of(&outcome, &self.objectives);
        if self.args.target.has_unknown_mail_servers(&self.args.load) {
            summary.warn_of_missing_domains(&outcome);
        }
        Ok(summary)
    }
}

/// The lowest rate of a search that begins with `first`, with runs of this many seconds.
fn lowest(first: f64, seconds: f64) -> f64 {
    (DUE_MIN / seconds).max(RATE_MIN).min(first)
}

fn line(step: &Step) -> String {
    let Step { asked, rate, p99_ms, errors, cores, kept, objectives, .. } = step;
    let cores = cores.map_or(String::new(), |cores| format!(", {cores:.2} cores"));
    let missed: Vec<&str> = objectives.iter().filter(|one| !one.met).map(|one| one.line.as_str()).collect();
    let verdict = if *kept { "met all objectives".to_owned() } else { missed.join("; ") };
    format!(
        "{asked:>10.1}/s due, {rate:>10.1}/s good answers, p99 {p99_ms:.1} ms, {errors} errors{cores}: {verdict}"
    )
}

fn report(files: OutputFiles, found: &Found) -> Result<End, String> {
    let objectives: Vec<&str> = found.objectives.iter().map(|one| one.text.as_str()).collect();
    let objectives = objectives.join(", ");
    let mut lines = vec![match found.highest {
        Some(highest) => format!("the highest rate that meets {objectives}: {highest:.1}/s"),
        None => format!("no rate meets {objectives}"),
    }];
    lines.push(found.limit.clone());
    if found.interrupted {
        lines.push("warning: ended early by a signal".into());
    }
    if let Some(held) = &found.held {
        lines.push(held.text());
    }
    match found.memory_flat {
        Some(true) => lines.push(format!("memory grew by less than {:.0} % in the final run", FLAT * 100.0)),
        Some(false) => lines.push(format!("memory grew by {:.0} % or more in the final run", FLAT * 100.0)),
        None => {}
    }
    if let Some(origin) = &found.origin {
        lines.push(format!("\n{}", origin.text().trim_end()));
    }
    say(&lines.join("\n"))?;
    files.write(found, &report::page(found, &lines[0]))?;
    let held = found.held.as_ref().is_none_or(Summary::met) && found.memory_flat != Some(false);
    Ok(if found.highest.is_some() && held { End::Met } else { End::Missed })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn search(limit: f64, first: f64, most: f64) -> (Option<f64>, Vec<f64>) {
        let least = lowest(first.min(most), 60.0);
        let mut bisection = Bisection { first, least, most, precision: 0.05, kept: None, missed: None };
        let mut tried = Vec::new();
        while let Some(rate) = bisection.next() {
            tried.push(rate);
            bisection.told(rate, rate <= limit);
            assert!(tried.len() < 100, "{tried:?}");
        }
        (bisection.kept, tried)
    }

    #[test]
    fn the_limit_is_found_from_below_and_from_above() {
        for (limit, first) in [(1000.0, 100.0), (1000.0, 100_000.0), (37.0, 1.0), (99.0, 100.0), (1.0, 64.0)]
        {
            let (kept, tried) = search(limit, first, 1e6);
            let kept = kept.unwrap();
            assert!(kept <= limit && kept >= limit / 1.06, "{limit} from {first}: {kept} by {tried:?}");
            assert!(tried.len() < 30, "{tried:?}");
        }
    }

    #[test]
    fn the_ends_are_ends() {
        assert_eq!(search(1e9, 100.0, 1000.0), (Some(1000.0), vec![100.0, 200.0, 400.0, 800.0, 1000.0]));
        assert_eq!(search(0.0, 4.0, 1000.0), (None, vec![4.0, 2.0, 1.0]));
        assert_eq!(search(1e9, 500.0, 100.0), (Some(100.0), vec![100.0]));
        assert_eq!(search(0.0, 0.5, 1000.0), (None, vec![0.5]));
    }

    #[test]
    fn a_run_is_long_enough_for_some_requests_to_fall_due() {
        for (first, seconds, least) in
            [(100.0, 60.0, 1.0), (100.0, 4.0, 2.5), (100.0, 0.5, 20.0), (2.0, 1.0, 2.0)]
        {
            assert_eq!(lowest(first, seconds), least, "{first}/s for {seconds} s");
        }
    }
}
