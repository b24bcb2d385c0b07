//! An address that was checked before, or is being checked: the charges, and the questions to servers.

use crate::http::batches::{id, reasons, submit};
use crate::http::client::Answer;
use crate::http::clock::advance;
use crate::http::server::{Server, post};
use serde_json::{Value, json};
use std::time::Duration;

const DAY_MS: u64 = 24 * 3600 * 1000;

fn verify(server: &Server, key: &str, email: &str) -> Answer {
    server.post(key, "/v1/verify", &json!({ "email": email }).to_string())
}

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
fn a_repeat_is_free() {
    let server = Server::start(&[]);
    for (n, reason) in ["mailbox_exists", "catch_all", "unverifiable", "inbox_full"].into_iter().enumerate() {
        let email = format!("{reason}@example.com");
        check(&verify(&server, &server.live, &email), reason, Some(99 - n as u64), false);
        for same in [email.clone(), email.to_uppercase()] {
            let got = verify(&server, &server.live, &same);
            check(&got, reason, None, true);
            assert_eq!(got.json()["email"], same.as_str(), "told as submitted");
        }
        assert_eq!(server.asked(&email), 1);
    }
    let got = server.get(&server.live, "/v1/verify?email=catch_all%40example.com");
    check(&got, "catch_all", None, true);
    assert_eq!((server.credits(), server.ledger()), (96, (0, 4)));
}

#[test]
fn a_repeat_needs_neither_credits_nor_a_subscription_and_survives_a_kill() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("mailprobe.toml");
    std::fs::write(&file, "[[plan]]\nid = \"free\"\nname = \"Tiny\"\nmonthly_credits = 1\n").unwrap();
    let flags = ["--config", file.to_str().unwrap()];
    let server = Server::start_in(folder, &flags);
    check(&verify(&server, &server.live, "role_account@example.com"), "role_account", Some(0), false);
    let server = server.restart_after_kill(&flags);
    check(&verify(&server, &server.live, "role_account@example.com"), "role_account", None, true);
    server.administer(&["account", "set-status", "default", "paused"]);
    check(&verify(&server, &server.live, "role_account@example.com"), "role_account", None, true);
    assert_eq!(verify(&server, &server.live, "catch_all@example.com").status, 402);
    assert_eq!(server.asked("role_account@example.com"), 1);
}

#[test]
fn a_repeat_ends_after_a_day_and_the_verdict_after_its_time() {
    let server = Server::start(&["--test-clock"]);
    let (lasting, short) = ("mailbox_exists@example.com", "catch_all@example.com");
    let both = |credits: [Option<u64>; 2], cached| {
        check(&verify(&server, &server.live, lasting), "mailbox_exists", credits[0], cached);
        check(&verify(&server, &server.live, short), "catch_all", credits[1], cached);
        (server.asked(lasting), server.asked(short))
    };
    assert_eq!(both([Some(99), Some(98)], false), (1, 1));
    advance(&server, DAY_MS - 60_000);
    assert_eq!(both([None, None], true), (1, 1));
    advance(&server, 61_000);
    assert_eq!(both([Some(97), Some(96)], false), (1, 2), "the one verdict is still kept, the other is not");
    assert_eq!(both([None, None], true), (1, 2));
    advance(&server, 6 * DAY_MS);
    assert_eq!(both([Some(95), Some(94)], false), (2, 3), "a verdict is kept no longer for being used");
}

#[test]
fn another_account_pays_and_nobody_is_asked() {
    let server = Server::start(&[]);
    let stranger = server.stranger();
    check(&verify(&server, &server.live, "mailbox_exists@example.com"), "mailbox_exists", Some(99), false);
    check(&verify(&server, &stranger, "mailbox_exists@example.com"), "mailbox_exists", Some(99), false);
    check(&verify(&server, &stranger, "mailbox_exists@example.com"), "mailbox_exists", None, true);
    let got = submit(&server, &stranger, &["catch_all", "mailbox_exists"]);
    assert_eq!(got.json()["credits_remaining"], 97);
    reasons(&server, &stranger, &id(&got));
    check(&verify(&server, &server.live, "catch_all@example.com"), "catch_all", Some(98), false);
    server.administer(&["account", "set-status", "stranger", "paused"]);
    verify(&server, &server.live, "role_account@example.com");
    assert_eq!(verify(&server, &stranger, "role_account@example.com").error(), "subscription_inactive");
    for address in ["mailbox_exists@example.com", "catch_all@example.com", "role_account@example.com"] {
        assert_eq!(server.asked(address), 1, "{address}");
    }
}

