//! What the end of a connection, a session or a transaction means for the route (an IP address of a host), for the pace of the site
//! (its limits, which adapt to what the site allows), and for the works (addresses) that have no reply yet.

use super::context::{Place, ProbeContext};
use crate::egress::connect::Unconnected;
use crate::egress::rest;
use crate::faults::{Fault, planted};
use crate::shared::Shared;
use crate::work::Work;
use crate::{Outage, Priority};
use engine_proto::decision::ending::{EndEffect, EndEffects, PaceEffect, on_session_end, on_session_refused};
use engine_proto::limits::{
    HANGUPS_MAX, PACE_PAUSE_MIN, RETURNS_MAX, ROUTE_DOWN, ROUTE_RETRY, STRIKES_MAX, WARNINGS_MAX,
};
use engine_proto::pace::Tally;
use engine_proto::smtp::dialog::Closure;
use engine_proto::smtp::reply::Reply;
use engine_proto::verdict::classify::{Classification, classify};
use engine_proto::verdict::{Class, ObservedReply};
use std::hash::BuildHasher;
use std::io::ErrorKind;
use std::time::{Duration, Instant};

/// Acts on a connection that could not be opened.
pub(super) fn unreachable(context: &ProbeContext<'_>, error: &Unconnected) {
    let (Place { asking, group, index, .. }, now) = (**context, context.now);
    let error = match error {
        Unconnected::Host(error) => error,
        Unconnected::Ours(_) => return context.state().set_resting(now + ROUTE_RETRY),
        Unconnected::Source(why) => {
            let (source, time) = (&asking.shared().pool.sources[group.source], asking.shared().age(now));
            source.on_failed(why, time);
            context.state().set_resting(now + ROUTE_RETRY);
            if source.connections.are_down(time) {
                group.take_all_waiting().into_iter().for_each(|work| work.fail(Outage::Unavailable));
            }
            return;
        }
    };
    asking.shared().on_not_reached(group.source, &group.site_name, now);
    if error.kind() == ErrorKind::TimedOut {
        died(context, "no_connection");
    } else if group.release_singles(index, "no_connection")
        && !context.state().on_connection_lost(STRIKES_MAX)
    {
        // A server that refuses the connection at once may be restarting, so the route is tried again soon.
        context.state().set_resting(now + ROUTE_RETRY);
    } else {
        context.state().set_down(now + ROUTE_DOWN, "no_connection");
    }
}

/// Acts on a connection that timed out or ended before any reply about a recipient. A busy host causes this at times, so it counts
/// as a push-back, and the route is taken out of use only after [`STRIKES_MAX`] such connections in a row. But single checks cannot
/// wait for that: for them, the route counts as tried from now on, so only other routes are used. If only single checks wait, the
/// route is taken out of use at once.
pub(super) fn died(context: &ProbeContext<'_>, rule: &'static str) {
    let least = if context.group.release_singles(context.index, rule) { STRIKES_MAX } else { 1 };
    if context.state().on_connection_lost(least) {
        context.state().set_down(context.now + ROUTE_DOWN, rule);
    } else {
        push_back(context, rule);
    }
}

/// Acts on a push-back (the site shows that we are too fast): lowers the pace of the site, and lets the route rest.
pub(super) fn push_back(context: &ProbeContext<'_>, rule: &'static str) {
    let (Place { asking, group, .. }, now) = (**context, context.now);
    let until = {
        let site = &mut *group.site.state();
        site.pace.on_pushed_back(now, site.open, asking.common.random());
        site.pace.pause(now).unwrap_or(now + Duration::from_millis(500))
    };
    rest_route(context, rule, until);
}

/// Acts on a host that took no session, because there are too many. If the sessions with other sites of its network are the cause,
/// they become fewer, and the site keeps its pace.
fn too_many(context: &ProbeContext<'_>, rule: &'static str) {
    let (Place { asking, group, .. }, now) = (**context, context.now);
    let site = asking.shared().hasher.hash_one(&group.site_name);
    if !asking.state().networks.on_too_many(context.route().address, site, now) {
        return push_back(context, rule);
    }
    group.site.state().pace.on_asked(now);
    rest_route(context, rule, now + PACE_PAUSE_MIN);
}

