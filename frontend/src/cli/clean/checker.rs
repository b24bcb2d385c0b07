//! Who is asked about the addresses: the engine in full mode, or a fast check.

use super::Verdict;
use crate::engine_client::Line;
use crate::fast::judge;
use engine::proto::address::Address;
use engine::{Answer, Finding, MailHosts, Outage, Pending, Priority, Refusal, Request};
use std::collections::VecDeque;
use std::time::Duration;

/// Whoever checks addresses.
pub trait Checker {
    /// Takes an address.
    ///
    /// # Errors
    /// [`Refusal`]; the address was not taken and gets no answer.
    fn submit(&mut self, ticket: u64, address: Address) -> Result<(), Refusal>;

    /// Puts the answers that are there behind those in `into`, in any order; waits for one no longer than `patience`.
    fn answers(&mut self, patience: Duration, into: &mut Vec<Answered>);
}

/// An answer about one address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Answered {
    /// The ticket it was submitted with.
    pub ticket: u64,
    /// The verdict, or why nothing can be said about any address.
    pub result: Result<Verdict, Outage>,
    /// The server asked for a later try.
    pub retry_after: Option<Duration>,
}

/// Most answers that are taken at once.
const ANSWERS_MAX: usize = 1024;

impl Checker for Box<dyn Checker> {
    fn submit(&mut self, ticket: u64, address: Address) -> Result<(), Refusal> {
        (**self).submit(ticket, address)
    }

    fn answers(&mut self, patience: Duration, into: &mut Vec<Answered>) {
        (**self).answers(patience, into);
    }
}

/// Asks the engine.
pub(super) struct Full {
    line: Box<dyn Line + Send>,
    answers: Vec<Answer>,
}

impl Full {
    pub fn new(line: Box<dyn Line + Send>) -> Full {
        Full { line, answers: Vec::new() }
    }
}

impl Checker for Full {
    fn submit(&mut self, ticket: u64, address: Address) -> Result<(), Refusal> {
        self.line.submit(Request { ticket, address, priority: Priority::List, owner: 0, trace: false })
    }

    fn answers(&mut self, patience: Duration, into: &mut Vec<Answered>) {
        self.line.answers_blocking(ANSWERS_MAX, patience, &mut self.answers);
        into.extend(self.answers.drain(..).map(|Answer { ticket, result, .. }| {
            let retry_after = result.as_ref().ok().and_then(|finding| finding.retry_after);
            let result = result.map(|Finding { reason, .. }| Verdict::from(reason));
            Answered { ticket, result, retry_after }
        }));
    }
}

/// Checks fast: no mail server hears of the addresses.
pub(super) struct Fast {
    line: Box<dyn Line + Send>,
    /// In the order in which they were asked; each answers within a few seconds.
    asked: VecDeque<(u64, Address, Pending<MailHosts>)>,
}

impl Fast {
    pub fn new(line: Box<dyn Line + Send>) -> Fast {
        Fast { line, asked: VecDeque::new() }
    }
}

impl Checker for Fast {
    fn submit(&mut self, ticket: u64, address: Address) -> Result<(), Refusal> {
        let pending = self.line.mail_hosts(address.domain().clone())?;
        self.asked.push_back((ticket, address, pending));
        Ok(())
    }

    fn answers(&mut self, mut patience: Duration, into: &mut Vec<Answered>) {
        if self.asked.is_empty() {
            std::thread::sleep(patience);
        }
        for _ in 0..ANSWERS_MAX {
            let Some((ticket, address, pending)) = self.asked.front() else { return };
            let Some(hosts) = pending.answer_blocking(patience) else { return };
            patience = Duration::ZERO;
            let result = judge(address, hosts).map(|(reason, _)| Verdict::from(reason));
            into.push(Answered { ticket: *ticket, result, retry_after: None });
            self.asked.pop_front();
        }
    }
}
