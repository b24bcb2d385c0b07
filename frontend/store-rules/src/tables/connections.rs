//! The tables and rows of assistants: clients, connections, and the hashes of their secrets.

use super::{In, Out, Row, join};
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

impl Row for ClientRow {
    const TABLE: &'static str = "clients";

    fn write(&self, out: &mut Out) {
        out.number(self.created_at);
        out.number(self.expires_at);
        out.text(&self.name);
        out.number(self.redirect_uris.len() as u64);
        self.redirect_uris.iter().for_each(|uri| out.text(uri));
    }

    fn read(input: &mut In<'_>) -> Option<ClientRow> {
        let (created_at, expires_at, name) = (input.number()?, input.number()?, input.text()?);
        let count = input.number()?;
        let redirect_uris = (0..count).map(|_| input.text()).collect::<Option<_>>()?;
        Some(ClientRow { created_at, expires_at, name, redirect_uris })
    }
}

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

impl Row for ConnectionRow {
    const TABLE: &'static str = "connections";

    fn write(&self, out: &mut Out) {
        for time in [self.created_at, self.expires_at, self.granted_until, self.last_used_at] {
            out.number(time);
        }
        out.number(u64::from(self.allowance));
        out.number(u64::from(self.used));
        for text in [&self.client, &self.client_name, &self.redirect_uri, &self.redirect_host] {
            out.text(text);
        }
        out.bytes(&self.challenge);
        out.bytes(&self.code);
        out.byte(u8::from(self.tokens.is_some()));
        if let Some(Tokens { family, refresh, access, before }) = &self.tokens {
            for hash in [family, refresh, access] {
                out.bytes(hash);
            }
            out.byte(u8::from(before.is_some()));
            out.bytes(before.as_ref().map_or(&[], |before| before));
        }
    }

    fn read(input: &mut In<'_>) -> Option<ConnectionRow> {
        Some(ConnectionRow {
            created_at: input.number()?,
            expires_at: input.number()?,
            granted_until: input.number()?,
            last_used_at: input.number()?,
            allowance: input.small()?,
            used: input.small()?,
            client: input.text()?,
            client_name: input.text()?,
            redirect_uri: input.text()?,
            redirect_host: input.text()?,
            challenge: input.array()?,
            code: input.array()?,
            tokens: match input.flag()? {
                true => Some(read_tokens(input)?),
                false => None,
            },
        })
    }
}

fn read_tokens(input: &mut In<'_>) -> Option<Tokens> {
    let (family, refresh, access) = (input.array()?, input.array()?, input.array()?);
    let before = match input.flag()? {
        true => Some(input.array()?),
        false => None,
    };
    Some(Tokens { family, refresh, access, before })
}

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

impl Row for SecretRow {
    const TABLE: &'static str = "tokens";

    fn write(&self, out: &mut Out) {
        out.byte(match self.kind {
            SecretKind::Code => 0,
            SecretKind::Access => 1,
            SecretKind::Family => 2,
        });
        out.bytes(&self.account.to_bytes());
        out.bytes(&self.connection.to_bytes());
        out.number(self.expires_at);
    }

    fn read(input: &mut In<'_>) -> Option<SecretRow> {
        Some(SecretRow {
            kind: match input.byte()? {
                0 => SecretKind::Code,
                1 => SecretKind::Access,
                2 => SecretKind::Family,
                _ => return None,
            },
            account: AccountId::from_bytes(input.array()?),
            connection: ConnectionId::from_bytes(input.array()?),
            expires_at: input.number()?,
        })
    }
}
