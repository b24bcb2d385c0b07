//! Holds, charges, batches and grants, each on the node that is at hand.

use super::{in_turn, nodes, two_nodes, wait_all};
use crate::world::{DAY, OPERATOR, START, World};
use api::Reason::{MailboxExists, MailboxNotFound};
use store::RowOutcome::Verified;
use store::*;

#[test]
fn a_hold_of_one_node_is_settled_or_voided_on_another() {
    let Some((mut world, a)) = two_nodes("free") else { return };
    for (held, ended) in [(0, 1), (1, 0)] {
        let (one, other) = (world.on(held).hold(a, 3).unwrap(), world.hold(a, 2).unwrap());
        let before = world.read(a).balance;
        assert!(world.on(ended).settle(one).is_ok());
        assert!(world.void(other).is_ok());
        for node in [held, ended] {
            world.node = node;
            assert_eq!(world.settle(one), Err(SettleError::AlreadySettled));
            assert_eq!(world.void(other), Err(SettleError::AlreadyVoided));
            let now = world.read(a).balance;
            assert_eq!((now.held, now.spent), (before.held - 5, before.spent + 3));
        }
    }
    world.check(a, (94, 0, 0, 6, 0));
}

#[test]
fn holds_of_both_nodes_at_once_never_exceed_the_balance() {
    let Some((mut world, a)) = two_nodes("free") else { return };
    let requests: Vec<_> = (0..150).map(|_| HoldRef { account: a, id: world.entry_id() }).collect();
    let held = in_turn(&world, &requests, |node, &hold| node.hold(HoldRequest { hold, credits: 1 }, START));
    assert_eq!(held.iter().filter(|held| held.is_ok()).count(), 100);
    let refused = held.iter().filter_map(|held| held.as_ref().err());
    assert!(refused.into_iter().all(|error| *error == HoldError::Insufficient { available: 0 }));
    world.check(a, (0, 0, 100, 0, 0));
    let held = requests.iter().zip(&held).filter(|(_, held)| held.is_ok());
    let pending: Vec<_> = held
        .enumerate()
        .map(|(at, (&hold, _))| world.nodes()[1 - at % 2].settle(hold, Settlement::default(), START))
        .collect();
    wait_all(pending);
    world.check(a, (0, 0, 0, 100, 0));
}

#[test]
fn one_hold_that_both_nodes_end_at_once_is_ended_once() {
    let Some((mut world, a)) = two_nodes("free") else { return };
    for round in 0..20 {
        let hold = world.on(round % 2).hold(a, 1).unwrap();
        let settled = world.nodes()[0].settle(hold, Settlement::default(), START);
        let voided = world.nodes()[1].void(hold, START);
        let ends = (settled.wait().map(drop), voided.wait().map(drop));
        let once = ends == (Ok(()), Err(SettleError::AlreadySettled))
            || ends == (Err(SettleError::AlreadyVoided), Ok(()));
        assert!(once, "{ends:?}");
    }
    world.check_sums();
    assert_eq!(world.read(a).balance.held, 0);
}

#[test]
fn one_idempotency_key_makes_one_batch_over_both_nodes() {
    let Some((mut world, a)) = two_nodes("free") else { return };
    let new: Vec<_> = (0..50)
        .map(|_| {
            let mut new = world.new_batch(a, &["one@example.com", "two@example.com"]);
            new.idempotency = Some(Idempotency { key: "k".into(), body: [7; 32] });
            new
        })
        .collect();
    let made = in_turn(&world, new, |node, new| node.create_batch(new, OPERATOR, START));
    let made: Vec<_> = made.into_iter().map(Result::unwrap).collect();
    assert_eq!(made.iter().filter(|made| made.replayed).count(), 49);
    assert!(made.iter().all(|one| one.batch == made[0].batch));
    world.check(a, (98, 0, 2, 0, 0));
    let mut other = world.new_batch(a, &["three@example.com"]);
    other.idempotency = Some(Idempotency { key: "k".into(), body: [8; 32] });
    for node in 0..2 {
        assert_eq!(world.on(node).create(other.clone()), Err(BatchError::KeyReused));
    }
}

