//! Results of addresses: what is kept of a check, and for how long.

use super::UnixMs;
use api::Reason;
use std::fmt;

/// How long an account's own check answers its repeats.
pub const REPEAT_MS: UnixMs = 24 * 60 * 60 * 1000;

/// How long a verdict is kept.
pub const RETENTION_MS: UnixMs = 7 * 24 * 60 * 60 * 1000;

/// How long a verdict is kept that soon may be another: `catch_all`, `unverifiable`, `inbox_full`.
pub const RETENTION_SHORT_MS: UnixMs = 24 * 60 * 60 * 1000;

const _: () = assert!(REPEAT_MS <= RETENTION_SHORT_MS && RETENTION_SHORT_MS < RETENTION_MS);

/// Keyed hash of an address, the only form in which the address of a result is kept. Of
/// [`Store::hash_address`](super::super::Store::hash_address).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AddressHash(pub [u8; 16]);

/// Even the hash is of one person's address.
impl fmt::Debug for AddressHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("AddressHash(..)")
    }
}

/// What is known of an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Known {
    /// The account's own check of the last [`REPEAT_MS`]: free.
    Own(StoredResult),
    /// A verdict that is still retained, whoever asked for it: for a credit, see
    /// [`Store::charge_known`](super::super::Store::charge_known).
    Shared(StoredResult),
    /// Nothing.
    Nothing,
}

/// A verdict, and what it rests on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Verdict {
    /// What a check came to.
    pub reason: Reason,
    /// The engine's keyed hash of the domain and host on whose behaviour it rests; none where it rests on nobody's. A
    /// verdict whose evidence is withdrawn later is not used again.
    pub evidence: Option<u64>,
}

/// One that rests on nobody's behaviour.
impl From<Reason> for Verdict {
    fn from(reason: Reason) -> Verdict {
        Verdict { reason, evidence: None }
    }
}

/// A result that is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StoredResult {
    /// What the check came to.
    pub verdict: Verdict,
    /// When: of an own result, when the account was answered; of a shared one, when the verdict was found.
    pub checked_at: UnixMs,
}

/// A result to keep.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ResultRecord {
    /// Of which address.
    pub address: AddressHash,
    /// What the check came to.
    pub verdict: Verdict,
}

/// What becomes durable together with a settled charge.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Settlement {
    /// The result that the charge was for, so that an answer once given is never lost.
    pub result: Option<ResultRecord>,
}

/// How long a verdict of this reason is kept.
pub fn retention(reason: Reason) -> UnixMs {
    match reason {
        Reason::CatchAll | Reason::Unverifiable | Reason::InboxFull => RETENTION_SHORT_MS,
        Reason::MailboxExists
        | Reason::RoleAccount
        | Reason::InvalidSyntax
        | Reason::Disposable
        | Reason::Spamtrap
        | Reason::MailboxDisabled
        | Reason::MailboxNotFound
        | Reason::PossibleTypo
        | Reason::NoMx
        | Reason::FastCheckPassed => RETENTION_MS,
    }
}
