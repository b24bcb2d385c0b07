//! The DNS lookups of a shard. A [`Lookup`] (in engine-proto) decides what to ask, when, and of which resolver. This module sends
//! the messages of the lookups, hands the answers to them, and keeps the outcomes in a cache that only this shard uses.
//!
//! ```text
//! look_up ─> cache ─> join a lookup of this question ─> window (room.rs) ─> socket (ports.rs)
//!                                                       full: queue            │
//! caller  <─ cache <─ check of a denial (doubts.rs) <─ Lookup <─ answer ───────┘
//! ```
//!
//! Each resolver has a window, which limits the number of questions under way at this resolver. Lookups that find no room there are
//! queued. A lookup over UDP has no task of its own. One task sends all questions that are ready, many of them in one system call.
//! The task that reads a socket hands the answers to their lookups. Another task checks the timeouts of all lookups.

mod doubts;
mod ports;
mod room;
mod tcp;
#[cfg(test)]
mod tests;

use crate::config::EngineConfig;
use crate::faults::{Fault, planted, sometimes};
use crate::invariants::{Invariant, holds};
use crate::runtime::Runtime;
use crate::seed::{self, HashMap, Hashing};
use doubts::Doubts;
use engine_proto::dns::cache::Cache;
use engine_proto::dns::denials::Asked;
use engine_proto::dns::lookup::{Lookup, LookupConfig};
use engine_proto::dns::upstreams::Upstreams;
use engine_proto::dns::{Failure, Name, Outcome, Question, RecordKind, Records, ttl};
use engine_proto::limits::{
    DNS_CACHE_BYTES_MAX, DNS_SILENCE, DNS_SILENT_LOOKUPS_MAX, DNS_UPSTREAMS_MAX, SHARD_CACHE_BYTES_MIN,
};
use engine_proto::outage::Resolvers;
use ports::{Outbox, Ports, Sent};
use rand::rngs::StdRng;
use room::{Late, QuestionRoom};
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::future::poll_fn;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::pin::Pin;
use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::task::{Poll, Waker};
use std::time::{Duration, Instant};

/// How often the timeouts of all lookups are checked.
const TICK: Duration = Duration::from_millis(20);
/// How often timeouts are checked while lookups wait for room in a window. This interval is shorter, because all shards share the
/// windows, and a shard is not told when another shard makes room.
const TICK_CROWDED: Duration = Duration::from_millis(5);

const LOCALHOST: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

pub(crate) struct Resolver<R: Runtime> {
    inner: Rc<Inner<R>>,
}

struct Inner<R: Runtime> {
    upstreams: Vec<SocketAddr>,
    config: LookupConfig,
    cache: RefCell<Cache<Hashing>>,
    pending: RefCell<HashMap<Question, Rc<PendingLookup<R>>>>,
    /// Lookups that do not read the cache, so that the resolvers themselves are asked. No other caller joins such a lookup.
    uncached: RefCell<Vec<Rc<PendingLookup<R>>>>,
    /// The last lookup of `own_name` that was to show whether the resolvers have fallen silent.
    own_name_lookup: RefCell<Weak<PendingLookup<R>>>,
    /// How many lookups had been answered when [`Inner::notice_silence`] last found a new answer, and when this was.
    last_answer: Cell<(u32, Instant)>,
    ticking: Cell<bool>,
    outbox: RefCell<Outbox<R>>,
    ports: Ports<R>,
    /// For each resolver, the lookups that wait for room in its window.
    rooms: Vec<QuestionRoom<R>>,
    late: RefCell<VecDeque<Late<R>>>,
    doubts: Doubts<R>,
    random: RefCell<StdRng>,
    /// For each resolver, in how many lookups in a row it failed. This decides which resolver a new lookup asks first.
    record: RefCell<Upstreams>,
    /// The state of the resolvers, which all shards share.
    health: Arc<Resolvers>,
    /// The number of outages that had ended when the cache was last read. If it changes, the cache drops its temporary failures.
    outages: Cell<u32>,
    /// When the engine started: see [`Inner::age`].
    started: Instant,
    /// The question that tests whether any resolver answers: the A record of the common EHLO name ([`EngineConfig::ehlo`]). If that
    /// name is not set or is not a domain name, the reverse name of localhost is used instead.
    own_name: Question,
}

/// Finds one of the flags that are set while a task runs.
type Flag<R> = fn(&Inner<R>) -> &Cell<bool>;

