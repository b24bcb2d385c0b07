//! The life of a session task: a route, a connection, transactions while there is work, and what every answer
//! and every end means for those who wait.

mod controls;
mod transaction;

use crate::egress::connect::Unconnected;
use crate::egress::rest;
use crate::flight::Flight;
use crate::runtime::Runtime;
use crate::session::Session;
use crate::shard::Shard;
use crate::site::{Chorus, DOWN, Group, Next};
use crate::work::Work;
use crate::{Finding, Outage, Priority};
use engine_proto::limits::{RETURNS_MAX, SESSION_IDLE, STRIKES_MAX};
use engine_proto::pace::{End, Tally};
use engine_proto::smtp::dialog::{Closure, Event, Step};
use engine_proto::smtp::reply::Reply;
use engine_proto::verdict::classify::{Classification, ReplyView, classify, reason_at_rcpt};
use engine_proto::verdict::{Class, Reason, Scope, Stage};
use std::future::poll_fn;
use std::io::ErrorKind;
use std::rc::Rc;
use std::task::Poll;
use std::time::{Duration, Instant};
use transaction::{After, Answered, Course, Heard, Recipients, Scene};

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
        let Next::Route(index) = group.next(R::now()) else { break };
        if !std::mem::take(&mut first) && !group.site.start_another(R::now()) {
            break;
        }
        let then = match open(shard, group, index).await {
            Some(session) => converse(shard, group, index, session).await,
            None => Then::Again,
        };
        strand(shard, group);
        if let Then::End = then {
            break;
        }
    }
    strand(shard, group);
}

/// Answers those for whom no route is left.
pub(crate) fn strand<R: Runtime>(shard: &Rc<Shard<R>>, group: &Rc<Group>) {
    let now = R::now();
    for control in group.take_stranded_controls(now) {
        // Its host accepted somebody and is gone: another one may answer for both.
        for mut work in shard.knowledge.borrow_mut().released(&control) {
            work.tried |= group.routes_of(&control.host);
            work.leave("control_unclear", Some(DOWN));
            group.put_back(work);
        }
    }
    group.take_stranded(now).into_iter().for_each(|work| shard.give_up(work));
}

/// Connects to a route and brings the session to where it takes transactions; `None` when it does not get there.
async fn open<R: Runtime>(shard: &Rc<Shard<R>>, group: &Rc<Group>, index: usize) -> Option<Box<Session<R>>> {
    let route = &group.routes[index];
    let destination = (route.address, shard.smtp_port).into();
    let source = group.source.get();
    let config = Rc::clone(&shard.sessions[source]);
    let starttls = !route.plain_only.get();
    let limit = R::now() + shard.session_limit;
    let story = shard.story();
    let connected =
        Session::connect(config, Rc::clone(&route.host), destination, starttls, limit, story).await;
    let mut session = match connected {
        Ok(session) => session,
        Err((error, story)) => {
            shard.tell(group, story);
            unreachable(shard, group, index, &error);
            return None;
        }
    };
    shard.shared.reached(source);
    match session.next().await {
        Event::Ready => {
            route.begins();
            Some(session)
        }
        Event::Over(closure) => {
            shard.tell(group, session.story.take());
            refused(shard, group, index, &closure);
            None
        }
        // The dialog says nothing else before it is ready.
        _ => None,
    }
}

/// A connection could not be made.
fn unreachable<R: Runtime>(shard: &Rc<Shard<R>>, group: &Rc<Group>, index: usize, error: &Unconnected) {
    let route = &group.routes[index];
    let now = R::now();
    let error = match error {
        Unconnected::Host(error) => error,
        Unconnected::Ours(_) => return route.rest(now + RETRY),
        Unconnected::Source(why) => {
            let (source, time) = (&shard.shared.pool.sources[group.source.get()], shard.shared.age(now));
            source.failed(why, time);
            route.rest(now + RETRY);
            if source.connections.are_down(time) {
                group.take_expired(None).into_iter().for_each(|work| work.fail(Outage::Unavailable));
            }
            return;
        }
    };
    shard.shared.not_reached(group.source.get(), &group.site_name, now);
    if error.kind() == ErrorKind::TimedOut {
        died(shard, group, index, "no_connection");
    } else if group.is_patient(index, "no_connection") && !route.strike(STRIKES_MAX) {
        // It says at once that nobody listens: a server that is restarted does.
        route.rest(now + RETRY);
    } else {
        route.take_down(now + DOWN, "no_connection");
    }
}

