//! What a reply means, from how it was made, and the codes that servers put before such words.

use engine_proto::verdict::{Classification, Reason, reason_at_rcpt};

/// A reply code, and an enhanced code or nothing.
pub type Codes = (u16, &'static str);

/// What a subject with its predicate is about.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Truth {
    /// No such mailbox.
    NotFound,
    /// The mailbox is disabled.
    Disabled,
    /// The mailbox is full.
    Full,
    /// The mailbox takes mail from inside only.
    Restricted,
    /// The mailbox gets too much mail.
    MailboxRate,
    /// The mailbox is refused, and the reply does not say why.
    Refused,
    /// The recipient's domain is dead.
    DomainDead,
    /// The recipient's domain is served elsewhere.
    NotServed,
    /// Us: our address, name, network, speed, session, message.
    Us,
    /// Our quota.
    OurQuota,
    /// The server or the moment.
    Server,
    /// The server's disk.
    Disk,
    /// Greylisting.
    Greylisted,
}

use Truth::*;

/// The truth about a subject and what is said of it.
pub fn truth(subject: &str, predicate: &str) -> Truth {
    match (subject, predicate) {
        ("mailbox", "unknown") => NotFound,
        ("mailbox", "disabled") => Disabled,
        ("mailbox", "full") => Full,
        ("mailbox", "restricted") => Restricted,
        ("mailbox", "rate") => MailboxRate,
        ("mailbox", "refused") => Refused,
        ("mailbox" | "server", _) => Server,
        ("rdomain", "unserved") => NotServed,
        ("rdomain", _) => DomainDead,
        ("disk", _) => Disk,
        ("greylist", _) => Greylisted,
        ("sender", "full") => OurQuota,
        (
            "sender" | "ourdomain" | "helo" | "client" | "session" | "rate" | "message" | "relay" | "auth",
            _,
        ) => Us,
        unknown => panic!("no truth for {unknown:?}"),
    }
}

impl Truth {
    /// Codes that servers give, right ones and careless ones.
    pub fn codes(self) -> Vec<Codes> {
        let codes = match self {
            NotFound => {
                "550, 550 5.1.1, 550 5.1.0, 550 5.7.1, 550 5.0.0, 553, 554 5.7.1, \
                 554 5.1.1, 450 4.1.1, 450, 451"
            }
            Disabled => "550, 550 5.2.1, 554, 550 5.7.1, 550 5.1.1, 450 4.2.1",
            Full => "552 5.2.2, 552, 550, 550 5.2.2, 554 5.2.2, 452 4.2.2, 452, 450 4.2.2",
            Restricted => "550, 550 5.7.1, 554 5.7.1",
            MailboxRate => "450 4.2.1, 452, 550 5.2.1, 550",
            Refused => "550, 550 5.7.1, 554 5.7.1, 450",
            DomainDead => "550, 550 5.1.2, 553 5.1.2, 550 5.4.4, 550 5.7.1, 450 4.1.2",
            NotServed => "550, 550 5.7.1, 554 5.7.1, 553",
            Us => {
                "550, 554, 553, 550 5.7.1, 554 5.7.1, 550 5.1.1, 550 5.1.0, 550 5.2.1, 450 4.7.1, \
                 451, 421 4.7.0"
            }
            OurQuota => "552 5.2.2, 552, 550 5.2.2, 550, 452 4.2.2, 450 4.7.1",
            Server => "451, 451 4.3.0, 421, 450 4.1.1, 550, 554 5.3.0, 550 5.1.1",
            Disk => "452 4.3.1, 452, 451, 552, 552 5.3.1, 550",
            Greylisted => "450 4.2.0, 451, 450, 451 4.7.1, 421",
        };
        let read = |code: &'static str| {
            let (code, status) = code.split_once(' ').unwrap_or((code, ""));
            (code.parse().expect("a reply code"), status)
        };
        codes.split(", ").map(read).collect()
    }

    /// The only definite verdict that may follow, if one may.
    pub fn reason(self, code: u16) -> Reason {
        let permanent = code / 100 == 5;
        match self {
            NotFound | DomainDead if permanent => Reason::MailboxNotFound,
            Disabled | Restricted if permanent => Reason::MailboxDisabled,
            Full => Reason::InboxFull,
            MailboxRate if !permanent => Reason::MailboxExists,
            _ => Reason::Unverifiable,
        }
    }

    /// Classes that say so.
    fn classes(self, code: u16) -> &'static [&'static str] {
        match (self, code / 100) {
            (NotFound, 5) => &["NF"],
            (Disabled, 5) => &["DIS"],
            (NotFound | Disabled, _) => &["TMP", "GREY", "THR"],
            (Full, _) => &["FULL"],
            (Restricted, _) => &["EX+AUTH"],
            (MailboxRate, _) => &["EX+THR"],
            (DomainDead, 5) => &["DOM"],
            (DomainDead, _) => &["DOM", "TMP"],
            (NotServed, _) => &["RELAY"],
            (Refused | Us | OurQuota, 5) => &["POL", "AUTH", "THR", "RELAY"],
            (Refused | Us | OurQuota, _) => &["POL", "AUTH", "THR", "RELAY", "TMP", "GREY"],
            (Server | Disk, _) => &["TMP", "THR", "GREY", "POL"],
            (Greylisted, _) => &["GREY", "TMP"],
        }
    }

    /// True when a classification tells the truth.
    pub fn is_told_by(self, found: &Classification, code: u16) -> bool {
        reason_at_rcpt(found) == self.reason(code) && self.classes(code).contains(&found.class.as_str())
    }

    /// True when a classification states something definite that is not so.
    pub fn is_contradicted_by(self, found: &Classification, code: u16) -> bool {
        let reason = reason_at_rcpt(found);
        reason != Reason::Unverifiable && reason != self.reason(code)
    }
}