/// A flag that is set while a task runs. Dropping this clears the flag, even after a panic, so that the next task can begin.
struct RaisedFlag<R: Runtime> {
    inner: Weak<Inner<R>>,
    flag: Flag<R>,
}

impl<R: Runtime> Drop for RaisedFlag<R> {
    fn drop(&mut self) {
        if let Some(inner) = self.inner.upgrade() {
            (self.flag)(&inner).set(false);
        }
    }
}

/// A lookup under way, with the tasks that wait for its outcome.
struct PendingLookup<R: Runtime> {
    /// `None` once the lookup has ended.
    lookup: RefCell<Option<Lookup>>,
    /// Whether this lookup gets room before those of batches and lists. True if the lookup is uncached, or if any call of
    /// [`Resolver::look_up`] that waits for this lookup is urgent.
    urgent: Cell<bool>,
    is_uncached: bool,
    /// The resolver for which the lookup waits in a queue; `None` if the lookup does not wait for room in a window.
    queued: Cell<Option<usize>>,
    /// The UDP messages of the lookup that may still be answered.
    sent: RefCell<Vec<Sent<R>>>,
    /// How many lookups of the engine had been answered when this lookup sent its last message: see [`Resolvers::note`].
    answered_before: Cell<u32>,
    /// The outcome, once the callers may have it. This may be later than the end of the lookup, because the resolvers may be
    /// checked first. The flag is true, except for an uncached lookup that no resolver answered.
    ended: RefCell<Option<(Arc<Outcome>, bool)>>,
    waiting: RefCell<Vec<Waker>>,
}

impl<R: Runtime> Clone for Resolver<R> {
    fn clone(&self) -> Resolver<R> {
        Resolver { inner: Rc::clone(&self.inner) }
    }
}

impl<R: Runtime> Resolver<R> {
    /// The resolver of one shard, in an engine with this number of shards. `started` is the time when the engine started.
    pub(crate) fn new(
        config: &EngineConfig,
        health: Arc<Resolvers>,
        shards: usize,
        started: Instant,
    ) -> Resolver<R> {
        let mut upstreams = config.resolvers.clone();
        upstreams.truncate(DNS_UPSTREAMS_MAX);
        let own_name =
            config.ehlo.as_deref().and_then(Name::parse).unwrap_or_else(|| Name::reverse(LOCALHOST));
        let cache_bytes = (DNS_CACHE_BYTES_MAX / shards.max(1)).max(SHARD_CACHE_BYTES_MIN);
        Resolver {
            inner: Rc::new(Inner {
                config: LookupConfig::new(upstreams.len()),
                record: RefCell::new(Upstreams::new(upstreams.len())),
                outages: Cell::new(health.ended()),
                health,
                ports: Ports::new(&upstreams),
                rooms: upstreams.iter().map(|_| QuestionRoom::default()).collect(),
                upstreams,
                cache: RefCell::new(Cache::new(cache_bytes, Hashing::default())),
                own_name: Question { name: own_name, kind: RecordKind::A },
                own_name_lookup: RefCell::default(),
                last_answer: Cell::new((0, started)),
                ticking: Cell::new(false),
                outbox: RefCell::default(),
                pending: RefCell::default(),
                uncached: RefCell::default(),
                late: RefCell::default(),
                doubts: Doubts::default(),
                random: RefCell::new(seed::rng()),
                started,
            }),
        }
    }

    /// Whether failures are the fault of the resolvers and not of the domains: no resolver has answered since the start, all have
    /// fallen silent, or they deny everything.
    pub(crate) fn is_down(&self) -> bool {
        self.inner.health.are_to_blame()
    }

    /// Like [`Resolver::is_down`], but also true while our own name is looked up because the resolvers may have fallen silent, and
    /// nothing has been answered since.
    pub(crate) fn may_be_down(&self) -> bool {
        let health = &self.inner.health;
        let is_unanswered = |lookup: Rc<PendingLookup<R>>| lookup.answered_before.get() == health.answered();
        self.is_down() || self.inner.own_name_lookup_under_way().is_some_and(is_unanswered)
    }

    /// Whether the resolvers count as denying everything (`engine_proto::dns::denials`).
    pub(crate) fn denies(&self) -> bool {
        self.inner.health.denials.are_down()
    }

    /// Whether this failure is the fault of the resolvers and not of the domain.
    pub(crate) fn is_to_blame(&self, why: Failure) -> bool {
        match why {
            Failure::Timeout | Failure::Unreachable => self.inner.health.are_down(),
            Failure::Unproven => self.denies(),
            _ => false,
        }
    }

