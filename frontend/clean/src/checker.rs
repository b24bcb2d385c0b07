//! Checks addresses: with the engine in full mode, or with fast checks.

/// The methods of a checker for which an `inner` one or the engine answers.
macro_rules! by_inner {
    ($self:ident, $inner:expr, $domain:ident => $no_mail_host:expr) => {
        fn answer_count(&$self) -> u64 {
            ($inner).answer_count()
        }

        fn held(&mut $self, into: &mut Vec<u64>) {
            ($inner).held(into);
        }

        fn recall(&mut $self) {
            ($inner).recall();
        }

        fn drain(&mut $self) {
            ($inner).drain();
        }

        fn trouble(&$self) -> Option<engine::proto::outage::Trouble> {
            ($inner).trouble()
        }

        fn no_mail_host(&mut $self, $domain: &str) {
            $no_mail_host;
        }

        fn lists(&$self) -> std::sync::Arc<engine::proto::lists::Lists> {
            ($inner).lists()
        }
    };
}

mod facts;
mod learned;

use api::Reason;
use checks::convert;
use checks::engine_client::EngineHandle;
use checks::fast::judge;
use engine::proto::address::Address;
use engine::proto::dns::mx::NoMail;
use engine::proto::lists::Lists;
use engine::proto::outage::Trouble;
use engine::proto::verdict::ObservedReply;
use engine::{Answer, Finding, MailHosts, Outage, PendingInquiry, Priority, Refusal, Request};
pub use facts::WithFacts;
pub use learned::WithLearned;
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

/// Whether the engine found no mail host with an address that it may contact, by the rule and the reason of a verdict. Fast checks
/// have no rule.
pub fn is_without_mail_host(rule: &str, reason: Reason) -> bool {
    rule == NoMail::NoMailHost.as_str() || reason == Reason::NoMx
}

/// Gets each domain for which the engine found no mail host.
pub type OnNoMailHost = Box<dyn FnMut(&str)>;

/// A source of verdicts for addresses.
pub trait Checker {
    /// Submits an address.
    ///
    /// # Errors
    /// [`Refusal`]; the address was not accepted and gets no answer.
    fn submit(&mut self, ticket: u64, address: Address) -> Result<(), Refusal>;

    /// Appends the available answers to `into`, in any order. Without an answer it waits at most `patience`.
    fn answers(&mut self, patience: Duration, into: &mut Vec<Answered>);

    /// Number of addresses for which servers have replied so far. Their answers may come much later.
    fn answer_count(&self) -> u64;

    /// Appends the tickets of the addresses for which servers have replied since the last call, and whose answers come later.
    fn held(&mut self, _into: &mut Vec<u64>) {}

    /// Requests an early answer for every address in progress, from the evidence so far.
    fn recall(&mut self);

    /// As [`Checker::recall`], but addresses that servers are being asked about get their answers. Nothing more is submitted.
    fn drain(&mut self) {
        self.recall();
    }

    /// The fault of the resolvers, if they are silent or deny every name.
    fn trouble(&self) -> Option<Trouble> {
        None
    }

    /// The domain has no mail host: looks whether its hosts have only addresses that are not public, and warns once.
    fn no_mail_host(&mut self, _domain: &str) {}

    /// The lists of suggestions, functions, and free and throw-away providers.
    fn lists(&self) -> Arc<Lists> {
        Arc::default()
    }
}

/// An answer about one address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Answered {
    /// The ticket of the address.
    pub ticket: u64,
    /// The reason, or the outage that prevented the verdict.
    pub result: Result<Reason, Outage>,
    /// The rule that decided, as listed in docs/verdicts.md; empty if there is none.
    pub rule: &'static str,
    /// The reply that decided, if there was one.
    pub reply: Option<ObservedReply>,
    /// The server requested a later try, after this time.
    pub retry_after: Option<Duration>,
    /// The inbox provider; empty if it is unknown, or if no column needs it.
    pub provider: &'static str,
    /// The score, if it is known and a column needs it.
    pub score: Option<u8>,
    /// The reason and the rule by the operator's own mail, if this verdict is the last one.
    pub learned: Option<(Reason, &'static str)>,
}

impl Answered {
    /// An answer without the facts of the domain.
    pub fn new(ticket: u64, result: Result<Reason, Outage>) -> Answered {
        Answered {
            ticket,
            result,
            rule: "",
            reply: None,
            retry_after: None,
            provider: "",
            score: None,
            learned: None,
        }
    }

    /// The reason if no later try changes the verdict.
    pub fn last_reason(&self) -> Option<Reason> {
        self.learned.map(|(reason, _)| reason).or(self.result.ok())
    }
}

/// Maximum number of answers taken at once.
const ANSWERS_MAX: usize = 1024;

