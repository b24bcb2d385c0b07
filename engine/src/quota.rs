//! The number of patient works that one site may have at a time.
//!
//! A slow or dead site must not fill the engine, because then the lists of all other sites would wait too. So a work of a batch or
//! list needs an admission from the time when it reaches its site until it is answered. If it gets none, its client is told so at
//! once ([`crate::Outage::SiteFull`]). A single check ([`crate::Priority::Single`]) needs no admission.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The count of the patient works at one site.
#[derive(Default)]
pub(crate) struct SiteQuota(Arc<AtomicUsize>);

/// The place of one patient work in the count of its site. Dropping it frees the place. It travels with the work, and so between
/// threads.
pub(crate) struct SiteAdmission(Arc<AtomicUsize>);

impl SiteQuota {
    /// Gives a place if fewer than `most` are taken.
    pub(crate) fn enter(&self, most: usize) -> Option<SiteAdmission> {
        // Only the shard that owns the site adds; other threads only subtract. So the count cannot grow between these two
        // operations.
        if self.0.load(Ordering::Relaxed) >= most {
            return None;
        }
        self.0.fetch_add(1, Ordering::Relaxed);
        Some(SiteAdmission(Arc::clone(&self.0)))
    }

    /// Whether the admission belongs to this site.
    pub(crate) fn has(&self, admission: &SiteAdmission) -> bool {
        Arc::ptr_eq(&self.0, &admission.0)
    }
}

impl Drop for SiteAdmission {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_bounded_and_come_back() {
        let (quota, other) = (SiteQuota::default(), SiteQuota::default());
        let stays: Vec<SiteAdmission> = (0..3).filter_map(|_| quota.enter(2)).collect();
        assert_eq!(stays.len(), 2);
        assert!(quota.has(&stays[0]) && !other.has(&stays[0]));
        drop(stays);
        assert!(quota.enter(1).is_some());
    }
}
