//! `GET /v1/account`: each field in its table.

use crate::contract::shapes;
use crate::contract::world::{self, shared};
use crate::harness::client::get;
use serde_json::{Value, json};

#[test]
fn plan_plan_name_and_credits_total_of_the_default_plans() {
    let server = world::with_default_plans(&[]);
    for (plan, name, credits) in [
        ("free", "Free", 100),
        ("starter", "Starter", 5_000),
        ("growth", "Growth", 50_000),
        ("scale", "Scale", 500_000),
    ] {
        let account = server.account(plan).account();
        assert_eq!((&account["plan"], &account["plan_name"]), (&json!(plan), &json!(name)));
        assert_eq!(
            (&account["credits_total"], &account["credits_remaining"]),
            (&json!(credits), &json!(credits))
        );
        assert_eq!(account["status"], "active");
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
fn credits_remaining_is_what_is_left_of_the_plan_plus_pack_credits() {
    let account = shared().account("five");
    account.grant(7);
    account.verify(&crate::contract::world::mailbox());
    let shown = account.account();
    assert_eq!(shown["credits_remaining"], 4 + 7);
    assert_eq!(shown["credits_total"], 5);
    assert_eq!(shown["pack_credits"], 7);
}

#[test]
fn pack_credits_default_to_0() {
    let pack = shared().account("free").account()["pack_credits"].clone();
    assert!(pack.is_null() || pack == 0, "{pack}");
}

#[test]
fn period_end_is_a_month_after_the_start() {
    let account = shared().account("free");
    let text = account.account()["period_end"].as_str().unwrap().to_owned();
    shapes::timestamp(&text);
    let ahead = account.period_end() - shared_now();
    let day = 24 * 60 * 60 * 1000;
    assert!((27 * day..=31 * day).contains(&ahead), "{text}");
}

fn shared_now() -> u64 {
    let since = std::time::SystemTime::now().duration_since(std::time::SystemTime::UNIX_EPOCH).unwrap();
    since.as_millis().try_into().unwrap()
}

#[test]
fn period_end_is_null_on_a_plan_that_never_resets() {
    let account = shared().account("endless").account();
    assert_eq!(account["period_end"], Value::Null);
    assert_eq!(account["credits_remaining"], 100);
}

#[test]
fn cancel_at_period_end_is_shown() {
    let account = shared().account("free");
    let shown = account.account();
    assert!(shown["cancel_at_period_end"].is_null() || shown["cancel_at_period_end"] == false);
    account.server.administer(&["account", "set-status", &account.name, "canceled", "--at-period-end"]);
    let shown = account.account();
    assert_eq!((&shown["cancel_at_period_end"], &shown["status"]), (&json!(true), &json!("active")));
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
