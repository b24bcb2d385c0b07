//! What is known of a visitor who gives a password: who they claim to be, and whether the browser has signed in before.
//!
//! A browser that has signed in keeps a cookie for half a year. With it, strangers who try passwords cannot lock out the user, and
//! the user does not wait behind them. The cookie is no secret of the user and signs nobody in. It is a keyed hash, and its key is
//! the stored password with its salt. So every node can compute it, and a new password ends it.

use super::session::{cookie, set_cookie, token_hash};
use super::signin::busy;
use crate::password::{Place, Waiter, Who};
use crate::problem::Problem;
use crate::visit::Visit;
use checks::peers::site;
use checks::throttle::{Attempt, Claimant};
use data_encoding::HEXLOWER;
use ring::hmac;
use store::{AccountId, PasswordHash, User, clock};

/// The cookie of a browser that has signed in before.
const KNOWN_COOKIE: &str = "__Host-mailprobe-known";
/// Lifetime of this cookie, in seconds.
const KNOWN_COOKIE_S: u64 = 180 * 24 * 60 * 60;

/// The value of the cookie as bytes, which nobody can compute without the stored password.
pub fn mark(password: &PasswordHash) -> [u8; 32] {
    let secret = [&password.salt[..], &password.tag[..]].concat();
    let tag = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, &secret), b"mailprobe known browser");
    let mut mark = [0; 32];
    mark.copy_from_slice(tag.as_ref());
    mark
}

/// The value of a `Set-Cookie` header: this browser has signed in with this password.
pub fn known_cookie(password: &PasswordHash) -> String {
    set_cookie(KNOWN_COOKIE, &HEXLOWER.encode(&mark(password)), KNOWN_COOKIE_S)
}

/// Who gives this mail address, which is that of this user if there is one.
pub fn claimant(visit: &Visit, email: &str, user: Option<&User>) -> Claimant {
    let password = user.map(|user| mark(&user.password));
    let sent = cookie(&visit.head.cookies, KNOWN_COOKIE);
    // Hashes of both, so the time does not reveal the position of the first difference.
    let is_known_browser = password.is_some_and(|password| {
        sent.is_some_and(|sent| token_hash(sent) == token_hash(&HEXLOWER.encode(&password)))
    });
    Claimant { user: token_hash(&email.to_lowercase()), peer: visit.head.peer, password, is_known_browser }
}

/// This visitor has set a new password: its network is known for it.
pub fn has_set_password(visit: &Visit, email: &str, password: &PasswordHash) {
    let user = token_hash(&email.to_lowercase());
    visit.dashboard.throttle.set_password(user, mark(password), visit.head.peer, clock::now());
}

/// How a visitor without a session waits for a hash. `user` is the hash of the given mail address.
pub fn waiter(visit: &Visit, user: [u8; 32], is_known: bool) -> Waiter {
    Waiter { who: if is_known { Who::User(user) } else { Who::Stranger }, place: place(visit, user) }
}

/// How the user of a session waits for a hash.
pub fn waiter_of(visit: &Visit, account: AccountId) -> Waiter {
    Waiter { who: Who::Account(account), place: place(visit, token_hash(&account.to_string())) }
}

fn place(visit: &Visit, given: [u8; 32]) -> Place {
    match visit.dashboard.networks_are_told {
        true => Place::Network(site(visit.head.peer)),
        false => Place::Given(given),
    }
}

/// Whether a given password is right. The attempt comes back, because a right one counts otherwise.
///
/// # Errors
/// 429 or 503: too many passwords wait. The attempt does not count then.
pub async fn verify(
    visit: &Visit,
    attempt: Attempt,
    waiter: Waiter,
    given: &str,
    against: Option<PasswordHash>,
) -> Result<(bool, Attempt), Problem> {
    let verified = visit.dashboard.passwords.verify(waiter, given.to_owned(), against).await;
    counted(visit, attempt, verified)
}

/// The hash of a new password, for an attempt that comes back.
///
/// # Errors
/// As for [`verify`].
pub async fn hash(
    visit: &Visit,
    attempt: Attempt,
    waiter: Waiter,
    given: &str,
) -> Result<(PasswordHash, Attempt), Problem> {
    let hashed = visit.dashboard.passwords.hash(waiter, given.to_owned()).await;
    counted(visit, attempt, hashed)
}

/// Gives an attempt back if there is no outcome.
fn counted<T>(
    visit: &Visit,
    attempt: Attempt,
    outcome: Result<T, store::StoreError>,
) -> Result<(T, Attempt), Problem> {
    match outcome {
        Ok(outcome) => Ok((outcome, attempt)),
        Err(error) => {
            visit.dashboard.throttle.give_back(attempt);
            Err(busy(error))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mark_depends_on_the_whole_stored_password() {
        let password = PasswordHash { memory_kib: 1, passes: 1, lanes: 1, salt: [1; 16], tag: [2; 32] };
        let others = [PasswordHash { salt: [2; 16], ..password }, PasswordHash { tag: [1; 32], ..password }];
        assert!(others.iter().all(|other| mark(other) != mark(&password)));
        assert!(known_cookie(&password).starts_with("__Host-mailprobe-known="));
    }
}
