//! Every table and every row. docs/storage.md describes them for people. A change here is a change of the format: it needs a new
//! [`FORMAT`]. Both stores create missing tables by themselves when the format rises. A change that older nodes of a cluster would not
//! keep to needs a constant like [`FORMAT_OF_LISTS`], and is refused until all nodes know the format. The rows of an account must
//! also go when it is deleted (`deletion.rs`).

mod connections;
mod engine;
mod limits;
mod lists;
mod web;
mod webhooks;

pub use connections::*;
pub use engine::*;
pub use limits::*;
pub use lists::*;
pub use web::*;
pub use webhooks::*;

use crate::row::{Codec, Fixed, In, Out, codes, fields, row};
use crate::rows::{Blob, Table, TypedTable};
use store::credits::{Balance, PeriodStep, Portions, Subscription};
use store::{AccountId, BatchId, EntryId, HoldRef, ListProgress};
use store::{
    AddressHash, BATCH_KEEP_MS, BATCH_OPEN_MS, EntryKind, IDEMPOTENCY_MS, KeyHash, KeyMode, KeyScopes,
    REPEAT_MS, RETENTION_MS, RETENTION_SHORT_MS, SubscriptionStatus, UnixMs,
};
use vault::KeyClass;

/// Facts about the file, by name.
pub const META: TypedTable<str, Fixed> = TypedTable::new(Table::Meta);
/// Accounts with their balances, by id.
pub const ACCOUNTS: TypedTable<[u8; 16], AccountRow> = TypedTable::new(Table::Accounts);
/// Account ids by name.
pub const NAMES: TypedTable<str, AccountId> = TypedTable::new(Table::Names);
/// API keys, by id.
pub const KEYS: TypedTable<[u8; 16], KeyRow> = TypedTable::new(Table::Keys);
/// Holds without an answer, by account and hold.
pub const HOLDS: TypedTable<[u8; 32], HoldRow> = TypedTable::new(Table::Holds);
/// The hold of a check in progress, by keyed hash of the address and account. Only several nodes need it: within one process,
/// the caller knows.
pub const UNDER_WAY: TypedTable<[u8; 32], UnderWayRow> = TypedTable::new(Table::UnderWay);
/// The entries of the ledger, by account and entry. Most are appended within their account, since ids begin with their
/// time.
pub const LEDGER: TypedTable<[u8; 32], EntryRow> = TypedTable::new(Table::Ledger);
/// Results, by keyed hash of the address and account: a prefix finds the results of all accounts for an address.
pub const RESULTS: TypedTable<[u8; 32], ResultRow> = TypedTable::new(Table::Results);
/// Batches with their charge, by account and batch.
pub const BATCHES: TypedTable<[u8; 32], BatchRow> = TypedTable::new(Table::Batches);
/// The rows of batches, by account and batch; see [`split_rows`].
pub const BATCH_ROWS: TypedTable<[u8; 32], Blob> = TypedTable::new(Table::BatchRows);
/// The account of every batch with unanswered rows, by batch.
pub const OPEN_BATCHES: TypedTable<[u8; 16], AccountId> = TypedTable::new(Table::OpenBatches);
/// The bytes of an account's batches that its quota counts, by account and the day on which they expire: see [`day_key`].
pub const STORED_BYTES: TypedTable<[u8; 20], Fixed> = TypedTable::new(Table::StoredBytes);
/// Idempotency keys, by account and keyed hash of the key.
pub const IDEMPOTENCY: TypedTable<[u8; 32], IdempotencyRow> = TypedTable::new(Table::Idempotency);
/// Expiries by time: see [`expiry_key`]. There is one entry for each row that expires.
pub const EXPIRIES: TypedTable<[u8; 41], ()> = TypedTable::new(Table::Expiries);

/// The name in [`META`] of the format's number.
pub const META_FORMAT: &str = "format";

/// The name in [`META`] of the fingerprint of the keys that seal and hash the rows.
pub const META_KEYS: &str = "keys";

/// The name in [`META`] of the time of the last search for expired data.
pub const META_SEEN: &str = "seen";

/// The name in [`META`] of the mark that [`LIST_USE`] has all lists. It is made from [`LISTS`] when it is first needed.
pub const META_LIST_USE: &str = "list_use";

