//! Batches and what makes their making happen once.

use super::super::id::{AccountId, BatchId};
use super::UnixMs;
use super::results::{AddressHash, Verdict};
use api::Reason;
use std::fmt;

/// The most rows of a batch.
pub const BATCH_ROWS_MAX: usize = 200;

/// How long a batch can be read, from its completion.
pub const BATCH_KEEP_MS: UnixMs = 7 * 24 * 60 * 60 * 1000;

/// How long a batch may stay unfinished, from its making. Then what is unanswered is given up and refunded.
pub const BATCH_OPEN_MS: UnixMs = 6 * 24 * 60 * 60 * 1000;

/// How long an idempotency key is remembered.
pub const IDEMPOTENCY_MS: UnixMs = 24 * 60 * 60 * 1000;

/// A batch to make.
#[derive(Clone, PartialEq, Eq)]
pub struct NewBatch {
    /// Its id, made by the caller.
    pub id: BatchId,
    /// Whose batch, and whose credits.
    pub account: AccountId,
    /// What the caller named it.
    pub name: Option<String>,
    /// 1 to [`BATCH_ROWS_MAX`] rows.
    pub rows: Vec<NewRow>,
    /// What makes a second such request answered by the first.
    pub idempotency: Option<Idempotency>,
    /// Whether it is charged and checked.
    pub mode: BatchMode,
}

/// A row of a batch to make.
#[derive(Clone, PartialEq, Eq)]
pub struct NewRow {
    /// The address as submitted.
    pub email: String,
    /// Its keyed hash.
    pub address: AddressHash,
}

/// An idempotency key with the request it came with. It counts within one account and one [`BatchMode`]: a test key's
/// request never answers a live one's.
#[derive(Clone, PartialEq, Eq)]
pub struct Idempotency {
    /// The key.
    pub key: String,
    /// SHA-256 of the request's canonical JSON.
    pub body: [u8; 32],
}

/// Whether a batch is charged and checked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BatchMode {
    /// It is.
    Live,
    /// It costs nothing and is complete at once, with these reasons, one for each row.
    Test(Vec<Reason>),
}

/// A batch that was made, or a replay of its making.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BatchCreated {
    /// Its id; of a replay, the first one's.
    pub batch: BatchId,
    /// How many rows it has.
    pub submitted: u32,
    /// It was complete at once.
    pub completed: bool,
    /// The balance after the charge; none for a test.
    pub credits_remaining: Option<u64>,
    /// Nothing was made: this is what the first request of this idempotency key was answered.
    pub replayed: bool,
}

/// A batch that has unanswered rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OpenBatch {
    /// Its id.
    pub batch: BatchId,
    /// Whose.
    pub account: AccountId,
    /// When it was made.
    pub created_at: UnixMs,
    /// How many rows it has.
    pub total: u32,
    /// How many of them are answered.
    pub answered: u32,
}

/// An unanswered row.
#[derive(Clone, PartialEq, Eq)]
pub struct OpenRow {
    /// Its place in the batch, from 0.
    pub index: u32,
    /// The address as submitted.
    pub email: String,
}

/// An answer to a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RowAnswer {
    /// The row's batch.
    pub batch: BatchId,
    /// The row's place in it.
    pub index: u32,
    /// The answer.
    pub outcome: RowOutcome,
}

/// What becomes of a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RowOutcome {
    /// A check came to this. It is the account's own result of the address from now on.
    Verified(Verdict),
    /// [`Known::Shared`](super::Known::Shared) said this. It answers the account's repeats from now on, and is
    /// retained no longer for having been used again.
    Reused(Verdict),
    /// The account's own result of the last 24 hours said this, or the same address in another row did; charged like
    /// any row, and nothing new to keep.
    Repeated(Reason),
    /// Nobody could be asked: shown as `unverifiable`, refunded, and no repeat.
    Unanswered,
}

/// A batch as its owner sees it.
#[derive(Clone, PartialEq, Eq)]
pub struct BatchView {
    /// Every row is answered.
    pub completed: bool,
    /// How many rows it has.
    pub total: u32,
    /// How many of them are answered.
    pub checked: u32,
    /// What the caller named it; told once the batch is complete.
    pub name: Option<String>,
    /// Every row in the order of submission, once the batch is complete.
    pub results: Option<Vec<(String, Reason)>>,
}

/// A batch in a list of batches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BatchSummary {
    /// Its id.
    pub batch: BatchId,
    /// When it was made.
    pub created_at: UnixMs,
    /// Every row is answered.
    pub completed: bool,
    /// How many rows it has.
    pub total: u32,
    /// How many of them are answered.
    pub checked: u32,
}

/// What a purge removed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Purged {
    /// Results.
    pub results: u64,
    /// Batches that had been complete.
    pub batches: u64,
    /// Batches that were given up unfinished; their unanswered rows are refunded.
    pub ended: u64,
    /// Idempotency keys.
    pub idempotency_keys: u64,
    /// Lists of the dashboard.
    pub lists: u64,
    /// Sessions of the dashboard, and links to it.
    pub sessions: u64,
    /// Connections of assistants.
    pub connections: u64,
    /// Clients of assistants.
    pub clients: u64,
    /// Notes of evidence that was withdrawn.
    pub withdrawn: u64,
    /// Keys of the vault.
    pub vault_keys: u64,
    /// There is more to do: call again.
    pub more: bool,
}

/// Rows hold addresses; `Debug` ends up in logs.
impl fmt::Debug for NewBatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "NewBatch({}, {} rows)", self.id, self.rows.len())
    }
}

impl fmt::Debug for OpenRow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "OpenRow({})", self.index)
    }
}

impl fmt::Debug for BatchView {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "BatchView({} of {}, completed: {})", self.checked, self.total, self.completed)
    }
}
