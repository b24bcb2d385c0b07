//! The half of a shard that asks mail servers. It has the sites and the groups (docs/glossary.md) that the shard owns, and what
//! their sessions share. There is no I/O here: `dispatch.rs` decides when a session task begins, and `probe.rs` runs the task,
//! which opens one session after another.
//!
//! The mutable state is in three places, each with its `RefCell`: in [`AskingState`], in the [`Knowledge`] of hosts, and in each
//! site (`site.rs`). Borrow a `RefCell` for one statement only, or in a method that calls nothing that borrows the same one again.

#[cfg(feature = "sim")]
use crate::census::Census;
use crate::common::Common;
use crate::egress::rest;
use crate::faults::{Fault, planted};
use crate::invariants::{Invariant, holds};
use crate::knowledge::Knowledge;
use crate::networks::Networks;
use crate::refusals::{RefusalBook, SiteRefusals};
use crate::seed::{self, HashMap, NumberMap};
use crate::session::SessionConfig;
use crate::shared::Shared;
use crate::site::{Group, QueuedGroup, Site};
use crate::tls;
use crate::turns::Waiting;
use crate::work::{Plan, Work};
use crate::{Outage, Withdrawn};
use engine_proto::address::Domain;
use engine_proto::egress::Rests;
use engine_proto::limits::{GROUPS_BYTES_MAX, ROUTE_DOWN, SHARD_CACHE_BYTES_MIN, WITHDRAWN_MAX};
use engine_proto::pace::{Ceiling, Profile, RowSessions, SitePace};
use engine_proto::verdict::Reason;
use engine_proto::verdict::catch_all::ControlShape;
use std::cell::{RefCell, RefMut};
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::rc::Rc;
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant, SystemTime};

/// How long the control recipient of a domain stays the same, in seconds.
const DAY_S: u64 = 24 * 3600;

pub(crate) struct Asking {
    pub(crate) common: Rc<Common>,
    /// For each source, what its sessions share.
    pub(crate) sessions: Vec<Rc<SessionConfig>>,
    pub(crate) smtp_port: u16,
    /// The time limit for opening a session, and for a transaction without works, such as the questions of a checkpoint.
    pub(crate) session_limit: Duration,
    pub(crate) sessions_max: usize,
    pub(crate) knowledge: RefCell<Knowledge>,
    state: RefCell<AskingState>,
}

/// The mutable state of a shard's sites and groups, except the state of each single site.
pub(crate) struct AskingState {
    /// The rests of sources at sites of this shard. A source rests after a block: for a time, it asks nothing at that site.
    pub(crate) rests: Rests,
    refusals: RefusalBook,
    sites: HashMap<Box<str>, Rc<Site>>,
    /// The groups, by [`Plan::group`].
    groups: NumberMap<Rc<Group>>,
    /// Whether the groups take too much memory. Then an idle group is forgotten at once if nothing was learned about its site and
    /// its hosts.
    pub(crate) has_too_many_groups: bool,
    /// The groups with waiting works or session tasks, by the numbers of the groups. Groups are numbered in the order of their
    /// creation. A group that becomes idle stays here until the next sweep.
    pub(crate) active: BTreeMap<u64, Rc<Group>>,
    number: u64,
    /// The number of session tasks. Each has at most one open session.
    pub(crate) open: usize,
    /// The number of answers about recipients so far.
    pub(crate) answers: u64,
    /// The groups that wait for a session only because the shard has as many sessions as it may have.
    pub(crate) starved: Waiting<QueuedGroup>,
    pub(crate) networks: Networks,
    /// How many sessions groups with rows only may have.
    pub(crate) rows: RowSessions,
}

impl AskingState {
    fn new(sessions_max: usize) -> AskingState {
        AskingState {
            rests: Rests::default(),
            refusals: RefusalBook::default(),
            sites: HashMap::default(),
            groups: NumberMap::default(),
            has_too_many_groups: false,
            active: BTreeMap::new(),
            number: 0,
            open: 0,
            answers: 0,
            starved: Waiting::default(),
            networks: Networks::default(),
            rows: RowSessions::new(sessions_max),
        }
    }

    /// Whether another session may begin, for a group with or without single checks.
    pub(crate) fn has_session_room(&self, is_single: bool) -> bool {
        // `most` is never above the total.
        let most = if is_single { self.rows.total() } else { self.rows.most() };
        self.open < most
    }

