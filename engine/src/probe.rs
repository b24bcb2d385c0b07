//! The task that opens SMTP sessions for a group, one after another. For each session, the task chooses a route (an IP address of a
//! host), connects, and runs transactions as long as works wait in the queue of the group. A work is an address on its way through
//! the engine, and a transaction sends RCPT for up to 100 of them.
//!
//! Some replies to RCPT decide at once, and after others the address is asked about again. The session holds the rest until a
//! *checkpoint*. There the session asks about recipients such as a *control recipient*, which does not exist, or a *known mailbox*,
//! which the host accepted before. The replies show whether the held answers count.
//!
//! The modules are of two kinds. The first kind sends commands, and leaves the interpretation of nearly all replies to the second
//! kind:
//!
//! - `crate::session`: the connection, TLS and the bytes of one session
//! - this module: opening, the sequence of transactions, waiting for work, closing
//! - `room.rs`: how many recipients the next transaction may have
//! - `works.rs`, `proving.rs`, `greylisting.rs`: the transactions about works, about the questions of a checkpoint, and about
//!   control recipients of greylisted domains
//! - `transaction.rs`: the events of any transaction
//!
//! The second kind interprets what a server says, and sends nothing. It applies the decisions of [`engine_proto::decision`]:
//!
//! - `replies.rs`: replies about works, replies to MAIL, and refusals that a host gives to everyone
//! - `control_replies.rs`: replies to the questions of a checkpoint
//! - `checkpoint.rs`: the end of a checkpoint, which releases the held answers
//! - `endings.rs`: the end of a connection, a session or a transaction
//!
//! `context.rs` gives both kinds the group and the route of the session, and what is known of the host. `docs/glossary.md` defines
//! the words of these modules, such as site, group and push back.

mod checkpoint;
mod context;
mod control_replies;
mod endings;
mod greylisting;
mod proving;
mod replies;
mod room;
mod transaction;
mod works;

use crate::Priority;
use crate::asking::Asking;
use crate::faults::{Fault, planted};
use crate::invariants::{Invariant, holds};
use crate::runtime::Runtime;
use crate::session::Session;
use crate::site::{Group, Next};
use context::Place;
pub(crate) use endings::answer_pushed_back;
use endings::{blame, session_refused, unreachable};
use engine_proto::limits::SESSION_IDLE;
use engine_proto::pace::{REFUSALS_CISCO, network_of};
use engine_proto::smtp::dialog::Event;
use engine_proto::verdict::evidence::Held;
use room::{SessionRoom, room};
use std::future::poll_fn;
use std::net::IpAddr;
use std::rc::Rc;
use std::task::Poll;
use std::time::Duration;
use transaction::{NextStep, SessionState};

/// What the task does after a session.
enum NextSession {
    /// The task may open another session.
    Again,
    /// The task ends: no work came, another group needs the place of the session, or the budget of refused recipients has no room.
    End,
}

/// Runs the task: one session after the other for the same group. The task ends if no work waits, if no route can be used now, if
/// the site or the network allows no further session now, or after [`NextSession::End`]. It also ends if the next route is in
/// another network than `host`, because the task counts for this network; another task then begins. `session` is the number of the
/// task in the group.
pub(crate) async fn serve<R: Runtime>(asking: &Rc<Asking>, group: &Rc<Group>, session: usize, host: IpAddr) {
    let mut first = true;
    while group.waiting() > 0 {
        let Next::Route(index) = group.next(R::now()) else { break };
        if network_of(group.routes[index].address) != network_of(host) {
            break;
        }
        let may_go_on = || asking.state().networks.may_go_on(host) && group.site.start_another(R::now());
        if !std::mem::take(&mut first) && !may_go_on() {
            break;
        }
        let place = Place { asking, group, session, index };
        let then = match open::<R>(place).await {
            Some(session) => converse(place, session).await,
            None => NextSession::Again,
        };
        asking.answer_unroutable(group, R::now());
        if let NextSession::End = then {
            break;
        }
    }
    asking.answer_unroutable(group, R::now());
}

