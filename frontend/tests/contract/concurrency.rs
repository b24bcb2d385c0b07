//! Two simultaneous calls.

use crate::contract::accounts::{addresses, batch, verify};
use crate::contract::world::{address, contacts, mailbox, shared};
use serde_json::{Value, json};

#[test]
fn two_calls_for_one_address_at_once_make_one_probe_and_one_charge() {
    let account = shared().account("free");
    let asked = address("user", "at-once.example");
    let results: Vec<Value> = std::thread::scope(|scope| {
        let calls: Vec<_> = (0..4).map(|_| scope.spawn(|| account.verify(&asked))).collect();
        calls.into_iter().map(|call| call.join().unwrap()).collect()
    });
    let paid: Vec<&Value> = results.iter().filter(|result| result["cached"] == false).collect();
    assert_eq!(paid.len(), 1, "{results:?}");
    assert_eq!(paid[0]["credits_remaining"], 99);
    for result in &results {
        assert_eq!(result["reason"], "mailbox_exists");
        assert!(result["cached"] == false || result["credits_remaining"].is_null(), "{result}");
    }
    assert_eq!(account.credits(), 99);
    let (recipients, _) = contacts("at-once.example");
    assert!((1..=2).contains(&recipients), "the address and the control recipient, once: {recipients}");
}

#[test]
fn the_last_credit_is_spent_once() {
    let account = shared().account("none");
    account.grant(1);
    let statuses: Vec<u16> = std::thread::scope(|scope| {
        let calls: Vec<_> = (0..6).map(|_| scope.spawn(|| account.call(verify(&mailbox())).status)).collect();
        calls.into_iter().map(|call| call.join().unwrap()).collect()
    });
    assert_eq!(statuses.iter().filter(|&&status| status == 200).count(), 1, "{statuses:?}");
    assert_eq!(statuses.iter().filter(|&&status| status == 402).count(), 5, "{statuses:?}");
    assert_eq!(account.credits(), 0);
}

#[test]
fn one_idempotency_key_at_once_makes_one_batch() {
    let account = shared().account("free");
    let call = batch(&addresses(20)).header("Idempotency-Key", "at-once");
    let answers: Vec<_> = std::thread::scope(|scope| {
        let calls: Vec<_> = (0..6).map(|_| scope.spawn(|| account.call(call.clone()))).collect();
        calls.into_iter().map(|call| call.join().unwrap()).collect()
    });
    let mut first = None;
    let mut fresh = 0;
    for answer in &answers {
        if answer.status == 409 {
            answer.assert_refused(409, "idempotency_in_progress");
            continue;
        }
        let created = crate::contract::accounts::created(answer);
        fresh += usize::from(answer.header("idempotent-replayed").is_none());
        assert_eq!(*first.get_or_insert(created["batch_id"].clone()), created["batch_id"]);
    }
    assert_eq!(fresh, 1, "{answers:?}");
    assert_eq!(account.credits(), 80);
    assert_eq!(account.call(call).json()["credits_remaining"], json!(80));
}
