//! What a process tells of its store, and its place among the nodes.

use crate::histogram::{COMMIT_US, GROUP, Histogram};
use std::sync::Arc;
use std::sync::atomic::AtomicU32;

/// Figures of the store since it was opened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoreFigures {
    /// The number of waiting writes.
    pub waiting: usize,
    /// The times of commits in microseconds.
    pub commit_us: Histogram,
    /// The numbers of writes in each commit.
    pub group: Histogram,
    /// The number of spent credits.
    pub credits_spent: u64,
    /// The number of granted credits.
    pub credits_granted: u64,
}

impl Default for StoreFigures {
    fn default() -> StoreFigures {
        let (commit_us, group) = (Histogram::new(COMMIT_US), Histogram::new(GROUP));
        StoreFigures { waiting: 0, commit_us, group, credits_spent: 0, credits_granted: 0 }
    }
}

/// The place of a process among the nodes that share a database.
#[derive(Debug, Clone)]
pub struct NodePlace {
    /// The number of the node; `None` for a store of one process.
    pub node: Option<i64>,
    /// The number of live nodes whose checks come from the same public address. It includes this node, and the store updates it.
    pub egress_nodes: Arc<AtomicU32>,
}

impl NodePlace {
    /// The place of a process that shares its store with no other.
    pub fn alone() -> NodePlace {
        NodePlace { node: None, egress_nodes: Arc::new(AtomicU32::new(1)) }
    }
}
