//! Changes of the index of keys, which all nodes learn in one order.
//!
//! A transaction that changes the index holds [`Lock::Index`](store_rules::backend::Lock). After it has the lock it reads the
//! changes that this node has not seen, so its rules see every earlier change. With its rows it writes its own changes, with
//! the next numbers. A sequence would not do: transactions commit in another order than they take numbers, and a node would
//! miss a change with a number below one that it has seen. The control connection reads new changes twice a second, so a
//! revocation applies on all nodes within two seconds.

use std::cell::Cell;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use store::{StoreError, StoreFigures, UnixMs};
use store_rules::index::KeyChange;
use store_rules::row::Row;
use store_rules::shared::Shared;
use store_rules::txn::Effects;

/// The statement that reads the changes after a number.
pub const READ_CHANGES: &str = "SELECT seq, v FROM changes WHERE seq > $1 ORDER BY seq LIMIT 10000";
/// The statement that writes changes with the numbers after one.
pub const WRITE_CHANGES: &str = "INSERT INTO changes (seq, v) \
     SELECT $1 + new.number, new.v FROM unnest($2::bytea[]) WITH ORDINALITY AS new(v, number)";
/// The statement that removes the changes before a number. They have names and labels, of which a deletion must leave nothing, so
/// they are kept for less than a minute. A node that was away for longer reads the whole index again.
pub const PRUNE_CHANGES: &str = "DELETE FROM changes WHERE seq < $1";

/// Work for the chores: what groups have added.
#[derive(Debug, Clone, Copy, Default)]
pub struct Left {
    /// Entries of the ledger.
    pub entries: u64,
    /// Notes of expiries.
    pub expiries: usize,
    /// The latest time of a write.
    pub latest: UnixMs,
}

/// What this node knows of the changes, and what a committed group leads to.
pub struct Feed {
    shared: Arc<Shared>,
    figures: Arc<Mutex<StoreFigures>>,
    /// The number of the last change in the index.
    last: Cell<i64>,
    /// What committed groups have left for the chores.
    left: Cell<Left>,
    /// Whether earlier changes are no longer there. The index must be read completely then.
    has_gap: Cell<bool>,
}

impl Feed {
    /// The feed of an index that has every change up to `last`.
    pub fn new(shared: Arc<Shared>, figures: Arc<Mutex<StoreFigures>>, last: i64) -> Feed {
        Feed { shared, figures, last: Cell::new(last), left: Cell::default(), has_gap: Cell::new(false) }
    }

    /// The number of the last change in the index.
    pub fn last(&self) -> i64 {
        self.last.get()
    }

    /// Applies changes that were read, in the order of their numbers. Those that the index has already are left out.
    ///
    /// # Errors
    ///
    /// A change cannot be read, or earlier ones are no longer there: the index must be read again.
    pub fn apply(&self, changes: Vec<(i64, Vec<u8>)>) -> Result<(), StoreError> {
        for (number, bytes) in changes {
            if number <= self.last.get() {
                continue;
            }
            if number != self.last.get() + 1 {
                self.has_gap.set(true);
                return Err(StoreError::Away(format!("change {number} follows {}", self.last.get())));
            }
            self.shared.index.apply(vec![KeyChange::decode(&bytes)?]);
            self.last.set(number);
        }
        Ok(())
    }

    /// What committed groups have left for the chores since the last call; `None` for nothing.
    pub fn take_left(&self) -> Option<Left> {
        let left = self.left.take();
        (left.entries > 0 || left.expiries > 0).then_some(left)
    }

    /// Whether the index must be read completely since the last call.
    pub fn take_gap(&self) -> bool {
        self.has_gap.take()
    }

    /// The index was read completely, with every change up to `last`.
    pub fn reload(&self, last: i64, content: Vec<KeyChange>) {
        self.shared.index.reload(content);
        self.last.set(last);
    }

    /// The encoded changes of a transaction.
    pub fn encode(effects: &Effects) -> Vec<Vec<u8>> {
        effects.key_changes.iter().map(Row::encode).collect()
    }

    /// A group was committed: its changes apply, before its jobs are answered. `before` is the number of the last change when
    /// they were written; the index may have them by now.
    pub fn committed(&self, before: i64, effects: Effects, writes: usize, took: Duration) {
        let number = i64::try_from(effects.key_changes.len()).unwrap_or(i64::MAX);
        if number > 0 && self.last.get() == before {
            self.shared.index.apply(effects.key_changes);
            self.last.set(before.saturating_add(number));
        }
        let Left { entries, expiries, latest } = self.left.get();
        self.left.set(Left {
            entries: entries.saturating_add(effects.entries_added),
            expiries: expiries.saturating_add(effects.expiries_added),
            latest: latest.max(effects.latest),
        });
        let mut figures = self.figures.lock().unwrap_or_else(PoisonError::into_inner);
        figures.group.record(writes as u64);
        figures.commit_us.record(u64::try_from(took.as_micros()).unwrap_or(u64::MAX));
        figures.credits_spent = figures.credits_spent.saturating_add(effects.total.spent);
        figures.credits_granted = figures.credits_granted.saturating_add(effects.total.granted);
    }
}
