//! Turns the replies of mail servers into a verdict about an address.
//!
//! Each reply is first classified by itself: what it states ([`Class`]), what it is about ([`Scope`]), and which rule decided. A
//! refusal counts against an address only if it is about the recipient or the domain, and if it is permanent or says that the
//! mailbox is full. A transient refusal that says that the mailbox exists counts as an accept. After any other refusal, mailprobe
//! asks another host or asks later, or the verdict is [`Reason::Unverifiable`].

mod accents;
mod alternative;
pub mod catch_all;
pub mod classify;
mod clause;
mod condition;
mod echo;
pub mod evidence;
mod fold;
mod lexicon;
mod misspelled;
mod observed;
mod patterns;
mod provider;
mod subject;
#[cfg(test)]
mod tests;
mod translate;
mod words;

pub use classify::{Classification, ReplyView, Us, classify, reason_at_rcpt};
pub use observed::ObservedReply;

/// Why an address is deliverable or not: the reasons of full checks. The crate `api` has the reasons of the contract, which also
/// cover fast checks. `convert.rs` of the crate `checks` converts the reasons of full checks to those of the contract.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Reason {
    /// The mailbox accepts mail, and its domain refuses mailboxes that do not exist.
    MailboxExists,
    /// Like [`Reason::MailboxExists`], but for a role address such as `info@`.
    RoleAccount,
    /// The text is not an address.
    InvalidSyntax,
    /// The domain belongs to a provider of disposable addresses.
    Disposable,
    /// The operator's list names the address or its domain as a spam trap.
    Spamtrap,
    /// The mailbox exists, and is full.
    InboxFull,
    /// The mailbox exists, and takes no mail, or none from outside.
    MailboxDisabled,
    /// The domain accepts every recipient.
    CatchAll,
    /// There is no such mailbox, or the domain takes no mail.
    MailboxNotFound,
    /// No reply shows whether the mailbox exists.
    Unverifiable,
}

impl Reason {
    /// All reasons, in the order of the contract's table.
    pub const ALL: [Reason; 10] = [
        Reason::MailboxExists,
        Reason::RoleAccount,
        Reason::InvalidSyntax,
        Reason::Disposable,
        Reason::Spamtrap,
        Reason::InboxFull,
        Reason::MailboxDisabled,
        Reason::CatchAll,
        Reason::MailboxNotFound,
        Reason::Unverifiable,
    ];

    /// The field `deliverable` of the contract. It is true only for a mailbox that a mail server has confirmed.
    pub fn deliverable(self) -> bool {
        matches!(self, Reason::MailboxExists | Reason::RoleAccount)
    }

    /// The name of the reason in the contract, such as `mailbox_exists`.
    pub fn as_str(self) -> &'static str {
        match self {
            Reason::MailboxExists => "mailbox_exists",
            Reason::RoleAccount => "role_account",
            Reason::InvalidSyntax => "invalid_syntax",
            Reason::Disposable => "disposable",
            Reason::Spamtrap => "spamtrap",
            Reason::InboxFull => "inbox_full",
            Reason::MailboxDisabled => "mailbox_disabled",
            Reason::CatchAll => "catch_all",
            Reason::MailboxNotFound => "mailbox_not_found",
            Reason::Unverifiable => "unverifiable",
        }
    }
}

/// The stage of a session at which a reply came.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Stage {
    /// The greeting of the server, before any command.
    Banner,
    /// The reply to EHLO, HELO or STARTTLS.
    Ehlo,
    /// The reply to MAIL or to the RSET before MAIL, or a 421 between transactions.
    Mail,
    /// The reply to RCPT of the address that is checked.
    Rcpt,
    /// The reply to RCPT of another recipient, such as a control recipient.
    Control,
}

/// What a reply states. docs/verdicts.md has a table of the classes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Class {
    /// The command, or the recipient, was accepted.
    Accepted,
    /// The mailbox does not exist.
    NotFound,
    /// The mailbox is full.
    Full,
    /// The mailbox exists, and takes no mail.
    Disabled,
    /// The refusal is about us: our address, name, reputation or conduct.
    Policy,
    /// Greylisting: the server wants a later try from the same source.
    Greylisted,
    /// We ask too fast or too much.
    Throttled,
    /// The mailbox exists, but takes no more mail at the moment.
    ExistsThrottled,
    /// The mailbox exists, but takes mail from authenticated or internal senders only.
    ExistsRestricted,
    /// The server requires authentication or TLS, and says nothing about the mailbox.
    AuthRequired,
    /// The host does not serve this domain.
    Relay,
    /// The domain takes no mail.
    DomainDead,
    /// The cause is temporary and not about us, and the state of the mailbox is not certain.
    Temporary,
    /// The reply has no meaning that mailprobe can read.
    Unclear,
}

/// What a reply is about. The scope decides how far the statement of the reply applies, as described in the comment at the top of
/// Postfix's `smtp_trouble.c`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Scope {
    /// The recipient that RCPT named, and no other.
    Recipient,
    /// The reverse-path of MAIL.
    Sender,
    /// This session: a new one may succeed.
    Session,
    /// This host: another MX host may accept.
    Host,
    /// All hosts of the site, or the domain.
    Site,
    /// Our source address or our name, at any host.
    Us,
}

impl Class {
    /// The short name in tables and in the output of `mailprobe classify`. [`Class::Unclear`] shares the name of [`Class::Policy`],
    /// because both are refusals that say nothing about the mailbox.
    pub fn as_str(self) -> &'static str {
        match self {
            Class::Accepted => "EX",
            Class::NotFound => "NF",
            Class::Full => "FULL",
            Class::Disabled => "DIS",
            Class::Policy | Class::Unclear => "POL",
            Class::Greylisted => "GREY",
            Class::Throttled => "THR",
            Class::ExistsThrottled => "EX+THR",
            Class::ExistsRestricted => "EX+AUTH",
            Class::AuthRequired => "AUTH",
            Class::Relay => "RELAY",
            Class::DomainDead => "DOM",
            Class::Temporary => "TMP",
        }
    }
}

impl Scope {
    /// The name in lower case.
    pub fn as_str(self) -> &'static str {
        match self {
            Scope::Recipient => "recipient",
            Scope::Sender => "sender",
            Scope::Session => "session",
            Scope::Host => "host",
            Scope::Site => "site",
            Scope::Us => "us",
        }
    }
}
