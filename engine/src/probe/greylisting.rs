//! Greylisting: servers that put off every recipient that they have not heard of before.
//!
//! An address that is asked about again is accepted then, but its control recipient is new to the server and is put off in turn.
//! So the control recipient is asked about as soon as one of its domain's recipients is greylisted: both waits pass at once.

use super::ProbeContext;
use super::endings::{blame, push_back};
use super::replies::mail_refused;
use super::transaction::{Answered, NextStep, Recipients, ReplyEffect, SessionState, hear};
use crate::runtime::Runtime;
use crate::session::Session;
use engine_proto::pace::Tally;
use engine_proto::smtp::dialog::Closure;
use engine_proto::smtp::reply::Reply;
use engine_proto::verdict::classify::classify;
use engine_proto::verdict::{Class, Scope, Stage};

/// Asks about the control recipients of the domains that were greylisted in this session; `None` where there are none.
pub(super) async fn introduce<R: Runtime>(
    context: &ProbeContext<'_, R>,
    session: &mut Session<R>,
    state: &mut SessionState,
) -> Option<NextStep> {
    let (shard, now) = (context.shard, R::now());
    let is_unknown = |number: u64| shard.knowledge.borrow().believed(number, true, now).is_none();
    let mut domains = state.held.take_greylisted();
    domains.retain(|domain| is_unknown(context.number(domain)));
    let (recipients, refusals) = context.group.site.pace.borrow().left(&state.tally);
    let budget = context.group.refusal_room(shard.refusal_step());
    let most = if context.group.takes_one_domain() { 1 } else { usize::MAX };
    domains.truncate(most.min(recipients).min(refusals).min(budget));
    if domains.is_empty() || state.one_transaction {
        return None;
    }
    let controls: Vec<String> = domains.iter().map(|domain| shard.control_recipient(domain, false)).collect();
    session.limit = now + shard.session_limit;
    session.dialog.transact(now, controls.iter().map(String::as_str), false);
    let _busy = context.group.busy();
    Some(Box::pin(hear(context, session, controls.len(), state, Introduced)).await)
}

/// Control recipients of which the answers matter to nobody yet.
struct Introduced;

impl<R: Runtime> Recipients<R> for Introduced {
    fn record(&mut self, _context: &ProbeContext<'_, R>, _trace: &mut Vec<String>) {}

    fn answered(&mut self, context: &ProbeContext<'_, R>, heard: &Answered<'_>) -> ReplyEffect {
        let said = classify(&context.view(Stage::Control, heard.reply, None));
        if said.class != Class::Throttled && said.scope != Scope::Session {
            return ReplyEffect::Nothing;
        }
        push_back(context, said.rule);
        ReplyEffect::Push
    }

    fn mail_refused(&mut self, context: &ProbeContext<'_, R>, reply: &Reply) -> bool {
        mail_refused(context, Vec::new(), false, reply);
        true
    }

    fn put_back(&mut self, _context: &ProbeContext<'_, R>) -> bool {
        true
    }

    fn out_of_time(&mut self, _context: &ProbeContext<'_, R>) {}

    fn cut_off(&mut self, context: &ProbeContext<'_, R>, closure: &Closure, tally: &Tally) {
        blame(context, closure, tally);
    }
}
