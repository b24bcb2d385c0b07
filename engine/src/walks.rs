//! The walks of a shard: the DNS look-ups that lead from a domain to the addresses of its mail hosts. This file keeps the walks
//! that are under way or queued, and the results. All works of a domain share one walk. No I/O.
//!
//! Each waiter is returned once by one of these methods, and then the caller answers it or sends it on. The exception is
//! [`Walks::abandon`], which answers the waiters itself.
//!
//! - for a new work or inquiry (`verify.rs`): [`Walks::join`]. It returns the waiter at once if the result is known, or if too many
//!   others wait. Otherwise it keeps the waiter, and says whether the caller has to start the walk.
//! - for the task of a walk (`verify.rs`, `walk.rs`): [`Walks::end`] takes the result, and returns all waiters. When the walk has
//!   ended, or earlier if it is slow, [`Walks::another`] names the queued domain that is walked next.
//! - for the sweep of the shard: [`Walks::take_expired`] and [`Walks::take_recalled`] return waiters before their walk has ended.
//!   [`Walks::forget`] drops old results. When the engine stops, [`Walks::abandon`] answers all waiters.
//!
//! A single check or an inquiry is urgent: its walk begins at once, and the check or inquiry is accepted however many others wait.

use crate::faults::{Fault, planted};
use crate::inquiry::{MailHosts, Responder};
use crate::invariants::{Invariant, holds};
use crate::seed::{HashMap, NumberMap};
use crate::work::{Plan, PlannedRoute, Work};
use crate::{Outage, Priority};
use engine_proto::address::Domain;
use engine_proto::dns::mx::Dead;
use engine_proto::limits::{
    SHARD_CACHE_BYTES_MIN, WALK_TTL, WALK_WAITERS_MAX, WALKS_BYTES_MAX, WALKS_FRESH_MAX, WALKS_MAX,
};
use engine_proto::lists::MailService;
use std::collections::VecDeque;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Instant;

/// The mail hosts of a domain, or the reason why none can be asked.
#[derive(Clone)]
pub(crate) enum Found {
    Hosts(Arc<Plan>),
    /// The hosts have only IPv6 addresses, and we have no IPv6 address.
    OutOfReach,
    Dead(Dead),
}

impl Found {
    /// What the mail hosts tell about the domain.
    pub(crate) fn service(&self) -> MailService {
        match self {
            Found::Hosts(plan) => plan.service,
            Found::OutOfReach | Found::Dead(_) => MailService::Unknown,
        }
    }
}

/// A work or an inquiry that waits for the result of a walk.
pub(crate) enum Waiter {
    Address(Work),
    Domain { responder: Responder<MailHosts>, deadline: Instant },
}

pub(crate) struct Walks {
    /// The results, by the hashes of their domains. If two domains have the same hash, only one result is kept.
    known: NumberMap<KeptResult>,
    /// The approximate size of all kept results.
    bytes: usize,
    /// The largest size that the kept results may have together.
    bytes_max: usize,
    under_way: HashMap<Domain, UnderWay>,
    /// The domains with a walk that waits until it may begin, in order. If such a walk has meanwhile begun for an urgent waiter, or
    /// has lost all its waiters, its domain is skipped.
    queued: VecDeque<Domain>,
    /// The number of walks that are under way and began less than [`engine_proto::limits::WALK_FRESH`] ago.
    fresh: usize,
}

struct UnderWay {
    waiting: Vec<Waiter>,
    begun: bool,
}

struct KeptResult {
    domain: Domain,
    found: Found,
    until: Instant,
    trace: Rc<[String]>,
    bytes: usize,
}

/// What happens to a waiter that joins the walk of its domain.
pub(crate) enum Joined {
    /// The result is known already: the waiter, the result, and the trace of the walk.
    Known(Waiter, Found, Rc<[String]>),
    /// The walk begins now, and the caller has to start it. If it is urgent, its DNS questions come before those of batches and
    /// lists.
    Begins { urgent: bool },
    /// The waiter waits for a walk that is under way or queued.
    Waiting,
    /// The waiter is patient, and too many others wait for this walk.
    SiteFull(Waiter),
}

impl Waiter {
    fn deadline(&self) -> Instant {
        match self {
            Waiter::Address(work) => work.deadline,
            Waiter::Domain { deadline, .. } => *deadline,
        }
    }

    fn wants_trace(&self) -> bool {
        matches!(self, Waiter::Address(work) if work.trace.is_some())
    }

    /// Whether this is a row of a batch or list. The walk of such a row may be queued.
    fn is_patient(&self) -> bool {
        matches!(self, Waiter::Address(work) if work.priority != Priority::Single)
    }

