//! The removal of expired data, by an index of expiries. A transaction removes a limited part.
//!
//! Every group of writes takes a few steps, so a busy store needs no other removal. [`Txn::purge`] takes many steps,
//! for a store without writes. Only the latter ends batches, since that may need a new key of the vault.

use crate::rows::{Table, Want};
use crate::tables::{
    BATCH_ROWS, BATCHES, CLIENTS, EXPIRIES, Expiring, IDEMPOTENCY, RESULTS, WITHDRAWN, evidence_of_row,
    expiring_row, expiry_key, part_key, split,
};
use crate::txn::Txn;
use store::webhooks::EventKind;
use store::{ListId, StoreError};
use store::{Purged, UnixMs};
use vault::VaultKey;

/// How many rows a group of writes removes, in addition to two for each expiry that it noted.
const STEPS_WITH_GROUP: usize = 16;

/// How many rows one purge removes.
const STEPS: usize = 2_000;

/// How many batches one purge ends: each is opened and sealed again.
const ENDED_MAX: usize = 100;

/// The key of a row, from its note of expiry.
type KeyOfRow = fn(&[u8; 32]) -> Vec<u8>;

/// The kinds whose rows are removed without further steps.
const REMOVABLE: [Expiring; 9] = [
    Expiring::Result,
    Expiring::Batch,
    Expiring::Idempotency,
    Expiring::Session,
    Expiring::SignInLink,
    Expiring::Connection,
    Expiring::Client,
    Expiring::Withdrawn,
    Expiring::Delivery,
];

