//! The half of a shard that asks mail servers: the sites and groups of hosts that the shard owns, and what its sessions share. No I/O:
//! `dispatch.rs` decides when a session begins, and `probe.rs` holds it.

#[cfg(feature = "sim")]
use crate::census::Census;
use crate::common::Common;
use crate::egress::rest;
use crate::faults::{Fault, planted};
use crate::invariants::{Invariant, holds};
use crate::knowledge::Knowledge;
use crate::refusals::RefusalBook;
use crate::seed::{self, HashMap};
use crate::session::SessionConfig;
use crate::shared::Shared;
use crate::site::{Group, Site};
use crate::work::{Plan, Work};
use crate::{Outage, Withdrawn};
use engine_proto::address::Domain;
use engine_proto::egress::Rests;
use engine_proto::limits::{GROUPS_BYTES_MAX, SHARD_CACHE_BYTES_MIN, WITHDRAWN_MAX};
use engine_proto::pace::{Ceiling, Profile, SitePace};
use engine_proto::verdict::Reason;
use engine_proto::verdict::catch_all::ControlShape;
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, VecDeque};
use std::rc::{Rc, Weak};
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant, SystemTime};

/// How long the control recipient of a domain stays the same, in seconds.
const DAY_S: u64 = 24 * 3600;

pub(crate) struct Asking {
    pub(crate) common: Rc<Common>,
    pub(crate) shared: Arc<Shared>,
    /// What the sessions from each source share.
    pub(crate) sessions: Vec<Rc<SessionConfig>>,
    /// The sources that rest at sites of this shard.
    pub(crate) rests: RefCell<Rests>,
    pub(crate) smtp_port: u16,
    /// No session task waits longer than this for anything.
    pub(crate) session_limit: Duration,
    pub(crate) knowledge: RefCell<Knowledge>,
    refusals: RefusalBook,
    sites: RefCell<HashMap<Box<str>, Rc<Site>>>,
    groups: RefCell<HashMap<Box<str>, Rc<Group>>>,
    /// Whether the groups take more memory than they should. Then idle ones are forgotten at once.
    has_too_many_groups: Cell<bool>,
    /// The groups that something waits in, by their numbers: the order of their first work.
    pub(crate) active: RefCell<BTreeMap<u64, Rc<Group>>>,
    numbers: Cell<u64>,
    /// Sessions that are open.
    pub(crate) open: Cell<usize>,
    /// Answers to recipients so far.
    pub(crate) answers: Cell<u64>,
    pub(crate) sessions_max: usize,
    /// Groups that wait for a session only because the shard has as many as it may have.
    pub(crate) starved: RefCell<VecDeque<Weak<Group>>>,
}

impl Asking {
    /// The asking half of the shard with this number.
    pub(crate) fn new(common: Rc<Common>, index: usize) -> Asking {
        let shared = Arc::clone(&common.shared);
        let config = &shared.config;
        let count = shared.shards.len();
        // The total is shared out exactly: the first shards take what does not divide.
        let sessions_max = config.sessions / count + usize::from(index < config.sessions % count);
        let patience = shared.pool.sources[0].dialog.patience;
        let sessions = shared.pool.sources.iter().map(|source| {
            Rc::new(SessionConfig { source: Arc::clone(source), tls: Arc::clone(&shared.tls) })
        });
        Asking {
            common,
            sessions: sessions.collect(),
            rests: RefCell::default(),
            smtp_port: config.smtp_port,
            session_limit: patience.banner + patience.ehlo * 3 + patience.tls + patience.mail + patience.rcpt,
            knowledge: RefCell::default(),
            refusals: RefusalBook::default(),
            sites: RefCell::default(),
            groups: RefCell::default(),
            has_too_many_groups: Cell::new(false),
            active: RefCell::default(),
            numbers: Cell::new(0),
            open: Cell::new(0),
            answers: Cell::new(0),
            sessions_max,
            starved: RefCell::default(),
            shared,
        }
    }

    /// Counts of the state that is kept.
    #[cfg(feature = "sim")]
    pub(crate) fn census(&self) -> Census {
        let groups = self.groups.borrow();
        Census {
            sessions: self.open.get(),
            groups: groups.len(),
            sites: self.sites.borrow().len(),
            waiting: groups.values().map(|group| group.waiting()).sum::<usize>() + self.common.waiting(),
        }
    }

