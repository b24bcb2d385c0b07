//! `cargo xtask interop`: mailprobe against servers that nobody here wrote.
//!
//! It makes network namespaces (net.rs), starts real DNS and mail servers in them (servers.rs), proves that they
//! answer as the cases (cases.rs) say (selftest.rs), and then asks mailprobe about every case.
//! docs/testing.md tells how to run it and how to add a case.

mod bulk;
mod cases;
mod drivers;
mod figures;
mod net;
mod patient;
pub mod process;
pub mod report;
mod selftest;
mod servers;

use bulk::Setup;
use cases::{CASES, Case};
use clap::Args;
pub use drivers::live_key;
use drivers::{Mailprobe, Round, Said};
use net::{Net, Space};
use report::Tally;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// What went wrong, in words for the person at the terminal.
#[derive(Debug)]
pub struct Failure(pub String);

#[derive(Args)]
pub struct Options {
    /// Only the cases whose name contains this.
    #[arg(long, value_name = "NAME")]
    only: Option<String>,
    /// At the end, keep everything running until Ctrl-C, and the folder of the run after it.
    #[arg(long)]
    keep: bool,
    /// Only print what each server says at RCPT, and whether that is what the cases count on.
    #[arg(long)]
    selftest: bool,
    /// Also measure smtp-source and smtp-sink, and print a markdown table.
    #[arg(long)]
    figures: bool,
    /// Only these ways of asking.
    #[arg(
        long,
        value_enum,
        value_delimiter = ',',
        default_values = ["check", "api", "large", "resolvers", "clean", "patient"]
    )]
    ways: Vec<Way>,
    /// Only remove what killed runs left behind.
    #[arg(long)]
    sweep: bool,
    /// Test this binary instead of building one.
    #[arg(long, value_name = "PATH")]
    mailprobe: Option<PathBuf>,
    /// More flags for mailprobe's engine, such as `-- --runtime glommio`.
    #[arg(last = true, value_name = "FLAG")]
    engine: Vec<String>,
}

/// What mailprobe is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Way {
    /// `mailprobe check` of all cases.
    Check,
    /// `POST /v1/verify` of each case.
    Api,
    /// `mailprobe clean` of the thousand hosts.
    Large,
    /// `mailprobe clean` beside Unbound, BIND, Knot Resolver and dnsmasq, each with the kernel's default buffers.
    Resolvers,
    /// `mailprobe clean` of all cases.
    Clean,
    /// Lists and batches that come back to servers that say "later": eleven minutes.
    Patient,
}

/// Runs the suite.
pub fn main(options: &Options) -> ExitCode {
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

fn interop(options: &Options) -> Result<Tally, Failure> {
    process::watch_signals()?;
    servers::require_programs()?;
    let wanted = |name: &str| options.only.as_deref().is_none_or(|only| name.contains(only));
    let mut chosen: Vec<&Case> = CASES.iter().filter(|case| wanted(case.name)).collect();
    if options.ways.iter().all(|way| matches!(way, Way::Large | Way::Resolvers)) {
        chosen.clear();
    }
    // Each of the further ones takes minutes, most of them Postfix's: they run when they are asked for by name.
    let by_name: &[Setup] = if options.only.is_some() { &[Setup::Stock50, Setup::Stock200] } else { &[] };
    let mut setups: Vec<Setup> =
        [Setup::Tuned, Setup::Stock].iter().chain(by_name).copied().filter(|s| wanted(s.name())).collect();
    if chosen.is_empty() && setups.is_empty() && !wanted("patient") {
        return Err(Failure("no case has such a name".into()));
    }
    if !options.ways.contains(&Way::Large) {
        setups.clear();
    }
    let is_patient = options.ways.contains(&Way::Patient) && wanted("patient");
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
            let joined = patient.map(|thread| thread.join());
            joined
                .unwrap_or(Ok(Ok(Tally::default())))
                .unwrap_or_else(|_| Err(Failure("the patient way panicked".into())))
        })?;
        tally.add(patient);
    }
    if options.keep {
        keep(&net)?;
    }
    report::line(&format!("{} passed, {} failed", tally.passed, tally.failed));
    Ok(tally)
}

