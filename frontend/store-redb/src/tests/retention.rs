//! Tests: expired data cannot be read, whatever remains on the disk.
//!
//! The test keeps every sealed value that the tables ever had, like a backup or an old page of redb. After the expiry
//! it tries every remaining key file on every one of them.

use super::index_check::check_index;
use crate::backup::restore;
use crate::rows::ReadRows;
use crate::tests::{RedbStore, check_sums, create_account, open as open_store};
use crate::*;
use ::redb::ReadableDatabase;
use api::Reason;
use std::collections::BTreeSet;
use std::path::Path;
use store::*;
use store_rules::row::Row;
use store_rules::tables::{BATCH_ROWS, BATCHES, BatchRow, RESULTS, ResultRow, split_rows};
use vault::bundle::Bundle;
use vault::{KEY_FOLDER, Place, VaultKey};

const HOUR: UnixMs = 60 * 60 * 1000;
const DAY: UnixMs = 24 * HOUR;
/// Ten minutes into an hour.
const NOW: UnixMs = 1_801_386_600_000;

/// A sealed value and its place.
type Sealed = (&'static str, [u8; 32], Vec<u8>);

/// A store in a new folder, with an account.
fn new_store() -> (tempfile::TempDir, RedbStore, AccountId) {
    let folder = tempfile::tempdir().unwrap();
    let store = open_store(folder.path(), NOW);
    let account = create_account(&store, 1, "scale", NOW);
    (folder, store, account)
}

/// Every sealed value in the tables.
fn sealed_values(store: &RedbStore) -> BTreeSet<Sealed> {
    let rows = ReadRows::new(store.database().begin_read().unwrap());
    let mut found = BTreeSet::new();
    let mut batches = Vec::new();
    let result = |key, row: ResultRow| {
        found.insert((ResultRow::TABLE, key, row.sealed));
    };
    RESULTS.walk_all(&rows, result).unwrap();
    BATCHES.walk_all(&rows, |key, row| batches.push((key, row))).unwrap();
    for (key, row) in batches {
        let sealed = |stored: &[u8]| split_rows(&row, stored).unwrap().1.to_vec();
        found.insert(("batch_rows", key, BATCH_ROWS.read(&rows, &key, sealed).unwrap().unwrap()));
        if !row.answers.is_empty() {
            found.insert((BatchRow::TABLE, key, row.answers));
        }
    }
    found
}

/// How many of the values can be opened with a key file of the folder.
fn opened(folder: &Path, values: &BTreeSet<Sealed>) -> usize {
    let keys: Vec<VaultKey> = std::fs::read_dir(folder.join(KEY_FOLDER))
        .unwrap()
        .map(|entry| {
            let bytes = std::fs::read(entry.unwrap().path()).unwrap();
            vault::vault_key(&bytes.try_into().unwrap())
        })
        .collect();
    let opens = |(table, row, sealed): &&Sealed| {
        keys.iter().any(|key| key.open(Place { table, row }, sealed).is_some())
    };
    values.iter().filter(opens).count()
}

fn verify(store: &RedbStore, account: AccountId, address: &str, reason: Reason, now: UnixMs) {
    let bits = id::random_bits().unwrap();
    let hold = HoldRef { account, id: EntryId::new(now, bits) };
    store.hold(HoldRequest { hold, credits: 1 }, now).wait().unwrap();
    let record = ResultRecord { address: store.hash_address(address), verdict: reason.into() };
    store.settle(hold, Settlement { result: Some(record) }, now).wait().unwrap();
}

fn submit(store: &RedbStore, account: AccountId, addresses: &[&str], now: UnixMs) -> BatchId {
    let row = |address: &&str| NewRow { email: (*address).into(), address: store.hash_address(address) };
    let id = BatchId::new(now, id::random_bits().unwrap());
    let rows = addresses.iter().map(row).collect();
    let new = NewBatch { id, account, name: None, rows, idempotency: None, mode: BatchMode::Live };
    store.create_batch(new, Authority::OPERATOR, now).wait().unwrap().batch
}

fn answer(store: &RedbStore, batch: BatchId, index: u32, now: UnixMs) {
    let answer = RowAnswer { batch, index, outcome: RowOutcome::Verified(Reason::MailboxExists.into()) };
    store.answer_rows(vec![answer], now).wait().unwrap();
}

#[test]
fn after_its_expiry_no_key_that_is_left_opens_a_value() {
    let (folder, store, a) = new_store();
    let mut short = BTreeSet::new();
    for n in 0..5 {
        verify(&store, a, &format!("s{n}@example.com"), Reason::CatchAll, NOW + n);
        short.append(&mut sealed_values(&store));
    }
    verify(&store, a, "long@example.com", Reason::MailboxExists, NOW);
    let batch = submit(&store, a, &["one@example.com", "two@example.com"], NOW);
    let mut all = sealed_values(&store);
    answer(&store, batch, 0, NOW);
    all.append(&mut sealed_values(&store));
    answer(&store, batch, 1, NOW + HOUR);
    all.append(&mut sealed_values(&store));
    // Another batch, which is never answered.
    submit(&store, a, &["three@example.com"], NOW);
    all.append(&mut sealed_values(&store));
    assert_eq!(opened(folder.path(), &all), all.len(), "the test opens what is not expired");
    assert!(short.is_subset(&all));

    // A value expires to the millisecond, its key at the end of the hour.
    store.purge(NOW + DAY + 4).wait().unwrap();
    assert_eq!(sealed_values(&store).intersection(&short).count(), 0);
    store.purge((NOW / HOUR + 25) * HOUR).wait().unwrap();
    assert_eq!(opened(folder.path(), &short), 0);
    assert_eq!(opened(folder.path(), &all), all.len() - short.len());

    // The open batch was ended a week after its creation, and can be read for one more week.
    store.purge(NOW + 7 * DAY).wait().unwrap();
    all.append(&mut sealed_values(&store));
    let end = NOW + 14 * DAY + HOUR;
    store.purge(end).wait().unwrap();
    assert_eq!(opened(folder.path(), &all), 0);
    assert_eq!(sealed_values(&store), BTreeSet::new());
    check_index(&store);
    let balance = store.account(a, NOW).wait().unwrap().unwrap().balance;
    assert_eq!((balance.spent, balance.held), (8, 0));
}

#[test]
fn files_hold_no_address_in_clear() {
    let (folder, store, a) = new_store();
    verify(&store, a, "needle@example.com", Reason::MailboxExists, NOW);
    let batch = submit(&store, a, &["needle@example.com", "needle-two@example.com"], NOW);
    answer(&store, batch, 1, NOW);
    assert!(store.batch(a, batch, NOW).wait().unwrap().unwrap().completed);
    drop(store);
    let database = std::fs::read(folder.path().join(DATABASE_FILE)).unwrap();
    assert!(!database.windows(6).any(|bytes| bytes == b"needle"));
}

#[test]
fn what_has_lost_its_key_is_as_good_as_expired() {
    let (folder, store, a) = new_store();
    verify(&store, a, "one@example.com", Reason::MailboxExists, NOW);
    let complete = submit(&store, a, &["one@example.com"], NOW);
    let open = submit(&store, a, &["two@example.com", "three@example.com"], NOW);
    answer(&store, open, 0, NOW);
    drop(store);
    for entry in std::fs::read_dir(folder.path().join(KEY_FOLDER)).unwrap() {
        let path = entry.unwrap().path();
        if !path.ends_with("hash") {
            std::fs::remove_file(path).unwrap();
        }
    }
    for remade in [false, true] {
        let store = open_store(folder.path(), NOW);
        if remade {
            // Keys of the same hours, with other bytes.
            store.purge(NOW).wait().unwrap();
        }
        let address = store.hash_address("one@example.com");
        assert_eq!(store.known(a, &address, NOW).wait(), Ok(Known::Nothing));
        assert_eq!(store.batch(a, complete, NOW).wait(), Ok(None));
        assert_eq!(store.unanswered(open).wait(), Ok(vec![]));
        answer(&store, open, 1, NOW);
        assert_eq!(store.batch(a, open, NOW).wait().unwrap().unwrap().checked, 1, "the answer is dropped");
    }
    let store = open_store(folder.path(), NOW);
    let purged = store.purge(NOW + BATCH_OPEN_MS).wait().unwrap();
    assert_eq!((purged.ended, store.batch(a, open, NOW).wait()), (1, Ok(None)));
    check_index(&store);
    // Three checks; the unanswered row of the open batch is refunded.
    let balance = store.account(a, NOW).wait().unwrap().unwrap().balance;
    assert_eq!((balance.spent, balance.held), (3, 0));
    check_sums(&store);
}

#[test]
fn one_purge_is_bounded_and_says_when_there_is_more() {
    let (_folder, store, a) = new_store();
    let addresses: Vec<String> = (0..200).map(|n| format!("{n}@example.com")).collect();
    let rows: Vec<&str> = addresses.iter().map(String::as_str).collect();
    for round in 0..11u32 {
        // The addresses differ each time, since repeats would need no check.
        let rows: Vec<String> = rows.iter().map(|row| format!("{round}.{row}")).collect();
        let batch = submit(&store, a, &rows.iter().map(String::as_str).collect::<Vec<_>>(), NOW);
        let outcome = RowOutcome::Verified(Reason::MailboxExists.into());
        let answers = (0..200).map(|index| RowAnswer { batch, index, outcome: outcome.clone() }).collect();
        store.answer_rows(answers, NOW).wait().unwrap();
    }
    let late = NOW + 8 * DAY;
    let first = store.purge(late).wait().unwrap();
    assert!(first.more && first.results < 2_200, "{first:?}");
    let mut results = first.results;
    loop {
        let purged = store.purge(late).wait().unwrap();
        results += purged.results;
        if !purged.more {
            break;
        }
    }
    // Some were removed with the groups of writes.
    assert!((2_000..=2_200).contains(&results), "{results}");
    check_index(&store);
    assert_eq!(sealed_values(&store), BTreeSet::new());
}

#[test]
fn a_backup_of_a_node_with_a_chain_restores_to_a_folder_without_one() {
    let folder = tempfile::tempdir().unwrap();
    Bundle::create(NOW).unwrap().install(folder.path()).unwrap();
    let store = open_store(folder.path(), NOW);
    let a = create_account(&store, 1, "scale", NOW);
    verify(&store, a, "short@example.com", Reason::CatchAll, NOW);
    verify(&store, a, "long@example.com", Reason::MailboxExists, NOW);
    submit(&store, a, &["one@example.com"], NOW);
    let all = sealed_values(&store);
    let backup = folder.path().join("backup");
    store.backup(&mut std::fs::File::create(&backup).unwrap(), NOW).unwrap();
    let restored = folder.path().join("restored");
    restore(&backup, &restored, NOW).unwrap();
    assert!(!restored.join(KEY_FOLDER).join("chain").exists());
    assert_eq!(opened(&restored, &all), all.len());
    let again = open_store(&restored, NOW);
    let address = again.hash_address("long@example.com");
    assert!(matches!(again.known(a, &address, NOW).wait().unwrap(), Known::Own(_)));
    // The node itself still has its chain and its database.
    drop(store);
    drop(open_store(folder.path(), NOW));
}
