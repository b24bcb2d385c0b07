//! Servers that ask for patience: Postgrey, and Postfix that verifies recipients at the store behind it. A list and a
//! batch come back for as long as they were told to.
//!
//! Each way of asking has addresses of its own, because these servers remember whom they were asked about. The witness
//! is another address again.

use super::Failure;
use super::cases::Witness;
use super::drivers::{Mailprobe, Round};
use super::net::Net;
use super::report::Tally;
use super::{judge_rows, selftest};

/// How long lists and batches wait at servers that tell in the end.
pub const WAIT_S: u32 = 900;
/// And at one that never tells: longer than a server is left alone that says "later".
pub const WAIT_IN_VAIN_S: u32 = 330;

/// A domain whose server says "later" at first.
pub struct Domain {
    name: &'static str,
    /// What is said about existing and about other mailboxes in the end.
    reasons: [&'static str; 2],
    /// How long both ways wait.
    pub wait_s: u32,
    witness: (&'static str, Witness),
}

/// Who asks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Asker {
    List,
    Batch,
}

/// One address of a domain.
pub struct Row {
    /// The address.
    pub address: String,
    /// What must be said about it in the end.
    pub reason: &'static str,
}

/// All domains.
pub const DOMAINS: [Domain; 3] = [
    Domain {
        name: "postgrey.example",
        reasons: ["mailbox_exists", "mailbox_not_found"],
        wait_s: WAIT_S,
        witness: (
            "witness@postgrey.example",
            Witness::Rcpt(
                "10.77.0.10",
                "450 4.2.0 <witness@postgrey.example>: Recipient address rejected: Greylisted",
            ),
        ),
    },
    Domain {
        name: "verified.example",
        reasons: ["mailbox_exists", "mailbox_not_found"],
        wait_s: WAIT_S,
        witness: (
            "witness@verified.example",
            Witness::Rcpt(
                "10.77.0.17",
                "450 4.1.1 <witness@verified.example>: Recipient address rejected: unverified address: Address verification in progress",
            ),
        ),
    },
    // Postfix's default: whether a mailbox is unknown or not known yet, the code is the same.
    Domain {
        name: "unverified.example",
        reasons: ["unverifiable", "unverifiable"],
        wait_s: WAIT_IN_VAIN_S,
        witness: (
            "witness@unverified.example",
            Witness::Rcpt(
                "10.77.0.10",
                "450 4.1.1 <witness@unverified.example>: Recipient address rejected: unverified",
            ),
        ),
    },
];

impl Domain {
    /// What an asker asks about: two that exist and two that do not.
    pub fn rows(&self, asker: Asker) -> Vec<Row> {
        let names = match asker {
            Asker::List => ["anna", "bruno", "nobody", "noone"],
            Asker::Batch => ["clara", "david", "nemo", "niemand"],
        };
        let row = |(at, name): (usize, &str)| Row {
            address: format!("{name}@{}", self.name),
            reason: self.reasons[at / 2],
        };
        names.into_iter().enumerate().map(row).collect()
    }
}

/// Whether the servers say what the domains count on.
pub fn selftest(net: &Net) -> Result<Tally, Failure> {
    let mut tally = Tally::default();
    for domain in &DOMAINS {
        let (address, witness) = &domain.witness;
        tally.check(domain.name, selftest::look(net, address, witness)?);
    }
    Ok(tally)
}

/// Asks in both ways, at all domains, all at once.
pub fn ask(mailprobe: &Mailprobe<'_>) -> Result<Tally, Failure> {
    let asked = std::thread::scope(|scope| {
        let mut under_way = Vec::new();
        for (number, wait_s) in [WAIT_S, WAIT_IN_VAIN_S].into_iter().enumerate() {
            for asker in [Asker::List, Asker::Batch] {
                let rows = rows(asker, wait_s);
                under_way.push(scope.spawn(move || {
                    let addresses: Vec<&str> = rows.iter().map(|row| row.address.as_str()).collect();
                    let round = match asker {
                        Asker::List => mailprobe.clean_patiently(number, &addresses, wait_s),
                        Asker::Batch => mailprobe.batch(number, &addresses, wait_s),
                    };
                    (asker, rows, round)
                }));
            }
        }
        under_way.into_iter().map(|thread| thread.join()).collect::<Vec<_>>()
    });
    let mut tally = Tally::default();
    for found in asked {
        let (asker, rows, round) = found.map_err(|_| Failure("a patient driver panicked".into()))?;
        let way = if asker == Asker::List { "patient list" } else { "patient batch" };
        judge(way, &rows, round, &mut tally)?;
    }
    Ok(tally)
}

fn rows(asker: Asker, wait_s: u32) -> Vec<Row> {
    DOMAINS.iter().filter(|domain| domain.wait_s == wait_s).flat_map(|domain| domain.rows(asker)).collect()
}

fn judge(way: &str, rows: &[Row], round: Result<Round, Failure>, tally: &mut Tally) -> Result<(), Failure> {
    let rows = rows.iter().map(|row| (row.address.as_str(), row.address.as_str(), row.reason));
    judge_rows(way, rows, round, tally)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn nobody_is_asked_about_twice() {
        let askers = [Asker::List, Asker::Batch];
        let rows = DOMAINS.iter().flat_map(|domain| askers.map(|asker| domain.rows(asker))).flatten();
        let mut addresses: Vec<String> = rows.map(|row| row.address).collect();
        addresses.extend(DOMAINS.iter().map(|domain| domain.witness.0.to_owned()));
        let different: HashSet<&String> = addresses.iter().collect();
        assert_eq!(different.len(), addresses.len());
        assert_eq!(addresses.len(), 3 * (4 + 4 + 1));
    }

    #[test]
    fn half_of_the_rows_exist() {
        let rows = DOMAINS[0].rows(Asker::Batch);
        let exist = rows.iter().filter(|row| row.reason == "mailbox_exists").count();
        assert_eq!((rows.len(), exist), (4, 2));
        assert_eq!(super::rows(Asker::List, WAIT_S).len(), 8);
        assert_eq!(super::rows(Asker::List, WAIT_IN_VAIN_S).len(), 4);
    }
}
