//! Counts the state that the shards of a simulation keep, so that a test can see a leak.

use std::cell::RefCell;

/// The counts of what one shard keeps.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[expect(missing_docs, reason = "counts, named by what they count")]
pub struct Census {
    pub sessions: usize,
    pub groups: usize,
    pub sites: usize,
    pub waiting: usize,
}

/// Counts the state of one shard. Returns `None` when the shard no longer exists.
type Count = Box<dyn Fn() -> Option<Census>>;

thread_local! {
    static COUNTS: RefCell<Vec<Count>> = const { RefCell::new(Vec::new()) };
}

/// Adds a shard to those that [`take`] counts.
pub(crate) fn watch(count: Count) {
    COUNTS.with(|counts| counts.borrow_mut().push(count));
}

/// The counts of all shards that still exist.
pub(crate) fn take() -> Vec<Census> {
    COUNTS.with(|counts| counts.borrow().iter().filter_map(|count| count()).collect())
}

/// Forgets all shards.
pub(crate) fn clear() {
    COUNTS.with(|counts| counts.borrow_mut().clear());
}
