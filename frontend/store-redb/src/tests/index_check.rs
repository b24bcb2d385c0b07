//! A check for tests: the index of expiries has exactly one note for each row that expires.

use crate::RedbStore;
use crate::row::Row;
use crate::tables::{
    BATCHES, BatchRow, CLIENTS, CONNECTIONS, ClientRow, ConnectionRow, EXPIRIES, Expiring, IDEMPOTENCY,
    IdempotencyRow, LIST_PARTS, LISTS, LinkRow, ListRow, RESULTS, ResultRow, SESSIONS, SIGN_IN_LINKS,
    SessionRow, WITHDRAWN, client_expiry_row, expiring_row, expiry_key, part_key, split, withdrawn_row,
    withdrawn_until,
};
use ::redb::{ReadTransaction, ReadableDatabase, ReadableTable, ReadableTableMetadata, TableDefinition};
use std::collections::BTreeSet;
use store::{ClientId, ListId};

/// Panics if the index is wrong.
#[track_caller]
pub(crate) fn check_index(store: &RedbStore) {
    let transaction = store.database().begin_read().unwrap();
    let mut expected = BTreeSet::new();
    let mut expect = |what, at, row: &[u8; 32]| {
        expected.insert(expiry_key(what, at, row));
    };
    each(&transaction, RESULTS, |key, row: ResultRow| expect(Expiring::Result, row.expires_at(), key));
    each(&transaction, IDEMPOTENCY, |key, row: IdempotencyRow| {
        expect(Expiring::Idempotency, row.expires_at(), key)
    });
    each(&transaction, CONNECTIONS, |key, row: ConnectionRow| {
        expect(Expiring::Connection, row.expires_at, key)
    });
    each(&transaction, SESSIONS, |key, row: SessionRow| expect(Expiring::Session, row.expires_at(), key));
    each(&transaction, SIGN_IN_LINKS, |key, row: LinkRow| expect(Expiring::SignInLink, row.expires_at, key));
    each(&transaction, LISTS, |key, row: ListRow| expect(Expiring::List, row.expires_at(), key));
    each(&transaction, CLIENTS, |key, row: ClientRow| {
        expect(Expiring::Client, row.expires_at, &client_expiry_row(ClientId::from_bytes(*key)));
    });
    for next in transaction.open_table(WITHDRAWN).unwrap().iter().unwrap() {
        let (evidence, at) = next.unwrap();
        expect(Expiring::Withdrawn, withdrawn_until(at.value()), &withdrawn_row(evidence.value()));
    }
    let mut open = 0;
    each(&transaction, BATCHES, |key, row: BatchRow| {
        open += u64::from(row.is_open());
        match row.is_open() {
            true => expect(Expiring::OpenBatch, row.given_up_at(), key),
            false => expect(Expiring::Batch, row.expires_at(), key),
        }
    });
    let notes = transaction.open_table(EXPIRIES).unwrap();
    let mut found: BTreeSet<_> = notes.iter().unwrap().map(|next| *next.unwrap().0.value()).collect();
    // The note of a list remains until its last part is removed.
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
    assert_eq!(transaction.open_table(crate::tables::OPEN_BATCHES).unwrap().len().unwrap(), open);
    let rows = transaction.open_table(crate::tables::BATCH_ROWS).unwrap().len().unwrap();
    assert_eq!(rows, transaction.open_table(BATCHES).unwrap().len().unwrap());
}

/// Calls `take` with every row of a table and its key.
#[track_caller]
fn each<const N: usize, R: Row>(
    transaction: &ReadTransaction,
    table: TableDefinition<'_, &'static [u8; N], &'static [u8]>,
    mut take: impl FnMut(&[u8; N], R),
) {
    for next in transaction.open_table(table).unwrap().iter().unwrap() {
        let (key, row) = next.unwrap();
        take(key.value(), R::decode(row.value()).unwrap());
    }
}
