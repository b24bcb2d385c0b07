//! The messages between the threads of the engine: works (addresses with all that is known of them), plans and inquiries. Also the
//! box in which a client gets its answers. The words of this file are explained in docs/glossary.md.

use crate::faults::{Fault, planted, sometimes};
use crate::inbox::Inbox;
use crate::inquiry::Inquiry;
use crate::invariants::Invariant;
use crate::quota::SiteAdmission;
use crate::{Answer, Finding, Observation, Outage, Priority, Request};
use crossbeam::queue::SegQueue;
use engine_proto::address::Address;
use engine_proto::limits::ROUTE_DOWN;
use engine_proto::lists::{Listing, MailService};
use engine_proto::retry::may_tell_more;
use engine_proto::verdict::classify::Classification;
use engine_proto::verdict::evidence::Held;
use engine_proto::verdict::{ObservedReply, Reason};
use std::net::IpAddr;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence};
use std::time::{Duration, Instant};

/// The rule of an address if DNS did not answer in time. It is also the rule of the fallback until DNS has answered.
pub(crate) const DNS_TIMEOUT: &str = "dns_timeout";
/// The rule of an address if no resolver could be reached.
pub(crate) const DNS_UNREACHABLE: &str = "dns_unreachable";

/// An address on its way to a verdict. A work is a single pointer, because it is moved often.
pub(crate) struct Work(Box<WorkState>);

pub(crate) struct WorkState {
    pub(crate) ticket: u64,
    pub(crate) client: Arc<AnswerBox>,
    pub(crate) address: Address,
    /// [`crate::shared::Shared::hash_of`] the domain. It selects shards, and finds the result of the domain's walk.
    pub(crate) domain_hash: u64,
    pub(crate) priority: Priority,
    /// The owner of the request: a number that the caller chose. Different owners take turns.
    pub(crate) owner: u64,
    /// The latest time at which the work is answered, with what is known by then, even if a session is asking about it.
    pub(crate) deadline: Instant,
    /// The index of the source that asks about the address.
    pub(crate) source: usize,
    /// The routes of the group that must not be used for this work, because they were tried or passed over. One bit each.
    pub(crate) tried: u64,
    /// The routes to the hosts that have put the address off with a transient reply. One bit each.
    pub(crate) deferred_by: u64,
    /// How many times the work was returned for another session, for example because a session ended at its recipient. The works
    /// after that recipient are put back without being counted.
    pub(crate) returns: u8,
    /// Whether RCPT for the address was ever sent.
    pub(crate) was_sent: bool,
    /// Whether the address is a role address.
    pub(crate) role: bool,
    /// What the lists say about the domain.
    pub(crate) listing: Listing,
    /// Whether a session ran out of time while it waited for the reply about this address. Because that may happen again, the
    /// address is then asked about alone.
    pub(crate) suspect: bool,
    /// Whether the address was refused permanently, for a reason that concerns it alone, in a session that did not prove the
    /// refusal.
    pub(crate) was_refused: bool,
    /// Whether the address was accepted in a session that did not prove the accept.
    pub(crate) was_accepted: bool,
    /// The refusal of the address in a session that ended too early to prove it. The next session at the host may prove it.
    pub(crate) carried: Option<Box<CarriedRefusal>>,
    /// Whether the answer is to name the host and the reply that decided.
    observed: bool,
    /// The latest reply that concerns the address, with its host: the reply about the address, about the control recipient of its
    /// domain, or to MAIL. Kept only if `observed` is true.
    latest_reply: Option<Box<Observation>>,
    /// The finding that becomes the answer if no better one is made.
    pub(crate) fallback: Finding,
    /// Set if the cause of the fallback may be temporary: the delay after which another try may give a better answer.
    again: Option<Duration>,
    /// Whether the work has been tried again from the start ([`Work::begin_anew`]).
    asked_again: bool,
    /// Whether the address was asked about once more because its control recipient got a transient reply.
    pub(crate) control_asked_again: bool,
    /// Its place among the patient works of the site: see `quota.rs`.
    pub(crate) admission: Option<SiteAdmission>,
    pub(crate) trace: Option<Vec<String>>,
    /// How many times the client had recalled its requests when this one was submitted.
    recalls: u32,
    /// Whether this work is counted in [`AnswerBox::held_so_far`].
    was_held: bool,
    answered: bool,
}

