//! What the end of a connection, a session or a transaction means: for the host, and for the works without an answer.

use super::context::{Place, ProbeContext};
use crate::egress::connect::Unconnected;
use crate::egress::rest;
use crate::faults::{Fault, planted};
use crate::site::Group;
use crate::work::Work;
use crate::{Outage, Priority};
use engine_proto::decision::ending::{EndEffect, EndEffects, PaceEffect, on_session_end, on_session_refused};
use engine_proto::limits::{HANGUPS_MAX, HOST_DOWN, HOST_RETRY, RETURNS_MAX, STRIKES_MAX, WARNINGS_MAX};
use engine_proto::pace::Tally;
use engine_proto::smtp::dialog::Closure;
use engine_proto::smtp::reply::Reply;
use engine_proto::verdict::classify::{Classification, classify};
use engine_proto::verdict::{Class, ObservedReply};
use std::io::ErrorKind;
use std::time::{Duration, Instant};

/// A connection could not be made.
pub(super) fn unreachable(context: &ProbeContext<'_>, error: &Unconnected) {
    let (Place { asking, group, index, .. }, now) = (**context, context.now);
    let error = match error {
        Unconnected::Host(error) => error,
        Unconnected::Ours(_) => return context.state().set_resting(now + HOST_RETRY),
        Unconnected::Source(why) => {
            let (source, time) = (&asking.shared().pool.sources[group.source], asking.shared().age(now));
            source.on_failed(why, time);
            context.state().set_resting(now + HOST_RETRY);
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
        // A server that refuses connections at once may be restarting.
        context.state().set_resting(now + HOST_RETRY);
    } else {
        context.state().set_down(now + HOST_DOWN, "no_connection");
    }
}

/// A connection ended, or could not be made in time, without a meaningful reply. A busy host does so at times, so only
/// [`STRIKES_MAX`] such connections in a row take the route out of use. Single checks do not wait for that: they leave the route,
/// or if only single checks wait, it is taken out of use at once.
pub(super) fn died(context: &ProbeContext<'_>, rule: &'static str) {
    let patience = if context.group.release_singles(context.index, rule) { STRIKES_MAX } else { 1 };
    if context.state().on_connection_lost(patience) {
        context.state().set_down(context.now + HOST_DOWN, rule);
    } else {
        push_back(context, rule);
    }
}

/// The site pushed back: its pace is lowered and the route rests.
pub(super) fn push_back(context: &ProbeContext<'_>, rule: &'static str) {
    let (Place { asking, group, index, .. }, now) = (**context, context.now);
    let site = &group.site;
    let until = {
        let site = &mut *site.state();
        site.pace.on_pushed_back(now, site.open, asking.common.random());
        site.pace.pause(now).unwrap_or(now + Duration::from_millis(500))
    };
    rest_route(group, index, rule, until, now);
}

/// Lets a route rest because its site pushed back. If the site has pushed back for a while, single checks are answered, because
/// waiting cannot help them.
pub(super) fn rest_route(group: &Group, index: usize, rule: &'static str, until: Instant, now: Instant) {
    group.site.state().pushed = rule;
    group.route_state(index).set_resting(until);
    if group.is_hopeless(now) {
        group.take_singles().into_iter().for_each(|work| answer_pushed_back(work, rule, until, now));
    }
}

/// Answers a work because its site will admit no session before `until`, and the work cannot wait so long.
pub(crate) fn answer_pushed_back(mut work: Work, rule: &'static str, until: Instant, now: Instant) {
    work.set_fallback(rule, Some(until.saturating_duration_since(now)));
    work.give_up();
}

/// A session ended before it could take a transaction.
pub(super) fn session_refused(context: &ProbeContext<'_>, closure: &Closure) {
    apply(context, on_session_refused(closure, |stage, reply| classify(&context.view(stage, reply, None))));
}

/// A session ended in the middle of a transaction. Works without an answer are put back. If the session ended at one of them, this
/// work may be the cause: it is queued after the others, and is answered if that has happened too often.
pub(super) fn cut_off(context: &ProbeContext<'_>, closure: &Closure, tally: &Tally) {
    let (group, effects) = (context.group, effects_of_end(context, closure, tally));
    let suspect = effects.suspect.and_then(|_| context.works().in_flight.take_first());
    put_back_rest(context);
    apply_end(context, effects, tally);
    let Some((mut work, rule)) = suspect.zip(effects.suspect) else { return };
    if let EndEffect::SlowDown(reply, said) = effects.host {
        context.remember_reply(&mut work, reply, &said, context.now);
        work.set_fallback_heard(said.rule, Some(HOST_DOWN));
    } else {
        work.set_fallback_at(&context.route().host, None, rule, HOST_DOWN);
    }
    // If there were answers before, the session's end was hardly caused by this work.
    work.returns += u8::from(tally.answers == 0);
    let most = if work.priority == Priority::Single { 1 } else { RETURNS_MAX };
    if work.returns > most || work.deadline <= context.now {
        work.give_up();
    } else {
        group.enqueue(work);
    }
}

/// Records what the end of a session in a transaction shows about the host. Returns the reply by which the host ended the session,
/// if that reply is about us.
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
    apply(context, effects.host);
}

