//! The table of errors: a test for each row without one elsewhere, and the common fields of every error.

use crate::contract::accounts::{addresses, batch, fast, verified, verify, verify_by_get};
use crate::contract::world::{mailbox, shared};
use crate::harness::client::{Answer, Call, get, post};
use serde_json::{Value, json};

/// The place and the type of each issue, as in `query.email missing`.
fn issues(answer: &Answer) -> Vec<String> {
    answer.assert_refused(400, "invalid_request");
    let detail = answer.json()["detail"].clone();
    let issue = |issue: &Value| {
        let place: Vec<String> = issue["loc"]
            .as_array()
            .unwrap()
            .iter()
            .map(|part| part.as_str().map_or_else(|| part.to_string(), str::to_owned))
            .collect();
        format!("{} {}", place.join("."), issue["type"].as_str().unwrap())
    };
    detail.as_array().unwrap().iter().map(issue).collect()
}

#[test]
fn invalid_request_names_what_is_wrong_as_the_validation_error_schema_does() {
    let account = shared().account("free");
    let email = mailbox();
    let query = |text: &str| get(format!("/v1/verify?{text}"));
    let with_email = |text: &str| get(format!("/v1/verify?email={email}{text}"));
    let body = |text: &str| post("/v1/verify", &Value::Null).bytes(text);
    let known = format!("\"email\":\"{email}\"");
    let with_body = |query: &str, text: &str| {
        post(format!("/v1/verify{query}"), &Value::Null).bytes(format!("{{{known}{text}}}"))
    };
    let rows = |text: &str| post("/v1/verify/batch", &Value::Null).bytes(text);
    let (long, key) = ("k".repeat(256), "Idempotency-Key");
    for (call, expected) in [
        (get("/v1/verify"), &["query.email missing"][..]),
        (query("mail=a"), &["query.email missing"]),
        (query("email=%zz"), &["query encoding"]),
        (query("email=%ff"), &["query encoding"]),
        (with_email("&mode=quick"), &["query.mode enum"]),
        (with_email("&mode="), &["query.mode enum"]),
        (with_email("&mode=Full"), &["query.mode enum"]),
        (with_email("&detail=all"), &["query.detail enum"]),
        (with_email("&detail=no&mode=x"), &["query.mode enum", "query.detail enum"]),
        (with_email("&mode=fast&detail=no"), &["query.detail enum"]),
        (with_email("&mode=full&mode=full"), &["query.mode duplicate"]),
        (query("email=a&email=a"), &["query.email duplicate"]),
        (body(""), &["body json_invalid"]),
        (body("{"), &["body json_invalid"]),
        (with_body("", &format!(",{known}")), &["body json_invalid"]),
        (with_body("", ",\"x\":{\"a\":1,\"a\":2}"), &["body json_invalid"]),
        (body("[]"), &["body object_type"]),
        (body("{}"), &["body.email missing"]),
        (body("{\"email\":1}"), &["body.email string_type"]),
        (body("{\"email\":null}"), &["body.email string_type"]),
        (post(format!("/v1/verify?email={email}"), &json!({})), &["body.email missing"]),
        (body(&format!("{{\"email\":\"{}\"}}", "a".repeat(321))), &["body.email string_too_long"]),
        (with_body("", ",\"mode\":\"slow\""), &["body.mode enum"]),
        (with_body("", ",\"mode\":1,\"detail\":true"), &["body.mode string_type", "body.detail string_type"]),
        (with_body("?mode=full", ",\"mode\":\"fast\""), &["body.mode conflict"]),
        (with_body("?mode=fast", ",\"mode\":\"full\""), &["body.mode conflict"]),
        (with_body("?mode=slow&detail=none", ""), &["query.mode enum", "query.detail enum"]),
        (rows("{}"), &["body.emails missing"]),
        (rows("{\"emails\":[]}"), &["body.emails too_short"]),
        (
            rows("{\"emails\":[1],\"name\":2}").header(key, &long),
            &["header.idempotency-key string_too_long", "body.emails.0 string_type", "body.name string_type"],
        ),
        // Errors in the form come before those in the addresses.
        (batch(&["a b".into()]).header(key, &long), &["header.idempotency-key string_too_long"]),
        (batch(&addresses(1)).header(key, ""), &["header.idempotency-key string_pattern_mismatch"]),
        (batch(&addresses(1)).header(key, "a").header(key, "a"), &["header.idempotency-key duplicate"]),
    ] {
        assert_eq!(issues(&account.call(call)), expected);
    }
    let more = with_email("&mode=full&detail=full&other=1&other=2");
    assert_eq!(account.call(more).ok()["credits_remaining"], 99, "other parameters are ignored");
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
    let repeat = verified(&account.call(verify_by_get(known, "&detail=full")));
    assert_eq!((&repeat["cached"], &repeat["reason"]), (&json!(true), &json!("mailbox_exists")));
    assert_eq!(repeat["detail"]["dns"]["mx"], true);
    assert_eq!(verified(&account.call(fast(&mailbox())))["reason"], "fast_check_passed");
    let test = verify("deliverable@any.example").key(account.test());
    assert_eq!(account.server.call(&test).ok()["reason"], "mailbox_exists");
    account.account();
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
        let larger = body(256 * 1024 + 1);
        account.call(post(path, &larger)).assert_refused(413, "request_too_large");
        // Without a length, in chunks.
        let (larger, key) = (larger.to_string(), &account.live);
        let head = format!("POST {path} HTTP/1.1\r\nHost: t\r\nAuthorization: Bearer {key}\r\n");
        let chunks = format!("Transfer-Encoding: chunked\r\n\r\n{:x}\r\n{larger}\r\n0\r\n\r\n", larger.len());
        account.server.send(head + &chunks).assert_refused(413, "request_too_large");
        let headers = format!("Authorization: Bearer {key}\r\nContent-Type: application/json\r\n");
        account.server.refuses_a_long_body(path, &headers);
    }
}

#[test]
fn a_body_that_says_it_is_not_json_is_unsupported_media_type() {
    let account = shared().account("free");
    let call = |path: &str, kind: &str, body: Value| {
        account.call(Call::new("POST", path).header("Content-Type", kind).bytes(body.to_string()))
    };
    for kind in
        ["text/plain; charset=utf-8", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x"]
    {
        call("/v1/verify", kind, json!({ "email": mailbox() })).assert_refused(415, "unsupported_media_type");
        call("/v1/verify/batch", kind, json!({ "emails": addresses(1) }))
            .assert_refused(415, "unsupported_media_type");
    }
    assert_eq!(account.credits(), 100);
    let answer = call("/v1/verify", "application/json; charset=UTF-8", json!({ "email": mailbox() }));
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
