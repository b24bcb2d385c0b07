//! The rules of accounts, keys and plans, with one test each. `scenarios.txt` has those of holds, periods and grants.

use crate::world::{DAY, OPERATOR, START, World, new_account, plans};
use store::SubscriptionStatus::{Active, PastDue};
use store::*;

/// 2027-02-28T09:00:00Z: the end of the first period.
const FEBRUARY: UnixMs = START + 28 * DAY;

#[test]
fn an_account_begins_with_its_plans_credits() {
    let mut world = World::new();
    let id = world.account("first", "free");
    let account = world.read(id);
    assert_eq!((account.name.as_str(), account.plan.as_str(), account.status), ("first", "free", Active));
    assert_eq!((account.created_at, account.period_end), (START, Some(FEBRUARY)));
    assert_eq!((account.balance.allowance, account.balance.available()), (100, 100));
    assert!(!account.cancel_at_period_end);
    world.check(id, (100, 0, 0, 0, 0));
}

#[test]
fn old_entries_are_carried() {
    let (mut world, id) = World::with_account("scale");
    let idle = world.account("idle", "free");
    for _ in 0..300 {
        let hold = world.hold(id, 1).unwrap();
        world.settle(hold).unwrap();
    }
    let old = world.hold(id, 1).unwrap();
    let before = world.audit(None).wait().unwrap().entries;
    assert_eq!(before, 302);
    world.now += 120 * DAY;
    for _ in 0..60 {
        let hold = world.hold(idle, 1).unwrap();
        world.settle(hold).unwrap();
    }
    world.let_chores_run();
    world.check_sums();
    let entries = world.entries(id, usize::MAX).wait().unwrap();
    assert_eq!(entries.len(), 1, "{entries:?}");
    assert_eq!((entries[0].kind, entries[0].spent, entries[0].granted), (EntryKind::Carried, 300, 500_000));
    // An open hold is never removed.
    world.settle(old).unwrap();
    assert_eq!(world.read(id).balance.spent, 301);
    world.check_sums();
}

#[test]
fn names_are_unique_and_readable() {
    let mut world = World::new();
    let id = world.account("a name", "free");
    let create = |world: &mut World, name: &str, plan: &str| {
        let id = AccountId::new(world.now, world.random());
        let new = NewAccount { plan: plan.into(), ..new_account(id, name) };
        world.create_account(new, world.now).wait().map(drop)
    };
    assert_eq!(create(&mut world, "a name", "free"), Err(ChangeError::NameTaken));
    assert_eq!(create(&mut world, "b", "gold"), Err(ChangeError::UnknownPlan));
    let long = "ä".repeat(TEXT_CHARS_MAX);
    for bad in ["", " b", "b ", "b\tc", "b\u{1b}[m", &format!("{long}b"), &id.to_string()] {
        assert_eq!(create(&mut world, bad, "free"), Err(ChangeError::BadText), "{bad:?}");
    }
    assert_eq!(create(&mut world, &long, "free"), Ok(()));
    let again = world.create_account(new_account(id, "c"), world.now).wait();
    assert_eq!(again, Err(ChangeError::Exists));
    let find = |name: &str| world.account_named(name, world.now).wait().unwrap().map(|account| account.id);
    assert_eq!(find("a name"), Some(id));
    assert_eq!(find("c"), None);
}

#[test]
fn accounts_come_in_pages() {
    let mut world = World::new();
    let ids: Vec<_> = (0..5).map(|n| world.account(&format!("n{n}"), "free")).collect();
    let page = |after, limit| -> Vec<_> {
        let accounts = world.accounts(after, limit, world.now).wait().unwrap();
        accounts.into_iter().map(|account| account.id).collect()
    };
    assert_eq!(page(None, 100), ids);
    assert_eq!(page(None, 2), ids[..2]);
    assert_eq!(page(Some(ids[1]), 2), ids[2..4]);
    assert_eq!(page(Some(ids[4]), 2), []);
    assert!(world.store().account(AccountId::new(0, 0), world.now).wait().unwrap().is_none());
}

#[test]
fn keys_are_found_until_they_are_revoked() {
    let (mut world, id) = World::with_account("free");
    let new = world.new_key(id, "laptop");
    assert_eq!(world.key_by_hash(&new.hash), None);
    let made = world.create_key(new.clone(), OPERATOR, world.now).wait().unwrap();
    assert_eq!((made.account, made.label.as_str(), made.revoked_at), (id, "laptop", None));
    let found = world.key_by_hash(&new.hash).unwrap();
    assert_eq!((found.id, found.account, found.mode, found.revoked), (new.id, id, KeyMode::Live, false));
    assert_eq!(world.create_key(new.clone(), OPERATOR, world.now).wait(), Err(ChangeError::Exists));

    world.now += 5;
    let revoked = world.revoke_key(new.id, world.now).wait().unwrap();
    assert_eq!(revoked.revoked_at, Some(world.now));
    assert!(world.key_by_hash(&new.hash).unwrap().revoked);
    world.now += 5;
    assert_eq!(world.revoke_key(new.id, world.now).wait(), Ok(revoked.clone()));
    world.reopen();
    assert!(world.key_by_hash(&new.hash).unwrap().revoked);
    assert_eq!(world.keys(id).wait().unwrap(), [revoked]);
}

