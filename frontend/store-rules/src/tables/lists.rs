//! The tables and rows of lists: their data, their content, their index, and their answers.

use super::{AccountId, join, key_of};
use crate::reason;
use crate::row::{Codec, In, Out, codes, row};
use crate::rows::{Blob, Table, TypedTable};
use api::{Reason, UnverifiableCause};
use std::collections::BTreeSet;
use store::ListId;
use store::{
    KeyMode, LIST_INDEX_NUMBER_BYTES, LIST_PART_BYTES, List, ListState, UnixMs, count_one, list_expires_at,
};

/// Lists, by account and list.
pub const LISTS: TypedTable<[u8; 32], ListRow> = TypedTable::new(Table::Lists);
/// The sealed content of lists, by list and number of the part; and their sealed index: see [`index_key`].
pub const LIST_PARTS: TypedTable<[u8; 20], Blob> = TypedTable::new(Table::ListParts);
/// The sealed answers of lists, by list and number of the batch.
pub const LIST_CODES: TypedTable<[u8; 20], Blob> = TypedTable::new(Table::ListCodes);

/// What the lists of an account take, by account; only accounts with lists have a row. See [`META_LIST_USE`](super::META_LIST_USE).
pub const LIST_USE: TypedTable<[u8; 16], ListUse> = TypedTable::new(Table::ListUse);

/// An upload counts by what has arrived, rounded up to steps: what it has announced but not sent keeps nobody out, and the sum over
/// all lists is needed only at each step.
const UPLOAD_STEP_BYTES: u64 = 1 << 20;
const UPLOAD_ADVANCE_BYTES: u64 = 4 * LIST_PART_BYTES as u64;

/// The key of [`LISTS`].
pub fn list_key(account: AccountId, id: ListId) -> [u8; 32] {
    join(account.to_bytes(), id.to_bytes())
}

/// The key of [`LIST_PARTS`] and [`LIST_CODES`].
pub fn part_key(id: ListId, number: u32) -> [u8; 20] {
    key_of(&[&id.to_bytes(), &number.to_be_bytes()])
}

/// The key in [`LIST_PARTS`] of a part of the index. A content never has so many parts.
pub fn index_key(id: ListId, number: u32) -> [u8; 20] {
    part_key(id, number | 1 << 31)
}

/// A row of [`LISTS`].
#[derive(Clone, PartialEq, Eq)]
pub struct ListRow {
    pub created_at: UnixMs,
    pub state: ListState,
    /// The sealed name of the file, and the reason why the list is unfit or paused.
    pub texts: Vec<u8>,
    pub bytes: u64,
    pub rows: u64,
    pub addresses: u64,
    pub submitted: u64,
    pub done: u32,
    pub counts: Vec<(CountCode, u64)>,
    /// What lists of format 6 and earlier do not have.
    pub more: Option<ListMore>,
}

/// What a list counts, as the code of a reason or of a cause of `unverifiable`. Only a database of
/// [`FORMAT_OF_CAUSES`](super::FORMAT_OF_CAUSES) has the latter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CountCode(pub u8);

impl CountCode {
    /// The counts of a list.
    pub fn counts(list: &List) -> Vec<(CountCode, u64)> {
        let reasons = list.counts.iter().map(|&(reason, count)| (CountCode(reason::code(reason)), count));
        let causes = list.causes.iter().map(|&(cause, count)| (CountCode(cause as u8), count));
        reasons.chain(causes).collect()
    }
}

/// The part of [`ListRow`] that came with format 7.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ListMore {
    pub mode: KeyMode,
    pub is_resumable: bool,
    pub offset: u64,
    pub received_at: UnixMs,
    pub distinct: u64,
    pub known: u64,
    pub charged: u64,
    pub rule: u32,
}

impl ListRow {
    /// The time at which the list is removed.
    pub fn expires_at(&self) -> UnixMs {
        let received = self.more.map(|more| (more.received_at, more.offset));
        list_expires_at(self.state, self.created_at, received)
    }

