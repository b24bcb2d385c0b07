//! The table of endpoints: paths and methods.

use crate::contract::world::{mailbox, shared};
use crate::harness::client::{Call, get, post};
use serde_json::json;

/// Each path with its methods.
const PATHS: [(&str, &str); 7] = [
    ("/v1/verify", "GET, POST"),
    ("/v1/verify/batch", "POST, GET, HEAD"),
    ("/v1/verify/batch/bat_00000000000000000000000000", "GET, HEAD"),
    ("/v1/account", "GET, HEAD"),
    ("/v1/openapi.json", "GET, HEAD"),
    ("/livez", "GET, HEAD"),
    ("/readyz", "GET, HEAD"),
];

#[test]
fn other_methods_are_405_and_allow_names_the_right_ones() {
    let account = shared().account("free");
    for (path, methods) in PATHS {
        for method in ["GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "BREW"] {
            if !methods.contains(method) {
                let answer = account.call(Call::new(method, path).bytes("{}"));
                answer.assert_refused(405, "method_not_allowed");
                assert_eq!(answer.header("allow"), Some(methods), "{method} {path}");
            }
        }
    }
}

#[test]
fn head_is_a_get_without_a_body_where_a_get_is_free() {
    let account = shared().account("free");
    let mut connection = account.server.connect();
    let batch_id = account.start(&[mailbox()])["batch_id"].as_str().unwrap().to_owned();
    for (path, status) in [
        ("/livez", 200),
        ("/readyz", 200),
        ("/v1/account", 200),
        (&format!("/v1/verify/batch/{batch_id}"), 200),
        ("/v1/verify?email=a", 405),
    ] {
        connection.send(Call::new("HEAD", path).key(&account.live).encode());
        assert_eq!(connection.read_head().status, status, "{path}");
        let next = connection.call(&get("/livez"));
        assert_eq!(next.ok()["status"], "ok", "no body stands in the way of the next answer");
    }
}

#[test]
fn unknown_paths_are_404() {
    let account = shared().account("free");
    for path in [
        "/v1",
        "/v1/",
        "/v1/verify/",
        "/v1/verify/batch/",
        "/v1/verification",
        "/v1/verify/batch/a/b",
        "/v1/accounts",
        "/verify",
        "/account",
        "/v2/account",
        "/v0/account",
        "/V1/account",
        "/v1.0/account",
    ] {
        account.call(get(path)).assert_refused(404, "not_found");
        account.call(post(path, &json!({}))).assert_refused(404, "not_found");
    }
}