    pub(crate) fn fail(self, outage: Outage) {
        match self {
            Waiter::Address(work) => work.fail(outage),
            Waiter::Domain { responder, .. } => responder.answer(Err(outage)),
        }
    }
}

impl Walks {
    /// The walks of one shard, in an engine with this number of shards.
    pub(crate) fn new(shards: usize) -> Walks {
        Walks {
            known: NumberMap::default(),
            bytes: 0,
            bytes_max: (WALKS_BYTES_MAX / shards.max(1)).max(SHARD_CACHE_BYTES_MIN),
            under_way: HashMap::default(),
            queued: VecDeque::new(),
            fresh: 0,
        }
    }

    /// Adds a waiter to the walk of its domain, unless the result is known or too many others wait. `hash` is that of the domain.
    pub(crate) fn join(&mut self, domain: &Domain, hash: u64, waiter: Waiter, now: Instant) -> Joined {
        // If a request wants a trace, a result without a trace is not used. Then the walk is repeated, and most of its answers come
        // from the DNS cache.
        let has_trace = |walk: &KeptResult| !waiter.wants_trace() || !walk.trace.is_empty();
        let is_fresh = |walk: &KeptResult| walk.until > now || planted(Fault::Break(Invariant::WalkFresh));
        let is_usable = |walk: &&KeptResult| walk.domain == *domain && is_fresh(walk) && has_trace(walk);
        if let Some(walk) = self.known.get(&hash).filter(is_usable) {
            holds(Invariant::WalkFresh, || walk.until > now);
            return Joined::Known(waiter, walk.found.clone(), Rc::clone(&walk.trace));
        }
        let urgent = !waiter.is_patient();
        let known = self.under_way.get_mut(domain);
        if known.as_ref().is_some_and(|walk| walk.waiting.len() >= WALK_WAITERS_MAX) && !urgent {
            return Joined::SiteFull(waiter);
        }
        let begins = match known {
            Some(walk) => {
                walk.waiting.push(waiter);
                let begins = urgent && !walk.begun;
                walk.begun |= begins;
                begins
            }
            None => {
                let begun = urgent || self.fresh < WALKS_FRESH_MAX;
                self.under_way.insert(domain.clone(), UnderWay { waiting: vec![waiter], begun });
                if !begun {
                    self.queued.push_back(domain.clone());
                }
                begun
            }
        };
        if !begins {
            return Joined::Waiting;
        }
        self.fresh += 1;
        Joined::Begins { urgent }
    }

    /// Called when a walk has ended or is no longer fresh. Returns the domain of a queued walk, which begins in its place.
    pub(crate) fn another(&mut self) -> Option<Domain> {
        self.fresh = self.fresh.saturating_sub(1);
        while self.fresh < WALKS_FRESH_MAX {
            let domain = self.queued.pop_front()?;
            if let Some(walk) = self.under_way.get_mut(&domain).filter(|walk| !walk.begun) {
                walk.begun = true;
                self.fresh += 1;
                return Some(domain);
            }
        }
        None
    }

    /// Keeps the result of a walk, and returns the waiters.
    pub(crate) fn end(
        &mut self,
        (domain, hash): (Domain, u64),
        found: Found,
        trace: Rc<[String]>,
        now: Instant,
    ) -> Vec<Waiter> {
        let waiting = self.lose(&domain);
        if matches!(found, Found::Dead(Dead::CannotTell(_))) {
            // Failures are kept only in the DNS cache: when an outage ends, the cache drops the failures that the outage may have
            // caused.
            return waiting;
        }
        let bytes = size_of_walk(&domain, &found, &trace);
        let has_room =
            |walks: &Walks| walks.known.len() < WALKS_MAX && walks.bytes + bytes <= walks.bytes_max;
        if !has_room(self) {
            self.forget(now);
        }
        if !has_room(self) {
            // Dropping the expired results did not make enough room, so all results are dropped. The DNS cache still has most of
            // the answers.
            self.known.clear();
            self.bytes = 0;
        }
        if has_room(self) {
            let walk = KeptResult { domain, found, until: now + WALK_TTL, trace, bytes };
            self.bytes += if planted(Fault::Break(Invariant::WalkBytes)) { 2 * bytes } else { bytes };
            self.bytes -= self.known.insert(hash, walk).map_or(0, |before| before.bytes);
            let sum = || self.known.values().map(|walk| walk.bytes).sum::<usize>();
            holds(Invariant::WalkBytes, || self.bytes == sum());
        }
        waiting
    }

