//! The phase of the server: the main thread sets it, and all threads read it.

use std::sync::atomic::{AtomicU8, Ordering};

/// A phase in the life of the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// Not all parts are running yet.
    Starting,
    /// The server takes requests.
    Ready,
    /// The server finishes the requests under way, and takes no new ones.
    Draining,
}

/// The current phase, shared by all threads.
#[derive(Debug, Default)]
pub struct Status(AtomicU8);

impl Status {
    /// The phase at this moment.
    pub fn phase(&self) -> Phase {
        match self.0.load(Ordering::Acquire) {
            0 => Phase::Starting,
            1 => Phase::Ready,
            _ => Phase::Draining,
        }
    }

    /// Enters a phase. The phase never returns to an earlier one.
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
