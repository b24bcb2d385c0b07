//! The closed set of reasons of the contract. Those that a mail server can cause have a twin in `engine_proto::verdict::Reason`.

use serde::Serialize;
#[cfg(test)]
use utoipa::ToSchema;

crate::named! {
    /// The reason why an address is deliverable or not.
    #[derive(Serialize)]
    #[cfg_attr(test, derive(ToSchema))]
    #[serde(rename_all = "snake_case")]
    Reason {
        /// The mailbox is confirmed to accept mail.
        MailboxExists = "mailbox_exists",
        /// The mailbox is deliverable, but belongs to a role.
        RoleAccount = "role_account",
        /// The text is not a valid address; free.
        InvalidSyntax = "invalid_syntax",
        /// The domain belongs to a disposable provider.
        Disposable = "disposable",
        /// The address is a known spam trap.
        Spamtrap = "spamtrap",
        /// The mailbox is full.
        InboxFull = "inbox_full",
        /// The mailbox is disabled by its provider.
        MailboxDisabled = "mailbox_disabled",
        /// The domain accepts every recipient, so the mailbox cannot be confirmed.
        CatchAll = "catch_all",
        /// The mailbox does not exist.
        MailboxNotFound = "mailbox_not_found",
        /// The address could not be confirmed.
        Unverifiable = "unverifiable",
        /// Fast mode only: the domain looks like a typo of a popular provider.
        PossibleTypo = "possible_typo",
        /// Fast mode only: the domain has no mail server.
        NoMx = "no_mx",
        /// Fast mode only: no problem found, mailbox not checked.
        FastCheckPassed = "fast_check_passed",
    }
}

impl Reason {
    /// The value of `deliverable` for this reason. It follows from the reason, so the two always agree.
    pub fn deliverable(self) -> Option<bool> {
        match self {
            Reason::MailboxExists | Reason::RoleAccount => Some(true),
            Reason::FastCheckPassed => None,
            _ => Some(false),
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
