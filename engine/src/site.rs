//! Sites, and the groups of their domains: the queues of works (addresses in the engine), and the choice of the next route. No I/O.
//!
//! All hosts of a site share one pace. Domains of a site with the same set of MX hosts form a group: they share a queue, routes and
//! sessions. The words of this file are explained in docs/glossary.md.
//!
//! [`Site`], [`Group`] and [`Route`] hold what never changes: names, addresses, and what is known in advance about an operator.
//! Everything that changes, except the quota, is in [`SiteState`], in one `RefCell` behind [`Site::state`]. It contains a
//! [`GroupState`] for each group, and each [`GroupState`] contains a [`RouteState`] for each route. The works of sessions
//! ([`SessionWorks`]) are there too, so that the periodic sweep of the shard can answer them at their deadlines. A borrow of the
//! state is held for one statement, or for one method that does not borrow it again, and never across an `.await`.
//!
//! The methods of a group are of four kinds:
//!
//! - for `dispatch.rs`, when a work arrives or a session may begin: [`Group::enqueue`], [`Group::pass_over_shut`],
//!   [`Group::wants_session`], [`Group::next`], [`Group::queue_at_site`], [`QueuedGroup::leave`]
//! - for a session, at its steps: [`Group::on_task_begun`], [`Group::take`], [`Group::busy`], [`Group::works`],
//!   [`Group::put_back`], [`Group::add_idle`], [`Group::on_task_ended`]
//! - for the code that interprets replies (`probe/`): [`Group::on_proven`], [`Group::on_changed`], [`Group::release_singles`], and
//!   the methods of [`RouteState`], which record how a host behaves
//! - for the sweep of the shard (`asking.rs`), and after failures: `take_...`, which take out works so that the caller can answer
//!   them, and [`Group::is_forgotten`]

mod alike;
mod held;
mod operators;
mod queued;
mod route;
mod taken;

use crate::Priority;
use crate::faults::{Fault, planted, sometimes};
use crate::in_flight::InFlight;
use crate::invariants::{Invariant, holds};
use crate::queue::Queue;
use crate::quota::SiteQuota;
use crate::refusals::BudgetKey;
use crate::turns::Waiting;
use crate::work::{Plan, PlannedRoute, Work};
use engine_proto::limits::{
    BULK_PATIENCE, GROUP_IDLE, GROUP_IDLE_FRESH, MX_ADDRESSES_MAX, PROVEN_ANSWERS_A_SESSION, REST_SHORT,
    RETURNS_MAX, ROUTES_MAX, SINGLE_PATIENCE, SITE_LAST_TRY, SITE_SESSIONS_MIN, SITE_WORKS_A_SESSION,
    SITES_TO_FILL, SLOW_GROUP_AFTER, SLOW_GROUP_SHARES_MAX, STUCK_AFTER, STUCK_SESSIONS_MAX,
    UNPROVEN_SESSION_AFTER,
};
use engine_proto::pace::{SitePace, Start};
pub(crate) use held::{SessionNotes, SessionWorks, UnclearControl};
pub(crate) use queued::QueuedGroup;
pub(crate) use route::{DomainKeys, Route, RouteState};
use slab::Slab;
use std::cell::{RefCell, RefMut};
use std::rc::Rc;
use std::task::Waker;
use std::time::Instant;

/// A site: hosts of one operator, with one pace.
pub(crate) struct Site {
    /// Counts the patient works at the site, those of batches and lists.
    quota: SiteQuota,
    state: RefCell<SiteState>,
}

pub(crate) struct SiteState {
    pub(crate) pace: SitePace,
    /// The number of session tasks of all groups.
    pub(crate) open: u32,
    /// Groups that have to wait for a session, but not those that wait only because of the shard's limit of sessions.
    pub(crate) waiting: Waiting<QueuedGroup>,
    /// If a task sleeps until a session may begin, the time at which it wakes up; otherwise `None`.
    pub(crate) timer: Option<Instant>,
    /// The rule of the reply or event with which the site last pushed back.
    pub(crate) pushed: &'static str,
    groups: Slab<GroupState>,
}

