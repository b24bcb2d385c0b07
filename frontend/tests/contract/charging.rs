//! The table of charging rules, and the order in which credits are taken.

use crate::contract::accounts::{addresses, batch, created, fast, verify, verify_by_get};
use crate::contract::world::{address, domain, mailbox, shared};
use crate::harness::client::{get, post};
use serde_json::{Value, json};

#[test]
fn a_full_check_of_an_address_not_checked_in_the_last_24_hours_costs_1() {
    let account = shared().account("free");
    let result = account.verify(&mailbox());
    assert_eq!((&result["credits_remaining"], &result["cached"]), (&json!(99), &json!(false)));
    assert_eq!(account.credits(), 99);
    let result = account.call(verify_by_get(&mailbox(), "")).ok();
    assert_eq!((&result["credits_remaining"], &result["cached"]), (&json!(98), &json!(false)));
    assert_eq!(account.credits(), 98);
}

#[test]
fn every_reason_of_a_full_check_but_invalid_syntax_costs_1() {
    let account = shared().account("free");
    let own = domain();
    let asked = [
        mailbox(),
        format!("info@{own}"),
        address("user", "mailinator.com"),
        address("user", "trapped.example"),
        address("full", "ok.example"),
        address("gone", "ok.example"),
        address("user", "catchall.example"),
        address("nobody", "ok.example"),
        address("later", "ok.example"),
        address("user", "nxdomain.example"),
    ];
    for (asked, left) in asked.iter().zip((0..100u64).rev()) {
        assert_eq!(account.verify(asked)["credits_remaining"], left, "{asked}");
    }
    assert_eq!(account.credits(), 90);
}

#[test]
fn a_syntactically_invalid_address_costs_0() {
    let account = shared().account("free");
    for wrong in ["nobody", "a@b@ok.example", "@ok.example"] {
        let result = account.verify(wrong);
        assert_eq!(
            (&result["reason"], &result["credits_remaining"]),
            (&json!("invalid_syntax"), &Value::Null)
        );
    }
    assert_eq!(account.credits(), 100);
}

#[test]
fn a_repeat_of_the_same_address_costs_0() {
    let account = shared().account("free");
    let asked = mailbox();
    account.verify(&asked);
    for _ in 0..3 {
        let result = account.verify(&asked);
        assert_eq!((&result["cached"], &result["credits_remaining"]), (&json!(true), &Value::Null));
    }
    assert_eq!(account.credits(), 99);
}

#[test]
fn mode_fast_costs_0() {
    let account = shared().account("free");
    for asked in
        [mailbox(), address("user", "mailinator.com"), address("user", "nxdomain.example"), "x".into()]
    {
        assert_eq!(account.fast(&asked)["credits_remaining"], Value::Null);
    }
    assert_eq!(account.credits(), 100);
}

#[test]
fn get_account_costs_0() {
    let account = shared().account("free");
    for _ in 0..3 {
        assert_eq!(account.credits(), 100);
    }
}

#[test]
fn anything_done_with_a_test_key_costs_0() {
    let account = shared().account("free");
    let server = account.server;
    let calls = [
        verify("deliverable@ok.example"),
        verify_by_get("role@ok.example", "&detail=full"),
        fast("deliverable@ok.example"),
        batch(&["deliverable@ok.example".into(), "catch_all@ok.example".into()]),
        get("/v1/account"),
    ];
    for call in calls {
        let answer = server.call(&call.key(account.test()));
        assert!([200, 202].contains(&answer.status), "{answer:?}");
    }
    assert_eq!(account.credits(), 100);
}

#[test]
fn a_batch_costs_1_per_submitted_address_charged_up_front() {
    let account = shared().account("free");
    let emails: Vec<String> = (0..4).map(|_| address("user", "slow.example")).collect();
    let created = account.start(&emails);
    assert_eq!((&created["emails_submitted"], &created["credits_remaining"]), (&json!(4), &json!(96)));
    assert_eq!(account.credits(), 96, "charged before the first answer");
    account.finish(created["batch_id"].as_str().unwrap());
    assert_eq!(account.credits(), 96);
}

#[test]
fn catch_all_and_unverifiable_rows_of_a_batch_are_not_refunded() {
    let account = shared().account("free");
    let emails = [
        address("user", "catchall.example"),
        address("rené", "no-utf8.example"),
        address("user", "control-policy.example"),
    ];
    let done = account.run(&emails);
    let reasons: Vec<&str> =
        done["results"].as_array().unwrap().iter().map(|row| row["reason"].as_str().unwrap()).collect();
    assert_eq!(reasons, ["catch_all", "unverifiable", "unverifiable"]);
    assert_eq!(account.credits(), 97);
}

#[test]
fn every_row_of_a_batch_is_charged_also_a_duplicate_and_a_repeat() {
    let account = shared().account("free");
    let known = mailbox();
    account.verify(&known);
    let twice = mailbox();
    let created = account.start(&[twice.clone(), known, twice]);
    assert_eq!(created["credits_remaining"], 96);
    account.finish(created["batch_id"].as_str().unwrap());
    assert_eq!(account.credits(), 96);
}

#[test]
fn detail_full_comes_at_the_same_price() {
    let account = shared().account("free");
    let answer = account.call(post("/v1/verify", &json!({ "email": mailbox(), "detail": "full" }))).ok();
    assert_eq!(answer["credits_remaining"], 99);
    assert_eq!(account.credits(), 99);
}

#[test]
fn another_accounts_check_saves_nobody_a_credit() {
    let (one, other) = (shared().account("free"), shared().account("free"));
    let asked = mailbox();
    one.verify(&asked);
    let result = other.verify(&asked);
    assert_eq!((&result["cached"], &result["credits_remaining"]), (&json!(false), &json!(99)));
    assert_eq!(other.verify(&asked)["cached"], true, "now it is its own");
}

#[test]
fn plan_credits_are_taken_first_and_then_pack_credits() {
    let account = shared().account("five");
    account.grant(3);
    let balance = |(left, pack): (u64, u64)| {
        let shown = account.account();
        assert_eq!((&shown["credits_remaining"], &shown["pack_credits"]), (&json!(left), &json!(pack)));
        assert_eq!(shown["credits_total"], 5, "the plan's allowance alone");
    };
    balance((8, 3));
    created(&account.call(batch(&addresses(4))));
    balance((4, 3));
    account.verify(&mailbox());
    balance((3, 3));
    created(&account.call(batch(&addresses(2))));
    balance((1, 1));
    account.verify(&mailbox());
    balance((0, 0));
    account.call(verify(&mailbox())).assert_refused(402, "insufficient_credits");
}

#[test]
fn a_batch_may_take_from_both() {
    let account = shared().account("five");
    account.grant(3);
    assert_eq!(account.start(&addresses(6))["credits_remaining"], 2);
    assert_eq!(account.account()["pack_credits"], 2);
}