/// The names in [`META`] of the number of deleted accounts, and of the sums of their granted, spent and expired credits.
pub const META_DELETED: [&str; 4] =
    ["deleted_accounts", "deleted_granted", "deleted_spent", "deleted_expired"];

/// The format that this version writes.
pub const FORMAT: u32 = 12;

/// The first format with lists that charge each different address once, and with limits on the requests for lists. A cluster has an
/// older one until all of its nodes know it.
pub const FORMAT_OF_LISTS: u32 = 7;

/// The first format with scopes and expiries of keys, and with deletions of accounts.
pub const FORMAT_OF_KEY_RIGHTS: u32 = 8;

/// The first format in which the code of an unanswered row says what the row waits for.
pub const FORMAT_OF_WAITS: u32 = 9;

/// The first format with [`LIST_USE`] and [`STORED_BYTES`]. Nodes of an older version would not keep them right.
pub const FORMAT_OF_SHARES: u32 = 10;

/// The first format with codes for the causes of `unverifiable`. Nodes of an older version cannot read them.
pub const FORMAT_OF_CAUSES: u32 = 11;

/// The first format with the basis of a verdict. Nodes of an older version cannot read it.
pub const FORMAT_OF_BASES: u32 = 12;

/// The key of [`HOLDS`] and [`LEDGER`].
pub fn entry_key(account: AccountId, id: EntryId) -> [u8; 32] {
    join(account.to_bytes(), id.to_bytes())
}

/// The key of [`BATCHES`] and [`BATCH_ROWS`].
pub fn batch_key(account: AccountId, id: BatchId) -> [u8; 32] {
    join(account.to_bytes(), id.to_bytes())
}

/// The key of [`RESULTS`].
pub fn result_key(address: &AddressHash, account: AccountId) -> [u8; 32] {
    join(address.0, account.to_bytes())
}

/// The key of [`IDEMPOTENCY`].
pub fn idempotency_key(account: AccountId, hash: [u8; 16]) -> [u8; 32] {
    join(account.to_bytes(), hash)
}

/// A key of two halves.
pub fn join(first: [u8; 16], second: [u8; 16]) -> [u8; 32] {
    key_of(&[&first, &second])
}

/// A key of parts that together have its length.
fn key_of<const N: usize>(parts: &[&[u8]]) -> [u8; N] {
    let (mut key, mut at) = ([0; N], 0);
    for part in parts {
        key[at..at + part.len()].copy_from_slice(part);
        at += part.len();
    }
    debug_assert_eq!(at, N);
    key
}

/// The part of a key that begins at a place.
fn part_of<const N: usize>(key: &[u8], at: usize) -> [u8; N] {
    let mut part = [0; N];
    part.copy_from_slice(&key[at..at + N]);
    part
}

/// The inverse of [`join`].
pub fn split(key: &[u8; 32]) -> ([u8; 16], [u8; 16]) {
    (part_of(key, 0), part_of(key, 16))
}

/// The row that an entry of [`EXPIRIES`] belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Expiring {
    /// A row of [`RESULTS`].
    Result = 0,
    /// A complete batch.
    Batch = 1,
    /// The longest time of an unfinished batch.
    OpenBatch = 2,
    /// A row of [`IDEMPOTENCY`].
    Idempotency = 3,
    /// A row of [`SESSIONS`].
    Session = 4,
    /// A row of [`SIGN_IN_LINKS`].
    SignInLink = 5,
    /// A row of [`LISTS`], with its parts and answers.
    List = 8,
    /// A row of [`CONNECTIONS`].
    Connection = 6,
    /// A row of [`CLIENTS`], represented by its id and 16 zeros.
    Client = 7,
    /// A row of [`WITHDRAWN`]; see [`withdrawn_row`].
    Withdrawn = 9,
    /// A row of [`DELIVERIES`].
    Delivery = 10,
    /// A deleted account, represented by its id and 16 zeros, with all rows that it has left.
    Account = 11,
}

/// The key of [`EXPIRIES`]: kind, time (8 bytes, big-endian), and the row's key.
pub fn expiry_key(what: Expiring, at: UnixMs, row: &[u8; 32]) -> [u8; 41] {
    key_of(&[&[what as u8], &at.to_be_bytes(), row])
}