/// The domains of a site with the same set of MX hosts.
pub(crate) struct Group {
    pub(crate) site: Rc<Site>,
    pub(crate) site_name: Box<str>,
    /// The number of the group on its shard. Groups are numbered in the order in which they are created.
    pub(crate) number: u64,
    /// The index of the source from which the hosts are asked.
    pub(crate) source: usize,
    pub(crate) routes: Vec<Route>,
    /// The key of the budget of recipients that the site may refuse to our source; `None` if there is no such budget.
    pub(crate) budget: Option<BudgetKey>,
    /// Whether the operator is trusted: see `operators.rs`.
    trusted: bool,
    /// Whether all recipients of a transaction must have the same domain.
    one_domain: bool,
    /// The key of the group's state in [`SiteState`].
    slot: usize,
}

/// Counts a session as one that waits for replies, until this guard is dropped.
pub(crate) struct Busy<'g>(&'g Group);

impl Drop for Busy<'_> {
    fn drop(&mut self) {
        self.0.state().busy -= u32::from(!planted(Fault::Break(Invariant::BusyOpen)));
    }
}

pub(crate) struct GroupState {
    /// Whether any domain of the group was ever found to accept every recipient.
    pub(crate) catch_alls: bool,
    /// How many outages of the source's network had ended when the group last got a work.
    pub(crate) outages: u32,
    /// The state of each route, in the order of [`Group::routes`].
    routes: Vec<RouteState>,
    queue: Queue,
    /// The works of each session task. The key is the number of the task.
    sessions: Slab<Box<SessionWorks>>,
    /// The number that was last given to a session or a transaction. These numbers show in which order they began.
    number: u64,
    pub(crate) open: u32,
    /// The time since which there has always been at least one session task. Valid only while one runs.
    open_since: Instant,
    /// The number of session tasks that wait for replies.
    pub(crate) busy: u32,
    /// The number of answers that sessions have proven since a host of the group last changed the way in which it accepts or
    /// refuses recipients.
    proven: u32,
    /// The wakers of the sessions that wait for work.
    idle: Vec<Waker>,
    /// The wait of the group for a session, if it waits in a queue for sessions.
    wait: Option<queued::Wait>,
    used: Instant,
}

impl GroupState {
    fn next_number(&mut self) -> u64 {
        self.number += 1;
        self.number
    }

    /// Calls `take` for each session. It returns some works of the session, and a number by which the works of all sessions are put
    /// in order.
    fn take_in_order(
        &mut self,
        take: impl Fn(&mut SessionWorks) -> (u64, Vec<Work>),
    ) -> impl Iterator<Item = Work> {
        let taken = self.sessions.iter_mut().map(|(_, works)| take(works));
        let mut taken: Vec<_> = taken.filter(|(_, works)| !works.is_empty()).collect();
        taken.sort_unstable_by_key(|(number, _)| *number);
        taken.into_iter().flat_map(|(_, works)| works)
    }

    fn wake_one(&mut self) {
        if let Some(waker) = self.idle.pop() {
            waker.wake();
        }
    }

    /// Whether a single check arrived at least [`STUCK_AFTER`] ago and still waits, while all sessions wait for replies about other
    /// recipients. Without another session, it may have to wait a long time, because a server may take a minute for one reply. The
    /// result is false if any session does not wait for replies. This includes a session that is being opened, so a host without a
    /// greeting does not get more and more sessions. It is also false if there is no session, or if there are
    /// [`STUCK_SESSIONS_MAX`] or more.
    fn is_stuck(&self, now: Instant) -> bool {
        if self.open == 0 || self.open != self.busy || self.open >= STUCK_SESSIONS_MAX {
            return false;
        }
        let long = |since: Instant| now.saturating_duration_since(since) >= STUCK_AFTER;
        let begun = |deadline: Instant| deadline.checked_sub(SINGLE_PATIENCE).unwrap_or(now);
        self.queue.first_single().is_some_and(|deadline| long(begun(deadline)))
    }
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// A waiting work can be asked about over this route.
    Route(usize),
    /// Every route that could be used is resting. The earliest can be used again at this time.
    Rest(Instant),
    /// No route can be used for the works that wait, or no work waits.
    Nothing,
}

impl Site {
    pub(crate) fn new(pace: SitePace) -> Site {
        let state = SiteState {
            pace,
            open: 0,
            waiting: Waiting::default(),
            timer: None,
            pushed: "no_answer_in_time",
            groups: Slab::new(),
        };
        Site { quota: SiteQuota::default(), state: RefCell::new(state) }
    }