    /// If some resolvers denied the addresses of a name without proof and another resolver gave a credible answer, returns the
    /// resolvers that denied them, and forgets this dispute.
    pub(crate) fn take_dispute(&self, name: &Name) -> Option<Vec<usize>> {
        self.inner.doubts.take_dispute(name)
    }

    /// Removes an answer "no such record" from the cache, so that the question is asked again.
    pub(crate) fn forget_no_data(&self, question: &Question) {
        self.inner.cache.borrow_mut().forget_no_data(question);
    }

    /// Asks each resolver separately, except those that failed when they were last asked. Does not read the cache. Returns the
    /// records of the first one that has some, and puts them into the cache. `None` if there is only one resolver, or if none has
    /// records.
    pub(crate) async fn look_up_at_each(&self, question: &Question) -> Option<Arc<Outcome>> {
        let (inner, now) = (&self.inner, R::now());
        let (count, record) = (inner.upstreams.len(), inner.record.borrow().clone());
        let asked = (0..count).filter(|&upstream| count > 1 && record.is_well(upstream));
        let lookups: Vec<_> = asked
            .map(|upstream| {
                let others: Vec<usize> = (0..count).filter(|&other| other != upstream).collect();
                inner.look_up_uncached(question, &others, now)
            })
            .collect();
        let outcomes = all(lookups.iter().map(|lookup| lookup.outcome()).collect()).await;
        let found = |outcome: &Outcome| matches!(outcome, Outcome::Records { .. });
        let (found, _) = outcomes.into_iter().find(|(outcome, _)| found(outcome))?;
        Some(inner.cache.borrow_mut().insert(question.clone(), Outcome::clone(&found), R::now()))
    }

    /// Returns why no resolver has answered since the start; `None` if one has. First waits for [`DNS_SILENCE`]. If no
    /// lookup was answered by then, perhaps there was none, or all of them asked about domains with dead name servers. So our own
    /// name is looked up, and its outcome is awaited for the same time.
    pub(crate) async fn silence_at_start(&self) -> Option<Failure> {
        let inner = &self.inner;
        R::sleep(DNS_SILENCE).await;
        if inner.health.has_answered() {
            return None;
        }
        let lookup = inner.look_up_uncached(&inner.own_name, &[], R::now());
        let end = R::now() + DNS_SILENCE;
        while lookup.ended.borrow().is_none() && R::now() < end {
            R::sleep(TICK).await;
        }
        if inner.health.has_answered() {
            return None;
        }
        let ended = lookup.ended.borrow();
        match &*ended {
            Some((_, true)) => None,
            Some((outcome, false)) => match **outcome {
                Outcome::Failed { why, .. } => Some(why),
                _ => Some(Failure::Timeout),
            },
            None => lookup.with_lookup(|lookup| lookup.failure()),
        }
    }

    /// Takes the outcome from the cache, or from a lookup of the same question that is under way, or from a new lookup. If `urgent`
    /// is true, the lookup gets room before those of batches and lists.
    pub(crate) async fn look_up(&self, question: &Question, urgent: bool) -> Arc<Outcome> {
        let inner = &self.inner;
        let now = R::now();
        // If an outage has ended since the last call, it may have caused failures that are in the cache.
        let ended = inner.health.ended();
        if inner.outages.replace(ended) != ended {
            inner.cache.borrow_mut().forget_failures(now);
        }
        if let Some(outcome) = inner.cache.borrow_mut().get(question, now) {
            return outcome;
        }
        let known = inner.pending.borrow().get(question).cloned();
        let has_ended = |known: &Rc<PendingLookup<R>>| known.ended.borrow().is_some();
        holds(Invariant::LookupJoined, || !known.as_ref().is_some_and(has_ended));
        if urgent && let Some(pending) = &known {
            inner.make_urgent(pending);
        }
        let pending = known.unwrap_or_else(|| {
            let pending = inner.begin(question, urgent, false);
            inner.pending.borrow_mut().insert(question.clone(), Rc::clone(&pending));
            inner.go_on(&pending, now);
            pending
        });
        pending.outcome().await.0
    }

