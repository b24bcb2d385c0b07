//! The effects of a reply to RCPT about a recipient that was asked about.

use crate::verdict::classify::{Classification, reason_at_rcpt};
use crate::verdict::evidence::Held;
use crate::verdict::{Class, Reason, Scope};

/// The rule for a code about the recipient whose words were not understood.
const UNCERTAIN: &str = "uncertain-5.1.1";

/// What is known beside the meaning of the reply.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RcptFacts {
    /// Its code is 5yz.
    pub permanent: bool,
    /// Others had their answers before, in the same transaction.
    pub behind_others: bool,
    /// The accepts of this host show nothing.
    pub accepts_everything: bool,
    /// The recipient was put back before.
    pub returned: bool,
    /// An earlier session got the same refusal, and none has got a reply about a recipient since.
    pub repeated: bool,
    /// If the host says it to everyone, the reply is a block of our source.
    pub block: bool,
    /// The cause may be our IPv6 address, because the host can be reached at an IPv4 address as well.
    pub for_ipv6: bool,
}

/// The effects of the reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RcptEffects {
    /// The host may say the same to everyone.
    pub alike: Option<Alike>,
    /// The effect on the host, apart from that.
    pub host: HostEffect,
    /// What happens with the recipient.
    pub recipient: RecipientEffect,
    /// The effect on the session.
    pub session: ReplyEffect,
}

/// A refusal that the host may give to everyone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Alike {
    /// It blocks our source.
    pub block: bool,
    /// No other session has to get the same refusal first.
    pub settled: bool,
}

/// The effect of a reply to RCPT on its host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HostEffect {
    /// The host is used as before.
    Nothing,
    /// The site has too much: its pace is lowered.
    PushBack,
    /// The host refuses to go on with this session.
    SessionRefused,
}

/// The effect of a reply to RCPT on its recipient.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RecipientEffect {
    /// The answer counts if the replies after it prove it.
    Hold(Held),
    /// It is answered with this reason and rule.
    Settle(Reason, &'static str),
    /// It is unverifiable until the host lets it in.
    Greylisted,
    /// It is asked about in the next transaction of the session.
    NextTransaction,
    /// It is asked about in another session, a few times.
    AnotherSession {
        /// The session has to use another route.
        elsewhere: bool,
    },
    /// It is asked about once more later, because the reply was transient.
    OnceMore,
    /// The other hosts are asked, or another address of this one.
    Elsewhere,
}

/// The effect of a reply to RCPT on its session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReplyEffect {
    /// It counts as an answer, whatever it says.
    Answer,
    /// It counts as an answer that the host may give to everyone.
    Refusal,
    /// The transaction is full: the recipient is asked about in the next one.
    Later,
    /// The recipient is to be asked about in another session.
    Push,
    /// The reply has no effect, and another session would get the same reply.
    Nothing,
}

/// Decides what a reply to RCPT does.
pub fn on_rcpt_reply(said: &Classification, facts: RcptFacts) -> RcptEffects {
    let RcptFacts { permanent, repeated, .. } = facts;
    let session = ReplyEffect::Answer;
    let answer = |recipient| RcptEffects { alike: None, host: HostEffect::Nothing, recipient, session };
    // The host may say so to everyone. A code 5yz promises that this lasts.
    let lasting = |recipient| match permanent {
        true => RcptEffects {
            alike: Some(Alike { block: false, settled: true }),
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
        // RFC 5321 4.5.3.1.10: a transaction that is full; the rest goes into the next.
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
            alike: (said.to_all || permanent).then_some(Alike { block: false, settled: repeated }),
            host: HostEffect::SessionRefused,
            recipient: RecipientEffect::AnotherSession { elsewhere: facts.returned || repeated },
            session: if repeated { ReplyEffect::Nothing } else { ReplyEffect::Push },
        },
        Class::Temporary => lasting(RecipientEffect::OnceMore),
        // What the server says to the control recipient settles it.
        Class::Unclear if said.permanent && said.scope == Scope::Recipient && said.rule == UNCERTAIN => {
            answer(RecipientEffect::Hold(Held::Unclear))
        }
        // If it says so of every recipient, the server's own disk is full, or it counts something other than one mailbox.
        Class::Full => lasting(RecipientEffect::Settle(reason, said.rule)),
        Class::NotFound if reason != Reason::Unverifiable => answer(RecipientEffect::Hold(Held::Refused)),
        _ if reason != Reason::Unverifiable => answer(RecipientEffect::Hold(Held::Denied)),
        _ => not_about_recipient(said, facts),
    }
}

/// A refusal that says nothing about the recipient. Another host, or another address of this one, may say more. A host that gives it
/// to one recipient after the other may give it to everyone.
fn not_about_recipient(said: &Classification, facts: RcptFacts) -> RcptEffects {
    let is_other_hosts = matches!(said.class, Class::Relay | Class::Unclear | Class::AuthRequired)
        || said.scope == Scope::Host;
    let recipient = match facts.for_ipv6 || (is_other_hosts && !said.to_all) {
        true => RecipientEffect::Elsewhere,
        false => RecipientEffect::Settle(reason_at_rcpt(said), said.rule),
    };
    RcptEffects {
        alike: (said.permanent || said.to_all).then_some(Alike { block: facts.block, settled: true }),
        host: HostEffect::Nothing,
        recipient,
        session: ReplyEffect::Refusal,
    }
}

#[cfg(test)]
mod tests;
