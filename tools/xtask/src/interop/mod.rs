//! `cargo xtask interop`: mailprobe against DNS and mail servers of other projects.
//!
//! The task creates network namespaces (net.rs), starts the servers in them (servers.rs), proves that they answer as
//! the cases (cases.rs) expect (selftest.rs), and then asks mailprobe about every case. docs/testing.md describes how
//! to run it and how to add a case.

mod bulk;
mod cases;
pub mod drivers;
mod figures;
mod judge;
pub mod net;
mod patient;
pub mod process;
pub mod report;
mod selftest;
pub mod servers;

use crate::failure::{Context, Failure, thread_result};
use bulk::BulkSetup;
use cases::{KnownAddress, cases};
use clap::Args;
use drivers::{Mailprobe, Round};
use judge::judge_rows;
use net::{Net, NetNamespace};
use report::Tally;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// The options of `cargo xtask interop`.
#[derive(Args)]
pub struct InteropOptions {
    /// Run only cases with this text in their name.
    #[arg(long, value_name = "NAME")]
    only: Option<String>,
    /// Keep everything running at the end, until Ctrl-C, and keep the folder of the run.
    #[arg(long)]
    keep: bool,
    /// Only print the reply of each server to RCPT, and whether it is the expected one.
    #[arg(long)]
    selftest: bool,
    /// Also measure smtp-source and smtp-sink, and print a markdown table.
    #[arg(long)]
    figures: bool,
    /// Run the cases only in these ways, separated by commas.
    #[arg(
        long,
        value_enum,
        value_delimiter = ',',
        default_values = ["check", "api", "large", "resolvers", "clean", "patient"]
    )]
    ways: Vec<AskedThrough>,
    /// Only remove the remains of killed runs.
    #[arg(long)]
    sweep: bool,
    /// Test this program and do not build one.
    #[arg(long, value_name = "PATH")]
    mailprobe: Option<PathBuf>,
    /// More flags for mailprobe's engine, such as `-- --runtime glommio`.
    #[arg(last = true, value_name = "FLAG")]
    engine: Vec<String>,
}

/// The interfaces and modes of mailprobe.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum AskedThrough {
    /// `mailprobe check` of all cases.
    Check,
    /// `POST /v1/verify` of each case.
    Api,
    /// `mailprobe clean` of the thousand hosts.
    Large,
    /// `mailprobe clean` with Unbound, BIND, Knot Resolver and dnsmasq, each with the kernel's default buffers.
    Resolvers,
    /// `mailprobe clean` of all cases in one list.
    Clean,
    /// Lists and batches at servers that answer "later": eleven minutes.
    Patient,
}

/// Runs the suite and prints its counts; the exit code is 0 if nothing failed.
pub fn main(options: &InteropOptions) -> ExitCode {
    let outcome = if options.sweep { net::sweep().map(|()| Tally::default()) } else { interop(options) };
    match outcome {
        Ok(Tally { failed: 0, .. }) => ExitCode::SUCCESS,
        Ok(_) => ExitCode::FAILURE,
        Err(Failure(message)) => {
            report::line(&format!("interop: {message}"));
            ExitCode::FAILURE
        }
    }
}

fn interop(options: &InteropOptions) -> Result<Tally, Failure> {
    process::watch_signals()?;
    servers::require_programs()?;
    let wanted = |name: &str| options.only.as_deref().is_none_or(|only| name.contains(only));
    let cases = cases()?;
    let mut chosen: Vec<&KnownAddress> = cases.iter().filter(|case| wanted(case.name)).collect();
    if options.ways.iter().all(|way| matches!(way, AskedThrough::Large | AskedThrough::Resolvers)) {
        chosen.clear();
    }
    // Each of the further setups takes minutes, most of them in Postfix, so they run only if they are selected by name.
    let by_name: &[BulkSetup] =
        if options.only.is_some() { &[BulkSetup::Stock50, BulkSetup::Stock200] } else { &[] };
    let mut setups: Vec<BulkSetup> = [BulkSetup::Tuned, BulkSetup::Stock]
        .iter()
        .chain(by_name)
        .copied()
        .filter(|s| wanted(s.name()))
        .collect();
    if chosen.is_empty() && setups.is_empty() && !wanted("patient") {
        return Err(Failure("no case has such a name".into()));
    }
    if !options.ways.contains(&AskedThrough::Large) {
        setups.clear();
    }
    let is_patient = options.ways.contains(&AskedThrough::Patient) && wanted("patient");
    let net = Net::make(options.keep)?;
    servers::configure(&net)?;
    bulk::configure(&net)?;
    let _dns = servers::start_dns(&net)?;
    let mut tally = Tally::default();
    let _mail = if chosen.is_empty() && !is_patient { Vec::new() } else { servers::start_mail(&net)? };
    tally.add(selftest::run(&net, &chosen)?);
    if is_patient {
        tally.add(patient::selftest(&net)?);
    }
    if !options.selftest {
        let mailprobe = Mailprobe::new(&net, binary(options, &net)?, &options.engine);
        let patient = std::thread::scope(|scope| {
            let patient = is_patient.then(|| scope.spawn(|| patient::ask(&mailprobe)));
            ask_all(&net, &mailprobe, options, &chosen, &setups, &mut tally)?;
            let joined = patient.map(|thread| thread_result(thread.join(), "the patient way"));
            joined.unwrap_or(Ok(Tally::default()))
        })?;
        tally.add(patient);
    }
    if options.keep {
        keep(&net)?;
    }
    report::line(&format!("{} passed, {} failed", tally.passed, tally.failed));
    Ok(tally)
}