    /// The budget of refused recipients for the site and the source of this group. `None` if it is unlimited.
    pub(crate) fn budget(&mut self, group: &Group) -> Option<&mut SiteRefusals> {
        group.budget.as_ref().map(|key| self.refusals.budget(key))
    }

    /// Whether the shard has as many session tasks as the counts of its sites add up to.
    pub(crate) fn is_sum_of_sites(&self) -> bool {
        self.open == self.sites.values().map(|site| site.state().open as usize).sum::<usize>()
    }

    /// The number of works that wait in the queues of groups.
    pub(crate) fn queued(&self) -> usize {
        self.active.values().map(|group| group.waiting()).sum()
    }
}

impl Asking {
    /// Makes the asking half of the shard with this number.
    pub(crate) fn new(common: Rc<Common>, index: usize) -> Asking {
        let shared = &common.shared;
        let config = &shared.config;
        let count = shared.shards.len();
        // The shards divide the total exactly: the remainder goes to the first shards, one session each.
        let sessions_max = config.sessions / count + usize::from(index < config.sessions % count);
        let timeouts = shared.pool.sources[0].dialog.timeouts;
        let own_tls = tls::with_own_store(&shared.tls);
        let sessions =
            shared.pool.sources.iter().map(|source| {
                Rc::new(SessionConfig { source: Arc::clone(source), tls: Arc::clone(&own_tls) })
            });
        Asking {
            sessions: sessions.collect(),
            smtp_port: config.smtp_port,
            session_limit: timeouts.banner + timeouts.ehlo * 3 + timeouts.tls + timeouts.mail + timeouts.rcpt,
            sessions_max,
            knowledge: RefCell::default(),
            state: RefCell::new(AskingState::new(sessions_max)),
            common,
        }
    }

    pub(crate) fn shared(&self) -> &Shared {
        &self.common.shared
    }

