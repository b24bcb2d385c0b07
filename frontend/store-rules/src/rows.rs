//! What the rules need of a database: tables of rows, each a key and a value of bytes, in the order of their keys.
//!
//! [`Rows`] reads within one snapshot or one transaction, [`RowsMut`] writes within one transaction. [`TypedTable`] adds the
//! types of keys and rows.
//!
//! A database may lack a row that it has not fetched yet. It then returns any error and notes what it lacks; the caller of
//! the rule fetches it and calls the rule again. So a rule passes errors on, and can be called any number of times.

use crate::row::Row;
use std::marker::PhantomData;
use std::ops::{Bound, RangeBounds};
use store::StoreError;

/// Whether a walk goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Walk {
    /// With the next row.
    On,
    /// The rule has what it needs.
    Stop,
}

/// The keys of a walk, and their order.
#[derive(Debug, Clone, Copy)]
pub struct KeyRange<'k> {
    /// The smallest key.
    pub from: Bound<&'k [u8]>,
    /// The largest key.
    pub to: Bound<&'k [u8]>,
    /// Whether the largest key comes first.
    pub backwards: bool,
    /// The largest number of rows.
    pub most: usize,
}

impl KeyRange<'_> {
    /// Every row of a table.
    pub const ALL: KeyRange<'static> =
        KeyRange { from: Bound::Unbounded, to: Bound::Unbounded, backwards: false, most: usize::MAX };
}

/// A row or a range that a job reads.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Want {
    /// A row, which a write locks.
    Row(Table, Vec<u8>),
    /// A row without a lock.
    Peek(Table, Vec<u8>),
    /// The rows of a range, as in [`KeyRange`]; both bounds are included.
    Range {
        /// The table.
        table: Table,
        /// The smallest key.
        from: Vec<u8>,
        /// The largest key.
        to: Vec<u8>,
        /// Whether the largest key comes first.
        backwards: bool,
        /// The largest number of rows.
        most: usize,
    },
}

impl Want {
    /// A row, which a write locks.
    pub fn row(table: Table, key: &[u8]) -> Want {
        Want::Row(table, key.to_vec())
    }

    /// A row without a lock.
    pub fn peek(table: Table, key: &[u8]) -> Want {
        Want::Peek(table, key.to_vec())
    }
}

/// What a walk calls with each row: its key and value.
pub type Each<'e> = dyn FnMut(&[u8], &[u8]) -> Result<Walk, StoreError> + 'e;

/// Reads of tables within one snapshot or one transaction.
pub trait Rows {
    /// Passes the value of a row to `read`; returns whether the row exists. A transaction locks the row until its end.
    ///
    /// # Errors
    ///
    /// [`StoreError::Failed`] if it cannot be read, as for every method.
    fn get(&self, table: Table, key: &[u8], read: &mut dyn FnMut(&[u8])) -> Result<bool, StoreError>;

    /// [`Rows::get`] without a lock: for rows that several accounts read.
    ///
    /// # Errors
    ///
    /// As [`Rows::get`].
    fn peek(&self, table: Table, key: &[u8], read: &mut dyn FnMut(&[u8])) -> Result<bool, StoreError> {
        self.get(table, key, read)
    }

    /// Passes the rows of a range to `each`, with key and value, until it stops the walk. No row is locked, and `each` must
    /// not use the tables.
    ///
    /// # Errors
    ///
    /// As [`Rows::get`], or the error of `each`.
    fn walk(&self, table: Table, range: KeyRange<'_>, each: &mut Each<'_>) -> Result<(), StoreError>;

    /// The number of rows of a table.
    ///
    /// # Errors
    ///
    /// As [`Rows::get`].
    fn count(&self, table: Table) -> Result<u64, StoreError>;

    /// Says what the rule will read next, so that a database over a network can fetch it at once.
    fn expect(&self, wants: &mut dyn Iterator<Item = Want>) {
        let _ = wants;
    }
}

/// Writes to tables within one transaction, which sees them at once.
pub trait RowsMut: Rows {
    /// Writes a row, which replaces that with the same key.
    ///
    /// # Errors
    ///
    /// As [`Rows::get`].
    fn put(&mut self, table: Table, key: &[u8], value: &[u8]) -> Result<(), StoreError>;