/// Opens a session: connection, greeting, EHLO and TLS. `None` if a step failed. The failure has then been recorded.
async fn open<R: Runtime>(place: Place<'_>) -> Option<Box<Session<R>>> {
    let (asking, group, route) = (place.asking, place.group, place.route());
    let destination = (route.address, asking.smtp_port).into();
    let source = group.source;
    let config = Rc::clone(&asking.sessions[source]);
    let habits = {
        let known = place.state();
        holds(Invariant::RouteUp, || known.down_rule(R::now()).is_none());
        holds(Invariant::RouteRested, || known.resting_until(R::now()).is_none());
        known.habits()
    };
    let limit = R::now() + asking.session_limit;
    let trace = asking.trace();
    let connected = Session::connect(config, Rc::clone(&route.host), destination, habits, limit, trace).await;
    let mut session = match connected {
        Ok(session) => session,
        Err((error, trace)) => {
            asking.add_trace(group, trace);
            unreachable(&place.at(R::now()), &error);
            return None;
        }
    };
    asking.shared().on_reached(source);
    match session.next().await {
        Event::Ready => {
            group.route_state(place.index).on_session_opened();
            note_habits(&place, &mut session);
            if session.dialog.is_cisco()
                && let Some(budget) = asking.state().budget(group)
            {
                budget.lower(REFUSALS_CISCO);
            }
            Some(session)
        }
        Event::Over(closure) => {
            asking.add_trace(group, session.trace.take());
            session_refused(&place.at(R::now()), &closure);
            None
        }
        // The dialog has no other event before `Ready`.
        _ => None,
    }
}

/// Notes in the trace what the session does differently, because of what earlier sessions with the host or the site have shown.
fn note_habits<R: Runtime>(place: &Place<'_>, session: &mut Session<R>) {
    let Some(trace) = &mut session.trace else { return };
    trace.extend(place.state().habits().describe().map(|habit| format!("habit: {habit}")));
    let limits = place.group.site.state().pace.shown().collect::<Vec<_>>();
    let sessions = place.asking.state().networks.shown(place.route().address, R::now());
    let limits = limits.into_iter().chain(sessions.map(|limit| ("sessions with its network", limit)));
    trace.extend(
        limits.map(|(of, limit)| format!("habit: at most {limit} {of}, as earlier sessions have shown")),
    );
}

/// Runs the transactions of an open session, releases the answers that the session still holds, and ends the session.
async fn converse<R: Runtime>(place: Place<'_>, mut session: Box<Session<R>>) -> NextSession {
    let group = place.group;
    let declared = session.dialog.extensions().transactions_max.unwrap_or(u32::MAX);
    let mut state = SessionState::new(declared.min(place.at(R::now()).transactions_allowed()));
    group.on_session_begun(place.session);
    let end = transact(place, &mut session, &mut state).await;
    if matches!(end, SessionEnd::Quit(_)) && session.dialog.replies_due() > 0 {
        // The session is left although replies are due. One that has come already may say that we are too fast.
        session.is_quiet().await;
    }
    if let SessionEnd::Quit(_) = end
        && let Some(closure) = session.take_closure()
    {
        // The server had already ended the session: in the same bytes as its last reply, or while the session waited for work.
        blame(&place.at(R::now()), &closure, &state.tally);
        state.notes.out_of_step |= session.dialog.is_out_of_step();
    }
    if !planted(Fault::Break(Invariant::HeldReleased)) {
        proving::release_at_end(place, &session, &mut state);
    }
    holds(Invariant::HeldReleased, || place.works().evidence.is_empty());
    if state.notes.out_of_step {
        place.at(R::now()).on_out_of_step();
    }
    match end {
        SessionEnd::Quit(then) => {
            group.site.state().pace.on_spent(&state.tally);
            session.quit().await;
            then
        }
        SessionEnd::Lost => NextSession::Again,
    }
}

/// How the transactions of a session ended.
enum SessionEnd {
    /// We end the session with QUIT. The task then goes on with this step.
    Quit(NextSession),
    /// The session ended before QUIT.
    Lost,
}

/// Runs one transaction after the other until the session ends, or until we have to end it.
async fn transact<R: Runtime>(
    place: Place<'_>,
    session: &mut Session<R>,
    state: &mut SessionState,
) -> SessionEnd {
    let (asking, group) = (place.asking, place.group);
    loop {
        let (is_due, has_answers, accepts) = {
            let evidence = &place.works().evidence;
            let accepts = evidence.recipient(None, Some(Held::Accepted)).is_some();
            let is_due = evidence.is_due() && !planted(Fault::Break(Invariant::ProofFirst));
            (is_due, !evidence.is_empty(), accepts)
        };
        // After a blanket refusal (the host refuses everyone alike), or if the host delays its replies, the session asks about no
        // further works. It goes on only to prove accepts that it holds.
        let is_shut = place.state().is_shut(&place.route().host, R::now()) || state.tarpit.is_known;
        if is_shut && !accepts {
            return SessionEnd::Quit(NextSession::Again);
        }
        let room =
            if is_due || is_shut { SessionRoom::Proof } else { room(&place.at(R::now()), session, state) };
        let after = match room {
            SessionRoom::Proof => prove(place, session, state).await,
            SessionRoom::Spent | SessionRoom::OverBudget if has_answers => prove(place, session, state).await,
            SessionRoom::Spent => return SessionEnd::Quit(NextSession::Again),
            SessionRoom::OverBudget => {
                if !asking.answer_if_over_budget(group, R::now()) {
                    // Recipients that wait for a reply count as refused, so a reply may make room. The group waits for this in the
                    // queue of the site.
                    group.queue_at_site();
                }
                return SessionEnd::Quit(NextSession::End);
            }
            SessionRoom::Recipients(most) => match open_with(place, session, state).await {
                Some(after) => after,
                None => match next(place, session, state, most, has_answers).await {
                    Ok(after) => after,
                    Err(end) => return end,
                },
            },
        };
        replies::heed_blanket_refusals(&place.at(R::now()));
        match after {
            NextStep::Open => {}
            NextStep::Leave => return SessionEnd::Quit(NextSession::Again),
            NextStep::Over => return SessionEnd::Lost,
        }
    }
}

