//! The answers to test keys. The local part selects the reason; no credit and no mail server is used.

use api::Reason;

/// The answer for a local part. Its tag (everything from the first plus sign on) and the case of ASCII letters are
/// ignored, as wherever addresses are compared.
pub fn reason(local: &str) -> Reason {
    let name = local.split('+').next().unwrap_or_default().to_ascii_lowercase();
    match name.as_str() {
        "deliverable" => Reason::MailboxExists,
        "role" => Reason::RoleAccount,
        "disposable" => Reason::Disposable,
        "spamtrap" => Reason::Spamtrap,
        "inbox_full" => Reason::InboxFull,
        "mailbox_disabled" => Reason::MailboxDisabled,
        "catch_all" => Reason::CatchAll,
        "unverifiable" => Reason::Unverifiable,
        _ => Reason::MailboxNotFound,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_of_the_contract() {
        for (local, expected) in [
            ("deliverable", "mailbox_exists"),
            ("role", "role_account"),
            ("disposable", "disposable"),
            ("spamtrap", "spamtrap"),
            ("inbox_full", "inbox_full"),
            ("mailbox_disabled", "mailbox_disabled"),
            ("catch_all", "catch_all"),
            ("unverifiable", "unverifiable"),
            ("not_found", "mailbox_not_found"),
            ("anything", "mailbox_not_found"),
            ("deliverable+a+b", "mailbox_exists"),
            ("Deliverable", "mailbox_exists"),
            ("deliverable.", "mailbox_not_found"),
            ("+deliverable", "mailbox_not_found"),
        ] {
            assert_eq!(reason(local).as_str(), expected, "{local}");
        }
    }
}
