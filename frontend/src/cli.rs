//! The command line, one subcommand per file.
//!
//! Scripts rely on these rules: results go to standard output and everything else to standard error. An error is one line
//! `mailprobe: what is wrong; what to do`. The exit code is 0 for success, 1 for a failure, 2 for wrong usage
//! (`doctor` adds 3 for warnings). A command
//! without the arguments that it needs prints its help, as wrong usage.

mod accept_keys;
pub mod account;
mod backup;
mod check;
pub mod classify;
mod clean;
mod clock;
mod cluster;
mod credentials;
mod deletion;
mod doctor;
mod examples;
mod flags;
mod installation;
pub mod key;
mod learn;
mod learned;
mod log;
mod metrics;
mod notify;
mod open_files;
mod openapi;
mod opened_store;
mod place;
mod print_config;
mod private_hosts;
mod program;
mod reload;
mod self_check;
mod serve;
mod table;
mod terminal;

use account::Place;
use clap::{CommandFactory, Parser, Subcommand};
use flags::{DATA, Flags};
pub use program::{Failure, StartEngine, start_engine};
use program::{Output, VERSION};
use std::ffi::OsString;
use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;

/// Verify mail addresses: check whether their mailboxes accept mail.
#[derive(Parser)]
#[command(name = "mailprobe", version = VERSION, propagate_version = true, arg_required_else_help = true)]
#[command(after_help = examples::of("mailprobe"))]
struct Cli {
    #[command(subcommand)]
    command: Command,
    /// Print only results and errors: no progress, no summary, no warnings.
    #[arg(short, long, global = true)]
    quiet: bool,
}

#[derive(Subcommand)]
enum Command {
    /// Serve the HTTP API and the dashboard.
    #[command(after_help = examples::of("serve"))]
    Serve(serve::ServeArgs),
    /// Check addresses and print one line for each.
    #[command(arg_required_else_help = true, after_help = examples::of("check"))]
    Check(check::CheckArgs),
    /// Check a list: keep its columns and append `deliverable` and `reason` to each row.
    #[command(arg_required_else_help = true, after_help = examples::of("clean"))]
    Clean(Box<clean::CleanCommand>),
    /// Learn from your own mail: read bounces and deliveries, which later checks use as evidence.
    #[command(arg_required_else_help = true, long_about = learn::ABOUT, after_help = examples::of("learn"))]
    Learn(learn::LearnArgs),
    /// Classify replies of mail servers: read JSON lines {mx, stage, reply}, write {class, scope, reason, rule}.
    #[command(long_about = classify::ABOUT, after_help = examples::of("classify"))]
    Classify(classify::ClassifyArgs),
    /// Manage accounts: on a running server, or in the data folder of a stopped server.
    #[command(arg_required_else_help = true, after_help = examples::of("account"))]
    Account(Administered<account::AccountArgs>),
    /// Manage API keys: on a running server, or in the data folder of a stopped server.
    #[command(arg_required_else_help = true, after_help = examples::of("key"))]
    Key(Administered<key::KeyArgs>),
    /// Write a backup of all accounts, keys, credits and results. The server may keep running.
    #[command(arg_required_else_help = true, after_help = examples::of("backup"))]
    Backup(Administered<backup::BackupArgs>),
    /// Restore a backup: to a new or empty data folder, or to an empty schema of PostgreSQL (--store-url).
    #[command(arg_required_else_help = true, after_help = examples::of("restore"))]
    Restore(Administered<backup::RestoreArgs>),
    /// Return unused space of the database to the file system. Stop the server first.
    #[command(after_help = examples::of("compact"))]
    Compact(Administered<backup::CompactArgs>),
    /// Accept the keys that are now in the data folder, if the keys of its database are lost. Stop the server first.
    #[command(long_about = accept_keys::ABOUT, after_help = examples::of("accept-keys"))]
    AcceptKeys(Administered<accept_keys::AcceptKeysArgs>),
    /// Create a cluster of nodes on one PostgreSQL, add nodes to it, show it, and upgrade it.
    #[command(arg_required_else_help = true, after_help = examples::of("cluster"))]
    Cluster(Administered<cluster::ClusterArgs>),
    /// Find what makes checks fail or verdicts wrong on this machine, and say what to do.
    #[command(long_about = doctor::ABOUT, after_help = examples::of("doctor"))]
    Doctor(doctor::DoctorArgs),
    /// Print the metrics of a running server in the text format of Prometheus.
    #[command(after_help = examples::of("metrics"))]
    Metrics(Administered<metrics::MetricsArgs>),
    #[command(hide = true)]
    Clock(Administered<clock::ClockArgs>),
    /// Print the effective configuration as TOML, or a commented file with all defaults.
    #[command(after_help = examples::of("config"))]
    Config(print_config::PrintConfigArgs),
    /// Print the OpenAPI description of the HTTP API as JSON.
    #[command(after_help = examples::of("openapi"))]
    Openapi(openapi::OpenapiArgs),
    /// Print the completions of a shell: bash, zsh, fish, elvish or powershell.
    #[command(arg_required_else_help = true, after_help = examples::of("completions"))]
    Completions {
        /// The shell.
        shell: clap_complete::Shell,
    },
    // For packages.
    /// Write a page for man of each command to a folder.
    #[command(hide = true)]
    Man {
        /// The folder, which exists.
        folder: PathBuf,
    },
}

