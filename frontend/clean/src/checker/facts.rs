//! Adds the inbox provider and the score to each answer, from the DNS facts of the domain. They are asked for once per domain.

use super::{Answered, Checker};
use checks::engine_client::EngineHandle;
use engine::proto::address::Address;
use engine::proto::facts::DnsFacts;
use engine::proto::score::{ScoreFacts, score};
use engine::proto::verdict::Reason;
use engine::{PendingInquiry, Refusal};
use std::collections::{HashMap, VecDeque};
use std::rc::Rc;
use std::time::Duration;

/// Maximum number of domains whose facts are asked for at a time: each takes some forty DNS queries.
const UNDER_WAY_MAX: usize = 128;
/// Maximum number of domains whose facts are kept.
const DOMAINS_MAX: usize = 10_000;
/// How long to wait for answers while facts are asked for.
const LOOK: Duration = Duration::from_millis(5);

/// A checker whose answers have the facts of their domains.
pub struct WithFacts {
    checker: Box<dyn Checker>,
    line: Box<dyn EngineHandle + Send>,
    /// Whether the verdicts have scores: those of full checks.
    has_scores: bool,
    /// The addresses in progress by their tickets.
    asked: HashMap<u64, Address>,
    /// Domains in progress, and the answers that wait for them.
    pending: HashMap<Box<str>, PendingFacts>,
    /// Answers of domains that are not asked about yet.
    queued: VecDeque<(Answered, Address)>,
    known: HashMap<Box<str>, Option<Rc<DnsFacts>>>,
}

struct PendingFacts {
    inquiry: PendingInquiry<Option<DnsFacts>>,
    waiting: Vec<(Answered, Address)>,
}

impl WithFacts {
    /// Adds facts to the answers of a checker. `line` asks for them.
    pub fn new(checker: Box<dyn Checker>, line: Box<dyn EngineHandle + Send>, has_scores: bool) -> WithFacts {
        WithFacts {
            checker,
            line,
            has_scores,
            asked: HashMap::new(),
            pending: HashMap::new(),
            queued: VecDeque::new(),
            known: HashMap::new(),
        }
    }

    /// Takes the facts that have come, and asks for further ones.
    fn turn(&mut self, into: &mut Vec<Answered>) {
        let mut ended: Vec<(Box<str>, Option<DnsFacts>)> = Vec::new();
        for (domain, pending) in &self.pending {
            if let Some(facts) = pending.inquiry.answer_blocking(Duration::ZERO) {
                ended.push((domain.clone(), facts.ok().flatten()));
            }
        }
        for (domain, facts) in ended {
            let facts = facts.map(Rc::new);
            let waiting = self.pending.remove(&domain).map_or_else(Vec::new, |pending| pending.waiting);
            for (answered, address) in waiting {
                into.push(self.finished(answered, &address, facts.as_deref()));
            }
            if self.known.len() >= DOMAINS_MAX {
                self.known.clear();
            }
            self.known.insert(domain, facts);
        }
        while let Some((answered, address)) = self.queued.pop_front() {
            if !self.ask(answered, address, into) {
                return;
            }
        }
    }

    /// Finishes an answer, or lets it wait for the facts of its domain. `false` if there is no room for it.
    fn ask(&mut self, answered: Answered, address: Address, into: &mut Vec<Answered>) -> bool {
        let domain = address.domain().as_str();
        if let Some(facts) = self.known.get(domain) {
            into.push(self.finished(answered, &address, facts.as_deref()));
            return true;
        }
        if let Some(pending) = self.pending.get_mut(domain) {
            pending.waiting.push((answered, address));
            return true;
        }
        let inquiry = match self.pending.len() < UNDER_WAY_MAX {
            true => self.line.facts(address.domain().clone()),
            false => Err(Refusal::Full),
        };
        match inquiry {
            Ok(inquiry) => {
                let domain = domain.into();
                self.pending.insert(domain, PendingFacts { inquiry, waiting: vec![(answered, address)] });
                true
            }
            Err(Refusal::Full) => {
                self.queued.push_front((answered, address));
                false
            }
            Err(Refusal::Stopping) => {
                into.push(answered);
                true
            }
        }
    }

    /// The answer with the facts of its domain.
    fn finished(&self, answered: Answered, address: &Address, facts: Option<&DnsFacts>) -> Answered {
        let Some(dns) = facts else { return answered };
        let of = |name: &str| Reason::ALL.into_iter().find(|reason| reason.as_str() == name);
        let reason =
            answered.last_reason().and_then(|reason| of(reason.as_str())).filter(|_| self.has_scores);
        let lists = self.line.lists();
        let (role, free) = (lists.is_role(address.local()), lists.is_free(address.domain().as_str()));
        let score = reason.map(|reason| score(&ScoreFacts { reason, role, free, dns }));
        Answered { provider: dns.provider.unwrap_or_default(), score, ..answered }
    }
}

impl Checker for WithFacts {
    fn submit(&mut self, ticket: u64, address: Address) -> Result<(), Refusal> {
        self.checker.submit(ticket, address.clone())?;
        self.asked.insert(ticket, address);
        Ok(())
    }

    fn answers(&mut self, patience: Duration, into: &mut Vec<Answered>) {
        let is_busy = !self.pending.is_empty() || !self.queued.is_empty();
        let mut answers = Vec::new();
        self.checker.answers(if is_busy { patience.min(LOOK) } else { patience }, &mut answers);
        for answered in answers {
            match self.asked.remove(&answered.ticket).filter(|_| answered.result.is_ok()) {
                Some(address) => self.queued.push_back((answered, address)),
                None => into.push(answered),
            }
        }
        self.turn(into);
    }

    by_inner!(self, self.checker, domain => self.checker.no_mail_host(domain));
}
