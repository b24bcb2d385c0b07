//! All tests of the program and its commands. They are one program, because each program links everything again.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod admin;
mod clean;
mod cluster;
mod contract;
mod harness;
mod http;
mod oauth;
mod web;

use std::time::{Duration, Instant};

/// Calls `look` until it returns a value, and returns the value. After a minute, which is long enough on a loaded machine, this
/// panics with the last error: it says what there is in place of the value. The pauses grow, because a key may poll only 600
/// times in a minute.
#[track_caller]
fn until<T>(mut look: impl FnMut() -> Result<T, String>) -> T {
    let began = Instant::now();
    loop {
        match look() {
            Ok(value) => return value,
            Err(seen) => assert!(began.elapsed() < Duration::from_secs(60), "after a minute: {seen}"),
        }
        let pause = began.elapsed() / 10;
        std::thread::sleep(pause.clamp(Duration::from_millis(20), Duration::from_millis(500)));
    }
}

/// Waits as [`until`] does, until a condition is true.
#[track_caller]
fn until_true(what: &str, mut is_true: impl FnMut() -> bool) {
    until(|| if is_true() { Ok(()) } else { Err(format!("not true: {what}")) });
}

/// Calls `act` with 0, 1, ... on this many threads at once; returns the results in this order.
fn at_once<T: Send>(count: usize, act: impl Fn(usize) -> T + Sync) -> Vec<T> {
    std::thread::scope(|scope| {
        let act = &act;
        let threads: Vec<_> = (0..count).map(|number| scope.spawn(move || act(number))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    })
}
