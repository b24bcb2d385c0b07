//! The effects of a reply to RCPT.

use crate::verdict::classify::{Classification, reason_at_rcpt};
use crate::verdict::evidence::Held;
use crate::verdict::{Class, Reason, Scope};

/// The rule of a reply that denies the recipient by its code 5.1.1, but with words that may contradict the code.
const UNCERTAIN: &str = "uncertain-5.1.1";

/// What is known in addition to the meaning of the reply.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RcptFacts {
    /// The code of the reply is 5yz.
    pub permanent: bool,
    /// Other recipients of the same transaction had their answers before.
    pub behind_others: bool,
    /// The host accepts everything, so an accept shows nothing.
    pub accepts_everything: bool,
    /// The recipient was put back before, after an earlier session.
    pub returned: bool,
    /// An earlier session got the same refusal, and no session has got a reply about a recipient since.
    pub repeated: bool,
    /// If the host gives this reply to everyone, it is a block of our source.
    pub block: bool,
    /// The cause may be our IPv6 address, because the host can be reached at an IPv4 address as well.
    pub for_ipv6: bool,
}

/// The effects of one reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RcptEffects {
    /// Set if the host may give this refusal to everyone.
    pub alike: Option<Alike>,
    /// The other effect on the host.
    pub host: HostEffect,
    /// What happens with the recipient.
    pub recipient: RecipientEffect,
    /// The effect on the session.
    pub session: ReplyEffect,
}

/// A refusal that the host may give to everyone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Alike {
    /// If everyone gets this refusal, it is a block of our source.
    pub block: bool,
    /// The refusal counts, even if no other session has got it.
    pub counts_alone: bool,
}

/// The effect of a reply to RCPT on its host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HostEffect {
    /// The host is used as before.
    Nothing,
    /// The site pushes back, so its pace is lowered.
    PushBack,
    /// The host refuses to go on with this session.
    SessionRefused,
}

/// The effect of a reply to RCPT on its recipient.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RecipientEffect {
    /// The answer is held, and counts if later replies prove it.
    Hold(Held),
    /// The recipient is answered with this reason and rule.
    Settle(Reason, &'static str),
    /// The recipient is unverifiable for now. It may be asked about again later, if the schedule of its check allows that.
    Greylisted,
    /// The recipient is asked about in the next transaction of the session.
    NextTransaction,
    /// The recipient is asked about in another session. This can happen a few times.
    AnotherSession {
        /// Whether this session has to use another route.
        elsewhere: bool,
    },
    /// The recipient is asked about once more later, because the reply was transient.
    OnceMore,
    /// The other hosts are asked, or another address of this one.
    Elsewhere,
}

/// The effect of a reply to RCPT on its session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReplyEffect {
    /// The reply counts as an answer about the recipient.
    Answer,
    /// The reply counts as an answer that the host may give to everyone.
    Refusal,
    /// The transaction is full: the recipient is asked about in the next one.
    Later,
    /// The recipient has to be asked about in another session.
    Push,
    /// The reply has no effect, and another session would get the same reply.
    Nothing,
}

/// Decides the effects of a reply to RCPT.
pub fn on_rcpt_reply(said: &Classification, facts: RcptFacts) -> RcptEffects {
    let RcptFacts { permanent, repeated, .. } = facts;
    let session = ReplyEffect::Answer;
    let answer = |recipient| RcptEffects { alike: None, host: HostEffect::Nothing, recipient, session };
    // The host may say this to everyone. But only a 5yz code says that it lasts, so only such a reply counts as a refusal of
    // everyone.
    let lasting = |recipient| match permanent {
        true => RcptEffects {
            alike: Some(Alike { block: false, counts_alone: true }),
            session: ReplyEffect::Refusal,
            ..answer(recipient)
        },
        false => answer(recipient),
    };
    let reason = reason_at_rcpt(said);
    match said.class {
        Class::Accepted | Class::ExistsThrottled if facts.accepts_everything => {
            answer(RecipientEffect::Settle(Reason::Unverifiable, "accepts_everything"))
        }
        Class::Accepted | Class::ExistsThrottled if reason == Reason::MailboxExists => {
            answer(RecipientEffect::Hold(Held::Accepted))
        }
        // RFC 5321 4.5.3.1.10: the transaction is full, so the other recipients go into the next one.
        Class::Throttled if said.scope == Scope::Session && facts.behind_others => {
            RcptEffects { session: ReplyEffect::Later, ..answer(RecipientEffect::NextTransaction) }
        }
        Class::Throttled => RcptEffects {
            host: HostEffect::PushBack,
            session: ReplyEffect::Push,
            ..lasting(RecipientEffect::AnotherSession { elsewhere: false })
        },
        Class::Greylisted => answer(RecipientEffect::Greylisted),
        // If the same refusal came before, for this recipient or for others at this host, another address of the host may still
        // accept us, above all one of the other IP family.
        _ if said.scope == Scope::Session => RcptEffects {
            alike: (said.to_all || permanent).then_some(Alike { block: false, counts_alone: repeated }),
            host: HostEffect::SessionRefused,
            recipient: RecipientEffect::AnotherSession { elsewhere: facts.returned || repeated },
            session: if repeated { ReplyEffect::Nothing } else { ReplyEffect::Push },
        },
        Class::Temporary => lasting(RecipientEffect::OnceMore),
        // The reply about the control recipient decides what this reply means.
        Class::Unclear if said.permanent && said.scope == Scope::Recipient && said.rule == UNCERTAIN => {
            answer(RecipientEffect::Hold(Held::Unclear))
        }
        // If the server says this about every recipient, its own disk is full, or it has another limit than that of one mailbox.
        Class::Full => lasting(RecipientEffect::Settle(reason, said.rule)),
        Class::NotFound if reason != Reason::Unverifiable => answer(RecipientEffect::Hold(Held::Refused)),
        _ if reason != Reason::Unverifiable => answer(RecipientEffect::Hold(Held::Denied)),
        _ => not_about_recipient(said, facts),
    }
}

/// The effects of a refusal that says nothing about the recipient. Another host, or another address of this one, may say more. If
/// the host gives this refusal to one recipient after the other, it may give it to everyone.
fn not_about_recipient(said: &Classification, facts: RcptFacts) -> RcptEffects {
    let is_other_hosts = matches!(said.class, Class::Relay | Class::Unclear | Class::AuthRequired)
        || said.scope == Scope::Host;
    let recipient = match facts.for_ipv6 || (is_other_hosts && !said.to_all) {
        true => RecipientEffect::Elsewhere,
        false => RecipientEffect::Settle(reason_at_rcpt(said), said.rule),
    };
    RcptEffects {
        alike: (said.permanent || said.to_all).then_some(Alike { block: facts.block, counts_alone: true }),
        host: HostEffect::Nothing,
        recipient,
        session: ReplyEffect::Refusal,
    }
}

#[cfg(test)]
mod tests;