#[test]
fn an_operator_can_turn_the_reuse_off() {
    let server = Server::start(&["--reuse-verdicts", "false"]);
    let stranger = server.stranger();
    check(&verify(&server, &server.live, "mailbox_exists@example.com"), "mailbox_exists", Some(99), false);
    check(&verify(&server, &stranger, "mailbox_exists@example.com"), "mailbox_exists", Some(99), false);
    assert_eq!(server.asked("mailbox_exists@example.com"), 2);
    check(&verify(&server, &stranger, "mailbox_exists@example.com"), "mailbox_exists", None, true);
    verify(&server, &server.live, "catch_all@example.com");
    reasons(&server, &stranger, &id(&submit(&server, &stranger, &["catch_all"])));
    assert_eq!(server.asked("catch_all@example.com"), 2);
}

#[test]
fn test_keys_have_no_repeats_and_make_none() {
    let server = Server::start(&[]);
    for _ in 0..2 {
        check(&verify(&server, &server.test, "mailbox_exists@example.com"), "mailbox_not_found", None, false);
    }
    submit(&server, &server.test, &["mailbox_exists"]);
    check(&verify(&server, &server.live, "mailbox_exists@example.com"), "mailbox_exists", Some(99), false);
    check(&verify(&server, &server.test, "mailbox_exists@example.com"), "mailbox_not_found", None, false);
}

#[test]
fn an_outage_is_no_result() {
    let server = Server::start(&[]);
    assert_eq!(verify(&server, &server.live, "down.1@example.com").status, 503);
    check(&verify(&server, &server.live, "down.1@example.com"), "mailbox_exists", Some(99), false);
    check(&verify(&server, &server.live, "down.1@example.com"), "mailbox_exists", None, true);
}

#[test]
fn rows_and_single_checks_repeat_each_other() {
    let server = Server::start(&[]);
    reasons(&server, &server.live, &id(&submit(&server, &server.live, &["catch_all", "mailbox_exists"])));
    check(&verify(&server, &server.live, "catch_all@example.com"), "catch_all", None, true);
    check(&verify(&server, &server.live, "role_account@example.com"), "role_account", Some(97), false);
    let got = submit(&server, &server.live, &["role_account", "Role_Account", "catch_all"]);
    assert_eq!((&got.json()["status"], &got.json()["credits_remaining"]), (&json!("processing"), &json!(94)));
    assert_eq!(reasons(&server, &server.live, &id(&got)), ["role_account", "role_account", "catch_all"]);
    assert_eq!(server.asked("role_account@example.com"), 1);
    assert_eq!(server.asked("catch_all@example.com"), 1);
    assert_eq!(server.ledger(), (0, 6), "every row is charged");
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
fn calls_at_once_are_one_probe_and_one_charge() {
    let server = Server::start(&["--frontends", "3"]);
    let answers = at_once(&server, &[server.live.as_str(); 12], "mailbox_exists-700@example.com");
    let told: Vec<_> = answers.iter().map(told).collect();
    let fresh = ("mailbox_exists".to_owned(), Some(99), false);
    let cached = ("mailbox_exists".to_owned(), None, true);
    assert_eq!(told.iter().filter(|told| **told == fresh).count(), 1, "{told:?}");
    assert_eq!(told.iter().filter(|told| **told == cached).count(), 11, "{told:?}");
    assert_eq!((server.asked("mailbox_exists-700@example.com"), server.ledger()), (1, (0, 1)));
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
