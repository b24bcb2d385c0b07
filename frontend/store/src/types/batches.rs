//! Batches, and the idempotency of their creation.

use super::lists::WaitingRows;
use super::results::{AddressHash, Verdict};
use crate::UnixMs;
use crate::id::{AccountId, BatchId};
use api::{Reason, UnverifiableCause, WaitCause};
use std::fmt;

/// The largest number of rows in a batch.
pub const BATCH_ROWS_MAX: usize = 200;

/// How long a batch can be read after its completion, in milliseconds.
pub const BATCH_KEEP_MS: UnixMs = 7 * 24 * 60 * 60 * 1000;

/// How long a batch may be unfinished after its creation. After that, its unanswered rows are refunded.
pub const BATCH_OPEN_MS: UnixMs = 6 * 24 * 60 * 60 * 1000;

/// How long an idempotency key is kept, in milliseconds.
pub const IDEMPOTENCY_MS: UnixMs = 24 * 60 * 60 * 1000;

/// A new batch before its creation.
#[derive(Clone, PartialEq, Eq)]
pub struct NewBatch {
    /// The id, which the caller creates.
    pub id: BatchId,
    /// The account that owns and pays it.
    pub account: AccountId,
    /// The name that the caller gave it.
    pub name: Option<String>,
    /// 1 to [`BATCH_ROWS_MAX`] rows.
    pub rows: Vec<NewRow>,
    /// The idempotency key, if the request has one.
    pub idempotency: Option<Idempotency>,
    /// Whether it is charged and checked.
    pub mode: BatchMode,
}

/// A row of a new batch.
#[derive(Clone, PartialEq, Eq)]
pub struct NewRow {
    /// The address as submitted.
    pub email: String,
    /// The keyed hash of the address.
    pub address: AddressHash,
}

/// The endpoint of an idempotency key. One key at two endpoints is two keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum KeyEndpoint {
    /// `POST /v1/verify/batch`.
    Batches,
    /// `POST /v1/lists`.
    Lists,
}

/// An idempotency key with its request. It applies within one account, one endpoint and one kind of [`BatchMode`]: the request of a
/// test key never answers one of a live key, and that of a list never one of a batch.
#[derive(Clone, PartialEq, Eq)]
pub struct Idempotency {
    /// The value of the header `Idempotency-Key`.
    pub key: String,
    /// The SHA-256 of the request's canonical JSON.
    pub body: [u8; 32],
}

/// Whether a batch is charged and checked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BatchMode {
    /// The batch is charged and checked.
    Live,
    /// The batch is free and complete at once, with one of these reasons for each row.
    Test(Vec<Reason>),
}

/// The result of creating a batch, also for a replay.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BatchCreated {
    /// The id; for a replay, that of the first request.
    pub batch: BatchId,
    /// The number of rows.
    pub submitted: u32,
    /// Whether it was complete at once.
    pub completed: bool,
    /// The balance after the charge; `None` for a test batch.
    pub credits_remaining: Option<u64>,
    /// Whether this is the answer to the first request with this idempotency key, and no batch was created.
    pub replayed: bool,
}

/// A batch with unanswered rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OpenBatch {
    /// The id of the batch.
    pub batch: BatchId,
    /// The account of the batch.
    pub account: AccountId,
    /// The time of creation.
    pub created_at: UnixMs,
    /// The number of rows.
    pub total: u32,
    /// The number of answered rows.
    pub answered: u32,
}

/// A row of a batch without an answer.
#[derive(Clone, PartialEq, Eq)]
pub struct OpenRow {
    /// The index in the batch, from 0.
    pub index: u32,
    /// The address as submitted.
    pub email: String,
}

/// An answer to a row of a batch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RowAnswer {
    /// The batch of the row.
    pub batch: BatchId,
    /// The index of the row.
    pub index: u32,
    /// The answer itself.
    pub outcome: RowOutcome,
}

