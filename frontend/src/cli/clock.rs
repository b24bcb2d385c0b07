//! `mailprobe clock`: moves the clock of a server that runs with `--test-clock`. It is for tests, and hidden in the help.

use super::place::{Place, execute_running, output_failed, unexpected};
use clap::{Args, Subcommand};
use server::admin::{Command, Response};
use std::io::Write;
use usage::values::{Unit, whole_time};

/// Move the clock of a test server.
#[derive(Debug, Clone, Args)]
pub struct ClockArgs {
    #[command(subcommand)]
    action: ClockAction,
}

#[derive(Debug, Clone, Subcommand)]
enum ClockAction {
    /// Move the clock forward and print its time, in milliseconds since 1970.
    Advance {
        /// Time such as 90s; a number without a unit is in milliseconds, and 0 only reads the clock.
        #[arg(value_parser = whole_time(Unit::Milliseconds, 0..=u64::MAX))]
        ms: u64,
    },
}

/// Runs the command.
///
/// # Errors
/// One line for standard error.
pub fn run(args: &ClockArgs, place: Place<'_>, out: &mut dyn Write) -> Result<(), String> {
    let ClockAction::Advance { ms } = args.action;
    match execute_running(place, Command::ClockAdvance { ms })? {
        Response::Clock(now) => writeln!(out, "{now}").map_err(output_failed),
        other => Err(unexpected(&other)),
    }
}
