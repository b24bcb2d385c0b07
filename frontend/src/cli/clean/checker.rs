//! Who is asked about the addresses: the engine in full mode, or a fast check.

use checks::engine_client::EngineHandle;
use checks::fast::judge;
use engine::proto::address::Address;
use engine::{Answer, Finding, MailHosts, Outage, Pending, Priority, Refusal, Request};
use lists::Verdict;
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

    /// About how many addresses servers have spoken so far. Their answers may come much later.
    fn answer_count(&self) -> u64;

    /// Has every address that is under way answered soon, with what is known by then.
    fn recall(&mut self);

    /// The DNS resolvers that are asked, as a message names them.
    fn resolvers(&self) -> &str;
}

/// An answer about one address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Answered {
    /// The ticket it was submitted with.
    pub ticket: u64,
    /// The verdict, or why nothing can be said about any address.
    pub result: Result<Verdict, Outage>,
    /// The rule that decided, as docs/verdicts.md lists them; empty where there is none.
    pub rule: &'static str,
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

    fn answer_count(&self) -> u64 {
        (**self).answer_count()
    }

    fn recall(&mut self) {
        (**self).recall();
    }

    fn resolvers(&self) -> &str {
        (**self).resolvers()
    }
}

/// Asks the engine.
pub(super) struct Full {
    line: Box<dyn EngineHandle + Send>,
    answers: Vec<Answer>,
    resolvers: String,
}

impl Full {
    pub fn new(line: Box<dyn EngineHandle + Send>, resolvers: String) -> Full {
        Full { line, answers: Vec::new(), resolvers }
    }
}

impl Checker for Full {
    fn submit(&mut self, ticket: u64, address: Address) -> Result<(), Refusal> {
        self.line.submit(Request { ticket, address, priority: Priority::List, owner: 0, trace: false })
    }

    fn answers(&mut self, patience: Duration, into: &mut Vec<Answered>) {
        self.line.answers_blocking(ANSWERS_MAX, patience, &mut self.answers);
        into.extend(self.answers.drain(..).map(|Answer { ticket, result, .. }| {
            let found = result.as_ref().ok();
            let (rule, retry_after) = found.map_or(("", None), |found| (found.rule, found.retry_after));
            let result = result.map(|Finding { reason, .. }| Verdict::from(reason));
            Answered { ticket, result, rule, retry_after }
        }));
    }

    fn answer_count(&self) -> u64 {
        self.line.answer_count()
    }

    fn recall(&mut self) {
        self.line.recall();
    }

    fn resolvers(&self) -> &str {
        &self.resolvers
    }
}

/// Checks fast: no mail server hears of the addresses.
pub(super) struct Fast {
    line: Box<dyn EngineHandle + Send>,
    /// In the order in which they were asked; each answers within a few seconds.
    asked: VecDeque<Asked>,
    resolvers: String,
}

/// An address under way.
struct Asked {
    ticket: u64,
    address: Address,
    pending: Pending<MailHosts>,
    tries: u8,
}

/// Most domains under way at once. A resolver is not asked more than a few hundred questions at a time, and each domain that
/// waits for that takes memory for all its hosts.
const FAST_UNDER_WAY_MAX: usize = 768;
/// How often DNS is asked about a domain that it does not tell of in time. The engine goes on asking meanwhile, so that a later
/// try finds what it has learned.
const TRIES_MAX: u8 = 3;
/// How long the first of those under way is waited for before the others are looked at again.
const FAST_LOOK: Duration = Duration::from_millis(5);

impl Fast {
    pub fn new(line: Box<dyn EngineHandle + Send>, resolvers: String) -> Fast {
        Fast { line, asked: VecDeque::new(), resolvers }
    }

    /// The verdict, or none where DNS is asked again.
    fn judge(&mut self, asked: Asked, hosts: Result<MailHosts, Outage>) -> Option<Answered> {
        if hosts == Ok(MailHosts::Unknown)
            && asked.tries < TRIES_MAX
            && let Ok(pending) = self.line.mail_hosts(asked.address.domain().clone())
        {
            self.asked.push_back(Asked { pending, tries: asked.tries + 1, ..asked });
            return None;
        }
        let result = judge(&asked.address, hosts).map(|(reason, _)| Verdict::from(reason));
        Some(Answered { ticket: asked.ticket, result, rule: "", retry_after: None })
    }
}

impl Checker for Fast {
    fn submit(&mut self, ticket: u64, address: Address) -> Result<(), Refusal> {
        if self.asked.len() >= FAST_UNDER_WAY_MAX {
            return Err(Refusal::Full);
        }
        let pending = self.line.mail_hosts(address.domain().clone())?;
        self.asked.push_back(Asked { ticket, address, pending, tries: 1 });
        Ok(())
    }

    /// Takes what is there, wherever it stands: one domain that DNS is slow to tell of holds up no other.
    fn answers(&mut self, patience: Duration, into: &mut Vec<Answered>) {
        let before = into.len();
        for _ in 0..self.asked.len() {
            let Some(asked) = self.asked.pop_front() else { break };
            match asked.pending.answer_blocking(Duration::ZERO) {
                Some(hosts) => into.extend(self.judge(asked, hosts)),
                None => self.asked.push_back(asked),
            }
        }
        if into.len() > before || patience.is_zero() {
            return;
        }
        let Some(asked) = self.asked.pop_front() else { return std::thread::sleep(patience) };
        match asked.pending.answer_blocking(patience.min(FAST_LOOK)) {
            Some(hosts) => into.extend(self.judge(asked, hosts)),
            None => self.asked.push_front(asked),
        }
    }

    /// No server is asked.
    fn answer_count(&self) -> u64 {
        0
    }

    /// Each is answered within seconds as it is.
    fn recall(&mut self) {}

    fn resolvers(&self) -> &str {
        &self.resolvers
    }
}
