//! The tables and rows of lists: their data, their content, their index, and their answers.

use super::{AccountId, join};
use crate::reason;
use crate::row::{In, Out, Row};
use crate::rows::{Blob, Table, TypedTable};
use api::Reason;
use store::ListId;
use store::{KeyMode, ListState, UnixMs, list_expires_at};

/// Lists, by account and list.
pub const LISTS: TypedTable<[u8; 32], ListRow> = TypedTable::new(Table::Lists);
/// The sealed content of lists, by list and number of the part; and their sealed index: see [`index_key`].
pub const LIST_PARTS: TypedTable<[u8; 20], Blob> = TypedTable::new(Table::ListParts);
/// The sealed answers of lists, by list and number of the batch.
pub const LIST_CODES: TypedTable<[u8; 20], Blob> = TypedTable::new(Table::ListCodes);

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
        let received_at = self.more.map(|more| more.received_at);
        list_expires_at(self.state, self.created_at, received_at)
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
