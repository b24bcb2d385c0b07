//! `soak manners`: the conduct of a client that must never look like a directory harvest to a mail server.
//!
//! Each check starts its own mail internet in this process, runs `mailprobe` against it at the default pace, and reads
//! the client's conduct from mailnet's journal: refusals in an hour, names asked about, sessions after a 421, EHLO
//! names. Most checks wait, so they all run at once; those that compute (budgets.rs) run one after the other.
//!
//! - budgets.rs: refused recipients of unknown hosts over two runs, and hosts that refuse nobody;
//! - conduct.rs: control names, EHLO names, tarpits, blanket refusals, IPv4 after IPv6;
//! - closing.rs: the reply 421, and the time of a list after it;
//! - again.rs: single checks that get a transient reply.

mod again;
mod budgets;
mod closing;
mod conduct;

use super::crowd::joined;
use super::options::SoakOptions;
use super::peers::{self, CleanRun, Cleaned};
use super::world::CampaignFolder;
use crate::failure::{Failure, ensure};
use crate::interop::report::{self, Tally};
use mailnet::Running;
use std::time::Duration;

/// The figures of a check, or its fault. One that cannot be made has failed; the other checks continue.
type CheckOutcome = Result<String, String>;

/// A check of the campaign with its name.
struct MannersCheck {
    name: String,
    go: Box<dyn Fn(&CheckSetting<'_>) -> CheckOutcome + Send + Sync>,
}

/// The environment of the checks.
struct CheckSetting<'a> {
    world: &'a CampaignFolder,
    small: bool,
    seed: u64,
}

fn check(
    name: impl Into<String>,
    go: impl Fn(&CheckSetting<'_>) -> CheckOutcome + Send + Sync + 'static,
) -> MannersCheck {
    MannersCheck { name: name.into(), go: Box::new(go) }
}

/// Runs the campaign and counts its checks.
pub fn run(options: &SoakOptions, tally: &mut Tally) -> Result<(), Failure> {
    let seed = options.seed();
    report::line(&format!("manners: seed {seed}"));
    let world = CampaignFolder::make(options)?;
    let place = CheckSetting { world: &world, small: options.small, seed };
    let waiting: Vec<MannersCheck> = [closing::checks(), conduct::checks(), again::checks()]
        .into_iter()
        .flatten()
        .filter(|check| options.wants(&check.name))
        .collect();
    let computing: Vec<MannersCheck> =
        budgets::checks().into_iter().filter(|check| options.wants(&check.name)).collect();
    ensure!(!waiting.is_empty() || !computing.is_empty(), "no check has such a name");
    std::thread::scope(|scope| {
        let under_way: Vec<_> =
            waiting.iter().map(|check| (check, scope.spawn(|| (check.go)(&place)))).collect();
        for check in &computing {
            tally.check(&check.name, (check.go)(&place));
        }
        for (check, thread) in under_way {
            tally.check(&check.name, joined(thread));
        }
    });
    Ok(())
}

/// The time limit of a list at the default pace, which may wait for rows that are due within a minute.
const LIST_LIMIT: Duration = Duration::from_secs(660);

impl CheckSetting<'_> {
    /// Selects the number of the full or of the small version.
    fn of(&self, full: usize, small: usize) -> usize {
        if self.small { small } else { full }
    }

    /// Cleans a list with the defaults of the product and these flags. Runs with the same `state` are of one installation.
    fn clean(
        &self,
        net: &Running,
        (name, state): (&str, &str),
        rows: &[String],
        flags: &[&str],
    ) -> Result<Cleaned, Failure> {
        let run = CleanRun { name, rows, flags, named: true, state, limit: LIST_LIMIT };
        peers::clean(self.world, net, &run)
    }

    /// Plays a domain `d.example` with one server and the mailboxes `real-#`.
    fn net(&self, server: &str) -> Result<Running, Failure> {
        peers::start(&self.scenario(&domain("d.example", server)))
    }

    fn scenario(&self, domains: &str) -> String {
        format!("seed = {}\njournal = true\nroles = []\n{domains}", self.seed)
    }
}

/// The host name of the simulated server.
const HOST: &str = "mx1.d.example";

fn domain(name: &str, server: &str) -> String {
    format!("[[domain]]\nname = \"{name}\"\nserver = {server}\nmailboxes.ok = [\"real-#\"]\n")
}

/// The addresses `WORD-N@d.example` for these numbers.
fn rows(word: &str, numbers: std::ops::Range<usize>) -> Vec<String> {
    numbers.map(|n| format!("{word}-{n}@d.example")).collect()
}

/// The number of rows with this verdict.
fn count(cleaned: &Cleaned, reason: &str) -> usize {
    cleaned.said.values().filter(|said| *said == reason).count()
}

/// The number of rows whose verdict differs from mailnet's expectation of a server that answers truly.
fn wrong(net: &Running, cleaned: &Cleaned) -> usize {
    cleaned.said.iter().filter(|(row, reason)| net.expected(row).reason.as_str() != **reason).count()
}
