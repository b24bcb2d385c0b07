//! The table of errors: a test for each row without one elsewhere, and the common fields of every error.

use crate::contract::accounts::{addresses, batch, fast, verified, verify, verify_by_get};
use crate::contract::client::{Call, get, post};
use crate::contract::world::{mailbox, shared};
use serde_json::{Value, json};

#[test]
fn invalid_request_names_what_is_wrong_as_the_validation_error_schema_does() {
    let account = shared().account("free");
    for (call, place) in [
        (get("/v1/verify"), "email"),
        (verify_by_get(&mailbox(), "&mode=quick"), "mode"),
        (verify_by_get(&mailbox(), "&detail=all"), "detail"),
        (post("/v1/verify", &json!({})), "email"),
        (post("/v1/verify", &json!({ "email": mailbox(), "mode": "quick" })), "mode"),
        (post("/v1/verify/batch", &json!({})), "emails"),
        (post("/v1/verify/batch", &json!({ "emails": addresses(1), "name": 1 })), "name"),
    ] {
        let answer = account.call(call);
        answer.assert_refused(400, "invalid_request");
        // Another check of every error covers the fields of the items.
        let detail = answer.json()["detail"].clone();
        let named = detail
            .as_array()
            .unwrap()
            .iter()
            .any(|item| item["loc"].as_array().unwrap().contains(&json!(place)));
        assert!(named, "{place}: {detail}");
    }
}

#[test]
fn invalid_request_for_what_is_no_json() {
    let account = shared().account("free");
    let email = mailbox();
    let bodies = [
        String::new(),
        "{".into(),
        "null".into(),
        "[]".into(),
        "\"text\"".into(),
        format!("{{\"email\":\"{email}\"}} trailing"),
        format!("{{\"email\":\"{email}\"}}{{}}"),
        format!("{{\"email\":\"{email}\",\"email\":\"{email}\"}}"),
        format!("{{'email':'{email}'}}"),
        format!("{{\"email\":\"{email}\",}}"),
        "{\"email\":\"\\ud800@ok.example\"}".into(),
        format!("email={email}"),
    ];
    for path in ["/v1/verify", "/v1/verify/batch"] {
        for body in &bodies {
            let answer = account.call(post(path, &Value::Null).bytes(body.clone()));
            answer.assert_refused(400, "invalid_request");
        }
        let answer =
            account.call(post(path, &Value::Null).bytes(b"{\"email\":\"\xff@ok.example\"}".to_vec()));
        answer.assert_refused(400, "invalid_request");
        let deep = "[".repeat(50_000);
        account.call(post(path, &Value::Null).bytes(deep)).assert_refused(400, "invalid_request");
    }
    assert_eq!(account.credits(), 100);
}

#[test]
fn unknown_json_fields_are_ignored() {
    let account = shared().account("free");
    let body = json!({ "email": mailbox(), "colour": "blue", "nested": { "a": [1, 2] } });
    assert_eq!(account.call(post("/v1/verify", &body)).ok()["reason"], "mailbox_exists");
}

#[test]
fn insufficient_credits_names_the_balance_and_for_batches_what_was_required() {
    let account = shared().account("none");
    let answer = account.call(verify(&mailbox()));
    answer.assert_refused(402, "insufficient_credits");
    assert_eq!(answer.json()["credits_remaining"], 0);
    account.grant(1);
    let answer = account.call(batch(&addresses(2)));
    answer.assert_refused(402, "insufficient_credits");
    assert_eq!(
        (&answer.json()["credits_remaining"], &answer.json()["credits_required"]),
        (&json!(1), &json!(2))
    );
    assert_eq!(account.credits(), 1);
}

#[test]
fn subscription_inactive_names_the_balance() {
    let account = shared().account("free");
    for status in ["paused", "canceled"] {
        account.set_status(status);
        for call in [verify(&mailbox()), verify_by_get(&mailbox(), ""), batch(&addresses(1))] {
            let answer = account.call(call);
            answer.assert_refused(402, "subscription_inactive");
            assert_eq!(answer.json()["credits_remaining"], 100);
        }
    }
    assert_eq!(account.credits(), 100);
}

#[test]
fn active_and_past_due_accounts_may_check() {
    let account = shared().account("free");
    for status in ["past_due", "active"] {
        account.set_status(status);
        account.verify(&mailbox());
        account.start(&addresses(1));
    }
    assert_eq!(account.credits(), 96);
}

