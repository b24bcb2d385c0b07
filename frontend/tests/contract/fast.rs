//! Rule 4: `mode=fast`, its reasons in their order, `checks` and `suggestion`.

use crate::contract::accounts::{verified, verify_by_get};
use crate::contract::client::post;
use crate::contract::world::{address, contacts, domain, mailbox, shared};
use serde_json::{Value, json};

#[track_caller]
fn check(asked: &str, reason: &str) -> Value {
    let account = shared().account("free");
    let result = account.fast(asked);
    assert_eq!(result["reason"], reason, "{asked}");
    assert_eq!(result["email"], asked);
    assert_eq!(verified(&account.call(verify_by_get(asked, "&mode=fast"))), result, "GET as POST");
    result
}

#[test]
fn fast_check_passed_is_null_and_never_true() {
    let result = check(&mailbox(), "fast_check_passed");
    assert_eq!(result["deliverable"], Value::Null);
    assert_eq!(result["suggestion"], Value::Null);
    let checks = json!({ "mx": true, "disposable": false, "role_account": false, "free_email": false });
    assert_eq!(result["checks"], checks);
}

#[test]
fn the_mailbox_is_never_contacted() {
    let domain = domain();
    check(&address("user", &domain), "fast_check_passed");
    check(&address("nobody", &domain), "fast_check_passed");
    assert_eq!(contacts(&domain), (0, 0));
}

#[test]
fn invalid_syntax_has_no_checks() {
    let result = check("nobody", "invalid_syntax");
    assert_eq!((&result["deliverable"], &result["checks"]), (&json!(false), &Value::Null));
}

#[test]
fn possible_typo_suggests_the_corrected_address() {
    let asked = address("user", "gmial.com");
    let result = check(&asked, "possible_typo");
    assert_eq!(result["deliverable"], false);
    assert_eq!(result["suggestion"], asked.replace("gmial", "gmail"));
}

#[test]
fn disposable() {
    let result = check(&address("user", "mailinator.com"), "disposable");
    assert_eq!((&result["deliverable"], &result["checks"]["disposable"]), (&json!(false), &json!(true)));
}

#[test]
fn no_mx() {
    for domain in ["nxdomain.example", "nomail.example", "nullmx.example"] {
        let result = check(&address("user", domain), "no_mx");
        assert_eq!(
            (&result["deliverable"], &result["checks"]["mx"]),
            (&json!(false), &json!(false)),
            "{domain}"
        );
    }
}

#[test]
fn possible_typo_comes_before_no_mx() {
    // gmial.com takes no mail here, so both reasons are true.
    assert_eq!(check(&address("user", "gmial.com"), "possible_typo")["checks"]["mx"], false);
}

#[test]
fn disposable_comes_before_no_mx() {
    let result = check(&address("user", "guerrillamail.com"), "disposable");
    assert_eq!(result["checks"]["mx"], false);
}

#[test]
fn a_failure_of_the_dns_proves_no_no_mx() {
    let result = check(&address("user", "servfail.example"), "fast_check_passed");
    assert_eq!(result["checks"]["mx"], false, "true only when a mail host was seen");
}

#[test]
fn role_account_and_free_email_are_checks_and_no_refusals() {
    let result = check(&format!("info@{}", domain()), "fast_check_passed");
    assert_eq!(
        (&result["checks"]["role_account"], &result["checks"]["free_email"]),
        (&json!(true), &json!(false))
    );
    let result = check(&address("user", "gmail.com"), "fast_check_passed");
    assert_eq!(
        (&result["checks"]["role_account"], &result["checks"]["free_email"]),
        (&json!(false), &json!(true))
    );
}

#[test]
fn a_spam_trap_is_nothing_that_fast_mode_says() {
    check(&address("user", "trapped.example"), "fast_check_passed");
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
