//! From what servers said to a verdict about an address.
//!
//! A reply is first classified on its own: what it means ([`Class`]), about whom it speaks ([`Scope`]) and
//! which rule said so. Only a permanent refusal of the recipient may say that a mailbox is undeliverable;
//! everything else is retried elsewhere or later, or ends as [`Reason::Unverifiable`].

pub mod catch_all;
pub mod classify;
mod echo;
pub mod evidence;
mod lexicon;
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

/// Why an address is deliverable or not: the closed set of reasons of full checks. The crate `api` has the reasons of the contract,
/// with those of fast checks; `convert.rs` of the crate `checks` maps these to those.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Reason {
    /// The mailbox accepts mail, and its domain refuses mailboxes that do not exist.
    MailboxExists,
    /// As [`Reason::MailboxExists`], for a role address such as `info@`.
    RoleAccount,
    /// The text is not an address.
    InvalidSyntax,
    /// The domain belongs to a throw-away provider.
    Disposable,
    /// The operator's list names the address or its domain as a spam trap.
    Spamtrap,
    /// The mailbox exists and has no room left.
    InboxFull,
    /// The mailbox exists and takes no mail.
    MailboxDisabled,
    /// The domain accepts every recipient.
    CatchAll,
    /// There is no such mailbox, or the domain takes no mail at all.
    MailboxNotFound,
    /// It could not be found out.
    Unverifiable,
}

impl Reason {
    /// All of them, in the order of the contract's table.
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

    /// The strict yes or no of the contract: true only for a confirmed mailbox.
    pub fn deliverable(self) -> bool {
        matches!(self, Reason::MailboxExists | Reason::RoleAccount)
    }

    /// The code of the contract, such as `mailbox_exists`.
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

/// Which of our commands a reply answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Stage {
    /// The greeting of the server, before any command.
    Banner,
    /// The reply to EHLO, HELO or STARTTLS.
    Ehlo,
    /// The reply to MAIL, or to RSET before it.
    Mail,
    /// RCPT of the address that is asked about.
    Rcpt,
    /// The reply to RCPT of a control recipient, which nobody owns.
    Control,
}

/// The statement of a reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Class {
    /// The command, or the recipient, was accepted.
    Accepted,
    /// The mailbox does not exist.
    NotFound,
    /// The mailbox has no room left.
    Full,
    /// The mailbox exists and takes no mail.
    Disabled,
    /// It is about us: our address, name, reputation or conduct.
    Policy,
    /// Greylisting: come back later from the same source.
    Greylisted,
    /// We are too fast or too many.
    Throttled,
    /// The mailbox exists, but takes no more mail just now.
    ExistsThrottled,
    /// The mailbox exists, but takes mail from authenticated or internal senders only.
    ExistsRestricted,
    /// Authentication or TLS is asked for, and nothing is said about the mailbox.
    AuthRequired,
    /// The host does not serve this domain.
    Relay,
    /// The domain takes no mail.
    DomainDead,
    /// Temporary, and about neither us nor the mailbox.
    Temporary,
    /// Nothing can be read from it.
    Unclear,
}

/// About whom a reply speaks; how far its meaning reaches (after the header of Postfix's `smtp_trouble.c`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Scope {
    /// The recipient that RCPT named, and no other.
    Recipient,
    /// The reverse-path of MAIL.
    Sender,
    /// This session: a new one may fare better.
    Session,
    /// This host: another MX host may fare better.
    Host,
    /// All hosts of the site, or the domain.
    Site,
    /// Our source address or name, wherever we ask.
    Us,
}

impl Class {
    /// The short name, as tables and `mailprobe classify` write it. [`Class::Unclear`] shares the name
    /// of [`Class::Policy`]: a refusal that says nothing of the mailbox.
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
