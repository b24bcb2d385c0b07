//! `POST /v1/verify/batch`: requests that are refused, and the results.

use crate::contract::accounts::{addresses, batch, created};
use crate::contract::world::{address, contacts, domain, mailbox, shared};
use crate::harness::client::{get, post};
use serde_json::{Value, json};

#[test]
fn two_hundred_addresses_are_all_answered() {
    let account = shared().account("roomy");
    let emails: Vec<String> =
        (0..200).map(|n| address(if n % 2 == 0 { "user" } else { "nobody" }, "ok.example")).collect();
    let done = account.run(&emails);
    assert_eq!(done["total"], 200);
    for (email, row) in emails.iter().zip(done["results"].as_array().unwrap()) {
        assert_eq!(row["email"], *email, "in the order of the request");
        assert_eq!(row["deliverable"], email.starts_with("user"));
    }
}

#[test]
fn one_invalid_address_rejects_the_whole_batch_and_nothing_is_charged() {
    let account = shared().account("free");
    let domain = domain();
    let emails = [address("user", &domain), "nobody".into(), address("user", &domain)];
    let answer = account.call(batch(&emails));
    answer.assert_refused(400, "invalid_emails");
    assert_eq!(answer.json()["invalid"], json!([{ "index": 1, "email": "nobody" }]));
    assert_eq!(answer.json()["invalid_count"], 1);
    assert_eq!(account.credits(), 100);
    assert_eq!(contacts(&domain), (0, 0), "nobody was asked");
}

#[test]
fn up_to_10_offenders_are_listed() {
    let account = shared().account("free");
    for (count, listed) in [(10, 10), (11, 10), (50, 10)] {
        let mut emails = addresses(3);
        emails.extend((0..count).map(|n| format!("wrong-{n}")));
        let answer = account.call(batch(&emails));
        answer.assert_refused(400, "invalid_emails");
        let body = answer.json();
        let offenders = body["invalid"].as_array().unwrap();
        assert_eq!((offenders.len(), &body["invalid_count"]), (listed, &json!(count)));
        assert_eq!(offenders[0], json!({ "index": 3, "email": "wrong-0" }));
    }
    assert_eq!(account.credits(), 100);
}

#[test]
fn an_empty_or_endless_address_is_an_offender() {
    let account = shared().account("free");
    for wrong in [String::new(), " ".into(), format!("{}@ok.example", "a".repeat(400))] {
        account.call(batch(&[mailbox(), wrong])).assert_refused(400, "invalid_emails");
    }
    assert_eq!(account.credits(), 100);
}

#[test]
fn every_reason_of_a_full_check_comes_in_the_rows() {
    let account = shared().account("free");
    let own = domain();
    let rows = [
        (mailbox(), true, "mailbox_exists"),
        (format!("info@{own}"), true, "role_account"),
        (address("user", "mailinator.com"), false, "disposable"),
        (address("user", "trapped.example"), false, "spamtrap"),
        (address("full", "ok.example"), false, "inbox_full"),
        (address("gone", "ok.example"), false, "mailbox_disabled"),
        (address("user", "catchall.example"), false, "catch_all"),
        (address("nobody", "ok.example"), false, "mailbox_not_found"),
        (address("user", "nxdomain.example"), false, "mailbox_not_found"),
        (address("rené", "no-utf8.example"), false, "unverifiable"),
    ];
    let emails: Vec<String> = rows.iter().map(|(email, ..)| email.clone()).collect();
    let expected: Vec<Value> = rows
        .iter()
        .map(|(email, deliverable, reason)| json!({ "email": email, "deliverable": deliverable, "reason": reason }))
        .collect();
    assert_eq!(account.run(&emails)["results"], json!(expected));
    assert_eq!(account.credits(), 90, "each row is charged, also an unverifiable one");
}

#[test]
fn a_row_checked_in_the_last_24_hours_is_answered_from_the_stored_result() {
    let account = shared().account("free");
    let domain = domain();
    let asked = address("user", &domain);
    account.verify(&asked);
    let before = contacts(&domain);
    let done = account.run(std::slice::from_ref(&asked));
    assert_eq!(done["results"][0]["reason"], "mailbox_exists");
    assert_eq!(contacts(&domain), before, "nobody was asked");
    assert_eq!(account.credits(), 98, "and the row was charged");
}

#[test]
fn a_test_keys_batch_is_completed_at_once() {
    let account = shared().account("free");
    let emails: Vec<String> =
        ["deliverable@any.example", "role+tag@any.example", "inbox_full@any.example", "anybody@any.example"]
            .map(Into::into)
            .to_vec();
    let answer = account.server.call(&batch(&emails).key(account.test()));
    let made = created(&answer);
    assert_eq!(made["status"], "completed");
    assert_eq!(made["credits_remaining"], Value::Null, "nothing was charged");
    let id = made["batch_id"].as_str().unwrap();
    let status = account.server.call(&get(format!("/v1/verify/batch/{id}")).key(account.test())).ok();
    assert_eq!(status["status"], "completed");
    assert_eq!(account.poll(id), status, "a batch is its account's, whichever key asks");
    let reasons: Vec<&Value> =
        status["results"].as_array().unwrap().iter().map(|row| &row["reason"]).collect();
    assert_eq!(reasons, ["mailbox_exists", "role_account", "inbox_full", "mailbox_not_found"]);
    assert_eq!(account.credits(), 100);
}

#[test]
fn a_test_keys_batch_is_as_strict() {
    let account = shared().account("free");
    let call = |body: &Value| account.server.call(&post("/v1/verify/batch", body).key(account.test()));
    call(&json!({ "emails": ["nobody"] })).assert_refused(400, "invalid_emails");
    call(&json!({ "emails": [] })).assert_refused(400, "invalid_request");
    call(&json!({ "emails": addresses(201) })).assert_refused(400, "invalid_request");
}
