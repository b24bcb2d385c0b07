//! Data that survives a kill: answers, charges, batches and replays. `rate_limits` tests the counters of limits.

use crate::contract::accounts::{Account, addresses, batch, created, verify};
use crate::contract::world::{self, address, mailbox};
use crate::harness::client::Answer;
use crate::harness::server::Server;
use crate::until_true;
use serde_json::json;

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
    let server = world::start(&[]);
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
    let server = world::start(&[]);
    let account = server.account("free");
    let asked = address("user", "very-slow.example");
    let mut connection = server.connect();
    connection.send(verify(&asked).key(&account.live).encode());
    until_true("it is charged", || account.credits() == 99);
    let keys = Keys::of(&account);
    let server = server.restart_after_kill();
    let account = keys.on(&server);
    assert_eq!(account.credits(), 100);
}

#[test]
fn a_batch_goes_on_and_is_charged_once() {
    let server = world::start(&[]);
    let account = server.account("free");
    let mut emails = addresses(3);
    emails.extend((0..2).map(|_| address("user", "slow.example")));
    let call = batch(&emails).header("Idempotency-Key", "k");
    let first = account.call(call.clone());
    let id = created(&first)["batch_id"].as_str().unwrap().to_owned();
    let test = batch(&["role@ok.example".into()]).header("Idempotency-Key", "t").key(&server.test);
    let first_of_test = server.call(&test);
    let keys = Keys::of(&account);
    let server = server.restart_after_kill();
    let account = keys.on(&server);
    let assert_replay = |again: Answer, first: &Answer| {
        assert_eq!((again.header("idempotent-replayed"), &again.body), (Some("true"), &first.body));
    };
    assert_replay(account.call(call.clone()), &first);
    assert_replay(server.call(&test), &first_of_test);
    let other = batch(&addresses(1)).header("Idempotency-Key", "k");
    account.call(other).assert_refused(422, "idempotency_key_reused");
    let done = account.finish(&id);
    for (email, row) in emails.iter().zip(done["results"].as_array().unwrap()) {
        assert_eq!((&row["email"], &row["reason"]), (&json!(email), &json!("mailbox_exists")));
    }
    assert_eq!(account.credits(), 95);
    let keys = Keys::of(&account);
    let server = server.restart_after_kill();
    let account = keys.on(&server);
    assert_eq!(account.poll(&id), done, "and a completed one stays as it was");
    assert_replay(account.call(call), &first);
}
