//! Keys with scopes and an expiry: 403 and 401.

use crate::harness::client::Call;
use crate::harness::server::Server;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use store::KeyScope;

/// A key of the first account with these flags.
fn key(server: &Server, flags: &[&str]) -> String {
    server.administer(&[&["key", "create", "default"], flags].concat()).trim().to_owned()
}

/// Method, path and body of a request to every operation that needs a key, with its scope.
fn requests() -> Vec<(KeyScope, String, String, String)> {
    let described = serde_json::to_value(api::openapi::description("/").unwrap()).unwrap();
    let mut found = Vec::new();
    for (path, item) in described["paths"].as_object().unwrap() {
        for method in item.as_object().unwrap().keys() {
            let method = method.to_ascii_uppercase();
            let mut add = |scope, query: &str, body: Value| {
                let body = if method == "GET" { String::new() } else { body.to_string() };
                found.push((scope, method.clone(), format!("{path}{query}"), body));
            };
            match path.as_str() {
                "/v1/openapi.json" => {}
                "/v1/verify" => {
                    add(KeyScope::Fast, "?mode=fast&email=a", json!({ "email": "a" }));
                    add(KeyScope::Full, "?mode=full&email=a", json!({ "email": "a" }));
                }
                path if path.starts_with("/v1/verify/batch") => add(KeyScope::Batches, "", json!({})),
                path if path.starts_with("/v1/lists") => add(KeyScope::Lists, "", json!({})),
                path if path.starts_with("/v1/account") || path.starts_with("/v1/webhooks") => {
                    add(KeyScope::Account, "", json!({}));
                }
                other => panic!("{other} has no scope in this test"),
            }
        }
    }
    // The body determines the mode.
    let post = |scope, body: Value| (scope, "POST".into(), "/v1/verify".into(), body.to_string());
    found.push(post(KeyScope::Fast, json!({ "email": "a", "mode": "fast" })));
    found.push(post(KeyScope::Full, json!({ "email": "a" })));
    found.push(post(KeyScope::Full, json!({ "email": "a", "mode": "quick" })));
    found
}

#[test]
fn every_route_refuses_a_key_without_its_scope_and_no_other_key() {
    let server = Server::start(&[]);
    let requests = requests();
    let seen: BTreeSet<&str> = requests.iter().map(|(scope, ..)| scope.as_str()).collect();
    assert_eq!(seen.len(), KeyScope::ALL.len(), "each scope has a route");
    for test in [&[][..], &["--test"]] {
        for scope in KeyScope::ALL {
            let others: Vec<&str> =
                KeyScope::ALL.into_iter().filter(|other| *other != scope).map(KeyScope::as_str).collect();
            let with = |scopes: &str| key(&server, &[test, &["--scope", scopes]].concat());
            let (only, without) = (with(scope.as_str()), with(&others.join(",")));
            let all = key(&server, test);
            for (needed, method, path, body) in requests.iter().filter(|(needed, ..)| *needed == scope) {
                let call = |key: &str| {
                    let call = Call::new(method, path).key(key).header("Content-Type", "application/json");
                    server.send(call.bytes(body.as_bytes()).encode())
                };
                let refused = call(&without);
                refused.assert_refused(403, "insufficient_scope");
                let message = refused.json()["message"].as_str().unwrap().to_owned();
                assert!(message.contains(&format!("lacks the scope `{needed}`")), "{message}");
                assert!(message.contains("Use a key with this scope, or create one"), "{message}");
                assert_eq!(refused.header("ratelimit"), None, "it is not counted");
                // An export needs three scopes.
                let admitted = call(if path.ends_with("/export") { &all } else { &only });
                // A test key gets 403 for another reason at webhooks.
                assert!(
                    admitted.status != 403 || admitted.error() == "live_key_required",
                    "{method} {path} {body}: {admitted:?}"
                );
                assert_ne!(admitted.status, 401, "{method} {path}");
            }
        }
    }
    assert_eq!(server.ledger(), (0, 0), "nothing was charged");
}

#[test]
fn a_request_without_its_scope_counts_against_no_limit_and_asks_nobody() {
    let server = Server::start(&[]);
    let fast = key(&server, &["--scope", "fast"]);
    for _ in 0..3 {
        assert_eq!(server.get(&fast, "/v1/verify?email=mailbox_exists@a.example").status, 403);
    }
    assert_eq!(server.asked("mailbox_exists@a.example"), 0);
    let answer = server.get(&fast, "/v1/verify?mode=fast&email=a");
    assert_eq!((answer.status, answer.header("x-ratelimit-remaining")), (200, Some("599")));
    // 404 and 405 come before the scope, and so does 401.
    assert_eq!(server.get(&fast, "/v1/nothing").status, 404);
    assert_eq!(server.post(&fast, "/v1/account", "").status, 405);
}

#[test]
fn the_data_of_the_account_is_exported_with_a_live_key() {
    let server = Server::start(&[]);
    let body = "{\"emails\":[\"deliverable@a.example\"],\"name\":\"june\"}";
    assert_eq!(server.post(&server.test, "/v1/verify/batch", body).status, 202);
    let answer = server.get(&server.live, "/v1/account/export");
    assert_eq!((answer.status, answer.header("ratelimit-policy")), (200, Some("\"list\";q=120;w=60")));
    let data = answer.json();
    assert_eq!(data["account"]["name"], "default");
    let batches = server.get(&server.test, "/v1/verify/batch").json();
    assert_eq!(batches["batches"][0]["name"], "june");
    assert_eq!(data["keys"].as_array().map(Vec::len), Some(2));
    let results = json!([{ "email": "deliverable@a.example", "reason": "mailbox_exists" }]);
    assert_eq!((&data["batches"][0]["name"], &data["batches"][0]["results"]), (&json!("june"), &results));
    assert!(!answer.body.contains(&server.live), "it has no key");
    for (scopes, missing) in
        [("account", "batches"), ("account,batches", "lists"), ("account,lists", "batches")]
    {
        let refused = server.get(&key(&server, &["--scope", scopes]), "/v1/account/export");
        refused.assert_refused(403, "insufficient_scope");
        assert!(refused.body.contains(&format!("lacks the scope `{missing}`")), "{}", refused.body);
    }
    let test = server.get(&server.test, "/v1/account/export");
    test.assert_refused(403, "live_key_required");
}

#[test]
fn a_key_is_refused_from_its_expiry_on() {
    let server = Server::start(&["--test-clock"]);
    let key = key(&server, &["--expires", "2h"]);
    assert_eq!(server.get(&key, "/v1/account").status, 200);
    server.advance(7_000_000);
    assert_eq!(server.get(&key, "/v1/account").status, 200);
    server.advance(200_000);
    let refused = server.get(&key, "/v1/account");
    refused.assert_refused(401, "api_key_revoked");
    assert_eq!(refused.json()["message"], "This API key has expired. Use another key.");
    assert!(refused.header("www-authenticate").is_some());
    let server = server.restart_after_kill();
    server.advance(7_200_000);
    assert_eq!(server.get(&key, "/v1/account").status, 401);
    assert_eq!(server.get(&server.live, "/v1/account").status, 200);
}
