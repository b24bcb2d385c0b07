//! Sites and the groups of hosts below them: who waits for what, and which route is to be tried next. No I/O.
//!
//! A site is paced as a whole. Below it, domains with the same set of MX hosts form a group and share its queue,
//! its routes and its sessions.

use crate::Priority;
use crate::crowd::Crowd;
use crate::flight::Flight;
use crate::knowledge::Control;
use crate::queue::Queue;
use crate::work::{Plan, PlannedRoute, Work};
use engine_proto::address::Domain;
use engine_proto::limits::{BULK_PATIENCE, MX_ADDRESSES_MAX, SINGLE_PATIENCE, TRANSACTION_RECIPIENTS_MAX};
use engine_proto::pace::{SitePace, Start};
use engine_proto::verdict::catch_all::accepts_everything;
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::net::IpAddr;
use std::rc::{Rc, Weak};
use std::task::Waker;
use std::time::{Duration, Instant};

/// How long a host that cannot be reached, or refuses us, is left alone.
pub(crate) const DOWN: Duration = Duration::from_secs(60);

/// Groups without work are forgotten after this.
const GROUP_IDLE: Duration = Duration::from_secs(120);
/// Those of which nothing is known after this: a moment longer than a session waits for more work.
const GROUP_IDLE_FRESH: Duration = Duration::from_secs(5);

/// Patient works that may be at a site, for each session that it may have: a full transaction.
const WORKS_AT_A_SESSION: usize = TRANSACTION_RECIPIENTS_MAX;
/// A site that has closed its doors to all but one session is counted as if it had so many: the fewer are let in, the
/// longer does the last one wait.
const SESSIONS_MIN: usize = 10;
/// The longest pause of a site that pushes back, and a try behind it.
const LAST_TRY: Duration = Duration::from_secs(90);
/// It takes so many sites to fill the engine with patient works.
const SITES_TO_FILL: usize = 4;

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
    crowd: Crowd,
}

/// Domains with the same MX hosts.
pub(crate) struct Group {
    pub(crate) site: Rc<Site>,
    pub(crate) site_name: Box<str>,
    /// Names it on its shard.
    pub(crate) number: u64,
    /// From which source it is asked.
    pub(crate) source: Cell<usize>,
    /// A domain of it accepts everyone, or did.
    pub(crate) catch_alls: Cell<bool>,
    /// How many outages were over when it was last asked.
    pub(crate) outages: Cell<u32>,
    pub(crate) routes: Vec<Route>,
    /// All recipients of a transaction have one domain.
    one_domain: bool,
    /// Sessions that wait for answers.
    busy: Cell<u32>,
    state: RefCell<State>,
}

/// Sites that answer 451 4.3.0 to recipients of a second domain in one transaction ("Multiple destination domains per
/// transaction is unsupported"), although the domains share their hosts.
const ONE_DOMAIN_SITES: &[&str] = &["google"];

/// How long somebody waits behind busy sessions before another one is opened.
const STUCK_AFTER: Duration = Duration::from_secs(2);
/// Most sessions of a group up to which that is done.
const STUCK_SESSIONS_MAX: u32 = 8;

/// A session that waits for answers.
pub(crate) struct Busy<'g>(&'g Group);

impl Drop for Busy<'_> {
    fn drop(&mut self) {
        self.0.busy.set(self.0.busy.get() - 1);
    }
}

/// A rest that somebody waits for, and that patient work prefers to a backup.
const REST_SHORT: Duration = Duration::from_secs(5);