// A command for a store, and the flags that locate the store. It has no doc comment: clap would use it as the help of each command.
#[derive(clap::Args)]
struct Administered<A: clap::Args> {
    #[command(flatten)]
    args: A,
    #[command(flatten)]
    flags: Flags<DATA>,
}

impl<A: clap::Args> Administered<A> {
    /// Runs the command with the store that the flags locate.
    fn run(
        self,
        command: impl FnOnce(A, Place<'_>, &mut dyn Write) -> Result<(), String>,
    ) -> Result<(), Failure> {
        let config = self.flags.config()?;
        config.check_data_folder()?;
        let plans = config.plan_table()?;
        let base_url = config.reachable_at();
        let cluster = config.cluster_place()?;
        let place = Place {
            data: &config.data,
            data_is_named: config.data_is_named,
            cluster: cluster.as_ref(),
            plans: &plans,
            base_url: &base_url,
            now: store::clock::now(),
        };
        let mut output = Output::lock();
        command(self.args, place, &mut output).map_err(|line| match output.is_closed {
            true => Failure::output_closed(),
            false => Failure::failed(line),
        })
    }
}

/// Flags of other programs for the address of the API.
const MEANT: [usage::Meant; 4] = [
    ("--port", "listen", "IP:PORT"),
    ("--host", "listen", "IP:PORT"),
    ("--bind", "listen", "IP:PORT"),
    ("--address", "listen", "IP:PORT"),
];

/// Runs the command line.
pub fn main(arguments: impl IntoIterator<Item = OsString>, start_engine: StartEngine) -> ExitCode {
    let Cli { command, quiet } = match usage::parse_with::<Cli>("mailprobe", arguments, &MEANT) {
        Ok(cli) => cli,
        Err(code) => return code,
    };
    let failure = match run(command, quiet, start_engine) {
        Ok(code) => return code,
        Err(failure) => failure,
    };
    if let Some(line) = &failure.line {
        usage::complain("mailprobe", line);
    }
    ExitCode::from(failure.code)
}

fn run(command: Command, quiet: bool, start_engine: StartEngine) -> Result<ExitCode, Failure> {
    let done = match command {
        Command::Doctor(args) => return doctor::run(&args),
        // A server that ends says why.
        Command::Serve(args) => {
            serve::run(&args, quiet, start_engine).map_err(|failure| match failure.line {
                Some(_) => failure,
                None => Failure::failed("the reader of standard output closed it"),
            })
        }
        Command::Check(args) => check::run(&args, quiet, start_engine),
        Command::Clean(args) => clean::run(*args, quiet, start_engine),
        Command::Classify(args) => classify_lines(&args),
        Command::Learn(args) => learn::run(&args, quiet),
        // The account command refuses this too. Here the refusal gets the exit code of wrong usage.
        Command::Account(it) => match it.args.unconfirmed() {
            Some(line) => Err(Failure::usage(line)),
            None => it.run(account::run),
        },
        Command::Key(it) => it.run(key::run),
        Command::Backup(it) => it.run(|args, place, output| backup::back_up(&args, place, output)),
        Command::Restore(it) => it.run(|args, place, output| backup::restore(&args, place, output)),
        Command::Compact(it) => it.run(|args, place, output| backup::compact(&args, place, output)),
        Command::AcceptKeys(it) => it.run(|args, place, output| accept_keys::run(&args, place, output)),
        Command::Cluster(it) => it.run(|args, place, output| cluster::run(&args, place, output)),
        Command::Metrics(it) => it.run(|args, place, output| metrics::run(&args, place, output)),
        Command::Clock(it) => it.run(|args, place, output| clock::run(&args, place, output)),
        Command::Config(args) => print_config::run(&args),
        Command::Openapi(args) => openapi::run(&args),
        Command::Completions { shell } => {
            // The generator panics if a write fails, so it writes to memory.
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut Cli::command(), "mailprobe", &mut script);
            io::stdout().write_all(&script).map_err(Failure::from)
        }
        Command::Man { folder } => {
            let made = clap_mangen::generate_to(Cli::command(), &folder);
            made.map_err(|error| Failure::failed(format!("cannot write to {}: {error}", folder.display())))
        }
    };
    done.map(|()| ExitCode::SUCCESS)
}

