//! The interface to the engine: requests out, answers in, and from each answer to the task that waits for it.
//!
//! Each frontend thread has one [`EngineClient`] with an [`EngineHandle`] to the engine, and one task that runs
//! [`EngineClient::deliver`]. A waiter that is dropped at its deadline removes its ticket, and the late answer is
//! dropped.

use engine::proto::address::{Address, Domain};
use engine::proto::facts::DnsFacts;
use engine::proto::lists::Lists;
use engine::proto::outage::Trouble;
use engine::{
    Answer, Figures, Finding, KeptRefusals, MailHosts, Outage, PendingInquiry, Priority, Refusal, Request,
    Withdrawn,
};
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Poll, Waker};
use std::time::Duration;

/// A running engine. The trait lets tests replace it by one without network access.
pub trait Backend {
    /// A handle with room for this many requests under way.
    fn line(&self, capacity: usize) -> Box<dyn EngineHandle + Send>;

    /// The runtime and driver of the engine, and the reason for them.
    fn describe(&self) -> String;

    /// A function that reads the engine's figures.
    fn gauge(&self) -> EngineGauge;

    /// A function that reads the counts of refusals that must be stored.
    fn refusals(&self) -> RefusalsLook;

    /// A function that reads the evidence that was withdrawn since its last call.
    fn withdrawn(&self) -> WithdrawnLook;

    /// Stops the engine. Requests under way are answered with [`Outage::Stopping`].
    fn stop(self: Box<Self>);
}

/// A function that reads the engine's figures, for any thread.
pub type EngineGauge = Box<dyn Fn() -> Figures + Send + Sync>;

/// A function that reads the counts of refusals, for any thread.
pub type RefusalsLook = Box<dyn Fn() -> Vec<KeptRefusals> + Send + Sync>;

/// A function that reads the newly withdrawn evidence, for any thread.
pub type WithdrawnLook = Box<dyn Fn() -> Vec<Withdrawn> + Send + Sync>;

/// The connection of one thread to the engine.
pub trait EngineHandle {
    /// Submits a request.
    ///
    /// # Errors
    ///
    /// The request was not accepted and gets no answer.
    fn submit(&self, request: Request) -> Result<(), Refusal>;

    /// Asks only DNS whether a domain has mail hosts.
    ///
    /// # Errors
    /// Nothing was asked.
    fn mail_hosts(&self, domain: Domain) -> Result<PendingInquiry<MailHosts>, Refusal>;

    /// Asks for the facts of a domain's DNS about its mail.
    ///
    /// # Errors
    /// Nothing was asked.
    fn facts(&self, domain: Domain) -> Result<PendingInquiry<Option<DnsFacts>>, Refusal>;

    /// The known fault of the resolvers.
    fn trouble(&self) -> Option<Trouble> {
        None
    }

    /// The lists of the moment.
    fn lists(&self) -> Arc<Lists>;

    /// For about how many requests of this handle servers have replied so far, whether or not that was useful.
    fn answer_count(&self) -> u64;

    /// Appends the tickets of the requests for which servers have replied since the last call, and whose answers are held.
    fn held(&self, _into: &mut Vec<u64>) {}

    /// Makes the engine answer every request of this handle soon, with its present knowledge.
    fn recall(&self);

    /// As [`EngineHandle::recall`], but requests that servers are being asked about get their answers. Nothing more is submitted.
    fn drain(&self) {
        self.recall();
    }

    /// Waits for the next answer.
    fn answer(&self) -> Pin<Box<dyn Future<Output = Answer> + '_>>;

    /// The next answer, for a thread without an executor; `None` after `patience`.
    fn answer_blocking(&self, patience: Duration) -> Option<Answer>;

    /// Appends up to `most` answers to `into`, and waits at most `patience` for the first.
    fn answers_blocking(&self, most: usize, mut patience: Duration, into: &mut Vec<Answer>) {
        while into.len() < most
            && let Some(answer) = self.answer_blocking(patience)
        {
            patience = Duration::ZERO;
            into.push(answer);
        }
    }
}

impl Backend for engine::Engine {
    fn line(&self, capacity: usize) -> Box<dyn EngineHandle + Send> {
        Box::new(self.client(capacity))
    }

    fn describe(&self) -> String {
        engine::Engine::describe(self)
    }

