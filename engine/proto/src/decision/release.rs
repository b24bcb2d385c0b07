//! The effects of a checkpoint on an answer that it released: see [`crate::verdict::evidence`].

use crate::verdict::Reason;
use crate::verdict::catch_all::ControlFinding;
use crate::verdict::classify::{Classification, reason_at_rcpt};
use crate::verdict::evidence::{Held, Proof};

/// The rule of an address if the later behaviour of the server contradicts its answer.
pub const CHANGED: &str = "behaviour_changed";

/// The rule of a refusal after which no mailbox was accepted.
pub const UNPROVEN: &str = "refusal_unproven";

/// The rule of an accept after which the session ended.
pub const UNANSWERED: &str = "control_unanswered";

/// What is known beside the answer and its proof.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ReleaseFacts {
    /// All questions were answered, or there was none.
    pub alive: bool,
    /// The server changed its behaviour in the session.
    pub changed: bool,
    /// Too many sessions ended at the control recipient of the domain, so it is not asked about again.
    pub without_control: bool,
    /// The recipient was accepted in an earlier session that did not prove that.
    pub was_accepted: bool,
}

/// What happens with a recipient whose answer was released.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReleaseEffect {
    /// An accept counts for what the control recipient showed.
    Finish(ControlFinding),
    /// It is answered with this reason, because of its own reply.
    Settle(Reason),
    /// The control recipient got no clear reply, and may get one later.
    Unclear,
    /// It is unverifiable, and the control recipient is not asked about again.
    WithoutControl,
    /// It is asked about in another session.
    Return {
        /// The rule of the recipient if that is not possible.
        rule: &'static str,
        /// The next session may meet the same, so this counts twice.
        counts_twice: bool,
        /// The next session is to know of the answer.
        noted: bool,
    },
    /// As [`ReleaseEffect::Return`]: the next session at the host can prove the refusal.
    Carry,
    /// The other hosts are asked.
    Elsewhere,
}

/// Decides what happens with a recipient whose answer was released.
pub fn on_released(held: Held, said: &Classification, proof: Proof, facts: ReleaseFacts) -> ReleaseEffect {
    let again = |rule| ReleaseEffect::Return { rule, counts_twice: false, noted: false };
    match (held, proof) {
        (Held::Accepted, Proof::Proven) => ReleaseEffect::Finish(ControlFinding::RefusesUnknown),
        (Held::Accepted, Proof::CatchAll) => ReleaseEffect::Finish(ControlFinding::AcceptsAll),
        (Held::Accepted, Proof::Unclear) => ReleaseEffect::Unclear,
        (Held::Accepted, Proof::Lost) if facts.without_control => ReleaseEffect::WithoutControl,
        (Held::Accepted, Proof::Lost | Proof::Carried | Proof::Assumed) => {
            ReleaseEffect::Return { rule: UNANSWERED, counts_twice: false, noted: true }
        }
        // It contradicts an earlier session, and the session ended before a question could settle that.
        (Held::Refused | Held::Denied, Proof::Proven | Proof::Assumed)
            if facts.was_accepted && !facts.alive =>
        {
            again(UNPROVEN)
        }
        (Held::Refused | Held::Denied, Proof::Proven | Proof::Assumed) => {
            ReleaseEffect::Settle(reason_at_rcpt(said))
        }
        (_, Proof::Changed) => ReleaseEffect::Return { rule: CHANGED, counts_twice: true, noted: false },
        (Held::Refused | Held::Denied, Proof::Carried) => ReleaseEffect::Carry,
        // No question gave a clear answer, so another session may not either: the number of tries is bounded.
        (Held::Refused | Held::Denied, proof) => ReleaseEffect::Return {
            rule: if facts.changed { CHANGED } else { UNPROVEN },
            counts_twice: proof == Proof::Unclear,
            noted: true,
        },
        (Held::Unclear, Proof::Proven) => ReleaseEffect::Settle(Reason::MailboxNotFound),
        (Held::Unclear, Proof::Lost) => again(said.rule),
        (Held::Unclear, _) => ReleaseEffect::Elsewhere,
    }
}

#[cfg(test)]
mod tests;
