//! Limits on attempts to sign in and to sign up, for each user and each peer's network, and on new keys of each
//! account, over all threads.
//!
//! An attempt counts before its password is hashed, so these limits also bound the number of hashes. The right password
//! resets the count of its user. It does not reset that of the network: otherwise one own account would allow to guess
//! the passwords of others. The size of the table is limited: if it is full, expired entries are removed first, and
//! then the oldest.

use crate::peers::network;
use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Mutex, MutexGuard, PoisonError};
use store::{AccountId, CLIENT_UNUSED_MS, CLIENTS_MAX, UnixMs};

/// The largest number of entries: several hundred KiB.
const ENTRIES_MAX: usize = 16 * 1024;

/// The number of attempts in a window.
#[derive(Debug, Clone, Copy)]
struct Allowance {
    attempts: u32,
    window_ms: UnixMs,
}

/// Enough for a user who tries several passwords; an attacker has 1,440 guesses a day.
const USER: Allowance = Allowance { attempts: 10, window_ms: 10 * 60 * 1000 };
/// Enough for an office with one address.
const NETWORK: Allowance = Allowance { attempts: 60, window_ms: 10 * 60 * 1000 };
/// Each sign-up brings the credits of a free plan.
const SIGN_UP: Allowance = Allowance { attempts: 10, window_ms: 60 * 60 * 1000 };

/// Each registration takes one of a limited number of assistants' clients.
const REGISTRATION: Allowance = Allowance { attempts: 30, window_ms: 60 * 60 * 1000 };

/// The limit of all callers together, if they cannot be distinguished. An unused client is removed after a day, so this
/// is less than the limit on clients.
const REGISTRATIONS: Allowance = Allowance { attempts: 60, window_ms: 10 * 60 * 1000 };
const _: () = assert!(
    REGISTRATIONS.attempts as u64 * CLIENT_UNUSED_MS / REGISTRATIONS.window_ms < CLIENTS_MAX,
    "a flood would push out clients that are about to be connected"
);
/// Each key is a permanent row.
const NEW_KEY: Allowance = Allowance { attempts: 60, window_ms: 60 * 60 * 1000 };

/// The subject of a count.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Subject {
    User([u8; 32]),
    Network(IpAddr),
    SignUp(IpAddr),
    Registration(IpAddr),
    Registrations,
    NewKey(AccountId),
}

impl Subject {
    fn allowance(&self) -> Allowance {
        match self {
            Subject::User(_) => USER,
            Subject::Network(_) => NETWORK,
            Subject::SignUp(_) => SIGN_UP,
            Subject::Registration(_) => REGISTRATION,
            Subject::Registrations => REGISTRATIONS,
            Subject::NewKey(_) => NEW_KEY,
        }
    }
}

struct Count {
    began: UnixMs,
    attempts: u32,
}

/// The error of an attempt above its limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TooOften {
    /// The wait until the next attempt counts, in whole seconds.
    pub wait_s: u64,
}

/// The counts of all subjects.
pub struct Throttle {
    networks: bool,
    counts: Mutex<HashMap<Subject, Count>>,
}

impl Throttle {
    /// An empty table. `networks` states whether the peer's address distinguishes callers.
    pub fn new(networks: bool) -> Throttle {
        Throttle { networks, counts: Mutex::default() }
    }

    /// Counts an attempt to sign in, whether or not the user exists. `user` is a hash of the user's address.
    ///
    /// # Errors
    ///
    /// [`TooOften`], for the user or for the network.
    pub fn sign_in(&self, user: [u8; 32], peer: IpAddr, now: UnixMs) -> Result<(), TooOften> {
        let mut counts = self.lock();
        if self.networks {
            attempt(&mut counts, Subject::Network(network(peer)), now)?;
        }
        attempt(&mut counts, Subject::User(user), now)
    }

    /// Resets the count of a user after the right password.
    pub fn signed_in(&self, user: [u8; 32]) {
        self.lock().remove(&Subject::User(user));
    }

    /// Counts an attempt to sign up.
    ///
    /// # Errors
    ///
    /// [`TooOften`], for the network.
    pub fn sign_up(&self, peer: IpAddr, now: UnixMs) -> Result<(), TooOften> {
        if self.networks { attempt(&mut self.lock(), Subject::SignUp(network(peer)), now) } else { Ok(()) }
    }

    /// Counts the registration of an assistant's client. It is limited even if the peer's address does not distinguish
    /// callers.
    ///
    /// # Errors
    ///
    /// [`TooOften`], for the network or for all callers.
    pub fn registration(&self, peer: IpAddr, now: UnixMs) -> Result<(), TooOften> {
        let of_network = Subject::Registration(network(peer));
        attempt(&mut self.lock(), if self.networks { of_network } else { Subject::Registrations }, now)
    }

    /// Counts a new key of an account.
    ///
    /// # Errors
    ///
    /// [`TooOften`], for the account.
    pub fn new_key(&self, account: AccountId, now: UnixMs) -> Result<(), TooOften> {
        attempt(&mut self.lock(), Subject::NewKey(account), now)
    }