/// Lets the route rest: no session is opened over it before `until`. `rule` names the reply or event with which the site pushed
/// back. If single checks should not wait for that (`Group::is_hopeless`), the waiting ones are answered now.
pub(super) fn rest_route(context: &ProbeContext<'_>, rule: &'static str, until: Instant) {
    let (Place { asking, group, .. }, now) = (**context, context.now);
    group.site.state().pushed = rule;
    context.state().set_resting(until);
    if group.is_hopeless(now) {
        for work in group.take_singles() {
            answer_pushed_back(asking.shared(), work, rule, until, now);
        }
    }
}

/// Answers a single check that cannot wait for the next session at the site, which may begin at `until`.
pub(crate) fn answer_pushed_back(
    shared: &Shared,
    mut work: Work,
    rule: &'static str,
    until: Instant,
    now: Instant,
) {
    work.set_fallback(rule, Some(until.saturating_duration_since(now)));
    shared.give_up(work, now);
}

/// Acts on the end of a session before its first transaction.
pub(super) fn session_refused(context: &ProbeContext<'_>, closure: &Closure) {
    apply(context, on_session_refused(closure, |stage, reply| classify(&context.view(stage, reply, None))));
}

/// Acts on the end of a session during a transaction about works. Works without a reply go back to the front of the queue. But if
/// the first of them may have caused the end (`effects.suspect`), this work goes behind the waiting works of the same account
/// (`Work::owner`). It is answered instead if this has happened too often, or if its deadline has passed.
pub(super) fn cut_off(context: &ProbeContext<'_>, closure: &Closure, tally: &Tally) {
    let (group, effects) = (context.group, effects_of_end(context, closure, tally));
    let suspect = effects.suspect.and_then(|_| context.works().in_flight.take_first());
    put_back_rest(context);
    apply_end(context, effects, tally);
    let Some((mut work, rule)) = suspect.zip(effects.suspect) else { return };
    if let EndEffect::SlowDown(reply, said) = effects.host {
        context.remember_reply(&mut work, reply, &said, context.now);
        work.set_fallback_by_reply(said.rule, Some(ROUTE_DOWN));
    } else {
        work.set_fallback_at(&context.route().host, None, rule);
    }
    // If the session got answers before, the work was probably not the cause, so this does not count.
    work.returns += u8::from(tally.answers == 0);
    let most = if work.priority == Priority::Single { 1 } else { RETURNS_MAX };
    if work.returns > most || work.deadline <= context.now {
        context.asking.shared().give_up(work, context.now);
    } else {
        group.enqueue(work);
    }
}

/// Records what the end of a session, during or after a transaction, shows about the host and the site. Returns the reply with
/// which the host ended the session, if it says that we are too fast or not wanted.
pub(super) fn blame<'a>(
    context: &ProbeContext<'_>,
    closure: &'a Closure,
    tally: &Tally,
) -> Option<(&'a Reply, Classification)> {
    let effects = effects_of_end(context, closure, tally);
    apply_end(context, effects, tally);
    match effects.host {
        EndEffect::SlowDown(reply, said) => Some((reply, said)),
        _ => None,
    }
}

fn effects_of_end<'a>(context: &ProbeContext<'_>, closure: &'a Closure, tally: &Tally) -> EndEffects<'a> {
    let heeds_words = !planted(Fault::IgnoreBusy);
    on_session_end(closure, tally, heeds_words, |stage, reply| classify(&context.view(stage, reply, None)))
}