/// Uses every interface. The three that ask about the cases run at once: a greylisting server sees one client and
/// accepts it after five minutes.
fn ask_all(
    net: &Net,
    mailprobe: &Mailprobe,
    options: &InteropOptions,
    chosen: &[&KnownAddress],
    setups: &[BulkSetup],
    tally: &mut Tally,
) -> Result<(), Failure> {
    let addresses: Vec<&str> = chosen.iter().map(|case| case.address).collect();
    let wanted = |way| options.ways.contains(&way) && !chosen.is_empty();
    std::thread::scope(|scope| {
        let cleaning = wanted(AskedThrough::Clean).then(|| scope.spawn(|| mailprobe.clean(&addresses)));
        if wanted(AskedThrough::Check) {
            judge_round("check", chosen, mailprobe.check(&addresses), tally)?;
        }
        if wanted(AskedThrough::Api) {
            judge_round("api", chosen, mailprobe.api(&addresses), tally)?;
        }
        let Some(cleaning) = cleaning else { return Ok(()) };
        let round = thread_result(cleaning.join(), "the clean driver");
        judge_round("clean", chosen, round, tally)
    })?;
    large(net, mailprobe, setups, options.figures, tally)?;
    if options.ways.contains(&AskedThrough::Resolvers) && options.only.is_none() {
        let folder = mailprobe.binary.parent().unwrap_or(Path::new("."));
        crate::measure::beside_resolvers(folder, &options.engine, tally)?;
    }
    Ok(())
}

fn binary(options: &InteropOptions, net: &Net) -> Result<PathBuf, Failure> {
    match &options.mailprobe {
        // Commands run in the current folder, so a relative path is resolved here.
        Some(path) => path.canonicalize().at(path),
        None => drivers::build(net),
    }
}

/// Compares the results of one interface with the cases. If the interface fails, all its cases fail.
fn judge_round(
    way: &str,
    chosen: &[&KnownAddress],
    round: Result<Round, Failure>,
    tally: &mut Tally,
) -> Result<(), Failure> {
    let rows = chosen.iter().map(|case| (case.name, case.address, case.reason));
    judge_rows(way, rows, round, tally)
}

/// Runs the thousand hosts, and with `figures` the measurements beside them.
fn large(
    net: &Net,
    mailprobe: &Mailprobe,
    setups: &[BulkSetup],
    figures: bool,
    tally: &mut Tally,
) -> Result<(), Failure> {
    let mut table = Vec::new();
    for &setup in setups {
        let _server = bulk::serve(net, setup)?;
        table.extend(clean_bulk(net, mailprobe, setup, tally)?);
        if figures && setup == BulkSetup::Tuned {
            table.push(figures::smtp_source(net, setup.name(), 5000)?);
        }
    }
    if figures {
        let sink = BulkSetup::Sink;
        let _server = bulk::serve(net, sink)?;
        table.extend(clean_bulk(net, mailprobe, sink, tally)?);
        table.push(figures::smtp_source(net, sink.name(), 5000)?);
        table.push(figures::smtp_source_grouped(net, sink.name(), 5000)?);
        figures::print(&table);
    }
    Ok(())
}

/// A run that fails counts as a failed check, and the next one is made nevertheless.
fn clean_bulk(
    net: &Net,
    mailprobe: &Mailprobe,
    setup: BulkSetup,
    tally: &mut Tally,
) -> Result<Option<figures::Figure>, Failure> {
    let figure = bulk::clean(net, mailprobe, setup, tally);
    process::interrupted()?;
    Ok(figure.map_err(|Failure(message)| tally.check(setup.name(), Err(message))).ok())
}

/// Leaves everything running until Ctrl-C.
fn keep(net: &Net) -> Result<(), Failure> {
    servers::write(&net.folder.join("keep"), "kept by --keep; remove the folder when you are done\n")?;
    report::line(&format!(
        "kept: {}; ip netns exec {} bash",
        net.folder.display(),
        net.space(NetNamespace::Probe)
    ));
    report::line("Ctrl-C ends it");
    while process::interrupted().is_ok() {
        std::thread::sleep(std::time::Duration::from_millis(100));
    }
    Ok(())
}
