//! The life of a session task: a route, a connection, transactions while there is work, and what every answer
//! and every end means for those who wait.

mod context;
mod endings;
mod greylisting;
mod proving;
mod replies;
mod transaction;

use crate::Priority;
use crate::egress::rest;
use crate::in_flight::InFlight;
use crate::runtime::Runtime;
use crate::session::Session;
use crate::shard::{Shard, queue};
use crate::site::{BlanketRefusal, DOWN, Group, HeldAnswers, Next};
use crate::work::Work;
use context::ProbeContext;
pub(crate) use endings::pushed_away;
use endings::{blame, cut_off, session_refused, unreachable};
use engine_proto::limits::{RETURNS_MAX, SESSION_IDLE, TRANSACTION_RECIPIENTS_MAX};
use engine_proto::pace::{REFUSALS_CISCO, Tally};
use engine_proto::smtp::dialog::{Closure, Event};
use engine_proto::smtp::reply::Reply;
use engine_proto::verdict::Reason;
use engine_proto::verdict::evidence::Held;
use proving::Questions;
use replies::{answered, mail_refused};
use std::future::poll_fn;
use std::rc::Rc;
use std::task::Poll;
use std::time::{Duration, Instant};
use transaction::{Answered, NextStep, Recipients, ReplyEffect, SessionState};

/// What a session task does behind a session.
enum NextSession {
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
            None => NextSession::Again,
        };
        answer_unroutable(shard, group);
        if let NextSession::End = then {
            break;
        }
    }
    answer_unroutable(shard, group);
}

/// Answers those for whom no route is left.
pub(crate) fn answer_unroutable<R: Runtime>(shard: &Rc<Shard<R>>, group: &Rc<Group>) {
    let now = R::now();
    group.take_unroutable(now).into_iter().for_each(|work| shard.give_up(work, now));
}

/// Connects to a route and brings the session to where it takes transactions; `None` when it does not get there.
async fn open<R: Runtime>(shard: &Rc<Shard<R>>, group: &Rc<Group>, index: usize) -> Option<Box<Session<R>>> {
    let route = &group.routes[index];
    let destination = (route.address, shard.smtp_port).into();
    let source = group.source.get();
    let config = Rc::clone(&shard.sessions[source]);
    let starttls = !route.plain_only.get();
    let limit = R::now() + shard.session_limit;
    let trace = shard.trace();
    let connected =
        Session::connect(config, Rc::clone(&route.host), destination, starttls, limit, trace).await;
    let mut session = match connected {
        Ok(session) => session,
        Err((error, trace)) => {
            shard.add_trace(group, trace);
            unreachable(shard, group, index, &error);
            return None;
        }
    };
    shard.shared.reached(source);
    match session.next().await {
        Event::Ready => {
            route.on_session_opened();
            if let Some(refusals) = &group.refusals
                && session.dialog.is_cisco()
            {
                refusals.lower(REFUSALS_CISCO);
            }
            Some(session)
        }
        Event::Over(closure) => {
            shard.add_trace(group, session.trace.take());
            session_refused(shard, group, index, &closure);
            None
        }
        // The dialog says nothing else before it is ready.
        _ => None,
    }
}

/// Holds transactions on an open session while there is work for it, and releases what it holds in the end.
async fn converse<R: Runtime>(
    shard: &Rc<Shard<R>>,
    group: &Rc<Group>,
    index: usize,
    mut session: Box<Session<R>>,
) -> NextSession {
    let context = ProbeContext { shard, group, index };
    let one_transaction = session.dialog.extensions().transactions_max == Some(1)
        || group.site.pace.borrow().bears_one_transaction();
    let mut state = SessionState::new(one_transaction);
    group.hold(&state.held);
    let end = transact(&context, &mut session, &mut state).await;
    if let SessionEnd::Quit(_) = end
        && let Some(closure) = session.ending()
    {
        // The server said so in one breath with what made us leave.
        blame(&context, &closure, &state.tally);
    }
    // What could not be proven by now is not proven by this session.
    proving::release(&context, &state, false);
    match end {
        SessionEnd::Quit(then) => {
            group.site.pace.borrow_mut().spent(&state.tally);
            session.quit().await;
            then
        }
        SessionEnd::Lost => NextSession::Again,
    }
}

