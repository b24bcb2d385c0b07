//! The life of a session task: a route, a connection, transactions while there is work, and what every answer
//! and every end means for those who wait.

use crate::runtime::Runtime;
use crate::session::Session;
use crate::shard::Shard;
use crate::site::{DOWN, Group, Next};
use crate::work::Work;
use crate::{Finding, Priority};
use engine_proto::address::Domain;
use engine_proto::limits::{RETURNS_MAX, SESSION_IDLE, STRIKES_MAX};
use engine_proto::pace::Start;
use engine_proto::smtp::dialog::{Closure, Event, Step};
use engine_proto::smtp::reply::Reply;
use engine_proto::verdict::catch_all::{ControlFinding, accepts_everything, control_local_part};
use engine_proto::verdict::classify::{Classification, ReplyView, classify, reason_at_rcpt};
use engine_proto::verdict::{Class, Reason, Scope, Stage};
use std::future::poll_fn;
use std::rc::Rc;
use std::task::Poll;
use std::time::{Duration, Instant};

/// What a session task does behind a session.
enum Then {
    /// Another session, if there is work.
    Again,
    /// Nothing: there is none.
    End,
}

/// Serves a group over sessions, one after the other, until nothing waits or nothing can be tried now.
pub(crate) async fn serve<R: Runtime>(shard: &Rc<Shard<R>>, group: &Rc<Group>) {
    let mut first = true;
    while group.waiting() > 0 {
        let Next::Route(index) = group.next(Instant::now()) else { break };
        if !std::mem::take(&mut first) && !group.site.start_another(Instant::now()) {
            break;
        }
        let Some(session) = open(shard, group, index).await else { continue };
        if let Then::End = converse(shard, group, index, session).await {
            break;
        }
    }
    strand(shard, group);
}

/// Answers those for whom no route is left.
fn strand<R: Runtime>(shard: &Rc<Shard<R>>, group: &Rc<Group>) {
    let now = Instant::now();
    for work in group.take_stranded(now) {
        work.give_up();
    }
    if group.next(now) == Next::Nothing {
        for domain in group.take_controls(usize::MAX) {
            shard.knowledge.borrow_mut().learned(&domain, ControlFinding::Unknown, now);
        }
    }
}

/// Connects to a route and brings the session to where it takes transactions; `None` when it does not get there.
async fn open<R: Runtime>(shard: &Rc<Shard<R>>, group: &Rc<Group>, index: usize) -> Option<Session<R>> {
    let route = &group.routes[index];
    let destination = (route.address, shard.smtp_port).into();
    let config = Rc::clone(&shard.sessions);
    let starttls = !route.plain_only.get();
    let limit = Instant::now() + shard.session_limit;
    let story = shard.story();
    match Session::connect(config, Rc::clone(&route.host), destination, starttls, limit, story).await {
        Ok(mut session) => match session.next().await {
            Event::Ready => Some(session),
            Event::Over(closure) => {
                shard.tell(group, session.story.take());
                refused(shard, group, index, &closure);
                None
            }
            // The dialog says nothing else before it is ready.
            _ => None,
        },
        Err((error, story)) => {
            shard.tell(group, story);
            let silent = error.kind() == std::io::ErrorKind::TimedOut;
            unreachable(shard, group, index, silent);
            None
        }
    }
}

/// A connection could not be made.
fn unreachable<R: Runtime>(shard: &Rc<Shard<R>>, group: &Rc<Group>, index: usize, silent: bool) {
    if silent {
        died(shard, group, index, "no_connection");
    } else {
        group.routes[index].take_down(Instant::now() + DOWN, "no_connection");
    }
}

/// A connection died without a word that means anything. A busy host does so at times; one that always does is
/// down. Nobody who waits for an answer waits for that.
fn died<R: Runtime>(shard: &Rc<Shard<R>>, group: &Rc<Group>, index: usize, rule: &'static str) {
    let route = &group.routes[index];
    let patience = if group.is_patient() { STRIKES_MAX } else { 1 };
    if route.strike(patience) {
        route.take_down(Instant::now() + DOWN, rule);
    } else {
        push_back(shard, group, index);
    }
}

/// A site has too much: its pace is lowered and the route rests.
fn push_back<R: Runtime>(shard: &Rc<Shard<R>>, group: &Rc<Group>, index: usize) {
    let now = Instant::now();
    let mut pace = group.site.pace.borrow_mut();
    pace.pushed_back(now, group.site.open.get(), shard.random());
    let rest = match pace.may_start(now, 0) {
        Start::At(until) => until,
        Start::Now | Start::WhenOneEnds => now + Duration::from_millis(500),
    };
    group.routes[index].rest(rest);
}

