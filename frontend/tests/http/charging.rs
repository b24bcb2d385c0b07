//! Live keys: a credit is held, then settled or voided, whether or not the caller stays.

use crate::harness::client::Answer;
use crate::harness::server::{Server, post};
use crate::until;
use serde_json::json;
use std::time::{Duration, Instant};

fn verify(server: &Server, local: &str) -> Answer {
    server.verify(&server.live, &format!("{local}@example.com"))
}

/// Waits until the account has this number of credits.
fn await_credits(server: &Server, expected: u64) {
    until(|| match server.credits() {
        credits if credits == expected => Ok(()),
        credits => Err(format!("{credits} credits, not {expected}")),
    });
}

#[test]
fn an_outage_costs_nothing_and_takes_no_fair_use() {
    let limits = "[plan.limits]\nfair_use_per_second = 1\nfair_use_burst = 1\n";
    let plan = format!("[[plan]]\nid = \"free\"\nname = \"Free\"\nmonthly_credits = 100\n{limits}");
    let server = Server::start_with(&plan, &[]);
    for (local, expected) in [
        ("outage", "provider_unavailable"),
        ("stopping", "temporarily_unavailable"),
        ("full", "temporarily_unavailable"),
    ] {
        let got = verify(&server, local);
        assert_eq!((got.status, got.error().as_str()), (503, expected), "{local}");
        assert!(got.header("retry-after").unwrap().parse::<u32>().unwrap() > 0);
        assert_eq!(server.credits(), 100, "{local}");
    }
}

/// The engine takes at most 45 s, with two attempts and the pause between them.
#[test]
fn no_limit_of_time_cuts_the_longest_check_short() {
    let server = Server::start(&[]);
    let (first, second) = ("mailbox_exists-44900@example.com", "catch_all-44900@example.com");
    let began = Instant::now();
    let answers: Vec<(bool, Answer)> = std::thread::scope(|scope| {
        let ask = |email: &'static str, by_post: bool| {
            let server = &server;
            scope.spawn(move || {
                let body = json!({ "email": email, "detail": "full" }).to_string();
                let path = format!("/v1/verify?email={}", email.replace('@', "%40"));
                let answer = if by_post {
                    server.post(&server.live, "/v1/verify", &body)
                } else {
                    server.get(&server.live, &path)
                };
                (answer.json()["cached"] == true, answer)
            })
        };
        // The second check of each address waits for the first.
        let asked = [ask(first, true), ask(first, false), ask(second, false), ask(second, true)];
        asked.into_iter().map(|one| one.join().unwrap()).collect()
    });
    assert!(began.elapsed() >= Duration::from_millis(44_900), "{:?}", began.elapsed());
    let reasons = ["mailbox_exists", "mailbox_exists", "catch_all", "catch_all"];
    for ((_, answer), reason) in answers.iter().zip(reasons) {
        assert_eq!((answer.status, answer.json()["reason"].as_str()), (200, Some(reason)), "{answer:?}");
    }
    assert_eq!(answers.iter().filter(|(cached, _)| *cached).count(), 2);
    assert_eq!(server.ledger(), (0, 2));
}

#[test]
fn a_panic_costs_its_request_and_nothing_else() {
    let server = Server::start(&["--frontends", "1"]);
    let mut other = server.connect();
    other.send(post(&server.live, "/v1/verify", "{\"email\":\"mailbox_exists-300@example.com\"}"));
    await_credits(&server, 99);
    let got = verify(&server, "panic");
    got.assert_refused(500, "internal_error");
    assert_eq!(other.read().status, 200, "other requests of the thread go on");
    assert_eq!(server.credits(), 99);
    let log = server.log();
    assert!(
        log.contains("a panic: the current request fails") && !log.contains("as asked"),
        "the place is logged, not the message: {log}"
    );
}

#[test]
fn who_hangs_up_pays_for_what_was_asked_and_only_for_that() {
    let server = Server::start(&[]);
    for (local, left) in [("mailbox_exists-1000", 99), ("outage-1000", 99)] {
        let mut connection = server.connect();
        let body = json!({ "email": format!("{local}@example.com") }).to_string();
        connection.send(post(&server.live, "/v1/verify", &body));
        await_credits(&server, left - u64::from(local.starts_with("outage")));
        drop(connection);
        await_credits(&server, left);
    }
    std::thread::sleep(Duration::from_millis(1100));
    assert_eq!(server.credits(), 99);
    assert_eq!(server.ledger(), (0, 1), "no hold stays behind");
}

#[test]
fn checks_at_once_on_all_threads_are_each_charged_once() {
    let server = Server::start(&["--frontends", "3"]);
    std::thread::scope(|scope| {
        for thread in 0..8 {
            let server = &server;
            scope.spawn(move || {
                let mut connection = server.connect();
                for call in 0..10 {
                    let email = format!("mailbox_exists-5@d{thread}-{call}.example");
                    let body = json!({ "email": email }).to_string();
                    connection.send(post(&server.live, "/v1/verify", &body));
                    assert_eq!(connection.read().status, 200);
                }
            });
        }
    });
    assert_eq!(server.credits(), 20);
}
