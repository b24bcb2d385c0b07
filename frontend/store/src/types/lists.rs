//! Lists that were uploaded to the dashboard or the API, and are checked in batches.

use super::batches::BatchCreated;
use super::keys::KeyMode;
use super::users::Authority;
use crate::UnixMs;
use crate::id::{AccountId, BatchId, ListId};
use api::{Noted, Reason, UnverifiableCause, WaitCause};
use std::fmt;

/// How long a list is kept after its creation, in milliseconds.
pub const LIST_KEEP_MS: UnixMs = 7 * 24 * 60 * 60 * 1000;

/// The largest number of lists of an account.
pub const LISTS_MAX: usize = 50;

/// How long an upload is kept after its last byte, in milliseconds.
pub const UPLOAD_KEEP_MS: UnixMs = 24 * 60 * 60 * 1000;

/// How long an upload is kept that was announced, and of which no byte has arrived, in milliseconds.
pub const UPLOAD_BEGIN_MS: UnixMs = 10 * 60 * 1000;

/// The content of a list in one part; only the last part is shorter.
///
/// With its seal and its key, a part of this size fills a page of 64 KiB. A row that is slightly longer takes twice the space.
pub const LIST_PART_BYTES: usize = 60 * 1024;
/// Bytes of a number in the index of a list, which has one for each row with an address.
pub const LIST_INDEX_NUMBER_BYTES: u64 = 4;

/// Limits on the bytes of the contents of lists.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ListRoom {
    /// The limit for the lists of one account, with what its uploads have announced.
    pub account: u64,
    /// The limit for the lists of all accounts, with what their uploads have brought.
    pub all: u64,
}

impl ListRoom {
    /// No limit on the bytes.
    pub const MOST: ListRoom = ListRoom { account: u64::MAX, all: u64::MAX };
}

/// The result of creating the next batch of a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BatchOfList {
    /// The batch was created.
    Made(BatchCreated),
    /// The batch already existed.
    MadeBefore,
    /// The list is not running any longer.
    Gone,
}

/// The result of creating a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ListMade {
    /// The list was created.
    Made,
    /// The idempotency key belongs to this list, and nothing was created.
    Replayed(ListId),
    /// The idempotency key belongs to another request.
    KeyReused,
    /// The account already has [`LISTS_MAX`] lists, or this one.
    TooMany,
    /// The lists of the account would exceed their limit of bytes.
    AccountFull,
    /// The lists of all accounts would exceed their limit of bytes.
    StoreFull,
    /// There is no such account, or it is deleted.
    NoAccount,
}

/// A part of a list's content during its upload.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct NewPart<'p> {
    /// The number of the part, from 0. A part that was shorter than [`LIST_PART_BYTES`] is written again with more bytes.
    pub number: u32,
    /// The bytes of the list that must be stored before.
    pub from: u64,
    /// The bytes of the list that are stored with this part.
    pub to: u64,
    /// The whole content of the part.
    pub plain: &'p [u8],
    /// What was verified before the upload, which can take long.
    pub by: Authority,
}

/// The result of writing a part of a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PartPut {
    /// The part is durable.
    Stored,
    /// Nothing was written, because the list has this offset.
    Offset(u64),
    /// The list is not being uploaded any longer.
    Gone,
    /// Nothing was written, because the lists of all accounts would exceed their limit of bytes.
    StoreFull,
}

/// The result of ending an upload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UploadEnd {
    /// The list is being read.
    Done,
    /// Another upload with the same idempotency key was faster, and created this list.
    Replayed(ListId),
    /// Another request has used the idempotency key during the upload.
    KeyReused,
    /// The list is not being uploaded any longer.
    Gone,
}

/// A list after its cancellation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CancelledList {
    /// The list.
    pub list: List,
    /// Its batches that the cancellation ended.
    pub batches: Vec<BatchId>,
}

/// The state of a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ListState {
    /// Its parts are being uploaded.
    Uploading,
    /// All parts are stored; the list is being read.
    Reading,
    /// The list cannot be checked.
    Unfit,
    /// The list waits for its owner to start it.
    Ready,
    /// The list is being checked.
    Running,
    /// The list waits for credits.
    Paused,
    /// Every address has a verdict.
    Completed,
    /// Its owner has ended the check. Addresses that were not asked have no verdict.
    Cancelled,
}

