//! The command `mailnet`: serves a scenario until a signal, or writes addresses with the right answers about them.

use clap::{Args, Parser, Subcommand};
use mailnet::{Journal, Mailnet, Scenario, raise_open_files};
use std::{
    error::Error,
    fs::File,
    io::{self, BufWriter, Write},
    net::SocketAddr,
    path::{Path, PathBuf},
    process::ExitCode,
};
use tokio::signal::unix::{SignalKind, signal};
use usage::values::whole_number;

/// Run a DNS server and mail servers on loopback, as a scenario file describes them.
#[derive(Parser)]
#[command(version, args_conflicts_with_subcommands = true, arg_required_else_help = true)]
struct Cli {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    serve: Option<Serve>,
}

#[derive(Args)]
struct Serve {
    /// Scenario file.
    #[arg(long, value_name = "FILE")]
    scenario: PathBuf,
    /// Address of the DNS server, in place of the scenario's; port 0 takes a free port.
    #[arg(long, value_name = "IP:PORT")]
    dns: Option<SocketAddr>,
    /// Port of all mail hosts, in place of the scenario's; 0 takes a free port.
    #[arg(long, value_name = "N", value_parser = whole_number(0..=u16::MAX))]
    smtp_port: Option<u16>,
    /// Write this number of addresses to the file of --out at the start.
    #[arg(long, value_name = "N", requires = "out", default_value_t = 0, value_parser = whole_number(0..=1_000_000_000usize))]
    addresses: usize,
    /// File for the addresses.
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Seed of the addresses. The same seed gives the same addresses.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = whole_number(0..=u64::MAX))]
    seed: u64,
    /// Write the journal to this file at the end: one JSON object per line. Requires `journal = true` in the scenario.
    #[arg(long, value_name = "FILE")]
    journal: Option<PathBuf>,
}

#[derive(Subcommand)]
enum Command {
    /// Write addresses of a scenario as CSV, with the columns `address` and `expected`.
    Addresses {
        /// Scenario file.
        #[arg(long, value_name = "FILE")]
        scenario: PathBuf,
        /// Number of addresses.
        #[arg(short, value_parser = whole_number(0..=1_000_000_000usize))]
        n: usize,
        /// Seed of the addresses. The same seed gives the same addresses.
        #[arg(long, value_name = "N", default_value_t = 1, value_parser = whole_number(0..=u64::MAX))]
        seed: u64,
        /// Write the expected reason of a check that retries after greylisting.
        #[arg(long)]
        patient: bool,
        /// File for the addresses [default: standard output].
        #[arg(long, value_name = "FILE")]
        out: Option<PathBuf>,
    },
}

const PROGRAM: &str = "mailnet";

fn main() -> ExitCode {
    let cli = match usage::parse(PROGRAM, std::env::args_os()) {
        Ok(cli) => cli,
        Err(code) => return code,
    };
    match run(cli) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            usage::complain(PROGRAM, &error.to_string());
            ExitCode::FAILURE
        }
    }
}

fn run(cli: Cli) -> Result<(), Box<dyn Error>> {
    match (cli.command, cli.serve) {
        (Some(Command::Addresses { scenario, n, seed, patient, out }), _) => {
            let scenario = read(&scenario)?;
            match out {
                Some(path) => write_addresses(&scenario, n, seed, patient, File::create(path)?),
                None => write_addresses(&scenario, n, seed, patient, io::stdout().lock()),
            }
        }
        (None, Some(options)) => serve(options),
        (None, None) => Err("--scenario FILE is missing; see --help".into()),
    }
}

fn read(path: &Path) -> Result<Scenario, Box<dyn Error>> {
    let text = std::fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
    Ok(Scenario::parse(&text).map_err(|error| format!("{}: {error}", path.display()))?)
}

fn write_addresses(
    scenario: &Scenario,
    count: usize,
    seed: u64,
    patient: bool,
    out: impl Write,
) -> Result<(), Box<dyn Error>> {
    let mut out = BufWriter::new(out);
    writeln!(out, "address,expected")?;
    for (address, expected) in scenario.addresses(count, seed) {
        writeln!(out, "{},{}", field(&address), if patient { expected.patient } else { expected.reason })?;
    }
    Ok(out.flush()?)
}

/// A field of CSV (RFC 4180): quoted local parts need doubled quotes.
fn field(text: &str) -> String {
    if text.contains(['"', ',', '\n', '\r']) {
        format!("\"{}\"", text.replace('"', "\"\""))
    } else {
        text.to_owned()
    }
}

fn serve(options: Serve) -> Result<(), Box<dyn Error>> {
    let mut scenario = read(&options.scenario)?;
    if let Some(address) = options.dns {
        scenario = scenario.with_dns(address);
    }
    if let Some(port) = options.smtp_port {
        scenario = scenario.with_smtp_port(port);
    }
    if let Some(path) = &options.out {
        write_addresses(&scenario, options.addresses, options.seed, false, File::create(path)?)?;
    }
    let (domains, hosts) = (scenario.domains(), scenario.hosts());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    // The signals are caught before the ready line is printed, so that its reader may send one.
    let mut stopped = runtime.block_on(async { Stopped::new() })?;
    raise_open_files();
    let running = Mailnet::start(scenario)?;
    let mut out = io::stdout();
    writeln!(out, "dns {} smtp-port {} domains {domains} hosts {hosts}", running.dns(), running.smtp_port())?;
    out.flush()?;
    runtime.block_on(stopped.wait());
    if let Some(path) = &options.journal {
        write_journal(&running.journal(), File::create(path)?)?;
    }
    writeln!(out, "{}", serde_json::to_string(&running.stop())?)?;
    Ok(out.flush()?)
}

/// Writes the events, and at the end how many were lost.
fn write_journal(journal: &Journal, out: impl Write) -> Result<(), Box<dyn Error>> {
    let mut out = BufWriter::new(out);
    for event in &journal.events {
        writeln!(out, "{}", serde_json::to_string(event)?)?;
    }
    if journal.lost > 0 {
        writeln!(out, "{{\"lost\":{}}}", journal.lost)?;
    }
    Ok(out.flush()?)
}

struct Stopped {
    terminate: tokio::signal::unix::Signal,
    interrupt: tokio::signal::unix::Signal,
}

impl Stopped {
    fn new() -> io::Result<Stopped> {
        Ok(Stopped {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
        })
    }

    async fn wait(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_sound() {
        let command = Cli::command();
        command.clone().debug_assert();
        assert_eq!(usage::values::flags_with_unclear_errors(&command), [""; 0]);
    }
}