/// One address of one host.
pub(crate) struct Route {
    pub(crate) host: Rc<str>,
    /// The host's MX preference.
    preference: u16,
    pub(crate) address: IpAddr,
    /// Out of use until then, and why.
    down: Cell<Option<(Instant, &'static str)>>,
    /// Left alone for a moment: it was too much for it.
    resting: Cell<Option<Instant>>,
    /// Connections in a row that died without a word.
    strikes: Cell<u8>,
    /// Its accepts show nothing: [`accepts_everything`].
    pub(crate) accepts_everything: bool,
    /// What it has said of a session, in answer to a recipient, since the last one began.
    refused: Cell<Option<&'static str>>,
    /// The same of an earlier session.
    refrain: Cell<Option<&'static str>>,
    /// What it has said of recipients, and of nobody else since.
    chorus: RefCell<Option<Chorus>>,
    /// A TLS handshake failed here: the next session goes in the clear.
    pub(crate) plain_only: Cell<bool>,
}

/// A refusal that is about us or the session, heard for one recipient after the other.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Chorus {
    /// The rule that knows its words.
    pub(crate) rule: &'static str,
    /// It is a block of our source.
    pub(crate) block: bool,
    times: u8,
    /// Another session would not hear anything else.
    settled: bool,
    /// Of the recipient that it was heard for last.
    domain: Domain,
    /// How often the domain was another one than before.
    changes: u8,
}

/// So many recipients in a row are enough to know what a host says to everyone.
const CHORUS_MIN: u8 = 5;
/// A host that serves others' domains may say so for one of them, whose owner wants it: there the domain has to change so
/// often meanwhile.
const CHANGES_MIN: u8 = 2;

struct State {
    queue: Queue,
    /// Who is being asked about.
    flights: Vec<Weak<Flight>>,
    /// Control recipients that are to be asked, by host.
    controls: Vec<(Rc<str>, VecDeque<Control>)>,
    open: u32,
    /// Sessions that wait for work.
    idle: Vec<Waker>,
    queued_for_session: bool,
    used: Instant,
}

impl State {
    fn wake_one(&mut self) {
        if let Some(waker) = self.idle.pop() {
            waker.wake();
        }
    }
}

/// What a group's work can do next.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// Try this route.
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
            crowd: Crowd::default(),
        }
    }

    /// Lets a work in; gives it back when as many patient ones are there as may be, of `tickets_max` in all. Where the
    /// site has given no answer for as long as patient work waits, who comes now waits for one more try.
    pub(crate) fn admit(&self, mut work: Work, tickets_max: usize, now: Instant) -> Result<Work, Work> {
        let is_here = work.stay.as_ref().is_some_and(|stay| self.crowd.has(stay));
        if work.priority == Priority::Single || is_here {
            return Ok(work);
        }
        let pace = self.pace.borrow();
        if let Some(since) = pace.pushing_since() {
            work.deadline = work.deadline.min((since + BULK_PATIENCE).max(now + LAST_TRY));
        }
        let sessions = (pace.sessions() as usize).max(SESSIONS_MIN);
        let wanted = sessions.saturating_mul(WORKS_AT_A_SESSION);
        let Some(stay) = self.crowd.enter(wanted.min(tickets_max / SITES_TO_FILL).max(WORKS_AT_A_SESSION))
        else {
            return Err(work);
        };
        work.stay = Some(stay);
        Ok(work)
    }

    /// Whether a session task may open another session in place of the one that it had; counts it if so.
    pub(crate) fn start_another(&self, now: Instant) -> bool {
        let mut pace = self.pace.borrow_mut();
        let may = pace.may_start(now, self.open.get().saturating_sub(1)) == Start::Now;
        if may {
            pace.started();
        }
        may
    }
}

impl Route {
    pub(crate) fn take_down(&self, until: Instant, rule: &'static str) {
        self.down.set(Some((until, rule)));
    }

    pub(crate) fn rest(&self, until: Instant) {
        self.resting.set(Some(until));
    }

    /// A connection died without a word; true when that is once too often.
    pub(crate) fn strike(&self, patience: u8) -> bool {
        self.strikes.set(self.strikes.get().saturating_add(1));
        self.strikes.get() >= patience
    }

    /// It refused to go on with a session, in words that this rule knows.
    pub(crate) fn refuses(&self, rule: &'static str) {
        self.refused.set(Some(rule));
    }

    /// Another session was opened: what was heard in an earlier one may be heard again.
    pub(crate) fn begins(&self) {
        if let Some(rule) = self.refused.take() {
            self.refrain.set(Some(rule));
        }
    }

