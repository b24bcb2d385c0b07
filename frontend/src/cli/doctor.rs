//! `mailprobe doctor`: prints what is wrong with this machine, what it means for verdicts, and what to do.

use super::flags::{DATA, ENGINE, Flags, LEARNED, SERVER};
use super::log;
use super::program::Failure;
use super::terminal::shows_colours;
use crate::doctor::{Asked, MAIL_SERVERS, examine};
use std::io::{self, Write};
use std::process::ExitCode;

/// The text of `--help`.
pub const ABOUT: &str = "\
Find what makes checks fail or verdicts wrong: resolvers, outbound port 25, names and reputation of the sources, \
the clock, limits, the data folder, the certificate and the configuration.

Give this command the same flags and configuration file as `serve`, and run it as the same user. It contacts the resolvers, the \
mail servers of --mx, the blocklists of --blocklist and the PostgreSQL of a cluster. To a mail server it sends only QUIT.

Exit codes: 0 if nothing is to be done, 3 with warnings, 1 with failures, 2 for wrong usage";

/// The arguments of `mailprobe doctor`.
#[derive(clap::Args)]
pub struct DoctorArgs {
    /// Mail server to reach, by its name or its IP address (repeatable). With another --smtp-port than 25, name one that
    /// listens there.
    #[arg(long, value_name = "HOST", default_values = MAIL_SERVERS)]
    mx: Vec<String>,
    /// Zone of a DNS blocklist (repeatable).
    #[arg(long, value_name = "ZONE", default_values = ["zen.spamhaus.org", "bl.spamcop.net", "b.barracudacentral.org"])]
    blocklist: Vec<String>,
    /// Print one JSON object: {severity, findings: [{check, subject, severity, found, meaning, remedy}]}.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    flags: Flags<{ DATA | SERVER | ENGINE | LEARNED }>,
}

/// Runs `mailprobe doctor`.
///
/// # Errors
/// The output cannot be written.
pub fn run(args: &DoctorArgs) -> Result<ExitCode, Failure> {
    // The findings say it better than the warnings of the engine.
    log::warnings(true);
    let asked = Asked { mx: args.mx.clone(), blocklists: args.blocklist.clone() };
    let report = examine(args.flags.config(), &asked);
    let mut output = io::stdout().lock();
    if args.json {
        serde_json::to_writer_pretty(&mut output, &report).map_err(io::Error::from)?;
        writeln!(output)?;
    } else {
        let colours = shows_colours(&io::stdout());
        report.write(&mut output, colours)?;
    }
    output.flush()?;
    Ok(ExitCode::from(report.exit_code()))
}
