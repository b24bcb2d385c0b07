//! Classes of verdicts, by which rows are selected.

use crate::reasons;
use api::Reason;

/// A class of verdicts. Each reason has one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Class {
    /// The mailbox is confirmed.
    Deliverable,
    /// Mail to the address would bounce or do harm.
    Undeliverable,
    /// The mailbox could be neither confirmed nor excluded.
    Unknown,
}

impl Class {
    /// All classes, the best one first.
    pub const ALL: [Class; 3] = [Class::Deliverable, Class::Undeliverable, Class::Unknown];

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

    /// The class with this name.
    pub fn named(name: &str) -> Option<Class> {
        Class::ALL.into_iter().find(|class| class.as_str() == name)
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

    /// Its name on the command line, in the API and in texts.
    pub const fn as_str(self) -> &'static str {
        match self {
            Class::Deliverable => "deliverable",
            Class::Undeliverable => "undeliverable",
            Class::Unknown => "unknown",
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