#[test]
fn what_is_free_still_answers_at_0_credits() {
    let account = shared().account("none");
    account.grant(1);
    let known = mailbox();
    account.verify(&known);
    free_things(&account, &known);
    account.call(verify(&mailbox())).assert_refused(402, "insufficient_credits");
}

#[test]
fn what_is_free_still_answers_on_paused_and_canceled_accounts() {
    for status in ["paused", "canceled"] {
        let account = shared().account("free");
        let known = mailbox();
        account.verify(&known);
        account.set_status(status);
        free_things(&account, &known);
        account.call(verify(&mailbox())).assert_refused(402, "subscription_inactive");
    }
}

fn free_things(account: &crate::contract::accounts::Account<'_>, known: &str) {
    assert_eq!(account.verify("nobody")["reason"], "invalid_syntax");
    let repeat = account.verify(known);
    assert_eq!((&repeat["cached"], &repeat["reason"]), (&json!(true), &json!("mailbox_exists")));
    assert_eq!(verified(&account.call(fast(&mailbox())))["reason"], "fast_check_passed");
    let test = verify("deliverable@any.example").key(account.test());
    assert_eq!(account.server.call(&test).ok()["reason"], "mailbox_exists");
    account.account();
}

/// Other rules of gateways are not part of the contract; `tests/http` tests them.
#[test]
fn not_available_on_gateway_but_for_single_verify() {
    let through = |call: Call| {
        let call = call.header("X-Market-Secret", "only-for-the-contract").header("X-Market-User", "alice");
        shared().call(&call.header("X-Market-Plan", "BASIC"))
    };
    for call in
        [batch(&addresses(1)), get("/v1/verify/batch/bat_00000000000000000000000000"), get("/v1/account")]
    {
        through(call).assert_refused(403, "not_available_on_market");
    }
    for (call, left) in [(verify(&mailbox()), 99), (verify_by_get(&mailbox(), ""), 98)] {
        assert_eq!(verified(&through(call))["credits_remaining"], left);
    }
}

#[test]
fn plan_not_allowed_where_the_plan_has_no_batches() {
    let account = shared().account("no-batches");
    account.call(batch(&addresses(1))).assert_refused(403, "plan_not_allowed");
    assert_eq!(account.credits(), 100);
    account.verify(&mailbox());
}

#[test]
fn batches_are_in_every_default_plan() {
    let server = crate::contract::world::Server::with_default_plans(&[]);
    for plan in ["free", "starter", "growth", "scale"] {
        let account = server.account(plan);
        assert_eq!(account.call(batch(&addresses(1))).status, 202, "{plan}");
    }
}

#[test]
fn a_body_over_256_kib_is_request_too_large() {
    let account = shared().account("free");
    for path in ["/v1/verify", "/v1/verify/batch"] {
        let body = |bytes: usize| {
            let bare = json!({ "email": "user", "emails": [], "pad": "" }).to_string().len();
            json!({ "email": "user", "emails": [], "pad": "x".repeat(bytes - bare) })
        };
        let largest = account.call(post(path, &body(256 * 1024)));
        assert_eq!(largest.status, if path.ends_with("batch") { 400 } else { 200 });
        account.call(post(path, &body(256 * 1024 + 1))).assert_refused(413, "request_too_large");
    }
}

#[test]
fn a_body_that_says_it_is_not_json_is_unsupported_media_type() {
    let account = shared().account("free");
    let call = |path: &str, kind: &str, body: Value| {
        account.call(Call::new("POST", path).header("Content-Type", kind).bytes(body.to_string()))
    };
    for kind in ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x"] {
        call("/v1/verify", kind, json!({ "email": mailbox() })).assert_refused(415, "unsupported_media_type");
        call("/v1/verify/batch", kind, json!({ "emails": addresses(1) }))
            .assert_refused(415, "unsupported_media_type");
    }
    assert_eq!(account.credits(), 100);
    let answer = call("/v1/verify", "application/json; charset=utf-8", json!({ "email": mailbox() }));
    assert_eq!(answer.status, 200);
    let answer =
        account.call(Call::new("POST", "/v1/verify").bytes(json!({ "email": mailbox() }).to_string()));
    assert_eq!(answer.status, 200, "a body that says nothing is taken as JSON");
}

#[test]
fn errors_tell_nothing_of_the_address() {
    let account = shared().account("none");
    let email = mailbox();
    let answer = account.call(verify(&email));
    answer.assert_refused(402, "insufficient_credits");
    assert!(!answer.body.contains(&email), "{answer:?}");
    assert!(!account.server.log().contains(&email));
}
