//! Messages to systemd (sd_notify): the server is ready, reads its configuration again, stops, and is alive.
//!
//! Without systemd there is no socket for them, and nothing is sent. The watchdog is fed while the threads of the engine
//! have heartbeats: if one hangs, systemd restarts the server.

use sd_notify::NotifyState;
use std::time::Duration;

/// A thread of the engine without a heartbeat for this long hangs. The engine wakes sleeping threads every second.
const SILENT_MAX: Duration = Duration::from_secs(20);

/// The state that systemd shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ServiceState {
    /// The server takes requests, or does so again.
    Ready,
    /// It reads its configuration.
    Reloading,
    /// It drains.
    Stopping,
}

/// Tells systemd about a new state.
pub(super) fn tell(state: ServiceState) {
    let sent = match state {
        ServiceState::Ready => sd_notify::notify(&[NotifyState::Ready]),
        ServiceState::Stopping => sd_notify::notify(&[NotifyState::Stopping]),
        ServiceState::Reloading => NotifyState::monotonic_usec_now()
            .and_then(|now| sd_notify::notify(&[NotifyState::Reloading, now])),
    };
    if let Err(error) = sent {
        tracing::warn!("cannot notify systemd: {error}");
    }
}

/// The interval between two messages to the watchdog: half of its patience. `None` without a watchdog.
pub(super) fn watchdog_interval() -> Option<Duration> {
    sd_notify::watchdog_enabled().map(|patience| patience / 2)
}

/// Feeds the watchdog, unless a thread of the engine hangs.
pub(super) fn feed_watchdog(figures: &engine::Figures) {
    let hangs = figures.shards.iter().any(|shard| shard.silent > SILENT_MAX);
    if hangs {
        tracing::error!("a thread of the engine hangs, so the watchdog gets no message");
    } else if let Err(error) = sd_notify::notify(&[NotifyState::Watchdog]) {
        tracing::warn!("cannot notify systemd: {error}");
    }
}