/// 50 checks of an address that begin at once, at both nodes in turn.
fn new_checks(world: &mut World, account: AccountId, address: AddressHash) -> Vec<NewCheck> {
    let hold = |_| HoldRef { account, id: world.entry_id() };
    let holds: Vec<_> = (0..50).map(hold).collect();
    let check = |hold| NewCheck { hold, connection: None, address, fair_use: None, by: OPERATOR };
    holds.into_iter().map(check).collect()
}

fn begin_at_once(world: &World, checks: &[NewCheck]) -> Vec<Begun> {
    let nodes = world.nodes().iter().cycle();
    wait_all(nodes.zip(checks).map(|(node, check)| node.begin_check(*check, START)).collect())
}

#[test]
fn one_address_is_charged_once_however_many_checks_begin_on_both_nodes() {
    let Some((mut world, a)) = two_nodes("free") else { return };
    let address = world.hash_address("one@example.com");
    let checks = new_checks(&mut world, a, address);
    let begun = begin_at_once(&world, &checks);
    let held = |begun: &Begun| matches!(begun, Begun::Held(_));
    let at = begun.iter().position(held).unwrap();
    assert_eq!(begun.iter().filter(|begun| held(begun)).count(), 1);
    assert_eq!(begun.iter().filter(|begun| **begun == Begun::UnderWay).count(), 49);
    world.check(a, (99, 0, 1, 0, 0));

    let record = ResultRecord { address, verdict: MailboxExists.into() };
    let with = Settlement { result: Some(record) };
    world.nodes()[1 - at % 2].settle(checks[at].hold, with, START).wait().unwrap();
    for node in 0..2 {
        for _ in 0..3 {
            let Ok(Begun::Own(result)) = world.on(node).begin(a, "one@example.com") else { panic!() };
            assert_eq!(result.verdict, MailboxExists.into());
        }
    }
    world.check(a, (99, 0, 0, 1, 0));
}

#[test]
fn a_check_that_was_voided_can_begin_on_the_other_node() {
    let Some((mut world, a)) = two_nodes("free") else { return };
    let address = world.hash_address("one@example.com");
    for node in [0, 1, 0] {
        let hold = HoldRef { account: a, id: world.entry_id() };
        let check = NewCheck { hold, connection: None, address, fair_use: None, by: OPERATOR };
        let begun = world.nodes()[node].begin_check(check, START).wait().unwrap();
        assert!(matches!(begun, Begun::Held(_)), "{begun:?}");
        assert_eq!(world.on(1 - node).begin(a, "one@example.com"), Ok(Begun::UnderWay));
        assert!(world.on(1 - node).void(hold).is_ok());
    }
    world.check(a, (100, 0, 0, 0, 0));
}

#[test]
fn a_shared_verdict_is_charged_once_over_both_nodes() {
    let Some((mut world, a)) = two_nodes("free") else { return };
    let b = world.account("b", "free");
    world.verify(b, "one@example.com", MailboxNotFound);
    let address = world.hash_address("one@example.com");
    let checks = new_checks(&mut world, a, address);
    let begun = begin_at_once(&world, &checks);
    assert_eq!(begun.iter().filter(|begun| matches!(begun, Begun::Charged(..))).count(), 1);
    assert_eq!(begun.iter().filter(|begun| matches!(begun, Begun::Own(_))).count(), 49);
    world.check(a, (99, 0, 0, 1, 0));
}

#[test]
fn a_grant_with_one_id_is_made_once_over_both_nodes() {
    let Some((mut world, a)) = two_nodes("free") else { return };
    for _ in 0..5 {
        let grant = Grant { id: world.entry_id(), account: a, credits: 10, note: "pack".into() };
        let made = in_turn(&world, 0..20, |node, _| node.grant(grant.clone(), START));
        assert_eq!(made.iter().filter(|made| made.is_ok()).count(), 1);
        assert_eq!(made.iter().filter(|made| **made == Err(ChangeError::Exists)).count(), 19);
    }
    world.check(a, (100, 50, 0, 0, 0));
}