    /// Whether an earlier session heard the same, and none has heard anything about a recipient since.
    pub(crate) fn says_so(&self, rule: &'static str) -> bool {
        self.refrain.get() == Some(rule)
    }

    /// It said something about a recipient.
    pub(crate) fn speaks(&self) {
        self.refrain.set(None);
        self.refused.set(None);
        self.chorus.take();
    }

    /// It said of a recipient what it may say to everyone, in words that this rule knows. `block`: they block our source.
    /// `settled`: another session would not hear anything else.
    pub(crate) fn sings(&self, rule: &'static str, block: bool, settled: bool, domain: &Domain) {
        let new = || Chorus { rule, block, times: 0, settled: false, domain: domain.clone(), changes: 0 };
        let before = self.chorus.take().filter(|chorus| chorus.rule == rule);
        let mut chorus = before.unwrap_or_else(new);
        chorus.times = chorus.times.saturating_add(1);
        chorus.settled |= settled;
        if chorus.domain != *domain {
            chorus.changes = chorus.changes.saturating_add(1);
            chorus.domain = domain.clone();
        }
        self.chorus.replace(Some(chorus));
    }

    /// What it says to everyone, whoever is asked about.
    pub(crate) fn chorus(&self) -> Option<Chorus> {
        self.chorus.borrow().clone().filter(|chorus| {
            let heard = chorus.settled && chorus.times >= CHORUS_MIN;
            heard && (chorus.changes >= CHANGES_MIN || chorus.domain.has_own(&self.host))
        })
    }

    /// Whether it is left alone for what it says to everyone.
    pub(crate) fn is_shut(&self, now: Instant) -> bool {
        self.chorus().is_some_and(|chorus| self.is_down(now) == Some(chorus.rule))
    }

    pub(crate) fn works(&self) {
        self.strikes.set(0);
    }

    /// Whether nothing is known of it that a route made anew would not know.
    fn is_fresh(&self, now: Instant) -> bool {
        let silent = self.refused.get().is_none() && self.refrain.get().is_none() && self.strikes.get() == 0;
        silent
            && self.chorus().is_none()
            && !self.plain_only.get()
            && self.is_down(now).is_none()
            && self.rests(now).is_none()
    }

    fn is_down(&self, now: Instant) -> Option<&'static str> {
        self.down.get().filter(|(until, _)| *until > now).map(|(_, rule)| rule)
    }

    fn rests(&self, now: Instant) -> Option<Instant> {
        self.resting.get().filter(|&until| until > now)
    }
}

/// Most routes of a group: a work has a bit for each.
const ROUTES_MAX: usize = u64::BITS as usize;

/// The routes that there is room for: of each host its first addresses, as many of all as there is room for, in their
/// order.
fn chosen(routes: &[PlannedRoute]) -> Vec<&PlannedRoute> {
    let hosts = || routes.chunk_by(|a, b| a.host == b.host);
    let fits = |&most: &usize| hosts().map(|host| host.len().min(most)).sum::<usize>() <= ROUTES_MAX;
    let most = (1..=MX_ADDRESSES_MAX * 2).rev().find(fits).unwrap_or(1);
    hosts().flat_map(|host| host.iter().take(most)).take(ROUTES_MAX).collect()
}

