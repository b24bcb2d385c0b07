//! The command line, one subcommand a file.
//!
//! Scripts rely on it: results go to standard output and everything else to standard error, an error is one line
//! `mailprobe: what is wrong; what to do`, and the exit code is 0 when done, 1 when failed, 2 on bad usage.

mod accept_keys;
pub mod account;
mod backup;
mod check;
pub mod classify;
pub mod clean;
mod clock;
mod credentials;
mod flags;
mod installation;
pub mod key;
mod log;
mod metrics;
mod open_files;
mod openapi;
mod place;
mod print_config;
mod serve;
mod table;

use crate::config::ConfigError;
use account::Place;
use checks::engine_client::Backend;
use clap::error::ErrorKind;
use clap::{Parser, Subcommand};
use engine::StartError;
use engine::config::EngineConfig;
use flags::{DATA, Flags};
use std::ffi::OsString;
use std::io::{self, Write};
use std::process::ExitCode;

/// How an engine is started. The trait is a seam: tests run the whole command line with an engine that asks nobody.
pub type StartEngine = fn(EngineConfig) -> Result<Box<dyn Backend>, StartError>;

/// The engine that asks.
///
/// # Errors
/// As [`engine::Engine::start`].
pub fn start_engine(config: EngineConfig) -> Result<Box<dyn Backend>, StartError> {
    engine::Engine::start(config).map(|engine| Box::new(engine) as Box<dyn Backend>)
}

/// Strict and fast mail address verification: can mail be sent to an address without bouncing?
#[derive(Parser)]
#[command(name = "mailprobe", version, propagate_version = true, arg_required_else_help = false)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Serve the HTTP API.
    Serve(serve::Args),
    /// Check addresses and print a line for each.
    Check(check::Args),
    /// Clean a list: keep its columns and append deliverable and reason.
    Clean(clean::Args),
    /// Say what replies of mail servers mean: JSON lines {mx, stage, reply} in, {class, scope, reason, rule} out.
    Classify,
    Account(Administered<account::AccountArgs>),
    Key(Administered<key::KeyArgs>),
    Backup(Administered<backup::BackupArgs>),
    Restore(Administered<backup::RestoreArgs>),
    Compact(Administered<backup::CompactArgs>),
    /// Go on with the keys that are in the data folder, where those of its database are lost for good. Not while a server runs.
    #[command(long_about = accept_keys::ABOUT)]
    AcceptKeys(Administered<accept_keys::AcceptKeysArgs>),
    Metrics(Administered<metrics::MetricsArgs>),
    #[command(hide = true)]
    Clock(Administered<clock::ClockArgs>),
    /// Print the effective configuration, defaults included, as TOML.
    Config(print_config::Args),
    /// Print the OpenAPI description of the HTTP API, as JSON.
    Openapi(openapi::Args),
}

/// A command for a store, with the flags that lead to it.
#[derive(clap::Args)]
struct Administered<A: clap::Args> {
    #[command(flatten)]
    args: A,
    #[command(flatten)]
    flags: Flags<DATA>,
}

/// Why a command ended early.
pub struct Failure {
    code: u8,
    line: String,
}

impl Failure {
    /// Exit code 1.
    pub fn failed(line: impl Into<String>) -> Failure {
        Failure { code: 1, line: line.into() }
    }

    /// Exit code 2.
    pub fn usage(line: impl Into<String>) -> Failure {
        Failure { code: 2, line: line.into() }
    }
}

impl From<StartError> for Failure {
    fn from(error: StartError) -> Failure {
        Failure::failed(error.0)
    }
}

impl From<ConfigError> for Failure {
    fn from(error: ConfigError) -> Failure {
        Failure::usage(error.0)
    }
}

/// Standard output is gone or full.
impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Failure {
        Failure::failed(format!("cannot write the output: {error}"))
    }
}

