//! Passwords: Argon2id with the second recommended option of RFC 9106 4 (64 MiB, three passes, four lanes), on a
//! separate thread.
//!
//! A hash takes a tenth of a second of a core and 64 MiB, and a frontend thread serves thousands of connections. So one
//! thread computes all hashes, one after another, and refuses a job when too many jobs wait.

use argon2::{Algorithm, Argon2, Params, Version};
use std::io;
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::thread;
use store::{PasswordHash, Pending, Reply, StoreError, pending};

/// Fewest characters of a password (NIST SP 800-63B 5.1.1.2 requires at least eight).
pub const PASSWORD_CHARS_MIN: usize = 10;
/// Longest password, in bytes.
pub const PASSWORD_BYTES_MAX: usize = 512;

const MEMORY_KIB: u32 = 64 * 1024;
const PASSES: u32 = 3;
const LANES: u32 = 4;

/// Most jobs that wait: a few seconds of work.
const WAITING_MAX: usize = 32;

/// Handle of the password thread. The thread ends when this is dropped.
pub struct Passwords(SyncSender<PasswordJob>);

enum PasswordJob {
    Hash(String, Reply<PasswordHash, StoreError>),
    /// The hash is `None` if there is no such user. Then the job takes the same time, and fails.
    Verify(String, Option<PasswordHash>, Reply<bool, StoreError>),
}

impl Passwords {
    /// Starts the thread.
    ///
    /// # Errors
    /// The thread could not be started.
    pub fn start() -> io::Result<Passwords> {
        let (jobs, queue) = sync_channel(WAITING_MAX);
        thread::Builder::new().name("passwords".into()).spawn(move || work(&queue))?;
        Ok(Passwords(jobs))
    }

    /// Computes a hash with a new salt; [`StoreError::Busy`] if too many jobs wait.
    pub fn hash(&self, password: String) -> Pending<PasswordHash, StoreError> {
        let (reply, answer) = pending();
        self.send(PasswordJob::Hash(password, reply));
        answer
    }

    /// Whether the password matches the hash; [`StoreError::Busy`] if too many jobs wait.
    pub fn verify(&self, password: String, against: Option<PasswordHash>) -> Pending<bool, StoreError> {
        let (reply, answer) = pending();
        self.send(PasswordJob::Verify(password, against, reply));
        answer
    }

    fn send(&self, job: PasswordJob) {
        match self.0.try_send(job) {
            Ok(()) => {}
            Err(TrySendError::Full(job) | TrySendError::Disconnected(job)) => match job {
                PasswordJob::Hash(_, reply) => reply.answer(Err(StoreError::Busy)),
                PasswordJob::Verify(_, _, reply) => reply.answer(Err(StoreError::Busy)),
            },
        }
    }
}

/// Checks whether a text can be a password.
///
/// # Errors
/// One sentence for the user.
pub fn check(password: &str, email: &str) -> Result<(), String> {
    if password.chars().count() < PASSWORD_CHARS_MIN {
        return Err(format!("A password must have at least {PASSWORD_CHARS_MIN} characters."));
    }
    if password.len() > PASSWORD_BYTES_MAX {
        return Err(format!("A password can have at most {PASSWORD_BYTES_MAX} bytes."));
    }
    if !email.is_empty() && password.eq_ignore_ascii_case(email) {
        return Err("The password must not be the address.".into());
    }
    let first = password.chars().next();
    if password.chars().all(|c| Some(c) == first) {
        return Err("The password must not be a single repeated character.".into());
    }
    Ok(())
}

/// Computes a hash on the calling thread.
///
/// # Errors
/// The system gives no random bytes.
pub fn hash(password: &str) -> Result<PasswordHash, StoreError> {
    let mut salt = [0; 16];
    getrandom::fill(&mut salt).map_err(|error| StoreError::Failed(format!("no random bytes: {error}")))?;
    let made = PasswordHash { memory_kib: MEMORY_KIB, passes: PASSES, lanes: LANES, salt, tag: [0; 32] };
    Ok(PasswordHash { tag: tag(password, &made)?, ..made })
}

fn work(queue: &Receiver<PasswordJob>) {
    while let Ok(job) = queue.recv() {
        match job {
            PasswordJob::Hash(password, reply) => reply.answer(hash(&password)),
            PasswordJob::Verify(password, against, reply) => {
                reply.answer(verify(&password, against.as_ref()))
            }
        }
    }
}

fn verify(password: &str, against: Option<&PasswordHash>) -> Result<bool, StoreError> {
    let nobody =
        PasswordHash { memory_kib: MEMORY_KIB, passes: PASSES, lanes: LANES, salt: [0; 16], tag: [0; 32] };
    let tag = tag(password, against.unwrap_or(&nobody))?;
    // Both are hashes with the entropy of a secret, so the position of the first difference reveals nothing.
    Ok(against.is_some_and(|against| against.tag == tag))
}

fn tag(password: &str, with: &PasswordHash) -> Result<[u8; 32], StoreError> {
    let failed = |error: argon2::Error| StoreError::Failed(format!("a password's hash: {error}"));
    let params = Params::new(with.memory_kib, with.passes, with.lanes, Some(32)).map_err(failed)?;
    let argon = Argon2::new(Algorithm::Argon2id, Version::V0x13, params);
    let mut tag = [0; 32];
    argon.hash_password_into(password.as_bytes(), &with.salt, &mut tag).map_err(failed)?;
    Ok(tag)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_password_is_known_again_and_no_other() {
        let passwords = Passwords::start().unwrap();
        let kept = passwords.hash("correct horse".into()).wait().unwrap();
        assert_eq!((kept.memory_kib, kept.passes, kept.lanes), (65_536, 3, 4));
        assert_eq!(passwords.verify("correct horse".into(), Some(kept)).wait(), Ok(true));
        assert_eq!(passwords.verify("correct horsf".into(), Some(kept)).wait(), Ok(false));
        assert_eq!(passwords.verify("correct horse".into(), None).wait(), Ok(false));
        let again = passwords.hash("correct horse".into()).wait().unwrap();
        assert!(again.salt != kept.salt && again.tag != kept.tag);
        assert_eq!(format!("{kept:?}"), "PasswordHash");
    }

    #[test]
    fn when_too_many_wait_more_are_refused_at_once() {
        let (jobs, queue) = sync_channel(1);
        let passwords = Passwords(jobs);
        let waiting = passwords.verify("a".into(), None);
        assert_eq!(passwords.verify("b".into(), None).wait(), Err(StoreError::Busy));
        drop(queue);
        assert_eq!(waiting.wait(), Err(StoreError::Closed));
        assert!(passwords.hash("c".into()).wait().is_err());
    }

    #[test]
    fn what_a_password_can_be() {
        assert_eq!(check("correct horse", "a@example.com"), Ok(()));
        for bad in ["short", "aaaaaaaaaaaa", "Me@Example.com", &"ab".repeat(300)] {
            assert!(check(bad, "me@example.com").is_err(), "{bad}");
        }
        assert!(check("пароль-длинный", "").is_ok());
    }
}
