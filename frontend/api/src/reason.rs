//! The closed set of reasons of the contract. Those that a mail server can cause have a twin in `engine_proto::verdict::Reason`.

use serde::Serialize;
#[cfg(test)]
use utoipa::ToSchema;

/// The reason why an address is deliverable or not.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[cfg_attr(test, derive(ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum Reason {
    /// The mailbox is confirmed to accept mail.
    MailboxExists,
    /// The mailbox is deliverable, but belongs to a role.
    RoleAccount,
    /// The text is not a valid address; free.
    InvalidSyntax,
    /// The domain belongs to a disposable provider.
    Disposable,
    /// The address is a known spam trap.
    Spamtrap,
    /// The mailbox is full.
    InboxFull,
    /// The mailbox is disabled by its provider.
    MailboxDisabled,
    /// The domain accepts every recipient, so the mailbox cannot be confirmed.
    CatchAll,
    /// The mailbox does not exist.
    MailboxNotFound,
    /// The address could not be confirmed.
    Unverifiable,
    /// Fast mode only: the domain looks like a typo of a popular provider.
    PossibleTypo,
    /// Fast mode only: the domain has no mail server.
    NoMx,
    /// Fast mode only: no problem found, mailbox not checked.
    FastCheckPassed,
}

impl Reason {
    /// All reasons in the order of the contract's table.
    pub const ALL: [Reason; 13] = [
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
        Reason::PossibleTypo,
        Reason::NoMx,
        Reason::FastCheckPassed,
    ];

    /// The value of `deliverable` for this reason. It follows from the reason, so the two always agree.
    pub fn deliverable(self) -> Option<bool> {
        match self {
            Reason::MailboxExists | Reason::RoleAccount => Some(true),
            Reason::FastCheckPassed => None,
            _ => Some(false),
        }
    }

    /// The code as answers have it.
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
            Reason::PossibleTypo => "possible_typo",
            Reason::NoMx => "no_mx",
            Reason::FastCheckPassed => "fast_check_passed",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn name_and_wire_agree_and_deliverable_follows_the_table() {
        let yes = ["mailbox_exists", "role_account"];
        for reason in Reason::ALL {
            let wire = serde_json::to_value(reason).unwrap();
            assert_eq!(wire, reason.as_str());
            let expected = match reason.as_str() {
                "fast_check_passed" => None,
                code => Some(yes.contains(&code)),
            };
            assert_eq!(reason.deliverable(), expected, "{wire}");
        }
    }
}
