//! Limits the patient works (addresses of batches and lists) that one site has at a time. If a slow or dead site could fill the
//! engine, the addresses of all other sites would wait too.
//!
//! A patient work gets an admission when it reaches its site, and keeps the admission until it is answered, or until another try
//! brings it to another site. If the site is full, the work is answered at once with [`crate::Outage::SiteFull`]. Single checks
//! need no admission.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

/// The number of admitted works of one site.
#[derive(Default)]
pub(crate) struct SiteQuota(Arc<AtomicUsize>);

/// The admission of one work. It is a part of the work, so it may move to other threads. Dropping it makes room for another work.
pub(crate) struct SiteAdmission {
    count: Arc<AtomicUsize>,
    /// The time of the admission.
    pub(crate) at: Instant,
}

impl SiteQuota {
    /// Admits a work if the site has fewer than `most`.
    pub(crate) fn enter(&self, most: usize, at: Instant) -> Option<SiteAdmission> {
        // Only this thread, the shard of the site, adds to the count. Other threads only subtract. So the count cannot grow between
        // the load and the addition.
        if self.0.load(Ordering::Relaxed) >= most {
            return None;
        }
        self.0.fetch_add(1, Ordering::Relaxed);
        Some(SiteAdmission { count: Arc::clone(&self.0), at })
    }

    /// Whether this site gave the admission.
    pub(crate) fn has(&self, admission: &SiteAdmission) -> bool {
        Arc::ptr_eq(&self.0, &admission.count)
    }
}

impl Drop for SiteAdmission {
    fn drop(&mut self) {
        self.count.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_bounded_and_come_back() {
        let (quota, other) = (SiteQuota::default(), SiteQuota::default());
        let stays: Vec<SiteAdmission> = (0..3).filter_map(|_| quota.enter(2, Instant::now())).collect();
        assert_eq!(stays.len(), 2);
        assert!(quota.has(&stays[0]) && !other.has(&stays[0]));
        drop(stays);
        assert!(quota.enter(1, Instant::now()).is_some());
    }
}
