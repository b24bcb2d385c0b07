//! What the methods about assistants' clients and connections take and give.

use super::UnixMs;
use crate::credits::Balance;
use crate::{AccountId, ClientId, ConnectionId, HoldError, StoreError};
use std::fmt;

/// The most full checks that one connection may be allowed.
pub const ATTEMPTS_MAX: u32 = 10;

/// How long a connection may last at most: 30 days.
pub const CONNECTION_MS_MAX: UnixMs = 30 * 24 * 60 * 60 * 1000;

/// How long after the consent its authorization code can be redeemed.
pub const CODE_MS: UnixMs = 60 * 1000;

/// How long an access token lasts, if its connection does.
pub const ACCESS_MS: UnixMs = 60 * 60 * 1000;

/// How long a client that registered itself and was never connected is remembered: a day.
pub const CLIENT_UNUSED_MS: UnixMs = 24 * 60 * 60 * 1000;

/// How long after the end of its last connection's time a client is remembered: 30 days.
pub const CLIENT_KEEP_MS: UnixMs = 30 * 24 * 60 * 60 * 1000;

/// The most clients that are remembered. Beyond, the one that would be forgotten next goes if it was never connected.
pub const CLIENTS_MAX: u64 = 10_000;

/// The most connections of an account.
pub const CONNECTIONS_MAX: usize = 50;

/// The most redirect URIs of a client.
pub const REDIRECT_URIS_MAX: usize = 10;

/// The longest URI of a client: its identifier or where it is redirected to.
pub const URI_BYTES_MAX: usize = 512;

/// The longest name of a client.
pub const CLIENT_NAME_CHARS_MAX: usize = 100;

/// SHA-256 of a secret that was given out: the only form in which one is kept.
pub type SecretHash = [u8; 32];

/// A client that registers itself (RFC 7591).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewClient {
    /// Its id, made by the caller.
    pub id: ClientId,
    /// What it calls itself: at most [`CLIENT_NAME_CHARS_MAX`] characters, none of them a control character.
    pub name: String,
    /// Where codes may be sent: 1 to [`REDIRECT_URIS_MAX`], each at most [`URI_BYTES_MAX`] long.
    pub redirect_uris: Vec<String>,
}

/// A client that registered itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Client {
    /// Its id.
    pub id: ClientId,
    /// What it calls itself.
    pub name: String,
    /// Where codes may be sent.
    pub redirect_uris: Vec<String>,
    /// When it registered.
    pub created_at: UnixMs,
}

/// A connection that a user has consented to: nobody can use it before its code is redeemed.
#[derive(Clone, PartialEq, Eq)]
pub struct NewConnection {
    /// Its id, made by the caller.
    pub id: ConnectionId,
    /// Whose credits it may spend.
    pub account: AccountId,
    /// The client's identifier, as it gave it: a [`ClientId`], or the URL of its metadata.
    pub client: String,
    /// What the client calls itself.
    pub client_name: String,
    /// Where its code is sent: the redeemer must say the same.
    pub redirect_uri: String,
    /// The host of that, for people.
    pub redirect_host: String,
    /// The code.
    pub code: SecretHash,
    /// The challenge to whoever redeems it (RFC 7636): SHA-256 of the verifier.
    pub challenge: [u8; 32],
    /// Full checks that it may make: at most [`ATTEMPTS_MAX`].
    pub allowance: u32,
    /// When it ends: at most [`CONNECTION_MS_MAX`] from now.
    pub expires_at: UnixMs,
}

/// A connection as lists show it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Connection {
    /// Its id.
    pub id: ConnectionId,
    /// Whose credits it may spend.
    pub account: AccountId,
    /// The client's identifier.
    pub client: String,
    /// What the client calls itself.
    pub client_name: String,
    /// The host to which its code was sent.
    pub redirect_host: String,
    /// Full checks that it may make in all.
    pub allowance: u32,
    /// Full checks that it has begun.
    pub used: u32,
    /// When it was consented to.
    pub created_at: UnixMs,
    /// When it ends.
    pub expires_at: UnixMs,
    /// When it last got tokens or began a full check.
    pub last_used_at: UnixMs,
}

