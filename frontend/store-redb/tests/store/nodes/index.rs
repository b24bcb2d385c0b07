//! What each node keeps in memory: keys, plans, limits and the users of gateways; and names, which are unique.

use super::{in_turn, nodes, two_nodes, wait_all, wait_until};
use crate::postgres::{self, InSchema};
use crate::world::{DAY, OPERATOR, START, new_account, new_key, plans};
use std::sync::{Arc, Barrier};
use std::thread;
use std::time::Duration;
use store::rate_limit::Overrides;
use store::*;

const SEEN_WITHIN: Duration = Duration::from_secs(2);

#[test]
fn a_revocation_on_one_node_holds_on_another_within_two_seconds() {
    let Some((mut world, a)) = two_nodes("free") else { return };
    for round in 0..20 {
        let (here, there) = (round % 2, 1 - round % 2);
        let rights = (KeyScopes::of([KeyScope::Batches]).unwrap(), Some(START + DAY + round as u64));
        let key = NewKey { scopes: rights.0, expires_at: rights.1, ..world.new_key(a, "k") };
        let (id, hash) = (key.id, key.hash);
        world.on(here).store().create_key(key, OPERATOR, START).wait().unwrap();
        let stores = world.nodes();
        assert!(!stores[here].key_by_hash(&hash).unwrap().revoked);
        let seen = wait_until("the key is known", || stores[there].key_by_hash(&hash).is_some());
        assert!(seen < SEEN_WITHIN, "{seen:?}");
        let found = stores[there].key_by_hash(&hash).unwrap();
        assert_eq!((found.scopes, found.expires_at), rights);
        stores[here].revoke_key(id, START).wait().unwrap();
        assert!(stores[here].key_by_hash(&hash).unwrap().revoked, "at once on the node that was asked");
        let is_refused = || stores[there].key_by_hash(&hash).unwrap().revoked;
        let seen = wait_until("the revocation is known", is_refused);
        assert!(seen < SEEN_WITHIN, "{seen:?}");
        assert_eq!(stores[there].revoke_key(id, START).wait().unwrap().id, id);
    }
}

#[test]
fn a_deletion_on_one_node_holds_on_another_within_two_seconds_and_continues_there() {
    let Some((mut world, a)) = two_nodes("free") else { return };
    let key = world.new_key(a, "k");
    let hash = key.hash;
    world.on(0).store().create_key(key, OPERATOR, START).wait().unwrap();
    world.batch(a, &["a@x.example"]);
    let stores = world.nodes();
    wait_until("the key is known", || stores[1].key_by_hash(&hash).is_some());
    stores[0].close_account(a, OPERATOR, START).wait().unwrap();
    assert_eq!(stores[0].key_by_hash(&hash), None, "at once on the node that was asked");
    let seen = wait_until("the deletion is known", || stores[1].key_by_hash(&hash).is_none());
    assert!(seen < SEEN_WITHIN, "{seen:?}");
    // Both nodes remove rows at the same time.
    assert_eq!(stores[1].closed_accounts().wait().unwrap(), [a]);
    for round in 0.. {
        let steps = [0, 1].map(|node| stores[node].delete_step(a, START)).map(|step| step.wait().unwrap());
        if steps == [DeletionStep::Complete; 2] {
            break;
        }
        assert!(round < 100);
    }
    assert_eq!(stores[1].account(a, START).wait().unwrap(), None);
    wait_until("its terms are gone", || stores.iter().all(|store| store.terms(a).is_none()));
    assert_eq!(stores[0].audit(None).wait().unwrap().faults, Vec::<String>::new());
}

#[test]
fn changes_of_both_nodes_at_once_are_all_seen_by_both() {
    let Some((mut world, a)) = two_nodes("free") else { return };
    let mut hashes = Vec::new();
    for _ in 0..10 {
        let keys: Vec<_> = (0..2).map(|_| world.new_key(a, "k")).collect();
        hashes.extend(keys.iter().map(|key| key.hash));
        let ids: Vec<_> = keys.iter().map(|key| key.id).collect();
        let pending: Vec<_> = keys
            .into_iter()
            .zip(world.nodes())
            .map(|(key, node)| node.create_key(key, OPERATOR, START))
            .collect();
        wait_all(pending);
        let stores = world.nodes();
        wait_until("all keys are known", || {
            hashes.iter().all(|hash| stores.iter().all(|store| store.key_by_hash(hash).is_some()))
        });
        // Each on the node that did not make it.
        let pending: Vec<_> =
            ids.iter().zip(stores.iter().rev()).map(|(&id, node)| node.revoke_key(id, START)).collect();
        wait_all(pending);
    }
    let stores = world.nodes();
    wait_until("all revocations are known", || {
        hashes.iter().all(|hash| stores.iter().all(|store| store.key_by_hash(hash).unwrap().revoked))
    });
    let lists: Vec<_> = stores.iter().map(|store| store.keys(a).wait().unwrap()).collect();
    assert_eq!(lists[0].len(), 20);
    assert_eq!(lists[0], lists[1]);
}