/// The row's key in a key of [`EXPIRIES`].
pub fn expiring_row(key: &[u8; 41]) -> [u8; 32] {
    part_of(key, 9)
}

/// The inverse of [`entry_key`].
pub fn split_entry_key(key: &[u8; 32]) -> HoldRef {
    let (account, id) = split(key);
    HoldRef { account: AccountId::from_bytes(account), id: EntryId::from_bytes(id) }
}

/// The range of all keys of one account.
pub fn account_range(account: AccountId) -> std::ops::RangeInclusive<[u8; 32]> {
    entry_key(account, EntryId::from_bytes([0; 16]))..=entry_key(account, EntryId::from_bytes([0xff; 16]))
}

/// The id of the carried entry, which precedes all others of its account.
pub fn carried_id() -> EntryId {
    EntryId::from_bytes([0; 16])
}

/// A row of [`ACCOUNTS`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AccountRow {
    pub name: String,
    pub plan: String,
    pub subscription: Subscription,
    /// How many entries the store itself has created, for their ids.
    pub serial: u64,
}

impl AccountRow {
    /// Whether the account is deleted, and only some of its rows are left. Such an account has no name, and no other one is
    /// without a name.
    pub fn is_closed(&self) -> bool {
        self.name.is_empty()
    }
}

codes!(SubscriptionStatus { Active = 0, PastDue = 1, Paused = 2, Canceled = 3 });

fields!(Balance { allowance, plan_left, plan_spent, plan_held, pack_left, held, granted, spent, expired });

/// The subscription comes first, with two of its fields in one byte.
impl Codec for AccountRow {
    fn write(&self, out: &mut Out) {
        let Subscription { status, cancel_at_period_end, start, period, renewed, balance } =
            &self.subscription;
        let flags = u8::from(*cancel_at_period_end) | u8::from(*renewed) << 1;
        out.all(&[status, &flags, start, period, balance, &self.serial, &self.plan, &self.name]);
    }

    fn read(input: &mut In<'_>) -> Option<AccountRow> {
        let status = Codec::read(input)?;
        let flags = input.byte().filter(|&flags| flags < 4)?;
        let subscription = Subscription {
            status,
            cancel_at_period_end: flags & 1 != 0,
            renewed: flags & 2 != 0,
            start: Codec::read(input)?,
            period: Codec::read(input)?,
            balance: Codec::read(input)?,
        };
        let (serial, plan, name) = (Codec::read(input)?, Codec::read(input)?, Codec::read(input)?);
        Some(AccountRow { name, plan, subscription, serial })
    }
}

row!("accounts", AccountRow);

/// A row of [`KEYS`].
#[derive(Clone, PartialEq, Eq)]
pub struct KeyRow {
    pub account: AccountId,
    pub mode: KeyMode,
    pub hash: KeyHash,
    pub last4: [u8; 4],
    pub created_at: UnixMs,
    /// 0: it is not revoked.
    pub revoked_at: UnixMs,
    /// 0: it was never used.
    pub last_used_at: UnixMs,
    pub label: String,
    pub scopes: KeyScopes,
    /// 0: it does not expire.
    pub expires_at: UnixMs,
}

impl KeyRow {
    /// Whether a database needs [`FORMAT_OF_KEY_RIGHTS`] for it.
    pub fn is_limited(&self) -> bool {
        self.scopes != KeyScopes::ALL || self.expires_at != 0
    }
}

codes!(KeyMode { Live = 0, Test = 1 });

/// Scopes and expiry are at the end, and only in rows of limited keys: other rows are as in format 7.
impl Codec for KeyRow {
    fn write(&self, out: &mut Out) {
        let KeyRow { account, mode, hash, last4, created_at, revoked_at, last_used_at, label, .. } = self;
        out.all(&[account, mode, hash, last4, created_at, revoked_at, last_used_at, label]);
        if self.is_limited() {
            out.all(&[&self.scopes.bits(), &self.expires_at]);
        }
    }

