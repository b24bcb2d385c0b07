//! `mailprobe-loadtest`: an independent witness of what a mailprobe server bears. It shares no code with the server.
//!
//! - `run`: asks at a rate or with so many clients, and says what came of it (run.rs, sender.rs, summary.rs);
//! - `search`: finds the highest rate that keeps its objectives (search.rs);
//! - `calibrate`: measures what the parts of the work cost on this machine (calibrate.rs, fit.rs, figures.rs);
//! - `plan`: adds them up for so many addresses a day, and checks itself (plan.rs, model.rs, providers.rs, check.rs);
//! - `ceiling`: what this client itself can do, against a server that does nothing (ceiling.rs).
//!
//! docs/loadtest.md says how they are used and what each figure means.

mod addresses;
mod arrivals;
mod ask;
mod calibrate;
mod ceiling;
mod check;
mod connection;
mod figures;
mod fit;
mod html;
mod http;
mod list;
mod mix;
mod model;
mod objective;
mod options;
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

use clap::{Args, Parser, Subcommand};
use options::{LoadArgs, OutputArgs, TargetArgs};
use run::Loop;
use std::io::{self, Write};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use summary::Summary;

#[derive(Parser)]
#[command(
    name = "mailprobe-loadtest",
    version,
    about = "Loads a mailprobe server and says how it fared, what it cost and where its limit is"
)]
struct Options {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Ask at a rate, or with so many clients, and report
    Run(RunArgs),
    /// Find the highest rate that keeps the objectives
    Search(search::SearchArgs),
    /// Measure what the parts of the work cost on this machine, for `plan`
    Calibrate(calibrate::CalibrateArgs),
    /// Say what so many addresses a day need: cores, memory, sessions, source addresses, hours
    Plan(plan::PlanArgs),
    /// Measure what this client can do, against a server that does nothing
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
    /// Open loop: requests a second, whatever comes back
    #[arg(long, value_name = "PER_SECOND", value_parser = search::rate)]
    rate: Option<f64>,
    /// Closed loop: clients, each with one request under way
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=60_000))]
    clients: Option<u32>,
}

/// How a command ends that did not fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    Met,
    Missed,
}

fn main() -> ExitCode {
    let options = Options::parse();
    let stop = Arc::new(AtomicBool::new(false));
    let done = watch_signals(&stop).and_then(|()| match &options.command {
        Command::Run(args) => run_once(args, &stop),
        Command::Search(args) => search::search(args, &stop),
        Command::Calibrate(args) => calibrate::calibrate(args, &stop),
        Command::Plan(args) => plan::plan(args, &stop),
        Command::Ceiling(args) => ceiling::ceiling(args, &stop),
    });
    match done {
        Ok(End::Met) => ExitCode::SUCCESS,
        Ok(End::Missed) => ExitCode::FAILURE,
        Err(error) => {
            // Without a standard error the exit code is all there is to say.
            let _ = writeln!(io::stderr(), "mailprobe-loadtest: {error}");
            ExitCode::FAILURE
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
    let (target, world) = args.target.reach(&args.load)?;
    let (outcome, _) = run::run(&target, &args.load.load(pressure), addresses, stop)?;
    let summary = Summary::of(&outcome, &args.output.objectives);
    say(&summary.text())?;
    args.output.write(&summary, &html::report(&summary))?;
    if let Some(world) = world {
        world.stop()?;
    }
    Ok(if summary.met() { End::Met } else { End::Missed })
}

/// SIGINT and SIGTERM end a run early; it is reported all the same. A second one ends at once.
fn watch_signals(stop: &Arc<AtomicBool>) -> Result<(), String> {
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
        signal_hook::flag::register_conditional_shutdown(signal, 1, Arc::clone(stop))
            .and_then(|_| signal_hook::flag::register(signal, Arc::clone(stop)))
            .map_err(|error| format!("cannot watch for signals: {error}"))?;
    }
    Ok(())
}

/// A connection is a file descriptor; the processes started here inherit the limit.
fn raise_open_files() {
    use rustix::process::{Resource, getrlimit, setrlimit};
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    // Where it cannot be raised, too many connections fail, and the report says so.
    let _ = setrlimit(Resource::Nofile, limit);
}

/// Prints, at once.
fn say(text: &str) -> Result<(), String> {
    let mut out = io::stdout().lock();
    writeln!(out, "{text}").and_then(|()| out.flush()).map_err(|error| format!("standard output: {error}"))
}
