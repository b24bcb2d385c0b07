//! What `evidence` and `manners` have in common: mailnet in this process, so that what it knows and saw can be read at
//! any time, and `mailprobe clean` at it.

use super::Failure;
use super::world::{World, engine_flags};
use crate::interop::process::{self, Finished};
use mailnet::{Mailnet, Running, Scenario};
use std::collections::HashMap;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

/// A finished `mailprobe clean`.
pub struct Cleaned {
    /// The reason of each address.
    pub said: HashMap<String, String>,
    /// How long it took.
    pub took: Duration,
}

/// How a list is cleaned.
pub struct Run<'a> {
    /// For the names of its files.
    pub name: &'a str,
    /// The addresses.
    pub rows: &'a [String],
    /// Further flags.
    pub flags: &'a [&'a str],
    /// The EHLO name and reverse-path of the campaigns; without them, what mailprobe finds by itself.
    pub named: bool,
    /// Runs with the same name of their state are of one installation.
    pub state: &'a str,
    /// Longer than this is a failure.
    pub limit: Duration,
}

/// Starts a mail internet in this process.
pub fn start(scenario: &str) -> Result<Running, Failure> {
    let scenario = Scenario::parse(scenario).map_err(|error| Failure(format!("the scenario: {error}")))?;
    Mailnet::start(scenario).map_err(|error| Failure(format!("mailnet: {error}")))
}

/// Cleans a list. Its output has a verdict for each row, or this fails.
pub fn clean(world: &World, net: &Running, run: &Run<'_>) -> Result<Cleaned, Failure> {
    let file = |ending: &str| world.path(&format!("{}.{ending}", run.name));
    let (input, output) = (file("csv"), file("cleaned.csv"));
    let list: String = run.rows.iter().map(|row| format!("{row}\n")).collect();
    fs::write(&input, format!("email\n{list}"))
        .map_err(|error| Failure(format!("{}: {error}", input.display())))?;
    let mut command = Command::new(world.binary("mailprobe"));
    command.args(["clean", "--format", "csv", "--column", "email", "--no-progress"]);
    command.arg(&input).arg("-o").arg(&output).args(run.flags);
    engine_flags(&mut command, &net.dns().to_string(), &net.smtp_port().to_string(), run.named);
    command.env("XDG_STATE_HOME", world.path(&format!("state-{}", run.state)));
    // A panic is told in a line; its trace would hide the figures.
    command.env("RUST_BACKTRACE", "0");
    let began = Instant::now();
    let finished: Finished = process::run(command, "", world.folder(), run.limit)?;
    let took = began.elapsed();
    super::hostile::no_panic(&finished.stderr).map_err(Failure)?;
    finished.success(&format!("mailprobe clean of {}", run.name))?;
    let said = read(&output)?;
    if said.len() != run.rows.len() {
        return Err(Failure(format!("{}: {} verdicts for {} rows", run.name, said.len(), run.rows.len())));
    }
    Ok(Cleaned { said, took })
}

fn read(path: &Path) -> Result<HashMap<String, String>, Failure> {
    let wrong = |problem: &dyn std::fmt::Display| Failure(format!("{}: {problem}", path.display()));
    let mut reader = csv::Reader::from_path(path).map_err(|error| wrong(&error))?;
    let headers = reader.headers().map_err(|error| wrong(&error))?.clone();
    let column = |name: &str| {
        headers.iter().position(|header| header == name).ok_or_else(|| wrong(&format!("no column {name}")))
    };
    let (email, reason) = (column("email")?, column("reason")?);
    let mut said = HashMap::new();
    for row in reader.records() {
        let row = row.map_err(|error| wrong(&error))?;
        let field = |index: usize| row.get(index).unwrap_or_default().to_owned();
        said.insert(field(email), field(reason));
    }
    Ok(said)
}
