//! The tables and rows of the dashboard: users, sessions, sign-in links, and daily counts of accounts.

use super::{AccountId, key_of, part_of};
use crate::row::{Codec, In, Out, fields, row};
use crate::rows::{Table, TypedTable};
use store::{DayCounts, PasswordHash, TokenHash, UnixMs, session_end};

/// The users of accounts, by account.
pub const USERS: TypedTable<[u8; 16], UserRow> = TypedTable::new(Table::Users);
/// Accounts by the keyed hash of their user's email address.
pub const EMAILS: TypedTable<[u8; 16], AccountId> = TypedTable::new(Table::Emails);
/// Sessions of the dashboard, by the hash of their token.
pub const SESSIONS: TypedTable<[u8; 32], SessionRow> = TypedTable::new(Table::Sessions);
/// Sessions by account and hash.
pub const SESSIONS_OF: TypedTable<[u8; 48], ()> = TypedTable::new(Table::SessionsOf);
/// Sign-in links, by the hash of their token.
pub const SIGN_IN_LINKS: TypedTable<[u8; 32], LinkRow> = TypedTable::new(Table::SignInLinks);
/// Daily counts, by account and day.
pub const DAYS: TypedTable<[u8; 20], DayCounts> = TypedTable::new(Table::Days);

/// The key of [`SESSIONS_OF`].
pub fn session_of(account: AccountId, hash: &TokenHash) -> [u8; 48] {
    key_of(&[&account.to_bytes(), hash])
}

/// The token's hash in a key of [`SESSIONS_OF`].
pub fn session_in(key: &[u8; 48]) -> TokenHash {
    part_of(key, 16)
}

/// The key of [`DAYS`].
pub fn day_key(account: AccountId, day: u32) -> [u8; 20] {
    key_of(&[&account.to_bytes(), &day.to_be_bytes()])
}

/// The day in a key of [`DAYS`].
pub fn day_of(key: &[u8; 20]) -> u32 {
    u32::from_be_bytes(part_of(key, 16))
}

/// A row of [`USERS`].
#[derive(Clone, PartialEq, Eq)]
pub struct UserRow {
    /// The key of the user's row in [`EMAILS`].
    pub email_hash: [u8; 16],
    /// The email address, sealed under the key of users.
    pub email: Vec<u8>,
    pub password: PasswordHash,
    pub created_at: UnixMs,
    pub changed_at: UnixMs,
}

fields!(PasswordHash { memory_kib, passes, lanes, salt, tag });
row!("users", UserRow { email_hash, email, password, created_at, changed_at });

/// A row of [`SESSIONS`].
#[derive(Clone, PartialEq, Eq)]
pub struct SessionRow {
    pub account: AccountId,
    pub created_at: UnixMs,
    pub seen_at: UnixMs,
    pub agent: String,
}

impl SessionRow {
    /// The time at which the session ends.
    pub fn expires_at(&self) -> UnixMs {
        session_end(self.created_at, self.seen_at)
    }
}

row!("sessions", SessionRow { account, created_at, seen_at, agent });

/// A row of [`SIGN_IN_LINKS`].
#[derive(Clone, PartialEq, Eq)]
pub struct LinkRow {
    pub account: AccountId,
    pub expires_at: UnixMs,
}

row!("sign_in_links", LinkRow { account, expires_at });

/// The day itself is in the row's key.
impl Codec for DayCounts {
    fn write(&self, out: &mut Out) {
        out.all(&[&self.singles, &self.rows, &self.reasons]);
    }

    fn read(input: &mut In<'_>) -> Option<DayCounts> {
        let ((singles, rows), reasons) = Codec::read(input)?;
        Some(DayCounts { day: 0, singles, rows, reasons })
    }
}

row!("days", DayCounts);
