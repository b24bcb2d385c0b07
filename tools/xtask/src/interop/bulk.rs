//! The large case: 5,000 addresses over 1,000 MX hosts, half of them existing, behind one real Postfix.
//!
//! Every domain has an MX host with its own registrable domain and its own address, so mailprobe sees 1,000 sites.
//! Postfix sees the connections of one client. With its default configuration it counts them, delays replies and hangs
//! up. Every verdict must nevertheless be right.

use super::drivers::{AddressAnswer, Mailprobe, read_cleaned, write_list};
use super::figures::Figure;
use super::net::{Net, NetNamespace};
use super::process::ServerProcess;
use super::report::Tally;
use super::servers::{start, start_postfix, write};
use crate::failure::{Context, Failure};
use std::collections::HashMap;
use std::fs;
use std::path::Path;
use std::time::Duration;

const DOMAINS: usize = 1000;
/// Local parts that are not role addresses.
const PEOPLE: [&str; 5] = ["anna", "bruno", "clara", "dmitri", "emil"];
const LIST_LIMIT: Duration = Duration::from_secs(900);
/// What Postfix logs when all its processes are busy.
const STRESS_WORDS: &str = "has reached its process limit";
/// How many complaints are printed; the rest is counted.
const SHOWN: usize = 10;

/// The server behind the thousand MX hosts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BulkSetup {
    /// Postfix with limits that are never reached.
    Tuned,
    /// Postfix with its default configuration.
    Stock,
    /// The default configuration, and half as many sessions as it has processes.
    Stock50,
    /// The default configuration, and twice as many sessions as it has processes.
    Stock200,
    /// smtp-sink, which accepts everything and does nothing.
    Sink,
}

impl BulkSetup {
    /// The name in the report and the table.
    pub fn name(self) -> &'static str {
        match self {
            BulkSetup::Tuned => "large-tuned",
            BulkSetup::Stock => "large-stock",
            BulkSetup::Stock50 => "large-stock-50",
            BulkSetup::Stock200 => "large-stock-200",
            BulkSetup::Sink => "smtp-sink",
        }
    }

    fn reason(self, exists: bool) -> &'static str {
        match (self, exists) {
            (BulkSetup::Sink, _) => "catch_all",
            (_, true) => "mailbox_exists",
            (_, false) => "mailbox_not_found",
        }
    }

    /// Flags for the pace that the server tolerates. With the default configuration, mailprobe must find its pace
    /// itself.
    fn flags(self) -> &'static [&'static str] {
        match self {
            BulkSetup::Tuned | BulkSetup::Sink => &["--pace", "lab"],
            BulkSetup::Stock => &[],
            BulkSetup::Stock50 => &["--sessions", "50"],
            BulkSetup::Stock200 => &["--sessions", "200"],
        }
    }
}

/// Adds the domains to the zone and the mailboxes to Postfix's tables. It must run before DNS starts.
///
/// # Errors
///
/// A file cannot be written.
pub fn configure(net: &Net) -> Result<(), Failure> {
    let mut zone = read(&net.folder.join("dns/example.zone"))?;
    zone.push_str("\n; The thousand.\n");
    let (mut domains, mut mailboxes) = (String::new(), String::new());
    for number in 0..DOMAINS {
        let (high, low) = (number / 250, number % 250 + 1);
        zone.push_str(&format!("mx.host{number:04} IN A 10.78.{high}.{low}\n"));
        zone.push_str(&format!("bulk{number:04} IN MX 10 mx.host{number:04}\n"));
        domains.push_str(&format!("bulk{number:04}.example x\n"));
    }
    for (address, exists) in addresses() {
        if exists {
            mailboxes.push_str(&format!("{address} x\n"));
        }
    }
    write(&net.folder.join("dns/example.zone"), &zone)?;
    write(&net.folder.join("bulk/domains"), &domains)?;
    write(&net.folder.join("bulk/mailboxes"), &mailboxes)?;
    tune(net)
}

