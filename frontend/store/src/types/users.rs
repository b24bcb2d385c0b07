//! Users of the dashboard, their sessions, and the daily counts of accounts.

use super::accounts::NewAccount;
use crate::UnixMs;
use crate::error::OUTDATED;
use crate::id::{AccountId, KeyId};
use crate::names::quiet_debug;
use api::Reason;
use serde::{Deserialize, Serialize};
use std::fmt;
use thiserror::Error;

/// How long a session may last without a request, in milliseconds.
pub const SESSION_IDLE_MS: UnixMs = 7 * 24 * 60 * 60 * 1000;

/// The longest life of a session in milliseconds.
pub const SESSION_MS: UnixMs = 30 * 24 * 60 * 60 * 1000;

/// The shortest time between two writes of a session's last request, in milliseconds.
pub const SESSION_STEP_MS: UnixMs = 5 * 60 * 1000;

/// The largest number of sessions of an account. A new session ends the one that has been idle for longest.
pub const SESSIONS_MAX: usize = 20;

/// How long a sign-in link is valid, in milliseconds.
pub const SIGN_IN_LINK_MS: UnixMs = 15 * 60 * 1000;

/// For how many days counts are kept.
pub const DAYS_KEPT: u32 = 90;

/// The SHA-256 of the token of a session or link. A token is stored in no other form.
pub type TokenHash = [u8; 32];

/// A password hash with its parameters: Argon2id (RFC 9106).
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct PasswordHash {
    /// The memory in KiB.
    pub memory_kib: u32,
    /// The number of passes over the memory.
    pub passes: u32,
    /// The number of lanes.
    pub lanes: u32,
    /// The random salt of the hash.
    pub salt: [u8; 16],
    /// The output of the hash function.
    pub tag: [u8; 32],
}

quiet_debug!(PasswordHash, Authority);

/// The user of an account, with the stored password.
#[derive(Clone, PartialEq, Eq)]
pub struct User {
    /// The account of the user.
    pub account: AccountId,
    /// The email address of the user.
    pub email: String,
    /// The hash of the password.
    pub password: PasswordHash,
}

impl fmt::Debug for User {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "User({})", self.account)
    }
}

/// What was verified before a change, and must still hold in the transaction of the change. Between the two, a thread may have waited
/// for seconds, for the hash of a password. So whatever ends a session, replaces a password or revokes a key also stops what began with it.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
pub struct Authority {
    /// The session of the request.
    pub session: Option<TokenHash>,
    /// The hash that the typed password matched.
    pub password: Option<PasswordHash>,
    /// The API key of the request.
    pub key: Option<KeyId>,
}

impl Authority {
    /// The operator, or a test: nothing was verified.
    pub const OPERATOR: Authority = Authority { session: None, password: None, key: None };

    /// A request with this session.
    pub const fn session(session: TokenHash) -> Authority {
        Authority { session: Some(session), ..Authority::OPERATOR }
    }

    /// A sign-in with a password that matched this hash.
    pub const fn password(password: PasswordHash) -> Authority {
        Authority { password: Some(password), ..Authority::OPERATOR }
    }

    /// A request with this API key.
    pub const fn key(key: KeyId) -> Authority {
        Authority { key: Some(key), ..Authority::OPERATOR }
    }
}

/// A new session before its start.
#[derive(Clone, PartialEq, Eq)]
pub struct NewSession {
    /// The SHA-256 of its token.
    pub hash: TokenHash,
    /// A description of the browser for the owner; at most [`TEXT_CHARS_MAX`](crate::TEXT_CHARS_MAX) characters.
    pub agent: String,
}

/// A new user with a new account.
#[derive(Clone, PartialEq, Eq)]
pub struct NewUser {
    /// The new account.
    pub account: NewAccount,
    /// The email address of the user.
    pub email: String,
    /// The hash of the password.
    pub password: PasswordHash,
    /// The first session of the user.
    pub session: NewSession,
}

/// A session of the dashboard.
#[derive(Clone, PartialEq, Eq)]
pub struct Session {
    /// The SHA-256 of its token.
    pub hash: TokenHash,
    /// The account of the session.
    pub account: AccountId,
    /// A description of the browser that started it.
    pub agent: String,
    /// The time of its start.
    pub created_at: UnixMs,
    /// The approximate time of its last use.
    pub seen_at: UnixMs,
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Session({}, {})", self.account, self.agent)
    }
}

/// The time at which a session ends if it is not used again.
pub fn session_end(created_at: UnixMs, seen_at: UnixMs) -> UnixMs {
    created_at.saturating_add(SESSION_MS).min(seen_at.saturating_add(SESSION_IDLE_MS))
}

/// The counts of an account for one day.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DayCounts {
    /// The day in UTC: days since 1970-01-01.
    pub day: u32,
    /// Full checks of single addresses that were charged.
    pub singles: u64,
    /// Rows of batches that were completed on this day, with repeats, which are free.
    pub rows: u64,
    /// How often each reason was the answer to these checks and rows.
    pub reasons: Vec<(Reason, u64)>,
}

/// The reason why a user was not created or changed.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum UserError {
    /// Another account has a user with this email address.
    #[error("another account has a user with this address")]
    EmailTaken,
    /// The account has no user, and none can be created without an email address.
    #[error("the account has no user yet; give the user's address with --email")]
    EmailMissing,
    /// The session or the password that was verified before is not valid any more.
    #[error("{OUTDATED}")]
    Outdated,
    /// The account was not created, or does not exist.
    #[error(transparent)]
    Account(crate::ChangeError),
}

impl From<crate::StoreError> for UserError {
    fn from(error: crate::StoreError) -> UserError {
        UserError::Account(error.into())
    }
}
