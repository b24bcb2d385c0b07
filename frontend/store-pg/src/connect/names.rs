//! Addresses of a host. The system's resolver blocks, so each lookup has a thread of its own, and the executor goes on.

use super::target::Host;
use futures_channel::oneshot;
use std::io;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

/// The maximum number of lookups at the same time. A lookup counts until the system's resolver ends it, also if its caller no
/// longer waits. Each lane of a store may look up all hosts of its URL at the same time.
const LOOKUPS_MAX: usize = 128;
/// Most addresses of a host that are tried.
const ADDRESSES_MAX: usize = 4;

static LOOKUPS: AtomicUsize = AtomicUsize::new(0);

/// A lookup that counts towards [`LOOKUPS_MAX`] until this is dropped.
struct LookupPermit;

impl LookupPermit {
    fn take() -> io::Result<LookupPermit> {
        // The permit exists before the comparison, so that a refusal gives it back.
        let before = LOOKUPS.fetch_add(1, Ordering::Relaxed);
        let permit = LookupPermit;
        if before < LOOKUPS_MAX { Ok(permit) } else { Err(io::Error::other("too many lookups are waiting")) }
    }
}

impl Drop for LookupPermit {
    fn drop(&mut self) {
        LOOKUPS.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The addresses of the host, at least one, in the order of the system's resolver.
///
/// # Errors
///
/// The name is unknown, or the resolver failed.
pub async fn addresses(host: &Host) -> io::Result<Vec<SocketAddr>> {
    if let Ok(ip) = host.name.parse::<IpAddr>() {
        return Ok(vec![SocketAddr::new(ip, host.port)]);
    }
    let permit = LookupPermit::take()?;
    let (name, port) = (host.name.clone(), host.port);
    let (answer, answered) = oneshot::channel();
    thread::Builder::new().name("pg-names".into()).spawn(move || {
        let found: io::Result<Vec<SocketAddr>> =
            (name, port).to_socket_addrs().map(|all| all.take(ADDRESSES_MAX).collect());
        drop(permit);
        // Nobody waits any more if the time was over.
        let _ = answer.send(found);
    })?;
    let found = answered.await.map_err(|_| io::Error::other("the lookup failed"))??;
    if found.is_empty() { Err(io::Error::other("it has no address")) } else { Ok(found) }
}
