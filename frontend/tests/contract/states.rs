//! The life of a batch: its two states, and its visible data meanwhile.

use crate::contract::accounts::batch;
use crate::contract::world::{address, mailbox, shared};
use crate::harness::client::get;
use crate::until;

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
