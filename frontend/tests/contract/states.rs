//! The life of a batch: its two states, and its visible data meanwhile.

use crate::contract::accounts::batch;
use crate::contract::world::{address, mailbox, shared};
use crate::harness::client::get;
use crate::until;
use serde_json::{Value, json};

#[test]
fn an_accepted_batch_is_processing_and_becomes_completed() {
    let account = shared().account("free");
    let emails: Vec<String> = (0..3).map(|_| address("user", "slow.example")).collect();
    let created = account.start(&emails);
    assert_eq!(created["status"], "processing");
    let id = created["batch_id"].as_str().unwrap();
    let status = account.poll(id);
    assert_eq!((&status["status"], &status["results"]), (&json!("processing"), &Value::Null));
    assert_eq!(status["total"], 3);
    let done = account.finish(id);
    assert_eq!((&done["progress"].as_f64(), &done["checked"]), (&Some(100.0), &json!(3)));
    assert_eq!(account.poll(id), done, "and stays so");
}

#[test]
fn checked_and_progress_rise_towards_the_total() {
    let account = shared().account("free");
    // Some addresses are known at once, and one takes longer.
    let mut emails: Vec<String> = (0..8).map(|_| address("nobody", "nxdomain.example")).collect();
    emails.push(address("user", "slow.example"));
    let created = account.start(&emails);
    let id = created["batch_id"].as_str().unwrap();
    let mut seen = (0, 0.0);
    until(|| {
        let status = account.poll(id);
        let now = (status["checked"].as_u64().unwrap(), status["progress"].as_f64().unwrap());
        assert!(now.0 >= seen.0 && now.1 >= seen.1, "{seen:?} {now:?}");
        seen = now;
        if status["status"] == "completed" {
            return Ok(());
        }
        assert!(now.0 < 9, "all are checked, so it is completed: {status}");
        Err(status.to_string())
    });
    assert_eq!(seen, (9, 100.0));
}

#[test]
fn an_unknown_id_is_not_found() {
    let account = shared().account("free");
    let known = account.start(&[mailbox()])["batch_id"].as_str().unwrap().to_owned();
    let mut wrong = known.clone();
    wrong.replace_range(10..11, if &known[10..11] == "a" { "b" } else { "a" });
    let (upper, long) = (known.to_uppercase(), "x".repeat(5_000));
    for id in [&wrong, &upper, &long, "bat_00000000000000000000000000", "nonsense", "1", "bat_", "%00"] {
        account.call(get(format!("/v1/verify/batch/{id}"))).assert_refused(404, "not_found");
    }
}

#[test]
fn another_accounts_batch_is_not_found() {
    let (owner, other) = (shared().account("free"), shared().account("free"));
    let created = owner.start(&[mailbox()]);
    let path = format!("/v1/verify/batch/{}", created["batch_id"].as_str().unwrap());
    let refused = other.call(get(&path));
    refused.assert_refused(404, "not_found");
    let unknown = other.call(get("/v1/verify/batch/bat_00000000000000000000000000"));
    assert_eq!(refused.body, unknown.body, "nothing tells that it exists");
    owner.finish(created["batch_id"].as_str().unwrap());
    other.call(get(&path)).assert_refused(404, "not_found");
}

#[test]
fn every_key_of_the_account_may_poll() {
    let account = shared().account("free");
    let created = account.start(&[mailbox()]);
    let path = format!("/v1/verify/batch/{}", created["batch_id"].as_str().unwrap());
    account.server.call(&get(&path).key(&account.another_key())).ok();
}

#[test]
fn polling_works_at_0_credits_and_on_paused_or_canceled_accounts() {
    let account = shared().account("none");
    account.grant(1);
    let created = account.start(&[address("user", "slow.example")]);
    let id = created["batch_id"].as_str().unwrap();
    assert_eq!(account.credits(), 0);
    // What is paid for is done.
    account.set_status("paused");
    account.finish(id);
    for status in ["paused", "canceled"] {
        account.set_status(status);
        assert_eq!(account.poll(id)["status"], "completed");
        account.call(batch(&[mailbox()])).assert_refused(402, "subscription_inactive");
    }
}

#[test]
fn batches_do_not_disturb_each_other() {
    let account = shared().account("free");
    let (one, two) = (mailbox(), address("nobody", "ok.example"));
    let (first, second) =
        (account.start(std::slice::from_ref(&one)), account.start(std::slice::from_ref(&two)));
    assert_ne!(first["batch_id"], second["batch_id"]);
    let rows = |created: &Value| account.finish(created["batch_id"].as_str().unwrap())["results"].clone();
    assert_eq!(rows(&first)[0]["email"], one);
    assert_eq!(rows(&second)[0]["email"], two);
}