/// How a session ended.
enum SessionEnd {
    /// We end it, and do this behind it.
    Quit(NextSession),
    /// It is over.
    Lost,
}

/// Transactions, one after the other.
async fn transact<R: Runtime>(
    context: &ProbeContext<'_, R>,
    session: &mut Session<R>,
    state: &mut SessionState,
) -> SessionEnd {
    let (shard, group) = (context.shard, context.group);
    loop {
        let (is_due, holds, accepts) = {
            let evidence = state.held.evidence.borrow();
            let accepts = evidence.recipient(None, Some(Held::Accepted)).is_some();
            (evidence.is_due(), !evidence.is_empty(), accepts)
        };
        let is_shut = context.route().is_shut(R::now());
        if is_shut && !accepts {
            return SessionEnd::Quit(NextSession::Again);
        }
        let room = if is_due || is_shut { SessionRoom::Proof } else { room(context, session, state) };
        let after = match room {
            SessionRoom::Proof => prove(context, session, state).await,
            SessionRoom::Spent | SessionRoom::OverBudget if holds => prove(context, session, state).await,
            SessionRoom::Spent => return SessionEnd::Quit(NextSession::Again),
            SessionRoom::OverBudget => {
                if !shard.is_over_budget(group, R::now()) {
                    // Answers that others wait for may make room.
                    queue(&group.site.waiting, group);
                }
                return SessionEnd::Quit(NextSession::End);
            }
            SessionRoom::Recipients(most) => match proving::open_with_known(context, session, state).await {
                Some(after) => after,
                None => match next(context, session, state, most, holds).await {
                    Ok(after) => after,
                    Err(end) => return end,
                },
            },
        };
        match context.route().blanket() {
            Some(blanket) => shut_out(shard, group, context.index, blanket),
            None => context.route().set_domains_shut(R::now(), R::now() + DOWN),
        }
        match after {
            NextStep::Open => {}
            NextStep::Leave => return SessionEnd::Quit(NextSession::Again),
            NextStep::Over => return SessionEnd::Lost,
        }
    }
}

/// A transaction for up to `most` of those who wait. Where nobody waits, what the session holds is proven, and more work
/// is waited for; an error when the session is to end.
async fn next<R: Runtime>(
    context: &ProbeContext<'_, R>,
    session: &mut Session<R>,
    state: &mut SessionState,
    most: usize,
    holds: bool,
) -> Result<NextStep, SessionEnd> {
    let (shard, group) = (context.shard, context.group);
    let works = group.take(context.index, most, R::now());
    let any = !works.is_empty();
    let works = carry(context, state, works);
    let works = answer_if_known_catch_all(context, refuse_utf8(works, session.dialog.extensions().smtputf8));
    let works = pass_over(context, works);
    if !works.is_empty() {
        let _busy = group.busy();
        return Ok(ask(context, session, works, state).await);
    }
    if any {
        return Ok(NextStep::Open);
    }
    if holds {
        return Ok(prove(context, session, state).await);
    }
    if let Some(after) = greylisting::introduce(context, session, state).await {
        return Ok(after);
    }
    // Those who have heard all that this host has to say may have no other.
    answer_unroutable(shard, group);
    if group.waiting() > 0 {
        // What waits is for another route.
        return Err(SessionEnd::Quit(NextSession::Again));
    }
    let come = idle(shard, group).await;
    if !come || !session.is_quiet().await {
        return Err(SessionEnd::Quit(if come { NextSession::Again } else { NextSession::End }));
    }
    Ok(NextStep::Open)
}

/// Proves what the session holds, as a session that waits for answers.
async fn prove<R: Runtime>(
    context: &ProbeContext<'_, R>,
    session: &mut Session<R>,
    state: &mut SessionState,
) -> NextStep {
    let _busy = context.group.busy();
    Box::pin(proving::prove(context, session, state)).await
}

/// What the next transaction of a session may be.
enum SessionRoom {
    /// One for up to so many recipients.
    Recipients(usize),
    /// One for what proves the answers that are held: behind another one there would be no room for that.
    Proof,
    /// None in this session.
    Spent,
    /// None before the budget of refusals has room again.
    OverBudget,
}

