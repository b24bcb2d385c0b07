//! Tests: a clock that is wrong removes no data and brings no credits.

use crate::tests::{RedbStore, create_account, key_files, open};
use store::{AccountId, EntryId, HoldRef, HoldRequest, Settlement, UnixMs};

const NOW: UnixMs = 1_801_386_600_000;
const DAY: UnixMs = 24 * 60 * 60 * 1000;

#[test]
fn a_clock_that_stood_ahead_takes_no_period_away() {
    let folder = tempfile::tempdir().unwrap();
    let id = AccountId::new(NOW, 1);
    let spend = |store: &RedbStore, n: u128, now: UnixMs| {
        let hold = HoldRef { account: id, id: EntryId::new(now, n) };
        let held = store.hold(HoldRequest { hold, credits: 60 }, now).wait();
        held.is_ok_and(|_| store.settle(hold, Settlement { result: None }, now).wait().is_ok())
    };
    let store = open(folder.path(), NOW);
    store.purge(NOW).wait().unwrap();
    create_account(&store, 1, "free", NOW);
    drop(store);
    let ahead = NOW + 400 * DAY;
    let store = open(folder.path(), ahead);
    assert!(spend(&store, 1, ahead));
    drop(store);
    // The clock is right again, and the next credits come a month later.
    let store = open(folder.path(), NOW + 2 * DAY);
    assert!(!spend(&store, 2, NOW + 3 * DAY));
    assert!(spend(&store, 3, NOW + 35 * DAY) && !spend(&store, 4, NOW + 36 * DAY));
    store.purge(NOW + 36 * DAY).wait().unwrap();
    drop(store);
    // The clock is far behind for a while, which brings no credits either.
    let store = open(folder.path(), NOW - 300 * DAY);
    assert!(!spend(&store, 5, NOW - 300 * DAY + 60_000));
    drop(store);
    let store = open(folder.path(), NOW + 37 * DAY);
    assert!(!spend(&store, 6, NOW + 37 * DAY));
    assert!(spend(&store, 7, NOW + 70 * DAY));
}

#[test]
fn a_start_with_a_clock_far_ahead_destroys_no_key() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path(), NOW);
    store.purge(NOW).wait().unwrap();
    let before = key_files(folder.path());
    drop(store);
    let ahead = NOW + 400 * DAY;
    let store = open(folder.path(), ahead);
    let are_kept = || before.iter().all(|key| key_files(folder.path()).contains(key));
    store.purge(ahead + 60_000).wait().unwrap();
    assert!(are_kept(), "keys were destroyed");
    drop(store);
    // The clock is right again.
    let store = open(folder.path(), NOW + 120_000);
    store.purge(NOW + 120_000).wait().unwrap();
    assert!(are_kept());
    drop(store);
    // The store was stopped for long.
    let store = open(folder.path(), ahead);
    store.purge(ahead + 15 * 60 * 1000).wait().unwrap();
    assert!(
        before.iter().all(|key| *key == "hash" || !key_files(folder.path()).contains(key)),
        "they are kept for good"
    );
}
