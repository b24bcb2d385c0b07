//! Users of the dashboard, their sessions, and what accounts did on each day.

use super::super::id::AccountId;
use super::{NewAccount, UnixMs};
use api::Reason;
use serde::{Deserialize, Serialize};
use std::fmt;

/// How long a session may be without a request.
pub const SESSION_IDLE_MS: UnixMs = 7 * 24 * 60 * 60 * 1000;

/// How long a session lasts at most.
pub const SESSION_MS: UnixMs = 30 * 24 * 60 * 60 * 1000;

/// How often the last request of a session is written at most.
pub const SESSION_STEP_MS: UnixMs = 5 * 60 * 1000;

/// Most sessions of an account at once; a new one ends the one that is idle for the longest time.
pub const SESSIONS_MAX: usize = 20;

/// How long a sign-in link is good for.
pub const SIGN_IN_LINK_MS: UnixMs = 15 * 60 * 1000;

/// How many days are counted back.
pub const DAYS_KEPT: u32 = 90;

/// SHA-256 of a session's or link's token, the only form in which one is kept.
pub type TokenHash = [u8; 32];

/// A password as it is kept: Argon2id (RFC 9106), with what it was made with.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct PasswordHash {
    /// Memory in KiB.
    pub memory_kib: u32,
    /// Passes over it.
    pub passes: u32,
    /// Lanes.
    pub lanes: u32,
    /// The salt.
    pub salt: [u8; 16],
    /// The tag.
    pub tag: [u8; 32],
}

impl fmt::Debug for PasswordHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PasswordHash")
    }
}

/// The user of an account.
#[derive(Clone, PartialEq, Eq)]
pub struct User {
    /// The account.
    pub account: AccountId,
    /// The user's own address.
    pub email: String,
    /// The password.
    pub password: PasswordHash,
}

impl fmt::Debug for User {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "User({})", self.account)
    }
}

/// A session to begin.
#[derive(Clone, PartialEq, Eq)]
pub struct NewSession {
    /// SHA-256 of its token.
    pub hash: TokenHash,
    /// With what it was begun, as its owner would know it again; at most [`super::TEXT_CHARS_MAX`] characters.
    pub agent: String,
}

/// A user to make, with the account.
#[derive(Clone, PartialEq, Eq)]
pub struct NewUser {
    /// The account.
    pub account: NewAccount,
    /// The user's own address.
    pub email: String,
    /// The password.
    pub password: PasswordHash,
    /// The first session.
    pub session: NewSession,
}

/// A session.
#[derive(Clone, PartialEq, Eq)]
pub struct Session {
    /// SHA-256 of its token.
    pub hash: TokenHash,
    /// Whose.
    pub account: AccountId,
    /// With what it was begun.
    pub agent: String,
    /// When it was begun.
    pub created_at: UnixMs,
    /// About when it was last used.
    pub seen_at: UnixMs,
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Session({}, {})", self.account, self.agent)
    }
}

impl Session {
    /// When it is over, if it is not used before.
    pub fn ends_at(&self) -> UnixMs {
        session_end(self.created_at, self.seen_at)
    }
}

/// When a session is over that is not used again.
pub fn session_end(created_at: UnixMs, seen_at: UnixMs) -> UnixMs {
    created_at.saturating_add(SESSION_MS).min(seen_at.saturating_add(SESSION_IDLE_MS))
}

/// What an account did on a day.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DayCounts {
    /// Days since 1970, UTC.
    pub day: u32,
    /// Full checks of single addresses that were charged.
    pub singles: u64,
    /// Rows of batches that were completed on it, and charged.
    pub rows: u64,
    /// How often each reason was the answer to one of them.
    pub reasons: Vec<(Reason, u64)>,
}

/// Why a user was not made or changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum UserError {
    /// Another account has a user of this address.
    EmailTaken,
    /// There is no user yet, and without an address there cannot be.
    EmailMissing,
    /// The account was not made or is not there.
    Account(super::super::ChangeError),
}

impl From<super::super::StoreError> for UserError {
    fn from(error: super::super::StoreError) -> UserError {
        UserError::Account(error.into())
    }
}

impl fmt::Display for UserError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            UserError::EmailTaken => f.write_str("another account has a user of this address"),
            UserError::EmailMissing => {
                f.write_str("the account has no user yet; name the address to sign in with, with --email")
            }
            UserError::Account(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for UserError {}
