//! Shared parts of `evidence` and `manners`: mailnet in this process, so that its records can be read at any time, and
//! `mailprobe clean` against it.

use super::outputs::OutputReader;
use super::world::{CampaignFolder, no_panic};
use crate::failure::{Context, Failure};
use crate::interop::process::{self, Finished, ServerProcess, interrupted};
use mailnet::{Mailnet, Running, Scenario};
use std::collections::HashMap;
use std::fs;
use std::process::Command;
use std::time::{Duration, Instant};

/// The pause between two looks at a run.
const LOOK: Duration = Duration::from_millis(5);

/// The result of a finished `mailprobe clean`.
pub struct Cleaned {
    /// The reason of each address.
    pub said: HashMap<String, String>,
    /// The duration of the run.
    pub took: Duration,
}

/// The options of a run of `mailprobe clean`.
pub struct CleanRun<'a> {
    /// A name for its files.
    pub name: &'a str,
    /// The addresses.
    pub rows: &'a [String],
    /// Further flags.
    pub flags: &'a [&'a str],
    /// The run uses the EHLO name and reverse-path of the campaigns; otherwise mailprobe's defaults.
    pub named: bool,
    /// The name of its state: runs with the same name are of one installation.
    pub state: &'a str,
    /// The longest duration of the run.
    pub limit: Duration,
}

/// Starts a mail internet in this process.
///
/// # Errors
///
/// The scenario is invalid, or an address cannot be bound.
pub fn start(scenario: &str) -> Result<Running, Failure> {
    let scenario = Scenario::parse(scenario).about("the scenario")?;
    Mailnet::start(scenario).about("mailnet")
}

/// `mailprobe clean` with its engine pointed at a mail internet. `named` also sets its EHLO name and reverse-path.
pub fn clean_command(world: &CampaignFolder, net: &Running, named: bool) -> Command {
    world.clean_command((&net.dns().to_string(), &net.smtp_port().to_string()), named)
}

/// Looks at a run of `mailprobe clean` until `look` has found something, or until the run is complete: then there is `None`.
///
/// # Errors
///
/// The run fails, or it takes longer than the limit.
pub fn watch<T>(
    run: &mut ServerProcess,
    limit: Duration,
    mut look: impl FnMut(&mut ServerProcess) -> Result<Option<T>, Failure>,
) -> Result<Option<T>, Failure> {
    let began = Instant::now();
    loop {
        interrupted()?;
        if let Some(found) = look(run)? {
            return Ok(Some(found));
        }
        match run.ended()? {
            Some(status) if status.success() => return Ok(None),
            Some(status) => return Err(run.complain(&format!("ended: {status}"))),
            None if began.elapsed() > limit => return Err(run.complain("does not end")),
            None => std::thread::sleep(LOOK),
        }
    }
}

/// Cleans a list.
///
/// # Errors
///
/// The command fails, takes too long, or its output lacks a verdict for a row.
pub fn clean(world: &CampaignFolder, net: &Running, run: &CleanRun<'_>) -> Result<Cleaned, Failure> {
    let file = |ending: &str| world.path(&format!("{}.{ending}", run.name));
    let (input, output) = (file("csv"), file("cleaned.csv"));
    let list: String = run.rows.iter().map(|row| format!("{row}\n")).collect();
    fs::write(&input, format!("email\n{list}")).at(&input)?;
    let mut command = clean_command(world, net, run.named);
    command.args(["--format", "csv", "--column", "email", "--no-progress", "--force"]);
    command.arg(&input).arg("-o").arg(&output).args(run.flags);
    command.env("XDG_STATE_HOME", world.path(&format!("state-{}", run.state)));
    let began = Instant::now();
    let finished: Finished = process::run(command, "", world.folder(), run.limit)?;
    let took = began.elapsed();
    no_panic(&finished.stderr)?;
    finished.success(&format!("mailprobe clean of {}", run.name))?;
    let rows = OutputReader::open(&output, 0)?;
    let said = rows.map(|row| row.map(|row| (row.own().to_owned(), row.reason)));
    let said = said.collect::<Result<HashMap<_, _>, _>>()?;
    if said.len() != run.rows.len() {
        return Err(Failure(format!("{}: {} verdicts for {} rows", run.name, said.len(), run.rows.len())));
    }
    Ok(Cleaned { said, took })
}
