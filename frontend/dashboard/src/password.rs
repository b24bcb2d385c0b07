//! Passwords: Argon2id with the second recommended option of RFC 9106 4 (64 MiB, three passes, four lanes), on a
//! separate thread.
//!
//! A hash takes a tenth of a second of a core and 64 MiB, and a frontend thread serves thousands of connections. So one
//! thread computes all hashes, one after another, in turns over those who wait (`lanes.rs`).

mod lanes;

pub use lanes::{Place, Waiter, Who};

use argon2::{Algorithm, Argon2, Params, Version};
use engine::proto::sharing::ShareUse;
use lanes::Lanes;
use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use store::{PasswordHash, Pending, Reply, StoreError, pending};

/// Fewest characters of a password (NIST SP 800-63B 5.1.1.2 requires at least eight).
pub const PASSWORD_CHARS_MIN: usize = 10;
/// Longest password, in bytes.
pub const PASSWORD_BYTES_MAX: usize = 512;

const MEMORY_KIB: u32 = 64 * 1024;
const PASSES: u32 = 3;
const LANES: u32 = 4;

/// Handle of the password thread. The thread ends when this is dropped, after the jobs that wait.
pub struct Passwords(Arc<Queue>);

struct Queue {
    waiting: Mutex<Waiting>,
    changed: Condvar,
}

struct Waiting {
    lanes: Lanes<PasswordJob>,
    /// No further job is taken: the handle was dropped, or the thread has ended.
    is_closed: bool,
}

enum PasswordJob {
    Hash(String, Reply<PasswordHash, StoreError>),
    /// The hash is `None` if there is no such user. Then the job takes the same time, and fails.
    Verify(String, Option<PasswordHash>, Reply<bool, StoreError>),
}

impl PasswordJob {
    fn refuse(self, error: StoreError) {
        match self {
            PasswordJob::Hash(_, reply) => reply.answer(Err(error)),
            PasswordJob::Verify(_, _, reply) => reply.answer(Err(error)),
        }
    }
}

impl Passwords {
    /// Starts the thread.
    ///
    /// # Errors
    /// The thread could not be started.
    pub fn start() -> io::Result<Passwords> {
        let passwords = Passwords::without_thread();
        let thread = Thread(Arc::clone(&passwords.0));
        thread::Builder::new().name("passwords".into()).spawn(move || thread.work())?;
        Ok(passwords)
    }

    fn without_thread() -> Passwords {
        let waiting = Mutex::new(Waiting { lanes: Lanes::default(), is_closed: false });
        Passwords(Arc::new(Queue { waiting, changed: Condvar::new() }))
    }

    /// Computes a hash with a new salt. [`StoreError::OverShare`] if the waiter has its share of the waiting jobs,
    /// [`StoreError::Busy`] if too many others wait.
    pub fn hash(&self, waiter: Waiter, password: String) -> Pending<PasswordHash, StoreError> {
        let (reply, answer) = pending();
        self.send(waiter, PasswordJob::Hash(password, reply));
        answer
    }

    /// Whether the password matches the hash. The errors are those of [`Passwords::hash`].
    pub fn verify(
        &self,
        waiter: Waiter,
        password: String,
        against: Option<PasswordHash>,
    ) -> Pending<bool, StoreError> {
        let (reply, answer) = pending();
        self.send(waiter, PasswordJob::Verify(password, against, reply));
        answer
    }

    /// The waiting jobs of each lane.
    pub fn shares(&self) -> Vec<Arc<ShareUse>> {
        self.0.lock().lanes.shares()
    }

    fn send(&self, waiter: Waiter, job: PasswordJob) {
        let mut waiting = self.0.lock();
        if waiting.is_closed {
            return job.refuse(StoreError::Closed);
        }
        let refused = waiting.lanes.push(waiter, job);
        drop(waiting);
        self.0.changed.notify_one();
        if let Some((job, error)) = refused {
            job.refuse(error);
        }
    }
}

impl Drop for Passwords {
    fn drop(&mut self) {
        self.0.lock().is_closed = true;
        self.0.changed.notify_one();
    }
}

impl Queue {
    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for the next job; `None` after the last one.
    fn next(&self) -> Option<PasswordJob> {
        let mut waiting = self.lock();
        loop {
            if let Some(job) = waiting.lanes.pop() {
                return Some(job);
            }
            if waiting.is_closed {
                return None;
            }
            waiting = self.changed.wait(waiting).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

/// The only thread that computes hashes.
struct Thread(Arc<Queue>);

impl Thread {
    fn work(self) {
        while let Some(job) = self.0.next() {
            match job {
                PasswordJob::Hash(password, reply) => reply.answer(hash(&password)),
                PasswordJob::Verify(password, against, reply) => {
                    reply.answer(verify(&password, against.as_ref()));
                }
            }
        }
    }
}

impl Drop for Thread {
    /// After a panic nobody waits for a job that no thread takes.
    fn drop(&mut self) {
        let mut waiting = self.0.lock();
        waiting.is_closed = true;
        let left: Vec<PasswordJob> = std::iter::from_fn(|| waiting.lanes.pop()).collect();
        drop(waiting);
        left.into_iter().for_each(|job| job.refuse(StoreError::Closed));
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

    const WAITER: Waiter = Waiter { who: Who::User([1; 32]), place: Place::Given([1; 32]) };

    #[test]
    fn the_password_is_known_again_and_no_other() {
        let passwords = Passwords::start().unwrap();
        let kept = passwords.hash(WAITER, "correct horse".into()).wait().unwrap();
        assert_eq!((kept.memory_kib, kept.passes, kept.lanes), (65_536, 3, 4));
        let verify = |password: &str, against| passwords.verify(WAITER, password.into(), against).wait();
        assert_eq!(verify("correct horse", Some(kept)), Ok(true));
        assert_eq!(verify("correct horsf", Some(kept)), Ok(false));
        assert_eq!(verify("correct horse", None), Ok(false));
        let again = passwords.hash(WAITER, "correct horse".into()).wait().unwrap();
        assert!(again.salt != kept.salt && again.tag != kept.tag);
        assert_eq!(format!("{kept:?}"), "PasswordHash");
    }

    #[test]
    fn who_has_its_share_is_refused_at_once_and_nobody_waits_for_a_thread_that_has_ended() {
        let passwords = Passwords::without_thread();
        let verify = || passwords.verify(WAITER, "a".into(), None);
        let mut waiting: Vec<_> = (0..lanes::BOUNDS.share).map(|_| verify()).collect();
        assert!(matches!(verify().wait(), Err(StoreError::OverShare(_))));
        assert_eq!(passwords.shares().iter().map(|share| share.used()).sum::<u64>(), lanes::BOUNDS.share);
        drop(Thread(Arc::clone(&passwords.0)));
        waiting.push(verify());
        assert!(waiting.into_iter().all(|answer| answer.wait() == Err(StoreError::Closed)));
    }

    #[test]
    fn jobs_that_wait_are_done_before_the_thread_ends() {
        let passwords = Passwords::start().unwrap();
        let waiting: Vec<_> = (0..2).map(|_| passwords.verify(WAITER, "a".into(), None)).collect();
        drop(passwords);
        assert!(waiting.into_iter().all(|answer| answer.wait() == Ok(false)));
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
