//! Decides when a session task begins. Such a task opens one session after another (`probe.rs`). A *work* is an address on its way
//! through the engine. A *group* is the set of domains of one site (the hosts of one operator) that have the same hosts. A group
//! gets a session task if enough works wait in its queue, or if a single check has waited there for too long. In addition, the pace
//! of the site, the budget of refused recipients, the session limit of the shard and the routes (IP addresses of the hosts) must
//! allow it.

use crate::asking::Asking;
use crate::egress::rest;
use crate::faults::{Fault, planted, sometimes};
use crate::invariants::{Invariant, holds};
use crate::probe;
use crate::runtime::Runtime;
use crate::site::{Group, Next, QueuedGroup, Site};
use crate::work::{Plan, Work};
use crate::{Outage, Priority};
use engine_proto::limits::REST_SHORT;
use engine_proto::pace::Start;
use engine_proto::verdict::Reason;
use std::marker::PhantomData;
use std::net::IpAddr;
use std::rc::Rc;
use std::sync::atomic::Ordering;
use std::time::Instant;

/// A group gets another session if more works than this wait for each session that it has. At slow servers, fewer works are enough
/// ([`Group::wants_session`]).
const WORKS_A_SESSION: usize = 50;

/// Takes a work that has arrived at the shard that owns its site. If no session can or may ask about the work, or if none needs to,
/// the work is answered at once. Otherwise it goes into the queue of its group.
pub(crate) fn receive<R: Runtime>(asking: &Rc<Asking>, mut work: Work, plan: &Plan, now: Instant) {
    asking.common.on_work(&work);
    if work.priority == Priority::Single {
        asking.state().rows.on_urgent(now);
    }
    let Some(group) = asking.group(plan, now) else {
        return work.settle(Reason::Unverifiable, "no_source");
    };
    work.source = group.source;
    let Some(work) = rest::unless_rested(asking, &group, work, now) else { return };
    let source = &asking.shared().pool.sources[work.source];
    let (connections, time) = (&source.connections, asking.shared().age(now));
    let down = connections.are_down(time);
    if down && !connections.may_try(time) {
        return work.fail(Outage::Unavailable);
    }
    let ended = connections.ended();
    // During an outage of our network, every connection fails, so a failed connection shows nothing about its host. If there is an
    // outage now, or if one has ended since the group last got a work, the routes that are down because of failed connections get
    // another try.
    if std::mem::replace(&mut group.state().outages, ended) != ended || down {
        group.lift("no_connection");
    }
    let Some(mut work) = asking.answer_if_known_catch_all(&group, work, now) else { return };
    group.pass_over_shut(&mut work, now);
    if work.priority == Priority::Single && group.is_hopeless(now) {
        let (rule, until) = {
            let site = group.site.state();
            (site.pushed, site.pace.pause(now).unwrap_or(now))
        };
        return probe::answer_pushed_back(asking.shared(), work, rule, until, now);
    }
    match group.site.admit(work, asking.shared().config.tickets_max, now) {
        Ok(work) => {
            holds(Invariant::Admitted, || work.priority == Priority::Single || work.admission.is_some());
            group.enqueue(work);
        }
        Err(work) => return work.fail(Outage::SiteFull),
    }
    if asking.answer_if_over_budget(&group, now) {
        return;
    }
    if !sometimes(Fault::Break(Invariant::GroupActive)) {
        asking.state().active.entry(group.number).or_insert_with(|| Rc::clone(&group));
    }
    // If none of the waiting works has a route left, for example because all hosts are down, they are given up now.
    if group.next(now) == Next::Nothing {
        asking.answer_unroutable(&group, now);
    }
    dispatch::<R>(asking, &group, now);
}

/// Begins sessions for groups that want one. The sweep calls this, because a group may want one just because time has passed.
pub(crate) fn begin_wanted<R: Runtime>(asking: &Rc<Asking>, now: Instant) {
    let wants = |group: &&Rc<Group>| group.wants_session(WORKS_A_SESSION, now);
    let wanting: Vec<Rc<Group>> = asking.state().active.values().filter(wants).cloned().collect();
    wanting.iter().for_each(|group| dispatch::<R>(asking, group, now));
}