impl Connection {
    /// Full checks that it may still begin.
    pub fn left(&self) -> u32 {
        self.allowance.saturating_sub(self.used)
    }
}

/// A code with what its redeemer must know.
#[derive(Clone, PartialEq, Eq)]
pub struct Redemption {
    /// The code.
    pub code: SecretHash,
    /// Who redeems it.
    pub client: String,
    /// Where it says that the code was sent.
    pub redirect_uri: String,
    /// SHA-256 of the verifier that it gave.
    pub challenge: [u8; 32],
    /// The first part of every refresh token of this connection.
    pub family: SecretHash,
    /// What it is to get.
    pub next: NextTokens,
}

/// A refresh token with what takes its place.
#[derive(Clone, PartialEq, Eq)]
pub struct Renewal {
    /// Its first part, which is that of all refresh tokens of the connection.
    pub family: SecretHash,
    /// Its second part.
    pub refresh: SecretHash,
    /// Who sends it.
    pub client: String,
    /// What it is to get.
    pub next: NextTokens,
}

/// Tokens that were made and are given out if the store agrees.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct NextTokens {
    /// The access token.
    pub access: SecretHash,
    /// The second part of the refresh token.
    pub refresh: SecretHash,
}

/// Tokens may be given out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Granted {
    /// Their connection.
    pub connection: ConnectionId,
    /// When the access token ends.
    pub access_expires_at: UnixMs,
}

/// A full check was begun by a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Attempted {
    /// The account's balance afterwards.
    pub balance: Balance,
    /// Full checks that the connection may still begin.
    pub left: u32,
}

/// Why a client or a connection was not made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ConnectError {
    /// There are too many: [`CLIENTS_MAX`] or [`CONNECTIONS_MAX`].
    TooMany,
    /// No such account, or no such client any longer.
    Unknown,
    /// A bound is not kept, or the id or code is in use.
    Bad,
    /// The store cannot do its work.
    Store(StoreError),
}

/// Why tokens are not given out, or a connection is not ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum GrantError {
    /// There is nothing of the kind, or it has ended, or it is another's.
    Unknown,
    /// It was used before: its connection is ended by this.
    Reused,
    /// The store cannot do its work.
    Store(StoreError),
}

/// Why a connection began no full check.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AttemptError {
    /// The connection has ended.
    Ended,
    /// It has begun all that it may.
    Spent {
        /// How many those are.
        allowance: u32,
    },
    /// The account cannot pay.
    Hold(HoldError),
    /// The store cannot do its work.
    Store(StoreError),
}

/// Hashes of secrets are nobody's business either.
macro_rules! quiet_debug {
    ($($name:ident),*) => {$(
        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(stringify!($name))
            }
        }
    )*};
}
quiet_debug!(NewConnection, Redemption, Renewal, NextTokens);

impl From<HoldError> for AttemptError {
    fn from(error: HoldError) -> AttemptError {
        match error {
            HoldError::Store(error) => AttemptError::Store(error),
            other => AttemptError::Hold(other),
        }
    }
}

macro_rules! error {
    ($($error:ident),*) => {$(
        impl From<StoreError> for $error {
            fn from(error: StoreError) -> $error {
                $error::Store(error)
            }
        }

        impl std::error::Error for $error {}
    )*};
}
error!(ConnectError, GrantError, AttemptError);

impl fmt::Display for ConnectError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ConnectError::TooMany => f.write_str("there are too many already"),
            ConnectError::Unknown => f.write_str("no such account or client"),
            ConnectError::Bad => f.write_str("a bound is not kept, or an id is in use"),
            ConnectError::Store(error) => error.fmt(f),
        }
    }
}

impl fmt::Display for GrantError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            GrantError::Unknown => f.write_str("no such code, token or connection"),
            GrantError::Reused => f.write_str("it was used before; the connection is ended"),
            GrantError::Store(error) => error.fmt(f),
        }
    }
}

impl fmt::Display for AttemptError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            AttemptError::Ended => f.write_str("the connection has ended"),
            AttemptError::Spent { allowance } => write!(f, "all {allowance} full checks were begun"),
            AttemptError::Hold(error) => error.fmt(f),
            AttemptError::Store(error) => error.fmt(f),
        }
    }
}