    /// Asks the resolvers that are not in `left_out`, without reading the cache. If there are no others, asks one in `left_out`. A
    /// lookup of the same question that is under way may ask the resolvers that are to be left out, so its outcome is not used. The
    /// outcome of the new lookup is put into the cache.
    pub(crate) async fn look_up_without(&self, question: &Question, left_out: &[usize]) -> Arc<Outcome> {
        let lookup = self.inner.look_up_uncached(question, left_out, R::now());
        let (outcome, _) = lookup.outcome().await;
        self.inner.cache.borrow_mut().insert(question.clone(), Outcome::clone(&outcome), R::now())
    }
}

impl<R: Runtime> Drop for Inner<R> {
    fn drop(&mut self) {
        // A lookup owns the sockets on which it waits for answers, and the sockets own the lookup. This breaks the cycle.
        for pending in self.pending.get_mut().values().chain(self.uncached.get_mut().iter()) {
            pending.sent.take();
        }
    }
}

impl<R: Runtime> PendingLookup<R> {
    /// Waits for the outcome. The lookup continues even if no task waits any more.
    async fn outcome(&self) -> (Arc<Outcome>, bool) {
        poll_fn(|context| match &*self.ended.borrow() {
            Some(ended) => Poll::Ready(ended.clone()),
            None => {
                self.waiting.borrow_mut().push(context.waker().clone());
                Poll::Pending
            }
        })
        .await
    }

    fn leave_out(&self, upstreams: &[usize]) {
        self.with_lookup(|lookup| upstreams.iter().for_each(|&upstream| lookup.leave_out(upstream)));
    }

    fn deadline(&self) -> Option<Instant> {
        self.lookup.borrow().as_ref().and_then(Lookup::deadline)
    }

    /// The resolver to which the next message of the lookup is to be sent, if one is due now.
    fn wants(&self) -> Option<usize> {
        self.lookup.borrow().as_ref().and_then(Lookup::wants).map(|(upstream, _)| upstream)
    }

    /// Calls `function` with the lookup. `None` if the lookup has ended.
    fn with_lookup<T>(&self, function: impl FnOnce(&mut Lookup) -> T) -> Option<T> {
        self.lookup.borrow_mut().as_mut().map(function)
    }

    fn finish(&self, outcome: Arc<Outcome>, answered: bool) {
        self.ended.replace(Some((outcome, answered)));
        let mut waiting = self.waiting.take();
        if planted(Fault::Break(Invariant::LookupWoken)) {
            let others = waiting.split_off(waiting.len().min(1));
            self.waiting.replace(others);
        }
        waiting.into_iter().for_each(Waker::wake);
        holds(Invariant::LookupWoken, || self.waiting.borrow().is_empty());
    }
}

impl<R: Runtime> Inner<R> {
    fn begin(&self, question: &Question, urgent: bool, is_uncached: bool) -> Rc<PendingLookup<R>> {
        let first = self.record.borrow().first();
        Rc::new(PendingLookup {
            lookup: RefCell::new(Some(Lookup::new(question.clone(), &self.config, first))),
            urgent: Cell::new(urgent),
            is_uncached,
            queued: Cell::new(None),
            sent: RefCell::default(),
            answered_before: Cell::new(self.health.answered()),
            ended: RefCell::default(),
            waiting: RefCell::default(),
        })
    }

    /// Starts a lookup that does not read the cache and does not ask the resolvers in `left_out`, unless there are no others.
    fn look_up_uncached(
        self: &Rc<Self>,
        question: &Question,
        left_out: &[usize],
        now: Instant,
    ) -> Rc<PendingLookup<R>> {
        let lookup = self.begin(question, true, true);
        lookup.leave_out(left_out);
        self.uncached.borrow_mut().push(Rc::clone(&lookup));
        self.go_on(&lookup, now);
        lookup
    }

    /// Sends the next message of a lookup, or queues the lookup until there is room. If the lookup has an outcome, ends it.
    fn go_on(self: &Rc<Self>, pending: &Rc<PendingLookup<R>>, now: Instant) {
        while let Some(upstream) = pending.wants() {
            match self.room_for(pending, upstream) {
                Some(place) => self.transmit(pending, upstream, place, now),
                None => break,
            }
        }
        let has_ended = pending.lookup.borrow().as_ref().is_some_and(|lookup| lookup.outcome().is_some());
        if has_ended {
            self.end(pending, now);
        } else if let Some(ticking) = self.raise(|inner| &inner.ticking) {
            R::spawn(tick(Rc::clone(self), ticking));
        }
    }

