//! `cargo xtask interop`: mailprobe against servers that nobody here wrote.
//!
//! It makes network namespaces (net.rs), starts real DNS and mail servers in them (servers.rs), proves that they
//! answer as the cases (cases.rs) say (selftest.rs), and then asks mailprobe about every case.
//! docs/testing.md tells how to run it and how to add a case.

mod cases;
mod net;
mod process;
mod report;
mod selftest;
mod servers;

use clap::Args;
use net::{Net, Space};
use report::Tally;
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
}

/// Runs the suite.
pub fn main(options: &Options) -> ExitCode {
    match interop(options) {
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
    let chosen: Vec<&cases::Case> = cases::CASES.iter().filter(|case| wanted(case.name)).collect();
    let net = Net::make(options.keep)?;
    servers::configure(&net)?;
    let _dns = servers::start_dns(&net)?;
    let _mail = servers::start_mail(&net)?;
    let tally = selftest::run(&net, &chosen)?;
    if options.keep {
        keep(&net)?;
    }
    report::line(&format!("{} passed, {} failed", tally.passed, tally.failed));
    Ok(tally)
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