fn room<R: Runtime>(
    context: &ProbeContext<'_, R>,
    session: &Session<R>,
    state: &SessionState,
) -> SessionRoom {
    let group = context.group;
    let (extensions, pace) = (session.dialog.extensions(), group.site.pace.borrow());
    let transactions = |most: u32| most.saturating_sub(state.tally.transactions);
    let transactions = extensions.transactions_max.map_or(u32::MAX, transactions);
    let mut recipients = pace.group(&state.tally);
    if state.one_transaction && recipients > 1 {
        // Half of them may be control recipients.
        recipients = recipients.min(TRANSACTION_RECIPIENTS_MAX) / 2;
    }
    if context.route().is_blanket() {
        // One is enough to see whether it still says the same to everyone.
        recipients = recipients.min(1);
    }
    recipients = recipients.min(extensions.recipients_max.map_or(usize::MAX, |most| most as usize));
    if recipients == 0 || transactions == 0 {
        return SessionRoom::Spent;
    }
    let evidence = state.held.evidence.borrow();
    let wanted = evidence.controls_wanted();
    if !evidence.is_empty() && transactions == 1 {
        return SessionRoom::Proof;
    }
    if pace.bounds_errors() {
        // Behind the last refusal that a session bears nothing can be proven any more.
        let kept = match wanted {
            // The control recipient and a mailbox that was accepted, if one is.
            0 if evidence.is_empty() => {
                if context.has_known_mailbox() {
                    1
                } else {
                    2
                }
            }
            0 => 1,
            // One that is refused in unclear words needs a second one, and a known mailbox behind it.
            wanted => wanted + 2,
        };
        let is_first = state.tally.asked == state.opened.unwrap_or(0);
        match recipients.checked_sub(kept) {
            Some(left) if left > 0 => recipients = left,
            _ if is_first => recipients = 1,
            _ if evidence.is_empty() => return SessionRoom::Spent,
            _ => return SessionRoom::Proof,
        }
    }
    match group.refusal_room(context.shard.refusal_step()) {
        0 => SessionRoom::OverBudget,
        // Control recipients are refused, too.
        budget if budget <= wanted => SessionRoom::Proof,
        budget => SessionRoom::Recipients(recipients.min(budget - wanted)),
    }
}

/// A host says the same to everyone: nobody else is asked about here for a while, and where we are blocked, the source
/// rests.
fn shut_out<R: Runtime>(shard: &Rc<Shard<R>>, group: &Rc<Group>, index: usize, blanket: BlanketRefusal) {
    group.routes[index].set_down(R::now() + DOWN, blanket.rule);
    if blanket.block {
        rest::blocked(shard, group, blanket.rule);
    }
}

/// Takes those into the session's evidence that an earlier session at this host heard a refusal of, and gives back the others.
fn carry<R: Runtime>(context: &ProbeContext<'_, R>, state: &SessionState, works: Vec<Work>) -> Vec<Work> {
    let mut others = Vec::with_capacity(works.len());
    for mut work in works {
        let Some(carried) = work.carried.take() else {
            others.push(work);
            continue;
        };
        let number = context.number(work.address.domain());
        if carried.number != number {
            // Another host has to be asked itself.
            others.push(work);
            continue;
        }
        let urgent = work.priority == Priority::Single;
        state.held.evidence.borrow_mut().carry(work, carried.held, carried.said, number, urgent);
    }
    others
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

/// Puts back those whose domain is left alone at this host by now.
fn pass_over<R: Runtime>(context: &ProbeContext<'_, R>, works: Vec<Work>) -> Vec<Work> {
    let now = R::now();
    let is_shut = |work: &Work| context.route().shut_rule(work.address.domain(), now).is_some();
    let (shut, open): (Vec<_>, Vec<_>) = works.into_iter().partition(is_shut);
    for mut work in shut {
        context.group.pass_over_shut(&mut work, now);
        context.group.put_back(work);
    }
    open
}

/// Answers those of whose domain the host is known, by now, to accept everyone.
fn answer_if_known_catch_all<R: Runtime>(context: &ProbeContext<'_, R>, works: Vec<Work>) -> Vec<Work> {
    if !context.group.catch_alls.get() {
        return works;
    }
    let (host, now) = (&context.route().host, R::now());
    works.into_iter().filter_map(|work| context.shard.answer_if_known_catch_all_at(host, work, now)).collect()
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
            group.add_idle(context.waker());
            waker = Some(context.waker().clone());
            Poll::Pending
        });
        come = R::before(R::now() + IDLE_TICK, work).await.is_some();
    }
    if let Some(waker) = waker {
        group.remove_idle(&waker);
    }
    come
}

