//! What the end of a connection, of a session or of a transaction says about the host, and what becomes of those who got
//! no answer.

use super::context::ProbeContext;
use super::put_back_rest;
use crate::egress::connect::Unconnected;
use crate::egress::rest;
use crate::in_flight::InFlight;
use crate::runtime::Runtime;
use crate::shard::Shard;
use crate::site::{DOWN, Group};
use crate::work::Work;
use crate::{Outage, Priority};
use engine_proto::limits::{RETURNS_MAX, STRIKES_MAX};
use engine_proto::pace::{End, Tally};
use engine_proto::smtp::dialog::{Closure, Step};
use engine_proto::verdict::classify::{Classification, classify};
use engine_proto::verdict::{Class, Scope, Stage};
use std::io::ErrorKind;
use std::rc::Rc;
use std::time::{Duration, Instant};

/// A connection could not be made.
pub(super) fn unreachable<R: Runtime>(
    shard: &Rc<Shard<R>>,
    group: &Rc<Group>,
    index: usize,
    error: &Unconnected,
) {
    let route = &group.routes[index];
    let now = R::now();
    let error = match error {
        Unconnected::Host(error) => error,
        Unconnected::Ours(_) => return route.set_resting(now + RETRY),
        Unconnected::Source(why) => {
            let (source, time) = (&shard.shared.pool.sources[group.source.get()], shard.shared.age(now));
            source.failed(why, time);
            route.set_resting(now + RETRY);
            if source.connections.are_down(time) {
                group.take_expired(None).into_iter().for_each(|work| work.fail(Outage::Unavailable));
            }
            return;
        }
    };
    shard.shared.not_reached(group.source.get(), &group.site_name, now);
    if error.kind() == ErrorKind::TimedOut {
        died(shard, group, index, "no_connection");
    } else if group.is_patient(index, "no_connection") && !route.on_connection_lost(STRIKES_MAX) {
        // It says at once that nobody listens: a server that is restarted does.
        route.set_resting(now + RETRY);
    } else {
        route.set_down(now + DOWN, "no_connection");
    }
}

/// How long a route is left alone after a failure that may pass at once.
pub(super) const RETRY: Duration = Duration::from_secs(2);

/// A connection died without a word that means anything. A busy host does so at times; one that always does is
/// down. Nobody who waits for an answer waits for that.
pub(super) fn died<R: Runtime>(shard: &Rc<Shard<R>>, group: &Rc<Group>, index: usize, rule: &'static str) {
    let route = &group.routes[index];
    let patience = if group.is_patient(index, rule) { STRIKES_MAX } else { 1 };
    if route.on_connection_lost(patience) {
        route.set_down(R::now() + DOWN, rule);
    } else {
        push_back(&ProbeContext { shard, group, index }, rule);
    }
}

/// A site has too much: its pace is lowered and the route rests.
pub(super) fn push_back<R: Runtime>(context: &ProbeContext<'_, R>, rule: &'static str) {
    let ProbeContext { shard, group, index } = *context;
    let (now, site) = (R::now(), &group.site);
    let mut pace = site.pace.borrow_mut();
    pace.pushed_back(now, site.open.get(), shard.random());
    let until = pace.pause(now).unwrap_or(now + Duration::from_millis(500));
    drop(pace);
    pushed(group, index, rule, until, now);
}

/// A route rests because its site pushed back. Where that takes long, nobody waits for it who waits for an answer: there
/// is nothing to be gained.
pub(super) fn pushed(group: &Group, index: usize, rule: &'static str, until: Instant, now: Instant) {
    group.site.pushed.set(rule);
    group.routes[index].set_resting(until);
    if group.is_hopeless(now) {
        group.take_singles().into_iter().for_each(|work| pushed_away(work, rule, until, now));
    }
}

/// The site lets nobody in for longer than somebody waits.
pub(crate) fn pushed_away(mut work: Work, rule: &'static str, until: Instant, now: Instant) {
    work.leave(rule, Some(until.saturating_duration_since(now)));
    work.give_up();
}

/// A session ended before it gave a single answer.
pub(super) fn session_refused<R: Runtime>(
    shard: &Rc<Shard<R>>,
    group: &Rc<Group>,
    index: usize,
    closure: &Closure,
) {
    let route = &group.routes[index];
    match closure {
        // A server that fails at STARTTLS may work without it, as one may whose handshake fails (RFC 7435).
        Closure::TlsFailed
        | Closure::Refused { step: Step::StartTls, .. }
        | Closure::Closed(Step::StartTls)
        | Closure::TimedOut(Step::StartTls)
        | Closure::Garbled(Step::StartTls, _)
        | Closure::Unexpected(Step::StartTls) => {
            if route.plain_only.replace(true) {
                route.set_down(R::now() + DOWN, "tls_failed");
            }
        }
        Closure::Refused { step, reply } => {
            let context = ProbeContext { shard, group, index };
            let said = classify(&context.view(stage(*step), reply, None));
            let passes =
                !reply.is_permanent() && (said.class == Class::Temporary || said.scope == Scope::Session);
            if said.class == Class::Throttled || passes {
                push_back(&context, said.rule);
            } else {
                route.set_down(R::now() + DOWN, said.rule);
                if rest::is_block(shard, &said) {
                    rest::blocked(shard, group, said.rule);
                }
            }
        }
        Closure::Closed(_) => died(shard, group, index, "hung_up"),
        Closure::TimedOut(_) => died(shard, group, index, "no_answer_in_time"),
        Closure::Garbled(..) | Closure::Unexpected(_) => {
            route.set_down(R::now() + DOWN, "not_smtp");
        }
        Closure::Quit => {}
    }
}