/// The answer of a row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RowOutcome {
    /// A check had this verdict. It becomes the account's own result for the address.
    Verified(Verdict),
    /// The verdict of [`Known::Shared`](super::Known::Shared). It answers the account's repeats from now on, and its
    /// retention is not prolonged.
    Reused(Verdict),
    /// The account's own result of the last 24 hours, or that of the same address in another row. It is charged like
    /// any row, and nothing new is stored.
    Repeated(Verdict),
    /// No server was asked, because of an outage or a budget of refused recipients: the row is shown as `unverifiable`, is refunded, and
    /// is no repeat. Other causes than these two are not stored.
    Unanswered(Option<UnverifiableCause>),
    /// No answer yet: the row waits for this.
    Waits(WaitCause),
}

/// A batch from the view of its owner.
#[derive(Clone, PartialEq, Eq)]
pub struct BatchView {
    /// Whether every row is answered.
    pub completed: bool,
    /// The number of rows.
    pub total: u32,
    /// The number of answered rows.
    pub checked: u32,
    /// The number of answered rows that were not asked because of an outage or a budget, or that were cancelled. They cost nothing.
    pub refunded: u32,
    /// Whether a test key has sent it.
    pub is_test: bool,
    /// Whether it was ended after [`BATCH_OPEN_MS`]. If it was not, the rows that are refunded without a cause were cancelled.
    pub is_given_up: bool,
    /// The credits that it cost, after completion.
    pub charged: u64,
    /// The name that the caller gave it, after completion.
    pub name: Option<String>,
    /// Every row in the order of submission, after completion.
    pub results: Option<Vec<(String, Reason)>>,
    /// For each of these rows, why it is `unverifiable`, if that is known.
    pub causes: Vec<Option<UnverifiableCause>>,
    /// The rows without an answer that wait for something else than their turn.
    pub waiting: Vec<WaitingRows>,
}

/// A batch in a list of batches.
#[derive(Clone, PartialEq, Eq)]
pub struct BatchSummary {
    /// The id of the batch.
    pub batch: BatchId,
    /// The time of creation.
    pub created_at: UnixMs,
    /// Whether every row is answered.
    pub completed: bool,
    /// The number of rows.
    pub total: u32,
    /// The number of answered rows.
    pub checked: u32,
    /// The number of answered rows that were not asked because of an outage or a budget, or that were cancelled. They cost nothing.
    pub refunded: u32,
    /// Whether a test key has sent it.
    pub is_test: bool,
    /// The name that the caller gave it.
    pub name: Option<String>,
}

/// A page of a list of batches.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct BatchPage {
    /// The batches, newest first. The batches of lists are not among them.
    pub batches: Vec<BatchSummary>,
    /// The id after which the next page begins; `None` after the last page.
    pub next: Option<BatchId>,
}

/// The numbers of rows that a purge removed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Purged {
    /// Results of addresses.
    pub results: u64,
    /// Batches that were complete.
    pub batches: u64,
    /// Batches that were ended unfinished; their unanswered rows are refunded.
    pub ended: u64,
    /// Idempotency keys.
    pub idempotency_keys: u64,
    /// Lists.
    pub lists: u64,
    /// Sessions of the dashboard and sign-in links.
    pub sessions: u64,
    /// Connections of assistants.
    pub connections: u64,
    /// Clients of assistants.
    pub clients: u64,
    /// Records of withdrawn evidence.
    pub withdrawn: u64,
    /// Deliveries of webhooks.
    pub deliveries: u64,
    /// Keys of the vault.
    pub vault_keys: u64,
    /// Whether there is more to remove, so that it must be called again.
    pub more: bool,
}

/// Rows have addresses, and `Debug` output may be logged.
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

impl fmt::Debug for BatchSummary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "BatchSummary({}, {} of {}, completed: {})",
            self.batch, self.checked, self.total, self.completed
        )
    }
}
