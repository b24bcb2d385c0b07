//! Many clients at once, each on a thread of its own that mostly waits.

use crate::failure::{Context, Failure};
use crate::interop::process::interrupted;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::{Builder, Scope, ScopedJoinHandle};

/// Enough for a debug build; a thread that only waits touches little of it.
const STACK_BYTES: usize = 1 << 20;

/// Does a job for each number below `count`, `at_once` at a time, and returns the results in the order of the numbers.
///
/// # Errors
///
/// A thread cannot be started, or a signal ends the run.
pub fn each<T: Send>(
    count: usize,
    at_once: usize,
    job: impl Fn(usize) -> T + Sync,
) -> Result<Vec<T>, Failure> {
    let (next, done) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    let work = || {
        loop {
            let number = next.fetch_add(1, Ordering::SeqCst);
            if number >= count || interrupted().is_err() {
                return;
            }
            let result = job(number);
            lock(&done).push((number, result));
        }
    };
    std::thread::scope(|scope| (0..at_once.min(count)).try_for_each(|_| spawn(scope, work).map(drop)))?;
    interrupted()?;
    let mut done = into_inner(done);
    done.sort_by_key(|(number, _)| *number);
    Ok(done.into_iter().map(|(_, result)| result).collect())
}

/// Does a job again and again in each of `count` threads, until `ended` is set, and returns how often it succeeded. A failure ends its
/// thread; the first one is returned.
///
/// # Errors
///
/// A job fails, a thread cannot be started, or a signal ends the run.
pub fn repeat(
    count: usize,
    ended: &AtomicBool,
    job: impl Fn(usize) -> Result<(), Failure> + Sync,
) -> Result<u64, Failure> {
    let first = Mutex::new(Ok(0));
    let work = |number: usize| {
        while !ended.load(Ordering::Relaxed) {
            let done = interrupted().and_then(|()| job(number));
            let mut first = lock(&first);
            match (done, &mut *first) {
                (Ok(()), Ok(times)) => *times += 1,
                (Ok(()), Err(_)) => {}
                (Err(failure), Ok(_)) => return *first = Err(failure),
                (Err(_), Err(_)) => return,
            }
        }
    };
    let work = &work;
    std::thread::scope(|scope| {
        (0..count).try_for_each(|number| spawn(scope, move || work(number)).map(drop))
    })?;
    into_inner(first)
}

/// Starts a client with a small stack.
///
/// # Errors
///
/// The system has no thread for it.
pub fn spawn<'scope, T: Send + 'scope>(
    scope: &'scope Scope<'scope, '_>,
    work: impl FnOnce() -> T + Send + 'scope,
) -> Result<ScopedJoinHandle<'scope, T>, Failure> {
    let spawned = Builder::new().stack_size(STACK_BYTES).spawn_scoped(scope, work);
    spawned.about("no thread for a client")
}

/// Starts a host at a free port of loopback, which does something with each connection. It ends with the process.
///
/// # Errors
///
/// There is no port, or no thread.
pub fn host(name: &str, mut take: impl FnMut(TcpStream) + Send + 'static) -> Result<SocketAddr, Failure> {
    let listener = TcpListener::bind("127.0.0.1:0").about(name)?;
    let address = listener.local_addr().about(name)?;
    let accept = move || listener.incoming().flatten().for_each(&mut take);
    Builder::new().name(name.to_owned()).spawn(accept).about(name)?;
    Ok(address)
}

/// The result of a client; its panic continues here.
pub fn joined<T>(client: ScopedJoinHandle<'_, T>) -> T {
    client.join().unwrap_or_else(|payload| std::panic::resume_unwind(payload))
}

/// Locks a mutex, also after a panic of another thread: each change is one step, so the data is whole.
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The value of a mutex that no thread uses any more.
pub fn into_inner<T>(mutex: Mutex<T>) -> T {
    mutex.into_inner().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_are_in_the_order_of_the_numbers() {
        let late = |number: usize| {
            std::thread::sleep(std::time::Duration::from_millis(5 * (3 - number as u64 % 4)));
            number
        };
        assert_eq!(each(10, 4, late).unwrap(), (0..10).collect::<Vec<_>>());
        assert!(each(0, 4, late).unwrap().is_empty());
    }
}
