//! Limits on attempts to sign in and to sign up, for each user and each peer's network, and on new keys of each
//! account, over all threads.
//!
//! An attempt counts before its password is hashed, so these limits also bound the number of hashes. If there is no hash after
//! all, because too many wait, the attempt is given back.
//!
//! Nobody can lock out a user from elsewhere. What strangers try counts for the user and their network, and for the user over all
//! networks. The second count does not hold for a network from which the user has signed in before, and neither holds for a
//! browser that has signed in before or has a session: these have a count of their own. So the most guesses of a user's password
//! in a day are: 1,440 from all unknown networks, 1,440 from each network of the user, 1,440 from stolen browsers of the
//! user, and 1,440 from each stolen session.
//!
//! The right password resets the count of its user and network. It does not reset that of the network: otherwise one own account
//! would allow to guess the passwords of others.

mod counts;
mod known;

use crate::peers::{network, site};
use counts::{AttemptCounts, Counted};
use known::KnownNetworks;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::{Mutex, MutexGuard, PoisonError};
use store::{AccountId, CLIENT_UNUSED_MS, CLIENTS_MAX, UnixMs};

/// The number of attempts in a window.
#[derive(Debug, Clone, Copy)]
struct Allowance {
    attempts: u32,
    window_ms: UnixMs,
}

impl Allowance {
    /// The attempts in the time for which an unused client is kept.
    const fn in_a_day(self) -> u64 {
        self.attempts as u64 * CLIENT_UNUSED_MS / self.window_ms
    }
}

/// Enough for somebody who tries several passwords.
const PASSWORD: Allowance = Allowance { attempts: 10, window_ms: 10 * 60 * 1000 };
/// As many guesses in a day as [`PASSWORD`] allows one network.
const USER: Allowance = Allowance { attempts: 60, window_ms: 60 * 60 * 1000 };
/// Enough for an office with one address.
const NETWORK: Allowance = Allowance { attempts: 60, window_ms: 10 * 60 * 1000 };
/// Each sign-up brings the credits of a free plan.
const SIGN_UP: Allowance = Allowance { attempts: 10, window_ms: 60 * 60 * 1000 };

/// The limits of a site of IPv6, which one subscriber may have, or a few hundred.
const NETWORK_OF_SITE: Allowance = Allowance { attempts: 5 * NETWORK.attempts, ..NETWORK };
const SIGN_UP_OF_SITE: Allowance = Allowance { attempts: 5 * SIGN_UP.attempts, ..SIGN_UP };
const REGISTRATION_OF_SITE: Allowance = Allowance { attempts: 5 * REGISTRATION.attempts, ..REGISTRATION };

/// Each registration takes one of a limited number of assistants' clients.
const REGISTRATION: Allowance = Allowance { attempts: 30, window_ms: 60 * 60 * 1000 };

/// The limit of all callers together, if they cannot be distinguished. An unused client is removed after a day, so this
/// is less than the limit on clients.
const REGISTRATIONS: Allowance = Allowance { attempts: 60, window_ms: 10 * 60 * 1000 };
const _: () = assert!(
    REGISTRATIONS.in_a_day() < CLIENTS_MAX && REGISTRATION_OF_SITE.in_a_day() < CLIENTS_MAX,
    "a flood would push out clients that are about to be connected"
);
/// Each key is a permanent row.
const NEW_KEY: Allowance = Allowance { attempts: 60, window_ms: 60 * 60 * 1000 };

/// The subject of a count.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Subject {
    /// A user, by a hash of the address, from all networks that are not known.
    User([u8; 32]),
    /// A user from one network.
    UserFrom([u8; 32], IpAddr),
    /// A user in browsers that have signed in before.
    KnownBrowser([u8; 32]),
    /// A signed-in user, by the hash of the session's token.
    Session([u8; 32]),
    Network(IpAddr),
    Site(IpAddr),
    SignUp(IpAddr),
    SignUpFromSite(IpAddr),
    Registration(IpAddr),
    RegistrationFromSite(IpAddr),
    Registrations,
    NewKey(AccountId),
}

