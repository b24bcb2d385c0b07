//! Divides resources among the holders that share them. A holder is an account, or a network with all its clients.
//!
//! Each resource has two bounds ([`Bounds`]): one for all holders together, and one for each single holder, called its share.
//! [`FairQueue`] is for a resource that serves one item after another: its holders take turns. [`Quota`] is for what holders keep
//! for a while, such as bytes, places or connections. Both record in [`ShareUse`] how much is taken and how many requests were
//! refused, so that the operator sees which resource is used up.

mod queue;
mod quota;

pub use queue::{FairQueue, Turns};
pub use quota::{Quota, Taken};

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

/// The bound that a refused request would have exceeded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UsedUp {
    /// The share of the holder. Only this holder can make room.
    Share,
    /// The bound of all holders together.
    All,
}

/// The bounds of a shared resource, in the unit of the resource, such as bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bounds {
    /// The most that one holder may have.
    pub share: u64,
    /// The most that all holders together may have.
    pub all: u64,
}

/// How much of a shared resource is taken, and how many requests were refused, for metrics and `/readyz`. Reading takes no lock.
#[derive(Debug)]
pub struct ShareUse {
    /// The name of the resource in metrics and documents.
    pub name: &'static str,
    /// The bounds of the resource.
    pub bounds: Bounds,
    used: AtomicU64,
    refused_share: AtomicU64,
    refused_all: AtomicU64,
}

impl ShareUse {
    /// Starts the counts of a resource. Nothing is taken yet.
    pub fn new(name: &'static str, bounds: Bounds) -> ShareUse {
        let (used, refused_share, refused_all) = (AtomicU64::new(0), AtomicU64::new(0), AtomicU64::new(0));
        ShareUse { name, bounds, used, refused_share, refused_all }
    }

    /// How much all holders together have.
    pub fn used(&self) -> u64 {
        self.used.load(Relaxed)
    }

    /// How many requests were refused because of the bound `by`, or lost their places in a full queue because of it.
    pub fn refused(&self, by: UsedUp) -> u64 {
        match by {
            UsedUp::Share => self.refused_share.load(Relaxed),
            UsedUp::All => self.refused_all.load(Relaxed),
        }
    }

    /// Whether nothing is left for any holder.
    pub fn is_used_up(&self) -> bool {
        self.used() >= self.bounds.all
    }

    /// Sets how much all holders together have.
    pub fn set_used(&self, used: u64) {
        self.used.store(used, Relaxed);
    }

    /// Counts a refusal because of the bound `by`.
    pub fn count_refusal(&self, by: UsedUp) {
        match by {
            UsedUp::Share => &self.refused_share,
            UsedUp::All => &self.refused_all,
        }
        .fetch_add(1, Relaxed);
    }
}
