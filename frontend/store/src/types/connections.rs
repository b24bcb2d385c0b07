//! The arguments and results of the methods about assistants.

use crate::error::OUTDATED;
use crate::names::quiet_debug;
use crate::{AccountId, ClientId, ConnectionId, HoldError, StoreError, UnixMs};
use thiserror::Error;

/// The most full checks that one connection may have.
pub const ATTEMPTS_MAX: u32 = 10;

/// The longest life of a connection in milliseconds: 30 days.
pub const CONNECTION_MS_MAX: UnixMs = 30 * 24 * 60 * 60 * 1000;

/// How long an authorization code can be redeemed after the consent, in milliseconds.
pub const CODE_MS: UnixMs = 60 * 1000;

/// The longest life of an access token in milliseconds; it ends with its connection.
pub const ACCESS_MS: UnixMs = 60 * 60 * 1000;

/// How long a registered client without a connection is kept: a day.
pub const CLIENT_UNUSED_MS: UnixMs = 24 * 60 * 60 * 1000;

/// How long a client is kept after the end of its last connection: 30 days.
pub const CLIENT_KEEP_MS: UnixMs = 30 * 24 * 60 * 60 * 1000;

/// The largest number of clients. Beyond it, the next client to expire is removed, if it never had a connection or expires within
/// a day.
pub const CLIENTS_MAX: u64 = 10_000;

/// The largest number of connections of an account.
pub const CONNECTIONS_MAX: usize = 50;

/// The largest number of redirect URIs of a client.
pub const REDIRECT_URIS_MAX: usize = 10;

/// The longest URI of a client in bytes: its identifier or a redirect URI.
pub const URI_BYTES_MAX: usize = 512;

/// The longest name of a client in characters.
pub const CLIENT_NAME_CHARS_MAX: usize = 100;

/// The SHA-256 of a secret. A secret is stored in no other form.
pub type SecretHash = [u8; 32];

/// A client that registers itself (RFC 7591).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewClient {
    /// The id, which the caller creates.
    pub id: ClientId,
    /// The name that it states: at most [`CLIENT_NAME_CHARS_MAX`] characters without control characters.
    pub name: String,
    /// The URIs for codes: 1 to [`REDIRECT_URIS_MAX`], each with at most [`URI_BYTES_MAX`] bytes.
    pub redirect_uris: Vec<String>,
}

/// A client that has registered itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Client {
    /// The id of the client.
    pub id: ClientId,
    /// The name that it states.
    pub name: String,
    /// The URIs for codes.
    pub redirect_uris: Vec<String>,
    /// The time of registration.
    pub created_at: UnixMs,
}

/// A connection after the user's consent. It cannot be used before its code is redeemed.
#[derive(Clone, PartialEq, Eq)]
pub struct NewConnection {
    /// The id, which the caller creates.
    pub id: ConnectionId,
    /// The account that pays its checks.
    pub account: AccountId,
    /// The identifier that the client gave: a [`ClientId`], or the URL of its metadata.
    pub client: String,
    /// The name that the client states.
    pub client_name: String,
    /// The URI for the code: the redemption must have the same.
    pub redirect_uri: String,
    /// The host of this URI, for people.
    pub redirect_host: String,
    /// The hash of the code.
    pub code: SecretHash,
    /// The challenge for the redemption (RFC 7636): the SHA-256 of the verifier.
    pub challenge: [u8; 32],
    /// How many full checks it may make: at most [`ATTEMPTS_MAX`].
    pub allowance: u32,
    /// The time of its end: at most [`CONNECTION_MS_MAX`] from now.
    pub expires_at: UnixMs,
}

/// A connection as it is shown in lists.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Connection {
    /// The id of the connection.
    pub id: ConnectionId,
    /// The account that pays its checks.
    pub account: AccountId,
    /// The identifier of the client.
    pub client: String,
    /// The name that the client states.
    pub client_name: String,
    /// The host to which its code was sent.
    pub redirect_host: String,
    /// How many full checks it may make in all.
    pub allowance: u32,
    /// How many full checks it has started.
    pub used: u32,
    /// The time of the consent.
    pub created_at: UnixMs,
    /// The time of its end.
    pub expires_at: UnixMs,
    /// The time at which it last got tokens or started a full check.
    pub last_used_at: UnixMs,
}

impl Connection {
    /// How many full checks it may still start.
    pub fn left(&self) -> u32 {
        self.allowance.saturating_sub(self.used)
    }
}

/// A code with the data that its redemption must prove.
#[derive(Clone, PartialEq, Eq)]
pub struct Redemption {
    /// The hash of the code.
    pub code: SecretHash,
    /// The client that redeems it.
    pub client: String,
    /// The redirect URI that the client states.
    pub redirect_uri: String,
    /// The SHA-256 of the verifier that it sent.
    pub challenge: [u8; 32],
    /// The hash of the first part of every refresh token of this connection.
    pub family: SecretHash,
    /// The tokens that it will get.
    pub next: NextTokens,
}

/// A refresh token with the tokens that replace it.
#[derive(Clone, PartialEq, Eq)]
pub struct Renewal {
    /// The hash of its first part, which all refresh tokens of the connection share.
    pub family: SecretHash,
    /// The hash of its second part.
    pub refresh: SecretHash,
    /// The client that sends it.
    pub client: String,
    /// The tokens that it will get.
    pub next: NextTokens,
}

/// New tokens, which are valid after the store accepts them.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct NextTokens {
    /// The hash of the access token.
    pub access: SecretHash,
    /// The hash of the second part of the refresh token.
    pub refresh: SecretHash,
}

/// The store's permission to send tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Granted {
    /// The connection of the tokens.
    pub connection: ConnectionId,
    /// The time at which the access token ends.
    pub access_expires_at: UnixMs,
}

/// The reason why a client or a connection was not created.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ConnectError {
    /// The limit [`CLIENTS_MAX`] or [`CONNECTIONS_MAX`] is reached.
    #[error("there are too many already")]
    TooMany,
    /// The client has expired.
    #[error("no such client")]
    Unknown,
    /// The session that was verified before has ended, or the account was deleted.
    #[error("{OUTDATED}")]
    Outdated,
    /// A value is out of its range, or the id or code is in use.
    #[error("a bound is not kept, or an id is in use")]
    Bad,
    /// The store itself failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// The reason why tokens are refused, or a connection is not ended.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum GrantError {
    /// It does not exist, has ended, or belongs to another owner.
    #[error("no such code, token or connection")]
    Unknown,
    /// It was used before, so its connection was ended.
    #[error("it was used before; the connection is ended")]
    Reused,
    /// The store itself failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// The reason why a connection did not start a full check.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum AttemptError {
    /// The connection has ended.
    #[error("the connection has ended")]
    Ended,
    /// It has started all full checks that it may make.
    #[error("all {allowance} full checks were begun")]
    Spent {
        /// The number of allowed full checks.
        allowance: u32,
    },
    /// The account has used up its fair use.
    #[error("the fair use is used up for {wait_ms} ms")]
    FairUse {
        /// The time until it has room, in milliseconds.
        wait_ms: u64,
    },
    /// The account cannot pay the check.
    #[error(transparent)]
    Hold(HoldError),
    /// The store itself failed.
    #[error(transparent)]
    Store(#[from] StoreError),
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
