//! A check that a clock which is ahead does not remove data: a destroyed key cannot be restored.
//!
//! A running process does not follow a jump of its clock at once ([`clock`](store::clock)). This module covers the time
//! before its start. The store records when it last removed expired data. If it is opened much later, it was stopped
//! for long or the clock is wrong: nothing is removed until the clock has advanced for a while. If it is opened much
//! earlier, the clock is or was wrong: periods do not change until then.

use super::tables::{META, META_SEEN};
use ::redb::{Database, ReadableDatabase, ReadableTable, WriteTransaction};
use store::{StoreError, UnixMs};

const HOUR_MS: UnixMs = 60 * 60 * 1000;
/// After a stop longer than this the clock may be wrong.
const STOPPED_MAX_MS: UnixMs = 24 * HOUR_MS;
/// How long the clock must advance then.
const WAIT_MS: UnixMs = 15 * 60 * 1000;
/// The precision of the recorded time, since one write for each removal would be too many.
const STEP_MS: UnixMs = HOUR_MS;

/// The times until which the clock is not trusted.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct ClockCheck {
    /// No data is removed before this time.
    removes_from: UnixMs,
    /// Before this time, periods are at least those of `seen`.
    rolls_from: UnixMs,
    seen: UnixMs,
}

impl ClockCheck {
    /// The check of a store that is opened now.
    pub fn read(database: &Database, now: UnixMs) -> Result<ClockCheck, StoreError> {
        let seen = database.begin_read()?.open_table(META)?.get(META_SEEN)?.map(|seen| seen.value());
        let seen = seen.unwrap_or(now);
        let until = |is_far: bool| if is_far { now.saturating_add(WAIT_MS) } else { 0 };
        Ok(ClockCheck {
            removes_from: until(now.saturating_sub(seen) > STOPPED_MAX_MS),
            rolls_from: until(seen.saturating_sub(now) > STOPPED_MAX_MS),
            seen,
        })
    }

    /// Whether expired data may be removed.
    pub fn removes(&self, now: UnixMs) -> bool {
        now >= self.removes_from
    }

    /// The time that determines periods.
    pub fn of_periods(&self, now: UnixMs) -> UnixMs {
        if now < self.rolls_from { now.max(self.seen) } else { now }
    }
}

/// Records that expired data is being removed now.
pub(super) fn note(transaction: &WriteTransaction, now: UnixMs) -> Result<(), StoreError> {
    let mut meta = transaction.open_table(META)?;
    let seen = meta.get(META_SEEN)?.map(|seen| seen.value());
    if seen.is_none_or(|seen| now.abs_diff(seen) >= STEP_MS) {
        meta.insert(META_SEEN, now)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use crate::tests::key_files;
    use crate::{RedbStore, StoreOptions};
    use std::path::Path;
    use store::{AccountId, EntryId, HoldRef, HoldRequest, NewAccount, PlanTable, Settlement, Store, UnixMs};

    const NOW: UnixMs = 1_801_386_600_000;
    const DAY: UnixMs = 24 * super::HOUR_MS;

    fn open(folder: &Path, now: UnixMs) -> RedbStore {
        RedbStore::open(folder, PlanTable::standard(), StoreOptions::default(), now).unwrap().0
    }

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
        let new = NewAccount { id, name: "a".into(), plan: "free".into() };
        store.create_account(new, NOW).wait().unwrap();
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
        store.purge(ahead + super::WAIT_MS).wait().unwrap();
        assert!(
            before.iter().all(|key| *key == "hash" || !key_files(folder.path()).contains(key)),
            "they are kept for good"
        );
    }
}