impl Group {
    pub(crate) fn new(plan: &Plan, site: Rc<Site>, number: u64, now: Instant) -> Group {
        let mut last: Rc<str> = "".into();
        let routes = chosen(&plan.routes).into_iter().map(|planned| {
            if *planned.host != *last {
                last = planned.host.as_ref().into();
            }
            Route {
                host: Rc::clone(&last),
                preference: planned.preference,
                address: planned.address,
                down: Cell::new(None),
                resting: Cell::new(None),
                strikes: Cell::new(0),
                accepts_everything: accepts_everything(&last),
                refused: Cell::new(None),
                refrain: Cell::new(None),
                chorus: RefCell::default(),
                plain_only: Cell::new(false),
            }
        });
        Group {
            site,
            site_name: plan.site.clone(),
            number,
            source: Cell::new(0),
            catch_alls: Cell::new(false),
            outages: Cell::new(0),
            routes: routes.collect(),
            one_domain: ONE_DOMAIN_SITES.contains(&&*plan.site),
            busy: Cell::new(0),
            state: RefCell::new(State {
                queue: Queue::new(ONE_DOMAIN_SITES.contains(&&*plan.site)),
                flights: Vec::new(),
                controls: Vec::new(),
                open: 0,
                idle: Vec::new(),
                queued_for_session: false,
                used: now,
            }),
        }
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

    /// A control recipient is to be asked.
    pub(crate) fn want_control(&self, control: Control) {
        let mut state = self.state.borrow_mut();
        match state.controls.iter_mut().find(|(host, _)| *host == control.host) {
            Some((_, waiting)) => waiting.push_back(control),
            None => state.controls.push((Rc::clone(&control.host), VecDeque::from([control]))),
        }
        state.wake_one();
    }

    /// Takes up to `most` control recipients that are to be asked on `route`.
    pub(crate) fn take_controls(&self, route: usize, most: usize) -> Vec<Control> {
        let host = &self.routes[route].host;
        let most = if self.one_domain { most.min(1) } else { most };
        let mut state = self.state.borrow_mut();
        let Some(at) = state.controls.iter().position(|(of, _)| of == host) else { return Vec::new() };
        let waiting = &mut state.controls[at].1;
        let taken = waiting.drain(..most.min(waiting.len())).collect();
        if waiting.is_empty() {
            state.controls.remove(at);
        }
        taken
    }

    /// Takes the control recipients whose host is down at all its addresses.
    pub(crate) fn take_stranded_controls(&self, now: Instant) -> Vec<Control> {
        let down = |host: &Rc<str>| {
            !self.routes.iter().any(|route| route.host == *host && route.is_down(now).is_none())
        };
        let mut state = self.state.borrow_mut();
        let taken = state.controls.extract_if(.., |(host, _)| down(host));
        taken.flat_map(|(_, waiting)| waiting).collect()
    }

    /// Forgets that routes are down for this reason.
    pub(crate) fn lift(&self, rule: &'static str) {
        let down = |route: &&Route| route.down.get().is_some_and(|(_, why)| why == rule);
        for route in self.routes.iter().filter(down) {
            route.down.set(None);
            route.works();
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
        self.routes.iter().all(|route| route.is_down(now).is_some())
    }

    /// Routes that patient work waits for rather than to try `route`: hosts that are preferred to it, and rest for a
    /// moment only.
    fn awaited(&self, route: usize, now: Instant) -> u64 {
        let preference = self.routes[route].preference;
        self.routes_where(|other| {
            let soon = other.rests(now).is_some_and(|until| until <= now + REST_SHORT);
            other.preference < preference && soon && other.is_down(now).is_none()
        })
    }

    /// These are being asked about.
    pub(crate) fn depart(&self, flight: &Rc<Flight>) {
        let flights = &mut self.state.borrow_mut().flights;
        flights.retain(|flight| flight.strong_count() > 0);
        flights.push(Rc::downgrade(flight));
    }

    /// Takes all works whose time is over, those that are being asked about included; or all that wait.
    pub(crate) fn take_expired(&self, now: Option<Instant>) -> Vec<Work> {
        let state = &mut *self.state.borrow_mut();
        let mut expired = state.queue.take_expired(now);
        if let Some(now) = now {
            let flights = state.flights.iter().filter_map(Weak::upgrade);
            expired.extend(flights.flat_map(|flight| flight.take_expired(now)));
        }
        expired
    }

    /// Whether the site has only pushed back for a while, will let nobody in for longer than somebody waits, and no
    /// session is there to go on.
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
    pub(crate) fn take_stranded(&self, now: Instant) -> Vec<Work> {
        let up = self.routes_where(|route| route.is_down(now).is_none());
        let mut taken = self.state.borrow_mut().queue.take_stranded(|tried| up & !tried != 0);
        for work in &mut taken {
            let untried = self.routes.iter().enumerate().filter(|(index, _)| work.tried & (1 << index) == 0);
            if let Some(rule) = untried.filter_map(|(_, route)| route.is_down(now)).next_back() {
                work.leave(rule, Some(DOWN));
            }
        }
        taken
    }

    /// What the work that waits can do next. The order of the routes is that of the MX preferences.
    pub(crate) fn next(&self, now: Instant) -> Next {
        let state = self.state.borrow();
        let mut rest: Option<Instant> = None;
        for (index, route) in self.routes.iter().enumerate() {
            let awaited = self.awaited(index, now);
            let asked = || state.controls.iter().any(|(host, _)| *host == route.host);
            if route.is_down(now).is_some() || !(state.queue.has_for(index, awaited) || asked()) {
                continue;
            }
            match route.rests(now) {
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
            .find(|route| route.is_down(now).is_none())
            .filter(|route| route.rests(now).is_none())
    }

    /// How many works and controls wait.
    pub(crate) fn waiting(&self) -> usize {
        let state = self.state.borrow();
        state.queue.len() + state.controls.iter().map(|(_, waiting)| waiting.len()).sum::<usize>()
    }

    /// Whether patient works wait, for which a silent host is asked again. Those that somebody waits for then leave
    /// `route`: nobody waits to hear it again, and nobody else has to pay for that.
    pub(crate) fn is_patient(&self, route: usize, rule: &'static str) -> bool {
        let queue = &mut self.state.borrow_mut().queue;
        if queue.singles() == 0 {
            return true;
        }
        if queue.singles() == queue.len() {
            return false;
        }
        for mut work in queue.take_singles(1 << route) {
            work.tried |= 1 << route;
            work.leave(rule, Some(DOWN));
            queue.push_back(work);
        }
        true
    }

    /// Whether another session is worth its connection.
    pub(crate) fn wants_session(&self, works_a_session: usize, now: Instant) -> bool {
        let waiting = self.waiting();
        let open = self.state.borrow().open as usize;
        waiting > 0 && (open.saturating_mul(works_a_session) < waiting || self.is_stuck(now))
    }

    /// Whether somebody waits behind sessions that all wait themselves, for answers to others' recipients: a server
    /// may take a minute over one of them. Sessions that are still being opened are not given company, so that a host
    /// that greets nobody gets no crowd.
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

    pub(crate) fn opened(&self) {
        self.state.borrow_mut().open += 1;
    }

    pub(crate) fn closed(&self, now: Instant) {
        let mut state = self.state.borrow_mut();
        state.open -= 1;
        state.used = now;
    }

    /// Adds to the stories of those who wait.
    pub(crate) fn tell(&self, story: &[String]) {
        for work in self.state.borrow_mut().queue.iter_mut() {
            if let Some(trace) = &mut work.trace {
                trace.extend(story.iter().cloned());
            }
        }
    }

    /// A session waits for work.
    pub(crate) fn idle(&self, waker: &Waker) {
        let idle = &mut self.state.borrow_mut().idle;
        if !idle.iter().any(|other| other.will_wake(waker)) {
            idle.push(waker.clone());
        }
    }

    /// A session waits for work no longer.
    pub(crate) fn not_idle(&self, waker: &Waker) {
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

    /// Nothing waits, nothing is open, and nothing has been for a while: a short one where nothing is known that would
    /// be missed. A long list leaves thousands of such groups behind in a minute.
    pub(crate) fn is_forgotten(&self, now: Instant) -> bool {
        if self.is_active() {
            return false;
        }
        let unused = now.saturating_duration_since(self.state.borrow().used);
        unused >= GROUP_IDLE || (unused >= GROUP_IDLE_FRESH && self.is_fresh(now))
    }

    fn is_fresh(&self, now: Instant) -> bool {
        !self.catch_alls.get()
            && self.routes.iter().all(|route| route.is_fresh(now))
            && self.site.pace.borrow_mut().is_fresh(now)
    }
}

#[cfg(test)]
#[path = "site_tests.rs"]
mod tests;
