//! The life of a session task: a route, a connection, and transactions while there is work.
//!
//! The modules below are of two kinds. These hold the life of a session, and know no verdicts:
//!
//! - `crate::session`: the connection, TLS and the bytes of one session
//! - this module: opening, the sequence of transactions, waiting for work, closing
//! - `room.rs`: what the next transaction may be
//! - `works.rs`, `proving.rs`, `greylisting.rs`: the transactions, by their recipients
//! - `transaction.rs`: the events of one transaction
//!
//! These hold the meaning of what a server says, and send nothing:
//!
//! - `replies.rs`: a reply about a recipient, to MAIL, or to everyone
//! - `control_replies.rs`: a reply about a control recipient or a known mailbox
//! - `checkpoint.rs`: all replies of a session together, and the answers that it releases because of them
//! - `endings.rs`: the end of a connection, a session or a transaction
//!
//! `context.rs` is what both kinds know of the host.

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

use crate::runtime::Runtime;
use crate::session::Session;
use crate::shard::{Shard, queue};
use crate::site::{Group, Next};
use context::ProbeContext;
pub(crate) use endings::pushed_away;
use endings::{blame, session_refused, unreachable};
use engine_proto::limits::SESSION_IDLE;
use engine_proto::pace::REFUSALS_CISCO;
use engine_proto::smtp::dialog::Event;
use engine_proto::verdict::evidence::Held;
use room::{SessionRoom, room};
use std::future::poll_fn;
use std::rc::Rc;
use std::task::Poll;
use std::time::Duration;
use transaction::{NextStep, SessionState};

/// The next step of a session task after a session.
enum NextSession {
    /// Another session, if there is work.
    Again,
    /// The task ends, because there is no work.
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
    let starttls = !route.is_plain_only();
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
    shard.shared.on_reached(source);
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
        // The server closed the session together with the reply because of which we leave.
        blame(&context, &closure, &state.tally);
    }
    // This session cannot prove any more answers.
    checkpoint::release(&context, &state, false);
    match end {
        SessionEnd::Quit(then) => {
            group.site.pace.borrow_mut().on_spent(&state.tally);
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
    /// The connection has ended.
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
                if !shard.answer_if_over_budget(group, R::now()) {
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
        replies::heed_blanket_refusals(context);
        match after {
            NextStep::Open => {}
            NextStep::Leave => return SessionEnd::Quit(NextSession::Again),
            NextStep::Over => return SessionEnd::Lost,
        }
    }
}

/// A transaction for up to `most` of the works that wait. If none waits, the session proves the answers that it holds, and then
/// waits for work. An error if the session is to end.
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
    let works = works::to_ask(context, state, works, session.dialog.extensions().smtputf8);
    if !works.is_empty() {
        let _busy = group.busy();
        return Ok(works::ask(context, session, works, state).await);
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
    // Works that this host has answered without a result may have no other route.
    answer_unroutable(shard, group);
    if group.waiting() > 0 {
        // The works that wait need another route.
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

/// Interval at which an idle session checks whether another group needs its place.
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
