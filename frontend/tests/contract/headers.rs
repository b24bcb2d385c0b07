//! Headers of answers. `rate_limits` tests those of rate limits.

use crate::contract::accounts::{addresses, batch, fast, verify, verify_by_get};
use crate::contract::world::{mailbox, shared};
use crate::harness::client::{Answer, get, post};
use serde_json::json;

fn answers() -> Vec<Answer> {
    let account = shared().account("free");
    let id = account.start(&addresses(1))["batch_id"].as_str().unwrap().to_owned();
    vec![
        account.call(verify(&mailbox())),
        account.call(verify_by_get(&mailbox(), "&detail=full")),
        account.call(fast(&mailbox())),
        account.call(verify("nobody")),
        account.call(batch(&addresses(1))),
        account.call(get(format!("/v1/verify/batch/{id}"))),
        account.call(get("/v1/account")),
        account.call(post("/v1/verify", &json!({}))),
        account.call(batch(&["nobody".into()])),
        account.call(batch(&addresses(101))),
        account.call(get("/v1/verify/batch/unknown")),
    ]
}

#[test]
fn every_answer_is_json_dated_and_no_store_and_has_only_its_own_headers() {
    let others = ["/livez", "/v1/nowhere", "/v1/account"].map(|path| shared().call(&get(path)));
    for answer in answers().into_iter().chain(others) {
        assert_eq!(answer.header("cache-control"), Some("no-store"), "{answer:?}");
        assert!(answer.header("date").is_some(), "{answer:?}");
        assert!(answer.header("content-type").unwrap().starts_with("application/json"), "{answer:?}");
        answer.json();
        assert_eq!(answer.header("idempotent-replayed"), None, "{answer:?}");
        let challenge = (answer.status == 401).then_some("Bearer realm=\"mailprobe\"");
        assert_eq!(answer.header("www-authenticate"), challenge, "{answer:?}");
    }
}

#[test]
fn every_answer_has_a_request_id_of_its_own() {
    let ids: Vec<String> =
        answers().iter().map(|answer| answer.header("x-request-id").unwrap().to_owned()).collect();
    let distinct: std::collections::BTreeSet<&String> = ids.iter().collect();
    assert_eq!(distinct.len(), ids.len());
    for call in [get("/v1/nowhere"), get("/v1/account"), get("/v1/openapi.json")] {
        assert!(shared().call(&call).header("x-request-id").is_some());
    }
}

#[test]
fn a_request_id_of_1_to_64_plain_characters_is_echoed() {
    for id in ["a", "A-1_b.c", &"x".repeat(64)] {
        for call in [get("/v1/account"), get("/v1/nowhere"), get("/v1/openapi.json")] {
            assert_eq!(shared().call(&call.header("X-Request-Id", id)).header("x-request-id"), Some(id));
        }
    }
}

#[test]
fn any_other_request_id_is_replaced() {
    for id in ["", "a b", "a@ok.example", "a/b", "a;b", "é", &"x".repeat(65)] {
        let answer = shared().call(&get("/v1/account").header("X-Request-Id", id));
        let made = answer.header("x-request-id").unwrap();
        let plain = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
        assert!(made != id && (1..=64).contains(&made.len()) && made.chars().all(plain), "{id:?} {made:?}");
    }
}