/// A session ended before it gave a single answer.
fn refused<R: Runtime>(shard: &Rc<Shard<R>>, group: &Rc<Group>, index: usize, closure: &Closure) {
    let route = &group.routes[index];
    match closure {
        Closure::TlsFailed => {
            if route.plain_only.replace(true) {
                route.take_down(Instant::now() + DOWN, "tls_failed");
            }
        }
        Closure::Refused { step, reply } => {
            let said = classify(&ReplyView { stage: stage(*step), mx: &route.host, reply });
            if matches!(said.class, Class::Throttled | Class::Temporary) || said.scope == Scope::Session {
                push_back(shard, group, index);
            } else {
                route.take_down(Instant::now() + DOWN, said.rule);
            }
        }
        Closure::Closed(_) => died(shard, group, index, "hung_up"),
        Closure::TimedOut(_) => died(shard, group, index, "no_answer_in_time"),
        Closure::Garbled(..) | Closure::Unexpected(_) => {
            route.take_down(Instant::now() + DOWN, "not_smtp");
        }
        Closure::Quit => {}
    }
}

fn stage(step: Step) -> Stage {
    match step {
        Step::Banner => Stage::Banner,
        Step::Ehlo | Step::Helo | Step::StartTls | Step::Handshake => Stage::Ehlo,
        Step::Rset | Step::Mail | Step::Idle => Stage::Mail,
        Step::Rcpt(_) => Stage::Rcpt,
    }
}

/// Counts of one session.
#[derive(Default)]
struct Tally {
    asked: u32,
    errors: u32,
    answers: u32,
}

/// Holds transactions on an open session while there is work for it.
async fn converse<R: Runtime>(
    shard: &Rc<Shard<R>>,
    group: &Rc<Group>,
    index: usize,
    mut session: Session<R>,
) -> Then {
    let mut tally = Tally::default();
    loop {
        let extensions = session.dialog.extensions();
        let room = group.site.pace.borrow().group(tally.asked, tally.errors);
        let room = room.min(extensions.recipients_max.map_or(usize::MAX, |most| most as usize));
        if room == 0 {
            group.site.pace.borrow_mut().budget_held();
            session.quit().await;
            return Then::Again;
        }
        let controls = group.take_controls(room);
        let over = if !controls.is_empty() {
            ask_controls(shard, group, index, &mut session, controls, &mut tally).await
        } else {
            let works = refuse_utf8(group.take(index, room), extensions.smtputf8);
            if works.is_empty() {
                if group.waiting() > 0 {
                    // What waits is for another route.
                    session.quit().await;
                    return Then::Again;
                }
                if shard.is_crowded() || !idle::<R>(group).await {
                    session.quit().await;
                    return Then::End;
                }
                continue;
            }
            ask(shard, group, index, &mut session, works, &mut tally).await
        };
        if over {
            return Then::Again;
        }
    }
}

/// RFC 6531 3.4: without SMTPUTF8 a server cannot be asked about a local part beyond ASCII.
fn refuse_utf8(works: Vec<Work>, smtputf8: bool) -> Vec<Work> {
    let (can, cannot): (Vec<_>, Vec<_>) =
        works.into_iter().partition(|work| smtputf8 || !work.address.needs_smtputf8());
    for work in cannot {
        work.settle(Reason::Unverifiable, "no_smtputf8");
    }
    can
}

/// Waits for more work; false when none comes.
async fn idle<R: Runtime>(group: &Rc<Group>) -> bool {
    let mut registered = false;
    let work = poll_fn(|context| {
        if group.waiting() > 0 {
            return Poll::Ready(());
        }
        if !registered {
            registered = true;
            group.idle(context.waker().clone());
        }
        Poll::Pending
    });
    R::before(Instant::now() + SESSION_IDLE, work).await.is_some()
}

