//! Test keys: the table of local parts, and the effects that they never have. `batch` tests their batches.

use crate::contract::accounts::{Account, verified, verify, verify_by_get};
use crate::contract::world::{contacts, domain, shared};
use crate::harness::client::post;
use serde_json::json;

#[track_caller]
fn check(account: &Account<'_>, asked: &str, reason: &str) {
    let deliverable = ["mailbox_exists", "role_account"].contains(&reason);
    let expected = json!({
        "email": asked,
        "deliverable": deliverable,
        "reason": reason,
        "credits_remaining": null,
        "cached": false,
    });
    // There is no repeat, and `detail` has no effect.
    let body = json!({ "email": asked, "mode": "full", "detail": "full" });
    for call in [verify(asked), post("/v1/verify?detail=full", &body), verify_by_get(asked, "")] {
        assert_eq!(verified(&account.server.call(&call.key(account.test()))), expected);
    }
}

#[test]
fn the_local_part_says_the_verdict() {
    let account = shared().account("free");
    for (asked, reason) in [
        ("deliverable@any.example", "mailbox_exists"),
        ("role@any.example", "role_account"),
        ("disposable@any.example", "disposable"),
        ("spamtrap@any.example", "spamtrap"),
        ("inbox_full@any.example", "inbox_full"),
        ("mailbox_disabled@any.example", "mailbox_disabled"),
        ("catch_all@any.example", "catch_all"),
        ("unverifiable@any.example", "unverifiable"),
        // Anything else.
        ("not_found@ok.example", "mailbox_not_found"),
        ("somebody@ok.example", "mailbox_not_found"),
        ("mailbox_exists@ok.example", "mailbox_not_found"),
        ("role_account@ok.example", "mailbox_not_found"),
        ("user-1@ok.example", "mailbox_not_found"),
        ("info@ok.example", "mailbox_not_found"),
        // The domain may be anything.
        ("deliverable@ok.example", "mailbox_exists"),
        ("deliverable@nxdomain.example", "mailbox_exists"),
        ("deliverable@mailinator.com", "mailbox_exists"),
        ("deliverable@trapped.example", "mailbox_exists"),
        ("deliverable@gmial.com", "mailbox_exists"),
        ("deliverable@bücher.example", "mailbox_exists"),
        ("DELIVERABLE@Example.COM", "mailbox_exists"),
        // Tags are ignored.
        ("deliverable+tag@any.example", "mailbox_exists"),
        ("catch_all+a+b@any.example", "catch_all"),
        ("somebody+deliverable@any.example", "mailbox_not_found"),
        // No address is still none.
        ("", "invalid_syntax"),
        ("deliverable", "invalid_syntax"),
        ("deliverable@", "invalid_syntax"),
        (" deliverable@any.example", "invalid_syntax"),
        ("deliverable @any.example", "invalid_syntax"),
        ("deliverable@localhost", "invalid_syntax"),
    ] {
        check(&account, asked, reason);
    }
    assert_eq!(account.credits(), 100);
}

#[test]
fn no_mail_server_is_contacted() {
    let (account, domain) = (shared().account("free"), domain());
    check(&account, &format!("deliverable@{domain}"), "mailbox_exists");
    check(&account, &format!("user-1@{domain}"), "mailbox_not_found");
    assert_eq!(contacts(&domain), (0, 0));
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
