//! Webhooks over several nodes, and on the tables of the format before.

use super::two_nodes;
use crate::postgres::{self, InSchema};
use crate::world::{OPERATOR, START, attempt_report, new_account, new_webhook, plans};
use std::collections::HashSet;
use store::webhooks::*;
use store::*;

fn report(claimed: &ClaimedMessage, claim: ClaimNumber) -> AttemptReport {
    let attempt = Attempt { at: START, took_ms: 1, result: AttemptResult::Status(200) };
    AttemptReport { wants_next: true, ..attempt_report(claimed, claim, attempt) }
}

#[test]
fn each_message_is_sent_by_one_node() {
    let Some((world, a)) = two_nodes("free") else { return };
    let nodes = world.nodes();
    for number in 0..5 {
        nodes[0].create_webhook(new_webhook(a, number), OPERATOR, START).wait().unwrap();
    }
    for round in 0..10 {
        for number in 0..5 {
            let node = &nodes[(round + number) % 2];
            node.test_webhook(a, WebhookId::new(START, number as u128), START).wait().unwrap();
        }
    }
    // Both look at the same moment, again and again.
    let sent: Vec<Vec<MessageId>> = std::thread::scope(|scope| {
        let works: Vec<_> = nodes
            .iter()
            .zip([[1; 16], [2; 16]])
            .map(|(node, number)| {
                scope.spawn(move || {
                    let mut sent = Vec::new();
                    loop {
                        let due = node.due_webhooks(None, 2, START).wait().unwrap();
                        if due.is_empty() {
                            break;
                        }
                        for claimed in node.claim_webhooks(number, due, START).wait().unwrap() {
                            let mut next = Some(claimed);
                            while let Some(claimed) = next {
                                sent.push(claimed.message);
                                next = node.note_attempt(report(&claimed, number), START).wait().unwrap();
                            }
                        }
                    }
                    sent
                })
            })
            .collect();
        works.into_iter().map(|work| work.join().unwrap()).collect()
    });
    let all: Vec<MessageId> = sent.concat();
    assert_eq!(all.len(), 50, "each once");
    assert_eq!(all.iter().collect::<HashSet<_>>().len(), 50);
    assert!(nodes[0].webhooks(a).wait().unwrap().iter().all(|webhook| webhook.waiting == 0));
}

#[test]
fn a_database_of_the_format_before_gets_the_tables() {
    let Some(url) = postgres::url() else { return };
    let schema = InSchema::new(url);
    let open = |node| store_pg::open(schema.options(node, true), plans(), START).unwrap().0;
    let account = new_account(AccountId::new(START, 1), "a");
    let before = open(1);
    before.create_account(account.clone(), START).wait().unwrap();
    drop(before);
    schema.execute(
        "DROP TABLE webhooks, outbox, outbox_due, webhook_turns, deliveries; \
         UPDATE meta SET v = '\\x0600000000000000' WHERE k = 'format'",
    );
    let (one, other) = (open(1), open(2));
    one.create_webhook(new_webhook(account.id, 5), OPERATOR, START).wait().unwrap();
    assert_eq!(other.webhooks(account.id).wait().unwrap().len(), 1);
}
