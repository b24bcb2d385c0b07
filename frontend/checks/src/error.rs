//! The errors of checks, without their form over HTTP.

use crate::engine_client::NoFinding;
use store::rate_limit::RateLimited;
use store::{AttemptError, EntryId, HoldError, SettleError, StoreError};

/// The reason why a check has no answer. Nothing was charged, unless the store does not know its own result
/// ([`StoreError::Unknown`]).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CheckError {
    /// The store could not be read or written.
    Store(StoreError),
    /// No credit could be held.
    Hold(HoldError),
    /// The account has used up its fair use of full checks.
    RateLimited(RateLimited),
    /// The connection of an assistant has ended, or has used up its full checks.
    Attempt(AttemptError),
    /// The engine could not ask a server.
    NoFinding(NoFinding),
    /// The engine did not answer within [`PROBE_TIME_MAX`](crate::full::PROBE_TIME_MAX).
    TimedOut,
    /// There was a result, but it could not be made durable.
    NotSettled {
        /// The hold, which the next start voids at the latest.
        hold: EntryId,
        /// The error of the store.
        error: SettleError,
    },
    /// The operating system has no random bits.
    NoRandomBits(String),
    /// A defect of the program, with the text for the log.
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
            AttemptError::Ended | AttemptError::Spent { .. } | AttemptError::FairUse { .. } => {
                CheckError::Attempt(error)
            }
        }
    }
}
