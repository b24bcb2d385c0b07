//! Results of addresses: the stored data of a check, and its retention.

use super::ledger::HoldRef;
use super::users::Authority;
use crate::credits::Balance;
use crate::{ConnectionId, UnixMs};
use api::{Reason, UnverifiableCause};
use engine::proto::smtp::status::EnhancedCode;
use engine::proto::verdict::Scope;
use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

/// How long an account's own check answers its repeats, in milliseconds.
pub const REPEAT_MS: UnixMs = 24 * 60 * 60 * 1000;

/// How long a verdict is kept, in milliseconds.
pub const RETENTION_MS: UnixMs = 7 * 24 * 60 * 60 * 1000;

/// How long a verdict is kept that may change soon (`catch_all`, `unverifiable`, `inbox_full`), in milliseconds.
pub const RETENTION_SHORT_MS: UnixMs = 24 * 60 * 60 * 1000;

const _: () = assert!(REPEAT_MS <= RETENTION_SHORT_MS && RETENTION_SHORT_MS < RETENTION_MS);

/// The keyed hash of an address, from `Store::hash_address`. A result has its
/// address in no other form.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AddressHash(pub [u8; 16]);

/// The hash is also data of a person.
impl fmt::Debug for AddressHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("AddressHash(..)")
    }
}

/// The stored result of an address for an account.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Known {
    /// The account's own check of the last [`REPEAT_MS`], which is free.
    Own(StoredResult),
    /// A retained verdict from the check of another account. It costs a credit: see
    /// `Store::begin_check`.
    Shared(StoredResult),
    /// There is no stored result.
    Nothing,
}

/// A charged check of one address, before it begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NewCheck {
    /// The hold of its credit, if one is held or charged.
    pub hold: HoldRef,
    /// The connection of the assistant that asks. Its number of full checks counts. `None` if the account itself asks.
    pub connection: Option<ConnectionId>,
    /// The address.
    pub address: AddressHash,
    /// The fair use of the account, a rate per second and a burst, if the store is to count it: where several nodes share it.
    pub fair_use: Option<(u32, u32)>,
    /// What was verified before: the key or the session of the request.
    pub by: Authority,
}

/// The way in which a charged check begins, by what is known of its address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Begun {
    /// The account's own result, which is free. Nothing was held, and no full check of a connection was used.
    Own(StoredResult),
    /// A verdict from the check of another account. A credit was charged for it, and it is the account's own result now.
    Charged(StoredResult, Balance),
    /// Nothing is known. A credit is held, and the check ends with settle or void.
    Held(Balance),
    /// Another node checks this address for the account. Nothing was held. Its result is a free repeat as soon as it is there.
    UnderWay,
}

/// What a verdict rests on, as far as answers show it. It has no text of a reply, because many servers repeat addresses in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Basis {
    /// The name of the rule that decided.
    pub rule: Cow<'static, str>,
    /// The name of the mail host, if the verdict rests on one.
    pub host: Option<String>,
    /// The reply that decided, if there was one.
    pub reply: Option<BasisReply>,
    /// The time of the reply; without one, and for a verdict from another account's check, the time of the answer.
    pub observed_at: UnixMs,
}

/// The reply on which a verdict rests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BasisReply {
    /// What it is about.
    pub scope: Scope,
    /// The reply code.
    pub code: u16,
    /// The enhanced code of a refusal.
    pub status: Option<EnhancedCode>,
}

/// A verdict with its evidence.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verdict {
    /// The reason of the verdict.
    pub reason: Reason,
    /// Why the address is `unverifiable`; `None` with another reason, and if the cause is not known. A database does not keep the causes
    /// of addresses that nobody was asked about: they have no verdict.
    pub cause: Option<UnverifiableCause>,
    /// The engine's keyed hash of the domain and host whose behaviour is the evidence; `None` if there is no such
    /// evidence. A verdict is not used again after its evidence is withdrawn.
    pub evidence: Option<u64>,
    /// The rule, host and reply; `None` if the database has none of this verdict, as in rows of earlier versions.
    pub basis: Option<Arc<Basis>>,
}

/// A verdict without a cause, and without evidence about a host's behaviour.
impl From<Reason> for Verdict {
    fn from(reason: Reason) -> Verdict {
        Verdict { reason, cause: None, evidence: None, basis: None }
    }
}

/// A stored result of an address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredResult {
    /// The verdict of the check.
    pub verdict: Verdict,
    /// The time of the answer to the account for an own result, or the time of the verdict for a shared one.
    pub checked_at: UnixMs,
}

impl StoredResult {
    /// The time until which an own result answers the account's repeats for free.
    pub fn repeats_until(&self) -> UnixMs {
        self.checked_at.saturating_add(REPEAT_MS)
    }
}

/// A result to store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResultRecord {
    /// The keyed hash of the address.
    pub address: AddressHash,
    /// The verdict of the check.
    pub verdict: Verdict,
}

/// The data that becomes durable together with a settled charge.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Settlement {
    /// The result that was charged, so that a charged answer is never lost.
    pub result: Option<ResultRecord>,
}

/// Whether a verdict with this reason may answer other accounts. For most causes of `unverifiable`, a new check may tell more.
pub fn is_shared(reason: Reason) -> bool {
    reason != Reason::Unverifiable
}

/// How long a verdict with this reason is kept, in milliseconds.
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
