//! `Idempotency-Key`. `time` tests its expiry after 24 hours, and `crash` a restart.

use crate::contract::accounts::{Account, addresses, batch, created, verify};
use crate::contract::world::shared;
use crate::harness::client::{Answer, Call, post};
use serde_json::json;

const KEY: &str = "Idempotency-Key";

#[track_caller]
fn assert_replay(again: &Answer, first: &Answer) {
    assert_eq!(again.header("idempotent-replayed"), Some("true"), "{again:?}");
    assert_eq!((again.status, &again.body), (202, &first.body));
}

fn first(account: &Account<'_>, call: &Call) -> Answer {
    let answer = account.call(call.clone());
    created(&answer);
    assert_eq!(answer.header("idempotent-replayed"), None);
    answer
}

#[test]
fn the_same_key_with_the_same_body_gives_the_first_response_again() {
    let account = shared().account("free");
    let call = batch(&addresses(2)).header(KEY, "once");
    let made = first(&account, &call);
    account.verify(&crate::contract::world::mailbox());
    for _ in 0..2 {
        assert_replay(&account.call(call.clone()), &made);
    }
    assert_eq!(account.credits(), 97, "charged once");
}

#[test]
fn the_same_key_with_another_body_is_refused() {
    let account = shared().account("free");
    let emails = addresses(2);
    let made = first(&account, &batch(&emails).header(KEY, "k"));
    let reversed: Vec<String> = emails.iter().rev().cloned().collect();
    for body in [
        json!({ "emails": addresses(2) }),
        json!({ "emails": emails[..1] }),
        json!({ "emails": reversed }),
        json!({ "emails": emails, "name": "other" }),
        json!({ "emails": emails, "name": null }),
    ] {
        let answer = account.call(post("/v1/verify/batch", &body).header(KEY, "k"));
        answer.assert_refused(422, "idempotency_key_reused");
    }
    assert_eq!(account.credits(), 98);
    assert_replay(&account.call(batch(&emails).header(KEY, "k")), &made);
}

#[test]
fn other_keys_and_no_key_make_other_batches() {
    let account = shared().account("free");
    let call = batch(&addresses(1));
    let ids: Vec<_> = [Some("a"), Some("b"), Some("A"), None, None]
        .iter()
        .map(|key| {
            let call = key.map_or(call.clone(), |key| call.clone().header(KEY, key));
            first(&account, &call).json()["batch_id"].as_str().unwrap().to_owned()
        })
        .collect();
    let distinct: std::collections::BTreeSet<&String> = ids.iter().collect();
    assert_eq!(distinct.len(), 5);
    assert_eq!(account.credits(), 95);
}

#[test]
fn keys_are_scoped_to_the_account() {
    let (one, other) = (shared().account("free"), shared().account("free"));
    let emails = addresses(1);
    first(&one, &batch(&emails).header(KEY, "mine"));
    first(&other, &batch(&addresses(2)).header(KEY, "mine"));
    let key = one.another_key();
    let again = one.server.call(&batch(&emails).header(KEY, "mine").key(&key));
    assert_eq!(again.header("idempotent-replayed"), Some("true"), "and not to the API key");
}

#[test]
fn after_a_refusal_the_same_key_may_be_used_again() {
    let account = shared().account("five");
    let wrong = batch(&["nobody".to_owned()]).header(KEY, "k");
    account.call(wrong).assert_refused(400, "invalid_emails");
    let many = batch(&addresses(6)).header(KEY, "k");
    account.call(many.clone()).assert_refused(402, "insufficient_credits");
    first(&account, &batch(&addresses(1)).header(KEY, "k"));
    account.call(many).assert_refused(422, "idempotency_key_reused");
}

#[test]
fn a_replay_is_answered_without_credits_and_without_a_subscription() {
    let account = shared().account("none");
    account.grant(2);
    let call = batch(&addresses(2)).header(KEY, "k");
    let made = first(&account, &call);
    assert_eq!(account.credits(), 0);
    assert_replay(&account.call(call.clone()), &made);
    for status in ["canceled", "paused"] {
        account.set_status(status);
        assert_replay(&account.call(call.clone()), &made);
    }
    account.call(batch(&addresses(2)).header(KEY, "other")).assert_refused(402, "subscription_inactive");
}

#[test]
fn other_endpoints_take_no_notice() {
    let account = shared().account("free");
    let call = |email: &str| verify(email).header(KEY, "k");
    for left in [99, 98] {
        let result = account.call(call(&crate::contract::world::mailbox())).ok();
        assert_eq!(result["credits_remaining"], left);
    }
}
