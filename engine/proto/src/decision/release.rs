//! Decides what happens to a recipient when a checkpoint releases its answer. A session holds its answers until a checkpoint, where
//! later replies show what they are worth: see [`crate::verdict::evidence`].

use crate::limits::CONTROL_UNKNOWN_TTL;
use crate::retry::{GREYLISTING_WAIT, may_tell_more};
use crate::verdict::catch_all::ControlFinding;
use crate::verdict::classify::{Classification, reason_at_rcpt};
use crate::verdict::evidence::{Held, Proof};
use crate::verdict::{Class, Reason, Scope};
use std::time::Duration;

/// The rule of an address if the later behaviour of the server contradicts the answer about it.
pub const CHANGED: &str = "behaviour_changed";

/// The rule of an address if the server sends more replies than it got commands, so that nobody knows which of them is about the
/// address.
pub const OUT_OF_STEP: &str = "replies_out_of_step";

/// The rule of an address if its refusal was not proven, for example because no mailbox was accepted afterwards.
pub const UNPROVEN: &str = "refusal_unproven";

/// The rule of an address if it was accepted, but there was no reply about the control recipient (an invented mailbox of the
/// domain).
pub const UNANSWERED: &str = "control_unanswered";

/// The rule of an address if it was accepted, but the reply about the control recipient proves nothing, for example because it says
/// that this invented mailbox is full.
pub const UNCLEAR: &str = "control_unclear";

/// What is known in addition to the answer and its proof.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ReleaseFacts {
    /// The checkpoint asked the server no questions to prove the answers, or all of them were answered.
    pub questions_answered: bool,
    /// The server changed its behaviour in the session.
    pub changed: bool,
    /// Too many sessions ended at the control recipient of the domain, so it is not asked about again.
    pub without_control: bool,
    /// The recipient was accepted in an earlier session that did not prove the accept.
    pub was_accepted: bool,
}

/// What happens to a recipient after its answer has been released.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReleaseEffect {
    /// The recipient was accepted, and the control recipient has shown whether its domain accepts everyone.
    Finish(ControlFinding),
    /// The recipient's own reply counts, and gives this reason.
    Settle(Reason),
    /// The recipient is answered with this reason and rule.
    Decide(Reason, &'static str),
    /// The recipient was accepted, but the reply about the control recipient was not clear. A later reply may be clear.
    Unclear,
    /// The recipient is unverifiable, because the control recipient is not asked about again.
    WithoutControl,
    /// The recipient is asked about in another session.
    Return {
        /// The rule of the recipient if there is no other session.
        rule: &'static str,
        /// Whether this counts as two tries, because the next session may show no more.
        counts_twice: bool,
        /// Whether the next session has to know how this session answered.
        remembered: bool,
    },
    /// The recipient is asked about in another session, as with [`ReleaseEffect::Return`]. The next session at the host can prove
    /// the refusal.
    Carry,
    /// The other hosts are asked.
    OtherHosts,
}

/// Decides what happens to a recipient after its answer has been released.
pub fn on_released(held: Held, said: &Classification, proof: Proof, facts: ReleaseFacts) -> ReleaseEffect {
    let again = |rule| ReleaseEffect::Return { rule, counts_twice: false, remembered: false };
    match (held, proof) {
        (_, Proof::OutOfStep) => {
            ReleaseEffect::Return { rule: OUT_OF_STEP, counts_twice: false, remembered: false }
        }
        (Held::Decided(reason, rule), Proof::Proven) => ReleaseEffect::Decide(reason, rule),
        (Held::Decided(..), _) => again(UNPROVEN),
        (Held::Accepted, Proof::Proven) => ReleaseEffect::Finish(ControlFinding::RefusesUnknown),
        (Held::Accepted, Proof::CatchAll) => ReleaseEffect::Finish(ControlFinding::AcceptsAll),
        (Held::Accepted, Proof::Unclear) => ReleaseEffect::Unclear,
        (Held::Accepted, Proof::Lost) if facts.without_control => ReleaseEffect::WithoutControl,
        (Held::Accepted, Proof::Lost | Proof::Carried | Proof::Assumed) => {
            ReleaseEffect::Return { rule: UNANSWERED, counts_twice: false, remembered: true }
        }
        // The refusal contradicts an earlier accept, and the session ended before a question could show which of them is right.
        (Held::Refused | Held::Denied, Proof::Proven | Proof::Assumed)
            if facts.was_accepted && !facts.questions_answered =>
        {
            again(UNPROVEN)
        }
        (Held::Refused | Held::Denied, Proof::Proven | Proof::Assumed) => {
            ReleaseEffect::Settle(reason_at_rcpt(said))
        }
        (_, Proof::Changed) => ReleaseEffect::Return { rule: CHANGED, counts_twice: true, remembered: false },
        (Held::Refused | Held::Denied, Proof::Carried) => ReleaseEffect::Carry,
        // If no question got a clear answer, another session may not get one either, so this counts as two of the few tries.
        (Held::Refused | Held::Denied, proof) => ReleaseEffect::Return {
            rule: if facts.changed { CHANGED } else { UNPROVEN },
            counts_twice: proof == Proof::Unclear,
            remembered: true,
        },
        (Held::Unclear, Proof::Proven) => ReleaseEffect::Settle(Reason::MailboxNotFound),
        (Held::Unclear, Proof::Lost) => again(said.rule),
        (Held::Unclear, _) => ReleaseEffect::OtherHosts,
    }
}

/// The result for an address that was accepted without a proof.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UnprovenAccept {
    /// The rule of the address.
    pub rule: &'static str,
    /// The delay after which a later check may show more; `None` if such a check would give the same answer.
    pub retry_after: Option<Duration>,
    /// Whether the same check soon asks once more, because the cause of the reply is temporary.
    pub again_soon: bool,
}

/// Decides the result for an address that was accepted without a proof. `control` is the reply about the control recipient, which
/// proves nothing; `None` if there was no reply.
///
/// A server that refuses us refuses the control recipient in the same words as any address. So if this reply is greylisting,
/// throttling, a refusal by policy or of relaying, or a demand for authentication, its rule becomes that of the address. The same
/// holds for a temporary or unclear reply that is not about the invented mailbox. Any other reply says nothing about the address,
/// and the rule is [`UNCLEAR`].
pub fn on_unproven_accept(control: Option<&Classification>) -> UnprovenAccept {
    let later = Some(CONTROL_UNKNOWN_TTL);
    let Some(control) = control else {
        return UnprovenAccept { rule: UNANSWERED, retry_after: later, again_soon: false };
    };
    let names_cause = match control.class {
        Class::Greylisted | Class::Throttled | Class::Policy | Class::AuthRequired | Class::Relay => true,
        Class::Temporary | Class::Unclear => control.scope != Scope::Recipient,
        _ => false,
    };
    let rule = if names_cause { control.rule } else { UNCLEAR };
    let retry_after = match control.class {
        Class::Greylisted => Some(GREYLISTING_WAIT),
        _ => later.filter(|_| may_tell_more(rule)),
    };
    UnprovenAccept { rule, retry_after, again_soon: control.class == Class::Temporary }
}

#[cfg(test)]
mod tests;