impl Subject {
    fn allowance(&self) -> Allowance {
        match self {
            Subject::User(_) => USER,
            Subject::UserFrom(..) | Subject::KnownBrowser(_) | Subject::Session(_) => PASSWORD,
            Subject::Network(_) => NETWORK,
            Subject::Site(_) => NETWORK_OF_SITE,
            Subject::SignUp(_) => SIGN_UP,
            Subject::SignUpFromSite(_) => SIGN_UP_OF_SITE,
            Subject::Registration(_) => REGISTRATION,
            Subject::RegistrationFromSite(_) => REGISTRATION_OF_SITE,
            Subject::Registrations => REGISTRATIONS,
            Subject::NewKey(_) => NEW_KEY,
        }
    }

    /// The subject with its network in a wider one, which usually has one owner. So somebody with many networks takes few of the
    /// buckets that all others share.
    fn widened(&self) -> Subject {
        let wide = |address: &IpAddr| match site(*address) {
            IpAddr::V4(address) => Ipv4Addr::from_bits(address.to_bits() & (!0 << 8)).into(),
            site => site,
        };
        match self {
            Subject::UserFrom(user, address) => Subject::UserFrom(*user, wide(address)),
            Subject::Network(address) => Subject::Network(wide(address)),
            Subject::SignUp(address) => Subject::SignUp(wide(address)),
            Subject::Registration(address) => Subject::Registration(wide(address)),
            other => other.clone(),
        }
    }
}

/// The error of an attempt above its limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TooOften {
    /// The wait until the next attempt counts, in whole seconds.
    pub wait_s: u64,
}

impl TooOften {
    fn until(end: UnixMs, now: UnixMs, window_ms: UnixMs) -> TooOften {
        let wait_ms = end.saturating_sub(now).min(window_ms);
        TooOften { wait_s: wait_ms.div_ceil(1000).max(1) }
    }
}

/// A caller that gives the address and the password of a user.
#[derive(Debug, Clone, Copy)]
pub struct Claimant {
    /// A hash of the address, whether or not it is a user's.
    pub user: [u8; 32],
    /// The address of the peer.
    pub peer: IpAddr,
    /// A value that only the server can compute from the stored password; `None` if there is no such user. It changes with the
    /// password, so what is known of networks ends with it.
    pub password: Option<[u8; 32]>,
    /// Whether the browser has signed in with this password before.
    pub is_known_browser: bool,
}

/// An attempt that was counted.
#[derive(Debug)]
#[must_use = "it counts as a wrong one until it is given back or was right"]
pub struct Attempt {
    taken: Vec<Counted>,
    /// Whether the user has signed in from this browser or network before.
    pub is_known: bool,
}

/// The counts of all subjects.
pub struct Throttle {
    networks: bool,
    tables: Mutex<Tables>,
}

#[derive(Default)]
struct Tables {
    counts: AttemptCounts,
    known: KnownNetworks,
}

impl Throttle {
    /// An empty table. `networks` states whether the peer's address distinguishes callers.
    pub fn new(networks: bool) -> Throttle {
        Throttle { networks, tables: Mutex::default() }
    }

    /// Counts an attempt to sign in, whether or not the user exists.
    ///
    /// # Errors
    ///
    /// [`TooOften`], for the user or for the network.
    pub fn sign_in(&self, claimant: &Claimant, now: UnixMs) -> Result<Attempt, TooOften> {
        let Claimant { user, peer, password, is_known_browser } = *claimant;
        let Tables { counts, known } = &mut *self.lock();
        // Who has stolen the browser's cookie cannot lock out its owner: the other counts remain.
        if is_known_browser && let Ok(taken) = counts.take(Subject::KnownBrowser(user), now) {
            return Ok(Attempt { taken: vec![taken], is_known: true });
        }
        let network = network(peer);
        let is_known =
            self.networks && password.is_some_and(|password| known.has(&user, &password, network, now));
        let mut subjects = self.of_peer(Subject::Network, Subject::Site, peer);
        if self.networks {
            subjects.push(Subject::UserFrom(user, network));
        }
        if !is_known {
            subjects.push(Subject::User(user));
        }
        Ok(Attempt { taken: counts.take_all(subjects, now)?, is_known })
    }

