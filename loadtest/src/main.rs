//! `mailprobe-loadtest`: an independent load test of a mailprobe server. It shares no code with the server.
//!
//! - `run`: sends requests at a rate or with a number of clients, and reports (run.rs, sender.rs, summary.rs);
//! - `search`: finds the highest rate that meets the objectives (search.rs);
//! - `compare`: compares two builds by the results of `run --json` (compare.rs);
//! - `calibrate`: measures the costs of each part of the work on this machine (calibrate.rs, fit.rs, figures.rs);
//! - `plan`: adds these costs up for a number of addresses per day, and checks itself (plan.rs, model.rs, providers.rs,
//!   check.rs);
//! - `ceiling`: measures the highest rate of this client, with a server that does nothing (ceiling.rs).
//!
//! docs/loadtest.md describes their use and the meaning of each figure.

mod addresses;
mod arrivals;
mod ask;
mod before;
mod calibrate;
mod ceiling;
mod check;
mod compare;
mod connection;
mod cores;
mod digits;
mod figures;
mod files;
mod fit;
mod html;
mod http;
mod leftovers;
mod list;
mod load;
mod mix;
mod model;
mod objective;
mod options;
mod origin;
mod peer;
mod plan;
mod providers;
mod random;
mod run;
mod sampler;
mod scenario;
mod search;
mod sender;
mod service;
mod stats;
mod summary;
mod svg;
mod world;

use crate::load::Loop;
use clap::{Args, Parser, Subcommand};
use options::{LoadArgs, OutputArgs, TargetArgs};
use origin::Origin;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use std::io::{self, Write};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};
use summary::Summary;
use usage::values::whole_number;

#[derive(Parser)]
#[command(
    name = "mailprobe-loadtest",
    version,
    about = "Send requests to a mailprobe server, and report its latencies, errors, costs and highest rate"
)]
struct Options {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Send requests at a rate (--rate) or with a number of clients (--clients), and report the figures
    Run(RunArgs),
    /// Find the highest rate that meets the objectives, in steps. Each step is a run at one rate
    Search(search::SearchArgs),
    /// Compare two builds or settings of a server, by results of `run --json` that were made in turn
    #[command(after_help = compare::EXIT_CODES)]
    Compare(compare::CompareArgs),
    /// Measure the costs of each part of the work on this machine, for `plan`
    Calibrate(calibrate::CalibrateArgs),
    /// Calculate the cores, memory, sessions, source addresses and hours that a number of addresses per day needs
    Plan(plan::PlanArgs),
    /// Measure the highest rate of this load client, with a server that does nothing
    Ceiling(ceiling::CeilingArgs),
}

#[derive(Debug, Args)]
struct RunArgs {
    #[command(flatten)]
    target: TargetArgs,
    #[command(flatten)]
    pressure: Pressure,
    #[command(flatten)]
    load: LoadArgs,
    #[command(flatten)]
    output: OutputArgs,
}

#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
struct Pressure {
    /// Open loop: requests per second, regardless of the answers
    #[arg(long, value_name = "PER_SECOND", value_parser = search::rate)]
    rate: Option<f64>,
    /// Closed loop: number of clients. Each sends its next request after the answer to its last one
    #[arg(long, value_name = "N", value_parser = whole_number(1u32..=60_000))]
    clients: Option<u32>,
}

/// The result of a command that did not fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    Met,
    Missed,
}

const PROGRAM: &str = "mailprobe-loadtest";
/// From this time after the first signal on, a further signal is a second one. `timeout` sends each signal twice, to the
/// process and to its group.
const SECOND_SIGNAL: Duration = Duration::from_millis(500);
/// The exit code of an error of usage.
const WRONG_USAGE: u8 = 2;

