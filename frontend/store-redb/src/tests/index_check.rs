//! A check for tests: the index of expiries has exactly one note for each row that expires.

use crate::rows::ReadRows;
use crate::tests::RedbStore;
use ::redb::ReadableDatabase;
use std::collections::BTreeSet;
use store::{ClientId, ListId};
use store_rules::rows::Rows;
use store_rules::tables::{
    BATCH_ROWS, BATCHES, CLIENTS, CONNECTIONS, EXPIRIES, Expiring, IDEMPOTENCY, LIST_PARTS, LISTS,
    OPEN_BATCHES, RESULTS, SESSIONS, SIGN_IN_LINKS, WITHDRAWN, client_expiry_row, expiring_row, expiry_key,
    part_key, split, withdrawn_row, withdrawn_until,
};

/// Panics if the index is wrong.
#[track_caller]
pub(crate) fn check_index(store: &RedbStore) {
    check(&ReadRows::new(store.database().begin_read().unwrap()));
}

#[track_caller]
fn check(rows: &dyn Rows) {
    let mut expected = BTreeSet::new();
    let mut expect = |what, at, row: &[u8; 32]| {
        expected.insert(expiry_key(what, at, row));
    };
    RESULTS.walk_all(rows, |key, row| expect(Expiring::Result, row.expires_at(), &key)).unwrap();
    IDEMPOTENCY.walk_all(rows, |key, row| expect(Expiring::Idempotency, row.expires_at(), &key)).unwrap();
    CONNECTIONS.walk_all(rows, |key, row| expect(Expiring::Connection, row.expires_at, &key)).unwrap();
    SESSIONS.walk_all(rows, |key, row| expect(Expiring::Session, row.expires_at(), &key)).unwrap();
    SIGN_IN_LINKS.walk_all(rows, |key, row| expect(Expiring::SignInLink, row.expires_at, &key)).unwrap();
    LISTS.walk_all(rows, |key, row| expect(Expiring::List, row.expires_at(), &key)).unwrap();
    let client = |key, row: store_rules::tables::ClientRow| {
        expect(Expiring::Client, row.expires_at, &client_expiry_row(ClientId::from_bytes(key)));
    };
    CLIENTS.walk_all(rows, client).unwrap();
    let withdrawn = |key, at: store_rules::row::Fixed| {
        expect(Expiring::Withdrawn, withdrawn_until(at.0), &withdrawn_row(u64::from_le_bytes(key)));
    };
    WITHDRAWN.walk_all(rows, withdrawn).unwrap();
    let mut open = 0;
    let batch = |key, row: store_rules::tables::BatchRow| {
        open += u64::from(row.is_open());
        match row.is_open() {
            true => expect(Expiring::OpenBatch, row.given_up_at(), &key),
            false => expect(Expiring::Batch, row.expires_at(), &key),
        }
    };
    BATCHES.walk_all(rows, batch).unwrap();
    let mut found: BTreeSet<_> = EXPIRIES.keys(rows, .., usize::MAX).unwrap().into_iter().collect();
    // The note of a list remains until its last part is removed.
    found.retain(|note| {
        let key = expiring_row(note);
        let id = ListId::from_bytes(split(&key).1);
        let left = || !LIST_PARTS.keys(rows, part_key(id, 0)..=part_key(id, u32::MAX), 1).unwrap().is_empty();
        note[0] != Expiring::List as u8 || LISTS.has(rows, &key).unwrap() || !left()
    });
    assert!(found == expected, "{} notes of {} rows", found.len(), expected.len());
    assert_eq!(OPEN_BATCHES.count(rows).unwrap(), open);
    assert_eq!(BATCH_ROWS.count(rows).unwrap(), BATCHES.count(rows).unwrap());
}
