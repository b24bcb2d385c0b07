//! The frontend's runtime: monoio on io_uring if the kernel allows it, otherwise on epoll.
//!
//! Reasons for epoll: an old kernel has no io_uring (ENOSYS), container runtimes refuse it (EPERM), or a small memlock
//! limit leaves no room for a ring (ENOMEM). Linux before 6.1 does not have DEFER_TASKRUN (EINVAL), without which a
//! ring still works.

use engine::config::DriverChoice;
use io_uring::IoUring;
use monoio::{IoUringDriver, LegacyDriver, RuntimeBuilder};
use std::future::Future;
use std::io;

/// The entries of a thread's submission queue.
const RING_ENTRIES: u32 = 1024;

/// The kernel interface that the frontend threads use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Driver {
    /// io_uring with SINGLE_ISSUER and DEFER_TASKRUN: the kernel handles completions when the thread asks for them.
    UringDeferred,
    /// io_uring without these flags, for older kernels.
    Uring,
    /// epoll, which every kernel has.
    Epoll,
}

/// A driver with the reason for its choice.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Choice {
    /// The chosen driver of the runtime.
    pub driver: Driver,
    /// The reason, for the line that is printed at the start.
    pub why: String,
}

impl Driver {
    /// The name in the line that is printed at the start.
    pub fn name(self) -> &'static str {
        match self {
            Driver::UringDeferred | Driver::Uring => "io_uring",
            Driver::Epoll => "epoll",
        }
    }
}

/// Tries the drivers on this kernel, best first.
///
/// # Errors
///
/// One line, if io_uring was requested by name and is not available.
pub fn choose(asked: DriverChoice) -> Result<Choice, String> {
    if asked == DriverChoice::Epoll {
        return Ok(Choice { driver: Driver::Epoll, why: "as requested".into() });
    }
    let refused = match ring(Driver::UringDeferred).build(RING_ENTRIES) {
        Ok(_) => return Ok(Choice { driver: Driver::UringDeferred, why: "single issuer, deferred".into() }),
        Err(error) if error.raw_os_error() == Some(libc::EINVAL) => {
            match ring(Driver::Uring).build(RING_ENTRIES) {
                Ok(_) => {
                    return Ok(Choice {
                        driver: Driver::Uring,
                        why: "this kernel does not support DEFER_TASKRUN".into(),
                    });
                }
                Err(error) => error,
            }
        }
        Err(error) => error,
    };
    let why = explain(&refused);
    match asked {
        DriverChoice::IoUring => Err(format!("io_uring is not available: {why}; use --driver auto")),
        _ => Ok(Choice { driver: Driver::Epoll, why }),
    }
}

/// The reason why there is no ring.
fn explain(refused: &io::Error) -> String {
    match refused.raw_os_error() {
        Some(libc::ENOSYS) => "this kernel has no io_uring".into(),
        Some(libc::EPERM | libc::EACCES) => "io_uring is forbidden here".into(),
        Some(libc::ENOMEM) => "the memlock limit is too low for io_uring".into(),
        _ => format!("io_uring failed: {refused}"),
    }
}

fn ring(driver: Driver) -> io_uring::Builder {
    let mut builder = IoUring::builder();
    if driver == Driver::UringDeferred {
        builder.setup_single_issuer().setup_defer_taskrun();
    }
    builder
}

/// Runs a future on this thread to its end. If the ring of this thread fails after a successful trial, epoll replaces
/// it: each thread's ring counts towards memlock.
///
/// # Errors
///
/// Not even epoll is available.
pub fn run<F: Future>(driver: Driver, main: impl FnOnce(Driver) -> F) -> io::Result<F::Output> {
    if driver != Driver::Epoll {
        let built = RuntimeBuilder::<IoUringDriver>::new()
            .uring_builder(ring(driver))
            .with_entries(RING_ENTRIES)
            .enable_timer()
            .build();
        match built {
            Ok(mut runtime) => return Ok(runtime.block_on(main(driver))),
            Err(error) => tracing::warn!("a thread runs on epoll: {}", explain(&error)),
        }
    }
    let mut runtime = RuntimeBuilder::<LegacyDriver>::new().enable_timer().build()?;
    Ok(runtime.block_on(main(Driver::Epoll)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn epoll_can_be_forced_and_runs() {
        let choice = choose(DriverChoice::Epoll).unwrap();
        assert_eq!(choice.driver, Driver::Epoll);
        assert_eq!(run(choice.driver, |driver| async move { driver }).unwrap(), Driver::Epoll);
    }

    #[test]
    fn auto_always_finds_something_that_runs() {
        let choice = choose(DriverChoice::Auto).unwrap();
        assert_eq!(run(choice.driver, |_| async { 7 }).unwrap(), 7);
    }

    #[test]
    fn refusals_are_told_apart() {
        let said = |code| explain(&io::Error::from_raw_os_error(code));
        assert!(said(libc::ENOSYS).contains("kernel"));
        assert!(said(libc::EPERM).contains("forbidden"));
        assert!(said(libc::ENOMEM).contains("memlock"));
    }
}
