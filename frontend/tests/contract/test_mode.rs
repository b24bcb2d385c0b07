//! Test keys: the table of local parts, and the effects that they never have. `batch` tests their batches.

use crate::contract::accounts::{fast, verified, verify, verify_by_get};
use crate::contract::client::{get, post};
use crate::contract::world::{contacts, domain, shared};
use serde_json::{Value, json};

#[track_caller]
fn check(asked: &str, reason: &str) {
    let account = shared().account("free");
    let result = verified(&account.server.call(&verify(asked).key(account.test())));
    assert_eq!((&result["reason"], &result["email"]), (&json!(reason), &json!(asked)));
    assert_eq!(result["credits_remaining"], Value::Null, "nothing was charged");
    let again = verified(&account.server.call(&verify_by_get(asked, "").key(account.test())));
    assert_eq!(again, result, "GET as POST, and no repeat");
    assert_eq!(account.credits(), 100);
}

#[test]
fn deliverable() {
    check("deliverable@any.example", "mailbox_exists");
}

#[test]
fn role() {
    check("role@any.example", "role_account");
}

#[test]
fn disposable_spamtrap_inbox_full_mailbox_disabled_catch_all_and_unverifiable_say_so() {
    for local in ["disposable", "spamtrap", "inbox_full", "mailbox_disabled", "catch_all", "unverifiable"] {
        check(&format!("{local}@any.example"), local);
    }
}

#[test]
fn not_found_or_anything_else() {
    for local in ["not_found", "somebody", "mailbox_exists", "role_account", "user-1", "info"] {
        check(&format!("{local}@ok.example"), "mailbox_not_found");
    }
}

#[test]
fn the_domain_may_be_anything() {
    for domain in
        ["ok.example", "nxdomain.example", "mailinator.com", "trapped.example", "gmial.com", "bücher.example"]
    {
        check(&format!("deliverable@{domain}"), "mailbox_exists");
    }
}

#[test]
fn tags_are_ignored() {
    check("deliverable+tag@any.example", "mailbox_exists");
    check("catch_all+a+b@any.example", "catch_all");
    check("somebody+deliverable@any.example", "mailbox_not_found");
}

#[test]
fn invalid_syntax_is_still_invalid_syntax() {
    for wrong in ["deliverable", "deliverable@", "deliverable @any.example", "deliverable@localhost"] {
        check(wrong, "invalid_syntax");
    }
}

#[test]
fn no_mail_server_is_contacted() {
    let domain = domain();
    check(&format!("deliverable@{domain}"), "mailbox_exists");
    check(&format!("user-1@{domain}"), "mailbox_not_found");
    assert_eq!(contacts(&domain), (0, 0));
}

#[test]
fn fast_mode_runs_the_real_checks() {
    let account = shared().account("free");
    for (asked, reason) in [
        ("deliverable@ok.example", "fast_check_passed"),
        ("not_found@ok.example", "fast_check_passed"),
        ("deliverable@nxdomain.example", "no_mx"),
        ("deliverable@mailinator.com", "disposable"),
        ("deliverable@gmial.com", "possible_typo"),
        ("deliverable@", "invalid_syntax"),
    ] {
        let result = verified(&account.server.call(&fast(asked).key(account.test())));
        assert_eq!((&result["reason"], &result["mode"]), (&json!(reason), &json!("fast")), "{asked}");
    }
}

#[test]
fn unknown_modes_and_details_are_refused_here_too() {
    let account = shared().account("free");
    for (name, value) in [("mode", "quick"), ("detail", "all")] {
        let body = json!({ "email": "deliverable@any.example", name: value });
        account
            .server
            .call(&post("/v1/verify", &body).key(account.test()))
            .assert_refused(400, "invalid_request");
    }
}

#[test]
fn account_shows_the_real_balance() {
    let account = shared().account("free");
    account.verify(&crate::contract::world::mailbox());
    let shown = account.server.call(&get("/v1/account").key(account.test())).ok();
    assert_eq!(shown, account.account());
    assert_eq!(shown["credits_remaining"], 99);
}

#[test]
fn no_credits_and_no_subscription_are_needed() {
    let account = shared().account("none");
    let call = verify("deliverable@any.example").key(account.test());
    assert_eq!(account.server.call(&call).ok()["reason"], "mailbox_exists");
    let many = crate::contract::accounts::batch(&["role@any.example".to_owned()]).key(account.test());
    assert_eq!(account.server.call(&many).status, 202);
    account.set_status("canceled");
    assert_eq!(account.server.call(&call).ok()["reason"], "mailbox_exists");
}
