//! The addresses of a host, by the system's resolver, within a time limit.

use super::left;
use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::sync_channel;
use std::thread;
use std::time::Instant;

/// The most look-ups at once. The system's resolver cannot be stopped, so a slow look-up continues after its caller has left.
pub const LOOKUPS_MAX: usize = 32;

static LOOKUPS: AtomicUsize = AtomicUsize::new(0);

/// The place of a look-up, until its thread ends.
struct Place;

impl Place {
    fn take() -> Option<Place> {
        let one_more = |count| (count < LOOKUPS_MAX).then_some(count + 1);
        LOOKUPS.fetch_update(Ordering::AcqRel, Ordering::Acquire, one_more).ok().map(|_| Place)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        LOOKUPS.fetch_sub(1, Ordering::AcqRel);
    }
}

/// The addresses of a host, in the order of the system's resolver.
///
/// # Errors
///
/// [`io::ErrorKind::TimedOut`] if there is no answer in time; [`io::ErrorKind::ResourceBusy`] if the host was not looked up,
/// because too many look-ups are under way; otherwise the error of the resolver.
pub fn look_up(host: &str, port: u16, deadline: Instant) -> io::Result<Vec<SocketAddr>> {
    let place = Place::take().ok_or(io::ErrorKind::ResourceBusy)?;
    let (sender, receiver) = sync_channel(1);
    let host: Arc<str> = host.into();
    let work = move || {
        let _place = place;
        let found = (&*host, port).to_socket_addrs().map(Iterator::collect);
        // The caller may have left.
        let _ = sender.send(found);
    };
    let thread = thread::Builder::new().name("lookup".into()).spawn(work);
    thread.map_err(|error| io::Error::new(io::ErrorKind::ResourceBusy, error))?;
    let wait = left(deadline)?;
    receiver.recv_timeout(wait).map_err(|_| io::Error::from(io::ErrorKind::TimedOut))?
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    /// One test, because the places are those of the process.
    #[test]
    fn look_ups_end_in_time_and_are_few() {
        let soon = Instant::now() + Duration::from_secs(10);
        let found = look_up("127.0.0.1", 80, soon).expect("no name is looked up");
        assert_eq!(found, [SocketAddr::from(([127, 0, 0, 1], 80))]);
        let past = look_up("127.0.0.1", 80, Instant::now());
        assert_eq!(past.map_err(|error| error.kind()), Err(io::ErrorKind::TimedOut));
        let mut places: Vec<Place> = std::iter::from_fn(Place::take).collect();
        assert!((LOOKUPS_MAX - 2..=LOOKUPS_MAX).contains(&places.len()));
        let full = look_up("127.0.0.1", 80, soon);
        assert_eq!(full.map_err(|error| error.kind()), Err(io::ErrorKind::ResourceBusy));
        places.pop();
        assert!(Place::take().is_some());
    }
}
