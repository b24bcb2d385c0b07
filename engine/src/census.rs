//! Counts of the state that the shards of a simulation keep.

use std::cell::RefCell;

/// Counts of the state that a shard keeps.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[expect(missing_docs, reason = "counts, named by what they count")]
pub struct Census {
    pub sessions: usize,
    pub groups: usize,
    pub sites: usize,
    pub waiting: usize,
}

/// Counts the state of one shard. `None` after the memory of the shard is freed.
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