/// A refusal that its session could not prove.
pub(crate) struct CarriedRefusal {
    /// The key of the domain at the host.
    pub(crate) domain_key: u64,
    pub(crate) held: Held,
    pub(crate) said: Classification,
}

/// The inbox in which a client gets its answers, and what the engine knows about the client.
pub(crate) struct AnswerBox {
    pub(crate) inbox: Inbox<Answer>,
    /// The number of tickets under way, of all clients together.
    pub(crate) under_way: Arc<AtomicUsize>,
    /// Whether the client is gone, so that its answers are dropped.
    abandoned: AtomicBool,
    /// How many times the client has recalled its requests.
    recalls: AtomicU32,
    /// Whether works that wait are to be answered with what is known, because the client is draining.
    is_draining: AtomicBool,
    /// The approximate number of requests for which a session has got an answer and held it, to prove it later.
    held_so_far: AtomicU64,
    /// The tickets of these requests. Collected only if `watches_held` is true.
    held: SegQueue<u64>,
    watches_held: AtomicBool,
}

impl AnswerBox {
    pub(crate) fn new(capacity: usize, under_way: Arc<AtomicUsize>) -> AnswerBox {
        AnswerBox {
            inbox: Inbox::new(capacity),
            under_way,
            abandoned: AtomicBool::new(false),
            recalls: AtomicU32::new(0),
            is_draining: AtomicBool::new(false),
            held_so_far: AtomicU64::new(0),
            held: SegQueue::new(),
            watches_held: AtomicBool::new(false),
        }
    }

    /// Appends the tickets of the requests that were counted in `held_so_far` since the last call. The first call only begins to
    /// collect them.
    pub(crate) fn held(&self, into: &mut Vec<u64>) {
        self.watches_held.store(true, Ordering::Relaxed);
        into.extend(std::iter::from_fn(|| self.held.pop()));
    }

    /// The approximate number of requests for which a session has got an answer and held it, to prove it later.
    pub(crate) fn held_so_far(&self) -> u64 {
        self.held_so_far.load(Ordering::Relaxed)
    }

    /// Makes the engine answer all requests that are under way, with what is known.
    pub(crate) fn recall(&self) {
        self.recalls.fetch_add(1, Ordering::SeqCst);
    }

    /// Makes the engine answer the requests that wait, with what is known. The requests that sessions ask about, or for which
    /// sessions hold a reply, still get their real answers.
    pub(crate) fn drain(&self) {
        self.is_draining.store(true, Ordering::SeqCst);
    }

    /// The client is gone: drops its present and future answers, and frees their tickets.
    pub(crate) fn abandon(&self) {
        self.abandoned.store(true, Ordering::SeqCst);
        self.empty();
    }

    fn put(&self, answer: Answer) {
        // Room was reserved when the request was accepted.
        if self.inbox.push(answer).is_err() {
            tracing::error!("an answer found no room in its client's inbox");
            self.under_way.fetch_sub(1, Ordering::Relaxed);
        }
        if sometimes(Fault::Break(Invariant::TicketsCounted)) {
            self.under_way.fetch_sub(1, Ordering::Relaxed);
        }
        // Pairs with the fence in `empty`: either `abandon` drops this answer, or this thread sees that the client is gone.
        fence(Ordering::SeqCst);
        if self.abandoned.load(Ordering::SeqCst) {
            self.empty();
        }
    }