/// Writes a configuration for each Postfix from one template.
fn tune(net: &Net) -> Result<(), Failure> {
    let from = net.folder.join("bulk");
    let (main, more) = (read(&from.join("main.cf"))?, read(&from.join("tuned.cf"))?);
    for setup in [BulkSetup::Tuned, BulkSetup::Stock, BulkSetup::Stock50, BulkSetup::Stock200] {
        let main = if setup == BulkSetup::Tuned { format!("{main}{more}") } else { main.clone() };
        let to = net.folder.join(setup.name());
        fs::create_dir(&to).at(&to)?;
        write(&to.join("main.cf"), &main.replace("@NAME@", setup.name()))?;
        write(&to.join("master.cf"), &read(&from.join("master.cf"))?)?;
    }
    Ok(())
}

/// Starts the server behind the thousand hosts.
///
/// # Errors
///
/// The server does not start within the limit.
pub fn serve(net: &Net, setup: BulkSetup) -> Result<ServerProcess, Failure> {
    match setup {
        BulkSetup::Tuned | BulkSetup::Stock | BulkSetup::Stock50 | BulkSetup::Stock200 => {
            start_postfix(net, NetNamespace::Bulk, setup.name(), &["0.0.0.0:25"])
        }
        BulkSetup::Sink => start(
            net,
            NetNamespace::Bulk,
            setup.name(),
            "exec smtp-sink -u nobody 0.0.0.0:25 2000",
            &["0.0.0.0:25"],
        ),
    }
}

/// Cleans the list against `setup`, counts the right verdicts and measures the cost.
pub fn clean(
    net: &Net,
    mailprobe: &Mailprobe,
    setup: BulkSetup,
    tally: &mut Tally,
) -> Result<Figure, Failure> {
    let expected: HashMap<String, &str> =
        addresses().map(|(address, exists)| (address, setup.reason(exists))).collect();
    let mut list: Vec<&str> = expected.keys().map(String::as_str).collect();
    list.sort_unstable();
    let name = setup.name();
    let (input, output) =
        (net.folder.join(format!("{name}.csv")), net.folder.join(format!("{name}.out.csv")));
    write_list(&input, &list)?;
    let mut arguments =
        vec!["clean".into(), input.display().to_string(), "-o".into(), output.display().to_string()];
    arguments.extend(["--format", "csv", "--column", "email", "--no-progress", "--force"].map(str::to_owned));
    arguments.extend(mailprobe.engine.iter().cloned());
    arguments.extend(setup.flags().iter().map(|&flag| flag.to_owned()));
    let figure = Figure::measure(
        net,
        "mailprobe clean",
        name,
        list.len(),
        &mailprobe.binary.display().to_string(),
        &arguments,
        LIST_LIMIT,
    )?;
    let answers = read_cleaned(&output)?;
    let wrong: Vec<String> = list
        .iter()
        .filter_map(|&address| complaint(address, expected.get(address)?, answers.get(address)))
        .collect();
    let right = list.len() - wrong.len();
    let said = format!("{right} of {} right, {}", list.len(), figure.line());
    let outcome = if wrong.is_empty() && answers.len() == list.len() {
        Ok(said)
    } else {
        let shown = wrong.iter().take(SHOWN).map(|line| format!("\n        {line}")).collect::<String>();
        let stressed = read(&net.folder.join(format!("{name}.log")))?.contains(STRESS_WORDS);
        let why =
            if stressed { "\n        Postfix was under stress: all its processes were busy" } else { "" };
        Err(format!("{said}{why}{shown}"))
    };
    tally.check(name, outcome);
    Ok(figure.with_right(right))
}

fn complaint(address: &str, expected: &str, said: Option<&AddressAnswer>) -> Option<String> {
    match said {
        Some(said) if said.reason == expected => None,
        Some(said) => Some(format!("{address}: {}, not {expected}", said.reason)),
        None => Some(format!("{address}: no answer")),
    }
}

/// All addresses with their existence: exactly every other address exists.
fn addresses() -> impl Iterator<Item = (String, bool)> {
    (0..DOMAINS).flat_map(|domain| {
        let people = PEOPLE.iter().enumerate();
        people.map(move |(index, person)| {
            (format!("{person}@bulk{domain:04}.example"), (domain + index) % 2 == 0)
        })
    })
}

fn read(path: &Path) -> Result<String, Failure> {
    fs::read_to_string(path).at(path)
}

#[cfg(test)]
mod tests {
    use super::addresses;

    #[test]
    fn half_of_five_thousand_exist() {
        assert_eq!(addresses().count(), 5000);
        assert_eq!(addresses().filter(|(_, exists)| *exists).count(), 2500);
    }
}