/// Runs the command line.
pub fn main(arguments: impl IntoIterator<Item = OsString>, start_engine: StartEngine) -> ExitCode {
    let failure = match Cli::try_parse_from(arguments) {
        Ok(cli) => match run(cli.command, start_engine) {
            Ok(()) => return ExitCode::SUCCESS,
            Err(failure) => failure,
        },
        Err(error) => match error.kind() {
            ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => {
                return if error.print().is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE };
            }
            _ => Failure::usage(in_one_line(&error)),
        },
    };
    // A line is a line, whatever was quoted in it.
    let line: String = failure.line.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    // When standard error is gone too, the exit code is all there is to say.
    let _ = writeln!(io::stderr(), "mailprobe: {line}");
    ExitCode::from(failure.code)
}

fn run(command: Command, start_engine: StartEngine) -> Result<(), Failure> {
    match command {
        Command::Serve(args) => serve::run(&args, start_engine),
        Command::Check(args) => check::run(&args, start_engine),
        Command::Clean(args) => clean::run(args, start_engine),
        Command::Classify => classify_lines(),
        Command::Account(Administered { args, flags }) => {
            administer(&flags, |place, output| account::run(args, place, output))
        }
        Command::Key(Administered { args, flags }) => {
            administer(&flags, |place, output| key::run(args, place, output))
        }
        Command::Backup(Administered { args, flags }) => {
            administer(&flags, |place, output| backup::back_up(&args, place, output))
        }
        Command::Restore(Administered { args, flags }) => {
            administer(&flags, |place, output| backup::restore(&args, place, output))
        }
        Command::Compact(Administered { args, flags }) => {
            administer(&flags, |place, output| backup::compact(&args, place, output))
        }
        Command::AcceptKeys(Administered { args, flags }) => {
            administer(&flags, |place, output| accept_keys::run(&args, place, output))
        }
        Command::Metrics(Administered { args, flags }) => {
            administer(&flags, |place, output| metrics::run(&args, place, output))
        }
        Command::Clock(Administered { args, flags }) => {
            administer(&flags, |place, output| clock::run(&args, place, output))
        }
        Command::Config(args) => print_config::run(&args),
        Command::Openapi(args) => openapi::run(&args),
    }
}

fn classify_lines() -> Result<(), Failure> {
    match classify::run(io::stdin().lock(), io::stdout().lock())? {
        0 => Ok(()),
        count => Err(Failure::failed(format!(
            "lines that could not be read: {count}; each says why where it stands"
        ))),
    }
}

fn administer(
    flags: &Flags<DATA>,
    command: impl FnOnce(Place<'_>, &mut dyn Write) -> Result<(), String>,
) -> Result<(), Failure> {
    let config = flags.config()?;
    let plans = config.plan_table()?;
    let base_url = config.reachable_at();
    let place = Place { data: &config.data, plans: &plans, base_url: &base_url, now: store::clock::now() };
    command(place, &mut io::stdout().lock()).map_err(Failure::failed)
}

/// clap explains itself over several lines; the first paragraph says what is wrong.
fn in_one_line(error: &clap::Error) -> String {
    let text = error.to_string();
    let words: Vec<&str> = text
        .lines()
        .map(str::trim)
        .take_while(|line| !line.starts_with("Usage:") && !line.starts_with("For more information"))
        .filter(|line| !line.is_empty())
        .collect();
    let what = words.join(" ");
    format!("{}; see `mailprobe --help`", what.trim_start_matches("error: "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_sound() {
        Cli::command().debug_assert();
    }

    #[test]
    fn usage_errors_are_one_line() {
        for (arguments, expected) in [
            ("mailprobe", "requires a subcommand"),
            ("mailprobe srve", "unrecognized subcommand 'srve'"),
            ("mailprobe check", "required arguments were not provided: <ADDRESS>..."),
            ("mailprobe serve --lissten x", "unexpected argument '--lissten' found"),
        ] {
            let Err(error) = Cli::try_parse_from(arguments.split(' ')) else { panic!("{arguments}") };
            let line = in_one_line(&error);
            assert!(line.contains(expected) && !line.contains('\n'), "{arguments}: {line}");
            assert!(line.ends_with("; see `mailprobe --help`"), "{line}");
        }
    }
}