    fn gauge(&self) -> EngineGauge {
        Box::new(engine::Engine::gauge(self))
    }

    fn refusals(&self) -> RefusalsLook {
        Box::new(engine::Engine::refusals(self))
    }

    fn withdrawn(&self) -> WithdrawnLook {
        Box::new(engine::Engine::withdrawn(self))
    }

    fn stop(self: Box<Self>) {
        engine::Engine::stop(*self);
    }
}

impl EngineHandle for engine::Client {
    fn submit(&self, request: Request) -> Result<(), Refusal> {
        engine::Client::submit(self, request)
    }

    fn mail_hosts(&self, domain: Domain) -> Result<PendingInquiry<MailHosts>, Refusal> {
        engine::Client::mail_hosts(self, domain)
    }

    fn facts(&self, domain: Domain) -> Result<PendingInquiry<Option<DnsFacts>>, Refusal> {
        engine::Client::facts(self, domain)
    }

    fn trouble(&self) -> Option<Trouble> {
        engine::Client::trouble(self)
    }

    fn lists(&self) -> Arc<Lists> {
        engine::Client::lists(self)
    }

    fn answer_count(&self) -> u64 {
        engine::Client::replied(self)
    }

    fn held(&self, into: &mut Vec<u64>) {
        engine::Client::held(self, into);
    }

    fn recall(&self) {
        engine::Client::recall(self);
    }

    fn drain(&self) {
        engine::Client::drain(self);
    }

    fn answer(&self) -> Pin<Box<dyn Future<Output = Answer> + '_>> {
        Box::pin(engine::Client::answer(self))
    }

    fn answer_blocking(&self, patience: Duration) -> Option<Answer> {
        engine::Client::answer_blocking(self, patience)
    }

    fn answers_blocking(&self, most: usize, patience: Duration, into: &mut Vec<Answer>) {
        engine::Client::answers_blocking(self, most, patience, into);
    }
}

/// The reasons why a request has no finding.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NoFinding {
    /// The engine did not accept the request.
    Refused(Refusal),
    /// The engine cannot ask a server.
    Outage(Outage),
}

/// The requests of one thread under way, and the connection to the engine.
pub struct EngineClient {
    line: Box<dyn EngineHandle>,
    next: Cell<u64>,
    waiting: RefCell<HashMap<u64, Slot>>,
}

/// The state that a waiter shares with the task of deliveries.
#[derive(Default)]
struct Slot {
    result: Option<Result<Finding, Outage>>,
    waker: Option<Waker>,
}

impl EngineClient {
    /// A client that uses this handle.
    pub fn new(line: Box<dyn EngineHandle>) -> Rc<EngineClient> {
        Rc::new(EngineClient { line, next: Cell::new(0), waiting: RefCell::default() })
    }

    /// Asks about one address.
    ///
    /// # Errors
    ///
    /// [`NoFinding`]: nothing is known about the address, and nothing may be charged.
    pub async fn probe(&self, address: Address, priority: Priority) -> Result<Finding, NoFinding> {
        let ticket = self.next.replace(self.next.get() + 1);
        let request = Request { ticket, address, priority, owner: 0, trace: false, observed: true };
        let waiter = Waiter { client: self, ticket };
        self.waiting.borrow_mut().insert(ticket, Slot::default());
        self.line.submit(request).map_err(NoFinding::Refused)?;
        waiter.result().await.map_err(NoFinding::Outage)
    }

    /// Asks whether a domain has mail hosts; no mail server is contacted.
    ///
    /// # Errors
    ///
    /// [`NoFinding`]: nothing is known about the domain.
    pub async fn mail_hosts(&self, domain: Domain) -> Result<MailHosts, NoFinding> {
        let pending = self.line.mail_hosts(domain).map_err(NoFinding::Refused)?;
        pending.answer().await.map_err(NoFinding::Outage)
    }

    /// Asks for the facts of a domain's DNS about its mail; `None` if they could not be read for any reason.
    pub async fn facts(&self, domain: Domain) -> Option<DnsFacts> {
        self.line.facts(domain).ok()?.answer().await.ok().flatten()
    }

    /// The lists of the moment.
    pub fn lists(&self) -> Arc<Lists> {
        self.line.lists()
    }