#[test]
fn a_row_that_both_nodes_answer_counts_once() {
    let Some((mut world, a)) = two_nodes("free") else { return };
    for _ in 0..10 {
        let batch = world.batch(a, &["one@example.com", "two@example.com"]);
        let spent = world.read(a).balance.spent;
        let answer = |index| RowAnswer { batch, index, outcome: Verified(MailboxExists.into()) };
        let pending: Vec<_> = [(0, 0), (1, 0), (0, 1), (1, 1)]
            .map(|(node, index): (usize, u32)| {
                world.nodes()[node].answer_rows(vec![answer(index)], world.now)
            })
            .into();
        let completed: Vec<_> = pending.into_iter().flat_map(|pending| pending.wait().unwrap()).collect();
        assert_eq!(completed, [batch]);
        assert_eq!(world.read(a).balance.spent, spent + 2);
        for node in 0..2 {
            let view = world.on(node).view(a, batch).unwrap();
            assert_eq!((view.completed, view.checked), (true, 2));
        }
        // The results would answer the next batch.
        world.now += DAY;
    }
    world.check_sums();
}

#[test]
fn clocks_five_seconds_apart_do_no_harm() {
    let Some((mut world, a)) = two_nodes("free") else { return };
    let month = 28 * DAY;
    // The clock of the second node is ahead: around the end of a period it begins the next one first.
    for (round, at) in [START, START + month - 2_500, START + 2 * month].into_iter().enumerate() {
        let clock = [at, at + 5_000];
        for (held, ended) in [(0, 1), (1, 0)] {
            world.now = clock[held];
            let hold = world.on(held).hold(a, 1).unwrap();
            let batch = world.batch(a, &[&format!("b{round}-{held}@example.com")]);
            let email = format!("c{round}-{held}@example.com");
            let address = world.hash_address(&email);
            let check = HoldRef { account: a, id: world.entry_id() };
            let new = NewCheck { hold: check, connection: None, address, fair_use: None, by: OPERATOR };
            let begun = world.begin_check(new, world.now).wait().unwrap();
            assert!(matches!(begun, Begun::Held(_)), "{begun:?}");

            world.now = clock[ended];
            world.node = ended;
            assert_eq!(world.begin(a, &email), Ok(Begun::UnderWay));
            assert!(world.settle(hold).is_ok());
            let record = ResultRecord { address, verdict: MailboxExists.into() };
            let with = Settlement { result: Some(record) };
            assert!(world.store().settle(check, with, world.now).wait().is_ok());
            assert_eq!(world.answer(batch, &[(0, Verified(MailboxExists.into()))]), [batch]);
            for (node, now) in clock.into_iter().enumerate() {
                world.now = now;
                world.node = node;
                assert!(matches!(world.begin(a, &email), Ok(Begun::Own(_))), "{node}");
                assert!(world.view(a, batch).unwrap().completed);
                assert_eq!(world.settle(hold), Err(SettleError::AlreadySettled));
                assert_eq!(world.read(a).balance.held, 0);
                world.check_sums();
            }
        }
        assert_eq!(world.read(a).balance.spent, 6 * (round as u64 + 1));
    }
}

#[test]
fn three_nodes_work_on_one_account_at_once() {
    let Some(mut world) = nodes(3) else { return };
    let a = world.account("a", "growth");
    let mut expected = 0;
    for round in 0..10 {
        let holds: Vec<_> = (0..90).map(|_| HoldRef { account: a, id: world.entry_id() }).collect();
        let on = |at: usize| &world.nodes()[at % 3];
        let pending: Vec<_> = holds
            .iter()
            .enumerate()
            .map(|(at, &hold)| on(at).hold(HoldRequest { hold, credits: 1 }, START))
            .collect();
        wait_all(pending);
        let pending: Vec<_> = holds
            .iter()
            .enumerate()
            .map(|(at, &hold)| match (at + round) % 4 {
                0 => on(at + 1).void(hold, START),
                _ => on(at + 1).settle(hold, Settlement::default(), START),
            })
            .collect();
        wait_all(pending);
        expected += (0..90).filter(|at| (at + round) % 4 != 0).count() as u64;
    }
    world.check(a, (50_000 - expected, 0, 0, expected, 0));
}