    /// The bytes that the limit of all lists counts: content, or what an upload has brought and a small advance, and the index.
    pub fn counted_bytes(&self) -> u64 {
        let content = match &self.more {
            Some(more) if self.state == ListState::Uploading => {
                let arrived = more.offset.next_multiple_of(UPLOAD_STEP_BYTES);
                self.bytes.min(arrived.saturating_add(UPLOAD_ADVANCE_BYTES))
            }
            _ => self.bytes,
        };
        content.saturating_add(self.index_bytes())
    }

    /// The bytes that the limit of the account counts: as above, with what its uploads have announced.
    pub fn announced_bytes(&self) -> u64 {
        self.bytes.saturating_add(self.index_bytes())
    }

    /// The bytes of the index. A compressed list of a few bytes can have millions of rows.
    fn index_bytes(&self) -> u64 {
        match &self.more {
            Some(more) if more.distinct < self.addresses => {
                self.addresses.saturating_mul(LIST_INDEX_NUMBER_BYTES)
            }
            _ => 0,
        }
    }

    /// The counts of answers by reason.
    pub fn reasons(&self) -> Vec<(Reason, u64)> {
        self.counts.iter().filter_map(|(code, count)| Some((reason::exactly(code.0)?, *count))).collect()
    }

    /// The counts of `unverifiable` answers by cause.
    pub fn causes(&self) -> Vec<(UnverifiableCause, u64)> {
        self.counts.iter().filter_map(|(code, count)| Some((reason::cause_of(code.0)?, *count))).collect()
    }

    /// Counts an answer with this code, unless it is refunded.
    pub fn count(&mut self, code: u8) {
        let Some(reason) = reason::of_code(code) else { return };
        count_one(&mut self.counts, CountCode(reason::code(reason)));
        if reason::cause_of(code).is_some() {
            count_one(&mut self.counts, CountCode(code));
        }
    }

    /// Whether the server works on the list.
    pub fn is_at_work(&self) -> bool {
        matches!(self.state, ListState::Reading | ListState::Running)
    }
}

/// A row of [`LIST_USE`].
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ListUse {
    /// The bytes of all lists of the account, as their limits count them.
    pub bytes: u64,
    /// The lists that the account has.
    pub lists: u64,
    /// Those that are being read or checked.
    pub at_work: BTreeSet<ListId>,
}

impl Codec for ListUse {
    fn write(&self, out: &mut Out) {
        let at_work: Vec<ListId> = self.at_work.iter().copied().collect();
        out.all(&[&self.bytes, &self.lists, &at_work]);
    }

    fn read(input: &mut In<'_>) -> Option<ListUse> {
        let (bytes, lists) = Codec::read(input)?;
        Some(ListUse { bytes, lists, at_work: Vec::read(input)?.into_iter().collect() })
    }
}

row!("list_use", ListUse);

codes!(ListState {
    Uploading = 0, Reading = 1, Unfit = 2, Ready = 3, Running = 4, Paused = 5, Completed = 6, Cancelled = 7
});
row!("lists", ListRow {
    created_at, state, texts, bytes, rows, addresses, submitted, done, counts; more
});

impl Codec for ListMore {
    fn write(&self, out: &mut Out) {
        let ListMore { mode, is_resumable, offset, received_at, distinct, known, charged, rule } = self;
        let flags = u8::from(*mode == KeyMode::Test) | u8::from(*is_resumable) << 1;
        out.all(&[&flags, offset, received_at, distinct, known, charged, rule]);
    }

    fn read(input: &mut In<'_>) -> Option<ListMore> {
        let flags = input.byte().filter(|&flags| flags < 4)?;
        Some(ListMore {
            mode: if flags & 1 != 0 { KeyMode::Test } else { KeyMode::Live },
            is_resumable: flags & 2 != 0,
            offset: Codec::read(input)?,
            received_at: Codec::read(input)?,
            distinct: Codec::read(input)?,
            known: Codec::read(input)?,
            charged: Codec::read(input)?,
            rule: Codec::read(input)?,
        })
    }
}
