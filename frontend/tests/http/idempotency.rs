//! `Idempotency-Key`: a repeated request has one effect.

use crate::http::batches::{body, id, poll, reasons, submit};
use crate::http::client::Answer;
use crate::http::clock::advance;
use crate::http::server::{Server, post_with};
use serde_json::json;
use std::collections::HashSet;

const DAY_MS: u64 = 24 * 3600 * 1000;

fn send(server: &Server, api_key: &str, key: &str, body: &str) -> Answer {
    server.send(request(api_key, key, body))
}

fn request(api_key: &str, key: &str, body: &str) -> String {
    post_with(api_key, "/v1/verify/batch", &format!("Idempotency-Key: {key}\r\n"), body)
}

fn is_replay_of(again: &Answer, first: &Answer) -> bool {
    assert_eq!((again.status, &again.body), (202, &first.body));
    again.header("idempotent-replayed") == Some("true")
}

#[test]
fn a_request_that_comes_twice_happens_once() {
    let server = Server::start(&[]);
    let first = send(&server, &server.live, "order 66", &body(&["mailbox_exists", "catch_all"]));
    assert_eq!(first.header("idempotent-replayed"), None);
    assert_eq!(first.json()["credits_remaining"], 98);
    let id = id(&first);
    reasons(&server, &server.live, &id);
    submit(&server, &server.live, &["role_account"]);
    // The bodies are equal as JSON, but not as bytes. The balance and the batch have changed, the answer has not.
    let same = "{ \"emails\": [\"mailbox_exists\\u0040example.com\",\n\"catch_all@example.com\"] }";
    for _ in 0..3 {
        assert!(is_replay_of(&send(&server, &server.live, "order 66", same), &first));
    }
    assert_eq!((server.credits(), poll(&server, &server.live, &id)["total"].as_u64()), (97, Some(2)));
}

#[test]
fn another_body_is_refused_and_another_key_is_another_request() {
    let server = Server::start(&[]);
    let first = send(&server, &server.live, "k", &body(&["a", "b"]));
    for other in [
        body(&["b", "a"]),
        body(&["a"]),
        json!({ "emails": ["a@example.com", "b@example.com"], "name": null }).to_string(),
    ] {
        let got = send(&server, &server.live, "k", &other);
        assert_eq!((got.status, got.error().as_str()), (422, "idempotency_key_reused"), "{other}");
    }
    assert_eq!(
        send(&server, &server.live, "k", &body(&["a b"])).error(),
        "invalid_emails",
        "400 comes before 422"
    );
    let second = send(&server, &server.live, "K", &body(&["a", "b"]));
    assert_ne!(id(&first), id(&second));
    assert_eq!(server.credits(), 96);
    let stranger = server.stranger();
    let third = send(&server, &stranger, "k", &body(&["a"]));
    assert_ne!(id(&third), id(&first), "a key is its account's");
}

#[test]
fn only_what_was_accepted_is_remembered() {
    let server = Server::start(&[]);
    let many: Vec<String> = (0..101).map(|n| format!("a{n}")).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    assert_eq!(send(&server, &server.live, "k", &body(&["a b"])).status, 400);
    assert_eq!(send(&server, &server.live, "k", &body(&many)).status, 402);
    server.administer(&["account", "set-status", "default", "paused"]);
    assert_eq!(send(&server, &server.live, "k", &body(&["a"])).status, 402);
    server.administer(&["account", "set-status", "default", "active"]);
    let first = send(&server, &server.live, "k", &body(&many[..100]));
    assert_eq!((first.status, server.credits()), (202, 0));
    // A replay precedes 402.
    assert!(is_replay_of(&send(&server, &server.live, "k", &body(&many[..100])), &first));
    server.administer(&["account", "set-status", "default", "canceled"]);
    assert!(is_replay_of(&send(&server, &server.live, "k", &body(&many[..100])), &first));
    assert_eq!(send(&server, &server.live, "k", &body(&["a"])).status, 422);
}

#[test]
fn replays_survive_a_kill() {
    let server = Server::start(&[]);
    let live = send(&server, &server.live, "k", &body(&["mailbox_exists-400", "a"]));
    let test = send(&server, &server.test, "t", &body(&["role", "a"]));
    let server = server.restart_after_kill(&[]);
    assert!(is_replay_of(&send(&server, &server.live, "k", &body(&["mailbox_exists-400", "a"])), &live));
    assert!(is_replay_of(&send(&server, &server.test, "t", &body(&["role", "a"])), &test));
    assert_eq!(send(&server, &server.live, "k", &body(&["a"])).status, 422);
    reasons(&server, &server.live, &id(&live));
    let server = server.restart_after_kill(&[]);
    assert!(is_replay_of(&send(&server, &server.live, "k", &body(&["mailbox_exists-400", "a"])), &live));
    assert_eq!(server.ledger(), (0, 2));
}

#[test]
fn a_key_is_forgotten_after_a_day() {
    let server = Server::start(&["--test-clock"]);
    let first = send(&server, &server.live, "k", &body(&["mailbox_exists"]));
    advance(&server, DAY_MS - 60_000);
    assert!(is_replay_of(&send(&server, &server.live, "k", &body(&["mailbox_exists"])), &first));
    advance(&server, 61_000);
    let second = send(&server, &server.live, "k", &body(&["catch_all"]));
    assert_eq!((second.status, second.header("idempotent-replayed")), (202, None));
    assert_ne!(id(&second), id(&first));
}

#[test]
fn requests_at_once_make_one_batch() {
    let server = Server::start(&["--frontends", "3"]);
    server.administer(&["account", "set-limits", "default", "--batch", "1000"]);
    for round in 0..10 {
        let key = format!("key-{round}");
        let answers: Vec<Answer> = std::thread::scope(|scope| {
            let send = || send(&server, &server.live, &key, &body(&["catch_all", "mailbox_exists"]));
            let threads: Vec<_> = (0..6).map(|_| scope.spawn(send)).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        let (made, busy): (Vec<&Answer>, Vec<&Answer>) = answers.iter().partition(|got| got.status == 202);
        for got in busy {
            assert_eq!((got.status, got.error().as_str()), (409, "idempotency_in_progress"));
            assert_eq!(got.header("retry-after"), Some("1"));
        }
        let ids: HashSet<String> = made.iter().map(|got| id(got)).collect();
        let new = made.iter().filter(|got| got.header("idempotent-replayed").is_none()).count();
        assert_eq!((ids.len(), new), (1, 1));
        assert!(send(&server, &server.live, &key, &body(&["catch_all", "mailbox_exists"])).status == 202);
    }
    assert_eq!(server.credits(), 80);
}
