//! Why a check has no answer.

use crate::engine_client::NoFinding;
use store::rate_limit::RateLimited;
use store::{AttemptError, EntryId, HoldError, SettleError, StoreError};

/// Why a check has no answer. Nothing was charged, unless the store says that it does not know what it has done
/// ([`StoreError::Unknown`]).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CheckError {
    /// The store could not be read or written.
    Store(StoreError),
    /// No credit could be held.
    Hold(HoldError),
    /// The account has used up its fair share of full checks.
    RateLimited(RateLimited),
    /// The connection of an assistant has ended or has used up its checks.
    Attempt(AttemptError),
    /// The engine could not ask.
    NoFinding(NoFinding),
    /// The engine did not answer within [`PROBE_TIME_MAX`](crate::full::PROBE_TIME_MAX).
    TimedOut,
    /// There was an answer, and it could not be made durable.
    NotSettled {
        /// The hold, which is voided at the latest by the next start.
        hold: EntryId,
        /// What the store said.
        error: SettleError,
    },
    /// The operating system has no random bits.
    NoRandomBits(String),
    /// A defect of ours: what the log is told.
    Defect(&'static str),
}

impl From<StoreError> for CheckError {
    fn from(error: StoreError) -> CheckError {
        CheckError::Store(error)
    }
}

impl From<HoldError> for CheckError {
    fn from(error: HoldError) -> CheckError {
        CheckError::Hold(error)
    }
}

impl From<RateLimited> for CheckError {
    fn from(limited: RateLimited) -> CheckError {
        CheckError::RateLimited(limited)
    }
}

impl From<NoFinding> for CheckError {
    fn from(none: NoFinding) -> CheckError {
        CheckError::NoFinding(none)
    }
}

impl From<AttemptError> for CheckError {
    fn from(error: AttemptError) -> CheckError {
        match error {
            AttemptError::Hold(error) => CheckError::Hold(error),
            AttemptError::Store(error) => CheckError::Store(error),
            AttemptError::Ended | AttemptError::Spent { .. } => CheckError::Attempt(error),
        }
    }
}
