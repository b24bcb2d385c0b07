//! The table of other limits. `batch` tests addresses and names of batches, `idempotency` the `Idempotency-Key`, `time`
//! limits of several days, and `rate_limits` requests per minute.

use crate::contract::accounts::{verified, verify, verify_by_get};
use crate::contract::world::{self, mailbox, shared};
use crate::harness::client::post;
use serde_json::json;

#[test]
fn email_in_a_post_body_takes_up_to_320_characters() {
    let account = shared().account("free");
    for letter in ["a", "é", "\u{1f511}"] {
        assert_eq!(account.verify(&letter.repeat(320))["reason"], "invalid_syntax");
        account.call(verify(&letter.repeat(321))).assert_refused(400, "invalid_request");
        let body = json!({ "email": letter.repeat(321), "mode": "fast" });
        account.call(post("/v1/verify", &body)).assert_refused(400, "invalid_request");
    }
    assert_eq!(account.credits(), 100);
}

#[test]
fn email_in_a_query_longer_than_any_address_is_invalid_syntax() {
    let account = shared().account("free");
    for length in [320, 321, 10_000] {
        let email = format!("{}@ok.example", "a".repeat(length));
        let result = verified(&account.call(verify_by_get(&email, "")));
        assert_eq!((&result["reason"], &result["email"]), (&json!("invalid_syntax"), &json!(email)));
    }
    assert_eq!(account.credits(), 100);
}

#[test]
fn the_free_plan_has_100_full_verifications_per_month() {
    let server = world::with_default_plans(&[]);
    let account = server.account("free");
    // A disposable address costs a credit like any other, and its answer is known at once.
    let mut connection = server.connect();
    for left in (0..100u64).rev() {
        let call = verify(&crate::contract::world::address("user", "mailinator.com")).key(&account.live);
        assert_eq!(connection.call(&call).ok()["credits_remaining"], left);
    }
    account.call(verify(&mailbox())).assert_refused(402, "insufficient_credits");
}
