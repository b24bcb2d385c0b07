//! Servers that defer recipients: Postgrey, and a Postfix that verifies recipients at the server behind it. A list and
//! a batch repeat their questions for as long as they may wait.
//!
//! Each interface has its own addresses, because these servers remember recipients. The witness uses another address.

use super::cases::ExpectedWitness;
use super::drivers::{Mailprobe, Round};
use super::judge::judge_rows;
use super::net::Net;
use super::report::Tally;
use super::selftest;
use crate::failure::Failure;
use engine_proto::retry::GREYLISTING_WAIT;

/// The wait of lists and batches at servers that answer in the end, in seconds.
pub const WAIT_S: u32 = 900;
/// The wait at a server that never answers, in seconds: longer than the delay after greylisting.
pub const WAIT_IN_VAIN_S: u32 = GREYLISTING_WAIT.as_secs() as u32 + 30;

/// A domain whose server defers recipients at first.
pub struct GreylistingDomain {
    name: &'static str,
    /// The final reasons for existing and for other mailboxes.
    reasons: [&'static str; 2],
    /// The wait of both interfaces, in seconds.
    pub wait_s: u32,
    witness: (&'static str, ExpectedWitness),
}

/// The interfaces and the witness, each with its own addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Asker {
    List,
    Batch,
}

/// One address of a domain with its final reason.
pub struct AddressRow {
    /// The address that is asked about.
    pub address: String,
    /// The reason that must be given in the end.
    pub reason: &'static str,
}

/// All domains with deferring servers.
pub const DOMAINS: [GreylistingDomain; 3] = [
    GreylistingDomain {
        name: "postgrey.example",
        reasons: ["mailbox_exists", "mailbox_not_found"],
        wait_s: WAIT_S,
        witness: (
            "witness@postgrey.example",
            ExpectedWitness::Rcpt(
                "10.77.0.10",
                "450 4.2.0 <witness@postgrey.example>: Recipient address rejected: Greylisted",
            ),
        ),
    },
    GreylistingDomain {
        name: "verified.example",
        reasons: ["mailbox_exists", "mailbox_not_found"],
        wait_s: WAIT_S,
        witness: (
            "witness@verified.example",
            ExpectedWitness::Rcpt(
                "10.77.0.17",
                "450 4.1.1 <witness@verified.example>: Recipient address rejected: unverified address: Address verification in progress",
            ),
        ),
    },
    // Postfix's default: the code is the same for an unknown mailbox and for one that is not verified yet.
    GreylistingDomain {
        name: "unverified.example",
        reasons: ["unverifiable", "unverifiable"],
        wait_s: WAIT_IN_VAIN_S,
        witness: (
            "witness@unverified.example",
            ExpectedWitness::Rcpt(
                "10.77.0.10",
                "450 4.1.1 <witness@unverified.example>: Recipient address rejected: unverified",
            ),
        ),
    },
];

impl GreylistingDomain {
    /// The addresses of an interface: two that exist and two that do not.
    pub fn rows(&self, asker: Asker) -> Vec<AddressRow> {
        let names = match asker {
            Asker::List => ["anna", "bruno", "nobody", "noone"],
            Asker::Batch => ["clara", "david", "nemo", "niemand"],
        };
        let row = |(at, name): (usize, &str)| AddressRow {
            address: format!("{name}@{}", self.name),
            reason: self.reasons[at / 2],
        };
        names.into_iter().enumerate().map(row).collect()
    }
}

/// Checks that the servers answer as the domains expect.
pub fn selftest(net: &Net) -> Result<Tally, Failure> {
    let mut tally = Tally::default();
    for domain in &DOMAINS {
        let (address, witness) = &domain.witness;
        tally.check(domain.name, selftest::look(net, address, witness)?);
    }
    Ok(tally)
}

/// Asks over both interfaces about all domains at once.
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

fn rows(asker: Asker, wait_s: u32) -> Vec<AddressRow> {
    DOMAINS.iter().filter(|domain| domain.wait_s == wait_s).flat_map(|domain| domain.rows(asker)).collect()
}

fn judge(
    way: &str,
    rows: &[AddressRow],
    round: Result<Round, Failure>,
    tally: &mut Tally,
) -> Result<(), Failure> {
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