impl Checker for Box<dyn Checker> {
    fn submit(&mut self, ticket: u64, address: Address) -> Result<(), Refusal> {
        (**self).submit(ticket, address)
    }

    fn answers(&mut self, patience: Duration, into: &mut Vec<Answered>) {
        (**self).answers(patience, into);
    }

    by_inner!(self, **self, domain => (**self).no_mail_host(domain));
}

/// Full checks by the engine.
pub struct Full {
    line: Box<dyn EngineHandle + Send>,
    answers: Vec<Answer>,
    /// Whether the answers have the reply that decided.
    needs_reply: bool,
    on_no_mail_host: OnNoMailHost,
}

impl Full {
    /// Checks by this handle of the engine.
    pub fn new(line: Box<dyn EngineHandle + Send>, needs_reply: bool, on_no_mail_host: OnNoMailHost) -> Full {
        Full { line, answers: Vec::new(), needs_reply, on_no_mail_host }
    }
}

impl Checker for Full {
    fn submit(&mut self, ticket: u64, address: Address) -> Result<(), Refusal> {
        let (priority, observed) = (Priority::List, self.needs_reply);
        self.line.submit(Request { ticket, address, priority, owner: 0, trace: false, observed })
    }

    fn answers(&mut self, patience: Duration, into: &mut Vec<Answered>) {
        self.line.answers_blocking(ANSWERS_MAX, patience, &mut self.answers);
        into.extend(self.answers.drain(..).map(|Answer { ticket, result, .. }| {
            let found = result.as_ref().ok();
            let (rule, retry_after) = found.map_or(("", None), |found| (found.rule, found.retry_after));
            let reply = found.and_then(|found| found.observed.as_ref()).and_then(|observed| observed.reply);
            let result = result.map(|Finding { reason, .. }| convert::reason(reason));
            Answered { rule, reply, retry_after, ..Answered::new(ticket, result) }
        }));
    }

    by_inner!(self, self.line, domain => (self.on_no_mail_host)(domain));
}

/// Fast checks: they contact no mail server.
pub struct Fast {
    line: Box<dyn EngineHandle + Send>,
    /// The addresses in progress, in the order of submission. Each gets an answer within a few seconds.
    asked: VecDeque<PendingCheck>,
    on_no_mail_host: OnNoMailHost,
}

/// An address in progress.
struct PendingCheck {
    ticket: u64,
    address: Address,
    pending: PendingInquiry<MailHosts>,
    tries: u8,
}

/// Maximum number of domains in progress. A resolver gets at most a few hundred queries at a time, and each waiting domain
/// takes memory for all its hosts.
const FAST_UNDER_WAY_MAX: usize = 768;
/// Number of tries for a domain for which DNS does not answer in time. The engine continues its queries meanwhile, so that a
/// later try finds their answers.
const TRIES_MAX: u8 = 3;
/// How long to wait for the first address in progress before the others are examined again.
const FAST_LOOK: Duration = Duration::from_millis(5);

impl Fast {
    /// Fast checks by this handle of the engine.
    pub fn new(line: Box<dyn EngineHandle + Send>, on_no_mail_host: OnNoMailHost) -> Fast {
        Fast { line, asked: VecDeque::new(), on_no_mail_host }
    }

    /// The answer, or `None` if DNS is queried again.
    fn judge(&mut self, asked: PendingCheck, hosts: Result<MailHosts, Outage>) -> Option<Answered> {
        if hosts == Ok(MailHosts::Unknown)
            && asked.tries < TRIES_MAX
            && let Ok(pending) = self.line.mail_hosts(asked.address.domain().clone())
        {
            self.asked.push_back(PendingCheck { pending, tries: asked.tries + 1, ..asked });
            return None;
        }
        let result = judge(&asked.address, &self.line.lists(), hosts).map(|(reason, _)| reason);
        Some(Answered::new(asked.ticket, result))
    }
}

impl Checker for Fast {
    fn submit(&mut self, ticket: u64, address: Address) -> Result<(), Refusal> {
        if self.asked.len() >= FAST_UNDER_WAY_MAX {
            return Err(Refusal::Full);
        }
        let pending = self.line.mail_hosts(address.domain().clone())?;
        self.asked.push_back(PendingCheck { ticket, address, pending, tries: 1 });
        Ok(())
    }

    /// Takes all available answers, so that a domain with slow DNS delays no other.
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

    /// Fast checks contact no mail server.
    fn answer_count(&self) -> u64 {
        0
    }

    /// Nothing to do: each address gets an answer within seconds anyway.
    fn recall(&mut self) {}

    fn trouble(&self) -> Option<Trouble> {
        self.line.trouble()
    }

    fn no_mail_host(&mut self, domain: &str) {
        (self.on_no_mail_host)(domain);
    }

    fn lists(&self) -> Arc<Lists> {
        self.line.lists()
    }
}