/// Where the addresses of a list were found when it was read.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FoundAddresses {
    /// The name of the column, or the key of JSON lines; empty if it has none. It has no control characters.
    pub column: String,
    /// The number of the column, from 1; 0 for JSON lines and plain text.
    pub column_number: u32,
    /// The number of columns; 0 for JSON lines and plain text.
    pub columns: u32,
    /// Whether there is a header. `None` for JSON lines and plain text, and for a list that an earlier version has read.
    pub header: Option<bool>,
    /// The name of the sheet; empty if the list is no spreadsheet. It has no control characters.
    pub sheet: String,
    /// The number of the sheet, from 1; 0 if the list is no spreadsheet.
    pub sheet_number: u32,
    /// The number of sheets, with hidden ones; 0 if the list is no spreadsheet.
    pub sheets: u32,
    /// The time of the reading, at which the price was computed.
    pub read_at: UnixMs,
    /// The other columns or keys that have addresses, by the names that choose them. They have no control characters.
    pub others: Vec<String>,
    /// The cells with several addresses, of which only the first one is checked. None in a list that an earlier version has read.
    pub cells_with_more: Noted,
}

/// A list with its progress.
#[derive(Clone, PartialEq, Eq)]
pub struct List {
    /// The id of the list.
    pub id: ListId,
    /// The account of the list.
    pub account: AccountId,
    /// The time of creation.
    pub created_at: UnixMs,
    /// The state of the list.
    pub state: ListState,
    /// The name of the file.
    pub name: String,
    /// The column with the addresses, by name or number; empty if the program must find it.
    pub column: String,
    /// Whether the first row is a header; `None` if the program must find it.
    pub header: Option<bool>,
    /// Where the addresses are. `None` before the list is read, and for lists that an earlier version has read.
    pub found: Option<FoundAddresses>,
    /// The reason why it is unfit or paused; otherwise empty.
    pub why: String,
    /// The size in bytes; during the upload, the reserved size.
    pub bytes: u64,
    /// The number of rows without the header.
    pub rows: u64,
    /// The number of rows with an address.
    pub addresses: u64,
    /// The number of different addresses that are in batches; if `by_row`, the number of addresses in batches.
    pub submitted: u64,
    /// The number of batches with stored answers.
    pub done: u32,
    /// How often each reason occurs in the answers.
    pub counts: Vec<(Reason, u64)>,
    /// How often each known cause occurs among the `unverifiable` answers.
    pub causes: Vec<(UnverifiableCause, u64)>,
    /// The number of bytes that are stored.
    pub offset: u64,
    /// Whether a test key owns it: then it costs nothing, and no server is asked.
    pub mode: KeyMode,
    /// Whether another connection may continue the upload.
    pub is_resumable: bool,
    /// The time of the last stored byte of a resumable upload.
    pub received_at: UnixMs,
    /// The number of different addresses.
    pub distinct: u64,
    /// The number of different addresses that the account had checked within 24 hours when the list was read.
    pub known: u64,
    /// The credits that its complete batches have cost.
    pub charged: u64,
    /// The time at which its check ended; 0 before, and for lists that an earlier version has ended.
    pub ended_at: UnixMs,
    /// The rule that found its addresses when it was read; 0 if it is unknown. Another rule may find others.
    pub rule: u32,
    /// Whether each row with an address is checked and charged, also duplicates: a list of an earlier version.
    pub by_row: bool,
}

impl List {
    /// A list before its upload, of which only the name of the file is known.
    pub fn new(id: ListId, account: AccountId, created_at: UnixMs, name: String) -> List {
        List {
            id,
            account,
            created_at,
            state: ListState::Uploading,
            name,
            column: String::new(),
            header: None,
            found: None,
            why: String::new(),
            bytes: 0,
            rows: 0,
            addresses: 0,
            submitted: 0,
            done: 0,
            counts: Vec::new(),
            causes: Vec::new(),
            offset: 0,
            mode: KeyMode::Live,
            is_resumable: false,
            received_at: created_at,
            distinct: 0,
            known: 0,
            charged: 0,
            ended_at: 0,
            rule: 0,
            by_row: false,
        }
    }

