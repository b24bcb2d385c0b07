//! What the next transaction of a session may contain, by the server's limits, the site's pace and the budget of refused
//! recipients.

use super::context::ProbeContext;
use super::transaction::SessionState;
use crate::faults::{Fault, planted};
use crate::runtime::Runtime;
use crate::session::Session;
use engine_proto::limits::TRANSACTION_RECIPIENTS_MAX;
use engine_proto::pace::Tally;

/// What the next transaction of a session may contain.
pub(super) enum SessionRoom {
    /// Up to this number of recipients.
    Recipients(usize),
    /// Only the questions that prove the held answers: after a transaction with works there would be no room for these questions.
    Proof,
    /// No further works: they need another session. The held answers can still be proven.
    Spent,
    /// No recipients before the budget of refused recipients has room again.
    OverBudget,
}

/// Decides what the next transaction of an open session may contain.
pub(super) fn room<R: Runtime>(
    context: &ProbeContext<'_>,
    session: &Session<R>,
    state: &SessionState,
) -> SessionRoom {
    let group = context.group;
    let extensions = session.dialog.extensions();
    let (mut recipients, bounds_errors) = {
        let pace = &group.site.state().pace;
        let tally = if planted(Fault::IgnoreSessionLimits) { Tally::default() } else { state.tally };
        (pace.next_transaction(&tally), pace.bounds_errors())
    };
    let transactions = |most: u32| most.saturating_sub(state.tally.transactions);
    let transactions = extensions.transactions_max.map_or(u32::MAX, transactions);
    if state.one_transaction && recipients > 1 {
        // Each of them may need a control recipient in the same transaction.
        recipients = recipients.min(TRANSACTION_RECIPIENTS_MAX) / 2;
    }
    if context.state().is_blanket(&context.route().host) {
        // One recipient is enough to see whether the host still gives the same refusal to everyone.
        recipients = recipients.min(1);
    }
    recipients = recipients.min(extensions.recipients_max.map_or(usize::MAX, |most| most as usize));
    if recipients == 0 || transactions == 0 {
        return SessionRoom::Spent;
    }
    let (wanted, holds_none) = {
        let evidence = &context.works().evidence;
        (evidence.domains_unproven_count(), evidence.is_empty())
    };
    if !holds_none && transactions == 1 {
        return SessionRoom::Proof;
    }
    if bounds_errors {
        // After the last refusal that the site allows in a session, nothing can be proven there, so some refusals are kept for the
        // proof.
        let kept = match wanted {
            // The control recipient, and if no mailbox is known, `postmaster@` too.
            0 if holds_none => {
                if context.has_known_mailbox() {
                    1
                } else {
                    2
                }
            }
            0 => 1,
            // A control recipient that is refused in unclear words needs a second one, and a known mailbox after it.
            wanted => wanted + 2,
        };
        // A session that has asked about no work yet asks about one in any case, because the next session would have no more room.
        let is_first = state.tally.asked == state.known_asked_first.unwrap_or(0);
        match recipients.checked_sub(kept) {
            Some(left) if left > 0 => recipients = left,
            _ if is_first => recipients = 1,
            _ if holds_none => return SessionRoom::Spent,
            _ => return SessionRoom::Proof,
        }
    }
    match context.asking.refusal_room(group, context.now) {
        0 => SessionRoom::OverBudget,
        // The control recipients that are still to be asked will be refused, too.
        budget if budget <= wanted => SessionRoom::Proof,
        budget => SessionRoom::Recipients(recipients.min(budget - wanted)),
    }
}