#[test]
fn keys_are_refused_for_a_reason() {
    let (mut world, id) = World::with_account("free");
    let orphan = world.new_key(AccountId::new(1, 1), "");
    assert_eq!(world.create_key(orphan, OPERATOR, world.now).wait(), Err(ChangeError::UnknownAccount));
    let bad = world.new_key(id, "a\u{7}");
    assert_eq!(world.create_key(bad, OPERATOR, world.now).wait(), Err(ChangeError::BadText));
    let unknown = KeyId::new(1, 1);
    assert_eq!(world.revoke_key(unknown, world.now).wait(), Err(ChangeError::UnknownKey));
    world.key_used(unknown, world.now);
    assert_eq!(world.keys(id).wait().unwrap(), []);
}

#[test]
fn an_account_has_so_many_keys_and_those_revoked_first_are_forgotten() {
    let mut world = World::new();
    let (id, other) = (world.account("a", "free"), world.account("b", "free"));
    let make = |world: &mut World, account| {
        let new = world.new_key(account, "");
        (new.hash, world.create_key(new, OPERATOR, world.now))
    };
    // Simultaneous requests: keys of the same transaction count.
    let made: Vec<_> = (0..=KEYS_MAX).map(|_| make(&mut world, id)).collect();
    let made: Vec<_> = made.into_iter().map(|(hash, made)| (hash, made.wait())).collect();
    let refused = made.iter().filter(|(_, made)| *made == Err(ChangeError::TooManyKeys)).count();
    assert_eq!((refused, world.keys(id).wait().unwrap().len()), (1, KEYS_MAX));
    make(&mut world, other).1.wait().unwrap();

    let mut keys: Vec<(_, KeyId)> =
        made.into_iter().filter_map(|(hash, made)| Some((hash, made.ok()?.id))).collect();
    while keys.len() < KEYS_KEPT_MAX {
        // The newest key is revoked first.
        world.now += 1;
        let newest = keys.last().unwrap().1;
        world.revoke_key(newest, world.now).wait().unwrap();
        let (hash, made) = make(&mut world, id);
        keys.push((hash, made.wait().unwrap().id));
    }
    let first_revoked = keys[KEYS_MAX - 1].0;
    assert!(world.key_by_hash(&first_revoked).unwrap().revoked);
    assert_eq!(
        make(&mut world, id).1.wait(),
        Err(ChangeError::TooManyKeys),
        "and nothing is forgotten for it"
    );
    assert!(world.key_by_hash(&first_revoked).is_some());
    world.revoke_key(keys[0].1, world.now).wait().unwrap();
    make(&mut world, id).1.wait().unwrap();
    for _ in 0..2 {
        assert_eq!(world.keys(id).wait().unwrap().len(), KEYS_KEPT_MAX);
        assert_eq!(world.keys(other).wait().unwrap().len(), 1);
        assert_eq!(world.key_by_hash(&first_revoked), None);
        assert!(world.key_by_hash(&keys[0].0).unwrap().revoked, "it was made first, and revoked last");
        assert!(!world.key_by_hash(&keys[1].0).unwrap().revoked);
        world.reopen();
    }
}

#[test]
fn the_last_use_is_kept_to_the_minute() {
    let (mut world, id) = World::with_account("free");
    let new = world.new_key(id, "");
    world.create_key(new.clone(), OPERATOR, world.now).wait().unwrap();
    let last = |world: &World| world.keys(id).wait().unwrap()[0].last_used_at;
    assert_eq!(last(&world), None);
    world.key_used(new.id, world.now);
    assert_eq!(last(&world), Some(START));
    world.now += 59_999;
    world.key_used(new.id, world.now);
    assert_eq!(last(&world), Some(START));
    world.now += 1;
    world.key_used(new.id, world.now);
    world.revoke_key(new.id, world.now).wait().unwrap();
    world.reopen();
    assert_eq!(last(&world), Some(START + 60_000));
}

