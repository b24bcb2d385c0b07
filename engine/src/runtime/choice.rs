//! Chooses a runtime and its driver by trying them out, and explains the choice to the operator.

#[cfg(feature = "glommio")]
use super::glommio;
use super::monoio;
use crate::config::{DriverChoice, RuntimeChoice};
use std::io;

/// The runtime of a shard, with its driver.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Flavor {
    Monoio(monoio::Driver),
    #[cfg(feature = "glommio")]
    Glommio,
}

/// The chosen runtime, with a line for the operator that says why it was chosen.
#[derive(Debug, Clone)]
pub(crate) struct Chosen {
    pub(crate) flavor: Flavor,
    pub(crate) why: String,
}

/// Chooses a runtime and a driver. Each candidate that needs io_uring is first started on a thread of its own. So a refusal by a
/// container, a seccomp filter or a memlock limit shows here and not in a shard. Epoll is not tried, because every kernel has it.
///
/// # Errors
/// One line that says why the chosen runtime or driver cannot be used, and what the operator can do.
pub(crate) fn choose(runtime: RuntimeChoice, driver: DriverChoice) -> Result<Chosen, String> {
    match (runtime, driver) {
        (RuntimeChoice::Glommio, DriverChoice::Epoll) => {
            Err("glommio runs on io_uring only: choose --runtime monoio for --driver epoll".into())
        }
        (RuntimeChoice::Glommio, _) => choose_glommio(),
        (_, DriverChoice::Epoll) => Ok(Chosen {
            flavor: Flavor::Monoio(monoio::Driver::Epoll),
            why: "monoio on epoll, as requested".into(),
        }),
        (_, driver) => choose_ring(driver),
    }
}

#[cfg(feature = "glommio")]
fn choose_glommio() -> Result<Chosen, String> {
    match try_glommio() {
        Ok(()) => Ok(Chosen { flavor: Flavor::Glommio, why: "glommio on io_uring, as requested".into() }),
        Err(refusal) => Err(format!(
            "glommio needs io_uring, and {}: choose --runtime monoio, which also runs on epoll",
            describe(&refusal)
        )),
    }
}

#[cfg(not(feature = "glommio"))]
fn choose_glommio() -> Result<Chosen, String> {
    Err("this mailprobe was built without glommio: choose --runtime monoio".into())
}

fn choose_ring(driver: DriverChoice) -> Result<Chosen, String> {
    let chosen = |driver, why: String| Ok(Chosen { flavor: Flavor::Monoio(driver), why });
    let mut refusal = match try_monoio(monoio::Driver::DeferredRing) {
        Ok(()) => {
            let why = "monoio on io_uring (single issuer, deferred task run)".into();
            return chosen(monoio::Driver::DeferredRing, why);
        }
        Err(refusal) => refusal,
    };
    if refusal.raw_os_error() == Some(libc::EINVAL) {
        match try_monoio(monoio::Driver::PlainRing) {
            Ok(()) => {
                let why =
                    "monoio on io_uring (without deferred task run: the kernel is older than 6.1)".into();
                return chosen(monoio::Driver::PlainRing, why);
            }
            Err(second) => refusal = second,
        }
    }
    let refusal = describe(&refusal);
    if driver == DriverChoice::IoUring {
        return Err(format!("io_uring was requested, and {refusal}: choose --driver auto or epoll"));
    }
    chosen(monoio::Driver::Epoll, format!("monoio on epoll, because {refusal}"))
}

fn describe(refusal: &io::Error) -> String {
    match refusal.raw_os_error() {
        Some(libc::ENOMEM) => {
            "the memory that this user may lock is too small for io_uring (raise `ulimit -l`)".into()
        }
        Some(libc::ENOSYS | libc::EPERM | libc::EACCES) => {
            format!("the kernel or a filter of this container refuses io_uring ({refusal})")
        }
        _ => format!("io_uring is not available ({refusal})"),
    }
}

fn try_monoio(driver: monoio::Driver) -> io::Result<()> {
    on_a_thread(move || monoio::run(driver, async {}))
}

#[cfg(feature = "glommio")]
fn try_glommio() -> io::Result<()> {
    // If the kernel has no io_uring, glommio panics. So a raw ring is tried first: it returns an error instead.
    on_a_thread(|| io_uring::IoUring::new(8).map(drop))?;
    on_a_thread(|| glommio::run(async {}))
}

fn on_a_thread(attempt: impl FnOnce() -> io::Result<()> + Send + 'static) -> io::Result<()> {
    std::thread::Builder::new()
        .name("runtime-trial".into())
        .spawn(attempt)?
        .join()
        .unwrap_or_else(|_| Err(io::Error::other("the runtime panicked at its start")))
}

/// Runs `main` on this thread with the chosen runtime, until `main` ends.
///
/// # Errors
/// The error of the kernel, if the runtime cannot start.
pub(crate) fn run<M: super::Main>(flavor: Flavor, main: M) -> io::Result<()> {
    match flavor {
        Flavor::Monoio(driver) => monoio::run(driver, main.run::<monoio::Monoio>()),
        #[cfg(feature = "glommio")]
        Flavor::Glommio => glommio::run(main.run::<glommio::Glommio>()),
    }
}

/// Like [`run`], but the hosts and resolvers are in memory instead of behind sockets.
///
/// # Errors The same as for [`run`].
#[cfg(feature = "sim")]
pub(crate) fn run_in_memory<M: super::Main>(flavor: Flavor, main: M) -> io::Result<()> {
    use super::memory::Memory;
    match flavor {
        Flavor::Monoio(driver) => monoio::run(driver, main.run::<Memory<monoio::Monoio>>()),
        #[cfg(feature = "glommio")]
        Flavor::Glommio => glommio::run(main.run::<Memory<glommio::Glommio>>()),
    }
}
