//! Which node works on a batch.

use super::{Mortals, two_nodes};
use crate::postgres::{self, InSchema};
use crate::world::{OPERATOR, START, World, new_account, plans};
use api::Reason::MailboxExists;
use std::collections::BTreeSet;
use store::RowOutcome::Verified;
use store::*;
use store_rules::Store;

fn claim(node: &Store, most: usize) -> Vec<BatchId> {
    node.claim_batches(most).wait().unwrap().iter().map(|batch| batch.batch).collect()
}

#[test]
fn a_batch_of_a_live_node_is_not_claimed() {
    let Some((mut world, a)) = two_nodes("free") else { return };
    for node in 0..2 {
        world.on(node).batch(a, &["one@example.com"]);
    }
    for node in world.nodes() {
        assert_eq!(claim(node, 10), []);
    }
}

#[test]
fn a_node_claims_each_batch_from_before_its_start_once_however_few_at_a_time() {
    let Some(url) = postgres::url() else { return };
    let mut world = World::of(Box::new(InSchema::new(url)));
    let a = world.account("a", "free");
    let batches: Vec<_> = (0..5).map(|n| world.batch(a, &[&format!("{n}@example.com")])).collect();
    world.reopen();
    let new = world.batch(a, &["new@example.com"]);
    let mut claimed = Vec::new();
    for most in [0, 2, 1, 10, 10] {
        let some = claim(world.store(), most);
        assert!(some.len() <= most);
        claimed.extend(some);
    }
    assert_eq!(claimed, batches, "oldest first, and not the new one");
    world.reopen();
    assert_eq!(
        claim(world.store(), 10),
        [batches, vec![new]].concat(),
        "also those that were claimed before"
    );
}

#[test]
fn the_batches_of_a_dead_node_are_claimed_once_and_completed_elsewhere() {
    let Some(mut nodes) = Mortals::new(3) else { return };
    let a = nodes.account(0, "a");
    let batches: BTreeSet<_> =
        (0..20).map(|n| nodes.batch(0, a, &[&format!("{n}@example.com"), "x@example.com"])).collect();
    nodes.kill_with_lease(0);
    for node in [1, 2] {
        assert_eq!(claim(nodes.node(node), 100), [], "its lease lasts");
    }
    nodes.end_lease(0);
    let (mut claimed, mut by) = (Vec::new(), [0, 0]);
    super::wait_until("all are claimed", || {
        let pending = [1, 2].map(|node| nodes.node(node).claim_batches(3));
        for (by, pending) in by.iter_mut().zip(pending) {
            let some = pending.wait().unwrap();
            *by += some.len();
            claimed.extend(some.iter().map(|batch| batch.batch));
        }
        claimed.len() >= batches.len()
    });
    assert_eq!(claimed.len(), 20);
    assert_eq!(claimed.iter().copied().collect::<BTreeSet<_>>(), batches);
    assert!(by[0] > 0 && by[1] > 0, "{by:?}");
    for (at, &batch) in claimed.iter().enumerate() {
        let node = nodes.node(1 + at % 2);
        assert_eq!(node.unanswered(batch).wait().unwrap().len(), 2);
        let answers = [0, 1].map(|index| RowAnswer { batch, index, outcome: Verified(MailboxExists.into()) });
        assert_eq!(node.answer_rows(answers.into(), super::now()).wait(), Ok(vec![batch]));
    }
    let balance = nodes.balance(1, a);
    assert_eq!((balance.held, balance.spent), (0, 40));
    nodes.check_sums(2);
    for node in [1, 2] {
        assert_eq!(claim(nodes.node(node), 100), []);
    }
}

#[test]
fn a_node_that_comes_back_gets_what_nobody_has_claimed() {
    let Some(mut nodes) = Mortals::new(2) else { return };
    let a = nodes.account(0, "a");
    let batches: Vec<_> = (0..4).map(|n| nodes.batch(0, a, &[&format!("{n}@example.com")])).collect();
    nodes.kill(0);
    nodes.end_lease(0);
    let mut taken = Vec::new();
    super::wait_until("one is claimed", || {
        taken = claim(nodes.node(1), 1);
        !taken.is_empty()
    });
    assert_eq!(taken, batches[..1]);
    nodes.links[0] = crate::link::Link::to(&nodes.schema.address());
    nodes.start(0);
    assert_eq!(claim(nodes.node(0), 10), batches[1..]);
    assert_eq!(claim(nodes.node(1), 10), []);
}

#[test]
fn a_new_node_claims_what_no_node_has() {
    let Some(url) = postgres::url() else { return };
    let schema = InSchema::new(url);
    let open = |node| store_pg::open(schema.options(node, true), plans(), START).unwrap().0;
    let first = open(1);
    let id = AccountId::new(START, 1);
    first.create_account(new_account(id, "a"), START).wait().unwrap();
    let address = first.hash_address("one@example.com");
    let new = NewBatch {
        id: BatchId::new(START, 1 << 61),
        account: id,
        name: None,
        rows: vec![NewRow { email: "one@example.com".into(), address }],
        idempotency: None,
        mode: BatchMode::Live,
    };
    let batch = first.create_batch(new, OPERATOR, START).wait().unwrap().batch;
    // It leaves in order, so nobody has to wait for its lease.
    drop(first);
    let second = open(2);
    super::wait_until("it is claimed", || claim(&second, 10) == [batch]);
}
