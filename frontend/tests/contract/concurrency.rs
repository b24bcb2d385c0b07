//! Two simultaneous calls.

use crate::at_once;
use crate::contract::accounts::{addresses, batch, created, verify};
use crate::contract::world::{address, contacts, mailbox, shared};
use serde_json::Value;
use std::collections::BTreeSet;

#[test]
fn two_calls_for_one_address_at_once_make_one_probe_and_one_charge() {
    let account = shared().account("free");
    let asked = address("user", "at-once.example");
    let results = at_once(12, |_| account.verify(&asked));
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
    let statuses = at_once(6, |_| account.call(verify(&mailbox())).status);
    assert_eq!(statuses.iter().filter(|&&status| status == 200).count(), 1, "{statuses:?}");
    assert_eq!(statuses.iter().filter(|&&status| status == 402).count(), 5, "{statuses:?}");
    assert_eq!(account.credits(), 0);
}

#[test]
fn one_idempotency_key_at_once_makes_one_batch() {
    let account = shared().account("free");
    for round in 0..10 {
        let call = batch(&addresses(2)).header("Idempotency-Key", &format!("round {round}"));
        let answers = at_once(6, |_| account.call(call.clone()));
        let (made, busy): (Vec<_>, Vec<_>) = answers.iter().partition(|answer| answer.status == 202);
        for answer in busy {
            answer.assert_refused(409, "idempotency_in_progress");
            assert_eq!(answer.header("retry-after"), Some("1"));
        }
        let fresh = made.iter().filter(|answer| answer.header("idempotent-replayed").is_none()).count();
        assert_eq!(fresh, 1, "{answers:?}");
        let ids: BTreeSet<String> = made.iter().map(|made| created(made)["batch_id"].to_string()).collect();
        assert_eq!(ids.len(), 1, "{answers:?}");
        assert_eq!(account.call(call).status, 202);
    }
    assert_eq!(account.credits(), 80);
}
