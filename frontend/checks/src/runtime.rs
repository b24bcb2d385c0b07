//! The frontend's runtime: monoio on io_uring where the kernel lets us, else on epoll.
//!
//! What can stand in the way: an old kernel has no io_uring (ENOSYS), container runtimes refuse it (EPERM), a
//! small memlock limit leaves no room for a ring (ENOMEM), and Linux before 6.1 does not know DEFER_TASKRUN
//! (EINVAL), without which a ring still works.

use engine::config::DriverChoice;
use io_uring::IoUring;
use monoio::{IoUringDriver, LegacyDriver, RuntimeBuilder};
use std::future::Future;
use std::io;

/// Entries of a thread's submission queue.
const RING_ENTRIES: u32 = 1024;

/// What the frontend threads run on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Driver {
    /// io_uring with SINGLE_ISSUER and DEFER_TASKRUN: completions are handled when the thread asks for them.
    UringDeferred,
    /// io_uring as older kernels have it.
    Uring,
    /// epoll.
    Epoll,
}

/// A driver, and why it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Choice {
    /// The driver.
    pub driver: Driver,
    /// For the line at start.
    pub why: String,
}

impl Driver {
    /// As the line at start names it.
    pub fn name(self) -> &'static str {
        match self {
            Driver::UringDeferred | Driver::Uring => "io_uring",
            Driver::Epoll => "epoll",
        }
    }
}

/// Tries what the kernel lets us do.
///
/// # Errors
/// One line, when io_uring was asked for by name and is not to be had.
pub fn choose(asked: DriverChoice) -> Result<Choice, String> {
    if asked == DriverChoice::Epoll {
        return Ok(Choice { driver: Driver::Epoll, why: "asked for".into() });
    }
    let refused = match ring(Driver::UringDeferred).build(RING_ENTRIES) {
        Ok(_) => return Ok(Choice { driver: Driver::UringDeferred, why: "single issuer, deferred".into() }),
        Err(error) if error.raw_os_error() == Some(libc::EINVAL) => {
            match ring(Driver::Uring).build(RING_ENTRIES) {
                Ok(_) => {
                    return Ok(Choice {
                        driver: Driver::Uring,
                        why: "this kernel does not know DEFER_TASKRUN".into(),
                    });
                }
                Err(error) => error,
            }
        }
        Err(error) => error,
    };
    let why = explain(&refused);
    match asked {
        DriverChoice::IoUring => Err(format!("io_uring is not to be had: {why}; use --driver auto")),
        _ => Ok(Choice { driver: Driver::Epoll, why }),
    }
}

/// Why there is no ring.
fn explain(refused: &io::Error) -> String {
    match refused.raw_os_error() {
        Some(libc::ENOSYS) => "this kernel has no io_uring".into(),
        Some(libc::EPERM | libc::EACCES) => "io_uring is forbidden here".into(),
        Some(libc::ENOMEM) => "the memlock limit leaves no room for io_uring".into(),
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

/// Runs a future on this thread to its end. A ring that was to be had at the trial but is not for this thread
/// (each thread's counts towards memlock) is made up for by epoll.
///
/// # Errors
/// When not even epoll is to be had.
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