    /// The number of addresses that batches ask about.
    pub fn to_check(&self) -> u64 {
        if self.by_row { self.addresses } else { self.distinct }
    }

    /// The estimated price of the whole list. Until the list asks about an address, another check of it, or the end of 24 hours after
    /// its last check, can change the price.
    pub fn price(&self) -> u64 {
        if self.mode == KeyMode::Test { 0 } else { self.to_check() - self.known.min(self.to_check()) }
    }

    /// The number of addresses with a verdict.
    pub fn answered(&self) -> u64 {
        self.counts.iter().map(|(_, count)| count).sum()
    }

    /// The time at which the list expires. An upload that does not continue expires earlier.
    pub fn expires_at(&self) -> UnixMs {
        list_expires_at(
            self.state,
            self.created_at,
            (!self.by_row).then_some((self.received_at, self.offset)),
        )
    }
}

/// The time at which a list expires. `received` has the time of the last byte of its upload and the number of bytes, if they are
/// known.
pub fn list_expires_at(state: ListState, created_at: UnixMs, received: Option<(UnixMs, u64)>) -> UnixMs {
    let kept = created_at.saturating_add(LIST_KEEP_MS);
    match received {
        Some((received_at, bytes)) if state == ListState::Uploading => {
            let keep = if bytes == 0 { UPLOAD_BEGIN_MS } else { UPLOAD_KEEP_MS };
            kept.min(received_at.saturating_add(keep))
        }
        _ => kept,
    }
}

impl fmt::Debug for List {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "List({}, {:?}, {} of {})", self.id, self.state, self.submitted, self.to_check())
    }
}

/// How far the check of a list is, with the batches that are not complete.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ListProgress {
    /// The number of addresses with a verdict.
    pub checked: u64,
    /// How often each reason occurs among them.
    pub counts: Vec<(Reason, u64)>,
    /// How often each known cause occurs among those that are `unverifiable`.
    pub causes: Vec<(UnverifiableCause, u64)>,
    /// The credits that they cost: those of open batches are only reserved so far.
    pub cost: u64,
    /// The credits that the ledger has charged: those of the batches that are complete.
    pub charged: u64,
    /// The credits that the ledger holds for the open batches.
    pub reserved: u64,
    /// Those of them that come back when the batches end, because their addresses were free.
    pub returns: u64,
    /// The addresses of open batches that wait for something else than their turn.
    pub waiting: Vec<WaitingRows>,
}

/// Rows of open batches that wait for the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WaitingRows {
    /// What they wait for.
    pub cause: WaitCause,
    /// Their number.
    pub rows: u64,
    /// The time of creation of the youngest of their batches.
    pub created_at: UnixMs,
}

/// Counts one more of a kind.
pub fn count_one<T: PartialEq>(counts: &mut Vec<(T, u64)>, kind: T) {
    match counts.iter_mut().find(|(known, _)| *known == kind) {
        Some((_, count)) => *count += 1,
        None => counts.push((kind, 1)),
    }
}

impl ListProgress {
    /// The progress of a list as far as it has taken the answers of its batches.
    pub fn of(list: &List) -> ListProgress {
        let (checked, counts, causes) = (list.answered(), list.counts.clone(), list.causes.clone());
        let (cost, charged) = (list.charged, list.charged);
        ListProgress { checked, counts, causes, cost, charged, reserved: 0, returns: 0, waiting: Vec::new() }
    }
}

/// Counts a row that waits for something else than its turn, in a batch with this time of creation.
pub fn count_wait(waiting: &mut Vec<WaitingRows>, cause: WaitCause, created_at: UnixMs) {
    match waiting.iter_mut().find(|waiting| waiting.cause == cause) {
        _ if cause == WaitCause::Queue => {}
        Some(waiting) => {
            waiting.rows += 1;
            waiting.created_at = waiting.created_at.max(created_at);
        }
        None => waiting.push(WaitingRows { cause, rows: 1, created_at }),
    }
}

/// The lists of one of several nodes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ClaimedLists {
    /// All that the node has.
    pub own: Vec<ListId>,
    /// Those that it did not have at the last call.
    pub new: Vec<ListId>,
}
