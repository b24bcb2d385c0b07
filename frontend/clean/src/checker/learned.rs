//! Adds to each answer what the operator's own mail shows about the address.

use super::{Answered, Checker};
use api::Reason;
use engine::Refusal;
use engine::proto::address::Address;
use learn::{Evidence, Table};
use std::collections::HashMap;
use std::time::Duration;

/// A checker that adds the verdict by learned events to each answer.
pub struct WithLearned {
    checker: Box<dyn Checker>,
    table: Table,
    /// The time of the run in seconds since 1970.
    now: u64,
    /// The addresses in progress for which there is evidence, by their tickets: the evidence, and whether it is a role address.
    asked: HashMap<u64, (Evidence, bool)>,
}

impl WithLearned {
    /// Adds the evidence of a table to the answers of a checker. `now` is in seconds since 1970.
    pub fn new(checker: Box<dyn Checker>, table: Table, now: u64) -> WithLearned {
        WithLearned { checker, table, now, asked: HashMap::new() }
    }
}

impl Checker for WithLearned {
    fn submit(&mut self, ticket: u64, address: Address) -> Result<(), Refusal> {
        let evidence = self.table.evidence(&address, self.now);
        let evidence = evidence.map(|evidence| (evidence, self.checker.lists().is_role(address.local())));
        self.checker.submit(ticket, address)?;
        // A ticket of an earlier try, or of another address, must not leave its evidence.
        match evidence {
            Some(evidence) => self.asked.insert(ticket, evidence),
            None => self.asked.remove(&ticket),
        };
        Ok(())
    }

    fn answers(&mut self, patience: Duration, into: &mut Vec<Answered>) {
        let before = into.len();
        self.checker.answers(patience, into);
        for answered in &mut into[before..] {
            let Some((evidence, is_role)) = self.asked.remove(&answered.ticket) else { continue };
            answered.learned = learned(evidence, is_role, answered);
        }
    }

    by_inner!(self, self.checker, domain => self.checker.no_mail_host(domain));
}

/// The reason and the rule by evidence, if the answer leaves the mailbox open.
fn learned(evidence: Evidence, is_role: bool, answered: &Answered) -> Option<(Reason, &'static str)> {
    let applied = evidence.apply(answered.result.ok()?, answered.rule, is_role)?;
    Some((applied.reason, applied.rule))
}
