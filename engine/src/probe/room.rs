//! Decides how many works (addresses) the next transaction of a session may ask about. The limits are those of the server, the pace
//! of the site and the budget of refused recipients. Some room is kept for the proof: questions about control recipients (which do
//! not exist) and known mailboxes (which the host accepted before), which show whether the held answers count.

use super::context::ProbeContext;
use super::transaction::SessionState;
use crate::faults::{Fault, planted};
use crate::runtime::Runtime;
use crate::session::Session;
use engine_proto::limits::TRANSACTION_RECIPIENTS_MAX;
use engine_proto::pace::Tally;

/// The room of the next transaction.
pub(super) enum SessionRoom {
    /// Up to this number of works.
    Recipients(usize),
    /// Only the questions of the proof. After a transaction with works, there would be no room for them.
    Proof,
    /// This session takes no further works. The questions of the proof may still be asked.
    Spent,
    /// No works before the budget of refused recipients has room again.
    OverBudget,
}

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
    let transactions = state.transactions_left();
    if state.takes_one_transaction() && recipients > 1 {
        // Each work may need a control recipient in the same transaction.
        recipients = recipients.min(TRANSACTION_RECIPIENTS_MAX) / 2;
    }
    recipients = recipients.min(context.state().room_for_alike(&context.route().host));
    recipients = recipients.min(extensions.recipients_max.map_or(usize::MAX, |most| most as usize));
    if recipients == 0 || transactions == 0 {
        return SessionRoom::Spent;
    }
    let (wanted, holds_none) = {
        let evidence = &context.works().evidence;
        (evidence.domains_unproven_count(), evidence.is_empty())
    };
    if transactions == 1 && state.tally.transactions > 0 {
        // The last transaction is kept for the proof. After works, there would be no transaction for their proof.
        return if holds_none { SessionRoom::Spent } else { SessionRoom::Proof };
    }
    if bounds_errors {
        // After the last refusal that the site allows in a session, the site ends the session or delays its replies. So some of the
        // allowed refusals are kept for the proof. `wanted` is the number of domains that need a control recipient.
        let kept = match wanted {
            // The session holds nothing yet. It will need a control recipient, and `postmaster@` if there is no known mailbox.
            0 if holds_none => 1 + usize::from(!context.has_known_mailbox(None)),
            0 => 1,
            // If a control recipient is refused in unclear words, the proof also needs a second one and a known mailbox.
            wanted => wanted + 2,
        };
        // The first transaction with works gets at least one work, because another session would have no more room than this one.
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
        // The control recipients of the held answers will probably be refused, so they need room in the budget too.
        budget if budget <= wanted => SessionRoom::Proof,
        budget => SessionRoom::Recipients(recipients.min(budget - wanted)),
    }
}
