//! The meaning of one reply: its class, its scope, and the rule that decides.
//!
//! The text is reduced to words (`words.rs`), the words raise signals (`lexicon.rs`), and the first rule that fits the stage, the
//! codes, the provider and the signals decides (`patterns.rs`). These invariants hold, and each has a test:
//! - before RCPT, no reply has the scope of the recipient;
//! - a transient reply never gives the reason `MailboxNotFound` or `MailboxDisabled`;
//! - no code turns a text that is clearly about us into a missing or disabled mailbox (except 5.4.1 with the wording of Microsoft
//!   365);
//! - the case, the line breaks, and foreign addresses or host names in a text change neither the class nor the scope of a reply;
//! - a reply without its enhanced code gives the same reason as with the code, or `Unverifiable` (except the reply codes 521 and
//!   556, which have a meaning of their own).

use super::echo::Parties;
pub use super::echo::Us;
use super::lexicon::signals;
use super::patterns::{Facts, RULES};
use super::provider::Provider;
use super::subject::echoes_us_alone;
use super::words::Words;
use super::{Class, Reason, Scope, Stage};
use crate::smtp::reply::Reply;
use crate::smtp::status::EnhancedCode;

/// A reply, and the facts on which its meaning depends.
#[derive(Debug, Clone, Copy)]
pub struct ReplyView<'a> {
    /// The stage of the session at which the reply came.
    pub stage: Stage,
    /// The name of the MX host that sent the reply. Empty if it is not known.
    pub mx: &'a str,
    /// The reply with its code and text.
    pub reply: &'a Reply,
    /// The recipient that RCPT named: the address that is checked, or another recipient, such as a control recipient. `None` at
    /// other stages, or if it is not known.
    pub recipient: Option<&'a str>,
    /// Our own names and address, as the server sees them.
    pub us: Us<'a>,
}

impl<'a> ReplyView<'a> {
    /// A view of a reply if neither the recipient nor our names are known.
    pub fn of_unknown(stage: Stage, mx: &'a str, reply: &'a Reply) -> ReplyView<'a> {
        ReplyView { stage, mx, reply, recipient: None, us: Us::default() }
    }
}

/// The meaning of a reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Classification {
    /// What the reply states.
    pub class: Class,
    /// The subject of the statement: the recipient, the sender, us, the host and so on.
    pub scope: Scope,
    /// Whether the same command would get the same reply again: the code is 5yz, and the class is not a temporary one.
    pub permanent: bool,
    /// Whether the words or the code leave no doubt that the reply is about us or the session. Any other recipient would then get
    /// the same reply.
    pub to_all: bool,
    /// The name of the rule that decided. docs/verdicts.md lists the rules.
    pub rule: &'static str,
}

/// Classifies a reply. There is always a result, because the last rule fits every reply.
pub fn classify(view: &ReplyView<'_>) -> Classification {
    let reply = view.reply;
    let mut facts = Facts {
        stage: view.stage,
        code: reply.code(),
        status: None,
        provider: None,
        signals: Default::default(),
        echoes_us_alone: false,
    };
    // With a good list, most replies are accepts. The first rules recognize an accept by its stage and its code, so the text of an
    // accept is not read.
    let first = RULES.iter().take_while(|rule| rule.asks_for_code_alone()).find(|rule| rule.fits(&facts));
    let rule = first.unwrap_or_else(|| {
        if !reply.is_positive() {
            let words = Words::of(reply.text(), &Parties::new(view.mx, view.recipient, view.us));
            facts.signals = signals(&words);
            facts.echoes_us_alone = echoes_us_alone(&words);
        }
        facts.status = EnhancedCode::find(reply);
        facts.provider = Provider::of_mx(view.mx);
        RULES.iter().find(|rule| rule.fits(&facts)).unwrap_or(&RULES[RULES.len() - 1])
    });
    Classification {
        class: rule.class,
        scope: scope_at(view.stage, rule.scope),
        permanent: reply.is_permanent() && !passes(rule.class),
        to_all: rule.to_all,
        rule: rule.name,
    }
}

/// Every rule, in the order in which the rules are tried: its name, its class, its scope, and its sources, each as a letter. S is
/// sisimai, F smtp-field-manual, Z zone-mta, R an RFC or the IANA registry, O replies that the interoperability suite observed, and
/// W wording in general use.
pub fn rules() -> impl Iterator<Item = (&'static str, Class, Scope, &'static str)> {
    RULES.iter().map(|rule| (rule.name, rule.class, rule.scope, rule.source))
}

/// The reason that one reply to RCPT gives for its recipient. [`Reason::MailboxExists`] needs a proof by the control recipient as
/// well: see [`super::catch_all::settle`].
pub fn reason_at_rcpt(classification: &Classification) -> Reason {
    let Classification { class, scope, permanent, .. } = *classification;
    match class {
        Class::Accepted if scope == Scope::Recipient => Reason::MailboxExists,
        // A 5yz reply is a refusal, even if its words say that the mailbox exists.
        Class::ExistsThrottled if !permanent && scope == Scope::Recipient => Reason::MailboxExists,
        Class::Full if scope == Scope::Recipient => Reason::InboxFull,
        Class::Disabled | Class::ExistsRestricted if permanent && scope == Scope::Recipient => {
            Reason::MailboxDisabled
        }
        Class::NotFound if permanent && scope == Scope::Recipient => Reason::MailboxNotFound,
        Class::DomainDead if permanent && matches!(scope, Scope::Recipient | Scope::Site) => {
            Reason::MailboxNotFound
        }
        _ => Reason::Unverifiable,
    }
}

/// Adapts the scope of a rule to the stage. Before RCPT no recipient is named, and a host speaks only for itself.
fn scope_at(stage: Stage, scope: Scope) -> Scope {
    match (stage, scope) {
        (Stage::Rcpt | Stage::Control, scope) => scope,
        (Stage::Mail, Scope::Recipient) => Scope::Sender,
        (Stage::Banner | Stage::Ehlo, Scope::Recipient) => Scope::Us,
        (_, Scope::Site) => Scope::Host,
        (_, scope) => scope,
    }
}

/// Whether the cause passes with time, whatever the reply code says.
fn passes(class: Class) -> bool {
    matches!(class, Class::Greylisted | Class::Throttled | Class::Temporary)
}

#[cfg(test)]
mod tests;
