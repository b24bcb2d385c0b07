//! What a database offers to the store.

use crate::rows::Table;

/// Whether a write may be refused if many are waiting.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Class {
    /// It starts something new, and is refused if the queue is full.
    New,
    /// It answers a hold or a row, or removes expired data, and is always accepted. There are never more of these than
    /// holds and rows, whose creation is `New`, and one purge.
    Answer,
}

/// What writes must agree on that belong to no account. Only one write with such a lock is under way at a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Lock {
    /// Changes of the index: accounts, names, keys, plans and limits. The index of this process has all earlier changes.
    Index,
    /// The number of clients of assistants.
    Clients,
    /// The bytes of all lists.
    Lists,
}

/// A row or a range that a job reads.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Want {
    /// A row, which a write locks.
    Row(Table, Vec<u8>),
    /// A row without a lock.
    Peek(Table, Vec<u8>),
    /// The rows of a range, as in [`KeyRange`](crate::rows::KeyRange); both bounds are included.
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