#[test]
fn an_account_has_no_more_keys_than_allowed_over_both_nodes() {
    let Some((mut world, a)) = two_nodes("free") else { return };
    let keys: Vec<_> = (0..KEYS_MAX + 20).map(|_| world.new_key(a, "k")).collect();
    let made = in_turn(&world, keys, |node, key| node.create_key(key, OPERATOR, START));
    assert_eq!(made.iter().filter(|made| made.is_ok()).count(), KEYS_MAX);
    assert_eq!(made.iter().filter(|made| **made == Err(ChangeError::TooManyKeys)).count(), 20);
}

#[test]
fn a_change_of_plan_and_of_limits_is_seen_on_the_other_node() {
    let Some((mut world, a)) = two_nodes("free") else { return };
    for (here, there) in [(0, 1), (1, 0)] {
        let own = Overrides { fast: Some(7 + here as u32), ..Overrides::default() };
        world.on(here).store().set_overrides(a, true, own).wait().unwrap();
        world.set_plan(a, if here == 0 { "growth" } else { "free" }).unwrap();
        let stores = world.nodes();
        let terms = stores[here].terms(a);
        assert_eq!(terms.unwrap().overrides, own);
        let took = wait_until("the terms are known", || stores[there].terms(a) == terms);
        assert!(took < SEEN_WITHIN, "{took:?}");
        let plan = world.on(there).read(a).plan;
        assert_eq!(plan, if here == 0 { "growth" } else { "free" });
    }
    world.check_sums();
}

fn gateway_user(id: AccountId, number: usize, users_max: usize) -> GatewayUser {
    let (gateway, user, plan) = ("one".into(), format!("user-{number}"), "free".into());
    GatewayUser { id, gateway, user, plan, users_max }
}

#[test]
fn a_gateway_has_no_more_users_than_allowed_over_both_nodes() {
    let Some(mut world) = nodes(2) else { return };
    let new = |user: usize, id| gateway_user(id, user, 5);
    let users: Vec<_> = (0..16).map(|user| new(user, AccountId::new(START, world.random()))).collect();
    let made = in_turn(&world, users, |node, user| node.open_gateway_account(user, START));
    assert_eq!(made.iter().filter(|made| made.is_ok()).count(), 5);
    assert_eq!(made.iter().filter(|made| **made == Err(ChangeError::TooMany)).count(), 11);
    let known = made.iter().position(Result::is_ok).unwrap();
    let again = new(known, AccountId::new(START, world.random()));
    for node in world.nodes() {
        let account = node.open_gateway_account(again.clone(), START).wait().unwrap();
        assert_eq!(Ok(account.id), made[known].as_ref().map(|account| account.id));
        wait_until("the user is known", || node.gateway_account("one", &again.user, "free").is_some());
    }
}

#[test]
fn one_user_of_a_gateway_gets_one_account_over_both_nodes() {
    let Some(mut world) = nodes(2) else { return };
    for round in 0..10 {
        let ids: Vec<_> = (0..10).map(|_| AccountId::new(START, world.random())).collect();
        let users = ids.into_iter().map(|id| gateway_user(id, round, 100));
        let made = in_turn(&world, users, |node, user| node.open_gateway_account(user, START));
        let made: Vec<_> = made.into_iter().map(|made| made.unwrap().id).collect();
        assert!(made.iter().all(|id| *id == made[0]), "{made:?}");
    }
    assert_eq!(world.accounts(None, 100, START).wait().unwrap().len(), 10);
}

#[test]
fn a_name_is_given_once_over_both_nodes() {
    let Some(mut world) = nodes(2) else { return };
    for round in 0..10 {
        let name = format!("n{round}");
        let new = (0..10).map(|_| new_account(AccountId::new(START, world.random()), &name));
        let new: Vec<_> = new.collect();
        let made = in_turn(&world, new, |node, new| node.create_account(new, START));
        assert_eq!(made.iter().filter(|made| made.is_ok()).count(), 1);
        assert_eq!(made.iter().filter(|made| **made == Err(ChangeError::NameTaken)).count(), 9);
    }
}

#[test]
fn three_nodes_that_start_at_once_make_one_first_account() {
    let Some(url) = postgres::url() else { return };
    let schema = Arc::new(InSchema::new(url));
    let barrier = Arc::new(Barrier::new(3));
    let starts: Vec<_> = (1..=3u8)
        .map(|node| {
            let (schema, barrier) = (Arc::clone(&schema), Arc::clone(&barrier));
            thread::spawn(move || {
                barrier.wait();
                let (store, _) = store_pg::open(schema.options(node.into(), true), plans(), START).unwrap();
                barrier.wait();
                let id = AccountId::new(START, node.into());
                let first = FirstRun { account: new_account(id, "default"), keys: vec![new_key(id, node)] };
                let made = store.first_run(first, START).wait().unwrap();
                barrier.wait();
                (store, made)
            })
        })
        .collect();
    let (stores, made): (Vec<_>, Vec<_>) = starts.into_iter().map(|start| start.join().unwrap()).unzip();
    assert_eq!(made.iter().flatten().count(), 1);
    for store in &stores {
        assert_eq!(store.accounts(None, 10, START).wait().unwrap().len(), 1);
        wait_until("the key is known", || {
            (1..=3).filter(|&node| store.key_by_hash(&[node; 32]).is_some()).count() == 1
        });
    }
}
