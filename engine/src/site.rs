//! Sites, and the groups of hosts below them: the works that wait, and the route that is tried next. No I/O.
//!
//! A site has one pace. Below it, domains with the same set of MX hosts form a group and share a queue, routes and sessions.

mod alike;
mod held;
mod route;

use crate::Priority;
use crate::in_flight::InFlight;
use crate::queue::Queue;
use crate::quota::SiteQuota;
use crate::refusals::SiteRefusals;
use crate::work::{Plan, PlannedRoute, Work};
use engine_proto::limits::{
    BULK_PATIENCE, GROUP_IDLE, GROUP_IDLE_FRESH, HOST_DOWN, MX_ADDRESSES_MAX, PROVEN_ANSWERS_A_SESSION,
    REST_SHORT, ROUTES_MAX, SINGLE_PATIENCE, SITE_LAST_TRY, SITE_SESSIONS_MIN, SITE_WORKS_A_SESSION,
    SITES_TO_FILL, SLOW_GROUP_AFTER, SLOW_GROUP_SHARES_MAX, STUCK_AFTER, STUCK_SESSIONS_MAX,
    UNPROVEN_SESSION_AFTER,
};
use engine_proto::pace::{SitePace, Start};
pub(crate) use held::{HeldAnswers, UnclearWait};
pub(crate) use route::{KnownBy, Route};
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::{Rc, Weak};
use std::task::Waker;
use std::time::Instant;

/// A site: the unit of pacing.
pub(crate) struct Site {
    pub(crate) pace: RefCell<SitePace>,
    /// Sessions open, over all groups.
    pub(crate) open: Cell<u32>,
    /// Groups that want a session and may not have one yet.
    pub(crate) waiting: RefCell<VecDeque<Weak<Group>>>,
    /// A task sleeps until then, when a session may begin.
    pub(crate) timer: Cell<Option<Instant>>,
    /// Why it pushed back the last time.
    pub(crate) pushed: Cell<&'static str>,
    /// Patient works that are at the site.
    quota: SiteQuota,
}

/// Domains with the same MX hosts.
pub(crate) struct Group {
    pub(crate) site: Rc<Site>,
    pub(crate) site_name: Box<str>,
    /// Names it on its shard.
    pub(crate) number: u64,
    /// From which source it is asked.
    pub(crate) source: Cell<usize>,
    /// Whether a domain of the group accepts everyone, or did.
    pub(crate) catch_alls: Cell<bool>,
    /// How many outages were over when it was last asked.
    pub(crate) outages: Cell<u32>,
    pub(crate) routes: Vec<Route>,
    /// How many recipients the site refused our source, where that is counted.
    pub(crate) refusals: Option<Rc<SiteRefusals>>,
    /// Its operator is known to tell mailboxes apart at all times.
    honest: bool,
    /// All recipients of a transaction have one domain.
    one_domain: bool,
    /// Sessions that wait for answers.
    busy: Cell<u32>,
    /// Answers that sessions have proven since the host last changed its behaviour.
    proven: Cell<u32>,
    state: RefCell<GroupState>,
}

/// Sites that answer 451 4.3.0 to recipients of a second domain in one transaction ("Multiple destination domains per
/// transaction is unsupported"), although the domains share their hosts.
const ONE_DOMAIN_SITES: &[&str] = &["google"];

/// Operators that have not been seen to change what they say of a mailbox: no report of a server that fails open, or that
/// mutes a client at RCPT, names them. They say what they think of us in words (421, 550 5.7.1).
const HONEST_SITES: &[&str] = &["google", "microsoft365", "outlook", "icloud", "zoho", "fastmail", "proton"];

/// Whether the operator of a site is known to tell mailboxes apart at all times.
fn is_honest(site: &str) -> bool {
    HONEST_SITES.contains(&site)
}

/// A session that waits for answers.
pub(crate) struct Busy<'g>(&'g Group);

impl Drop for Busy<'_> {
    fn drop(&mut self) {
        self.0.busy.set(self.0.busy.get() - 1);
    }
}

struct GroupState {
    queue: Queue,
    /// The recipients under way.
    in_flight: Vec<Weak<InFlight>>,
    /// Answers that open sessions hold.
    held: Vec<Weak<HeldAnswers>>,
    open: u32,
    /// Since when any is.
    open_since: Instant,
    /// Sessions that wait for work.
    idle: Vec<Waker>,
    queued_for_session: bool,
    used: Instant,
}