#[test]
fn the_first_run_happens_once() {
    let mut world = World::new();
    let account = new_account(AccountId::new(world.now, world.random()), "default");
    let keys = vec![world.new_key(account.id, "first"), world.new_key(account.id, "second")];
    let first = FirstRun { account, keys };
    let unknown_plan = FirstRun {
        account: NewAccount { plan: "gold".into(), ..first.account.clone() },
        keys: first.keys.clone(),
    };
    assert_eq!(world.first_run(unknown_plan, world.now).wait(), Err(ChangeError::UnknownPlan));
    assert_eq!(world.keys(first.account.id).wait().unwrap(), []);

    let made = world.first_run(first.clone(), world.now).wait().unwrap().unwrap();
    assert_eq!((made.id, made.balance.available()), (first.account.id, 100));
    assert_eq!(world.keys(made.id).wait().unwrap().len(), 2);
    assert_eq!(world.first_run(first.clone(), world.now).wait(), Ok(None));
    world.reopen();
    assert_eq!(world.first_run(first, world.now).wait(), Ok(None));
    world.check_sums();
}

#[test]
fn a_plan_that_is_in_use_must_be_defined() {
    let mut world = World::new();
    world.account("a", "free");
    world.account("b", "endless");
    world.account("c", "free");
    let other = PlanTable::new([Plan::new("team", "Team", 70)]).unwrap();
    let said = world.reopen_with(other).unwrap_err().to_string();
    assert!(said.contains("does not define: \"endless\" (accounts: 1), \"free\" (accounts: 2). "), "{said}");
    // A changed number of credits applies from the next period on.
    let id = world.reopen_with(
        PlanTable::new(plans().iter().map(|plan| Plan { monthly_credits: 9, ..plan.clone() })).unwrap(),
    );
    assert_eq!(id, Ok(()));
    let account = world.account_named("a", world.now).wait().unwrap().unwrap();
    world.set_status(account.id, PastDue);
    world.check(account.id, (100, 0, 0, 0, 0));
    world.now = FEBRUARY;
    world.check(account.id, (9, 0, 0, 0, 100));
}

#[test]
fn plans_are_replaced_while_the_store_is_open() {
    let mut world = World::new();
    let free = world.account("a", "free");
    world.account("b", "endless");
    let without = |id: &str| PlanTable::new(plans().iter().filter(|plan| plan.id != id).cloned()).unwrap();
    let refused = world.replace_plans(without("endless"));
    assert_eq!(refused, Err(OpenError::PlansMissing("\"endless\" (accounts: 1)".into())));
    assert!(world.plans().find("endless").is_some(), "nothing changed");

    // A plan that nobody uses may go, and a new one may come.
    let mut table: Vec<Plan> = without("scale").iter().cloned().collect();
    table.push(Plan::new("team", "Team", 70));
    table.iter_mut().filter(|plan| plan.id == "free").for_each(|plan| {
        plan.monthly_credits = 9;
        plan.limits.verify = 3;
    });
    assert_eq!(world.replace_plans(PlanTable::new(table).unwrap()), Ok(()));
    assert_eq!(world.terms(free).unwrap().limits.verify, 3);
    world.check(free, (100, 0, 0, 0, 0));
    let team = world.account("c", "team");
    world.check(team, (70, 0, 0, 0, 0));
    let gone = world.store().set_plan(team, "scale".into(), world.now).wait();
    assert_eq!(gone.unwrap_err(), ChangeError::UnknownPlan);
    world.now = FEBRUARY;
    world.check(free, (9, 0, 0, 0, 100));
}

#[test]
fn writes_of_many_threads_lose_nothing() {
    let (world, id) = World::with_account("scale");
    let (store, now) = (world.shared(), world.now);
    std::thread::scope(|scope| {
        for thread in 0..4u128 {
            let store = &store;
            scope.spawn(move || {
                for n in 0..250u128 {
                    let hold = HoldRef { account: id, id: EntryId::new(now, (thread + 1) << 32 | n) };
                    store.hold(HoldRequest { hold, credits: 2 }, now).wait().unwrap();
                    if n % 2 == 0 {
                        store.settle(hold, Settlement::default(), now).wait().unwrap();
                    } else {
                        store.void(hold, now).wait().unwrap();
                    }
                }
            });
        }
    });
    drop(store);
    world.check(id, (499_000, 0, 0, 1_000, 0));
}

#[test]
fn only_so_many_holds_can_be_placed_as_there_are_credits() {
    let (world, id) = World::with_account("free");
    let (store, now) = (world.shared(), world.now);
    let placed: usize = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..4u128)
            .map(|thread| {
                let store = &store;
                scope.spawn(move || {
                    let waiting: Vec<_> = (0..50u128)
                        .map(|n| {
                            let hold = HoldRef { account: id, id: EntryId::new(now, (thread + 1) << 32 | n) };
                            store.hold(HoldRequest { hold, credits: 1 }, now)
                        })
                        .collect();
                    waiting.into_iter().filter_map(|hold| hold.wait().ok()).count()
                })
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).sum()
    });
    assert_eq!(placed, 100);
    drop(store);
    world.check(id, (0, 0, 100, 0, 0));
}
