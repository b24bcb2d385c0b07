//! Benches of one hot thing each, in `benches/`; here is what they have in common.
//!
//! `cargo bench -p bench` runs all, `--bench dns` one file. `-- --save-baseline NAME` keeps the figures, `-- --baseline
//! NAME` compares with them. `cargo xtask bench-table` prints the latest as a table.

use criterion::Criterion;
use std::time::Duration;

/// Short enough that all of them take less than five minutes.
pub fn brief() -> Criterion {
    Criterion::default().warm_up_time(Duration::from_secs(1)).measurement_time(Duration::from_secs(3))
}
