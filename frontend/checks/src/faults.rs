//! The faults of this machine that prevent checks or make verdicts wrong, while a server runs.
//!
//! The command `serve` finds them, as `mailprobe doctor` does. `/readyz` and the dashboard show their names. The details
//! are for the operator: they are in the log and in the output of `mailprobe doctor`.

use std::sync::{Arc, PoisonError, RwLock};

/// The faults of the moment, shared by all threads.
#[derive(Debug, Default)]
pub struct Faults(RwLock<Arc<[&'static str]>>);

impl Faults {
    /// The names of the checks that fail, such as `resolver`; each name once.
    pub fn names(&self) -> Arc<[&'static str]> {
        Arc::clone(&self.0.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Replaces the faults. Names that are equal and adjacent become one.
    pub fn set(&self, mut names: Vec<&'static str>) {
        names.dedup();
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = names.into();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_appears_once() {
        let faults = Faults::default();
        assert!(faults.names().is_empty());
        faults.set(vec!["resolver", "resolver", "clock"]);
        assert_eq!(*faults.names(), ["resolver", "clock"]);
        faults.set(Vec::new());
        assert!(faults.names().is_empty());
    }
}