fn apply_end(context: &ProbeContext<'_>, effects: EndEffects<'_>, tally: &Tally) {
    {
        let site = &mut *context.group.site.state();
        match effects.pace {
            Some(PaceEffect::BrokeBetween) => site.pace.on_broke_between(tally),
            Some(PaceEffect::CutOff(end)) => site.pace.on_cut_off(tally, end, site.open),
            None => {}
        }
    }
    {
        let known = &mut *context.state();
        let habits = known.habits_mut();
        habits.ends_at_refusal |= effects.ends_at_refusal;
        habits.ends_at_ehlo |= effects.ends_at_ehlo;
    }
    apply(context, effects.host);
}

/// Applies the effect that the end of a session has on its route and its site.
fn apply(context: &ProbeContext<'_>, effect: EndEffect<'_>) {
    let (Place { asking, group, .. }, now) = (**context, context.now);
    match effect {
        EndEffect::Nothing => {}
        EndEffect::PlainOnly => context.state().habits_mut().plain = true,
        EndEffect::PushBack(rule) => push_back(context, rule),
        EndEffect::TooMany(rule) => too_many(context, rule),
        EndEffect::SlowDown(_, said) => slow_down(context, &said),
        EndEffect::Refused(reply, said) => {
            context.state().set_down_by(now + ROUTE_DOWN, said.rule, ObservedReply::new(reply, &said, now));
            if rest::is_block(asking, &said) {
                rest::on_blocked(asking, group, said.rule, now);
            }
        }
        EndEffect::Died(rule) => died(context, rule),
        EndEffect::HungUp(rule) => {
            if context.state().on_connection_lost(HANGUPS_MAX) {
                context.state().set_down(now + ROUTE_DOWN, rule);
            }
        }
        EndEffect::NotSmtp => context.state().set_down(now + ROUTE_DOWN, "not_smtp"),
    }
}

/// Acts on a reply that says that we are too fast or not wanted: the site gets a pause, and the rate of new sessions is halved.
/// After [`WARNINGS_MAX`] replies that say that we are not wanted, without an accept in between, the route is taken out of use. If
/// the last of these replies is a block of our source, the source may then begin to rest at the site ([`rest::on_blocked`]).
pub(super) fn slow_down(context: &ProbeContext<'_>, said: &Classification) {
    let (Place { asking, group, .. }, now) = (**context, context.now);
    let site = &group.site;
    let (first, until) = {
        let site = &mut *site.state();
        // If the site ends several sessions at the same time, this counts once.
        let first = site.pace.pause(now).is_none();
        site.pace.on_too_fast(now, site.open, asking.common.random());
        (first, site.pace.pause(now).unwrap_or(now))
    };
    rest_route(context, said.rule, until);
    if first && said.class == Class::Policy && context.state().on_warning(WARNINGS_MAX) {
        context.state().set_down(now + ROUTE_DOWN, said.rule);
        if rest::is_block(asking, said) {
            rest::on_blocked(asking, group, said.rule, now);
        }
    }
}

/// Acts on a transaction that has taken too long. The server probably hangs at the first work without a reply. This work goes
/// behind the waiting works of the same account and has transactions of its own from now on. After [`RETURNS_MAX`] returns it is
/// answered. The other works go back to the front of the queue. Works with a deadline that has passed are answered instead.
pub(super) fn out_of_time(context: &ProbeContext<'_>) {
    let (group, now) = (context.group, context.now);
    let mut suspect = context.works().in_flight.take_first();
    if let Some(work) = &mut suspect {
        work.suspect = true;
        work.returns += 1;
    }
    let others = context.works().in_flight.take_all();
    let give_up = |work| context.asking.shared().give_up(work, now);
    for work in others.into_iter().rev() {
        if work.deadline > now { group.put_back(work) } else { give_up(work) }
    }
    if let Some(work) = suspect {
        if work.deadline > now && work.returns <= RETURNS_MAX { group.enqueue(work) } else { give_up(work) }
    }
}

/// Puts the works without a reply back to the front of the queue. True if there were none.
pub(super) fn put_back_rest(context: &ProbeContext<'_>) -> bool {
    let rest = context.works().in_flight.take_all();
    let none = rest.is_empty();
    rest.into_iter().rev().for_each(|work| context.group.put_back(work));
    none
}
