//! The addresses of a host, by the system's resolver, within a time limit.

use super::left;
use engine::proto::sharing::{Bounds, Quota, ShareUse, UsedUp};
use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::sync::mpsc::sync_channel;
use std::sync::{Arc, LazyLock};
use std::thread;
use std::time::Instant;

/// The account that causes a look-up, as the bytes of its id.
pub type AccountBytes = [u8; 16];

/// The most look-ups at once, in all and of one account, over all that contacts hosts for it. The system's resolver cannot be
/// stopped, so a slow look-up continues after its caller has left.
pub const LOOKUPS: Bounds = Bounds { share: 4, all: 128 };

/// The places of the whole process.
static PLACES: LazyLock<Arc<Quota<AccountBytes>>> = LazyLock::new(|| Quota::new("look_ups", LOOKUPS));

/// How many look-ups are under way, for metrics.
pub fn shares() -> Vec<Arc<ShareUse>> {
    vec![PLACES.figures()]
}

/// The addresses of a host, in the order of the system's resolver, for an account.
///
/// # Errors
///
/// [`io::ErrorKind::TimedOut`] if there is no answer in time. The host was not looked up if the error is
/// [`io::ErrorKind::QuotaExceeded`], because too many look-ups of the account are under way, or
/// [`io::ErrorKind::ResourceBusy`], because too many of all are. Otherwise the error of the resolver.
pub fn look_up(
    account: AccountBytes,
    host: &str,
    port: u16,
    deadline: Instant,
) -> io::Result<Vec<SocketAddr>> {
    let place = PLACES.take(account, 1).map_err(|used_up| match used_up {
        UsedUp::Share => io::ErrorKind::QuotaExceeded,
        UsedUp::All => io::ErrorKind::ResourceBusy,
    })?;
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
    fn look_ups_end_in_time_and_are_few_for_an_account_and_in_all() {
        let soon = Instant::now() + Duration::from_secs(10);
        let look_up = |account: u8, deadline| {
            let found = look_up([account; 16], "127.0.0.1", 80, deadline);
            found.map_err(|error| error.kind())
        };
        assert_eq!(
            look_up(1, soon),
            Ok(vec![SocketAddr::from(([127, 0, 0, 1], 80))]),
            "no name is looked up"
        );
        assert_eq!(look_up(2, Instant::now()), Err(io::ErrorKind::TimedOut));
        let take = |account: u8, count| PLACES.take([account; 16], count);
        let all_of_one = take(3, LOOKUPS.share);
        assert!(all_of_one.is_ok());
        assert_eq!(look_up(3, soon), Err(io::ErrorKind::QuotaExceeded));
        assert!(look_up(1, soon).is_ok(), "another account has its own share");
        // The first ones may still have theirs.
        let others: Vec<_> = (10..).map_while(|account| take(account, 1).ok()).collect();
        assert!(others.len() as u64 + LOOKUPS.share + 3 >= LOOKUPS.all);
        assert_eq!(look_up(4, soon), Err(io::ErrorKind::ResourceBusy));
        drop(all_of_one);
        assert!(look_up(4, soon).is_ok());
    }
}
