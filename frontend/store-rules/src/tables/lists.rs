//! The tables and rows of lists: their data, their content, their index, and their answers.

use super::{AccountId, join};
use crate::reason;
use crate::row::{In, Out, Row};
use crate::rows::{Blob, Table, TypedTable};
use api::Reason;
use std::collections::BTreeSet;
use store::ListId;
use store::{KeyMode, LIST_INDEX_NUMBER_BYTES, LIST_PART_BYTES, ListState, UnixMs, list_expires_at};

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
    let mut key = [0; 20];
    key[..16].copy_from_slice(&id.to_bytes());
    key[16..].copy_from_slice(&number.to_be_bytes());
    key
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
    pub counts: Vec<(Reason, u64)>,
    /// What lists of format 6 and earlier do not have.
    pub more: Option<ListMore>,
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

impl Row for ListUse {
    const TABLE: &'static str = "list_use";

    fn write(&self, out: &mut Out) {
        out.number(self.bytes);
        out.number(self.lists);
        out.number(self.at_work.len() as u64);
        self.at_work.iter().for_each(|id| out.bytes(&id.to_bytes()));
    }

    fn read(input: &mut In<'_>) -> Option<ListUse> {
        let (bytes, lists, at_work) = (input.number()?, input.number()?, input.number()?);
        let at_work = (0..at_work).map(|_| Some(ListId::from_bytes(input.array()?)));
        Some(ListUse { bytes, lists, at_work: at_work.collect::<Option<_>>()? })
    }
}

const STATES: [ListState; 8] = [
    ListState::Uploading,
    ListState::Reading,
    ListState::Unfit,
    ListState::Ready,
    ListState::Running,
    ListState::Paused,
    ListState::Completed,
    ListState::Cancelled,
];

impl Row for ListRow {
    const TABLE: &'static str = "lists";

    fn write(&self, out: &mut Out) {
        out.number(self.created_at);
        out.byte(self.state as u8);
        out.blob(&self.texts);
        for number in [self.bytes, self.rows, self.addresses, self.submitted, u64::from(self.done)] {
            out.number(number);
        }
        out.number(self.counts.len() as u64);
        for (reason, count) in &self.counts {
            out.byte(reason::code(*reason));
            out.number(*count);
        }
        if let Some(more) = &self.more {
            more.write(out);
        }
    }

    fn read(input: &mut In<'_>) -> Option<ListRow> {
        Some(ListRow {
            created_at: input.number()?,
            state: *STATES.get(usize::from(input.byte()?))?,
            texts: input.blob()?,
            bytes: input.number()?,
            rows: input.number()?,
            addresses: input.number()?,
            submitted: input.number()?,
            done: input.small()?,
            counts: {
                let count = input.number()?;
                let counts = (0..count).map(|_| Some((reason::of_code(input.byte()?)?, input.number()?)));
                counts.collect::<Option<_>>()?
            },
            more: if input.is_empty() { None } else { Some(ListMore::read(input)?) },
        })
    }
}

impl Row for ListMore {
    const TABLE: &'static str = "lists";

    fn write(&self, out: &mut Out) {
        out.byte(u8::from(self.mode == KeyMode::Test) | u8::from(self.is_resumable) << 1);
        let numbers = [self.offset, self.received_at, self.distinct, self.known, self.charged];
        numbers.into_iter().chain([u64::from(self.rule)]).for_each(|number| out.number(number));
    }

    fn read(input: &mut In<'_>) -> Option<ListMore> {
        let flags = input.byte().filter(|&flags| flags < 4)?;
        Some(ListMore {
            mode: if flags & 1 != 0 { KeyMode::Test } else { KeyMode::Live },
            is_resumable: flags & 2 != 0,
            offset: input.number()?,
            received_at: input.number()?,
            distinct: input.number()?,
            known: input.number()?,
            charged: input.number()?,
            rule: input.small()?,
        })
    }
}
