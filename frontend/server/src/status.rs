//! Whether the server starts, serves or drains: set by the main thread, read by all.

use std::sync::atomic::{AtomicU8, Ordering};

/// A phase of the server's life.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// Not everything runs yet.
    Starting,
    /// Requests are welcome.
    Ready,
    /// What is under way is finished; nothing new is taken.
    Draining,
}

/// The phase, shared.
#[derive(Debug, Default)]
pub struct Status(AtomicU8);

impl Status {
    /// The current phase.
    pub fn phase(&self) -> Phase {
        match self.0.load(Ordering::Acquire) {
            0 => Phase::Starting,
            1 => Phase::Ready,
            _ => Phase::Draining,
        }
    }

    /// Goes over to a phase; never back to an earlier one.
    pub fn enter(&self, phase: Phase) {
        self.0.fetch_max(phase as u8, Ordering::AcqRel);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn phases_only_go_forward() {
        let status = Status::default();
        assert_eq!(status.phase(), Phase::Starting);
        status.enter(Phase::Draining);
        status.enter(Phase::Ready);
        assert_eq!(status.phase(), Phase::Draining);
    }
}