/// One transaction for recipients that are asked about. True when the session is over.
async fn ask<R: Runtime>(
    shard: &Rc<Shard<R>>,
    group: &Rc<Group>,
    index: usize,
    session: &mut Session<R>,
    works: Vec<Work>,
    tally: &mut Tally,
) -> bool {
    let mut works: Vec<Option<Work>> = works.into_iter().map(Some).collect();
    let now = Instant::now();
    session.limit = works.iter().flatten().map(|work| work.deadline).max().unwrap_or(now).max(now);
    let smtputf8 = works.iter().flatten().any(|work| work.address.needs_smtputf8());
    session.dialog.transact(now, works.iter().flatten().map(|work| work.address.as_str()), smtputf8);
    tally.asked += works.len() as u32;
    loop {
        let event = session.next().await;
        record(session, &mut works);
        match event {
            Event::Answered { index: at, reply } => {
                tally.answers += 1;
                tally.errors += u32::from(!reply.is_positive());
                group.routes[index].works();
                if let Some(work) = works.get_mut(usize::from(at)).and_then(Option::take) {
                    answered(shard, group, index, work, &reply);
                }
            }
            Event::MailRefused(reply) => mail_refused(shard, group, index, &mut works, &reply),
            Event::Ready => {
                group.site.pace.borrow_mut().answered();
                // Every recipient has its answer, or MAIL was refused and all were seen to.
                return !put_back_rest(group, &mut works);
            }
            Event::Over(closure) => {
                cut_off(shard, group, index, &mut works, &closure, tally);
                return true;
            }
            Event::StartTls => {}
        }
    }
}

/// Puts back what is left without an answer; true when that is nothing.
fn put_back_rest(group: &Group, works: &mut Vec<Option<Work>>) -> bool {
    let mut none = true;
    for work in works.drain(..).rev().flatten() {
        none = false;
        group.put_back(work);
    }
    none
}

/// Adds what was said to the stories of those whom it concerns.
fn record<R: Runtime>(session: &mut Session<R>, works: &mut [Option<Work>]) {
    let Some(story) = &mut session.story else { return };
    for work in works.iter_mut().flatten() {
        if let Some(trace) = &mut work.trace {
            trace.extend(story.iter().cloned());
        }
    }
    story.clear();
}

/// What an answer to RCPT means for the one it is about.
fn answered<R: Runtime>(
    shard: &Rc<Shard<R>>,
    group: &Rc<Group>,
    index: usize,
    mut work: Work,
    reply: &Reply,
) {
    let route = &group.routes[index];
    let said = classify(&ReplyView { stage: Stage::Rcpt, mx: &route.host, reply });
    work.note(|| format!("rule {}: {:?}, scope {:?}", said.rule, said.class, said.scope));
    match said.class {
        Class::Accepted | Class::ExistsThrottled if accepts_everything(&route.host) => {
            work.settle(Reason::Unverifiable, "accepts_everything");
        }
        Class::Accepted | Class::ExistsThrottled => {
            let domain = work.address.domain().clone();
            if shard.knowledge.borrow_mut().accepted(work, said, Instant::now()) {
                group.want_control(domain);
            }
        }
        Class::Throttled => {
            push_back(shard, group, index);
            come_back(group, work, said.rule);
        }
        Class::Greylisted => {
            work.finish(Finding {
                reason: Reason::Unverifiable,
                rule: said.rule,
                retry_after: Some(GREYLISTING_WAIT),
            });
        }
        _ if said.scope == Scope::Session => come_back(group, work, said.rule),
        Class::Temporary | Class::Relay | Class::Unclear | Class::AuthRequired => {
            ask_elsewhere(group, index, work, said.rule)
        }
        _ => work.settle(reason_at_rcpt(&said), said.rule),
    }
}

/// When a greylisted recipient may be asked again, if the server names no time: Postgrey's default delay is 300 s.
const GREYLISTING_WAIT: Duration = Duration::from_secs(300);

/// The recipient is asked again in another session, a few times.
fn come_back(group: &Group, mut work: Work, rule: &'static str) {
    work.returns += 1;
    work.leave(rule, Some(DOWN));
    if work.returns > RETURNS_MAX || work.deadline <= Instant::now() {
        work.give_up();
    } else {
        group.put_back(work);
    }
}

/// The host has nothing to say about the recipient: the other hosts are asked, if there are any.
fn ask_elsewhere(group: &Group, index: usize, mut work: Work, rule: &'static str) {
    let host = &group.routes[index].host;
    for (at, route) in group.routes.iter().enumerate() {
        if Rc::ptr_eq(&route.host, host) || at == index {
            work.tried |= 1 << at;
        }
    }
    work.leave(rule, Some(DOWN));
    group.put_back(work);
}

/// MAIL was refused: it is about us or the host, and about no recipient.
fn mail_refused<R: Runtime>(
    shard: &Rc<Shard<R>>,
    group: &Rc<Group>,
    index: usize,
    works: &mut [Option<Work>],
    reply: &Reply,
) {
    let route = &group.routes[index];
    let said = classify(&ReplyView { stage: Stage::Mail, mx: &route.host, reply });
    let throttled = said.class == Class::Throttled;
    if throttled {
        push_back(shard, group, index);
    }
    for work in works.iter_mut().rev() {
        let Some(mut work) = work.take() else { continue };
        work.note(|| format!("rule {}: {:?}, scope {:?}", said.rule, said.class, said.scope));
        if throttled {
            come_back(group, work, said.rule);
        } else {
            ask_elsewhere(group, index, work, said.rule);
        }
    }
}

