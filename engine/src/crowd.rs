//! How many patient works may be at one site at a time.
//!
//! A slow or dead site must not fill the engine: whoever hands over a list would wait for it, and all other sites with
//! him. So works of batches and lists take a place at their site, from when they reach it until they are answered,
//! and who finds none is told so at once ([`crate::Outage::Crowded`]). Somebody who waits for his answer
//! ([`crate::Priority::Single`]) needs no place.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The patient works at one site.
#[derive(Default)]
pub(crate) struct Crowd(Arc<AtomicUsize>);

/// A place among them, until it is dropped. It travels with the work, and so between threads.
pub(crate) struct Stay(Arc<AtomicUsize>);

impl Crowd {
    /// A place, if fewer than `most` are taken.
    pub(crate) fn enter(&self, most: usize) -> Option<Stay> {
        // The shard that owns the site alone enters; others only leave. So nobody gets in between.
        if self.0.load(Ordering::Relaxed) >= most {
            return None;
        }
        self.0.fetch_add(1, Ordering::Relaxed);
        Some(Stay(Arc::clone(&self.0)))
    }

    /// Whether it is a place of this crowd.
    pub(crate) fn has(&self, stay: &Stay) -> bool {
        Arc::ptr_eq(&self.0, &stay.0)
    }
}

impl Drop for Stay {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_bounded_and_come_back() {
        let (crowd, other) = (Crowd::default(), Crowd::default());
        let stays: Vec<Stay> = (0..3).filter_map(|_| crowd.enter(2)).collect();
        assert_eq!(stays.len(), 2);
        assert!(crowd.has(&stays[0]) && !other.has(&stays[0]));
        drop(stays);
        assert!(crowd.enter(1).is_some());
    }
}
