//! Classes of verdicts, by which rows are selected.

use crate::reasons;
use api::Reason;

api::named! {
    /// A class of verdicts, the best one first. Each reason has one.
    Class {
        /// The mailbox is confirmed.
        Deliverable = "deliverable",
        /// Mail to the address would bounce or do harm.
        Undeliverable = "undeliverable",
        /// The mailbox could be neither confirmed nor excluded.
        Unknown = "unknown",
    }
}

impl Class {
    /// The class of a reason.
    pub fn of(reason: Reason) -> Class {
        match reason {
            Reason::MailboxExists | Reason::RoleAccount => Class::Deliverable,
            Reason::CatchAll | Reason::Unverifiable | Reason::FastCheckPassed => Class::Unknown,
            Reason::InvalidSyntax
            | Reason::Disposable
            | Reason::Spamtrap
            | Reason::InboxFull
            | Reason::MailboxDisabled
            | Reason::MailboxNotFound
            | Reason::PossibleTypo
            | Reason::NoMx => Class::Undeliverable,
        }
    }

    /// The class of the reason with this code; unknown without one.
    pub fn of_code(code: u8) -> Class {
        reasons::of_code(code).map_or(Class::Unknown, Class::of)
    }

    /// The class as a title.
    pub const fn title(self) -> &'static str {
        match self {
            Class::Deliverable => "Deliverable",
            Class::Undeliverable => "Undeliverable",
            Class::Unknown => "Unknown",
        }
    }

    /// What the class means.
    pub const fn meaning(self) -> &'static str {
        match self {
            Class::Deliverable => "the mailbox is confirmed",
            Class::Undeliverable => "mail would bounce or do harm",
            Class::Unknown => "the check does not show whether the mailbox exists",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_deliverable_is_in_the_class_of_this_name() {
        for reason in Reason::ALL {
            assert_eq!(
                Class::of(reason) == Class::Deliverable,
                reason.deliverable() == Some(true),
                "{reason:?}"
            );
        }
    }
}