/// How long a route is left alone after a failure that may pass at once.
const RETRY: Duration = Duration::from_secs(2);

/// A connection died without a word that means anything. A busy host does so at times; one that always does is
/// down. Nobody who waits for an answer waits for that.
fn died<R: Runtime>(shard: &Rc<Shard<R>>, group: &Rc<Group>, index: usize, rule: &'static str) {
    let route = &group.routes[index];
    let patience = if group.is_patient(index, rule) { STRIKES_MAX } else { 1 };
    if route.strike(patience) {
        route.take_down(R::now() + DOWN, rule);
    } else {
        push_back(shard, group, index, rule);
    }
}

/// A site has too much: its pace is lowered and the route rests. Where that takes long, nobody waits for it who waits
/// for an answer: there is nothing to be gained.
fn push_back<R: Runtime>(shard: &Rc<Shard<R>>, group: &Rc<Group>, index: usize, rule: &'static str) {
    let now = R::now();
    let site = &group.site;
    let mut pace = site.pace.borrow_mut();
    pace.pushed_back(now, site.open.get(), shard.random());
    let until = pace.pause(now).unwrap_or(now + Duration::from_millis(500));
    drop(pace);
    site.pushed.set(rule);
    group.routes[index].rest(until);
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
fn refused<R: Runtime>(shard: &Rc<Shard<R>>, group: &Rc<Group>, index: usize, closure: &Closure) {
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
                route.take_down(R::now() + DOWN, "tls_failed");
            }
        }
        Closure::Refused { step, reply } => {
            let said = classify(&ReplyView { stage: stage(*step), mx: &route.host, reply });
            if matches!(said.class, Class::Throttled | Class::Temporary) || said.scope == Scope::Session {
                push_back(shard, group, index, said.rule);
            } else {
                route.take_down(R::now() + DOWN, said.rule);
                if rest::is_block(shard, &said) {
                    rest::blocked(shard, group, said.rule);
                }
            }
        }
        Closure::Closed(_) => died(shard, group, index, "hung_up"),
        Closure::TimedOut(_) => died(shard, group, index, "no_answer_in_time"),
        Closure::Garbled(..) | Closure::Unexpected(_) => {
            route.take_down(R::now() + DOWN, "not_smtp");
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

/// Holds transactions on an open session while there is work for it.
async fn converse<R: Runtime>(
    shard: &Rc<Shard<R>>,
    group: &Rc<Group>,
    index: usize,
    mut session: Box<Session<R>>,
) -> Then {
    let scene = Scene { shard, group, index };
    let mut course = Course::default();
    let route = &group.routes[index];
    loop {
        if route.is_shut(R::now()) {
            session.quit().await;
            return Then::Again;
        }
        let extensions = session.dialog.extensions();
        let room = group.site.pace.borrow().group(&course.tally);
        // One is enough to see whether it still says the same to everyone.
        let room = if route.chorus().is_some() { room.min(1) } else { room };
        let room = room.min(extensions.recipients_max.map_or(usize::MAX, |most| most as usize));
        let spent = |most| course.tally.transactions >= most;
        if room == 0 || extensions.transactions_max.is_some_and(spent) {
            group.site.pace.borrow_mut().spent(&course.tally);
            session.quit().await;
            return Then::Again;
        }
        let controls = group.take_controls(index, room);
        let after = if !controls.is_empty() {
            let _busy = group.busy();
            controls::ask_controls(&scene, &mut session, controls, &mut course).await
        } else {
            let works = group.take(index, room, R::now());
            let any = !works.is_empty();
            let works = spare(shard, group, index, refuse_utf8(works, extensions.smtputf8));
            if works.is_empty() && any {
                continue;
            }
            if works.is_empty() {
                // Those who have heard all that this host has to say may have no other.
                strand(shard, group);
                if group.waiting() > 0 {
                    // What waits is for another route.
                    session.quit().await;
                    return Then::Again;
                }
                let come = idle(shard, group).await;
                if !come || !session.is_quiet().await {
                    session.quit().await;
                    return if come { Then::Again } else { Then::End };
                }
                continue;
            }
            let _busy = group.busy();
            ask(&scene, &mut session, works, &mut course).await
        };
        if let Some(chorus) = route.chorus() {
            shut_out(shard, group, index, chorus);
        }
        match after {
            After::Open => {}
            After::Leave => {
                group.site.pace.borrow_mut().spent(&course.tally);
                session.quit().await;
                return Then::Again;
            }
            After::Over => return Then::Again,
        }
    }
}

/// A host says the same to everyone: nobody else is asked about here for a while, and where we are blocked, the source
/// rests.
fn shut_out<R: Runtime>(shard: &Rc<Shard<R>>, group: &Rc<Group>, index: usize, chorus: Chorus) {
    group.routes[index].take_down(R::now() + DOWN, chorus.rule);
    if chorus.block {
        rest::blocked(shard, group, chorus.rule);
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

/// Answers those of whose domain the host is known, by now, to accept everyone.
fn spare<R: Runtime>(shard: &Shard<R>, group: &Group, index: usize, works: Vec<Work>) -> Vec<Work> {
    if !group.catch_alls.get() {
        return works;
    }
    let (knowledge, now) = (shard.knowledge.borrow(), R::now());
    let host = &group.routes[index].host;
    works.into_iter().filter_map(|work| knowledge.spare(work, host, now)).collect()
}

/// How often a session that waits for work looks whether somebody else needs its place.
const IDLE_TICK: Duration = Duration::from_millis(250);

/// Waits for more work; false when none comes, or when another group needs the session's place.
async fn idle<R: Runtime>(shard: &Rc<Shard<R>>, group: &Rc<Group>) -> bool {
    let until = R::now() + SESSION_IDLE;
    let mut waker = None;
    let mut come = false;
    while !come && R::now() < until && !shard.is_crowded(group) {
        let work = poll_fn(|context| {
            if group.waiting() > 0 {
                return Poll::Ready(());
            }
            group.idle(context.waker());
            waker = Some(context.waker().clone());
            Poll::Pending
        });
        come = R::before(R::now() + IDLE_TICK, work).await.is_some();
    }
    if let Some(waker) = waker {
        group.not_idle(&waker);
    }
    come
}

/// One transaction for recipients that are asked about.
async fn ask<R: Runtime>(
    scene: &Scene<'_, R>,
    session: &mut Session<R>,
    works: Vec<Work>,
    course: &mut Course,
) -> After {
    let now = R::now();
    session.limit = works.iter().map(|work| work.deadline).max().unwrap_or(now).max(now);
    if works.len() > 1 && works.iter().any(|work| work.priority == Priority::Single) {
        // A server may hang at one of them, and others wait behind it.
        session.limit = session.limit.min(now + COMPANY_PATIENCE);
    }
    let smtputf8 = works.iter().any(|work| work.address.needs_smtputf8());
    session.dialog.transact(now, works.iter().map(|work| work.address.as_str()), smtputf8);
    let asked = works.len();
    let flight = Rc::new(Flight::new(works));
    scene.group.depart(&flight);
    transaction::hear(scene, session, asked, course, Asked(flight)).await
}

/// The recipients that are asked about.
struct Asked(Rc<Flight>);

impl<R: Runtime> Recipients<R> for Asked {
    fn record(&mut self, _scene: &Scene<'_, R>, story: &mut Vec<String>) {
        self.0.each(|work| {
            if let Some(trace) = &mut work.trace {
                trace.extend(story.iter().cloned());
            }
        });
    }

    fn answered(&mut self, scene: &Scene<'_, R>, heard: &Answered<'_>) -> Heard {
        // Whose time was over meanwhile has got his answer.
        let Some(work) = self.0.take(heard.place) else { return Heard::Answer };
        answered(scene, work, heard)
    }

    fn mail_refused(&mut self, scene: &Scene<'_, R>, reply: &Reply) -> bool {
        let utf8 = self.0.any(|work| work.address.needs_smtputf8());
        mail_refused(scene.shard, scene.group, scene.index, self.0.take_all(), utf8, reply)
    }

    fn put_back(&mut self, scene: &Scene<'_, R>) -> bool {
        put_back_rest(scene.group, &self.0)
    }

    fn out_of_time(&mut self, scene: &Scene<'_, R>) {
        out_of_time(scene.group, &self.0, R::now());
    }

    fn cut_off(&mut self, scene: &Scene<'_, R>, closure: &Closure, tally: &Tally) {
        cut_off(scene, &self.0, closure, tally);
    }
}

/// How long recipients that are asked about together wait, if somebody waits for one of them: less than for one alone.
const COMPANY_PATIENCE: Duration = Duration::from_secs(12);

/// Answers those whose time is over. The others are asked again; the first of all that got no answer is why they
/// were not answered, and is asked alone from now on.
fn out_of_time(group: &Group, flight: &Flight, now: Instant) {
    let mut suspect = flight.take_first();
    if let Some(work) = &mut suspect {
        work.suspect = true;
        work.returns += 1;
    }
    for work in flight.take_all().into_iter().rev().filter_map(|work| in_time(work, now)) {
        group.put_back(work);
    }
    if let Some(work) = suspect.and_then(|work| in_time(work, now)) {
        if work.returns > RETURNS_MAX { work.give_up() } else { group.enqueue(work) }
    }
}

/// The work, unless its time is over; then it is answered.
fn in_time(work: Work, now: Instant) -> Option<Work> {
    if work.deadline > now {
        return Some(work);
    }
    work.give_up();
    None
}

/// Puts back what is left without an answer; true when that is nothing.
fn put_back_rest(group: &Group, flight: &Flight) -> bool {
    let rest = flight.take_all();
    let none = rest.is_empty();
    rest.into_iter().rev().for_each(|work| group.put_back(work));
    none
}

/// What an answer to RCPT means for the one it is about.
fn answered<R: Runtime>(scene: &Scene<'_, R>, mut work: Work, heard: &Answered<'_>) -> Heard {
    let Scene { shard, group, index } = *scene;
    let Answered { reply, behind_others, at, .. } = *heard;
    let route = &group.routes[index];
    let said = classify(&ReplyView { stage: Stage::Rcpt, mx: &route.host, reply });
    work.note(|| in_words(&said));
    #[cfg(feature = "sim")]
    let Some(mut work) = mistaken(work, &said) else { return Heard::Answer };
    match said.class {
        Class::Accepted | Class::ExistsThrottled if route.accepts_everything => {
            work.settle(Reason::Unverifiable, "accepts_everything");
        }
        Class::Accepted | Class::ExistsThrottled => {
            let control = shard.knowledge.borrow_mut().accepted(work, said, &route.host, at);
            if let Some(control) = control {
                group.want_control(control);
            }
        }
        Class::Throttled if said.scope == Scope::Session && behind_others => {
            // RFC 5321 4.5.3.1.10: a transaction that is full; the rest goes into the next.
            work.leave(said.rule, Some(DOWN));
            group.put_back(work);
            return Heard::Later;
        }
        Class::Throttled => {
            push_back(shard, group, index, said.rule);
            come_back(group, work, said.rule, R::now());
            return Heard::Push;
        }
        Class::Greylisted => {
            work.finish(Finding {
                reason: Reason::Unverifiable,
                rule: said.rule,
                retry_after: Some(GREYLISTING_WAIT),
            });
        }
        _ if said.scope == Scope::Session => {
            // Twice the same, from it or from others here: another address may do, above all one of the other family.
            let known = route.says_so(said.rule);
            if work.returns > 0 || known {
                work.tried |= 1 << index;
            }
            route.refuses(said.rule);
            if said.to_all {
                route.sings(said.rule, false, known, work.address.domain());
            }
            come_back(group, work, said.rule, R::now());
            return if known { Heard::Nothing } else { Heard::Push };
        }
        _ if said.to_all => {
            route.sings(said.rule, rest::is_block(shard, &said), true, work.address.domain());
            work.settle(reason_at_rcpt(&said), said.rule);
            return Heard::Refusal;
        }
        Class::Temporary => {
            work.leave_for_now(said.rule, DOWN, TRANSIENT_WAIT);
            ask_elsewhere(group, index, work);
        }
        Class::Relay | Class::Unclear | Class::AuthRequired => {
            work.leave(said.rule, Some(DOWN));
            ask_elsewhere(group, index, work);
        }
        _ if said.scope == Scope::Host => {
            work.leave(said.rule, Some(DOWN));
            ask_elsewhere(group, index, work);
        }
        _ => work.settle(reason_at_rcpt(&said), said.rule),
    }
    Heard::Answer
}

/// Takes a reply for what it is not, where such a defect is planted.
#[cfg(feature = "sim")]
fn mistaken(work: Work, said: &Classification) -> Option<Work> {
    use crate::sim::{Fault, planted};
    if planted(Fault::SessionAsRecipient) && said.scope != Scope::Recipient {
        work.settle(Reason::MailboxNotFound, "planted");
    } else if planted(Fault::ConfirmWithoutControl) && said.class == Class::Accepted {
        work.settle(Reason::MailboxExists, "planted");
    } else {
        return Some(work);
    }
    None
}

/// When a greylisted recipient may be asked again, if the server names no time: Postgrey's default delay is 300 s.
const GREYLISTING_WAIT: Duration = Duration::from_secs(300);

/// When patient work that met a transient failure is asked about once more. Short: what such a reply tells of (a
/// look-up that failed, a process too many) is over in seconds or lasts for hours.
const TRANSIENT_WAIT: Duration = Duration::from_secs(10);

/// The recipient is asked again in another session, a few times.
fn come_back(group: &Group, mut work: Work, rule: &'static str, now: Instant) {
    work.returns += 1;
    work.leave(rule, Some(DOWN));
    if work.returns > RETURNS_MAX || work.deadline <= now {
        work.give_up();
    } else {
        group.put_back(work);
    }
}

/// The host has nothing to say about the recipient: the other hosts are asked, if there are any.
fn ask_elsewhere(group: &Group, index: usize, mut work: Work) {
    work.tried |= group.same_host(index);
    group.put_back(work);
}

/// What a reply was taken for, for the story.
fn in_words(said: &Classification) -> String {
    format!("rule {}: {}, scope {}", said.rule, said.class.as_str(), said.scope.as_str())
}

/// MAIL was refused: it is about us or the host, and about no recipient. True when the session is to be left: it
/// would hear the same again at once. `utf8`: the server may have refused SMTPUTF8 and nothing else.
fn mail_refused<R: Runtime>(
    shard: &Rc<Shard<R>>,
    group: &Rc<Group>,
    index: usize,
    works: Vec<Work>,
    utf8: bool,
    reply: &Reply,
) -> bool {
    let route = &group.routes[index];
    let said = classify(&ReplyView { stage: Stage::Mail, mx: &route.host, reply });
    let throttled = matches!(said.class, Class::Throttled | Class::Temporary);
    let block = rest::is_block(shard, &said);
    if throttled {
        push_back(shard, group, index, said.rule);
    } else if !utf8 && (block || reply.is_permanent()) {
        // It is about us or our reverse-path: the host would say it to each of thousands.
        route.take_down(R::now() + DOWN, said.rule);
    }
    for mut work in works.into_iter().rev() {
        work.note(|| in_words(&said));
        if throttled {
            come_back(group, work, said.rule, R::now());
        } else {
            work.leave(said.rule, Some(DOWN));
            ask_elsewhere(group, index, work);
        }
    }
    if block {
        rest::blocked(shard, group, said.rule);
    }
    throttled
}

/// How many sessions in a row may end at their first recipient before that is laid to the host.
const HANGUPS_MAX: u8 = 10;

/// A session ended in the middle of a transaction. Who got an answer has it; the others are asked again. Where it ended
/// at a recipient, that one may be why, so it is asked last, and not for ever.
fn cut_off<R: Runtime>(scene: &Scene<'_, R>, flight: &Flight, closure: &Closure, tally: &Tally) {
    let group = scene.group;
    let blameless = tally.answers > 0 && !ends_at_recipient(closure);
    let suspect = if blameless { None } else { flight.take_first() };
    put_back_rest(group, flight);
    blame(scene, closure, tally);
    let Some(mut work) = suspect else { return };
    work.leave("hung_up", Some(DOWN));
    // With answers before it, the session's end was hardly this one's doing.
    work.returns += u8::from(tally.answers == 0);
    let most = if work.priority == Priority::Single { 1 } else { RETURNS_MAX };
    if work.returns > most || work.deadline <= R::now() {
        work.give_up();
    } else {
        group.enqueue(work);
    }
}

fn ends_at_recipient(closure: &Closure) -> bool {
    matches!(
        closure,
        Closure::Refused { step: Step::Rcpt(_), .. }
            | Closure::Closed(Step::Rcpt(_))
            | Closure::TimedOut(Step::Rcpt(_))
    )
}

/// What a session's end in the middle of a transaction says about the host.
fn blame<R: Runtime>(scene: &Scene<'_, R>, closure: &Closure, tally: &Tally) {
    let Scene { shard, group, index } = *scene;
    let at_recipient = ends_at_recipient(closure);
    let hung_up = matches!(closure, Closure::Refused { .. } | Closure::Closed(_));
    if tally.answers > 0 && (hung_up || tally.errors > 0) {
        let end = if at_recipient { End::Recipient } else { End::Between };
        let site = &group.site;
        site.pace.borrow_mut().cut_off(tally, end, site.open.get());
    }
    if at_recipient && tally.errors == 0 && matches!(closure, Closure::Refused { .. }) {
        push_back(shard, group, index, "hung_up");
    } else if tally.answers == 0 && !at_recipient {
        refused(shard, group, index, closure);
    } else if tally.answers == 0 && group.routes[index].strike(HANGUPS_MAX) {
        group.routes[index].take_down(R::now() + DOWN, "hung_up");
    }
}
