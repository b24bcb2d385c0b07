//! Rule 4: `mode=fast`, its reasons in their order, `checks` and `suggestion`.

use crate::contract::accounts::{fast, verified, verify_by_get};
use crate::contract::world::{address, contacts, domain, mailbox, shared};
use crate::harness::client::post;
use serde_json::{Value, json};

#[test]
fn every_reason_with_its_checks_and_suggestion_for_live_and_test_keys() {
    let account = shared().account("free");
    let own = domain();
    let typo = address("user", "gmial.com");
    let corrected = typo.replace("gmial", "gmail");
    let checks = |[mx, disposable, role_account, free_email]: [bool; 4]| json!({ "mx": mx, "disposable": disposable, "role_account": role_account, "free_email": free_email });
    for (asked, reason, flags) in [
        (mailbox(), "fast_check_passed", [true, false, false, false]),
        ("nobody".into(), "invalid_syntax", [false; 4]),
        // This domain takes no mail here, and is a disposable one: `possible_typo` comes before `disposable` and `no_mx`.
        (typo.clone(), "possible_typo", [false, true, false, false]),
        (address("user", "mailinator.com"), "disposable", [true, true, false, false]),
        // `disposable` comes before `no_mx`.
        (address("user", "guerrillamail.com"), "disposable", [false, true, false, false]),
        (address("user", "nxdomain.example"), "no_mx", [false; 4]),
        (address("user", "nomail.example"), "no_mx", [false; 4]),
        (address("user", "nullmx.example"), "no_mx", [false; 4]),
        // A failure of DNS proves no `no_mx`: `mx` is true only if a mail host was seen.
        (address("user", "servfail.example"), "fast_check_passed", [false; 4]),
        (format!("info@{own}"), "fast_check_passed", [true, false, true, false]),
        (address("user", "gmail.com"), "fast_check_passed", [true, false, false, true]),
        // Fast mode says nothing about spam traps, and knows no words of test mode.
        (address("user", "trapped.example"), "fast_check_passed", [true, false, false, false]),
        ("not_found@gmail.com".into(), "fast_check_passed", [true, false, false, true]),
    ] {
        let expected = json!({
            "email": asked,
            "deliverable": if reason == "fast_check_passed" { Value::Null } else { json!(false) },
            "reason": reason,
            "credits_remaining": null,
            "mode": "fast",
            "suggestion": if reason == "possible_typo" { json!(corrected) } else { Value::Null },
            "checks": if reason == "invalid_syntax" { Value::Null } else { checks(flags) },
        });
        // Nothing is cached.
        let calls = [fast(&asked), verify_by_get(&asked, "&mode=fast")];
        for call in calls {
            for key in [&account.live, account.test()] {
                let answer = account.server.call(&call.clone().key(key));
                assert_eq!(verified(&answer), expected);
            }
        }
    }
    assert_eq!(account.credits(), 100);
}

#[test]
fn the_mailbox_is_never_contacted() {
    let (account, domain) = (shared().account("free"), domain());
    account.fast(&address("user", &domain));
    account.fast(&address("nobody", &domain));
    assert_eq!(contacts(&domain), (0, 0));
}

#[test]
fn detail_full_is_ignored() {
    let account = shared().account("free");
    let body = json!({ "email": mailbox(), "mode": "fast", "detail": "full" });
    assert!(verified(&account.call(post("/v1/verify", &body))).get("detail").is_none());
    let result = verified(&account.call(verify_by_get(&mailbox(), "&mode=fast&detail=full")));
    assert!(result.get("detail").is_none());
}

#[test]
fn a_fast_check_after_a_full_one_is_still_fast() {
    let account = shared().account("free");
    let asked = mailbox();
    account.verify(&asked);
    let result = account.fast(&asked);
    assert_eq!((&result["reason"], result.get("cached")), (&json!("fast_check_passed"), None));
}