/// Asks what a session may have to ask before its first work: see [`proving::show_in_step`] and [`proving::open_with_known`].
async fn open_with<R: Runtime>(
    place: Place<'_>,
    session: &mut Session<R>,
    state: &mut SessionState,
) -> Option<NextStep> {
    match proving::show_in_step(place, session, state).await {
        Some(after) => Some(after),
        None => proving::open_with_known(place, session, state).await,
    }
}

/// Does the first of these that is possible: asks about up to `most` waiting works; proves the answers that the session holds; asks
/// about control recipients of greylisted domains; waits for work. `Err` means that the session has to end.
async fn next<R: Runtime>(
    place: Place<'_>,
    session: &mut Session<R>,
    state: &mut SessionState,
    most: usize,
    has_answers: bool,
) -> Result<NextStep, SessionEnd> {
    let (asking, group) = (place.asking, place.group);
    holds(Invariant::ProofFirst, || !place.works().evidence.is_due());
    let works = group.take(place.index, most, R::now());
    let any = !works.is_empty();
    let mut works = works::to_ask(&place.at(R::now()), works, session.dialog.extensions().smtputf8);
    let fits = session.dialog.distinct(works.len(), place.state().in_step(), R::now());
    let repeats = fits == 0 && !works.is_empty();
    let is_patient = works.iter().all(|work| work.priority != Priority::Single);
    if repeats && (has_answers || is_patient && group.waiting() > 0) {
        // Either the questions of the proof end the session, or many works are worth the wait.
        works.into_iter().rev().for_each(|work| group.put_back(work));
        if has_answers {
            return Ok(prove(place, session, state).await);
        }
        let _busy = group.busy();
        return Ok(proving::listen_for_copies(place, session, state).await);
    }
    if !repeats {
        works.split_off(fits).into_iter().rev().for_each(|work| group.put_back(work));
    }
    if !works.is_empty() {
        let _busy = group.busy();
        if let Some(question) = proving::alone(&place.at(R::now()), &works) {
            works.into_iter().rev().for_each(|work| group.put_back(work));
            return Ok(Box::pin(proving::ask_alone(place, session, state, question)).await);
        }
        return Ok(works::ask(place, session, works, state).await);
    }
    if any {
        return Ok(NextStep::Open);
    }
    if has_answers {
        return Ok(prove(place, session, state).await);
    }
    if let Some(after) = greylisting::introduce(place, session, state).await {
        return Ok(after);
    }
    // Works that this host could not decide may have no other route left.
    asking.answer_unroutable(group, R::now());
    if group.waiting() > 0 {
        // The works that wait need another route.
        return Err(SessionEnd::Quit(NextSession::Again));
    }
    let come = idle::<R>(place).await;
    let is_quiet = session.is_quiet().await;
    if is_quiet && !state.notes.in_doubt {
        place.state().on_quiet(session.dialog.in_step(R::now()));
    }
    if !come || !is_quiet {
        return Err(SessionEnd::Quit(if come { NextSession::Again } else { NextSession::End }));
    }
    Ok(NextStep::Open)
}

/// Proves the answers that the session holds. Meanwhile the session counts as busy (waiting for replies).
async fn prove<R: Runtime>(place: Place<'_>, session: &mut Session<R>, state: &mut SessionState) -> NextStep {
    let _busy = place.group.busy();
    Box::pin(proving::prove(place, session, state)).await
}

/// Interval at which an idle session checks whether another group needs a session.
const IDLE_TICK: Duration = Duration::from_millis(250);

/// Waits up to [`SESSION_IDLE`] for work. False if none came, or if another group waits for the place of this session.
async fn idle<R: Runtime>(place: Place<'_>) -> bool {
    let Place { asking, group, .. } = place;
    let until = R::now() + SESSION_IDLE;
    let mut waker = None;
    let mut come = false;
    while !come && R::now() < until && !asking.is_crowded(group, place.route().address) {
        let work = poll_fn(|context| {
            if group.waiting() > 0 {
                return Poll::Ready(());
            }
            group.add_idle(context.waker());
            if planted(Fault::Spin) {
                context.waker().wake_by_ref();
            }
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
