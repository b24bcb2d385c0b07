//! The table of endpoints: paths and methods.

use crate::contract::accounts::{verify, verify_by_get};
use crate::contract::client::{Call, get, post};
use crate::contract::world::{mailbox, shared};
use serde_json::json;

/// Each path with its methods.
const PATHS: [(&str, &[&str]); 5] = [
    ("/v1/verify", &["GET", "POST"]),
    ("/v1/verify/batch", &["GET", "POST"]),
    ("/v1/verify/batch/bat_00000000000000000000000000", &["GET"]),
    ("/v1/account", &["GET"]),
    ("/v1/openapi.json", &["GET"]),
];

#[test]
fn every_endpoint_answers() {
    let account = shared().account("free");
    account.call(verify(&mailbox())).ok();
    account.call(verify_by_get(&mailbox(), "")).ok();
    let created = account.start(&[mailbox()]);
    account.poll(created["batch_id"].as_str().unwrap());
    account.account();
    shared().call(&get("/v1/openapi.json")).ok();
}

#[test]
fn other_methods_are_405_and_allow_names_the_right_ones() {
    let account = shared().account("free");
    for (path, methods) in PATHS {
        for method in ["GET", "POST", "PUT", "PATCH", "DELETE"] {
            if methods.contains(&method) {
                continue;
            }
            let answer = account.call(Call::new(method, path).bytes("{}"));
            answer.assert_refused(405, "method_not_allowed");
            let allow: Vec<&str> = answer.header("allow").unwrap().split(',').map(str::trim).collect();
            assert!(methods.iter().all(|method| allow.contains(method)), "{method} {path}: {allow:?}");
            assert!(!allow.contains(&method), "{method} {path}: {allow:?}");
        }
    }
}

#[test]
fn unknown_paths_are_404() {
    let account = shared().account("free");
    for path in
        ["/v1", "/v1/", "/v1/verification", "/v1/verify/batch/a/b", "/v1/accounts", "/verify", "/account"]
    {
        account.call(get(path)).assert_refused(404, "not_found");
        account.call(post(path, &json!({}))).assert_refused(404, "not_found");
    }
}

#[test]
fn all_bodies_are_json() {
    let account = shared().account("free");
    for answer in [
        account.call(verify(&mailbox())),
        account.call(get("/v1/account")),
        account.call(get("/v1/nowhere")),
        account.call(get("/v1/verify")),
        shared().call(&get("/v1/account")),
        shared().call(&get("/v1/openapi.json")),
    ] {
        let kind = answer.header("content-type").unwrap();
        assert!(kind.starts_with("application/json"), "{kind}");
        answer.json();
    }
}

#[test]
fn get_verify_requires_email() {
    let account = shared().account("free");
    account.call(get("/v1/verify")).assert_refused(400, "invalid_request");
    account.call(get("/v1/verify?mode=full")).assert_refused(400, "invalid_request");
}

#[test]
fn post_verify_requires_email_as_a_string() {
    let account = shared().account("free");
    for body in [json!({}), json!({ "email": null }), json!({ "email": 1 }), json!({ "email": [mailbox()] })]
    {
        account.call(post("/v1/verify", &body)).assert_refused(400, "invalid_request");
    }
    let in_the_query = post(format!("/v1/verify?email={}", mailbox()), &json!({}));
    account.call(in_the_query).assert_refused(400, "invalid_request");
    assert_eq!(account.credits(), 100);
}

#[test]
fn mode_and_detail_in_the_body_are_strings() {
    let account = shared().account("free");
    for (name, value) in [("mode", json!(1)), ("mode", json!(["fast"])), ("detail", json!(true))] {
        let body = json!({ "email": mailbox(), name: value });
        account.call(post("/v1/verify", &body)).assert_refused(400, "invalid_request");
    }
    assert_eq!(account.credits(), 100);
}