    fn read(input: &mut In<'_>) -> Option<KeyRow> {
        let row = KeyRow {
            account: Codec::read(input)?,
            mode: Codec::read(input)?,
            hash: Codec::read(input)?,
            last4: Codec::read(input)?,
            created_at: Codec::read(input)?,
            revoked_at: Codec::read(input)?,
            last_used_at: Codec::read(input)?,
            label: Codec::read(input)?,
            scopes: KeyScopes::ALL,
            expires_at: 0,
        };
        if input.is_empty() {
            return Some(row);
        }
        let row = KeyRow { scopes: KeyScopes::from_bits(input.byte()?)?, expires_at: input.number()?, ..row };
        Some(row).filter(KeyRow::is_limited)
    }
}

row!("keys", KeyRow);

fields!(Portions { plan, pack, period });

/// A row of [`HOLDS`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HoldRow {
    /// The credits, by their source.
    pub portions: Portions,
    /// The address of a check, if [`UNDER_WAY`] has it.
    pub address: Option<AddressHash>,
}

// Rows of one process have no address.
row!("holds", HoldRow { portions; address });

/// A row of [`UNDER_WAY`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UnderWayRow {
    /// The hold of the check.
    pub hold: EntryId,
}

row!("under_way", UnderWayRow { hold });

/// A row of [`LEDGER`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EntryRow {
    pub kind: EntryKind,
    pub at: UnixMs,
    pub step: PeriodStep,
    pub note: String,
}

codes!(EntryKind { Period = 0, PlanChange = 1, Pack = 2, Settled = 3, Voided = 4, Carried = 5 });
fields!(PeriodStep { granted, spent, expired });
row!("ledger", EntryRow { kind, at, step, note });

/// A row of [`RESULTS`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResultRow {
    /// Whether its reason is one of those that are kept for only a day.
    pub short: bool,
    /// The time of the answer to the account.
    pub checked_at: UnixMs,
    /// The time of the verdict, which is earlier if it came from another account.
    pub verdict_at: UnixMs,
    /// The sealed reason and evidence: see the module `results`.
    pub sealed: Vec<u8>,
}

impl ResultRow {
    /// The class of the key that seals it.
    pub fn class(&self) -> KeyClass {
        if self.short { KeyClass::ShortResult } else { KeyClass::LongResult }
    }

    /// The time until which it answers the account's repeats for free.
    pub fn repeats_until(&self) -> UnixMs {
        self.checked_at.saturating_add(REPEAT_MS)
    }

    /// The time until which other accounts may use its verdict.
    pub fn shared_until(&self) -> UnixMs {
        self.verdict_at.saturating_add(if self.short { RETENTION_SHORT_MS } else { RETENTION_MS })
    }

    /// The time at which the row is removed.
    pub fn expires_at(&self) -> UnixMs {
        self.shared_until().max(self.repeats_until())
    }
}

row!("results", ResultRow { short, checked_at, verdict_at, sealed });

/// A row of [`BATCHES`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BatchRow {
    pub created_at: UnixMs,
    /// 0: it is not complete.
    pub completed_at: UnixMs,
    pub total: u32,
    pub answered: u32,
    /// How many answered rows are not charged.
    pub refunded: u32,
    /// The credits that it holds or held; none for a test batch.
    pub held: Portions,
    /// The sealed answers, one byte per row. After completion only a batch of a list keeps them here, beside those in its rows: the
    /// progress of a list is read from here.
    pub answers: Vec<u8>,
    /// Whether it is a part of a list. Then a row that is answered by the account's own result costs nothing.
    pub of_list: bool,
}

impl BatchRow {
    /// Whether it has unanswered rows.
    pub fn is_open(&self) -> bool {
        self.completed_at == 0
    }

    /// The class and the time that name the key of its rows and answers.
    pub fn sealed_under(&self) -> (KeyClass, UnixMs) {
        if self.is_open() {
            (KeyClass::OpenBatch, self.created_at.saturating_add(KeyClass::OpenBatch.keep_ms()))
        } else {
            (KeyClass::Batch, self.expires_at())
        }
    }

    /// Adds its credits to those of its list.
    pub fn add_credits(&self, progress: &mut ListProgress) {
        progress.cost += self.charged().saturating_sub(u64::from(self.total - self.answered));
        match self.is_open() {
            true => {
                progress.reserved += self.held.credits();
                progress.returns += u64::from(self.refunded);
            }
            false => progress.charged += self.charged(),
        }
    }

    /// The credits that it costs, if no further row is refunded.
    pub fn charged(&self) -> u64 {
        self.held.credits().saturating_sub(u64::from(self.refunded))
    }