    /// Removes a row if it exists.
    ///
    /// # Errors
    ///
    /// As [`Rows::get`].
    fn remove(&mut self, table: Table, key: &[u8]) -> Result<(), StoreError>;
}

macro_rules! tables {
    ($($name:ident $text:literal,)* ; $($shared:ident $shared_text:literal,)*) => {
        /// Every table. docs/storage.md describes them.
        #[expect(missing_docs, reason = "tables.rs describes each table at its type")]
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum Table {
            $($name,)*
            $($shared,)*
        }

        impl Table {
            /// All tables of any database.
            pub const ALL: [Table; tables!(@count $($name)* $($shared)*)] =
                [$(Table::$name,)* $(Table::$shared,)*];

            /// The tables that every database has. Backups write them in this order, so a table that is missing here is
            /// missing in backups.
            pub const KEPT: [Table; tables!(@count $($name)*)] = [$(Table::$name,)*];

            /// The name in the database and in backups.
            pub fn name(self) -> &'static str {
                match self {
                    $(Table::$name => $text,)*
                    $(Table::$shared => $shared_text,)*
                }
            }
        }
    };
    (@count) => { 0 };
    (@count $first:ident $($rest:ident)*) => { 1 + tables!(@count $($rest)*) };
}
tables! {
    Meta "meta",
    Accounts "accounts",
    Names "names",
    Keys "keys",
    Holds "holds",
    Ledger "ledger",
    Limits "limits",
    Windows "windows",
    FairUse "fair_use",
    Results "results",
    Batches "batches",
    BatchRows "batch_rows",
    OpenBatches "open_batches",
    Idempotency "idempotency",
    Expiries "expiries",
    Users "users",
    Emails "emails",
    Sessions "sessions",
    SessionsOf "sessions_of",
    SignInLinks "sign_in_links",
    Days "days",
    Lists "lists",
    ListParts "list_parts",
    ListCodes "list_codes",
    Clients "clients",
    Connections "connections",
    Tokens "tokens",
    Refusals "refusals",
    Withdrawn "withdrawn",
    Webhooks "webhooks",
    Outbox "outbox",
    OutboxDue "outbox_due",
    WebhookTurns "webhook_turns",
    Deliveries "deliveries",
    ListUse "list_use",
    StoredBytes "stored_bytes",
    ; // The tables above are in every database and in backups, those below only in PostgreSQL.
    UnderWay "under_way",
}

/// A table whose values are bytes of no fixed form.
#[derive(Debug, Clone, Copy)]
pub struct Blob;

/// A table with the types of its keys and rows.
pub struct TypedTable<K: ?Sized, R> {
    /// The table.
    pub table: Table,
    types: PhantomData<fn(&K) -> R>,
}

impl<K: ?Sized, R> Clone for TypedTable<K, R> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<K: ?Sized, R> Copy for TypedTable<K, R> {}

impl<K: ?Sized, R> TypedTable<K, R> {
    /// The types of a table.
    pub const fn new(table: Table) -> TypedTable<K, R> {
        TypedTable { table, types: PhantomData }
    }

    /// The number of rows.
    pub fn count(self, rows: &dyn Rows) -> Result<u64, StoreError> {
        rows.count(self.table)
    }

    /// Whether it has no row.
    pub fn is_empty(self, rows: &dyn Rows) -> Result<bool, StoreError> {
        let mut is_empty = true;
        rows.walk(self.table, KeyRange { most: 1, ..KeyRange::ALL }, &mut |_, _| {
            is_empty = false;
            Ok(Walk::Stop)
        })?;
        Ok(is_empty)
    }
}

impl<K: AsRef<[u8]> + ?Sized, R> TypedTable<K, R> {
    /// Whether a row exists.
    pub fn has(self, rows: &dyn Rows, key: &K) -> Result<bool, StoreError> {
        rows.get(self.table, key.as_ref(), &mut |_| {})
    }

    /// Removes a row if it exists.
    pub fn remove(self, rows: &mut dyn RowsMut, key: &K) -> Result<(), StoreError> {
        rows.remove(self.table, key.as_ref())
    }
}

impl<K: AsRef<[u8]> + ?Sized, R: Row> TypedTable<K, R> {
    /// The row with a key.
    pub fn get(self, rows: &dyn Rows, key: &K) -> Result<Option<R>, StoreError> {
        let mut found = None;
        rows.get(self.table, key.as_ref(), &mut |value| found = Some(R::decode(value)))?;
        found.transpose()
    }

