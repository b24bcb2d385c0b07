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
