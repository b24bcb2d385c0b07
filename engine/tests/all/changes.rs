//! A server that begins to accept everyone during each session.

use crate::support::{answer, ask, engine, submit, world};
use engine::Priority;
use engine::config::Pace;
use engine::proto::verdict::Reason;

/// In each session, the server accepts everyone after its first refusal, which is that of the control recipient.
const WORLD: &str = r#"
[[domain]]
name = "forgetful.example"
server = { changes = [{ after = 1, counted = "session", to = "accept" }] }
mailboxes.ok = ["user-#"]
"#;

const ROWS: u64 = 60;

#[test]
fn a_session_that_has_changed_is_left_before_it_counts_twice() {
    let net = world(WORLD);
    let engine = engine(net.dns(), net.smtp_port(), Pace::Lab);
    let client = engine.client(ROWS as usize);
    (0..ROWS).for_each(|row| submit(&client, row, &format!("user-{row}@forgetful.example"), Priority::List));
    for _ in 0..ROWS {
        let answer = answer(&client);
        let finding = answer.result.expect("a finding");
        assert_eq!(finding.reason, Reason::MailboxExists, "{}: {:#?}", finding.rule, answer.trace);
    }
    engine.stop();
}

#[test]
fn a_refusal_that_a_session_doubts_is_left_to_another_session() {
    let net = world(WORLD);
    let engine = engine(net.dns(), net.smtp_port(), Pace::Lab);
    let client = engine.client(2);
    // The session refuses the first row, and then accepts the second one and the control recipient. So the host has changed, and it
    // has no known mailbox.
    ["gone", "other"].iter().zip(0..).for_each(|(local, row)| {
        submit(&client, row, &format!("{local}@forgetful.example"), Priority::List);
    });
    (0..2).for_each(|_| drop(answer(&client)));
    let trace = ask(&client, "ghost@forgetful.example", Priority::Single).trace.join("\n");
    let sessions: Vec<_> =
        trace.split("connect ").map(|session| session.matches("RCPT TO:<ghost@").count()).collect();
    assert!(sessions.len() > 2 && sessions.iter().all(|&times| times <= 1), "{trace}");
    engine.stop();
}
