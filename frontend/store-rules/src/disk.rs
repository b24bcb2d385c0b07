//! The space of the disk that holds the database.

use engine::proto::sharing::{Bounds, ShareUse, UsedUp};
use std::sync::Arc;
use store::StoreError;

/// The part of the disk that stays free of what can wait: batches and lists. The ends of checks, sign-ins and purges go on.
const RESERVE_PART: u64 = 8;
const RESERVE_BYTES_MAX: u64 = 512 << 20;
/// The part of the disk that one account can fill.
const SHARE_PART: u64 = 16;

fn reserve(total: u64) -> u64 {
    (total / RESERVE_PART).min(RESERVE_BYTES_MAX)
}

/// How much of the disk is used; nothing is known of the disk of another machine.
pub struct Disk(Option<Arc<ShareUse>>);

impl Disk {
    /// A disk of another machine.
    pub const UNKNOWN: Disk = Disk(None);

    /// A disk with this many bytes in all, of which these are free.
    pub fn new(total: u64, free: u64) -> Disk {
        let bounds = Bounds { share: total / SHARE_PART, all: total - reserve(total) };
        let disk = Disk(Some(Arc::new(ShareUse::new("disk", bounds))));
        disk.note(total, free);
        disk
    }

    /// The figures for metrics, if they are known.
    pub fn figures(&self) -> Option<Arc<ShareUse>> {
        self.0.clone()
    }

    /// Notes what the system says now. The disk may have become larger since the start: then more of it is free than the bound says.
    pub fn note(&self, total: u64, free: u64) {
        if let Some(used) = &self.0 {
            let (taken, all) = (total.saturating_sub(free), used.bounds.all);
            used.set_used(if free <= reserve(total) {
                taken.max(all)
            } else {
                taken.min(all.saturating_sub(1))
            });
        }
    }

    /// The bytes that one account may fill.
    pub fn share(&self) -> u64 {
        self.0.as_ref().map_or(u64::MAX, |used| used.bounds.share)
    }

    /// Refuses what can wait while the disk is nearly full.
    pub(crate) fn check(&self) -> Result<(), StoreError> {
        match self.0.as_ref().filter(|used| used.is_used_up()) {
            Some(used) => {
                used.count_refusal(UsedUp::All);
                Err(StoreError::NotDone("the disk of the data folder is nearly full".into()))
            }
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_can_wait_is_refused_before_the_disk_is_full() {
        let mib = |n: u64| n << 20;
        let disk = Disk::new(mib(64), mib(9));
        assert_eq!((disk.check(), disk.share()), (Ok(()), mib(4)));
        disk.note(mib(64), mib(8));
        assert!(disk.check().is_err());
        assert_eq!(disk.figures().map(|used| used.refused(UsedUp::All)), Some(1));
        disk.note(mib(64), mib(20));
        assert_eq!(disk.check(), Ok(()));
        disk.note(mib(256), mib(150));
        assert_eq!(disk.check(), Ok(()), "it was made larger");
        disk.note(mib(256), mib(32));
        assert!(disk.check().is_err());
        assert!(
            Disk::new(1 << 40, mib(513)).check().is_ok() && Disk::new(1 << 40, mib(512)).check().is_err()
        );
        assert!(Disk::UNKNOWN.check().is_ok() && Disk::UNKNOWN.figures().is_none());
    }
}