fn classify_lines(args: &classify::ClassifyArgs) -> Result<(), Failure> {
    let input = args.open().map_err(Failure::failed)?;
    match classify::run(input, io::stdout().lock())? {
        0 => Ok(()),
        count => Err(Failure::failed(format!(
            "lines that could not be read: {count}; the output gives the reason for each"
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn the_command_line_is_sound() {
        Cli::command().debug_assert();
        assert_eq!(usage::values::flags_with_unclear_errors(&Cli::command()), [""; 0]);
    }

    #[test]
    fn a_command_without_its_arguments_prints_its_help() {
        for arguments in
            ["mailprobe", "mailprobe check", "mailprobe clean", "mailprobe account", "mailprobe key"]
        {
            let Err(error) = Cli::try_parse_from(arguments.split(' ')) else { panic!("{arguments}") };
            assert_eq!(
                error.kind(),
                clap::error::ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand,
                "{arguments}"
            );
            assert!(error.to_string().contains(&format!("Usage: {arguments}")), "{error}");
        }
    }

    /// The commands that a help shows, each with its options.
    fn commands(command: &clap::Command, names: String, all: &mut Vec<(String, Vec<String>)>) {
        let options = command.get_arguments().filter(|option| !option.is_hide_set());
        let longs = options.filter_map(|option| option.get_long()).map(|long| format!("--{long}")).collect();
        for next in command.get_subcommands().filter(|it| !it.is_hide_set() && it.get_name() != "help") {
            commands(next, format!("{names} {}", next.get_name()), all);
        }
        all.push((names, longs));
    }

    #[test]
    fn the_error_about_an_unknown_option_names_a_command_that_has_it() {
        let (mut cli, mut all) = (Cli::command(), Vec::new());
        cli.build();
        commands(&cli, "mailprobe".into(), &mut all);
        let said = |line: &str| {
            usage::refusal::<Cli>("mailprobe", line.split(' ').map(OsString::from), &MEANT).unwrap()
        };
        let has = |names: &str, option: &str| {
            all.iter().any(|(known, options)| known == names && options.iter().any(|it| it == option))
        };
        let options: BTreeSet<&String> = all.iter().flat_map(|(_, options)| options).collect();
        // Each option with three commands that do not have it.
        for (at, option) in options.iter().enumerate() {
            let others: Vec<_> =
                all.iter().map(|(names, _)| names).filter(|names| !has(names, option)).collect();
            for names in (0..3).filter_map(|n| others.get((at + n * 7) % others.len().max(1))) {
                let said = said(&format!("{names} {option}"));
                let (_, tip) = said.split_once("; tip: ").unwrap();
                let (tip, help) = tip.split_once("; see `").unwrap();
                let mut owners = tip.split('`').skip(1).step_by(2);
                assert!(help.starts_with(&format!("{names} --help`")), "{said}");
                assert!(tip.starts_with('`') && owners.all(|owner| has(owner, option)), "{said}");
            }
        }
        assert!(options.len() > 100, "{options:?}");
        let expires = said("mailprobe account create --expires 3d");
        assert!(expires.contains("found; tip: `mailprobe key create` has --expires; see"), "{expires}");
        assert!(said("mailprobe serve --port 80").contains("similar argument exists: '--listen IP:PORT'"));
        assert!(said("mailprobe clean list.csv --retri").contains("similar argument exists: '--retry'"));
    }

    #[test]
    fn every_command_shows_examples_that_it_accepts() {
        let mut cli = Cli::command();
        cli.build();
        for command in cli.get_subcommands().filter(|it| !it.is_hide_set() && it.get_name() != "help") {
            let name = command.get_name();
            let examples = command.get_after_help().map(ToString::to_string).unwrap_or_default();
            let lines: Vec<&str> = examples.lines().filter_map(|line| line.strip_prefix("  ")).collect();
            assert!(!lines.is_empty(), "{name}: no example");
            for line in lines {
                let said = line.split_once("mailprobe ").map(|(_, rest)| rest);
                let said = said.and_then(|rest| rest.split([';', '|', '>', '<']).next()).unwrap_or_default();
                let words = said.split_whitespace().map(|word| word.trim_matches(['\'', '"']));
                let read = Cli::try_parse_from(std::iter::once("mailprobe").chain(words));
                assert!(read.is_ok(), "{name}: {line}: {}", read.err().unwrap());
                assert!(said.starts_with(name), "{name}: {line}");
            }
        }
    }
}
