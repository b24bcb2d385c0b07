//! The shared settings of the benches in `benches/`, each of which measures one frequent operation.
//!
//! `cargo bench -p bench` runs all of them, `--bench dns` one file. `-- --save-baseline NAME` keeps the figures, and
//! `-- --baseline NAME` compares with them. `cargo xtask bench-table` prints the latest ones as a table. [`brief`] has
//! the settings of every bench.
//!
//! Invariant: a bench contacts nothing outside of the machine, and all benches together take less than five minutes.

use criterion::Criterion;
use rustix::time::{ClockId, clock_gettime};
use std::time::Duration;

/// The settings of every bench: so short that all of them take less than five minutes.
pub fn brief() -> Criterion {
    Criterion::default().warm_up_time(Duration::from_secs(1)).measurement_time(Duration::from_secs(3))
}

/// The CPU seconds of this process so far.
pub fn cpu_s() -> f64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}
