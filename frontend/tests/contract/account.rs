//! `GET /v1/account`: each field in its table.

use crate::contract::accounts::addresses;
use crate::contract::world::{self, shared};
use crate::harness::client::get;
use serde_json::json;

#[test]
fn the_default_plans_have_their_names_and_credits_and_include_batches() {
    let server = world::with_default_plans(&[]);
    for (plan, name, credits) in [
        ("free", "Free", 100),
        ("starter", "Starter", 5_000),
        ("growth", "Growth", 50_000),
        ("scale", "Scale", 500_000),
    ] {
        let created = server.account(plan);
        let account = created.account();
        assert_eq!((&account["plan"], &account["plan_name"]), (&json!(plan), &json!(name)));
        assert_eq!(
            (&account["credits_total"], &account["credits_remaining"]),
            (&json!(credits), &json!(credits))
        );
        assert_eq!((&account["status"], &account["pack_credits"]), (&json!("active"), &json!(0)));
        created.start(&addresses(1));
    }
}

#[test]
fn status_is_one_of_four() {
    let account = shared().account("free");
    assert_eq!(account.account()["status"], "active");
    for status in ["past_due", "paused", "canceled", "active"] {
        account.set_status(status);
        assert_eq!(account.account()["status"], status);
    }
}

#[test]
fn every_key_of_the_account_sees_the_same() {
    let account = shared().account("free");
    account.verify(&crate::contract::world::mailbox());
    let shown = account.account();
    for key in [&account.test().to_owned(), &account.another_key()] {
        assert_eq!(account.server.call(&get("/v1/account").key(key)).ok(), shown);
    }
}

#[test]
fn the_balance_is_the_accounts_own() {
    let (one, other) = (shared().account("free"), shared().account("free"));
    one.verify(&crate::contract::world::mailbox());
    assert_eq!((one.credits(), other.credits()), (99, 100));
}