impl GroupState {
    fn wake_one(&mut self) {
        if let Some(waker) = self.idle.pop() {
            waker.wake();
        }
    }
}

/// The next step for the works that wait in a group.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// The work can be asked about over this route.
    Route(usize),
    /// Every route that is left rests until then.
    Rest(Instant),
    /// No route is left for what waits.
    Nothing,
}

impl Site {
    pub(crate) fn new(pace: SitePace) -> Site {
        Site {
            pace: RefCell::new(pace),
            open: Cell::new(0),
            waiting: RefCell::default(),
            timer: Cell::new(None),
            pushed: Cell::new("no_answer_in_time"),
            quota: SiteQuota::default(),
        }
    }

    /// Admits a work, or returns it if the site has as many patient works as it may have; `tickets_max` is the total of the engine.
    /// If the site has given no answer for [`BULK_PATIENCE`], a new work waits for one more try only.
    pub(crate) fn admit(&self, mut work: Work, tickets_max: usize, now: Instant) -> Result<Work, Work> {
        let is_here = work.admission.as_ref().is_some_and(|admission| self.quota.has(admission));
        if work.priority == Priority::Single || is_here {
            return Ok(work);
        }
        let pace = self.pace.borrow();
        if let Some(since) = pace.pushing_since() {
            work.deadline = work.deadline.min((since + BULK_PATIENCE).max(now + SITE_LAST_TRY));
        }
        let sessions = (pace.sessions() as usize).max(SITE_SESSIONS_MIN);
        let wanted = sessions.saturating_mul(SITE_WORKS_A_SESSION);
        let Some(admission) =
            self.quota.enter(wanted.min(tickets_max / SITES_TO_FILL).max(SITE_WORKS_A_SESSION))
        else {
            return Err(work);
        };
        work.admission = Some(admission);
        Ok(work)
    }

    /// Whether a session task may open another session in place of the one that it had; counts it if so.
    pub(crate) fn start_another(&self, now: Instant) -> bool {
        let mut pace = self.pace.borrow_mut();
        let may = pace.may_start(now, self.open.get().saturating_sub(1)) == Start::Now;
        if may {
            pace.on_started();
        }
        may
    }
}