pub(super) fn stage(step: Step) -> Stage {
    match step {
        Step::Banner => Stage::Banner,
        Step::Ehlo | Step::Helo | Step::StartTls | Step::Handshake => Stage::Ehlo,
        Step::Rset | Step::Mail | Step::Idle => Stage::Mail,
        Step::Rcpt(_) => Stage::Rcpt,
    }
}

/// How many sessions in a row a host may end with words about us before it is left alone for longer.
pub(super) const REST_AFTER: u8 = 3;

/// How many sessions in a row may end at their first recipient before that is laid to the host.
pub(super) const HANGUPS_MAX: u8 = 10;

/// A session ended in the middle of a transaction. Who got an answer has it; the others are asked again. Where it ended
/// at a recipient, that one may be why, so it is asked last, and not for ever.
pub(super) fn cut_off<R: Runtime>(
    context: &ProbeContext<'_, R>,
    in_flight: &InFlight,
    closure: &Closure,
    tally: &Tally,
) {
    let group = context.group;
    let blameless = tally.answers > 0 && !ends_at_recipient(closure);
    let suspect = if blameless { None } else { in_flight.take_first() };
    put_back_rest(group, in_flight);
    blame(context, closure, tally);
    let Some(mut work) = suspect else { return };
    work.leave(busy(context, closure).map_or("hung_up", |said| said.rule), Some(DOWN));
    // With answers before it, the session's end was hardly this one's doing.
    work.returns += u8::from(tally.answers == 0);
    let most = if work.priority == Priority::Single { 1 } else { RETURNS_MAX };
    if work.returns > most || work.deadline <= R::now() {
        work.give_up();
    } else {
        group.enqueue(work);
    }
}

/// What the server said of us when it ended the session with 421, at a recipient or behind it: that we are too fast, or ask
/// about too many who do not exist, or are not wanted. `None` where it says nothing of the kind.
pub(super) fn busy<R: Runtime>(context: &ProbeContext<'_, R>, closure: &Closure) -> Option<Classification> {
    let Closure::Refused { step: Step::Rcpt(_) | Step::Rset | Step::Mail | Step::Idle, reply } = closure
    else {
        return None;
    };
    #[cfg(feature = "sim")]
    if crate::sim::planted(crate::sim::Fault::IgnoreBusy) {
        return None;
    }
    let said = classify(&context.view(Stage::Rcpt, reply, None));
    let about_us = matches!(said.scope, Scope::Us | Scope::Sender);
    (about_us && matches!(said.class, Class::Throttled | Class::Policy)).then_some(said)
}

pub(super) fn ends_at_recipient(closure: &Closure) -> bool {
    matches!(
        closure,
        Closure::Refused { step: Step::Rcpt(_), .. }
            | Closure::Closed(Step::Rcpt(_))
            | Closure::TimedOut(Step::Rcpt(_))
    )
}

/// Whether a server that answered for recipients broke off at the commands that begin another transaction.
fn breaks_between(closure: &Closure) -> bool {
    matches!(
        closure,
        Closure::Garbled(Step::Rset | Step::Mail, _)
            | Closure::Unexpected(Step::Rset | Step::Mail)
            | Closure::TimedOut(Step::Rset | Step::Mail)
    )
}

/// What a session's end in the middle of a transaction says about the host.
pub(super) fn blame<R: Runtime>(context: &ProbeContext<'_, R>, closure: &Closure, tally: &Tally) {
    let ProbeContext { shard, group, index } = *context;
    let at_recipient = ends_at_recipient(closure);
    let hung_up = matches!(closure, Closure::Refused { .. } | Closure::Closed(_));
    if tally.answers > 0 && breaks_between(closure) {
        group.site.pace.borrow_mut().broke_between(tally);
    } else if tally.answers > 0 && (hung_up || tally.errors > 0) {
        let end = if at_recipient { End::Recipient } else { End::Between };
        let site = &group.site;
        site.pace.borrow_mut().cut_off(tally, end, site.open.get());
    }
    if let Some(said) = busy(context, closure) {
        slow_down(context, &said);
    } else if at_recipient && tally.errors == 0 && matches!(closure, Closure::Refused { .. }) {
        push_back(context, "hung_up");
    } else if tally.answers == 0 && !at_recipient {
        session_refused(shard, group, index, closure);
    } else if tally.answers == 0 && group.routes[index].on_connection_lost(HANGUPS_MAX) {
        group.routes[index].set_down(R::now() + DOWN, "hung_up");
    }
}

/// The site says that we are too fast or not wanted: it is left alone for a while, and the rate of new sessions is halved.
/// Where it goes on to say so, the source rests there.
pub(super) fn slow_down<R: Runtime>(context: &ProbeContext<'_, R>, said: &Classification) {
    let ProbeContext { shard, group, index } = *context;
    let (now, site) = (R::now(), &group.site);
    let mut pace = site.pace.borrow_mut();
    // The sessions of one burst are ended together: that is one sign, not many.
    let first = pace.pause(now).is_none();
    pace.too_fast(now, site.open.get(), shard.random());
    let until = pace.pause(now).unwrap_or(now);
    drop(pace);
    pushed(group, index, said.rule, until, now);
    if first && said.class == Class::Policy && context.route().on_warning(REST_AFTER) {
        context.route().set_down(now + DOWN, said.rule);
        if rest::is_block(shard, said) {
            rest::blocked(shard, group, said.rule);
        }
    }
}