/// One transaction for recipients that are asked about.
async fn ask<R: Runtime>(
    context: &ProbeContext<'_, R>,
    session: &mut Session<R>,
    works: Vec<Work>,
    state: &mut SessionState,
) -> NextStep {
    let now = R::now();
    session.limit = works.iter().map(|work| work.deadline).max().unwrap_or(now).max(now);
    if works.len() > 1 && works.iter().any(|work| work.priority == Priority::Single) {
        // A server may hang at one of them, and others wait behind it.
        session.limit = session.limit.min(now + COMPANY_PATIENCE);
    }
    let smtputf8 = works.iter().any(|work| work.address.needs_smtputf8());
    let controls = Questions::beside(context, state, &works);
    let recipients = works.iter().map(|work| work.address.as_str());
    session.dialog.transact(now, recipients.chain(controls.recipients()), smtputf8);
    let (count, asked) = (works.len(), works.len() + controls.recipients().count());
    let in_flight = Rc::new(InFlight::new(works));
    context.group.on_asked(&in_flight);
    let held = Rc::clone(&state.held);
    transaction::hear(context, session, asked, state, AskedWorks { in_flight, held, count, controls }).await
}

/// The recipients that are asked about.
struct AskedWorks {
    in_flight: Rc<InFlight>,
    /// Where answers wait until it is known what they are worth.
    held: Rc<HeldAnswers>,
    /// How many recipients come before the control recipients.
    count: usize,
    /// Control recipients, where they have to be asked in the same transaction.
    controls: Questions,
}

impl<R: Runtime> Recipients<R> for AskedWorks {
    fn record(&mut self, _context: &ProbeContext<'_, R>, lines: &mut Vec<String>) {
        self.in_flight.each(|work| {
            if let Some(trace) = &mut work.trace {
                trace.extend(lines.iter().cloned());
            }
        });
    }

    fn answered(&mut self, context: &ProbeContext<'_, R>, heard: &Answered<'_>) -> ReplyEffect {
        if let Some(place) = heard.place.checked_sub(self.count) {
            return self.controls.answered(context, &Answered { place, ..*heard });
        }
        // A work whose deadline has passed is already answered.
        let Some(work) = self.in_flight.take(heard.place) else { return heard.too_late() };
        answered(context, work, &self.held, heard)
    }

    fn mail_refused(&mut self, context: &ProbeContext<'_, R>, reply: &Reply) -> bool {
        let utf8 = self.in_flight.any(|work| work.address.needs_smtputf8());
        mail_refused(context, self.in_flight.take_all(), utf8, reply)
    }

    fn put_back(&mut self, context: &ProbeContext<'_, R>) -> bool {
        put_back_rest(context.group, &self.in_flight)
    }

    fn out_of_time(&mut self, context: &ProbeContext<'_, R>) {
        out_of_time(context.group, &self.in_flight, R::now());
    }

    fn cut_off(&mut self, context: &ProbeContext<'_, R>, closure: &Closure, tally: &Tally) {
        cut_off(context, &self.in_flight, closure, tally);
    }
}

/// How long recipients that are asked about together wait, if somebody waits for one of them: less than for one alone.
const COMPANY_PATIENCE: Duration = Duration::from_secs(12);

/// Answers those whose time is over. The others are asked again; the first of all that got no answer is why they
/// were not answered, and is asked alone from now on.
fn out_of_time(group: &Group, in_flight: &InFlight, now: Instant) {
    let mut suspect = in_flight.take_first();
    if let Some(work) = &mut suspect {
        work.suspect = true;
        work.returns += 1;
    }
    for work in in_flight.take_all().into_iter().rev().filter_map(|work| in_time(work, now)) {
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
fn put_back_rest(group: &Group, in_flight: &InFlight) -> bool {
    let rest = in_flight.take_all();
    let none = rest.is_empty();
    rest.into_iter().rev().for_each(|work| group.put_back(work));
    none
}