    /// Whether a test key has sent it: each row of another batch holds a credit until the batch is complete.
    pub fn is_test(&self) -> bool {
        self.held.credits() == 0
    }

    /// The time at which it is ended if it is still open.
    pub fn given_up_at(&self) -> UnixMs {
        self.created_at.saturating_add(BATCH_OPEN_MS)
    }

    /// The time until which it can be read after completion.
    pub fn expires_at(&self) -> UnixMs {
        self.completed_at.saturating_add(BATCH_KEEP_MS)
    }
}

impl Codec for BatchRow {
    fn write(&self, out: &mut Out) {
        let BatchRow { created_at, completed_at, total, answered, refunded, held, answers, of_list } = self;
        out.all(&[created_at, completed_at, total, answered, refunded, held, answers]);
        // The rows of other batches are as in format 6.
        if *of_list {
            of_list.write(out);
        }
    }

    fn read(input: &mut In<'_>) -> Option<BatchRow> {
        let row = BatchRow {
            created_at: Codec::read(input)?,
            completed_at: Codec::read(input)?,
            total: Codec::read(input)?,
            answered: Codec::read(input)?,
            refunded: Codec::read(input)?,
            held: Codec::read(input)?,
            answers: Codec::read(input)?,
            of_list: !input.is_empty() && bool::read(input)?,
        };
        (row.refunded <= row.answered && row.answered <= row.total).then_some(row)
    }
}

row!("batches", BatchRow);

/// Splits a row of [`BATCH_ROWS`]: an open batch has the address hashes and the sealed [`RowsText`], a complete one
/// only the latter.
pub fn split_rows<'r>(batch: &BatchRow, rows: &'r [u8]) -> Option<(&'r [[u8; 16]], &'r [u8])> {
    let hashes = if batch.is_open() { batch.total as usize * 16 } else { 0 };
    let (hashes, sealed) = rows.split_at_checked(hashes)?;
    Some((hashes.as_chunks().0, sealed))
}

/// The sealed content of a batch's rows.
#[derive(Clone, PartialEq, Eq)]
pub struct RowsText {
    pub name: Option<String>,
    pub emails: Vec<String>,
    /// One byte per row after completion; empty before.
    pub answers: Vec<u8>,
}

impl Codec for RowsText {
    fn write(&self, out: &mut Out) {
        let name = self.name.clone().unwrap_or_default();
        out.all(&[&self.name.is_some(), &name, &self.emails, &self.answers]);
    }

    fn read(input: &mut In<'_>) -> Option<RowsText> {
        let (named, name) = <(bool, String)>::read(input)?;
        let (emails, answers) = Codec::read(input)?;
        Some(RowsText { name: named.then_some(name), emails, answers })
    }
}

row!("batch_rows", RowsText);

/// A row of [`IDEMPOTENCY`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IdempotencyRow {
    pub created_at: UnixMs,
    /// The keyed hash of the request.
    pub body: [u8; 16],
    /// The batch in the answer. For a list it has the bits of the list's id: [`IdempotencyRow::body`] tells the two apart.
    pub batch: BatchId,
    pub submitted: u32,
    pub completed: bool,
    pub credits_remaining: Option<u64>,
}

impl IdempotencyRow {
    /// The time at which the key is forgotten.
    pub fn expires_at(&self) -> UnixMs {
        self.created_at.saturating_add(IDEMPOTENCY_MS)
    }
}

impl Codec for IdempotencyRow {
    fn write(&self, out: &mut Out) {
        let IdempotencyRow { created_at, body, batch, submitted, completed, credits_remaining } = self;
        out.all(&[created_at, body, batch, submitted, completed]);
        out.all(&[&credits_remaining.is_some(), &credits_remaining.unwrap_or(0)]);
    }

    fn read(input: &mut In<'_>) -> Option<IdempotencyRow> {
        Some(IdempotencyRow {
            created_at: Codec::read(input)?,
            body: Codec::read(input)?,
            batch: Codec::read(input)?,
            submitted: Codec::read(input)?,
            completed: Codec::read(input)?,
            credits_remaining: {
                let (some, credits) = <(bool, u64)>::read(input)?;
                some.then_some(credits)
            },
        })
    }
}

row!("idempotency", IdempotencyRow);
