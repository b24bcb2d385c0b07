//! Nodes that others have declared dead, and that live.

use super::{Mortals, now, wait_all, wait_until};
use crate::world::{OPERATOR, new_key};
use store::*;

#[test]
fn a_paused_node_commits_nothing_after_it_was_declared_dead_and_works_again() {
    let Some(mut nodes) = Mortals::new(2) else { return };
    let a = nodes.account(0, "a");
    let held = nodes.hold(0, a);
    let epoch = nodes.epoch(0);
    nodes.links[0].pause();
    let late = nodes.new_hold(a);
    let (settled, holding) = {
        let node = nodes.node(0);
        let settled = node.settle(held, Settlement::default(), now());
        (settled, node.hold(HoldRequest { hold: late, credits: 1 }, now()))
    };
    let took = wait_until("it is declared dead", || nodes.epoch(0) == epoch + 1);
    assert!((7..20).contains(&took.as_secs()), "{took:?}");
    assert!(!nodes.node(0).may_work(), "it stops in front of the others");
    wait_until("its hold is voided", || nodes.entries(1, held, EntryKind::Voided) == 1);
    assert_eq!(nodes.balance(1, a).held, 0);

    nodes.links[0].resume();
    wait_until("it is registered anew", || nodes.node(0).may_work() && nodes.epoch(0) > epoch + 1);
    // The settlement is tried on, whether its caller still waits or not.
    assert!(matches!(
        settled.wait(),
        Err(SettleError::AlreadyVoided | SettleError::Store(StoreError::Away(_) | StoreError::Unknown(_)))
    ));
    assert_eq!(nodes.settle(0, held), Err(SettleError::AlreadyVoided));
    assert_eq!(nodes.entries(1, held, EntryKind::Settled), 0);
    // The hold was made in the new epoch, or not at all.
    if let Ok(balance) = holding.wait() {
        assert_eq!(balance.held, 1);
        assert!(nodes.settle(1, late).is_ok());
    }
    let old = nodes
        .number_of("SELECT count(*) FROM holds JOIN nodes ON nodes.id = node AND holds.epoch < nodes.epoch");
    assert_eq!(old, 0);
    let again = nodes.hold(0, a);
    std::thread::sleep(std::time::Duration::from_millis(2_500));
    assert!(nodes.settle(0, again).is_ok(), "nobody has voided it");
    nodes.check_sums(1);
}

#[test]
fn a_group_of_an_epoch_that_is_over_changes_nothing() {
    let Some(mut nodes) = Mortals::new(2) else { return };
    // One for each lane.
    let accounts: Vec<_> = (0..8).map(|n| nodes.account(0, &format!("a{n}"))).collect();
    for _ in 0..5 {
        let holds: Vec<_> = accounts.iter().map(|&account| nodes.new_hold(account)).collect();
        nodes.declare_dead(0);
        let pending: Vec<_> =
            holds.iter().map(|&hold| nodes.node(0).hold(HoldRequest { hold, credits: 1 }, now())).collect();
        wait_all(pending);
        let old = nodes.number_of(
            "SELECT count(*) FROM holds LEFT JOIN nodes ON nodes.id = node AND holds.epoch = nodes.epoch \
             WHERE nodes.id IS NULL",
        );
        assert_eq!(old, 0, "they were made in the new epoch");
        for &hold in &holds {
            assert!(nodes.settle(0, hold).is_ok());
        }
    }
    nodes.check_sums(1);
}

#[test]
fn a_settlement_after_its_node_was_declared_dead_finds_its_hold_voided() {
    let Some(mut nodes) = Mortals::new(2) else { return };
    let a = nodes.account(0, "a");
    for attempt in 0..5 {
        let hold = nodes.hold(0, a);
        nodes.declare_dead(0);
        // Whoever is first: the node that voids it, or the settlement in the new epoch.
        std::thread::sleep(std::time::Duration::from_millis(600 * attempt));
        let ended = nodes.settle(0, hold).map(drop);
        match ended {
            Ok(()) => assert_eq!(nodes.entries(1, hold, EntryKind::Settled), 1),
            Err(error) => {
                assert_eq!(error, SettleError::AlreadyVoided);
                assert_eq!(nodes.entries(1, hold, EntryKind::Voided), 1);
            }
        }
    }
    assert_eq!(nodes.balance(1, a).held, 0);
    nodes.check_sums(1);
}

#[test]
fn a_revocation_that_a_node_missed_while_it_was_paused_holds_when_it_returns() {
    let Some(mut nodes) = Mortals::new(2) else { return };
    let a = nodes.account(0, "a");
    let key = new_key(a, 7);
    let id = key.id;
    nodes.node(0).create_key(key, OPERATOR, now()).wait().unwrap();
    nodes.links[0].pause();
    nodes.node(1).revoke_key(id, now()).wait().unwrap();
    assert!(!nodes.node(0).key_by_hash(&[7; 32]).unwrap().revoked);
    nodes.links[0].resume();
    let took = wait_until("it is known", || nodes.node(0).key_by_hash(&[7; 32]).unwrap().revoked);
    assert!(took.as_secs() < 2, "{took:?}");
}