/// Asks in every way. The three ways of asking about the cases go on at once, before a greylisting server, to whom
/// they are one client, lets it in after five minutes.
fn ask_all(
    net: &Net,
    mailprobe: &Mailprobe,
    options: &Options,
    chosen: &[&Case],
    setups: &[Setup],
    tally: &mut Tally,
) -> Result<(), Failure> {
    let addresses: Vec<&str> = chosen.iter().map(|case| case.address).collect();
    let wanted = |way| options.ways.contains(&way) && !chosen.is_empty();
    std::thread::scope(|scope| {
        let cleaning = wanted(Way::Clean).then(|| scope.spawn(|| mailprobe.clean(&addresses)));
        if wanted(Way::Check) {
            judge_round("check", chosen, mailprobe.check(&addresses), tally)?;
        }
        if wanted(Way::Api) {
            judge_round("api", chosen, mailprobe.api(&addresses), tally)?;
        }
        let Some(cleaning) = cleaning else { return Ok(()) };
        let round = cleaning.join().unwrap_or_else(|_| Err(Failure("the clean driver panicked".into())));
        judge_round("clean", chosen, round, tally)
    })?;
    large(net, mailprobe, setups, options.figures, tally)?;
    if options.ways.contains(&Way::Resolvers) && options.only.is_none() {
        let folder = mailprobe.binary.parent().unwrap_or(Path::new("."));
        crate::measure::beside_resolvers(folder, &options.engine, tally)?;
    }
    Ok(())
}

fn binary(options: &Options, net: &Net) -> Result<PathBuf, Failure> {
    match &options.mailprobe {
        // Commands run in the folder they are started from, whatever the path is relative to.
        Some(path) => path.canonicalize().map_err(|error| Failure(format!("{}: {error}", path.display()))),
        None => drivers::build(net),
    }
}

/// Compares what one way of asking brought with the cases. A way that fails fails its cases; the others still
/// tell something.
fn judge_round(
    way: &str,
    chosen: &[&Case],
    round: Result<Round, Failure>,
    tally: &mut Tally,
) -> Result<(), Failure> {
    let rows = chosen.iter().map(|case| (case.name, case.address, case.reason));
    judge_rows(way, rows, round, tally)
}

/// The same for rows of name, address and reason.
fn judge_rows<'a>(
    way: &str,
    rows: impl Iterator<Item = (&'a str, &'a str, &'a str)>,
    round: Result<Round, Failure>,
    tally: &mut Tally,
) -> Result<(), Failure> {
    process::interrupted()?;
    let round =
        round.unwrap_or_else(|Failure(message)| Round { complaints: vec![message], ..Round::default() });
    for (name, address, reason) in rows {
        tally.check(&format!("{way} {name}"), judge(reason, round.answers.get(address)));
    }
    let smooth = round.complaints.is_empty();
    tally.check(way, if smooth { Ok("nothing else".into()) } else { Err(round.complaints.join("\n")) });
    Ok(())
}

/// Whether what was said is what is expected.
fn judge(expected: &str, said: Option<&Said>) -> Result<String, String> {
    let Some(Said { deliverable, reason }) = said else { return Err("no answer".into()) };
    if reason == expected && *deliverable == matches!(expected, "mailbox_exists" | "role_account") {
        return Ok(reason.clone());
    }
    Err(format!("{reason} (deliverable {deliverable}), not {expected}"))
}

/// The thousand hosts, and with `figures` what else is measured beside them.
fn large(
    net: &Net,
    mailprobe: &Mailprobe,
    setups: &[Setup],
    figures: bool,
    tally: &mut Tally,
) -> Result<(), Failure> {
    let mut table = Vec::new();
    for &setup in setups {
        let _server = bulk::serve(net, setup)?;
        table.extend(clean_bulk(net, mailprobe, setup, tally)?);
        if figures && setup == Setup::Tuned {
            table.push(figures::smtp_source(net, setup.name(), 5000)?);
        }
    }
    if figures {
        let sink = Setup::Sink;
        let _server = bulk::serve(net, sink)?;
        table.extend(clean_bulk(net, mailprobe, sink, tally)?);
        table.push(figures::smtp_source(net, sink.name(), 5000)?);
        table.push(figures::smtp_source_grouped(net, sink.name(), 5000)?);
        figures::print(&table);
    }
    Ok(())
}

/// A run that fails is a failed check, and the next one is made all the same.
fn clean_bulk(
    net: &Net,
    mailprobe: &Mailprobe,
    setup: Setup,
    tally: &mut Tally,
) -> Result<Option<figures::Figure>, Failure> {
    let figure = bulk::clean(net, mailprobe, setup, tally);
    process::interrupted()?;
    Ok(figure.map_err(|Failure(message)| tally.check(setup.name(), Err(message))).ok())
}

/// Leaves everything as it is until somebody has seen enough.
fn keep(net: &Net) -> Result<(), Failure> {
    servers::write(&net.folder.join("keep"), "kept by --keep; remove the folder when you are done\n")?;
    report::line(&format!("kept: {}; ip netns exec {} bash", net.folder.display(), net.space(Space::Probe)));
    report::line("Ctrl-C ends it");
    while process::interrupted().is_ok() {
        std::thread::sleep(std::time::Duration::from_millis(100));
    }
    Ok(())
}