impl Txn<'_> {
    /// Takes the steps of a group, at the latest time of its writes.
    pub fn purge_some(&mut self) -> Result<(), StoreError> {
        let steps = STEPS_WITH_GROUP + 2 * self.effects.expiries_added;
        self.remove_expired(steps, self.effects.latest).map(drop)
    }

    /// Takes the steps of a whole purge. Without a key no batches are ended; they wait for the next purge.
    pub(crate) fn purge(
        &mut self,
        finishing_key: Option<&VaultKey>,
        now: UnixMs,
    ) -> Result<Purged, StoreError> {
        let mut late = Vec::new();
        if let Some(finishing_key) = finishing_key {
            late = self.expired(Expiring::OpenBatch, now, ENDED_MAX)?;
            self.expect_rows(Expiring::OpenBatch, &late)?;
            for expiry in &late {
                drop(self.give_up(&expiring_row(expiry), EventKind::BatchCompleted, finishing_key, now)?);
                // The note of a batch that is no longer open still exists.
                EXPIRIES.remove(self.rows, expiry)?;
            }
        }
        let mut purged = self.remove_expired(STEPS, now)?;
        purged.ended = late.len() as u64;
        purged.more |= late.len() == ENDED_MAX;
        Ok(purged)
    }

    fn remove_expired(&mut self, steps: usize, now: UnixMs) -> Result<Purged, StoreError> {
        let mut purged = Purged::default();
        let mut left = steps;
        for what in REMOVABLE {
            let expired = self.expired(what, now, left)?;
            left -= expired.len();
            self.expect_rows(what, &expired)?;
            for expiry in &expired {
                self.lock_row(what, &expiring_row(expiry))?;
                EXPIRIES.remove(self.rows, expiry)?;
                self.remove_row(what, &expiring_row(expiry))?;
            }
            *counter(&mut purged, what) += expired.len() as u64;
        }
        left = self.remove_lists(left, now, &mut purged)?;
        purged.more = left == 0;
        Ok(purged)
    }

    /// Removes lists, which have many rows: the note of a list remains until the last of them is removed. Returns the
    /// remaining steps.
    fn remove_lists(
        &mut self,
        mut left: usize,
        now: UnixMs,
        purged: &mut Purged,
    ) -> Result<usize, StoreError> {
        let expired = self.expired(Expiring::List, now, left)?;
        self.expect_rows(Expiring::List, &expired)?;
        for expiry in expired {
            if left == 0 {
                break;
            }
            left -= 1;
            let removed = self.remove_list(&expiring_row(&expiry), left, now)?;
            if removed < left {
                EXPIRIES.remove(self.rows, &expiry)?;
                purged.lists += 1;
            }
            left -= removed;
        }
        Ok(left)
    }

    /// Says what the removal of these rows will read.
    fn expect_rows(&self, what: Expiring, expired: &[[u8; 41]]) -> Result<(), StoreError> {
        let keys = expired.iter().map(expiring_row);
        let rows = self.rows();
        let row = |table, key: [u8; 32]| Want::Row(table, key.to_vec());
        if let Some((table, key_of)) = self.replaceable(what) {
            rows.expect(&mut keys.map(|key| Want::Row(table, key_of(&key))));
            return Ok(());
        }
        match what {
            Expiring::Session => rows.expect(&mut keys.map(|key| row(Table::Sessions, key))),
            Expiring::Connection => rows.expect(&mut keys.map(|key| row(Table::Connections, key))),
            Expiring::Delivery => self.expect_deliveries(&keys.collect::<Vec<_>>())?,
            Expiring::OpenBatch => rows.expect(&mut keys.flat_map(|key| {
                let account = Want::Row(Table::Accounts, split(&key).0.to_vec());
                [account, row(Table::Batches, key), row(Table::BatchRows, key)]
            })),
            Expiring::List => rows.expect(&mut keys.flat_map(|key| parts_of(&key))),
            // They are removed without a look at them.
            _ => {}
        }
        Ok(())
    }

    /// Locks a row that another transaction may be replacing. With the lock, its note is read again: a row that has a later
    /// expiry by now is kept.
    fn lock_row(&self, what: Expiring, row: &[u8; 32]) -> Result<(), StoreError> {
        match self.replaceable(what) {
            Some((table, key_of)) => self.rows().get(table, &key_of(row), &mut |_| {}).map(drop),
            None => Ok(()),
        }
    }

    /// The table and the keys of rows that are removed without a look at them, and may be replaced. On redb no other transaction
    /// writes.
    fn replaceable(&self, what: Expiring) -> Option<(Table, KeyOfRow)> {
        if !self.shared.has_nodes {
            return None;
        }
        match what {
            Expiring::Result => Some((RESULTS.table, |row| row.to_vec())),
            Expiring::Idempotency => Some((IDEMPOTENCY.table, |row| row.to_vec())),
            Expiring::Client => Some((CLIENTS.table, |row| split(row).0.to_vec())),
            Expiring::Withdrawn => Some((WITHDRAWN.table, |row| evidence_of_row(row).to_le_bytes().to_vec())),
            _ => None,
        }
    }

    fn remove_row(&mut self, what: Expiring, key: &[u8; 32]) -> Result<(), StoreError> {
        match what {
            Expiring::Result => RESULTS.remove(self.rows, key)?,
            Expiring::Idempotency => IDEMPOTENCY.remove(self.rows, key)?,
            Expiring::Session => self.remove_session(key)?,
            Expiring::SignInLink => self.remove_link(key)?,
            Expiring::Connection => drop(self.remove_connection(key)?),
            Expiring::Client => self.forget_client(key)?,
            Expiring::Withdrawn => self.forget_withdrawal(key)?,
            Expiring::Delivery => self.forget_delivery(key)?,
            // See `remove_lists` and the module `deletion`.
            Expiring::List | Expiring::Account => {}
            Expiring::Batch | Expiring::OpenBatch => {
                BATCH_ROWS.remove(self.rows, key)?;
                BATCHES.remove(self.rows, key)?;
            }
        }
        Ok(())
    }

    /// The notes of data that expired until `now`, oldest first, at most `limit`.
    pub(crate) fn expired(
        &self,
        what: Expiring,
        now: UnixMs,
        limit: usize,
    ) -> Result<Vec<[u8; 41]>, StoreError> {
        let range = expiry_key(what, 0, &[0; 32])..=expiry_key(what, now, &[0xff; 32]);
        EXPIRIES.keys(self.rows(), range, limit)
    }
}

/// The ranges of a list's parts and answers.
fn parts_of(key: &[u8; 32]) -> [Want; 2] {
    let id = ListId::from_bytes(split(key).1);
    let range = |table| Want::Range {
        table,
        from: part_key(id, 0).to_vec(),
        to: part_key(id, u32::MAX).to_vec(),
        backwards: false,
        most: STEPS,
    };
    [range(Table::ListParts), range(Table::ListCodes)]
}

/// The counter for one kind of removed data.
fn counter(purged: &mut Purged, what: Expiring) -> &mut u64 {
    match what {
        Expiring::Result => &mut purged.results,
        Expiring::Batch => &mut purged.batches,
        Expiring::OpenBatch => &mut purged.ended,
        Expiring::Idempotency => &mut purged.idempotency_keys,
        // `REMOVABLE` has no deleted accounts.
        Expiring::List | Expiring::Account => &mut purged.lists,
        Expiring::Session | Expiring::SignInLink => &mut purged.sessions,
        Expiring::Connection => &mut purged.connections,
        Expiring::Client => &mut purged.clients,
        Expiring::Withdrawn => &mut purged.withdrawn,
        Expiring::Delivery => &mut purged.deliveries,
    }
}
