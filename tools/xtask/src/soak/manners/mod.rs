//! `soak manners`: what a mail server sees of a client that must never look like a directory harvest.
//!
//! Each check has a mail internet of its own in this process, asks `mailprobe` about it at the default pace, and reads
//! from mailnet's journal what the client did: refusals in an hour, names asked about, sessions after a 421, EHLO names.
//! They mostly wait, so all run at once; those that compute (budgets.rs) one after the other.
//!
//! - budgets.rs: refused recipients of strange hosts over two runs, and hosts that have nothing to refuse;
//! - conduct.rs: control names, EHLO names, tarpits, blanket refusals, IPv4 after IPv6;
//! - closing.rs: 421, when it comes and how long a list waits for it;
//! - again.rs: single checks that get a transient reply.

mod again;
mod budgets;
mod closing;
mod conduct;

use super::peers::{self, Cleaned, Run};
use super::world::World;
use super::{Failure, Options};
use crate::interop::report::{self, Tally};
use mailnet::{Running, raise_open_files};
use std::time::Duration;

/// What a check found out, or what is wrong.
type Outcome = Result<String, String>;

/// A check of the campaign.
struct Check {
    name: String,
    #[expect(clippy::type_complexity, reason = "one kind of closure, named here")]
    go: Box<dyn Fn(&Place<'_>) -> Result<Outcome, Failure> + Send + Sync>,
}

/// Where checks are made.
struct Place<'a> {
    world: &'a World,
    small: bool,
    seed: u64,
}

fn check(
    name: impl Into<String>,
    go: impl Fn(&Place<'_>) -> Result<Outcome, Failure> + Send + Sync + 'static,
) -> Check {
    Check { name: name.into(), go: Box::new(go) }
}

pub fn run(options: &Options) -> Result<Option<Tally>, Failure> {
    let seed = options.seed();
    report::line(&format!("manners: seed {seed}"));
    let world = World::make(options)?;
    raise_open_files();
    let place = Place { world: &world, small: options.small, seed };
    let waiting: Vec<Check> = [closing::checks(), conduct::checks(), again::checks()]
        .into_iter()
        .flatten()
        .filter(|check| options.wants(&check.name))
        .collect();
    let computing: Vec<Check> =
        budgets::checks().into_iter().filter(|check| options.wants(&check.name)).collect();
    if waiting.is_empty() && computing.is_empty() {
        return Err(Failure("no check has such a name".into()));
    }
    let mut tally = Tally::default();
    std::thread::scope(|scope| {
        let under_way: Vec<_> =
            waiting.iter().map(|check| (check, scope.spawn(|| (check.go)(&place)))).collect();
        for check in &computing {
            report_check(&mut tally, &check.name, (check.go)(&place));
        }
        for (check, thread) in under_way {
            let found = thread.join().unwrap_or_else(|_| Err(Failure("panicked".into())));
            report_check(&mut tally, &check.name, found);
        }
    });
    Ok(Some(tally))
}

/// A check that could not be made is one that fails; the others still tell something.
fn report_check(tally: &mut Tally, name: &str, found: Result<Outcome, Failure>) {
    tally.check(name, found.unwrap_or_else(|Failure(message)| Err(message)));
}

/// A list at the default pace may wait for what is due within a minute.
const LIST_LIMIT: Duration = Duration::from_secs(660);

impl Place<'_> {
    /// One number for the full version, another for the small one.
    fn of(&self, full: usize, small: usize) -> usize {
        if self.small { small } else { full }
    }

    /// Cleans a list with the defaults of the product; runs of the same `state` are of one installation.
    fn clean(&self, net: &Running, name: &str, state: &str, rows: &[String]) -> Result<Cleaned, Failure> {
        let run = Run { name, rows, flags: &[], named: true, state, limit: LIST_LIMIT };
        peers::clean(self.world, net, &run)
    }

    /// The same with a wait for rows whose server says "later".
    fn clean_patiently(
        &self,
        net: &Running,
        name: &str,
        wait: &str,
        rows: &[String],
    ) -> Result<Cleaned, Failure> {
        let flags = &["--max-wait", wait];
        let run = Run { name, rows, flags, named: true, state: name, limit: LIST_LIMIT };
        peers::clean(self.world, net, &run)
    }

    /// A domain `d.example` with one server and the mailboxes `real-#`, played.
    fn net(&self, server: &str) -> Result<Running, Failure> {
        peers::start(&self.scenario(&domain("d.example", server)))
    }

    fn scenario(&self, domains: &str) -> String {
        format!("seed = {}\njournal = true\nroles = []\n{domains}", self.seed)
    }
}

/// The host of [`Place::net`].
const HOST: &str = "mx1.d.example";

fn domain(name: &str, server: &str) -> String {
    format!("[[domain]]\nname = \"{name}\"\nserver = {server}\nmailboxes.ok = [\"real-#\"]\n")
}

/// Addresses `WORD-FROM@d.example` and on.
fn rows(word: &str, numbers: std::ops::Range<usize>) -> Vec<String> {
    numbers.map(|n| format!("{word}-{n}@d.example")).collect()
}

/// How many rows have this verdict.
fn count(cleaned: &Cleaned, reason: &str) -> usize {
    cleaned.said.values().filter(|said| *said == reason).count()
}

/// Rows with another verdict than mailnet expects of a server that tells the truth.
fn wrong(net: &Running, cleaned: &Cleaned) -> usize {
    cleaned.said.iter().filter(|(row, reason)| net.expected(row).reason.as_str() != **reason).count()
}

/// An outcome of whether something holds, with its figures.
fn holds(holds: bool, figures: String) -> Outcome {
    if holds { Ok(figures) } else { Err(figures) }
}