/// The routes that there is room for: of each host its first addresses, as many of all as there is room for, in their
/// order.
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
        refusals: Option<Rc<SiteRefusals>>,
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
        Group {
            site,
            site_name: plan.site.clone(),
            number,
            source: Cell::new(0),
            catch_alls: Cell::new(false),
            outages: Cell::new(0),
            routes: routes.collect(),
            refusals,
            honest: is_honest(&plan.site),
            one_domain: ONE_DOMAIN_SITES.contains(&&*plan.site),
            busy: Cell::new(0),
            proven: Cell::new(0),
            state: RefCell::new(GroupState {
                queue: Queue::new(ONE_DOMAIN_SITES.contains(&&*plan.site)),
                in_flight: Vec::new(),
                held: Vec::new(),
                open: 0,
                open_since: now,
                idle: Vec::new(),
                queued_for_session: false,
                used: now,
            }),
        }
    }

    /// Number of recipients that the budget of refusals allows now.
    pub(crate) fn refusal_room(&self, step: u64) -> usize {
        self.refusals.as_ref().map_or(usize::MAX, |refusals| refusals.room(step))
    }

    /// Whether all recipients of a transaction are to have one domain.
    pub(crate) fn is_one_domain(&self) -> bool {
        self.one_domain
    }

    /// Whether its operator is known to tell mailboxes apart at all times.
    pub(crate) fn is_honest(&self) -> bool {
        self.honest
    }

    /// As [`Group::refusal_room`], for what proves the answers that sessions hold.
    pub(crate) fn refusal_room_for_proof(&self, step: u64) -> usize {
        self.refusals.as_ref().map_or(usize::MAX, |refusals| refusals.room_for_proof(step))
    }

    /// Puts work behind what waits, and wakes a session that has none.
    pub(crate) fn enqueue(&self, work: Work) {
        let mut state = self.state.borrow_mut();
        state.queue.push_back(work);
        state.wake_one();
    }

    /// Puts work back in front of what waits, and wakes a session that has none.
    pub(crate) fn put_back(&self, work: Work) {
        let mut state = self.state.borrow_mut();
        state.queue.push_front(work);
        state.wake_one();
    }

    /// Forgets that routes are down for this reason.
    pub(crate) fn lift(&self, rule: &'static str) {
        self.routes.iter().for_each(|route| route.lift(rule));
    }

    /// The routes to the host of route `index` that have addresses of the same family, a bit each.
    pub(crate) fn same_host_and_family(&self, index: usize) -> u64 {
        let asked = &self.routes[index];
        self.routes_where(|route| {
            route.host == asked.host && route.address.is_ipv4() == asked.address.is_ipv4()
        })
    }

    /// Whether route `index` goes to an IPv6 address of a host that can be reached at an IPv4 address as well.
    pub(crate) fn has_ipv4_beside(&self, index: usize, now: Instant) -> bool {
        let asked = &self.routes[index];
        let beside = |route: &Route| {
            route.host == asked.host && route.address.is_ipv4() && route.down_rule(now).is_none()
        };
        asked.address.is_ipv6() && self.routes.iter().any(beside)
    }

    /// Does not try the routes that are left alone for the domain of a work.
    pub(crate) fn pass_over_shut(&self, work: &mut Work, now: Instant) {
        for (index, route) in self.routes.iter().enumerate() {
            if let Some(rule) = route.shut_rule(work.address.domain(), now) {
                work.tried |= 1 << index;
                work.leave_at(&route.host, None, rule, HOST_DOWN);
            }
        }
    }

    /// The routes to the host of route `index`, a bit each.
    pub(crate) fn same_host(&self, index: usize) -> u64 {
        self.routes_of(&self.routes[index].host)
    }

    /// The routes to `host`, a bit each.
    pub(crate) fn routes_of(&self, host: &str) -> u64 {
        self.routes_where(|route| *route.host == *host)
    }

    fn routes_where(&self, fits: impl Fn(&Route) -> bool) -> u64 {
        let at = self.routes.iter().enumerate().filter(|(_, route)| fits(route));
        at.fold(0, |routes, (at, _)| routes | 1 << at)
    }

    /// Takes up to `most` works for a transaction on `route`, in the order of their turns.
    pub(crate) fn take(&self, route: usize, most: usize, now: Instant) -> Vec<Work> {
        let awaited = self.awaited(route, now);
        self.state.borrow_mut().queue.take(route, awaited, most)
    }

    /// Whether all routes are out of use.
    pub(crate) fn is_down(&self, now: Instant) -> bool {
        self.routes.iter().all(|route| route.down_rule(now).is_some())
    }

    /// Routes that patient work waits for rather than to try `route`: hosts that are preferred to it, and rest for a
    /// moment only.
    fn awaited(&self, route: usize, now: Instant) -> u64 {
        let preference = self.routes[route].preference;
        self.routes_where(|other| {
            let soon = other.resting_until(now).is_some_and(|until| until <= now + REST_SHORT);
            other.preference < preference && soon && other.down_rule(now).is_none()
        })
    }

    /// A session holds these answers.
    pub(crate) fn hold(&self, held: &Rc<HeldAnswers>) {
        let state = &mut *self.state.borrow_mut();
        state.held.retain(|held| held.strong_count() > 0);
        state.held.push(Rc::downgrade(held));
    }

    /// These are being asked about.
    pub(crate) fn on_asked(&self, in_flight: &Rc<InFlight>) {
        let all = &mut self.state.borrow_mut().in_flight;
        all.retain(|other| other.strong_count() > 0);
        all.push(Rc::downgrade(in_flight));
    }

    /// Takes all works whose deadline has passed, with those under way; or all works that wait, if `now` is `None`.
    pub(crate) fn take_expired(&self, now: Option<Instant>) -> Vec<Work> {
        let state = &mut *self.state.borrow_mut();
        let mut expired = state.queue.take_expired(now);
        if let Some(now) = now {
            let in_flight = state.in_flight.iter().filter_map(Weak::upgrade);
            expired.extend(in_flight.flat_map(|asked| asked.take_expired(now)));
            let held = state.held.iter().filter_map(Weak::upgrade);
            expired.extend(held.flat_map(|held| held.take_where(|work| work.deadline <= now)));
        }
        expired
    }

    /// Takes the waiting works for which the condition holds.
    pub(crate) fn take_waiting(&self, is_such: impl Fn(&Work) -> bool) -> Vec<Work> {
        self.state.borrow_mut().queue.take_where(&is_such)
    }

    /// Takes the works for which the condition holds, also those that are being asked about.
    pub(crate) fn take_where(&self, is_such: impl Fn(&Work) -> bool) -> Vec<Work> {
        let state = &mut *self.state.borrow_mut();
        let mut taken = state.queue.take_where(&is_such);
        let in_flight = state.in_flight.iter().filter_map(Weak::upgrade);
        taken.extend(in_flight.flat_map(|asked| asked.take_where(&is_such)));
        let held = state.held.iter().filter_map(Weak::upgrade);
        taken.extend(held.flat_map(|held| held.take_where(&is_such)));
        taken
    }

    /// Whether single checks need not wait: the site has pushed back for a while, will admit no session for a while, and no other session is
    /// open.
    pub(crate) fn is_hopeless(&self, now: Instant) -> bool {
        let pace = self.site.pace.borrow();
        let shut = pace.pause(now).is_some_and(|until| until > now + REST_SHORT);
        let long = pace.pushing_since().is_some_and(|since| now >= since + REST_SHORT);
        shut && long && self.state.borrow().open <= 1
    }

    /// Takes all single checks that wait.
    pub(crate) fn take_singles(&self) -> Vec<Work> {
        self.state.borrow_mut().queue.take_singles(0)
    }

    /// Takes the works that no route is left for, each with the reason why.
    pub(crate) fn take_unroutable(&self, now: Instant) -> Vec<Work> {
        let up = self.routes_where(|route| route.down_rule(now).is_none());
        let mut taken = self.state.borrow_mut().queue.take_unroutable(|tried| up & !tried != 0);
        for work in &mut taken {
            let untried = self.routes.iter().enumerate().filter(|(index, _)| work.tried & (1 << index) == 0);
            let mut down = untried.filter_map(|(_, route)| Some((route, route.down_rule(now)?)));
            if let Some((route, rule)) = down.next_back() {
                work.leave_at(&route.host, route.down_reply(now), rule, HOST_DOWN);
            }
        }
        taken
    }

    /// The next step for the works that wait. Routes are in the order of the MX preferences.
    pub(crate) fn next(&self, now: Instant) -> Next {
        let state = self.state.borrow();
        let mut rest: Option<Instant> = None;
        for (index, route) in self.routes.iter().enumerate() {
            let awaited = self.awaited(index, now);
            if route.down_rule(now).is_some() || !state.queue.has_for(index, awaited) {
                continue;
            }
            match route.resting_until(now) {
                None => return Next::Route(index),
                Some(until) => rest = Some(rest.map_or(until, |rest| rest.min(until))),
            }
        }
        rest.map_or(Next::Nothing, Next::Rest)
    }

    /// The route that a work would take that comes in now, if it need not wait for one.
    pub(crate) fn first_open(&self, now: Instant) -> Option<&Route> {
        self.routes
            .iter()
            .find(|route| route.down_rule(now).is_none())
            .filter(|route| route.resting_until(now).is_none())
    }

    /// How many works wait.
    pub(crate) fn waiting(&self) -> usize {
        self.state.borrow().queue.len()
    }

    /// Lets single checks leave a silent route, because they cannot wait for another try. True if patient works wait, for which the host
    /// is asked again.
    pub(crate) fn release_singles(&self, route: usize, rule: &'static str) -> bool {
        let queue = &mut self.state.borrow_mut().queue;
        if queue.singles() == 0 {
            return true;
        }
        if queue.singles() == queue.len() {
            return false;
        }
        for mut work in queue.take_singles(1 << route) {
            work.tried |= 1 << route;
            work.leave_at(&self.routes[route].host, None, rule, HOST_DOWN);
            queue.push_back(work);
        }
        true
    }

    /// Whether another session is worth its connection.
    pub(crate) fn wants_session(&self, works_a_session: usize, now: Instant) -> bool {
        let (waiting, open, since) = {
            let state = self.state.borrow();
            (state.queue.len(), state.open, state.open_since)
        };
        // Slow servers: the longer sessions take, the fewer works are worth another one.
        let long = now.saturating_duration_since(since).as_secs() / SLOW_GROUP_AFTER.as_secs();
        let works = match open {
            0..STUCK_SESSIONS_MAX => works_a_session / (1 + long as usize).min(SLOW_GROUP_SHARES_MAX),
            _ => works_a_session,
        };
        let is_worth = (open as usize).saturating_mul(works) < waiting && open < self.allowed(now);
        waiting > 0 && (is_worth || self.is_stuck(now))
    }

    /// How many sessions may be open, going by what the host has shown so far.
    fn allowed(&self, now: Instant) -> u32 {
        let state = self.state.borrow();
        if self.honest || state.queue.singles() > 0 || state.open == 0 {
            return u32::MAX;
        }
        let long =
            now.saturating_duration_since(state.open_since).as_millis() / UNPROVEN_SESSION_AFTER.as_millis();
        let more = self.proven.get() / PROVEN_ANSWERS_A_SESSION;
        more.saturating_add(long as u32).saturating_add(1)
    }

    /// A session has proven this number of answers.
    pub(crate) fn on_proven(&self, answers: usize) {
        self.proven.set(self.proven.get().saturating_add(answers as u32));
    }

    /// The host has changed its behaviour.
    pub(crate) fn on_changed(&self) {
        self.proven.set(0);
    }

    /// Whether a single check waits behind sessions that all wait for the reply to another recipient: a server may take a minute for
    /// one. While a session is being opened this is false, so a host that gives no greeting does not get more and more sessions.
    pub(crate) fn is_stuck(&self, now: Instant) -> bool {
        let state = self.state.borrow();
        if state.open == 0 || state.open != self.busy.get() || state.open >= STUCK_SESSIONS_MAX {
            return false;
        }
        let long = |since: Instant| now.saturating_duration_since(since) >= STUCK_AFTER;
        let begun = |deadline: Instant| deadline.checked_sub(SINGLE_PATIENCE).unwrap_or(now);
        state.queue.first_single().is_some_and(|deadline| long(begun(deadline)))
    }

    /// A session of the group waits for answers, for as long as the guard lives.
    pub(crate) fn busy(&self) -> Busy<'_> {
        self.busy.set(self.busy.get() + 1);
        Busy(self)
    }

    pub(crate) fn on_session_opened(&self, now: Instant) {
        let mut state = self.state.borrow_mut();
        if state.open == 0 {
            state.open_since = now;
        }
        state.open += 1;
    }

    pub(crate) fn on_session_closed(&self, now: Instant) {
        let mut state = self.state.borrow_mut();
        state.open -= 1;
        state.used = now;
    }

    /// Adds lines to the traces of the works that wait.
    pub(crate) fn add_trace(&self, lines: &[String]) {
        for work in self.state.borrow_mut().queue.iter_mut() {
            if let Some(trace) = &mut work.trace {
                trace.extend(lines.iter().cloned());
            }
        }
    }

    /// A session waits for work.
    pub(crate) fn add_idle(&self, waker: &Waker) {
        let idle = &mut self.state.borrow_mut().idle;
        if !idle.iter().any(|other| other.will_wake(waker)) {
            idle.push(waker.clone());
        }
    }

    /// A session waits for work no longer.
    pub(crate) fn remove_idle(&self, waker: &Waker) {
        self.state.borrow_mut().idle.retain(|other| !other.will_wake(waker));
    }

    /// Marks the group as queued for a session; false when it already is.
    pub(crate) fn queue_for_session(&self) -> bool {
        !std::mem::replace(&mut self.state.borrow_mut().queued_for_session, true)
    }

    pub(crate) fn leave_session_queue(&self) {
        self.state.borrow_mut().queued_for_session = false;
    }

    /// Whether something waits or is being asked about.
    pub(crate) fn is_active(&self) -> bool {
        self.waiting() > 0 || self.state.borrow().open > 0
    }

    /// Whether the group may be forgotten: it had no work and no session for a while. The while is shorter if nothing is known of the
    /// group; a long list leaves thousands of such groups in a minute. If groups take too much memory (`crowded`), it is zero, and a
    /// domain that accepts everyone is asked about again later.
    pub(crate) fn is_forgotten(&self, now: Instant, crowded: bool) -> bool {
        if self.is_active() {
            return false;
        }
        let unused = now.saturating_duration_since(self.state.borrow().used);
        let is_missed = self.catch_alls.get() && !crowded;
        let is_over = crowded || unused >= GROUP_IDLE_FRESH;
        unused >= GROUP_IDLE || (is_over && !is_missed && self.is_fresh(now))
    }

    /// How many bytes of memory it takes, about.
    pub(crate) fn bytes(&self) -> usize {
        // The name of the group, by which it is found, lists the hosts as the routes do.
        let routes = self.routes.iter().map(|route| size_of::<Route>() + 2 * (route.host.len() + 24));
        size_of::<Group>() + size_of::<Site>() + routes.sum::<usize>()
    }

    fn is_fresh(&self, now: Instant) -> bool {
        self.routes.iter().all(|route| route.is_fresh(now)) && self.site.pace.borrow_mut().is_fresh(now)
    }
}

#[cfg(test)]
mod tests;
