//! What all operations of a store share, besides its tables.

use crate::clock_check::ClockCheck;
use crate::disk::Disk;
use crate::index::KeyIndex;
use crate::results;
use crate::tables::{FORMAT_OF_BASES, FORMAT_OF_CAUSES};
use api::UnverifiableCause;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use store::{PlanTable, Verdict};
use vault::Vault;

/// The plans, keys and settings of an open store.
pub struct Shared {
    /// The plans of the moment.
    pub plans: SharedPlans,
    /// The keys that seal and hash rows.
    pub vault: Arc<Vault>,
    /// The API keys and terms in memory.
    pub index: KeyIndex,
    /// Whether the clock is trusted.
    pub clock_check: ClockCheck,
    /// The space of the database's disk.
    pub disk: Disk,
    /// Whether other nodes use the same database. Then checks in progress are noted in it.
    pub has_nodes: bool,
    /// The format of the database, which only rises. Nothing is written in a sealed value that nodes of this format cannot read.
    pub format: AtomicU32,
    /// Whether a verdict from one account's check may answer another account, which also pays for it.
    pub reuse: bool,
}

impl Shared {
    /// A cause, if the database can keep it.
    pub(crate) fn kept_cause(&self, cause: Option<UnverifiableCause>) -> Option<UnverifiableCause> {
        cause.filter(|_| self.has(FORMAT_OF_CAUSES))
    }

    /// Whether the database has this format or a newer one.
    pub(crate) fn has(&self, format: u32) -> bool {
        self.format.load(Ordering::Relaxed) >= format
    }

    /// A verdict as the database can keep it.
    pub(crate) fn kept(&self, verdict: Verdict) -> Verdict {
        let basis = verdict.basis.filter(|basis| self.has(FORMAT_OF_BASES) && results::fits(basis));
        Verdict { cause: self.kept_cause(verdict.cause), basis, ..verdict }
    }
}

/// The plans that the store and its writer use.
pub struct SharedPlans(RwLock<Arc<PlanTable>>);

impl SharedPlans {
    /// Plans that can be replaced.
    pub fn new(plans: PlanTable) -> SharedPlans {
        SharedPlans(RwLock::new(Arc::new(plans)))
    }

    /// The plans of the moment.
    pub fn get(&self) -> Arc<PlanTable> {
        Arc::clone(&self.0.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Replaces the plans for all later operations.
    pub fn replace(&self, plans: PlanTable) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(plans);
    }
}
