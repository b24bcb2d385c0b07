//! Servers that declare the highest number of transactions in a session, and end the session at the next transaction.

use crate::support;
use engine::config::{EngineConfig, Pace};
use engine::proto::verdict::Reason;
use engine::{Engine, Priority};

const CHECKS: u64 = 100;

/// Checks addresses at a server that takes this number of transactions in a session. With `unclear`, the server refuses unknown
/// recipients in unclear words, so a proof needs a second control recipient in a third transaction. Every second address exists.
fn check(transactions_max: u32, unclear: bool, expected: Reason) {
    let words = if unclear { "replies.not_found = \"550 5.7.1 Access denied\"" } else { "" };
    let net = support::world(&format!(
        r#"
        [[personality]]
        name = "few"
        like = "generic"
        ehlo = ["PIPELINING", "LIMITS MAILMAX={transactions_max}"]
        transactions_max = {transactions_max}
        {words}
        [[domain]]
        name = "few.example"
        server = {{ personality = "few" }}
        mailboxes.ok = ["user-#"]
        "#
    ));
    let config = support::config(net.dns(), net.smtp_port(), Pace::Lab);
    let engine = Engine::start(EngineConfig { shards: 1, ..config }).expect("the engine starts");
    let client = engine.client(CHECKS as usize);
    for n in 0..CHECKS {
        let local = if n.is_multiple_of(2) { "user" } else { "nobody" };
        support::submit(&client, n, &format!("{local}-{n}@few.example"), Priority::List);
    }
    for _ in 0..CHECKS {
        let answer = support::answer(&client);
        let trace = answer.trace.join("\n");
        assert!(!trace.contains("S: 421"), "a session had too many transactions: {trace}");
        if answer.ticket.is_multiple_of(2) {
            assert_eq!(answer.result.expect("no outage").reason, expected, "{transactions_max}: {trace}");
        }
    }
    engine.stop();
}

#[test]
fn no_session_has_more_transactions_than_its_server_declares() {
    check(2, false, Reason::MailboxExists);
    check(3, false, Reason::MailboxExists);
    check(3, true, Reason::MailboxExists);
    // No transaction is left for the second control recipient.
    check(2, true, Reason::Unverifiable);
}

#[test]
fn a_full_transaction_ends_before_further_recipients_are_refused() {
    let net = support::world(
        "[[personality]]\nname = \"five\"\nlike = \"generic\"\nehlo = [\"SIZE 10485760\"]\nrcpt_max = 5\n\
         [[domain]]\nname = \"five.example\"\nserver = \"five\"\nmailboxes.ok = [\"user-#\"]\n",
    );
    let config = support::config(net.dns(), net.smtp_port(), Pace::Lab);
    let engine = Engine::start(EngineConfig { shards: 1, ..config }).expect("the engine starts");
    let client = engine.client(CHECKS as usize);
    (0..CHECKS).for_each(|n| support::submit(&client, n, &format!("user-{n}@five.example"), Priority::List));
    for _ in 0..CHECKS {
        let answer = support::answer(&client);
        assert_eq!(answer.result.expect("no outage").reason, Reason::MailboxExists);
    }
    // Each address once, the control recipients, and one recipient too many for each session that did not know the limit.
    let asked = net.host_stats("mx1.five.example").expect("a host").rcpt;
    assert!(asked <= CHECKS + 20, "{asked} recipients");
    engine.stop();
}
