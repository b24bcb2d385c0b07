//! The room of a session: what its next transaction may be, by the server's limits, the site's pace and the budget of refusals.

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
    /// A transaction that proves the answers that are held: after another one there would be no room for the proof.
    Proof,
    /// No further transaction in this session.
    Spent,
    /// None before the budget of refusals has room again.
    OverBudget,
}

/// The room that an open session has for its next transaction.
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
        // Half of them may be control recipients.
        recipients = recipients.min(TRANSACTION_RECIPIENTS_MAX) / 2;
    }
    if context.state().is_blanket(&context.route().host) {
        // One is enough to see whether it still says the same to everyone.
        recipients = recipients.min(1);
    }
    recipients = recipients.min(extensions.recipients_max.map_or(usize::MAX, |most| most as usize));
    if recipients == 0 || transactions == 0 {
        return SessionRoom::Spent;
    }
    let (wanted, holds_none) = {
        let evidence = &context.works().evidence;
        (evidence.controls_wanted(), evidence.is_empty())
    };
    if !holds_none && transactions == 1 {
        return SessionRoom::Proof;
    }
    if bounds_errors {
        // After the last refusal that a session allows, nothing can be proven in it.
        let kept = match wanted {
            // The control recipient and a mailbox that was accepted, if one is.
            0 if holds_none => {
                if context.has_known_mailbox() {
                    1
                } else {
                    2
                }
            }
            0 => 1,
            // One that is refused in unclear words needs a second one, and a known mailbox after it.
            wanted => wanted + 2,
        };
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
        // Control recipients are refused, too.
        budget if budget <= wanted => SessionRoom::Proof,
        budget => SessionRoom::Recipients(recipients.min(budget - wanted)),
    }
}
