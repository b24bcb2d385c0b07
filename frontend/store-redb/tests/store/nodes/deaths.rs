//! What a node leaves that ended without a word.

use super::{Mortals, now, wait_until};
use crate::world::OPERATOR;
use store::*;

#[test]
fn the_holds_of_a_dead_node_are_voided_once() {
    let Some(mut nodes) = Mortals::new(3) else { return };
    let a = nodes.account(0, "a");
    let (dead, alive): (Vec<_>, Vec<_>) = (0..10).map(|_| (nodes.hold(0, a), nodes.hold(1, a))).unzip();
    let before = nodes.balance(1, a);
    nodes.kill(0);
    // Nothing helps here: the lease ends by the clock of the server, and the others find it. On a slow machine the last renewal
    // may have been a while ago, or another node may have ended the lease already.
    let left = nodes.number_of(
        "SELECT coalesce((1000 * extract(epoch FROM CASE WHEN until > '-infinity' THEN until - clock_timestamp() END))::bigint, 0) \
         FROM nodes WHERE id = 1",
    );
    let took = wait_until("its holds are voided", || nodes.balance(1, a).held <= 10);
    assert!(took.as_millis() as i64 >= left && took.as_secs() < 20, "{took:?}, and the lease had {left} ms");
    wait_until("all are voided", || nodes.balance(2, a).held == 10);
    assert_eq!(nodes.balance(1, a).plan_left, before.plan_left + 10);
    for &hold in &dead {
        assert_eq!(nodes.entries(2, hold, EntryKind::Voided), 1);
        assert_eq!(nodes.settle(1, hold), Err(SettleError::AlreadyVoided), "not charged");
    }
    for &hold in &alive {
        assert_eq!(nodes.entries(2, hold, EntryKind::Voided), 0, "its node lives");
        assert!(nodes.settle(2, hold).is_ok());
    }
    let balance = nodes.balance(1, a);
    assert_eq!((balance.held, balance.spent), (0, 10));
    nodes.check_sums(1);
}

#[test]
fn a_start_voids_the_holds_of_its_last_process_and_no_others() {
    let Some(mut nodes) = Mortals::new(2) else { return };
    let a = nodes.account(0, "a");
    let (own, other) = (nodes.hold(0, a), nodes.hold(1, a));
    nodes.kill_with_lease(0);
    nodes.links[0] = crate::link::Link::to(&nodes.schema.address());
    assert_eq!(nodes.start(0), 1);
    assert_eq!(nodes.settle(0, own), Err(SettleError::AlreadyVoided));
    assert!(nodes.settle(0, other).is_ok());
    let kept = nodes.hold(0, a);
    // Longer than the time between two looks of the other node.
    std::thread::sleep(std::time::Duration::from_millis(2_500));
    assert!(nodes.settle(1, kept).is_ok());
    nodes.check_sums(1);
}

#[test]
fn a_hold_that_is_older_than_a_check_can_be_is_voided_although_its_node_lives() {
    let Some(mut nodes) = Mortals::new(2) else { return };
    let a = nodes.account(0, "a");
    let (old, new) = (nodes.hold(0, a), nodes.hold(0, a));
    let key = [old.account.to_bytes(), old.id.to_bytes()].concat();
    let key: String = key.iter().map(|byte| format!("{byte:02x}")).collect();
    nodes.schema.execute(&format!(
        "UPDATE holds SET since = clock_timestamp() - interval '181 s' WHERE k = decode('{key}', 'hex')"
    ));
    wait_until("it is voided", || nodes.balance(1, a).held == 1);
    assert_eq!(nodes.settle(0, old), Err(SettleError::AlreadyVoided));
    assert!(nodes.settle(0, new).is_ok());
    nodes.check_sums(1);
}

#[test]
fn a_check_of_a_dead_node_can_begin_elsewhere() {
    let Some(mut nodes) = Mortals::new(2) else { return };
    let a = nodes.account(0, "a");
    let address = nodes.node(0).hash_address("one@example.com");
    let check = |hold| NewCheck { hold, connection: None, address, fair_use: None, by: OPERATOR };
    let (first, second, third) = (nodes.new_hold(a), nodes.new_hold(a), nodes.new_hold(a));
    let begun = nodes.node(0).begin_check(check(first), now()).wait().unwrap();
    assert!(matches!(begun, Begun::Held(_)));
    nodes.kill_with_lease(0);
    let begun = nodes.node(1).begin_check(check(second), now()).wait();
    assert_eq!(begun, Ok(Begun::UnderWay));
    nodes.end_lease(0);
    wait_until("it is voided", || nodes.balance(1, a).held == 0);
    let begun = nodes.node(1).begin_check(check(third), now()).wait().unwrap();
    assert!(matches!(begun, Begun::Held(_)), "{begun:?}");
    assert!(nodes.settle(1, third).is_ok());
    assert_eq!(nodes.balance(1, a).spent, 1);
}

#[test]
fn a_number_that_another_process_uses_is_refused() {
    let Some(nodes) = Mortals::new(1) else { return };
    let options = nodes.schema.options(1, true);
    let Err(OpenError::Store(error)) = store_pg::open(options, crate::world::plans(), now()) else {
        panic!("two processes have one number")
    };
    assert!(error.to_string().contains("another mailprobe on test uses the identity"), "{error}");
    assert!(nodes.node(0).may_work());
}
