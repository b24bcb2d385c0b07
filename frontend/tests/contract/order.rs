//! The order of refusals: each request below could be refused for two reasons, and the answer has the earlier one. The
//! order is 404/405, 401, 403, 429, 413/415, 400, 404 of a batch, 409/422/replay, 402, 503. `rate_limits` has the pairs
//! with 429, and `outage` those with 503.

use crate::contract::accounts::{addresses, batch, created, verify};
use crate::contract::world::{mailbox, shared};
use crate::harness::client::{Call, get, post};
use serde_json::json;

const KEY: &str = "Idempotency-Key";

fn text(path: &str) -> Call {
    Call::new("POST", path).header("Content-Type", "text/plain").bytes("no JSON")
}

#[test]
fn path_and_method_before_the_key() {
    shared().call(&get("/v1/nowhere")).assert_refused(404, "not_found");
    shared().call(&Call::new("DELETE", "/v1/account")).assert_refused(405, "method_not_allowed");
    let put = Call::new("PUT", "/v1/verify/batch").key("nonsense");
    shared().call(&put).assert_refused(405, "method_not_allowed");
}

#[test]
fn the_key_before_the_body() {
    shared().call(&text("/v1/verify")).assert_refused(401, "missing_api_key");
    shared().call(&post("/v1/verify", &json!({})).key("nonsense")).assert_refused(401, "invalid_api_key");
    shared().call(&get("/v1/verify?mode=x")).assert_refused(401, "missing_api_key");
    let large = Call::new("POST", "/v1/verify/batch").bytes(vec![b' '; 256 * 1024 + 1]);
    shared().call(&large).assert_refused(401, "missing_api_key");
}

#[test]
fn the_key_before_the_plan() {
    let account = shared().account("no-batches");
    account.revoke();
    account.call(batch(&addresses(1))).assert_refused(401, "api_key_revoked");
}

#[test]
fn the_plan_before_the_body() {
    let account = shared().account("no-batches");
    account.call(text("/v1/verify/batch")).assert_refused(403, "plan_not_allowed");
    account.call(post("/v1/verify/batch", &json!({}))).assert_refused(403, "plan_not_allowed");
    account.call(batch(&["nobody".into()])).assert_refused(403, "plan_not_allowed");
    account.set_status("paused");
    account.call(batch(&addresses(1))).assert_refused(403, "plan_not_allowed");
}

#[test]
fn size_and_type_before_the_content() {
    let account = shared().account("none");
    account.call(text("/v1/verify")).assert_refused(415, "unsupported_media_type");
    account.call(text("/v1/verify/batch")).assert_refused(415, "unsupported_media_type");
    let large = Call::new("POST", "/v1/verify?mode=x").bytes(vec![b'x'; 256 * 1024 + 1]);
    account.call(large).assert_refused(413, "request_too_large");
}

#[test]
fn the_content_before_the_balance() {
    let account = shared().account("none");
    account.call(post("/v1/verify", &json!({ "email": 1 }))).assert_refused(400, "invalid_request");
    account
        .call(post("/v1/verify?mode=x", &json!({ "email": mailbox() })))
        .assert_refused(400, "invalid_request");
    account.call(post("/v1/verify/batch", &json!({ "emails": [] }))).assert_refused(400, "invalid_request");
    account.call(batch(&[mailbox(), "nobody".into()])).assert_refused(400, "invalid_emails");
    account.set_status("canceled");
    account.call(batch(&[mailbox(), "nobody".into()])).assert_refused(400, "invalid_emails");
}

#[test]
fn the_content_before_the_idempotency_key() {
    let account = shared().account("free");
    created(&account.call(batch(&addresses(1)).header(KEY, "k")));
    account.call(batch(&["nobody".to_owned()]).header(KEY, "k")).assert_refused(400, "invalid_emails");
    account
        .call(post("/v1/verify/batch", &json!({})).header(KEY, "k"))
        .assert_refused(400, "invalid_request");
}

#[test]
fn the_idempotency_key_before_the_balance() {
    let account = shared().account("none");
    account.grant(1);
    let call = batch(&addresses(1)).header(KEY, "k");
    created(&account.call(call.clone()));
    account.call(batch(&addresses(3)).header(KEY, "k")).assert_refused(422, "idempotency_key_reused");
    account.set_status("paused");
    account.call(batch(&addresses(3)).header(KEY, "k")).assert_refused(422, "idempotency_key_reused");
    assert_eq!(account.call(call).header("idempotent-replayed"), Some("true"));
}

#[test]
fn a_missing_batch_needs_no_balance() {
    let account = shared().account("none");
    account.set_status("canceled");
    account.call(get("/v1/verify/batch/bat_00000000000000000000000000")).assert_refused(404, "not_found");
}

#[test]
fn invalid_syntax_is_no_refusal_and_comes_before_the_balance() {
    let account = shared().account("none");
    assert_eq!(account.verify("nobody")["reason"], "invalid_syntax");
    account.call(verify(&mailbox())).assert_refused(402, "insufficient_credits");
}