    /// Counts an attempt of a signed-in user to give the password again. `session` is the hash of the session's token.
    ///
    /// # Errors
    ///
    /// [`TooOften`], for the session.
    pub fn in_session(&self, session: [u8; 32], now: UnixMs) -> Result<Attempt, TooOften> {
        let taken = self.lock().counts.take(Subject::Session(session), now)?;
        Ok(Attempt { taken: vec![taken], is_known: true })
    }

    /// Counts an attempt no longer, because the password was not looked at.
    pub fn give_back(&self, attempt: Attempt) {
        let counts = &mut self.lock().counts;
        attempt.taken.into_iter().for_each(|taken| counts.give_back(taken));
    }

    /// The password of an attempt was right: the network is known from now on, and its attempts for this user are forgotten.
    pub fn signed_in(&self, claimant: &Claimant, attempt: Attempt, now: UnixMs) {
        let Tables { counts, known } = &mut *self.lock();
        for taken in attempt.taken {
            match taken.subject() {
                Subject::UserFrom(..) => counts.clear(taken),
                Subject::User(_) => counts.give_back(taken),
                _ => {}
            }
        }
        if let Some(password) = claimant.password.filter(|_| self.networks) {
            known.note(claimant.user, password, network(claimant.peer), now);
        }
    }

    /// A user has set a new password from this network, which is known for it from now on. The values are those of [`Claimant`].
    pub fn set_password(&self, user: [u8; 32], password: [u8; 32], peer: IpAddr, now: UnixMs) {
        if self.networks {
            self.lock().known.note(user, password, network(peer), now);
        }
    }

    /// Counts an attempt to sign up.
    ///
    /// # Errors
    ///
    /// [`TooOften`], for the network.
    pub fn sign_up(&self, peer: IpAddr, now: UnixMs) -> Result<Attempt, TooOften> {
        let subjects = self.of_peer(Subject::SignUp, Subject::SignUpFromSite, peer);
        Ok(Attempt { taken: self.lock().counts.take_all(subjects, now)?, is_known: false })
    }

    /// Counts the registration of an assistant's client. It is limited even if the peer's address does not distinguish
    /// callers.
    ///
    /// # Errors
    ///
    /// [`TooOften`], for the network or for all callers.
    pub fn registration(&self, peer: IpAddr, now: UnixMs) -> Result<(), TooOften> {
        let mut subjects = self.of_peer(Subject::Registration, Subject::RegistrationFromSite, peer);
        if subjects.is_empty() {
            subjects.push(Subject::Registrations);
        }
        self.lock().counts.take_all(subjects, now).map(drop)
    }

    /// Counts a new key of an account.
    ///
    /// # Errors
    ///
    /// [`TooOften`], for the account.
    pub fn new_key(&self, account: AccountId, now: UnixMs) -> Result<(), TooOften> {
        self.lock().counts.take(Subject::NewKey(account), now).map(drop)
    }

    /// Counts an attempt for the network only.
    ///
    /// # Errors
    ///
    /// [`TooOften`], for the network.
    pub fn of_network(&self, peer: IpAddr, now: UnixMs) -> Result<(), TooOften> {
        let subjects = self.of_peer(Subject::Network, Subject::Site, peer);
        self.lock().counts.take_all(subjects, now).map(drop)
    }

    /// The network of a peer, and its site if that is wider; none if the peer's address does not distinguish callers.
    fn of_peer(
        &self,
        of_network: fn(IpAddr) -> Subject,
        of_site: fn(IpAddr) -> Subject,
        peer: IpAddr,
    ) -> Vec<Subject> {
        let (network, site) = (network(peer), site(peer));
        let both = [Some(of_network(network)), site.is_ipv6().then(|| of_site(site))];
        both.into_iter().flatten().filter(|_| self.networks).collect()
    }

    fn lock(&self) -> MutexGuard<'_, Tables> {
        self.tables.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests;