    /// Borrows the state. Keep the borrow only as long as the head of this file allows.
    pub(crate) fn state(&self) -> RefMut<'_, SiteState> {
        self.state.borrow_mut()
    }

    /// Admits a patient work, or returns it as `Err` if the site is full. `tickets_max`: how many works the whole engine may have.
    /// A single check, or a work that has been admitted before, is returned as it is. If the site is silent (it has given no answer
    /// about a recipient since some question or push-back), the deadline is at most [`BULK_PATIENCE`] after the first question or
    /// push-back that followed its last answer, or [`SITE_LAST_TRY`] from now if that is later.
    pub(crate) fn admit(&self, mut work: Work, tickets_max: usize, now: Instant) -> Result<Work, Work> {
        let any = planted(Fault::Break(Invariant::AdmittedHere));
        let is_here = work.admission.as_ref().is_some_and(|admission| any || self.quota.has(admission));
        if work.priority == Priority::Single || is_here {
            return Ok(work);
        }
        let pace = &self.state().pace;
        if let Some(since) = pace.silent_since() {
            work.deadline = work.deadline.min((since + BULK_PATIENCE).max(now + SITE_LAST_TRY));
        }
        let sessions = (pace.sessions() as usize).max(SITE_SESSIONS_MIN);
        let wanted = sessions.saturating_mul(SITE_WORKS_A_SESSION);
        let Some(admission) =
            self.quota.enter(wanted.min(tickets_max / SITES_TO_FILL).max(SITE_WORKS_A_SESSION), now)
        else {
            return Err(work);
        };
        work.admission = Some(admission).filter(|_| !sometimes(Fault::Break(Invariant::Admitted)));
        Ok(work)
    }

    /// Whether a session task may open another session after its last one. If so, counts the new session towards the rate of new
    /// sessions.
    pub(crate) fn start_another(&self, now: Instant) -> bool {
        let site = &mut *self.state();
        let may = site.pace.may_start(now, site.open.saturating_sub(1)) == Start::Now;
        if may {
            site.pace.on_started();
        }
        may
    }
}

/// Chooses up to [`ROUTES_MAX`] routes. Of each host, the first addresses are chosen, up to a number that is the same for all hosts
/// and as high as possible.
fn chosen(routes: &[PlannedRoute]) -> Vec<&PlannedRoute> {
    let hosts = || routes.chunk_by(|a, b| a.host == b.host);
    let fits = |&most: &usize| hosts().map(|host| host.len().min(most)).sum::<usize>() <= ROUTES_MAX;
    let most = (1..=MX_ADDRESSES_MAX * 2).rev().find(fits).unwrap_or(1);
    hosts().flat_map(|host| host.iter().take(most)).take(ROUTES_MAX).collect()
}

impl Group {
    pub(crate) fn new(
        plan: &Plan,
        site: Rc<Site>,
        source: usize,
        budget: Option<BudgetKey>,
        number: u64,
        now: Instant,
    ) -> Group {
        let mut last: Rc<str> = "".into();
        let routes = chosen(&plan.routes).into_iter().map(|planned| {
            if *planned.host != *last {
                last = planned.host.as_ref().into();
            }
            Route::new(Rc::clone(&last), planned.preference, planned.address)
        });
        let routes: Vec<Route> = routes.collect();
        let one_domain = operators::wants_one_domain(&plan.site);
        let slot = site.state().groups.insert(GroupState {
            catch_alls: false,
            outages: 0,
            routes: routes.iter().map(|_| RouteState::default()).collect(),
            queue: Queue::new(one_domain),
            sessions: Slab::new(),
            number: 0,
            open: 0,
            open_since: now,
            busy: 0,
            proven: 0,
            idle: Vec::new(),
            wait: None,
            used: now,
        });
        Group {
            site,
            site_name: plan.site.clone(),
            number,
            source,
            routes,
            budget,
            trusted: operators::is_trusted(&plan.site),
            one_domain,
            slot,
        }
    }

