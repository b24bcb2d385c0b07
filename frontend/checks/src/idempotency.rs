//! The header `Idempotency-Key`: the syntax of a key, the equality of two requests, and the keys under way.
//!
//! The answers to keys are durable in the store; this module has only the state of the process. A key is valid within
//! an account, a mode and an endpoint.

use api::{Issue, IssueType};
use ring::digest::{SHA256, digest};
use std::collections::HashSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use store::{AccountId, KeyEndpoint, KeyMode};

/// The longest key, in characters of ASCII.
pub const KEY_CHARS_MAX: usize = 255;

const LOC: [&str; 2] = ["header", "idempotency-key"];

/// Reads the values of the header; `None` if there are none.
///
/// # Errors
///
/// There are several values, or the value is empty, too long, or has characters other than printable ASCII.
pub fn key(values: &[Vec<u8>]) -> Result<Option<String>, Issue> {
    let value = match values {
        [] => return Ok(None),
        [value] => value,
        _ => return Err(Issue::new(&LOC, IssueType::Duplicate, "given more than once")),
    };
    if value.len() > KEY_CHARS_MAX {
        let msg = format!("at most {KEY_CHARS_MAX} characters");
        return Err(Issue::new(&LOC, IssueType::StringTooLong, msg).ctx("max_length", KEY_CHARS_MAX));
    }
    let printable = value.iter().all(|byte| matches!(byte, b' '..=b'~'));
    match std::str::from_utf8(value) {
        Ok(key) if printable && !key.is_empty() => Ok(Some(key.to_owned())),
        _ => {
            let msg = format!("must be 1 to {KEY_CHARS_MAX} printable ASCII characters");
            Err(Issue::new(&LOC, IssueType::StringPatternMismatch, msg))
        }
    }
}

/// The fingerprint of a body: the SHA-256 of its canonical JSON, which is equal for bodies with equal contents.
///
/// # Errors
///
/// The body is not JSON.
pub fn fingerprint(body: &[u8]) -> Result<[u8; 32], String> {
    let canonical = api::json::canonical(body)?;
    let mut hash = [0; 32];
    hash.copy_from_slice(digest(&SHA256, &canonical).as_ref());
    Ok(hash)
}

/// The account, the mode and the endpoint of a key, and the key.
type Scoped = (AccountId, KeyMode, KeyEndpoint, String);

/// The keys of requests under way on all threads.
#[derive(Default)]
pub struct InProgress(Mutex<HashSet<Scoped>>);

/// A claimed key, which is free again on drop.
pub struct Claim {
    keys: Arc<InProgress>,
    key: Scoped,
}

impl InProgress {
    /// Claims a key; `None` while another request has claimed it.
    pub fn claim(
        self: &Arc<InProgress>,
        account: AccountId,
        mode: KeyMode,
        endpoint: KeyEndpoint,
        key: &str,
    ) -> Option<Claim> {
        let key = (account, mode, endpoint, key.to_owned());
        let free = self.lock().insert(key.clone());
        free.then(|| Claim { keys: Arc::clone(self), key })
    }

    fn lock(&self) -> MutexGuard<'_, HashSet<Scoped>> {
        // The set is consistent after a panic of a lock's holder.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        self.keys.lock().remove(&self.key);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(values: &[&[u8]], expected: Result<Option<&str>, IssueType>) {
        let values: Vec<Vec<u8>> = values.iter().map(|value| value.to_vec()).collect();
        match (key(&values), expected) {
            (Ok(got), Ok(expected)) => assert_eq!(got.as_deref(), expected),
            (Err(issue), Err(kind)) => assert_eq!(issue.kind, kind),
            (got, _) => panic!("{values:?}: {}", got.is_ok()),
        }
    }

    #[test]
    fn what_a_key_may_be() {
        let long = "k".repeat(KEY_CHARS_MAX + 1);
        check(&[], Ok(None));
        check(&[b"a"], Ok(Some("a")));
        check(&[b"\"8e03978e 40d5\"~"], Ok(Some("\"8e03978e 40d5\"~")));
        check(&[&long.as_bytes()[1..]], Ok(Some(&long[1..])));
        check(&[long.as_bytes()], Err(IssueType::StringTooLong));
        check(&[b""], Err(IssueType::StringPatternMismatch));
        check(&["clé".as_bytes()], Err(IssueType::StringPatternMismatch));
        check(&[b"a\tb"], Err(IssueType::StringPatternMismatch));
        check(&[b"\xff"], Err(IssueType::StringPatternMismatch));
        check(&[b"a", b"a"], Err(IssueType::Duplicate));
    }

    #[test]
    fn bodies_are_the_same_by_what_they_say() {
        let one = fingerprint(b"{\"emails\":[\"a\"],\"name\":\"n\"}").unwrap();
        assert_eq!(one, fingerprint(b" {\"name\":\"\\u006e\", \"emails\": [\"a\"]}").unwrap());
        assert_ne!(one, fingerprint(b"{\"emails\":[\"b\"],\"name\":\"n\"}").unwrap());
        assert!(fingerprint(b"{").is_err());
    }

    #[test]
    fn a_key_is_free_again_whatever_happens() {
        use KeyEndpoint::{Batches, Lists};
        use KeyMode::{Live, Test};
        let keys = Arc::new(InProgress::default());
        let (one, other) = (AccountId::new(1, 1), AccountId::new(1, 2));
        let claim = keys.claim(one, Live, Batches, "k").unwrap();
        assert!(keys.claim(one, Live, Batches, "k").is_none());
        for (account, mode, endpoint, key) in [
            (one, Live, Batches, "l"),
            (one, Test, Batches, "k"),
            (other, Live, Batches, "k"),
            (one, Live, Lists, "k"),
        ] {
            assert!(keys.claim(account, mode, endpoint, key).is_some());
        }
        drop(claim);
        let panicked = std::thread::scope(|scope| {
            let thread = scope.spawn(|| {
                let _claim = keys.claim(one, Live, Batches, "k").unwrap();
                assert!(keys.claim(one, Live, Batches, "k").is_some(), "it is taken");
            });
            thread.join().is_err()
        });
        assert!(panicked && keys.claim(one, Live, Batches, "k").is_some());
    }
}