    /// A control recipient of the domain. It is the same for a day, because greylisting and address verification remember recipients,
    /// and another one in each installation. `second`: a name of another shape.
    pub(crate) fn control_recipient(&self, domain: &Domain, second: bool, now: Instant) -> String {
        let secret = &self.shared.config.installation;
        let day = (self.shared.since_epoch(now).as_secs() / DAY_S).to_string();
        let which = if second { "second" } else { "first" };
        let hash = seed::keyed_hash(secret, &["control", domain.as_str(), &day, which]);
        let shape = ControlShape::draw(seed::keyed_hash(secret, &["control shape"]));
        let shape = if second { shape.second() } else { shape };
        format!("{}@{}", shape.local_part(hash), domain.as_str())
    }

    /// The evidence key of verdicts that rest on the behaviour of a host towards a domain.
    pub(crate) fn evidence_key(&self, domain: &Domain, host: &str) -> u64 {
        seed::keyed_number(&self.shared.config.installation, &["evidence", domain.as_str(), host])
    }

    /// Verdicts that rest on this evidence are not to be used again.
    pub(crate) fn withdraw(&self, evidence: u64, now: Instant) {
        let at = SystemTime::UNIX_EPOCH + self.shared.since_epoch(now);
        let mut withdrawn = self.shared.withdrawn.lock().unwrap_or_else(PoisonError::into_inner);
        if withdrawn.len() < WITHDRAWN_MAX {
            withdrawn.push(Withdrawn { evidence, at });
        }
    }

    /// Answers all works of the group if the budget of refusals is used up; true if so.
    pub(crate) fn answer_if_over_budget(&self, group: &Group, now: Instant) -> bool {
        let Some(refusals) = &group.refusals else { return false };
        if !refusals.is_used_up(self.shared.refusal_step(now)) {
            return false;
        }
        let wait = refusals.wait(self.shared.since_epoch(now));
        for other in self.groups_of(&group.site_name, group.source) {
            other.take_expired(None).into_iter().for_each(|work| work.fail(Outage::OverBudget(wait)));
        }
        true
    }

    /// Answers a work where that needs no question: the host that would be asked is known to accept everyone.
    pub(crate) fn answer_if_known_catch_all(&self, group: &Group, work: Work, now: Instant) -> Option<Work> {
        if !group.state().catch_alls || work.address.needs_smtputf8() {
            return Some(work);
        }
        match group.first_open(now) {
            Some(route) => self.answer_if_known_catch_all_at(&route.host, work, now),
            None => Some(work),
        }
    }

    /// As [`Asking::answer_if_known_catch_all`], at this host.
    pub(crate) fn answer_if_known_catch_all_at(
        &self,
        host: &Rc<str>,
        mut work: Work,
        now: Instant,
    ) -> Option<Work> {
        if !self.knowledge.borrow().needs_no_question(&work, host, now) {
            return Some(work);
        }
        work.note(|| format!("control recipient: {host} accepted it earlier, so mailprobe asks nothing"));
        let evidence = Some(self.evidence_key(work.address.domain(), host));
        work.settle_at(host, Reason::CatchAll, "control_remembered", evidence);
        None
    }

    /// The group of a plan; `None` where no source reaches any of its hosts.
    pub(crate) fn group(&self, plan: &Plan, now: Instant) -> Option<Rc<Group>> {
        if let Some(group) = self.groups.borrow().get(&plan.group) {
            return Some(Rc::clone(group));
        }
        let index = self.shared.pool.choose(&plan.site, plan.routes.iter().map(|route| route.address))?;
        let source = &self.shared.pool.sources[index];
        let plan = &plan.with_routes(|address| source.serves(address));
        let mut sites = self.sites.borrow_mut();
        let site = sites.entry(plan.site.clone()).or_insert_with(|| {
            let profile: Profile = self.shared.config.pace.into();
            let pace = SitePace::new(Ceiling::of(profile, &plan.site), now);
            Rc::new(Site::new(pace))
        });
        let number = self.numbers.replace(self.numbers.get() + 1);
        let budget = site.state().pace.ceiling().refusals;
        let step = self.shared.refusal_step(now);
        let refusals = self.refusals.of(
            &self.shared.config,
            &self.shared.table,
            (&plan.site, &source.label),
            budget,
            step,
        );
        let group = Rc::new(Group::new(plan, Rc::clone(site), index, refusals, number, now));
        self.groups.borrow_mut().insert(plan.group.clone(), Rc::clone(&group));
        Some(group)
    }