    /// Forgets that a walk is under way, and returns the waiters.
    pub(crate) fn lose(&mut self, domain: &Domain) -> Vec<Waiter> {
        self.under_way.remove(domain).map(|walk| walk.waiting).unwrap_or_default()
    }

    pub(crate) fn forget(&mut self, now: Instant) {
        self.known.retain(|_, walk| walk.until > now);
        self.bytes = self.known.values().map(|walk| walk.bytes).sum();
    }

    /// Takes the waiters with a deadline that has passed.
    pub(crate) fn take_expired(&mut self, now: Instant) -> Vec<Waiter> {
        let mut expired = Vec::new();
        for walk in self.under_way.values_mut() {
            expired.extend(walk.waiting.extract_if(.., |waiter| waiter.deadline() <= now));
        }
        // An entry without waiters would only take up memory, so it is removed.
        self.under_way.retain(|_, walk| !walk.waiting.is_empty());
        expired
    }

    /// Takes the works of clients that have recalled them or are draining: see [`Work::is_taken_back`].
    pub(crate) fn take_recalled(&mut self) -> Vec<Work> {
        let mut recalled = Vec::new();
        let is_recalled =
            |waiter: &mut Waiter| matches!(waiter, Waiter::Address(work) if work.is_taken_back());
        for walk in self.under_way.values_mut() {
            recalled.extend(walk.waiting.extract_if(.., is_recalled).filter_map(|waiter| match waiter {
                Waiter::Address(work) => Some(work),
                Waiter::Domain { .. } => None,
            }));
        }
        self.under_way.retain(|_, walk| !walk.waiting.is_empty());
        recalled
    }

    pub(crate) fn abandon(&mut self) {
        let waiting = self.under_way.drain().flat_map(|(_, walk)| walk.waiting);
        waiting.for_each(|waiter| waiter.fail(Outage::Stopping));
    }
}

/// The approximate memory of a kept result in bytes.
fn size_of_walk(domain: &Domain, found: &Found, trace: &[String]) -> usize {
    // What an allocation takes in addition to its content, including the reference counts of an `Arc`.
    const ALLOCATION: usize = 24;
    let text = |text: &str| text.len() + ALLOCATION;
    let plan = match found {
        Found::Hosts(plan) => {
            let routes = plan.routes.iter().map(|route| size_of::<PlannedRoute>() + text(&route.host));
            size_of::<Plan>() + 2 * ALLOCATION + text(&plan.site) + routes.sum::<usize>()
        }
        Found::OutOfReach | Found::Dead(_) => 0,
    };
    let trace: usize = trace.iter().map(|line| size_of::<String>() + text(line)).sum();
    // The entry is counted twice, because a table that has just grown is half empty.
    2 * size_of::<(u64, KeptResult)>() + text(domain.as_str()) + plan + trace
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::work::testing::{mailbox, work};

    #[test]
    fn a_list_begins_its_walks_a_few_at_a_time_and_nobody_waits_behind_them() {
        let (client, now) = (mailbox(), Instant::now());
        let mut walks = Walks::new(1);
        let join = |walks: &mut Walks, name: &str, priority| {
            let work = work(&client, &format!("u@{name}"), priority);
            let (domain, hash) = (work.address.domain().clone(), work.domain_hash);
            matches!(walks.join(&domain, hash, Waiter::Address(work), now), Joined::Begins { .. })
        };
        for n in 0..WALKS_FRESH_MAX {
            assert!(join(&mut walks, &format!("d{n}.example"), Priority::List));
        }
        for name in ["a.example", "b.example", "c.example"] {
            assert!(!join(&mut walks, name, Priority::List), "{name} begins beyond the limit");
        }
        assert!(join(&mut walks, "b.example", Priority::Single), "somebody waits for it");
        assert!(!join(&mut walks, "b.example", Priority::Single), "it has begun already");
        assert!(join(&mut walks, "e.example", Priority::Single), "somebody waits for a new one");
        // Two are beyond the limit, so two have to go first.
        assert_eq!((walks.another(), walks.another()), (None, None));
        assert_eq!(walks.another().map(|domain| domain.to_string()).as_deref(), Some("a.example"));
        assert_eq!(walks.another().map(|domain| domain.to_string()).as_deref(), Some("c.example"));
        assert_eq!(walks.another(), None);
        assert!(join(&mut walks, "f.example", Priority::List), "there is room again");
        let lost = Domain::parse("f.example").expect("no domain");
        assert_eq!((walks.lose(&lost).len(), walks.lose(&lost).len()), (1, 0));
        assert!(join(&mut walks, "f.example", Priority::Single), "a walk that was lost hinders no other");
        walks.abandon();
    }
}