/// Starts sessions for a group until the group wants no more or may have no more. A group that wants more is queued until a session
/// ends or a timer fires. It is not queued if no route is left, or if all its works were answered because the budget is used up.
fn dispatch<R: Runtime>(asking: &Rc<Asking>, group: &Rc<Group>, now: Instant) {
    let site = &group.site;
    loop {
        if !group.wants_session(WORKS_A_SESSION, now) {
            return;
        }
        let route = match group.next(now) {
            Next::Route(index) => &group.routes[index],
            Next::Rest(until) => return dispatch_at::<R>(asking, group, until),
            Next::Nothing => return,
        };
        let has_room = asking.state().networks.has_room(route.address);
        if !has_room && !planted(Fault::Break(Invariant::NetworkRoom)) {
            if let Some((turn, queued)) = group.queue_for_session() {
                asking.state().networks.queue(route.address, turn, queued);
            }
            return;
        }
        if asking.refusal_room(group, now) == 0 {
            // Recipients that wait for a reply use up the budget too, so replies may make room. The end of a session of the site on
            // this shard wakes the group. `begin_wanted` notices the replies to other processes that share the budget.
            if !asking.answer_if_over_budget(group, now) {
                group.queue_at_site();
            }
            return;
        }
        let start = {
            let state = &mut *site.state();
            state.pace.share_among(asking.shared().config.egress_nodes.load(Ordering::Relaxed), now);
            let ending = u32::from(planted(Fault::Break(Invariant::SiteCeiling)));
            state.pace.may_start(now, state.open.saturating_sub(ending))
        };
        let Some(start) = with_planted_fault(start, group, now) else { return };
        match start {
            Start::Now => {}
            Start::At(until) => return dispatch_at::<R>(asking, group, until),
            Start::WhenOneEnds => return group.queue_at_site(),
        }
        let has_room = asking.state().has_session_room(group.has_singles());
        if !has_room && !planted(Fault::Break(Invariant::ShardOpen)) {
            if let Some((turn, queued)) = group.queue_for_session() {
                asking.state().starved.push(turn, queued);
            }
            return;
        }
        site.state().pace.on_started();
        let task = CountedTask::<R>::begin(asking, group, route.address);
        R::spawn(async move { probe::serve::<R>(&task.asking, &task.group, task.session, task.host).await });
    }
}

/// Queues a group at its site, and sets the timer of the site to `until`, unless the timer fires earlier anyway. When the timer
/// fires, [`wake`] dispatches all groups in this queue. A timer that was set for a later time still fires too, which does no harm.
fn dispatch_at<R: Runtime>(asking: &Rc<Asking>, group: &Rc<Group>, until: Instant) {
    let site = Rc::clone(&group.site);
    group.queue_at_site();
    {
        let timer = &mut site.state().timer;
        if timer.is_some_and(|at| at <= until || planted(Fault::Break(Invariant::TimerFirst))) {
            holds(Invariant::TimerFirst, || timer.is_some_and(|at| at <= until));
            return;
        }
        *timer = Some(until);
    }
    let asking = Rc::clone(asking);
    R::spawn(async move {
        R::sleep(until.saturating_duration_since(R::now())).await;
        site.state().timer.take_if(|at| *at == until);
        wake::<R>(&asking, &site);
    });
}

/// Takes all groups out of the queue of the site, and dispatches each.
fn wake<R: Runtime>(asking: &Rc<Asking>, site: &Site) {
    let mut queued = std::mem::take(&mut site.state().waiting);
    let groups: Vec<_> = std::iter::from_fn(|| queued.pop()).filter_map(QueuedGroup::leave).collect();
    groups.iter().for_each(|group| dispatch::<R>(asking, group, R::now()));
}

