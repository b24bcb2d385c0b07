//! One reply, taken on its own: what it means, about whom it speaks and which rule said so.
//!
//! The text is boiled down to words ([`super::words`]), the words raise signals ([`super::lexicon`]), and the
//! first rule that fits the stage, the codes, the provider and the signals decides ([`super::patterns`]).
//! Invariants, each with a test:
//! - before RCPT nothing is of recipient scope;
//! - a transient reply never says that there is no mailbox;
//! - what the text says about us is never outweighed by a code;
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

/// A reply with what must be known to read it.
#[derive(Debug, Clone, Copy)]
pub struct ReplyView<'a> {
    /// The command that it answers.
    pub stage: Stage,
    /// Name of the MX host that sent it; empty when it is not known.
    pub mx: &'a str,
    /// The reply.
    pub reply: &'a Reply,
    /// The address or the control recipient that RCPT named; none at other stages, or when it is not known.
    pub recipient: Option<&'a str>,
    /// What the server knows of us.
    pub us: Us<'a>,
}

/// What we told the server of ourselves, and what it sees: an echo of any of it is about us. What is not known is
/// left empty.
#[derive(Debug, Clone, Copy, Default)]
pub struct Us<'a> {
    /// The reverse-path of MAIL, without angle brackets; empty for the null reverse-path.
    pub reverse_path: &'a str,
    /// The argument of EHLO: a host name or an address literal.
    pub ehlo: &'a str,
    /// The public address that the connection comes from.
    pub source: Option<IpAddr>,
}

/// What a reply means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Classification {
    /// What it says.
    pub class: Class,
    /// About whom.
    pub scope: Scope,
    /// It will be said again if asked again: a 5yz reply whose class is not one that passes.
    pub permanent: bool,
    /// Its words or its code leave no doubt that it is about us or the session, so that it may be said of any recipient.
    pub to_all: bool,
    /// The rule that decided, as docs/verdicts.md lists them.
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
/// (S sisimai, F smtp-field-manual, Z zone-mta, K KumoMTA, R an RFC or the IANA registry, W general wording).
pub fn rules() -> impl Iterator<Item = (&'static str, Class, Scope, &'static str)> {
    RULES.iter().map(|rule| (rule.name, rule.class, rule.scope, rule.source))
}

/// What one reply to RCPT says about its recipient. [`Reason::MailboxExists`] holds only once the control
/// recipient was refused: see [`super::catch_all::settle`].
pub fn reason_at_rcpt(classification: &Classification) -> Reason {
    let Classification { class, scope, permanent, .. } = *classification;
    match class {
        Class::Accepted if scope == Scope::Recipient => Reason::MailboxExists,
        // What a 5yz reply refuses is refused, whatever its words promise.
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

/// Before RCPT nobody has named a recipient, and a host speaks for itself alone.
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
#[path = "classify_tests.rs"]
mod tests;
