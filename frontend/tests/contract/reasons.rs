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
fn mailbox_exists() {
    check(&mailbox(), "mailbox_exists");
}

#[test]
fn role_account() {
    check(&format!("info@{}", domain()), "role_account");
    check(&format!("sales@{}", domain()), "role_account");
}

#[test]
fn invalid_syntax() {
    check("nobody", "invalid_syntax");
}

#[test]
fn disposable() {
    check(&address("user", "mailinator.com"), "disposable");
}

#[test]
fn spamtrap() {
    check(&address("user", "trapped.example"), "spamtrap");
    check("trap@ok.example", "spamtrap");
    check("TRAP@OK.EXAMPLE", "spamtrap");
}

#[test]
fn neither_disposable_nor_spamtrap_contacts_a_mail_server() {
    for domain in ["mailinator.com", "trapped.example"] {
        check(&address("user", domain), if domain == "mailinator.com" { "disposable" } else { "spamtrap" });
        assert_eq!(contacts(domain), (0, 0), "{domain}");
    }
}

#[test]
fn spamtrap_comes_before_disposable() {
    check("trap@mailinator.com", "spamtrap");
}

#[test]
fn inbox_full() {
    check(&address("full", "ok.example"), "inbox_full");
    check(&address("full-today", "ok.example"), "inbox_full");
}

#[test]
fn mailbox_disabled() {
    check(&address("gone", "ok.example"), "mailbox_disabled");
}

#[test]
fn catch_all() {
    check(&address("user", "catchall.example"), "catch_all");
}

#[test]
fn catch_all_comes_before_role_account() {
    check("info@catchall-first.example", "catch_all");
}

#[test]
fn mailbox_not_found() {
    check(&address("nobody", "ok.example"), "mailbox_not_found");
}

#[test]
fn a_role_address_that_does_not_exist_is_not_found() {
    check("abuse@ok.example", "mailbox_not_found");
}

#[test]
fn a_domain_that_takes_no_mail_is_mailbox_not_found() {
    for domain in
        ["nxdomain.example", "nullmx.example", "nomail.example", "mx-nxdomain.example", "mx-private.example"]
    {
        check(&address("user", domain), "mailbox_not_found");
    }
}

#[test]
fn an_implicit_mx_is_asked() {
    check(&address("user", "implicit.example"), "mailbox_exists");
    check(&address("nobody", "implicit.example"), "mailbox_not_found");
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

#[test]
fn unverifiable_when_a_utf8_local_part_cannot_be_said() {
    check(&address("rené", "ok.example"), "mailbox_exists");
    check(&address("rené", "no-utf8.example"), "unverifiable");
    check(&address("user", "no-utf8.example"), "mailbox_exists");
}
