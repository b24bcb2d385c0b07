//! The accounts of gateways' users.

use crate::world::{World, new_account};
use store::*;

fn user(world: &mut World, gateway: &str, user: &str, plan: &str, users_max: usize) -> GatewayUser {
    let id = AccountId::new(world.now, world.random());
    GatewayUser { id, gateway: gateway.into(), user: user.into(), plan: plan.into(), users_max }
}

fn open(world: &mut World, of: &str, named: &str, plan: &str) -> Result<Account, ChangeError> {
    let user = user(world, of, named, plan, 3);
    world.open_gateway_account(user, world.now).wait()
}

#[test]
fn a_user_has_one_account_for_good() {
    let mut world = World::new();
    let made = open(&mut world, "one", "alice", "free").unwrap();
    assert_eq!((made.name.as_str(), made.plan.as_str()), ("gateway:one:alice", "free"));
    let again = open(&mut world, "one", "alice", "free").unwrap();
    assert_eq!(again, made);
    let other = open(&mut world, "two", "alice", "free").unwrap();
    assert_ne!(other.id, made.id);
    for _ in 0..2 {
        let store = world.store();
        assert_eq!(store.gateway_account("one", "alice", "free"), Some(made.id));
        assert_eq!(store.gateway_account("two", "alice", "free"), Some(other.id));
        assert_eq!(store.gateway_account("one", "alice", "growth"), None, "not on this plan");
        assert_eq!(store.gateway_account("one", "bob", "free"), None);
        assert_eq!(store.gateway_account("three", "alice", "free"), None);
        world.reopen();
    }
}

#[test]
fn its_plan_is_changed_with_it() {
    let mut world = World::new();
    let id = open(&mut world, "one", "alice", "free").unwrap().id;
    let changed = open(&mut world, "one", "alice", "growth").unwrap();
    assert_eq!((changed.id, changed.plan.as_str(), changed.balance.available()), (id, "growth", 50_000));
    assert_eq!(world.gateway_account("one", "alice", "growth"), Some(id));
    assert_eq!(world.gateway_account("one", "alice", "free"), None);
    assert_eq!(open(&mut world, "one", "alice", "none such"), Err(ChangeError::UnknownPlan));
    assert_eq!(open(&mut world, "one", "bob", "none such"), Err(ChangeError::UnknownPlan));
    assert_eq!(world.gateway_account("one", "alice", "growth"), Some(id));
    assert_eq!(world.audit(None).wait().unwrap().faults, Vec::<String>::new());
}

#[test]
fn only_so_many_are_made_however_many_come_at_once() {
    let mut world = World::new();
    let users: Vec<_> =
        (0..8).map(|number| user(&mut world, "one", &format!("user-{number}"), "free", 3)).collect();
    let pending: Vec<_> = users.into_iter().map(|user| world.open_gateway_account(user, world.now)).collect();
    let made: Vec<_> = pending.into_iter().map(|account| account.wait()).collect();
    assert_eq!(made.iter().filter(|account| account.is_ok()).count(), 3);
    assert!(made[3..].iter().all(|account| *account == Err(ChangeError::TooMany)));
    world.reopen();
    assert_eq!(open(&mut world, "one", "user-7", "free"), Err(ChangeError::TooMany));
    assert_eq!(open(&mut world, "one", "user-0", "growth").unwrap().plan, "growth");
    assert!(open(&mut world, "two", "user-7", "free").is_ok());
}

#[test]
fn their_names_are_for_nobody_else() {
    let mut world = World::new();
    for name in ["gateway:one:alice", "gateway:one", "gateway:"] {
        let id = AccountId::new(world.now, world.random());
        let new = new_account(id, name);
        assert_eq!(world.create_account(new, world.now).wait(), Err(ChangeError::NameReserved));
    }
    let control = user(&mut world, "one", "a\nb", "free", 3);
    assert_eq!(world.open_gateway_account(control, world.now).wait(), Err(ChangeError::BadText));
}
