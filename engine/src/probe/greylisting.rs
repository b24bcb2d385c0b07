//! Greylisting: a server refuses each recipient that is new to it with a transient reply, and gives its real reply only some
//! minutes later.
//!
//! When mailprobe asks about such an address again, the server may accept it. To prove the accept, mailprobe then asks about a
//! control recipient of the domain (one that does not exist), which would be new to the server and get a transient reply. So
//! mailprobe does not wait for an accept: it asks about the control recipient in the session in which a recipient of the domain is
//! greylisted, if that session has room. Then both delays pass at the same time. The delays are in [`engine_proto::retry`].

use super::context::{Place, ProbeContext};
use super::endings::{blame, push_back};
use super::replies::mail_refused;
use super::transaction::{NextStep, RcptReply, Recipients, SessionState, run};
use crate::runtime::Runtime;
use crate::session::Session;
use crate::site::SessionNotes;
use engine_proto::decision::recipient::ReplyEffect;
use engine_proto::limits::REFUSALS_KEPT_FOR_PROOF;
use engine_proto::pace::Tally;
use engine_proto::smtp::dialog::Closure;
use engine_proto::smtp::reply::Reply;
use engine_proto::verdict::classify::classify;
use engine_proto::verdict::{Class, Scope, Stage};

/// Asks about the control recipients of domains that were greylisted in this session, as many as fit into one transaction and into
/// the budget of refused recipients. Leaves out those about which earlier replies have shown enough. `None` if there is none to ask
/// about, or no room.
pub(super) async fn introduce<R: Runtime>(
    place: Place<'_>,
    session: &mut Session<R>,
    state: &mut SessionState,
) -> Option<NextStep> {
    let now = R::now();
    let context = &place.at(now);
    let asking = context.asking;
    let is_unknown = |domain_key: u64| asking.knowledge.borrow().believed(domain_key, true, now).is_none();
    let mut domains = state.notes.take_greylisted();
    domains.retain(|domain| is_unknown(context.domain_key(domain)));
    let (recipients, refusals) = context.group.site.state().pace.left(&state.tally);
    let most = if context.group.is_one_domain() { 1 } else { usize::MAX };
    domains.truncate(most.min(recipients).min(refusals));
    if domains.is_empty() || state.takes_one_transaction() {
        return None;
    }
    let counted = context.reserve(domains.len(), REFUSALS_KEPT_FOR_PROOF);
    domains.truncate(counted.count());
    if domains.is_empty() {
        return None;
    }
    let controls: Vec<String> =
        domains.iter().map(|domain| asking.control_recipient(domain, false, now)).collect();
    session.limit = now + asking.session_limit;
    session.dialog.transact(now, controls.iter().map(String::as_str), false, place.state().in_step());
    let _busy = context.group.busy();
    Some(Box::pin(run(place, session, counted, state, Introduced)).await)
}

/// Control recipients that the server should see for the first time. The replies prove nothing yet, and are ignored unless the
/// server pushes back.
struct Introduced;

impl Recipients for Introduced {
    fn record(&mut self, _context: &ProbeContext<'_>, _trace: &mut Vec<String>) {}

    fn on_reply(
        &mut self,
        context: &ProbeContext<'_>,
        _notes: &mut SessionNotes,
        received: &RcptReply<'_>,
    ) -> ReplyEffect {
        let said = classify(&context.view(Stage::Control, received.reply, None));
        if said.class != Class::Throttled && said.scope != Scope::Session {
            return ReplyEffect::Nothing;
        }
        push_back(context, said.rule);
        ReplyEffect::Push
    }

    fn on_mail_refused(
        &mut self,
        context: &ProbeContext<'_>,
        _notes: &mut SessionNotes,
        reply: &Reply,
    ) -> bool {
        mail_refused(context, Vec::new(), false, reply);
        true
    }

    fn put_back(&mut self, _context: &ProbeContext<'_>) -> bool {
        true
    }

    fn on_cut_off(
        &mut self,
        context: &ProbeContext<'_>,
        _notes: &mut SessionNotes,
        closure: &Closure,
        tally: &Tally,
    ) {
        blame(context, closure, tally);
    }
}
