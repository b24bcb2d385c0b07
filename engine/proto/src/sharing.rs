//! Things that many holders share: accounts, or networks where there is no account.
//!
//! Each such thing has a bound in all and a share for each holder. [`FairQueue`] gives holders their turns at something that serves
//! one after another. [`Quota`] counts what holders keep for a while: bytes, places, connections. Both note in [`ShareUse`] how
//! much is taken and how often something was refused, so that the operator sees which thing is used up.

mod queue;
mod quota;

pub use queue::{FairQueue, Turns};
pub use quota::{Quota, Taken};

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

/// The bound that a holder has met.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UsedUp {
    /// The holder's own share is used up. It has to wait for itself.
    Share,
    /// The bound in all is used up, by others too.
    All,
}

/// The bounds of a shared thing, in its own unit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bounds {
    /// The most that one holder has.
    pub share: u64,
    /// The most that all holders have together.
    pub all: u64,
}

/// How much of a shared thing is taken, for metrics and for `/readyz`. Reading takes no lock.
#[derive(Debug)]
pub struct ShareUse {
    /// The name of the thing, as metrics and documents have it.
    pub name: &'static str,
    /// The most that one holder and all holders have.
    pub bounds: Bounds,
    used: AtomicU64,
    refused_share: AtomicU64,
    refused_all: AtomicU64,
}

impl ShareUse {
    /// Nothing is taken yet.
    pub fn new(name: &'static str, bounds: Bounds) -> ShareUse {
        let (used, refused_share, refused_all) = (AtomicU64::new(0), AtomicU64::new(0), AtomicU64::new(0));
        ShareUse { name, bounds, used, refused_share, refused_all }
    }

    /// What all holders have.
    pub fn used(&self) -> u64 {
        self.used.load(Relaxed)
    }

    /// How often a holder was refused because of this bound.
    pub fn refused(&self, by: UsedUp) -> u64 {
        match by {
            UsedUp::Share => self.refused_share.load(Relaxed),
            UsedUp::All => self.refused_all.load(Relaxed),
        }
    }

    /// Whether nothing is left for anybody.
    pub fn is_used_up(&self) -> bool {
        self.used() >= self.bounds.all
    }

    /// Sets what all holders have.
    pub fn set_used(&self, used: u64) {
        self.used.store(used, Relaxed);
    }

    /// Counts a refusal by this bound.
    pub fn count_refusal(&self, by: UsedUp) {
        match by {
            UsedUp::Share => &self.refused_share,
            UsedUp::All => &self.refused_all,
        }
        .fetch_add(1, Relaxed);
    }
}
