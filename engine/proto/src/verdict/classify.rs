//! The meaning of one reply: its class, its scope, and the rule that decided.
//!
//! The text is reduced to words (`words.rs`), the words raise signals (`lexicon.rs`), and the first rule that fits the stage, the
//! codes, the provider and the signals decides (`patterns.rs`). Each invariant has a test:
//! - before RCPT no reply has recipient scope;
//! - a transient reply never says that there is no mailbox;
//! - a code never outweighs a text that is about us;
//! - case, line breaks, echoes and missing enhanced codes turn no other reply into one about the mailbox.

use super::echo::Parties;
use super::lexicon::signals;
use super::patterns::{Facts, RULES};
use super::provider::Provider;
use super::subject::echoes_us_alone;
use super::words::Words;
use super::{Class, Reason, Scope, Stage};
use crate::smtp::reply::Reply;
use crate::smtp::status::EnhancedCode;
use std::net::IpAddr;

/// A reply with the facts that its meaning depends on.
#[derive(Debug, Clone, Copy)]
pub struct ReplyView<'a> {
    /// The stage of the session to which it replies.
    pub stage: Stage,
    /// Name of the MX host that sent it; empty if it is not known.
    pub mx: &'a str,
    /// The reply with its code and text.
    pub reply: &'a Reply,
    /// The recipient that RCPT named, an address or a control recipient; `None` at other stages, or if it is not known.
    pub recipient: Option<&'a str>,
    /// Our own names and address, as the server sees them.
    pub us: Us<'a>,
}

impl<'a> ReplyView<'a> {
    /// A reply of which neither the recipient nor our names are known.
    pub fn of_unknown(stage: Stage, mx: &'a str, reply: &'a Reply) -> ReplyView<'a> {
        ReplyView { stage, mx, reply, recipient: None, us: Us::default() }
    }
}

/// Our own names and address, as the server sees them. A text that repeats one of them is about us. An unknown part is empty.
#[derive(Debug, Clone, Copy, Default)]
pub struct Us<'a> {
    /// The reverse-path of MAIL, without angle brackets; empty for the null reverse-path.
    pub reverse_path: &'a str,
    /// The argument of EHLO: a host name or an address literal.
    pub ehlo: &'a str,
    /// The public address from which the connection comes.
    pub source: Option<IpAddr>,
}

/// The meaning of a reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Classification {
    /// The statement of the reply.
    pub class: Class,
    /// The subject of the statement: the recipient, the sender, us, the host and so on.
    pub scope: Scope,
    /// The same question will get the same reply: the code is 5yz, and the class is none that passes with time.
    pub permanent: bool,
    /// Its words or its code leave no doubt that it is about us or the session, so any recipient may get it.
    pub to_all: bool,
    /// Name of the rule that decided; docs/verdicts.md lists them.
    pub rule: &'static str,
}

/// Classifies a reply. Never fails: what cannot be read is [`Class::Unclear`].
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
    // An accept needs no more, and nearly every reply to a good list is one.
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

/// Every rule in the order in which they are asked: its name, what follows from it, and where the fact is from
/// (S sisimai, F smtp-field-manual, Z zone-mta, R an RFC or the IANA registry, O replies of such a server in the
/// interoperability suite, W general wording).
pub fn rules() -> impl Iterator<Item = (&'static str, Class, Scope, &'static str)> {
    RULES.iter().map(|rule| (rule.name, rule.class, rule.scope, rule.source))
}

/// The reason that one reply to RCPT gives for its recipient. [`Reason::MailboxExists`] holds only after the control recipient was
/// refused: see [`super::catch_all::settle`].
pub fn reason_at_rcpt(classification: &Classification) -> Reason {
    let Classification { class, scope, permanent, .. } = *classification;
    match class {
        Class::Accepted if scope == Scope::Recipient => Reason::MailboxExists,
        // A 5yz reply is a refusal, whatever its words promise.
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

/// Before RCPT no recipient is named, and a host replies for itself alone.
fn scope_at(stage: Stage, scope: Scope) -> Scope {
    match (stage, scope) {
        (Stage::Rcpt | Stage::Control, scope) => scope,
        (Stage::Mail, Scope::Recipient) => Scope::Sender,
        (Stage::Banner | Stage::Ehlo, Scope::Recipient) => Scope::Us,
        (_, Scope::Site) => Scope::Host,
        (_, scope) => scope,
    }
}

/// True for the classes that pass with time, whatever the reply code says.
fn passes(class: Class) -> bool {
    matches!(class, Class::Greylisted | Class::Throttled | Class::Temporary)
}

#[cfg(test)]
mod tests;