    /// Counts an attempt for the network only.
    ///
    /// # Errors
    ///
    /// [`TooOften`], for the network.
    pub fn of_network(&self, peer: IpAddr, now: UnixMs) -> Result<(), TooOften> {
        if self.networks { attempt(&mut self.lock(), Subject::Network(network(peer)), now) } else { Ok(()) }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Subject, Count>> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn attempt(counts: &mut HashMap<Subject, Count>, subject: Subject, now: UnixMs) -> Result<(), TooOften> {
    let Allowance { attempts, window_ms } = subject.allowance();
    if !counts.contains_key(&subject) && counts.len() >= ENTRIES_MAX {
        make_room(counts, now);
    }
    let count = counts.entry(subject).or_insert(Count { began: now, attempts: 0 });
    // A clock that was set back must not lengthen the wait.
    if now.abs_diff(count.began) >= window_ms {
        *count = Count { began: now, attempts: 0 };
    }
    if count.attempts >= attempts {
        let wait_ms = (count.began + window_ms).saturating_sub(now).min(window_ms);
        return Err(TooOften { wait_s: wait_ms.div_ceil(1000).max(1) });
    }
    count.attempts += 1;
    Ok(())
}

fn make_room(counts: &mut HashMap<Subject, Count>, now: UnixMs) {
    counts.retain(|subject, count| now.abs_diff(count.began) < subject.allowance().window_ms);
    if counts.len() >= ENTRIES_MAX {
        // An eighth is removed at once, so that a flood does not sort the table at each attempt.
        let mut began: Vec<UnixMs> = counts.values().map(|count| count.began).collect();
        let (_, horizon, _) = began.select_nth_unstable(ENTRIES_MAX / 8);
        let horizon = *horizon;
        counts.retain(|_, count| count.began > horizon);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: UnixMs = 1_800_000_000_000;

    fn ip(last: u8) -> IpAddr {
        IpAddr::from([192, 0, 2, last])
    }

    #[test]
    fn a_user_has_so_many_attempts_from_wherever() {
        let throttle = Throttle::new(true);
        for n in 0..USER.attempts as u8 {
            assert_eq!(throttle.sign_in([1; 32], ip(n), NOW), Ok(()));
        }
        let wait_s = USER.window_ms / 1000;
        assert_eq!(throttle.sign_in([1; 32], ip(99), NOW), Err(TooOften { wait_s }));
        assert_eq!(throttle.sign_in([1; 32], ip(99), NOW + 1500), Err(TooOften { wait_s: wait_s - 1 }));
        assert_eq!(throttle.sign_in([2; 32], ip(99), NOW), Ok(()));
        assert_eq!(throttle.sign_in([1; 32], ip(99), NOW + USER.window_ms), Ok(()));
    }

    #[test]
    fn the_right_password_clears_the_user_and_not_the_network() {
        let throttle = Throttle::new(true);
        for n in 0..NETWORK.attempts {
            let user = [(n / 5) as u8; 32];
            assert_eq!(throttle.sign_in(user, ip(1), NOW), Ok(()));
            throttle.signed_in(user);
        }
        assert!(throttle.sign_in([99; 32], ip(1), NOW).is_err());
        assert_eq!(throttle.sign_in([99; 32], ip(2), NOW), Ok(()));
        let behind_a_proxy = Throttle::new(false);
        for n in 0..200u8 {
            assert_eq!(behind_a_proxy.sign_in([n; 32], ip(1), NOW), Ok(()));
            assert_eq!(behind_a_proxy.sign_up(ip(1), NOW), Ok(()));
        }
    }

    #[test]
    fn registrations_are_bounded_for_each_network_or_all_together() {
        let check = |networks: bool, allowance: Allowance, other_may: bool| {
            let throttle = Throttle::new(networks);
            for _ in 0..allowance.attempts {
                assert_eq!(throttle.registration(ip(1), NOW), Ok(()));
            }
            assert!(throttle.registration(ip(1), NOW).is_err());
            assert_eq!(throttle.registration(ip(2), NOW).is_ok(), other_may);
            assert_eq!(throttle.registration(ip(1), NOW + allowance.window_ms), Ok(()));
        };
        check(true, REGISTRATION, true);
        check(false, REGISTRATIONS, false);
    }

    #[test]
    fn a_network_of_ipv6_is_one() {
        let throttle = Throttle::new(true);
        let of = |last: u16| IpAddr::from([0x2001, 0xdb8, 0, 0, 0, 0, 0, last]);
        for n in 0..SIGN_UP.attempts as u16 {
            assert_eq!(throttle.sign_up(of(n), NOW), Ok(()));
        }
        assert!(throttle.sign_up(of(99), NOW).is_err());
    }

    #[test]
    fn the_table_is_bounded_and_the_newest_stay() {
        let throttle = Throttle::new(false);
        for n in 0..2 * ENTRIES_MAX as u64 {
            let mut user = [0; 32];
            user[..8].copy_from_slice(&n.to_be_bytes());
            throttle.sign_in(user, ip(1), NOW + n / 100).unwrap();
            assert!(throttle.lock().len() <= ENTRIES_MAX);
            assert!(throttle.lock().contains_key(&Subject::User(user)));
        }
        assert!(throttle.lock().len() > ENTRIES_MAX / 2);
    }
}