    /// Sets a flag that says that a task runs. The task owns the result, which clears the flag. `None` if the flag is already set.
    fn raise(self: &Rc<Self>, flag: Flag<R>) -> Option<RaisedFlag<R>> {
        (!flag(self).replace(true)).then(|| RaisedFlag { inner: Rc::downgrade(self), flag })
    }

    /// Ends a lookup: records which resolvers answered, and passes the outcome to the callers that wait. Sometimes the resolvers
    /// are checked before that.
    fn end(self: &Rc<Self>, pending: &Rc<PendingLookup<R>>, now: Instant) {
        let Some(lookup) = pending.lookup.take() else { return };
        self.leave_tries(pending, &lookup, now);
        self.record.borrow_mut().note(&lookup);
        self.doubts.note_dispute(&lookup);
        let (answered, question) = (lookup.has_any_answer(), lookup.question().clone());
        let silence = Outcome::Failed { why: Failure::Timeout, ttl: ttl::failure(Failure::Timeout) };
        let outcome = lookup.into_outcome().unwrap_or(silence);
        if pending.is_uncached {
            self.uncached.borrow_mut().retain(|lookup| !Rc::ptr_eq(lookup, pending));
            pending.finish(Arc::new(outcome), answered);
        } else if answered {
            self.health.note(true, pending.answered_before.get());
            self.learn(question, pending, outcome, now);
        } else if let Some(call) = self.look_up_own_name_if_suspect(now) {
            let (inner, pending) = (Rc::clone(self), Rc::clone(pending));
            R::spawn(async move {
                let (_, answered) = call.outcome().await;
                inner.health.note_own_name(answered, call.answered_before.get());
                inner.settle(question, &pending, outcome, R::now());
            });
        } else {
            self.health.note(false, pending.answered_before.get());
            self.settle(question, pending, outcome, now);
        }
    }

    /// The lookup of our own name for which a lookup waits that has ended without an answer, before anything is said about its domain.
    /// Either the resolvers are down, or only the name servers of several domains: our own name has other name servers, so its lookup
    /// tells these cases apart. `None` if there is no reason to suspect the resolvers, or if they count as silent already, because
    /// then the outcome shows nothing about the domain anyway.
    fn look_up_own_name_if_suspect(self: &Rc<Self>, now: Instant) -> Option<Rc<PendingLookup<R>>> {
        match self.own_name_lookup_under_way() {
            Some(under_way) => (!self.health.are_silent()).then_some(under_way),
            None => self.health.is_suspect().then(|| self.look_up_own_name(now)),
        }
    }

    fn own_name_lookup_under_way(&self) -> Option<Rc<PendingLookup<R>>> {
        self.own_name_lookup.borrow().upgrade().filter(|lookup| lookup.ended.borrow().is_none())
    }

    fn look_up_own_name(self: &Rc<Self>, now: Instant) -> Rc<PendingLookup<R>> {
        let lookup = self.look_up_uncached(&self.own_name, &[], now);
        self.own_name_lookup.replace(Rc::downgrade(&lookup));
        lookup
    }

    /// If nothing has been answered for [`DNS_SILENCE`], although several lookups or an urgent one are under way, looks our own name
    /// up. So an outage is noticed before these lookups give up, and those that give up meanwhile wait for this lookup.
    fn notice_silence(self: &Rc<Self>, now: Instant) {
        let (answered, (before, since)) = (self.health.answered(), self.last_answer.get());
        if answered != before {
            return self.last_answer.set((answered, now));
        }
        let is_long = now.saturating_duration_since(since) >= DNS_SILENCE;
        if !is_long || self.health.are_silent() || self.own_name_lookup_under_way().is_some() {
            return;
        }
        let is_sent =
            |pending: &&Rc<PendingLookup<R>>| pending.with_lookup(|lookup| lookup.is_sent()) == Some(true);
        let (asked, urgent) = {
            let pending = self.pending.borrow();
            let sent = || pending.values().filter(is_sent);
            (sent().count(), sent().any(|pending| pending.urgent.get()))
        };
        if urgent || asked >= DNS_SILENT_LOOKUPS_MAX as usize {
            let (inner, call) = (Rc::clone(self), self.look_up_own_name(now));
            R::spawn(async move {
                let (_, answered) = call.outcome().await;
                inner.health.note_own_name(answered, call.answered_before.get());
            });
        }
    }

