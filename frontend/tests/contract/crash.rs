//! Data that survives a kill: answers, charges, batches, replays and the counters of limits.

use crate::contract::accounts::{Account, addresses, batch, created, until_refused, verify};
use crate::contract::client::get;
use crate::contract::world::{Server, address, mailbox};
use crate::until_true;
use serde_json::json;
use std::time::Duration;

/// The account's keys, for the server after the kill.
struct Keys {
    name: String,
    live: String,
}

impl Keys {
    fn of(account: &Account<'_>) -> Keys {
        Keys { name: account.name.clone(), live: account.live.clone() }
    }

    fn on(self, server: &Server) -> Account<'_> {
        Account::known(server, self.name, self.live)
    }
}

#[test]
fn an_answer_once_given_is_durable() {
    let server = Server::start(&[]);
    let account = server.account("free");
    let asked = mailbox();
    account.verify(&asked);
    let keys = Keys::of(&account);
    let server = server.restart_after_kill();
    let account = keys.on(&server);
    assert_eq!(account.credits(), 99, "its charge stands");
    let repeat = account.verify(&asked);
    assert_eq!((&repeat["cached"], &repeat["reason"]), (&json!(true), &json!("mailbox_exists")));
}

#[test]
fn a_charge_without_an_answer_is_refunded_at_start() {
    let server = Server::start(&[]);
    let account = server.account("free");
    let asked = address("user", "very-slow.example");
    let mut connection = server.connect();
    connection.send(&verify(&asked).key(&account.live));
    until_true("it is charged", || account.credits() == 99);
    let keys = Keys::of(&account);
    let server = server.restart_after_kill();
    let account = keys.on(&server);
    assert_eq!(account.credits(), 100);
}

#[test]
fn a_batch_goes_on_and_is_charged_once() {
    let server = Server::start(&[]);
    let account = server.account("free");
    let mut emails = addresses(3);
    emails.extend((0..2).map(|_| address("user", "slow.example")));
    let call = batch(&emails).header("Idempotency-Key", "k");
    let first = account.call(call.clone());
    let id = created(&first)["batch_id"].as_str().unwrap().to_owned();
    let keys = Keys::of(&account);
    let server = server.restart_after_kill();
    let account = keys.on(&server);
    let replay = account.call(call);
    assert_eq!((replay.header("idempotent-replayed"), replay.json()), (Some("true"), first.json()));
    let done = account.finish(&id);
    for (email, row) in emails.iter().zip(done["results"].as_array().unwrap()) {
        assert_eq!((&row["email"], &row["reason"]), (&json!(email), &json!("mailbox_exists")));
    }
    assert_eq!(account.credits(), 95);
    let keys = Keys::of(&account);
    let server = server.restart_after_kill();
    assert_eq!(keys.on(&server).poll(&id), done, "and a completed one stays as it was");
}

#[test]
fn a_restart_grants_no_second_burst() {
    let server = Server::with_default_plans(&[]);
    let account = server.account("free");
    let call = get("/v1/account").key(&account.live);
    assert_eq!(until_refused(&mut server.connect(), &call, 301).0, 300);
    // Counters are written at least each second.
    std::thread::sleep(Duration::from_millis(1_500));
    let server = server.restart_after_kill();
    let answer = server.call(&call);
    answer.assert_refused(429, "rate_limited");
}