    /// Hands answers to their waiters; it never ends.
    pub async fn deliver(&self) {
        loop {
            let answer = self.line.answer().await;
            let mut waiting = self.waiting.borrow_mut();
            let Some(slot) = waiting.get_mut(&answer.ticket) else { continue };
            slot.result = Some(answer.result);
            let waker = slot.waker.take();
            drop(waiting);
            if let Some(waker) = waker {
                waker.wake();
            }
        }
    }
}

/// An entry in the list of waiters, which is removed on drop.
struct Waiter<'c> {
    client: &'c EngineClient,
    ticket: u64,
}

impl Waiter<'_> {
    async fn result(&self) -> Result<Finding, Outage> {
        poll_fn(|cx| {
            let mut waiting = self.client.waiting.borrow_mut();
            // The entry exists as long as the waiter.
            let Some(slot) = waiting.get_mut(&self.ticket) else { return Poll::Ready(Err(Outage::Stopping)) };
            if let Some(result) = slot.result.take() {
                return Poll::Ready(result);
            }
            slot.waker = Some(cx.waker().clone());
            Poll::Pending
        })
        .await
    }
}

impl Drop for Waiter<'_> {
    fn drop(&mut self) {
        self.client.waiting.borrow_mut().remove(&self.ticket);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use engine::proto::verdict::Reason;
    use std::collections::VecDeque;
    use std::pin::pin;
    use std::task::Context;

    /// An engine that takes two requests and answers on demand.
    #[derive(Default)]
    struct Script {
        taken: RefCell<Vec<u64>>,
        answers: RefCell<VecDeque<Answer>>,
    }

    impl EngineHandle for Rc<Script> {
        fn submit(&self, request: Request) -> Result<(), Refusal> {
            if self.taken.borrow().len() == 2 {
                return Err(Refusal::Full);
            }
            self.taken.borrow_mut().push(request.ticket);
            Ok(())
        }

        fn mail_hosts(&self, _domain: Domain) -> Result<PendingInquiry<MailHosts>, Refusal> {
            Err(Refusal::Full)
        }

        fn facts(&self, _domain: Domain) -> Result<PendingInquiry<Option<DnsFacts>>, Refusal> {
            Err(Refusal::Full)
        }

        fn lists(&self) -> Arc<Lists> {
            Arc::default()
        }

        fn answer_count(&self) -> u64 {
            0
        }

        fn recall(&self) {}

        fn answer(&self) -> Pin<Box<dyn Future<Output = Answer> + '_>> {
            Box::pin(poll_fn(|_| self.answers.borrow_mut().pop_front().map_or(Poll::Pending, Poll::Ready)))
        }

        fn answer_blocking(&self, _patience: Duration) -> Option<Answer> {
            self.answers.borrow_mut().pop_front()
        }
    }

    fn poll<F: Future>(future: Pin<&mut F>) -> Poll<F::Output> {
        future.poll(&mut Context::from_waker(Waker::noop()))
    }

    fn found(ticket: u64, reason: Reason) -> Answer {
        Answer {
            ticket,
            result: Ok(Finding { reason, rule: "test", retry_after: None, evidence: None, observed: None }),
            trace: Vec::new(),
        }
    }

    #[test]
    fn answers_find_their_waiters_in_any_order() {
        let script = Rc::new(Script::default());
        let client = EngineClient::new(Box::new(Rc::clone(&script)));
        let address = || Address::parse("a@example.com").unwrap();
        let mut deliver = pin!(client.deliver());
        let mut one = pin!(client.probe(address(), Priority::Single));
        let mut two = Box::pin(client.probe(address(), Priority::Single));
        assert!(poll(one.as_mut()).is_pending() && poll(two.as_mut()).is_pending());

        let three = poll(pin!(client.probe(address(), Priority::Single)));
        assert!(matches!(three, Poll::Ready(Err(NoFinding::Refused(Refusal::Full)))));
        assert_eq!(client.waiting.borrow().len(), 2, "a refused request leaves nothing behind");

        script.answers.borrow_mut().extend([found(1, Reason::CatchAll), found(0, Reason::MailboxExists)]);
        drop(two);
        assert!(poll(deliver.as_mut()).is_pending(), "an answer that nobody waits for is dropped");
        let Poll::Ready(Ok(finding)) = poll(one) else { panic!("no finding") };
        assert_eq!(finding.reason, Reason::MailboxExists);
        assert!(client.waiting.borrow().is_empty());
    }
}