    /// The groups of a site that are asked from this source.
    pub(crate) fn groups_of(&self, site: &str, source: usize) -> Vec<Rc<Group>> {
        let its = |group: &&Rc<Group>| *group.site_name == *site && group.source == source;
        self.groups.borrow().values().filter(its).cloned().collect()
    }

    /// Whether another group waits for a session that `group` could give up.
    pub(crate) fn is_crowded(&self, group: &Rc<Group>) -> bool {
        let another = |other: Rc<Group>| !Rc::ptr_eq(&other, group) && other.waiting() > 0;
        self.starved.borrow().iter().filter_map(Weak::upgrade).any(another) || group.is_another_queued()
    }

    /// Works that wait for their turn at a site.
    pub(crate) fn queued(&self) -> usize {
        self.active.borrow().values().map(|group| group.waiting()).sum()
    }

    /// An empty trace for a session, if any request asked for one.
    pub(crate) fn trace(&self) -> Option<Vec<String>> {
        self.common.wants_traces().then(Vec::new)
    }

    /// Adds the trace of a session that failed to the works that wait in its group.
    pub(crate) fn add_trace(&self, group: &Group, trace: Option<Vec<String>>) {
        if let Some(trace) = trace {
            group.add_trace(&trace);
        }
    }

    /// Answers the works whose deadline has passed.
    pub(crate) fn answer_expired(&self, now: Instant) {
        self.active.borrow_mut().retain(|_, group| group.is_active());
        let (groups, active) = (self.groups.borrow(), self.active.borrow());
        let is_swept = |group: &Rc<Group>| !group.is_active() || active.contains_key(&group.number);
        holds(Invariant::GroupActive, || groups.values().all(is_swept));
        drop((groups, active));
        for group in self.active.borrow().values() {
            group.take_expired(Some(now)).into_iter().for_each(|work| self.shared.give_up(work, now));
        }
    }

    /// Answers the works that their client has recalled, and the waiting works of clients that are draining.
    pub(crate) fn answer_recalled(&self, now: Instant) {
        let groups: Vec<_> = self.active.borrow().values().cloned().collect();
        let works = groups.iter().flat_map(|group| {
            let mut works = group.take_where(Work::is_recalled);
            works.extend(group.take_waiting(Work::is_taken_back));
            works
        });
        works.for_each(|work| self.shared.give_up(work, now));
    }

    /// Answers the works for which no route is left.
    pub(crate) fn answer_unroutable(&self, group: &Group, now: Instant) {
        group.take_unroutable(now).into_iter().for_each(|work| self.common.give_up(work, now));
    }

    /// Whether the groups take more memory than they should.
    pub(crate) fn has_too_many_groups(&self) -> bool {
        self.has_too_many_groups.get()
    }

    /// Drops the groups and sites that had no work for a while.
    pub(crate) fn forget(&self, now: Instant) {
        rest::count_ended(self, now);
        if planted(Fault::LeakGroup) {
            return;
        }
        let mut groups = self.groups.borrow_mut();
        let room = (GROUPS_BYTES_MAX / self.shared.shards.len()).max(SHARD_CACHE_BYTES_MIN);
        let too_many = groups.values().map(|group| group.bytes()).sum::<usize>() > room;
        self.has_too_many_groups.set(too_many);
        groups.retain(|_, group| {
            let goes = group.is_forgotten(now, too_many);
            holds(Invariant::GroupIdle, || !goes || !group.is_active());
            !goes
        });
        drop(groups);
        self.refusals.forget(self.shared.refusal_step(now));
        // A site is kept as long as a group of it.
        self.sites.borrow_mut().retain(|_, site| Rc::strong_count(site) > 1);
    }

    /// Answers all that is under way: the engine stops.
    pub(crate) fn abandon(&self) {
        for group in self.active.borrow().values() {
            group.take_expired(None).into_iter().for_each(|work| work.fail(Outage::Stopping));
        }
    }
}
