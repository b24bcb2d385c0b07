//! The closed set of reasons: a full check for each row, with the special cases of DNS and SMTP. `fast` tests the
//! reasons of fast mode; `shapes` compares every answer of the suite with the set.

use crate::at_once;
use crate::contract::world::{address, contacts, domain, mailbox, shared};
use serde_json::json;

#[test]
fn every_reason_of_full_checks() {
    let user = |domain: &str| address("user", domain);
    let rows = [
        (mailbox(), "mailbox_exists"),
        (format!("info@{}", domain()), "role_account"),
        (format!("sales@{}", domain()), "role_account"),
        ("nobody".into(), "invalid_syntax"),
        (user("mailinator.com"), "disposable"),
        (user("trapped.example"), "spamtrap"),
        ("trap@ok.example".into(), "spamtrap"),
        ("TRAP@OK.EXAMPLE".into(), "spamtrap"),
        // A spam trap of a disposable provider.
        ("trap@mailinator.com".into(), "spamtrap"),
        (address("full", "ok.example"), "inbox_full"),
        (address("full-today", "ok.example"), "inbox_full"),
        (address("gone", "ok.example"), "mailbox_disabled"),
        (user("catchall.example"), "catch_all"),
        // A role address of a catch-all domain, and one that does not exist.
        ("info@catchall-first.example".into(), "catch_all"),
        ("abuse@ok.example".into(), "mailbox_not_found"),
        (address("nobody", "ok.example"), "mailbox_not_found"),
        // Domains that take no mail.
        (user("nxdomain.example"), "mailbox_not_found"),
        (user("nullmx.example"), "mailbox_not_found"),
        (user("nomail.example"), "mailbox_not_found"),
        (user("mx-nxdomain.example"), "mailbox_not_found"),
        (user("mx-private.example"), "mailbox_not_found"),
        // An implicit MX is asked.
        (user("implicit.example"), "mailbox_exists"),
        (address("nobody", "implicit.example"), "mailbox_not_found"),
        // The server defers or refuses everybody.
        (user("grey.example"), "unverifiable"),
        (address("later", "ok.example"), "unverifiable"),
        (user("blocks.example"), "unverifiable"),
        (user("hangs-up.example"), "unverifiable"),
        // The control recipient proves nothing.
        (user("control-temporary.example"), "unverifiable"),
        (user("control-policy.example"), "unverifiable"),
        (user("control-hangup.example"), "unverifiable"),
        // DNS gives no answer, or no host does.
        (user("servfail.example"), "unverifiable"),
        (user("mx-servfail.example"), "unverifiable"),
        (user("dns-timeout.example"), "unverifiable"),
        (user("dead.example"), "unverifiable"),
        // A local part with UTF-8 needs a server with SMTPUTF8.
        (address("rené", "ok.example"), "mailbox_exists"),
        (address("rené", "no-utf8.example"), "unverifiable"),
        (user("no-utf8.example"), "mailbox_exists"),
    ];
    let account = shared().account("free");
    let results = at_once(rows.len(), |row| account.verify(&rows[row].0));
    for ((asked, reason), result) in rows.iter().zip(results) {
        let deliverable = ["mailbox_exists", "role_account"].contains(reason);
        let told = (&result["reason"], &result["deliverable"]);
        assert_eq!(told, (&json!(reason), &json!(deliverable)), "{asked}");
    }
    for domain in ["mailinator.com", "trapped.example"] {
        assert_eq!(contacts(domain), (0, 0), "nobody was asked at {domain}");
    }
}