    /// Borrows the state. Keep the borrow only as long as the head of this file allows.
    pub(crate) fn state(&self) -> RefMut<'_, AskingState> {
        self.state.borrow_mut()
    }

    #[cfg(feature = "sim")]
    pub(crate) fn census(&self) -> Census {
        let state = self.state();
        Census {
            sessions: state.open,
            groups: state.groups.len(),
            sites: state.sites.len(),
            waiting: state.groups.values().map(|group| group.waiting()).sum::<usize>()
                + self.common.waiting(),
        }
    }

    /// A control recipient of the domain: a recipient that does not exist. Its name is the same until the end of the day (UTC),
    /// because servers remember recipients for greylisting and address verification. Each installation uses different names.
    /// `second`: a name of another shape.
    pub(crate) fn control_recipient(&self, domain: &Domain, second: bool, now: Instant) -> String {
        let secret = &self.shared().config.installation;
        let lasts_s = if planted(Fault::ManyControls) { 60 } else { DAY_S };
        let day = (self.shared().since_epoch(now).as_secs() / lasts_s).to_string();
        let which = if second { "second" } else { "first" };
        let hash = seed::keyed_hash(secret, &["control", domain.as_str(), &day, which]);
        let shape = ControlShape::draw(seed::keyed_hash(secret, &["control shape"]));
        let shape = if second { shape.second() } else { shape };
        format!("{}@{}", shape.local_part(hash), domain.as_str())
    }

    /// The evidence key of verdicts that depend on the behaviour of a host towards a domain.
    pub(crate) fn evidence_key(&self, domain: &Domain, host: &str) -> u64 {
        seed::keyed_number(&self.shared().config.installation, &["evidence", domain.as_str(), host])
    }

    /// Leaves a note for the caller of the engine: verdicts with this evidence must not be used again. If the caller has left too
    /// many notes unread, this one is dropped: such verdicts live for a limited time anyway.
    pub(crate) fn withdraw(&self, evidence: u64, now: Instant) {
        let at = SystemTime::UNIX_EPOCH + self.shared().since_epoch(now);
        let mut withdrawn = self.shared().withdrawn.lock().unwrap_or_else(PoisonError::into_inner);
        if withdrawn.len() < WITHDRAWN_MAX {
            withdrawn.push(Withdrawn { evidence, at });
        }
    }

    /// How many recipients of the group the budget of refused recipients lets a session ask about now.
    pub(crate) fn refusal_room(&self, group: &Group, now: Instant) -> usize {
        let room = |budget: &mut SiteRefusals| budget.room(self.shared().refusal_step(now));
        self.state().budget(group).map_or(usize::MAX, room)
    }

    /// Like [`Asking::refusal_room`], but for recipients that are asked about only to prove answers. A part of the budget is kept
    /// for them.
    pub(crate) fn refusal_room_for_proof(&self, group: &Group, now: Instant) -> usize {
        let room = |budget: &mut SiteRefusals| budget.room_for_proof(self.shared().refusal_step(now));
        self.state().budget(group).map_or(usize::MAX, room)
    }

    /// If the budget of refused recipients is used up and no outstanding reply can make room, answers all waiting works of the
    /// groups of the site that use the same source as this group, and returns true.
    pub(crate) fn answer_if_over_budget(&self, group: &Group, now: Instant) -> bool {
        let used_up = |budget: &mut SiteRefusals| {
            let is_used_up = budget.is_used_up(self.shared().refusal_step(now));
            is_used_up.then(|| budget.wait(self.shared().since_epoch(now)))
        };
        let Some(after) = self.state().budget(group).and_then(used_up) else { return false };
        let groups = self.groups_of(&group.site_name, group.source);
        let refusals = |group: &Rc<Group>| {
            (0..group.routes.len()).find_map(|index| group.route_state(index).refusal_of_us())
        };
        let refused_us = groups.iter().find_map(refusals);
        for work in groups.iter().flat_map(|group| group.take_all_waiting()) {
            work.fail(Outage::OverBudget { after, refused_us });
        }
        true
    }

    /// Answers a row of a list or batch without a question if its first usable route is not resting, and the host of this route is
    /// known to accept every recipient of the domain ([`Knowledge::needs_no_question`]). Returns any other work, and any work with
    /// an address that needs SMTPUTF8.
    pub(crate) fn answer_if_known_catch_all(&self, group: &Group, work: Work, now: Instant) -> Option<Work> {
        if !group.state().catch_alls || work.address.needs_smtputf8() {
            return Some(work);
        }
        match group.first_open(&work, now) {
            Some(route) => self.answer_if_known_catch_all_at(&route.host, work, now),
            None => Some(work),
        }
    }

    /// Answers a row of a list or batch without a question if this host is known to accept every recipient of the domain. Otherwise
    /// returns the work.
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

    /// The group for a plan (the hosts of a domain). Creates the group, with its site and its budget, if there is none yet. `None`
    /// if no source reaches any host of the plan.
    pub(crate) fn group(&self, plan: &Plan, now: Instant) -> Option<Rc<Group>> {
        let state = &mut *self.state();
        if let Some(group) = state.groups.get(&plan.group) {
            return Some(Rc::clone(group));
        }
        let shared = self.shared();
        let index = shared.pool.choose(&plan.site, plan.routes.iter().map(|route| route.address))?;
        let source = &shared.pool.sources[index];
        let plan = &plan.with_routes(|address| source.serves(address));
        let site = state.sites.entry(plan.site.clone()).or_insert_with(|| {
            let profile: Profile = shared.config.pace.into();
            let pace = SitePace::new(Ceiling::of(profile, &plan.site), now);
            Rc::new(Site::new(pace))
        });
        let (budget, step) = (site.state().pace.ceiling().refusals, shared.refusal_step(now));
        let names = (&*plan.site, &*source.label);
        let budget = state.refusals.of(&shared.config, &shared.table, names, budget, step);
        let group = Rc::new(Group::new(plan, Rc::clone(site), index, budget, state.number, now));
        state.number += 1;
        state.groups.insert(plan.group, Rc::clone(&group));
        Some(group)
    }

    /// The groups of a site that use this source.
    pub(crate) fn groups_of(&self, site: &str, source: usize) -> Vec<Rc<Group>> {
        let its = |group: &&Rc<Group>| *group.site_name == *site && group.source == source;
        self.state().groups.values().filter(its).cloned().collect()
    }

    /// Whether another group waits for a session, so that `group` should give up its session with this host.
    pub(crate) fn is_crowded(&self, group: &Rc<Group>, host: IpAddr) -> bool {
        let another = |other: Rc<Group>| !Rc::ptr_eq(&other, group) && other.waiting() > 0;
        self.state().starved.iter().filter_map(QueuedGroup::group).any(another)
            || self.state().networks.waiting(host).any(another)
            || group.is_another_queued()
    }

    /// An empty trace for a session, if any request has asked for a trace.
    pub(crate) fn trace(&self) -> Option<Vec<String>> {
        self.common.wants_traces().then(Vec::new)
    }

    /// Adds the trace of a failed session to the works that wait in its group.
    pub(crate) fn add_trace(&self, group: &Group, trace: Option<Vec<String>>) {
        if let Some(trace) = trace {
            group.add_trace(&trace);
        }
    }

    /// Answers the works with a deadline that has passed, and rows of batches at sites that give no answer.
    pub(crate) fn answer_expired(&self, now: Instant) {
        let state = &mut *self.state();
        state.active.retain(|_, group| group.is_active());
        let is_swept = |group: &Rc<Group>| !group.is_active() || state.active.contains_key(&group.number);
        holds(Invariant::GroupActive, || state.groups.values().all(is_swept));
        for group in state.active.values() {
            let unanswered = group.take_unanswered(now);
            let works = unanswered.into_iter().chain(group.take_expired(now));
            works.for_each(|work| self.shared().give_up(work, now));
        }
    }

    /// Answers the works that clients have recalled, and the waiting works of clients that drain.
    pub(crate) fn answer_recalled(&self, now: Instant) {
        let groups: Vec<_> = self.state().active.values().cloned().collect();
        for group in groups {
            // If a session of the group waits for replies about recipients, the works that were not sent wait for those about other
            // addresses. If none does, they wait for the server itself: it accepts no connection, or a session is being opened.
            // Without a session they wait for their turn.
            let [open, busy] = {
                let state = group.state();
                [state.open, state.busy]
            };
            let why = match (busy, open) {
                (0, _) if group.accepts_no_connection() => "no_connection",
                (0, 1..) => "no_answer_in_time",
                _ => "site_silent",
            };
            let mut works = group.take_where(Work::is_recalled);
            works.extend(group.take_waiting(Work::is_taken_back));
            for mut work in works {
                if !work.was_sent && work.fallback.rule == "no_answer_in_time" {
                    work.set_fallback(why, Some(ROUTE_DOWN));
                }
                self.shared().give_up(work, now);
            }
        }
    }

    /// Gives up the present try of the works for which no route is left. Some of them are tried again later; the others are
    /// answered.
    pub(crate) fn answer_unroutable(&self, group: &Group, now: Instant) {
        group.take_unroutable(now).into_iter().for_each(|work| self.common.give_up(work, now));
    }

    /// Drops what is no longer needed: idle groups ([`Group::is_forgotten`]), sites without groups, and budgets with neither groups
    /// nor counts.
    pub(crate) fn forget(&self, now: Instant) {
        rest::count_ended(self, now);
        let state = &mut *self.state();
        let room = (GROUPS_BYTES_MAX / self.shared().shards.len()).max(SHARD_CACHE_BYTES_MIN);
        let too_many = state.groups.values().map(|group| group.bytes()).sum::<usize>() > room;
        state.has_too_many_groups = too_many;
        state.groups.retain(|_, group| {
            let goes = group.is_forgotten(now, too_many) && !planted(Fault::LeakGroup);
            holds(Invariant::GroupIdle, || !goes || !group.is_active());
            !goes
        });
        state.refusals.forget(self.shared().refusal_step(now));
        state.networks.forget(now);
        // A site is kept as long as a group of the site is kept.
        let own = 1 + usize::from(planted(Fault::Break(Invariant::SiteKept)));
        state.sites.retain(|_, site| Rc::strong_count(site) > own);
        let sites = &state.sites;
        let is_kept =
            |group: &Rc<Group>| sites.get(&group.site_name).is_some_and(|site| Rc::ptr_eq(site, &group.site));
        holds(Invariant::SiteKept, || state.groups.values().all(is_kept));
    }

    /// Answers all works that wait in queues, because the engine stops. A work that a session has is answered when the session is
    /// dropped.
    pub(crate) fn abandon(&self) {
        for group in self.state().active.values() {
            group.take_all_waiting().into_iter().for_each(|work| work.fail(Outage::Stopping));
        }
    }
}
