//! Decides the effects of a reply to RCPT: on the recipient, the session and the host.

use crate::verdict::classify::{Classification, reason_at_rcpt};
use crate::verdict::evidence::Held;
use crate::verdict::{Class, Reason, Scope};

/// The rule of a reply with the enhanced code 5.1.1 ("no such mailbox") and with words that may contradict it.
const UNCERTAIN: &str = "uncertain-5.1.1";

/// What the decision needs in addition to the meaning of the reply.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RcptFacts {
    /// The code of the reply is 5yz.
    pub permanent: bool,
    /// Other recipients of the same transaction got their answers earlier.
    pub behind_others: bool,
    /// The recipient is the first one of its transaction, and an earlier transaction of the session has got answers.
    pub behind_taken: bool,
    /// The host accepts everything, so an accept shows nothing.
    pub accepts_everything: bool,
    /// An earlier session had to return the recipient to the queue.
    pub returned: bool,
    /// An earlier session got the same refusal from the host, and no session has got a clear reply about a recipient since.
    pub repeated: bool,
    /// The refusal is a block of our source (our address and EHLO name), if the host gives it to everyone.
    pub block: bool,
    /// The host may refuse our IPv6 address, and it can also be reached at an IPv4 address.
    pub for_ipv6: bool,
}

/// The effects of one reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RcptEffects {
    /// Set if the host may give this refusal to every recipient.
    pub alike: Option<Alike>,
    /// The effect on the host apart from `alike`.
    pub host: HostEffect,
    /// What happens to the recipient.
    pub recipient: RecipientEffect,
    /// The effect on the session.
    pub session: ReplyEffect,
}

/// A refusal that the host may give to every recipient.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Alike {
    /// The refusal is a block of our source, if everyone gets it.
    pub block: bool,
    /// Whether the refusal counts by itself. Otherwise it counts only together with an equal refusal that counts by itself.
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
    /// The session holds the answer until later replies show whether it counts.
    Hold(Held),
    /// The recipient is answered with this reason and rule.
    Settle(Reason, &'static str),
    /// The recipient is unverifiable for now. It may be asked about again later, if the schedule of its check allows that.
    Greylisted,
    /// The recipient is asked about in the next transaction of the session.
    NextTransaction,
    /// The recipient is asked about in another session, at most [`RETURNS_MAX`](crate::limits::RETURNS_MAX) times.
    AnotherSession {
        /// Whether that session has to use another route.
        other_route: bool,
    },
    /// The cause of the reply is temporary. The other hosts are asked. If no host gives an answer and the check can wait, mailprobe
    /// asks about the recipient once more after a while.
    OnceMore,
    /// The other hosts are asked, or another address of this one.
    OtherHosts,
}

/// The effect of a reply to RCPT on its session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReplyEffect {
    /// The reply counts as a clear one about the recipient.
    Answer,
    /// The host refused the recipient, and may refuse everyone in the same way.
    Refusal,
    /// The transaction is full: the recipient is asked about in the next one.
    Later,
    /// The session takes no further recipient, even in another transaction.
    SessionFull,
    /// The session ends after this transaction, because this recipient has to be asked about in another session.
    Push,
    /// The session continues, because another session would get the same reply.
    Nothing,
}

/// Decides the effects of a reply to RCPT.
pub fn on_rcpt_reply(said: &Classification, facts: RcptFacts) -> RcptEffects {
    let RcptFacts { permanent, repeated, .. } = facts;
    let session = ReplyEffect::Answer;
    let answer = |recipient| RcptEffects { alike: None, host: HostEffect::Nothing, recipient, session };
    // The host may give such a reply to everyone. But a 4yz reply may soon change, so only a 5yz reply counts as one that everyone
    // gets.
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
        // A server may count the recipients of a whole session.
        Class::Throttled if said.scope == Scope::Session && facts.behind_taken => RcptEffects {
            session: ReplyEffect::SessionFull,
            ..answer(RecipientEffect::AnotherSession { other_route: false })
        },
        Class::Throttled => RcptEffects {
            host: HostEffect::PushBack,
            session: ReplyEffect::Push,
            ..lasting(RecipientEffect::AnotherSession { other_route: false })
        },
        Class::Greylisted => answer(RecipientEffect::Greylisted),
        // A host may refuse sessions at one of its addresses and accept them at another, for example over the other IP family. So
        // another address is tried if an earlier session got the same refusal, or had to return this recipient.
        _ if said.scope == Scope::Session => RcptEffects {
            alike: (said.to_all || permanent).then_some(Alike { block: false, counts_alone: repeated }),
            host: HostEffect::SessionRefused,
            recipient: RecipientEffect::AnotherSession { other_route: facts.returned || repeated },
            session: if repeated { ReplyEffect::Nothing } else { ReplyEffect::Push },
        },
        Class::Temporary => lasting(RecipientEffect::OnceMore),
        // Only the reply to a recipient that does not exist (the control recipient) shows what this reply means.
        Class::Unclear if said.permanent && said.scope == Scope::Recipient && said.rule == UNCERTAIN => {
            answer(RecipientEffect::Hold(Held::Unclear))
        }
        // If the server says this about every recipient, the cause is the server's own disk, or a limit that does not belong to one
        // mailbox.
        Class::Full => lasting(RecipientEffect::Settle(reason, said.rule)),
        Class::NotFound if reason != Reason::Unverifiable => answer(RecipientEffect::Hold(Held::Refused)),
        _ if reason != Reason::Unverifiable => answer(RecipientEffect::Hold(Held::Denied)),
        _ => not_about_recipient(said, facts),
    }
}

/// The effects of a refusal that says nothing about the recipient. Another host, or another address of this one, may say more. If
/// the host gives the same refusal to one recipient after the other, it may give it to everyone.
fn not_about_recipient(said: &Classification, facts: RcptFacts) -> RcptEffects {
    let is_other_hosts = matches!(said.class, Class::Relay | Class::Unclear | Class::AuthRequired)
        || said.scope == Scope::Host;
    let recipient = match facts.for_ipv6 || (is_other_hosts && !said.to_all) {
        true => RecipientEffect::OtherHosts,
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