    /// Passes on the outcome of a lookup that was answered. If the question is for MX or A records, a denial without proof may be
    /// checked first (doubts.rs), and records or a proven "no such name" count as a sign that the resolvers do not deny everything.
    fn learn(
        self: &Rc<Self>,
        question: Question,
        pending: &Rc<PendingLookup<R>>,
        outcome: Outcome,
        now: Instant,
    ) {
        match (&outcome, Asked::of(question.kind)) {
            (Outcome::Failed { why: Failure::Unproven, .. }, Some(asked)) => {
                return self.doubt(asked, question, pending, outcome, now);
            }
            // `NoData` is not counted: a filter that falsifies addresses may still say "no such record" truthfully, so such an
            // answer does not show that the resolvers are honest.
            (Outcome::Records { .. } | Outcome::NxDomain { .. }, Some(asked)) => {
                self.health.denials.on_proven(asked, self.age(now));
            }
            _ => {}
        }
        self.settle(question, pending, outcome, now);
    }

    /// Puts the outcome into the cache, and wakes the callers that wait for it.
    fn settle(&self, question: Question, pending: &PendingLookup<R>, outcome: Outcome, now: Instant) {
        if !sometimes(Fault::Break(Invariant::LookupJoined)) {
            self.pending.borrow_mut().remove(&question);
        }
        let outcome = self.cache.borrow_mut().insert(question, outcome, now);
        pending.finish(outcome, true);
    }

    /// Tells a lookup that a resolver cannot be reached: ICMP reported an error, no socket could be opened, or the message could
    /// not be sent.
    fn unreachable(self: &Rc<Self>, pending: &Rc<PendingLookup<R>>, upstream: usize, now: Instant) {
        pending.with_lookup(|lookup| lookup.on_unreachable(upstream));
        self.go_on(pending, now);
    }

    /// All lookups under way, including the uncached ones.
    fn all(&self) -> Vec<Rc<PendingLookup<R>>> {
        self.pending.borrow().values().chain(self.uncached.borrow().iter()).cloned().collect()
    }

    /// How long the engine has run. Never zero, because zero means "never" in [`engine_proto::dns::denials`].
    fn age(&self, now: Instant) -> Duration {
        now.saturating_duration_since(self.started) + Duration::from_millis(1)
    }
}

/// Checks the timeouts of all lookups. Ends when no lookup is under way and no late answer is awaited.
async fn tick<R: Runtime>(inner: Rc<Inner<R>>, _ticking: RaisedFlag<R>) {
    inner.last_answer.set((inner.health.answered(), R::now()));
    loop {
        let is_crowded = inner.rooms.iter().any(|room| room.waiting() > 0);
        R::sleep(if is_crowded { TICK_CROWDED } else { TICK }).await;
        let now = R::now();
        for pending in inner.all() {
            inner.note_overdue(&pending, now);
            if pending.deadline().is_some_and(|deadline| deadline <= now) {
                pending.with_lookup(|lookup| lookup.on_timeout(now));
                inner.go_on(&pending, now);
            }
        }
        inner.note_lost(now);
        inner.notice_silence(now);
        inner.pump_all(now);
        let is_idle = inner.pending.borrow().is_empty() && inner.uncached.borrow().is_empty();
        if is_idle && inner.late.borrow().is_empty() {
            break;
        }
    }
}

/// The IP addresses that a lookup found. Empty for all outcomes other than A and AAAA records.
pub(crate) fn addresses(outcome: &Outcome) -> Vec<IpAddr> {
    match outcome {
        Outcome::Records { records: Records::A(found), .. } => {
            found.iter().copied().map(IpAddr::V4).collect()
        }
        Outcome::Records { records: Records::Aaaa(found), .. } => {
            found.iter().copied().map(IpAddr::V6).collect()
        }
        _ => Vec::new(),
    }
}

/// Awaits all futures at once, and returns their outputs in the same order.
pub(crate) async fn all<F: Future>(futures: Vec<F>) -> Vec<F::Output> {
    let mut futures: Vec<Pin<Box<F>>> = futures.into_iter().map(Box::pin).collect();
    let mut outputs: Vec<Option<F::Output>> = futures.iter().map(|_| None).collect();
    poll_fn(|context| {
        for (future, output) in futures.iter_mut().zip(&mut outputs) {
            if output.is_none()
                && let Poll::Ready(ready) = future.as_mut().poll(context)
            {
                *output = Some(ready);
            }
        }
        if outputs.iter().all(Option::is_some) { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
    outputs.into_iter().flatten().collect()
}
