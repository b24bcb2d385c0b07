//! The closed set of reasons: a full check for each row, with the special cases of DNS and SMTP. `fast` tests the
//! reasons of fast mode; `shapes` compares every answer of the suite with the set.

use crate::contract::world::{address, contacts, domain, mailbox, shared};
use serde_json::json;

#[track_caller]
fn check(asked: &str, reason: &str) {
    let result = shared().account("free").verify(asked);
    let deliverable = ["mailbox_exists", "role_account"].contains(&reason);
    assert_eq!((&result["reason"], &result["deliverable"]), (&json!(reason), &json!(deliverable)), "{asked}");
}

#[test]
fn every_reason_of_a_server_that_answers() {
    for (asked, reason) in [
        (mailbox(), "mailbox_exists"),
        (format!("info@{}", domain()), "role_account"),
        (format!("sales@{}", domain()), "role_account"),
        ("nobody".into(), "invalid_syntax"),
        (address("user", "mailinator.com"), "disposable"),
        (address("user", "trapped.example"), "spamtrap"),
        ("trap@ok.example".into(), "spamtrap"),
        ("TRAP@OK.EXAMPLE".into(), "spamtrap"),
        // `spamtrap` comes before `disposable`.
        ("trap@mailinator.com".into(), "spamtrap"),
        (address("full", "ok.example"), "inbox_full"),
        (address("full-today", "ok.example"), "inbox_full"),
        (address("gone", "ok.example"), "mailbox_disabled"),
        (address("user", "catchall.example"), "catch_all"),
        // `catch_all` comes before `role_account`.
        ("info@catchall-first.example".into(), "catch_all"),
        (address("nobody", "ok.example"), "mailbox_not_found"),
        ("abuse@ok.example".into(), "mailbox_not_found"),
        // Domains that take no mail.
        (address("user", "nxdomain.example"), "mailbox_not_found"),
        (address("user", "nullmx.example"), "mailbox_not_found"),
        (address("user", "nomail.example"), "mailbox_not_found"),
        (address("user", "mx-nxdomain.example"), "mailbox_not_found"),
        (address("user", "mx-private.example"), "mailbox_not_found"),
        // An implicit MX is asked.
        (address("user", "implicit.example"), "mailbox_exists"),
        (address("nobody", "implicit.example"), "mailbox_not_found"),
        // A local part in UTF-8 cannot be asked about at every server.
        (address("rené", "ok.example"), "mailbox_exists"),
        (address("rené", "no-utf8.example"), "unverifiable"),
        (address("user", "no-utf8.example"), "mailbox_exists"),
    ] {
        check(&asked, reason);
    }
}

#[test]
fn neither_disposable_nor_spamtrap_contacts_a_mail_server() {
    for domain in ["mailinator.com", "trapped.example"] {
        check(&address("user", domain), if domain == "mailinator.com" { "disposable" } else { "spamtrap" });
        assert_eq!(contacts(domain), (0, 0), "{domain}");
    }
}

#[test]
fn unverifiable_when_the_server_puts_off() {
    check(&address("user", "grey.example"), "unverifiable");
    check(&address("later", "ok.example"), "unverifiable");
    for domain in ["blocks.example", "hangs-up.example"] {
        check(&address("user", domain), "unverifiable");
    }
}

#[test]
fn unverifiable_when_the_control_recipient_proves_nothing() {
    for domain in ["control-temporary.example", "control-policy.example", "control-hangup.example"] {
        check(&address("user", domain), "unverifiable");
    }
}

#[test]
fn unverifiable_when_the_dns_does_not_tell() {
    check(&address("user", "servfail.example"), "unverifiable");
    check(&address("user", "mx-servfail.example"), "unverifiable");
    check(&address("user", "dns-timeout.example"), "unverifiable");
}

#[test]
fn unverifiable_when_no_host_answers() {
    check(&address("user", "dead.example"), "unverifiable");
}