/// How many sessions in a row may end at their first recipient before that is laid to the host.
const HANGUPS_MAX: u8 = 10;

/// A session ended in the middle of a transaction. Who got an answer has it; the others are asked again. The first
/// of them may be why the session ended, so it is asked last, and not for ever.
fn cut_off<R: Runtime>(
    shard: &Rc<Shard<R>>,
    group: &Rc<Group>,
    index: usize,
    works: &mut Vec<Option<Work>>,
    closure: &Closure,
    tally: &Tally,
) {
    let suspect = works.iter_mut().find_map(Option::take);
    put_back_rest(group, works);
    if tally.answers > 0 {
        group.site.pace.borrow_mut().hung_up(tally.errors);
    }
    let at_recipient = matches!(
        closure,
        Closure::Refused { step: Step::Rcpt(_), .. }
            | Closure::Closed(Step::Rcpt(_))
            | Closure::TimedOut(Step::Rcpt(_))
    );
    if at_recipient && tally.errors == 0 && matches!(closure, Closure::Refused { .. }) {
        push_back(shard, group, index);
    } else if tally.answers == 0 && !at_recipient {
        refused(shard, group, index, closure);
    } else if tally.answers == 0 && group.routes[index].strike(HANGUPS_MAX) {
        group.routes[index].take_down(Instant::now() + DOWN, "hung_up");
    }
    let Some(mut work) = suspect else { return };
    work.leave("hung_up", Some(DOWN));
    // With answers before it, the session's end was hardly this one's doing.
    work.returns += u8::from(tally.answers == 0);
    let most = if work.priority == Priority::Single { 1 } else { RETURNS_MAX };
    if work.returns > most || work.deadline <= Instant::now() {
        work.give_up();
    } else {
        group.enqueue(work);
    }
}

/// One transaction for control recipients, one a domain. True when the session is over.
async fn ask_controls<R: Runtime>(
    shard: &Rc<Shard<R>>,
    group: &Rc<Group>,
    index: usize,
    session: &mut Session<R>,
    domains: Vec<Domain>,
    tally: &mut Tally,
) -> bool {
    let now = Instant::now();
    session.limit = now + shard.session_limit;
    let recipients: Vec<String> = domains
        .iter()
        .map(|domain| format!("{}@{}", control_local_part(shard.random_bytes()), domain.as_str()))
        .collect();
    session.dialog.transact(now, recipients.iter().map(String::as_str), false);
    tally.asked += domains.len() as u32;
    let mut domains: Vec<Option<Domain>> = domains.into_iter().map(Some).collect();
    let over = loop {
        let event = session.next().await;
        shard.tell_domains(&domains, session.story.as_mut());
        match event {
            Event::Answered { index: at, reply } => {
                tally.answers += 1;
                tally.errors += u32::from(!reply.is_positive());
                if let Some(domain) = domains.get_mut(usize::from(at)).and_then(Option::take) {
                    control_answered(shard, group, index, &domain, &reply);
                }
            }
            Event::Ready => break false,
            Event::Over(closure) => {
                if tally.answers == 0 {
                    refused(shard, group, index, &closure);
                } else {
                    group.site.pace.borrow_mut().hung_up(tally.errors);
                }
                break true;
            }
            Event::MailRefused(_) | Event::StartTls => {}
        }
    };
    for domain in domains.into_iter().flatten() {
        if shard.knowledge.borrow_mut().unanswered(&domain, Instant::now()) {
            group.want_control(domain);
        }
    }
    over
}

fn control_answered<R: Runtime>(
    shard: &Rc<Shard<R>>,
    group: &Rc<Group>,
    index: usize,
    domain: &Domain,
    reply: &Reply,
) {
    let said: Classification =
        classify(&ReplyView { stage: Stage::Control, mx: &group.routes[index].host, reply });
    let again = (said.class == Class::Throttled || said.scope == Scope::Session) && {
        push_back(shard, group, index);
        shard.knowledge.borrow_mut().unanswered(domain, Instant::now())
    };
    if again {
        group.want_control(domain.clone());
    } else {
        shard.knowledge.borrow_mut().learned(domain, ControlFinding::of(&said), Instant::now());
    }
}