    /// Borrows the state. Keep the borrow only as long as the head of this file allows.
    pub(crate) fn state(&self) -> RefMut<'_, GroupState> {
        RefMut::map(self.site.state(), |site| &mut site.groups[self.slot])
    }

    /// Borrows the state of the route with this index. Keep the borrow only as long as the head of this file allows.
    pub(crate) fn route_state(&self, index: usize) -> RefMut<'_, RouteState> {
        RefMut::map(self.site.state(), |site| &mut site.groups[self.slot].routes[index])
    }

    pub(crate) fn is_one_domain(&self) -> bool {
        self.one_domain
    }

    pub(crate) fn is_trusted(&self) -> bool {
        self.trusted
    }

    /// Queues a work after the waiting works of the same owner, and wakes an idle session.
    pub(crate) fn enqueue(&self, work: Work) {
        self.holds_for(&work);
        let mut state = self.state();
        state.queue.push_back(work);
        state.wake_one();
    }

    /// Puts a work back in front of the works of its class that have tried the same routes, and wakes an idle session.
    pub(crate) fn put_back(&self, work: Work) {
        self.holds_for(&work);
        let mut state = self.state();
        state.queue.push_front(work);
        state.wake_one();
    }

    fn holds_for(&self, work: &Work) {
        let admission = work.admission.as_ref();
        holds(Invariant::AdmittedHere, || admission.is_none_or(|place| self.site.quota.has(place)));
        holds(Invariant::Returns, || work.returns <= RETURNS_MAX);
    }

    /// Takes all routes out of use until `until`, for the reason that this rule names.
    pub(crate) fn set_down(&self, until: Instant, rule: &'static str) {
        self.state().routes.iter_mut().for_each(|route| route.set_down(until, rule));
    }

    /// Brings back into use the routes that this rule has put out of use.
    pub(crate) fn lift(&self, rule: &'static str) {
        self.state().routes.iter_mut().for_each(|route| route.lift(rule));
    }

    /// The routes that lead to the same host as route `index`, over IP addresses of the same family. One bit for each route.
    pub(crate) fn same_host_and_family(&self, index: usize) -> u64 {
        let asked = &self.routes[index];
        self.routes_where(|_, route| {
            route.host == asked.host && route.address.is_ipv4() == asked.address.is_ipv4()
        })
    }

    /// Whether route `index` leads to an IPv6 address, and the same host has an IPv4 address with a route that is not out of use.
    pub(crate) fn has_ipv4_beside(&self, index: usize, now: Instant) -> bool {
        let (asked, state) = (&self.routes[index], self.state());
        let beside = |(route, known): (&Route, &RouteState)| {
            route.host == asked.host && route.address.is_ipv4() && known.down_rule(now).is_none()
        };
        asked.address.is_ipv6() && self.routes.iter().zip(&state.routes).any(beside)
    }

    /// Marks as tried, for this work, the routes at which the host refuses all recipients of the work's domain. The rule of these
    /// refusals becomes the fallback of the work.
    pub(crate) fn pass_over_shut(&self, work: &mut Work, now: Instant) {
        for (index, known) in self.state().routes.iter().enumerate() {
            if let Some(refusal) = known.shut_by(work.address.domain(), now) {
                work.tried |= 1 << index;
                work.deferred_by |= u64::from(refusal.reply.code < 500) << index;
                work.set_fallback_at(&self.routes[index].host, Some(refusal.reply), refusal.rule);
            }
        }
    }

    /// The routes that lead to the same host as route `index`, one bit each.
    pub(crate) fn same_host(&self, index: usize) -> u64 {
        self.routes_of(&self.routes[index].host)
    }

    /// The routes to `host`, one bit each.
    pub(crate) fn routes_of(&self, host: &str) -> u64 {
        self.routes_where(|_, route| *route.host == *host)
    }

    /// The routes for which the condition holds, one bit each.
    fn routes_where(&self, fits: impl Fn(usize, &Route) -> bool) -> u64 {
        let at = self.routes.iter().enumerate().filter(|&(at, route)| fits(at, route));
        at.fold(0, |routes, (at, _)| routes | 1 << at)
    }

    /// Takes up to `most` works for a transaction on `route`. The queue decides which works have their turn.
    pub(crate) fn take(&self, route: usize, most: usize, now: Instant) -> Vec<Work> {
        let state = &mut *self.state();
        let awaited = self.awaited(state, route, now);
        let room = most + usize::from(planted(Fault::Break(Invariant::TakenMost)));
        let taken = state.queue.take(route, awaited, room);
        holds(Invariant::TakenMost, || taken.len() <= most);
        holds(Invariant::TakenUntried, || taken.iter().all(|work| work.tried & (1 << route) == 0));
        holds(Invariant::TakenAlone, || taken.len() <= 1 || taken.iter().all(|work| !work.suspect));
        taken
    }

    pub(crate) fn is_down(&self, now: Instant) -> bool {
        self.state().routes.iter().all(|route| route.down_rule(now).is_some())
    }

    /// The routes, one bit each, for which patient works wait instead of using `route`. Such a route leads to a host with a lower
    /// MX preference (tried earlier), is not out of use, and rests for at most [`REST_SHORT`] from now.
    fn awaited(&self, state: &GroupState, route: usize, now: Instant) -> u64 {
        let preference = self.routes[route].preference;
        self.routes_where(|at, other| {
            let known = &state.routes[at];
            let soon = || known.resting_until(now).is_some_and(|until| until <= now + REST_SHORT);
            other.preference < preference && soon() && known.down_rule(now).is_none()
        })
    }

    /// Whether the host of route `index` stands in for another one about this work: a host with a lower MX preference (tried earlier)
    /// rests, is out of use although it can be reached, has put off the address, or was not asked about it. That one may know the
    /// mailboxes, so it says nothing of them if this host accepts everyone.
    pub(crate) fn stands_in(&self, index: usize, work: &Work, now: Instant) -> bool {
        let (state, preference) = (self.state(), self.routes[index].preference);
        let earlier = self.routes.iter().zip(&state.routes).enumerate();
        earlier.filter(|(_, (route, _))| route.preference < preference).any(|(at, (_, known))| {
            let is_asked = work.tried & !work.deferred_by & (1 << at) != 0;
            match known.down_rule(now) {
                Some(rule) => rule != "no_connection",
                None => known.resting_until(now).is_some() || !is_asked,
            }
        })
    }

    /// The session task with this number has opened a session. The session has no works yet.
    pub(crate) fn on_session_begun(&self, session: usize) {
        let state = &mut *self.state();
        let begun_at = state.next_number();
        *state.sessions[session] = SessionWorks { begun_at, ..SessionWorks::default() };
    }

    /// The session task with this number begins a transaction that asks about these works.
    pub(crate) fn on_asked(&self, session: usize, works: Vec<Work>) {
        let state = &mut *self.state();
        let asked_at = state.next_number();
        let session = &mut state.sessions[session];
        (session.asked_at, session.in_flight) = (asked_at, InFlight::new(works));
    }

    /// Borrows the works of this session task. Keep the borrow only as long as the head of this file allows.
    pub(crate) fn works(&self, session: usize) -> RefMut<'_, SessionWorks> {
        RefMut::map(self.state(), |group| &mut *group.sessions[session])
    }

    /// Whether single checks should not wait here: for at least [`REST_SHORT`] the site has done nothing but push back, its pause
    /// goes on for longer than [`REST_SHORT`], and the group has at most one session.
    pub(crate) fn is_hopeless(&self, now: Instant) -> bool {
        let site = self.site.state();
        let shut = site.pace.pause(now).is_some_and(|until| until > now + REST_SHORT);
        let long = site.pace.silent_since().is_some_and(|since| now >= since + REST_SHORT);
        shut && long && site.groups[self.slot].open <= 1
    }

    pub(crate) fn take_singles(&self) -> Vec<Work> {
        self.state().queue.take_singles(0)
    }

    /// Takes the works for which no route is left. If an untried route of a work is out of use, the rule that names the reason
    /// becomes the fallback of the work. Of several such routes, the last one counts.
    pub(crate) fn take_unroutable(&self, now: Instant) -> Vec<Work> {
        let state = &mut *self.state();
        let up = self.routes_where(|at, _| state.routes[at].down_rule(now).is_none());
        let mut taken = state.queue.take_unroutable(|tried| up & !tried != 0);
        for work in &mut taken {
            let untried = state.routes.iter().zip(&self.routes).enumerate();
            let untried = untried.filter(|(index, _)| work.tried & (1 << index) == 0);
            let mut down =
                untried.filter_map(|(_, (known, route))| Some((known, route, known.down_rule(now)?)));
            if let Some((known, route, rule)) = down.next_back() {
                work.set_fallback_at(&route.host, known.down_reply(now), rule);
            }
        }
        taken
    }

    /// The next step for the works that wait. Routes are tried in the order of their MX preferences.
    pub(crate) fn next(&self, now: Instant) -> Next {
        let state = &*self.state();
        let mut rest: Option<Instant> = None;
        for (index, route) in state.routes.iter().enumerate() {
            let awaited = self.awaited(state, index, now);
            let is_down = route.down_rule(now).is_some() && !planted(Fault::Break(Invariant::RouteUp));
            if is_down || !state.queue.has_for(index, awaited) {
                continue;
            }
            match route.resting_until(now).filter(|_| !planted(Fault::Break(Invariant::RouteRested))) {
                None => return Next::Route(index),
                Some(until) => rest = Some(rest.map_or(until, |rest| rest.min(until))),
            }
        }
        rest.map_or(Next::Nothing, Next::Rest)
    }

    /// The first route that is not out of use. `None` if this route rests, if its host stands in for another one about this work, or
    /// if all routes are out of use.
    pub(crate) fn first_open(&self, work: &Work, now: Instant) -> Option<&Route> {
        let state = self.state();
        let first = state.routes.iter().position(|route| route.down_rule(now).is_none())?;
        let is_open = state.routes[first].resting_until(now).is_none();
        drop(state);
        (is_open && !self.stands_in(first, work, now)).then(|| &self.routes[first])
    }

    /// Whether a single check waits.
    pub(crate) fn has_singles(&self) -> bool {
        self.state().queue.singles() > 0
    }

    pub(crate) fn waiting(&self) -> usize {
        self.state().queue.len()
    }

    /// Called after a failure of a route. Single checks cannot wait until the route is tried again, so this marks the route as
    /// tried for them. Returns whether the route should be tried again for the other works. If only single checks wait, changes
    /// nothing and returns false; the caller then takes the route out of use.
    pub(crate) fn release_singles(&self, route: usize, rule: &'static str) -> bool {
        let queue = &mut self.state().queue;
        if queue.singles() == 0 {
            return true;
        }
        if queue.singles() == queue.len() {
            return false;
        }
        for mut work in queue.take_singles(1 << route) {
            work.tried |= 1 << route;
            work.set_fallback_at(&self.routes[route].host, None, rule);
            queue.push_back(work);
        }
        true
    }

    /// Whether the group should get another session. It should if a single check is stuck, or if, for each session that it has,
    /// more than `works_a_session` works wait (fewer at slow servers).
    pub(crate) fn wants_session(&self, works_a_session: usize, now: Instant) -> bool {
        let state = &*self.state();
        let (waiting, open, since) = (state.queue.len(), state.open, state.open_since);
        // The longer the group has had open sessions, the slower its servers seem. So fewer waiting works are enough for another
        // session, up to `STUCK_SESSIONS_MAX` sessions.
        let long = now.saturating_duration_since(since).as_secs() / SLOW_GROUP_AFTER.as_secs();
        let works = match open {
            0..STUCK_SESSIONS_MAX => works_a_session / (1 + long as usize).min(SLOW_GROUP_SHARES_MAX),
            _ => works_a_session,
        };
        let is_worth = (open as usize).saturating_mul(works) < waiting && open < self.allowed(state, now);
        waiting > 0 && (is_worth || state.is_stuck(now))
    }

    /// The most sessions that the group may have: one, one more for every [`PROVEN_ANSWERS_A_SESSION`] proven answers, and one more
    /// for every [`UNPROVEN_SESSION_AFTER`] for which sessions have been open. The number grows slowly, because the answers of all
    /// open sessions are worthless if the host changes its behaviour. There is no limit for a trusted operator, while a single
    /// check waits, or if no session is open.
    fn allowed(&self, state: &GroupState, now: Instant) -> u32 {
        if self.trusted || state.queue.singles() > 0 || state.open == 0 {
            return u32::MAX;
        }
        let long =
            now.saturating_duration_since(state.open_since).as_millis() / UNPROVEN_SESSION_AFTER.as_millis();
        let more = state.proven / PROVEN_ANSWERS_A_SESSION;
        more.saturating_add(long as u32).saturating_add(1)
    }

    pub(crate) fn on_proven(&self, answers: usize) {
        let proven = &mut self.state().proven;
        *proven = proven.saturating_add(answers as u32);
    }

    /// Whether sessions have proven answers since a host of the group last changed.
    pub(crate) fn has_proven(&self) -> bool {
        self.state().proven > 0
    }

    /// A host of the group has changed the way in which it accepts or refuses recipients, so earlier proofs no longer count.
    pub(crate) fn on_changed(&self) {
        self.state().proven = 0;
    }

    /// From now on a session waits for replies, until the guard is dropped.
    pub(crate) fn busy(&self) -> Busy<'_> {
        let state = &mut *self.state();
        state.busy += 1;
        holds(Invariant::BusyOpen, || state.busy <= state.open);
        Busy(self)
    }

    /// A session task begins. Returns its number.
    pub(crate) fn on_task_begun(&self, now: Instant) -> usize {
        let site = &mut *self.site.state();
        site.open += 1;
        holds(Invariant::SiteCeiling, || site.open <= site.pace.ceiling().sessions);
        let state = &mut site.groups[self.slot];
        if state.open == 0 {
            state.open_since = now;
        }
        state.open += 1;
        state.sessions.insert(Box::default())
    }

    /// The session task with this number has ended. Works that it still has are dropped, and so answered: see [`Work`].
    pub(crate) fn on_task_ended(&self, session: usize, now: Instant) {
        let works = self.state().sessions.remove(session);
        drop(works);
        let site = &mut *self.site.state();
        site.open -= u32::from(!sometimes(Fault::Break(Invariant::SiteOpen)));
        let state = &mut site.groups[self.slot];
        state.open -= 1;
        state.used = now;
        holds(Invariant::SiteOpen, || {
            site.open == site.groups.iter().map(|(_, group)| group.open).sum::<u32>()
        });
    }

    /// Adds lines to the traces of the works that wait.
    pub(crate) fn add_trace(&self, lines: &[String]) {
        for work in self.state().queue.iter_mut() {
            if let Some(trace) = &mut work.trace {
                trace.extend(lines.iter().cloned());
            }
        }
    }

    /// Registers a session that waits for work.
    pub(crate) fn add_idle(&self, waker: &Waker) {
        let idle = &mut self.state().idle;
        if !idle.iter().any(|other| other.will_wake(waker)) {
            idle.push(waker.clone());
        }
    }

    /// The session with this waker no longer waits for work.
    pub(crate) fn remove_idle(&self, waker: &Waker) {
        self.state().idle.retain(|other| !other.will_wake(waker));
    }

    /// Whether works wait, or a session task runs.
    pub(crate) fn is_active(&self) -> bool {
        let state = self.state();
        state.queue.len() > 0 || state.open > 0
    }

    /// Whether the group may be forgotten. It must have no waiting work and no session task. It is kept for [`GROUP_IDLE`] after
    /// its last session or its creation. If nothing was learned about its site, hosts and domains, this is only
    /// [`GROUP_IDLE_FRESH`], because a long list leaves thousands of such groups in a minute. While groups take too much memory
    /// (`crowded`), a group may be forgotten at once if nothing was learned about its site and hosts, even if one of its domains
    /// accepts everyone.
    pub(crate) fn is_forgotten(&self, now: Instant, crowded: bool) -> bool {
        let site = &mut *self.site.state();
        let state = &site.groups[self.slot];
        if (state.queue.len() > 0 || state.open > 0) && !planted(Fault::Break(Invariant::GroupIdle)) {
            return false;
        }
        let unused = now.saturating_duration_since(state.used);
        let is_missed = state.catch_alls && !crowded;
        let is_over = crowded || unused >= GROUP_IDLE_FRESH;
        let mut is_fresh = || state.routes.iter().all(|route| route.is_fresh(now)) && site.pace.is_fresh(now);
        unused >= GROUP_IDLE || (is_over && !is_missed && is_fresh())
    }

    /// The approximate memory of the group in bytes.
    pub(crate) fn bytes(&self) -> usize {
        let each = size_of::<Route>() + size_of::<RouteState>();
        let routes = self.routes.iter().map(|route| each + route.host.len() + 24);
        size_of::<Group>() + size_of::<GroupState>() + size_of::<Site>() + routes.sum::<usize>()
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        let state = self.site.state().groups.remove(self.slot);
        // The state is dropped only now, after the borrow has ended, because works that are dropped send answers.
        drop(state);
    }
}

#[cfg(test)]
mod tests;