/// Applies the effect of the end of a session on its host.
fn apply(context: &ProbeContext<'_>, effect: EndEffect<'_>) {
    let (Place { asking, group, .. }, now) = (**context, context.now);
    match effect {
        EndEffect::Nothing => {}
        EndEffect::TlsFailed => {
            if context.state().on_tls_failed() {
                context.state().set_down(now + HOST_DOWN, "tls_failed");
            }
        }
        EndEffect::PushBack(rule) => push_back(context, rule),
        EndEffect::SlowDown(_, said) => slow_down(context, &said),
        EndEffect::Refused(reply, said) => {
            context.state().set_down_by(now + HOST_DOWN, &said, ObservedReply::new(reply, &said, now));
            if rest::is_block(asking, &said) {
                rest::on_blocked(asking, group, said.rule, now);
            }
        }
        EndEffect::Died(rule) => died(context, rule),
        EndEffect::HungUp => {
            if context.state().on_connection_lost(HANGUPS_MAX) {
                context.state().set_down(now + HOST_DOWN, "hung_up");
            }
        }
        EndEffect::NotSmtp => context.state().set_down(now + HOST_DOWN, "not_smtp"),
    }
}

/// The site says that we are too fast or not wanted: it gets a pause, and the rate of new sessions is halved. If it says repeatedly
/// that we are not wanted, the route is taken out of use, and after a block the source rests at the site.
pub(super) fn slow_down(context: &ProbeContext<'_>, said: &Classification) {
    let (Place { asking, group, index, .. }, now) = (**context, context.now);
    let site = &group.site;
    let (first, until) = {
        let site = &mut *site.state();
        // A site may end many sessions at the same time: that is one sign, not many.
        let first = site.pace.pause(now).is_none();
        site.pace.on_too_fast(now, site.open, asking.common.random());
        (first, site.pace.pause(now).unwrap_or(now))
    };
    rest_route(group, index, said.rule, until, now);
    if first && said.class == Class::Policy && context.state().on_warning(WARNINGS_MAX) {
        context.state().set_down(now + HOST_DOWN, said.rule);
        if rest::is_block(asking, said) {
            rest::on_blocked(asking, group, said.rule, now);
        }
    }
}

/// The time of a transaction is over: answers the works with a deadline that has passed, and puts the others back. The first work
/// without an answer is probably the cause, so it is asked about alone from now on, and only a few times.
pub(super) fn out_of_time(context: &ProbeContext<'_>) {
    let (group, now) = (context.group, context.now);
    let mut suspect = context.works().in_flight.take_first();
    if let Some(work) = &mut suspect {
        work.suspect = true;
        work.returns += 1;
    }
    let others = context.works().in_flight.take_all();
    for work in others.into_iter().rev().filter_map(|work| in_time(work, now)) {
        group.put_back(work);
    }
    if let Some(work) = suspect.and_then(|work| in_time(work, now)) {
        if work.returns > RETURNS_MAX { work.give_up() } else { group.enqueue(work) }
    }
}

/// Returns a work before its deadline, and answers it after that.
fn in_time(work: Work, now: Instant) -> Option<Work> {
    if work.deadline > now {
        return Some(work);
    }
    work.give_up();
    None
}

/// Puts the works without an answer back. True if there were none.
pub(super) fn put_back_rest(context: &ProbeContext<'_>) -> bool {
    let rest = context.works().in_flight.take_all();
    let none = rest.is_empty();
    rest.into_iter().rev().for_each(|work| context.group.put_back(work));
    none
}