/// Dispatches groups that waited because of the session limit of the shard, as long as the shard has room for sessions.
pub(crate) fn wake_starved<R: Runtime>(asking: &Rc<Asking>) {
    loop {
        if planted(Fault::Break(Invariant::StarvedWoken)) {
            break;
        }
        let next = {
            let state = &mut *asking.state();
            let (singles, rows) = (state.has_session_room(true), state.has_session_room(false));
            state.starved.pop_if(singles, rows)
        };
        let Some(group) = next else { break };
        if let Some(group) = group.leave() {
            dispatch::<R>(asking, &group, R::now());
        }
    }
    let state = asking.state();
    holds(Invariant::StarvedWoken, || !state.has_session_room(false) || state.starved.is_empty());
}

/// Dispatches the groups that wait for a session with the network of the host, in their order, as long as there is room for one.
fn wake_network<R: Runtime>(asking: &Rc<Asking>, host: IpAddr) {
    loop {
        let Some(group) = asking.state().networks.next_waiting(host) else { return };
        if let Some(group) = group.leave() {
            dispatch::<R>(asking, &group, R::now());
        }
    }
}

/// Returns `start`, unless a test has planted a defect that changes it. `None`: because of such a defect, no session starts.
fn with_planted_fault(start: Start, group: &Group, now: Instant) -> Option<Start> {
    match start {
        Start::WhenOneEnds if planted(Fault::IgnoreSessions) => Some(Start::Now),
        Start::At(_) if planted(Fault::IgnoreStarts) => Some(Start::Now),
        Start::At(until) if planted(Fault::Break(Invariant::SitePaused)) && until <= now + REST_SHORT => {
            Some(Start::Now)
        }
        _ if planted(Fault::StarveSite) && group.site_name.bytes().map(u32::from).sum::<u32>() % 8 == 0 => {
            None
        }
        start => Some(start),
    }
}

/// Counts a session task in the shard, the site and the group. This is dropped at the end of the task, even after a panic, and then
/// starts sessions that have waited for room.
struct CountedTask<R: Runtime> {
    asking: Rc<Asking>,
    group: Rc<Group>,
    session: usize,
    /// A host of the network for which the task counts.
    host: IpAddr,
    runtime: PhantomData<R>,
}

impl<R: Runtime> CountedTask<R> {
    fn begin(asking: &Rc<Asking>, group: &Rc<Group>, host: IpAddr) -> CountedTask<R> {
        asking.state().networks.on_begun(host);
        let open = &mut asking.state().open;
        *open += 1;
        holds(Invariant::ShardOpen, || *open <= asking.sessions_max);
        holds(Invariant::SitePaused, || group.site.state().pace.pause(R::now()).is_none());
        let session = group.on_task_begun(R::now());
        let (asking, group) = (Rc::clone(asking), Rc::clone(group));
        CountedTask { asking, group, session, host, runtime: PhantomData }
    }
}

impl<R: Runtime> Drop for CountedTask<R> {
    fn drop(&mut self) {
        let (asking, group, host) = (&self.asking, &self.group, self.host);
        asking.state().networks.on_ended(host);
        asking.state().open -= usize::from(!sometimes(Fault::Break(Invariant::ShardSum)));
        group.on_task_ended(self.session, R::now());
        holds(Invariant::ShardSum, || asking.state().is_sum_of_sites());
        let asked = || asking.state().budget(group).map_or(0, |budget| budget.asked());
        holds(Invariant::AskedBack, || group.site.state().open > 0 || asked() == 0);
        if sometimes(Fault::LeakTask) {
            let kept = Rc::clone(asking);
            R::spawn(async move {
                std::future::pending::<()>().await;
                drop(kept);
            });
        }
        if asking.shared().stopping.load(Ordering::Relaxed) {
            return;
        }
        wake_network::<R>(asking, host);
        dispatch::<R>(asking, group, R::now());
        wake::<R>(asking, &group.site);
        wake_starved::<R>(asking);
    }
}

#[cfg(test)]
mod tests;