fn main() -> ExitCode {
    let options: Options = match usage::parse(PROGRAM, std::env::args_os()) {
        Ok(options) => options,
        Err(code) => return code,
    };
    if let Err((command, error)) = options.command.check() {
        usage::complain(PROGRAM, &format!("{error}; see `{PROGRAM} {command} --help`"));
        return ExitCode::from(WRONG_USAGE);
    }
    let stop = Arc::new(AtomicBool::new(false));
    let done = watch_signals(&stop).and_then(|()| match &options.command {
        Command::Run(args) => run_once(args, &stop),
        Command::Search(args) => search::search(args, &stop),
        Command::Compare(args) => compare::compare(args),
        Command::Calibrate(args) => calibrate::calibrate(args, &stop),
        Command::Plan(args) => plan::plan(args, &stop),
        Command::Ceiling(args) => ceiling::ceiling(args, &stop),
    });
    match done {
        Ok(End::Met) => ExitCode::SUCCESS,
        Ok(End::Missed) => ExitCode::FAILURE,
        Err(error) => {
            usage::complain(PROGRAM, &error);
            ExitCode::FAILURE
        }
    }
}

impl Command {
    /// Checks what the parser of the arguments cannot. The error has the name of the subcommand.
    fn check(&self) -> Result<(), (&'static str, String)> {
        match self {
            Command::Run(args) => args.output.suits(&args.load).map_err(|error| ("run", error)),
            Command::Search(args) => args.check().map_err(|error| ("search", error)),
            Command::Compare(args) => args.check().map_err(|error| ("compare", error)),
            _ => Ok(()),
        }
    }
}

fn run_once(args: &RunArgs, stop: &Arc<AtomicBool>) -> Result<End, String> {
    let pressure = match (args.pressure.rate, args.pressure.clients) {
        (Some(rate), _) => Loop::Open(rate),
        (None, clients) => Loop::Closed(clients.unwrap_or(1) as usize),
    };
    raise_open_files();
    let addresses = args.load.supply()?;
    let files = args.output.open()?;
    let (target, world) = args.target.reach(&args.load)?;
    let origin = Origin::now(target.version.clone());
    let (outcome, _) = run::run(&target, &args.load.load(pressure), addresses, stop)?;
    let mut summary = Summary::of(&outcome, &args.output.objectives);
    summary.origin = Some(origin);
    if args.target.has_unknown_mail_servers(&args.load) {
        summary.warn_of_missing_domains(&outcome);
    }
    say(&summary.text())?;
    files.write(&summary, &html::report(&summary))?;
    if let Some(world) = world {
        world.stop()?;
    }
    Ok(if summary.met() && summary.has_good_answers() { End::Met } else { End::Missed })
}

/// SIGINT and SIGTERM end a run early, and it is still reported. A second signal ends the process at once, with the
/// processes that it started.
fn watch_signals(stop: &Arc<AtomicBool>) -> Result<(), String> {
    let wrong = |error: io::Error| format!("cannot watch for signals: {error}");
    let mut signals = Signals::new([SIGINT, SIGTERM]).map_err(wrong)?;
    let stop = Arc::clone(stop);
    let watch = move || {
        let mut first: Option<Instant> = None;
        for _ in signals.forever() {
            stop.store(true, Ordering::Relaxed);
            if first.get_or_insert_with(Instant::now).elapsed() >= SECOND_SIGNAL {
                leftovers::end_at_once();
            }
        }
    };
    thread::Builder::new().name("signals".into()).spawn(watch).map(drop).map_err(wrong)
}

/// Each connection is a file descriptor; started processes inherit the limit.
fn raise_open_files() {
    use rustix::process::{Resource, getrlimit, setrlimit};
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    // If the limit cannot be raised, too many connections fail, which the report shows.
    let _ = setrlimit(Resource::Nofile, limit);
}

/// Prints a text without delay.
fn say(text: &str) -> Result<(), String> {
    let mut out = io::stdout().lock();
    writeln!(out, "{text}").and_then(|()| out.flush()).map_err(|error| format!("standard output: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_sound() {
        let command = Options::command();
        command.clone().debug_assert();
        assert_eq!(usage::values::flags_with_unclear_errors(&command), [""; 0]);
    }
}
