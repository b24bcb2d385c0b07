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

/// Counts a shard; `None` when all of its memory is free.
type Count = Box<dyn Fn() -> Option<Census>>;

thread_local! {
    static COUNTS: RefCell<Vec<Count>> = const { RefCell::new(Vec::new()) };
}

/// Has a shard counted from now on.
pub(crate) fn watch(count: Count) {
    COUNTS.with(|counts| counts.borrow_mut().push(count));
}

/// The counts of all shards that live.
pub(crate) fn take() -> Vec<Census> {
    COUNTS.with(|counts| counts.borrow().iter().filter_map(|count| count()).collect())
}

/// No shard is counted any more.
pub(crate) fn clear() {
    COUNTS.with(|counts| counts.borrow_mut().clear());
}
