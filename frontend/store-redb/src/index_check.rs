//! For tests: the index of expiries has one note for each row that expires, and no other.

use super::RedbStore;
use super::row::Row;
use super::tables::{
    BATCHES, BatchRow, CLIENTS, CONNECTIONS, ClientRow, ConnectionRow, EXPIRIES, Expiring, IDEMPOTENCY,
    IdempotencyRow, LIST_PARTS, LISTS, LinkRow, ListRow, RESULTS, ResultRow, SESSIONS, SIGN_IN_LINKS,
    SessionRow, WITHDRAWN, client_expiry_row, expiring_row, expiry_key, part_key, split, withdrawn_row,
    withdrawn_until,
};
use ::redb::{ReadableDatabase, ReadableTable, ReadableTableMetadata};
use std::collections::BTreeSet;
use store::{ClientId, ListId};

/// Panics where it has not.
#[track_caller]
pub(super) fn check_index(store: &RedbStore) {
    let transaction = store.database().begin_read().unwrap();
    let mut expected = BTreeSet::new();
    for next in transaction.open_table(RESULTS).unwrap().iter().unwrap() {
        let (key, row) = next.unwrap();
        let row = ResultRow::decode(row.value()).unwrap();
        expected.insert(expiry_key(Expiring::Result, row.expires_at(), key.value()));
    }
    for next in transaction.open_table(IDEMPOTENCY).unwrap().iter().unwrap() {
        let (key, row) = next.unwrap();
        let row = IdempotencyRow::decode(row.value()).unwrap();
        expected.insert(expiry_key(Expiring::Idempotency, row.expires_at(), key.value()));
    }
    for next in transaction.open_table(CONNECTIONS).unwrap().iter().unwrap() {
        let (key, row) = next.unwrap();
        let row = ConnectionRow::decode(row.value()).unwrap();
        expected.insert(expiry_key(Expiring::Connection, row.expires_at, key.value()));
    }
    for next in transaction.open_table(CLIENTS).unwrap().iter().unwrap() {
        let (key, row) = next.unwrap();
        let (id, row) = (ClientId::from_bytes(*key.value()), ClientRow::decode(row.value()).unwrap());
        expected.insert(expiry_key(Expiring::Client, row.expires_at, &client_expiry_row(id)));
    }
    for next in transaction.open_table(SESSIONS).unwrap().iter().unwrap() {
        let (key, row) = next.unwrap();
        let row = SessionRow::decode(row.value()).unwrap();
        expected.insert(expiry_key(Expiring::Session, row.expires_at(), key.value()));
    }
    for next in transaction.open_table(SIGN_IN_LINKS).unwrap().iter().unwrap() {
        let (key, row) = next.unwrap();
        let row = LinkRow::decode(row.value()).unwrap();
        expected.insert(expiry_key(Expiring::SignInLink, row.expires_at, key.value()));
    }
    for next in transaction.open_table(LISTS).unwrap().iter().unwrap() {
        let (key, row) = next.unwrap();
        let row = ListRow::decode(row.value()).unwrap();
        expected.insert(expiry_key(Expiring::List, row.expires_at(), key.value()));
    }
    for next in transaction.open_table(WITHDRAWN).unwrap().iter().unwrap() {
        let (evidence, at) = next.unwrap();
        let row = withdrawn_row(evidence.value());
        expected.insert(expiry_key(Expiring::Withdrawn, withdrawn_until(at.value()), &row));
    }
    let mut open = 0;
    for next in transaction.open_table(BATCHES).unwrap().iter().unwrap() {
        let (key, row) = next.unwrap();
        let row = BatchRow::decode(row.value()).unwrap();
        open += u64::from(row.is_open());
        expected.insert(if row.is_open() {
            expiry_key(Expiring::OpenBatch, row.given_up_at(), key.value())
        } else {
            expiry_key(Expiring::Batch, row.expires_at(), key.value())
        });
    }
    let notes = transaction.open_table(EXPIRIES).unwrap();
    let mut found: BTreeSet<_> = notes.iter().unwrap().map(|next| *next.unwrap().0.value()).collect();
    // The note of a list stays until its last part is gone.
    let (lists, parts) =
        (transaction.open_table(LISTS).unwrap(), transaction.open_table(LIST_PARTS).unwrap());
    found.retain(|note| {
        let key = expiring_row(note);
        let id = ListId::from_bytes(split(&key).1);
        let left = || {
            let (first, last) = (part_key(id, 0), part_key(id, u32::MAX));
            parts.range::<&[u8; 20]>(&first..=&last).unwrap().next().is_some()
        };
        note[0] != Expiring::List as u8 || lists.get(&key).unwrap().is_some() || !left()
    });
    assert!(found == expected, "{} notes of {} rows", found.len(), expected.len());
    assert_eq!(transaction.open_table(super::tables::OPEN_BATCHES).unwrap().len().unwrap(), open);
    let rows = transaction.open_table(super::tables::BATCH_ROWS).unwrap().len().unwrap();
    assert_eq!(rows, transaction.open_table(BATCHES).unwrap().len().unwrap());
}