    fn empty(&self) {
        fence(Ordering::SeqCst);
        while self.inbox.try_pop().is_some() {
            self.under_way.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

pub(crate) enum Message {
    /// Sent to the home shard of a domain: find the mail hosts for this address.
    Resolve(Work),
    /// Sent to the shard that owns a site: ask the hosts of this plan about this address.
    Probe(Work, Arc<Plan>),
    /// Sent to the home shard of a domain: answer this inquiry by DNS alone.
    Inquire(Inquiry),
    /// Sent when the engine stops: answer the works that wait, and end.
    Stop,
}

/// The mail hosts of a domain: the result of a walk through DNS.
#[derive(Debug)]
pub(crate) struct Plan {
    /// The name of the site. All hosts of a site have one operator.
    pub(crate) site: Box<str>,
    /// The hash of the name of the site, which selects the shard that owns the site.
    pub(crate) site_hash: u64,
    /// The hash of the name of the group. Domains of the same site with the same set of hosts have the same group. Even among 10^5
    /// groups, fewer than one in 10^14 has the hash of another one.
    pub(crate) group: u64,
    /// The addresses of the hosts, in the order in which they are to be tried.
    pub(crate) routes: Vec<PlannedRoute>,
    /// What the hosts tell about the domain.
    pub(crate) service: MailService,
    /// How many works of the domain have been sent to shards so far. Counted only with the profile `lab`.
    pub(crate) handed: AtomicUsize,
}

#[derive(Debug, Clone)]
pub(crate) struct PlannedRoute {
    pub(crate) host: Box<str>,
    pub(crate) preference: u16,
    pub(crate) address: IpAddr,
}

impl Plan {
    /// The same plan with only those routes that have an address for which `wanted` returns true.
    pub(crate) fn with_routes(&self, wanted: impl Fn(IpAddr) -> bool) -> Plan {
        let routes = self.routes.iter().filter(|route| wanted(route.address)).cloned().collect();
        Plan {
            site: self.site.clone(),
            site_hash: self.site_hash,
            group: self.group,
            routes,
            service: self.service,
            handed: AtomicUsize::new(0),
        }
    }
}

impl Work {
    pub(crate) fn new(request: Request, domain_hash: u64, client: Arc<AnswerBox>, deadline: Instant) -> Work {
        let recalls = client.recalls.load(Ordering::SeqCst);
        Work(Box::new(WorkState {
            ticket: request.ticket,
            client,
            recalls,
            address: request.address,
            domain_hash,
            priority: request.priority,
            owner: request.owner,
            deadline,
            source: 0,
            tried: 0,
            deferred_by: 0,
            returns: 0,
            was_sent: false,
            role: false,
            listing: Listing::Absent,
            suspect: false,
            was_refused: false,
            was_accepted: false,
            carried: None,
            observed: request.observed,
            latest_reply: None,
            fallback: unverifiable(DNS_TIMEOUT, None),
            again: None,
            asked_again: false,
            control_asked_again: false,
            admission: None,
            trace: request.trace.then(Vec::new),
            was_held: false,
            answered: false,
        }))
    }

    /// Answers with a verdict that depends on no host.
    pub(crate) fn settle(self, reason: Reason, rule: &'static str) {
        self.finish(Finding { reason, rule, retry_after: None, evidence: None, observed: None });
    }

    /// Remembers the latest reply that concerns the address. `reply` is called only if the answer is to name the reply.
    pub(crate) fn remember_reply(&mut self, host: &str, reply: impl FnOnce() -> ObservedReply) {
        if self.observed {
            self.latest_reply = Some(Box::new(Observation { host: host.into(), reply: Some(reply()) }));
        }
    }

    /// Answers with a verdict that depends on the reply that [`Work::remember_reply`] remembered last.
    pub(crate) fn settle_by_reply(
        mut self,
        reason: Reason,
        rule: &'static str,
        retry_after: Option<Duration>,
        evidence: Option<u64>,
    ) {
        let observed = self.latest_reply.take();
        self.finish(Finding { reason, rule, retry_after, evidence, observed });
    }

    /// Answers with a verdict that depends on this host, but on no reply about the address.
    pub(crate) fn settle_at(self, host: &str, reason: Reason, rule: &'static str, evidence: Option<u64>) {
        let observed = self.observation(host, None);
        self.finish(Finding { reason, rule, retry_after: None, evidence, observed });
    }

    fn observation(&self, host: &str, reply: Option<ObservedReply>) -> Option<Box<Observation>> {
        self.observed.then(|| Box::new(Observation { host: host.into(), reply }))
    }

    /// Answers with the fallback, because nothing more can be found out. After some rules a later check would give the same answer,
    /// for example if the host refuses this machine in its greeting. Then the answer names no time for one.
    pub(crate) fn give_up(self) {
        let mut fallback = self.fallback.clone();
        fallback.retry_after = fallback.retry_after.filter(|_| may_tell_more(fallback.rule));
        self.finish(fallback);
    }

    pub(crate) fn finish(mut self, finding: Finding) {
        self.note(|| format!("verdict: {} (rule {})", finding.reason.as_str(), finding.rule));
        self.answer(Ok(finding));
    }

    /// Answers with an outage instead of a verdict, because the address is not the cause.
    pub(crate) fn fail(mut self, outage: Outage) {
        self.answer(Err(outage));
    }

    /// Sets the fallback: unverifiable, by this rule. `retry_after`: when a later check may tell more.
    pub(crate) fn set_fallback(&mut self, rule: &'static str, retry_after: Option<Duration>) {
        self.fallback = unverifiable(rule, retry_after);
        self.again = None;
    }

    /// Like [`Work::set_fallback`], but also keeps the reply that [`Work::remember_reply`] remembered last with the fallback.
    pub(crate) fn set_fallback_by_reply(&mut self, rule: &'static str, retry_after: Option<Duration>) {
        self.set_fallback(rule, retry_after);
        self.fallback.observed = self.latest_reply.clone();
    }

    /// Like [`Work::set_fallback`], but for a host that gave no reply about the address. A later check may ask it after
    /// [`ROUTE_DOWN`]. `reply` is the reply because of which the host was not asked, such as its greeting, if there was one.
    /// If another host gave a temporary reply, the work is still tried again because of it.
    pub(crate) fn set_fallback_at(&mut self, host: &str, reply: Option<ObservedReply>, rule: &'static str) {
        let again = self.again;
        self.set_fallback(rule, Some(ROUTE_DOWN));
        (self.again, self.fallback.observed) = (again, self.observation(host, reply));
    }

    /// Says when the cause of the fallback will probably have passed: after this delay, another try from the start may give a
    /// better answer. `None`: another try would not help. Call this after setting the fallback, because setting it forgets an
    /// earlier delay.
    pub(crate) fn set_again(&mut self, after: Option<Duration>) {
        self.again = after;
    }

    /// Allows one more try from the start even if the work has had one, because the reason for that one has passed.
    pub(crate) fn may_begin_anew(&mut self) {
        self.asked_again = false;
    }

    /// If another try from the start may help and enough time is left, prepares the work for that try and returns the delay before
    /// the try. A work gets only one such try, unless [`Work::may_begin_anew`] allows another.
    pub(crate) fn begin_anew(&mut self, now: Instant) -> Option<Duration> {
        let after = self.again.take()?;
        let has_time = now + after + ASKING_TAKES <= self.deadline;
        if self.asked_again || !has_time && !planted(Fault::Break(Invariant::AnewInTime)) {
            return None;
        }
        self.asked_again = true;
        self.tried = 0;
        self.deferred_by = 0;
        self.returns = 0;
        self.carried = None;
        self.note(|| format!("the cause may be temporary: next attempt in {} s", after.as_secs()));
        Some(after)
    }

    /// Called when a session begins to hold an answer about the address, because only later replies can prove it. Counts the work
    /// for the client, if that has not been done yet.
    pub(crate) fn on_held(&mut self) {
        if !std::mem::replace(&mut self.was_held, true) {
            self.client.held_so_far.fetch_add(1, Ordering::Relaxed);
            if self.client.watches_held.load(Ordering::Relaxed) {
                self.client.held.push(self.ticket);
            }
        }
    }

    /// Whether the client has recalled its requests since this one was submitted.
    pub(crate) fn is_recalled(&self) -> bool {
        self.recalls != self.client.recalls.load(Ordering::Relaxed)
    }

    /// Whether the work is to be answered if it waits, because its client has recalled its requests or is draining.
    pub(crate) fn is_taken_back(&self) -> bool {
        self.is_recalled() || self.client.is_draining.load(Ordering::Relaxed)
    }

    /// Adds a line to the trace, if the request wants one.
    pub(crate) fn note(&mut self, line: impl FnOnce() -> String) {
        if let Some(trace) = &mut self.trace {
            trace.push(line());
        }
    }

    fn answer(&mut self, result: Result<Finding, Outage>) {
        self.answered = true;
        if sometimes(Fault::LoseTicket) {
            return;
        }
        if sometimes(Fault::AnswerTwice) {
            let (ticket, result) = (self.ticket, result.clone());
            let _ = self.client.inbox.push(Answer { ticket, result, trace: Vec::new() });
        }
        let trace = self.trace.take().unwrap_or_default();
        self.client.put(Answer { ticket: self.ticket, result, trace });
    }
}

/// How much time must be left before the deadline when another try begins.
const ASKING_TAKES: Duration = Duration::from_secs(5);

pub(crate) fn unverifiable(rule: &'static str, retry_after: Option<Duration>) -> Finding {
    Finding { reason: Reason::Unverifiable, rule, retry_after, evidence: None, observed: None }
}

impl Deref for Work {
    type Target = WorkState;

    fn deref(&self) -> &WorkState {
        &self.0
    }
}

impl DerefMut for Work {
    fn deref_mut(&mut self) -> &mut WorkState {
        &mut self.0
    }
}

/// Makes sure that every request gets an answer, even if the task that holds the work panics or is dropped.
impl Drop for Work {
    fn drop(&mut self) {
        if !self.answered {
            self.answer(Err(Outage::Stopping));
        }
    }
}

/// Makes works, and reads answers, for the tests of other files.
#[cfg(test)]
pub(crate) mod testing {
    use super::*;
    use crate::seed::keyed_number;

    pub(crate) fn mailbox() -> Arc<AnswerBox> {
        Arc::new(AnswerBox::new(64, Arc::default()))
    }

    pub(crate) fn work(client: &Arc<AnswerBox>, address: &str, priority: Priority) -> Work {
        let address = Address::parse(address).expect("no address");
        let observed = priority != Priority::Batch;
        let request = Request { ticket: 1, address, priority, owner: 0, trace: false, observed };
        let domain_hash = keyed_number(&[0; 32], &[request.address.domain().as_str()]);
        Work::new(request, domain_hash, Arc::clone(client), Instant::now() + Duration::from_secs(60))
    }

    /// The next answer of the client: the reason, the rule, and whether a later try may help.
    pub(crate) fn answer(client: &AnswerBox) -> Option<(Reason, &'static str, bool)> {
        let finding = client.inbox.try_pop()?.result.expect("an outage");
        Some((finding.reason, finding.rule, finding.retry_after.is_some()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use engine_proto::verdict::Scope;

    /// The host and the reply code in the finding that a work has after these steps.
    fn observed(priority: Priority, steps: impl FnOnce(Work)) -> Option<(String, Option<u16>)> {
        let client = testing::mailbox();
        steps(testing::work(&client, "joe@a.example", priority));
        let observed = client.inbox.try_pop()?.result.expect("an outage").observed?;
        Some((observed.host.into(), observed.reply.map(|reply| reply.code)))
    }

    #[test]
    fn a_finding_has_the_observation_of_its_own_rule() {
        let reply = |code| ObservedReply { code, status: None, scope: Scope::Recipient, at: Instant::now() };
        let unsure = Reason::Unverifiable;
        let single = |steps: &dyn Fn(Work)| observed(Priority::Single, steps);
        let at = |host: &str, code| Some((host.to_owned(), code));
        let deferred = |work: &mut Work| {
            work.remember_reply("mx1", || reply(450));
            work.set_fallback_by_reply("for-now", Some(ROUTE_DOWN));
        };
        // A verdict that depends on the latest reply has the observation of this reply. The fallback keeps the observation that it
        // was set with.
        assert_eq!(
            single(&|mut work| {
                deferred(&mut work);
                work.remember_reply("mx2", || reply(250));
                work.settle_by_reply(Reason::MailboxExists, "control_refused", None, None);
            }),
            at("mx2", Some(250))
        );
        assert_eq!(
            single(&|mut work| {
                deferred(&mut work);
                work.remember_reply("mx2", || reply(250));
                work.give_up();
            }),
            at("mx1", Some(450))
        );
        // If a later rule concerns another host, no host, or a host that was not asked, the earlier reply is dropped.
        assert_eq!(
            single(&|mut work| {
                deferred(&mut work);
                work.set_fallback_at("mx2", None, "no_connection");
                work.give_up();
            }),
            at("mx2", None)
        );
        assert_eq!(
            single(&|mut work| {
                deferred(&mut work);
                work.set_fallback_at("mx2", Some(reply(554)), "blocklist");
                work.give_up();
            }),
            at("mx2", Some(554))
        );
        assert_eq!(
            single(&|mut work| {
                deferred(&mut work);
                work.set_fallback("dns_timeout", None);
                work.give_up();
            }),
            None
        );
        assert_eq!(
            single(&|mut work| {
                deferred(&mut work);
                work.settle(Reason::MailboxNotFound, "nxdomain");
            }),
            None
        );
        let settled_at = |work: Work| work.settle_at("mx1", unsure, "no_smtputf8", None);
        assert_eq!(observed(Priority::List, settled_at), at("mx1", None));
        assert_eq!(observed(Priority::Batch, settled_at), None, "it was not asked for");
    }
}
