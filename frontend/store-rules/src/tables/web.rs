//! The tables and rows of the dashboard: users, sessions, sign-in links, and daily counts of accounts.

use super::AccountId;
use crate::reason;
use crate::row::{In, Out, Row};
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
    let mut key = [0; 48];
    key[..16].copy_from_slice(&account.to_bytes());
    key[16..].copy_from_slice(hash);
    key
}

/// The token's hash in a key of [`SESSIONS_OF`].
pub fn session_in(key: &[u8; 48]) -> TokenHash {
    let mut hash = [0; 32];
    hash.copy_from_slice(&key[16..]);
    hash
}

/// The key of [`DAYS`].
pub fn day_key(account: AccountId, day: u32) -> [u8; 20] {
    let mut key = [0; 20];
    key[..16].copy_from_slice(&account.to_bytes());
    key[16..].copy_from_slice(&day.to_be_bytes());
    key
}

/// The day in a key of [`DAYS`].
pub fn day_of(key: &[u8; 20]) -> u32 {
    u32::from_be_bytes([key[16], key[17], key[18], key[19]])
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

impl Row for UserRow {
    const TABLE: &'static str = "users";

    fn write(&self, out: &mut Out) {
        let PasswordHash { memory_kib, passes, lanes, salt, tag } = &self.password;
        out.bytes(&self.email_hash);
        out.blob(&self.email);
        for number in [memory_kib, passes, lanes] {
            out.number(u64::from(*number));
        }
        out.bytes(salt);
        out.bytes(tag);
        out.number(self.created_at);
        out.number(self.changed_at);
    }

    fn read(input: &mut In<'_>) -> Option<UserRow> {
        Some(UserRow {
            email_hash: input.array()?,
            email: input.blob()?,
            password: PasswordHash {
                memory_kib: input.small()?,
                passes: input.small()?,
                lanes: input.small()?,
                salt: input.array()?,
                tag: input.array()?,
            },
            created_at: input.number()?,
            changed_at: input.number()?,
        })
    }
}

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

impl Row for SessionRow {
    const TABLE: &'static str = "sessions";

    fn write(&self, out: &mut Out) {
        out.bytes(&self.account.to_bytes());
        out.number(self.created_at);
        out.number(self.seen_at);
        out.text(&self.agent);
    }

    fn read(input: &mut In<'_>) -> Option<SessionRow> {
        Some(SessionRow {
            account: AccountId::from_bytes(input.array()?),
            created_at: input.number()?,
            seen_at: input.number()?,
            agent: input.text()?,
        })
    }
}

/// A row of [`SIGN_IN_LINKS`].
#[derive(Clone, PartialEq, Eq)]
pub struct LinkRow {
    pub account: AccountId,
    pub expires_at: UnixMs,
}

impl Row for LinkRow {
    const TABLE: &'static str = "sign_in_links";

    fn write(&self, out: &mut Out) {
        out.bytes(&self.account.to_bytes());
        out.number(self.expires_at);
    }

    fn read(input: &mut In<'_>) -> Option<LinkRow> {
        Some(LinkRow { account: AccountId::from_bytes(input.array()?), expires_at: input.number()? })
    }
}

/// The day itself is in the row's key.
impl Row for DayCounts {
    const TABLE: &'static str = "days";

    fn write(&self, out: &mut Out) {
        out.number(self.singles);
        out.number(self.rows);
        out.number(self.reasons.len() as u64);
        for (reason, count) in &self.reasons {
            out.byte(reason::code(*reason));
            out.number(*count);
        }
    }

    fn read(input: &mut In<'_>) -> Option<DayCounts> {
        let (singles, rows) = (input.number()?, input.number()?);
        let count = input.number()?;
        let reasons = (0..count).map(|_| Some((reason::of_code(input.byte()?)?, input.number()?)));
        Some(DayCounts { day: 0, singles, rows, reasons: reasons.collect::<Option<_>>()? })
    }
}
