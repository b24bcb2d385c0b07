//! A server that delays every reply of a session after some refusals.

use crate::support::{self, engine, world};
use engine::config::Pace;
use engine::proto::limits::SESSION_IDLE;
use engine::proto::verdict::Reason;
use engine::{Client, Priority};
use std::time::{Duration, Instant};

/// After ten refusals in a session, Postfix waits a second before each reply.
const WORLD: &str = r#"
[[domain]]
name = "slow.example"
server = { personality = "postfix" }
mailboxes.ok = ["user-#"]
"#;

/// The number of checks. Every second address does not exist.
const CHECKS: u64 = 90;

fn ask(client: &Client, number: u64) -> Duration {
    let exists = number.is_multiple_of(2);
    let local = if exists { "user" } else { "gone" };
    let asked = Instant::now();
    let answer = support::ask(client, &format!("{local}-{number}@slow.example"), Priority::Single);
    let expected = if exists { Reason::MailboxExists } else { Reason::MailboxNotFound };
    assert_eq!(answer.result.expect("a finding").reason, expected);
    asked.elapsed()
}

#[test]
fn single_checks_leave_a_session_whose_every_reply_is_held_back() {
    let net = world(WORLD);
    let engine = engine(net.dns(), net.smtp_port(), Pace::Lab);
    let client = engine.client(4);
    // The idle session shows that the host sends no replies twice. Sessions with a new host are too short for the tarpit.
    ask(&client, CHECKS);
    std::thread::sleep(SESSION_IDLE + Duration::from_millis(500));
    let times: Vec<Duration> = (0..CHECKS).map(|number| ask(&client, number)).collect();
    let slow = times.iter().filter(|&&time| time > Duration::from_millis(800)).count();
    // A first slow reply may be chance, but a second one shows the tarpit. Later sessions end before they reach it. Otherwise, a
    // third of the checks would be slow. On a busy machine, a few checks are slow for other reasons.
    assert!((1..=8).contains(&slow), "{slow} slow checks: {times:?}");
    assert!(net.stats().violations.is_empty());
    engine.stop();
}

/// Each refusal but the first one of a session takes 800 ms.
const SLOW_REFUSALS: &str = r#"
journal = true
[[domain]]
name = "refusals.example"
server.personality = "generic"
server.changes = [{ after = 1, counted = "session", to = "delay", ms = 800 }]
mailboxes.ok = ["user-#"]
"#;

#[test]
fn replies_that_come_together_with_the_slow_one_that_shows_a_tarpit_are_used() {
    let net = world(SLOW_REFUSALS);
    let engine = engine(net.dns(), net.smtp_port(), Pace::Lab);
    let client = engine.client(8);
    let at = |local: &str, number: u64| format!("{local}-{number}@refusals.example");
    // The first check also asks about a control recipient, and its refusal is the quick one.
    for number in 0..8 {
        support::ask(&client, &at("user", number), Priority::Single);
    }
    // While the session waits for the slow reply about the first row, the others wait for the next transaction. Its first reply is
    // slow too, and the other replies come with it.
    for number in 100..106 {
        let local = if number <= 101 { "gone" } else { "user" };
        support::submit(&client, number, &at(local, number), Priority::Batch);
        std::thread::sleep(Duration::from_millis(if number == 100 { 200 } else { 0 }));
    }
    for _ in 100..106 {
        let answer = support::answer(&client);
        let expected = if answer.ticket <= 101 { Reason::MailboxNotFound } else { Reason::MailboxExists };
        assert_eq!(answer.result.expect("a finding").reason, expected);
    }
    let asked = net.journal().asked("refusals.example");
    let is_row = |local: &str| local.starts_with("user-1") || local.starts_with("gone-");
    let twice: Vec<_> = asked.iter().filter(|(local, times)| is_row(local) && **times > 1).collect();
    assert!(twice.is_empty(), "{twice:?}");
    engine.stop();
}
