//! An address that was checked before, or is being checked: the charges, and the questions to servers.

use crate::harness::client::Answer;
use crate::harness::server::{Server, post};
use crate::http::batches::{id, reasons, submit};
use serde_json::{Value, json};
use std::time::Duration;

/// The reason, the credits and the field `cached` of an answer that must be 200.
fn told(answer: &Answer) -> (String, Option<u64>, bool) {
    assert_eq!(answer.status, 200, "{answer:?}");
    let body: Value = answer.json();
    let reason = body["reason"].as_str().unwrap().to_owned();
    (reason, body["credits_remaining"].as_u64(), body["cached"].as_bool().unwrap())
}

fn check(answer: &Answer, reason: &str, credits: Option<u64>, cached: bool) {
    assert_eq!(told(answer), (reason.to_owned(), credits, cached));
}

#[test]
fn an_operator_can_turn_the_reuse_off() {
    let server = Server::start(&["--reuse-verdicts", "false"]);
    let stranger = server.stranger();
    check(&server.verify(&server.live, "mailbox_exists@example.com"), "mailbox_exists", Some(99), false);
    check(&server.verify(&stranger, "mailbox_exists@example.com"), "mailbox_exists", Some(99), false);
    assert_eq!(server.asked("mailbox_exists@example.com"), 2);
    check(&server.verify(&stranger, "mailbox_exists@example.com"), "mailbox_exists", None, true);
    server.verify(&server.live, "catch_all@example.com");
    reasons(&server, &stranger, &id(&submit(&server, &stranger, &["catch_all"])));
    assert_eq!(server.asked("catch_all@example.com"), 2);
}

#[test]
fn an_outage_is_no_result() {
    let server = Server::start(&[]);
    assert_eq!(server.verify(&server.live, "down.1@example.com").status, 503);
    check(&server.verify(&server.live, "down.1@example.com"), "mailbox_exists", Some(99), false);
    check(&server.verify(&server.live, "down.1@example.com"), "mailbox_exists", None, true);
}

/// Sends requests at the same time over separate connections.
fn at_once(server: &Server, keys: &[&str], email: &str) -> Vec<Answer> {
    let mut connections: Vec<_> = keys.iter().map(|_| server.connect()).collect();
    for (connection, key) in connections.iter_mut().zip(keys) {
        connection.send(post(key, "/v1/verify", &json!({ "email": email }).to_string()));
    }
    connections.iter_mut().map(|connection| connection.read()).collect()
}

#[test]
fn calls_of_two_accounts_do_not_wait_for_each_other() {
    let server = Server::start(&["--frontends", "2"]);
    let stranger = server.stranger();
    let answers = at_once(&server, &[&server.live, &stranger], "catch_all-300@example.com");
    for answer in &answers {
        check(answer, "catch_all", Some(99), false);
    }
    assert_eq!(server.asked("catch_all-300@example.com"), 2);
}

#[test]
fn who_waits_is_refused_as_the_first_was() {
    let server = Server::start(&["--frontends", "3"]);
    for (local, status) in [("outage-700", 503), ("stopping-700", 503)] {
        let answers = at_once(&server, &[server.live.as_str(); 6], &format!("{local}@example.com"));
        for got in &answers {
            assert_eq!(got.status, status);
            assert!(got.header("retry-after").is_some());
        }
        assert_eq!(server.asked(&format!("{local}@example.com")), 1, "{local}");
    }
    assert_eq!((server.credits(), server.ledger()), (100, (0, 0)));
}

#[test]
fn who_waits_gets_the_answer_though_the_first_has_hung_up() {
    let server = Server::start(&["--frontends", "2"]);
    let body = json!({ "email": "mailbox_exists-900@example.com" }).to_string();
    let mut first = server.connect();
    first.send(post(&server.live, "/v1/verify", &body));
    while server.asked("mailbox_exists-900@example.com") == 0 {
        std::thread::sleep(Duration::from_millis(5));
    }
    let mut second = server.connect();
    second.send(post(&server.live, "/v1/verify", &body));
    std::thread::sleep(Duration::from_millis(100));
    drop(first);
    check(&second.read(), "mailbox_exists", None, true);
    assert_eq!((server.asked("mailbox_exists-900@example.com"), server.ledger()), (1, (0, 1)));
}
