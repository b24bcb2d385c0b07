//! The table of charging rules, and the order in which credits are taken.

use crate::contract::accounts::{addresses, batch, created, fast, verify, verify_by_get};
use crate::contract::world::{self, address, domain, mailbox, shared};
use crate::harness::client::get;
use serde_json::json;

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
fn the_free_plan_has_100_full_checks_per_month() {
    let server = world::with_default_plans(&[]);
    let account = server.account("free");
    // A disposable address costs a credit like any other, and its answer is known at once.
    let mut connection = server.connect();
    for left in (0..100u64).rev() {
        let call = verify(&address("user", "mailinator.com")).key(&account.live);
        assert_eq!(connection.call(&call).ok()["credits_remaining"], left);
    }
    account.call(verify(&mailbox())).assert_refused(402, "insufficient_credits");
}
