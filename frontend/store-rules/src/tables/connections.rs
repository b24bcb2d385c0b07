//! The tables and rows of assistants: clients, connections, and the hashes of their secrets.

use super::{codes, fields, join, row};
use crate::rows::{Table, TypedTable};
use store::SecretHash;
use store::{AccountId, ClientId, ConnectionId, UnixMs};

/// Clients that have registered themselves, by id.
pub const CLIENTS: TypedTable<[u8; 16], ClientRow> = TypedTable::new(Table::Clients);
/// The connections of users, by account and connection.
pub const CONNECTIONS: TypedTable<[u8; 32], ConnectionRow> = TypedTable::new(Table::Connections);
/// The owner of a code or token, by its SHA-256; for refresh tokens, of the part that those of a connection share. A
/// row is removed with its connection.
pub const TOKENS: TypedTable<[u8; 32], SecretRow> = TypedTable::new(Table::Tokens);

/// The key of [`CONNECTIONS`].
pub fn connection_key(account: AccountId, id: ConnectionId) -> [u8; 32] {
    join(account.to_bytes(), id.to_bytes())
}

/// The 32 bytes that represent a client in [`EXPIRIES`](super::EXPIRIES).
pub fn client_expiry_row(id: ClientId) -> [u8; 32] {
    join(id.to_bytes(), [0; 16])
}

/// A row of [`CLIENTS`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientRow {
    pub created_at: UnixMs,
    pub expires_at: UnixMs,
    pub name: String,
    pub redirect_uris: Vec<String>,
}

row!("clients", ClientRow { created_at, expires_at, name, redirect_uris });

/// A row of [`CONNECTIONS`].
#[derive(Clone, PartialEq, Eq)]
pub struct ConnectionRow {
    pub created_at: UnixMs,
    /// The time of its end; before its code is redeemed, that of the code.
    pub expires_at: UnixMs,
    /// The time of its end after its code is redeemed.
    pub granted_until: UnixMs,
    pub last_used_at: UnixMs,
    pub allowance: u32,
    pub used: u32,
    pub client: String,
    pub client_name: String,
    pub redirect_uri: String,
    pub redirect_host: String,
    pub challenge: [u8; 32],
    pub code: SecretHash,
    /// `None` before the code is redeemed.
    pub tokens: Option<Tokens>,
}

/// The current tokens of its client.
#[derive(Clone, PartialEq, Eq)]
pub struct Tokens {
    /// The hash of the part that all refresh tokens share.
    pub family: SecretHash,
    /// The hash of the second part of the next refresh token.
    pub refresh: SecretHash,
    /// The hash of the access token.
    pub access: SecretHash,
    /// The hash of the access token before it, which requests under way may still use.
    pub before: Option<SecretHash>,
}

impl ConnectionRow {
    /// Every key of the connection in [`TOKENS`].
    pub fn secrets(&self) -> impl Iterator<Item = SecretHash> {
        let tokens = self.tokens.iter();
        let of_tokens =
            tokens.flat_map(|tokens| [tokens.family, tokens.access].into_iter().chain(tokens.before));
        std::iter::once(self.code).chain(of_tokens)
    }
}

row!(
    "connections",
    ConnectionRow {
        created_at,
        expires_at,
        granted_until,
        last_used_at,
        allowance,
        used,
        client,
        client_name,
        redirect_uri,
        redirect_host,
        challenge,
        code,
        tokens
    }
);
fields!(Tokens { family, refresh, access, before });

/// The kinds of secrets in [`TOKENS`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SecretKind {
    /// An authorization code.
    Code,
    /// An access token.
    Access,
    /// The part that all refresh tokens of a connection share.
    Family,
}

/// A row of [`TOKENS`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SecretRow {
    pub kind: SecretKind,
    pub account: AccountId,
    pub connection: ConnectionId,
    /// The time of an access token's end; others end with their connection.
    pub expires_at: UnixMs,
}

codes!(SecretKind { Code = 0, Access = 1, Family = 2 });
row!("tokens", SecretRow { kind, account, connection, expires_at });