    /// The row with a key, without a lock.
    pub fn peek(self, rows: &dyn Rows, key: &K) -> Result<Option<R>, StoreError> {
        let mut found = None;
        rows.peek(self.table, key.as_ref(), &mut |value| found = Some(R::decode(value)))?;
        found.transpose()
    }

    /// Writes a row, which replaces the one with the same key.
    pub fn put(self, rows: &mut dyn RowsMut, key: &K, row: &R) -> Result<(), StoreError> {
        rows.put(self.table, key.as_ref(), &row.encode())
    }
}

impl<K: AsRef<[u8]> + ?Sized> TypedTable<K, Blob> {
    /// The bytes of the row with a key, passed to `read`.
    pub fn read<T>(
        self,
        rows: &dyn Rows,
        key: &K,
        mut read: impl FnMut(&[u8]) -> T,
    ) -> Result<Option<T>, StoreError> {
        let mut found = None;
        rows.get(self.table, key.as_ref(), &mut |value| found = Some(read(value)))?;
        Ok(found)
    }

    /// Writes the bytes of a row.
    pub fn write(self, rows: &mut dyn RowsMut, key: &K, value: &[u8]) -> Result<(), StoreError> {
        rows.put(self.table, key.as_ref(), value)
    }
}

impl<const N: usize, R> TypedTable<[u8; N], R> {
    /// Says that the rule will read the rows with these keys, so that they can be fetched at once.
    pub fn expect<'k>(self, rows: &dyn Rows, keys: impl IntoIterator<Item = &'k [u8; N]>) {
        rows.expect(&mut keys.into_iter().map(|key| Want::Row(self.table, key.to_vec())));
    }

    /// The keys of a range in their order, at most `most`.
    pub fn keys(
        self,
        rows: &dyn Rows,
        range: impl RangeBounds<[u8; N]>,
        most: usize,
    ) -> Result<Vec<[u8; N]>, StoreError> {
        let mut keys = Vec::new();
        rows.walk(self.table, bytes_of(&range, false, most), &mut |key, _| {
            keys.push(self.key(key)?);
            Ok(Walk::On)
        })?;
        Ok(keys)
    }

    fn key(self, bytes: &[u8]) -> Result<[u8; N], StoreError> {
        let damaged =
            |_| StoreError::Failed(format!("table {} has a key that cannot be read", self.table.name()));
        <[u8; N]>::try_from(bytes).map_err(damaged)
    }
}

impl<const N: usize, R: Row> TypedTable<[u8; N], R> {
    /// Passes the rows of a range in their order to `each`, at most `most`.
    pub fn walk(
        self,
        rows: &dyn Rows,
        range: impl RangeBounds<[u8; N]>,
        most: usize,
        each: impl FnMut([u8; N], R) -> Walk,
    ) -> Result<(), StoreError> {
        self.walk_range(rows, bytes_of(&range, false, most), each)
    }

    /// [`TypedTable::walk`] from the largest key to the smallest.
    pub fn walk_back(
        self,
        rows: &dyn Rows,
        range: impl RangeBounds<[u8; N]>,
        most: usize,
        each: impl FnMut([u8; N], R) -> Walk,
    ) -> Result<(), StoreError> {
        self.walk_range(rows, bytes_of(&range, true, most), each)
    }

    /// Passes every row to `each`.
    pub fn walk_all(self, rows: &dyn Rows, mut each: impl FnMut([u8; N], R)) -> Result<(), StoreError> {
        self.walk_range(rows, KeyRange::ALL, |key, row| {
            each(key, row);
            Walk::On
        })
    }

    fn walk_range(
        self,
        rows: &dyn Rows,
        range: KeyRange<'_>,
        mut each: impl FnMut([u8; N], R) -> Walk,
    ) -> Result<(), StoreError> {
        rows.walk(self.table, range, &mut |key, value| Ok(each(self.key(key)?, R::decode(value)?)))
    }
}

fn bytes_of<const N: usize>(range: &impl RangeBounds<[u8; N]>, backwards: bool, most: usize) -> KeyRange<'_> {
    let (from, to) =
        (range.start_bound().map(<[u8; N]>::as_slice), range.end_bound().map(<[u8; N]>::as_slice));
    KeyRange { from, to, backwards, most }
}
