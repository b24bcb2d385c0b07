//! The tables and rows of lists: their data, their content, and their answers.

use super::{AccountId, join};
use crate::reason;
use crate::row::{In, Out, Row};
use crate::rows::{Blob, Table, TypedTable};
use api::Reason;
use store::ListId;
use store::{LIST_KEEP_MS, ListState, UnixMs};

/// Lists, by account and list.
pub const LISTS: TypedTable<[u8; 32], ListRow> = TypedTable::new(Table::Lists);
/// The sealed content of lists, by list and number of the part.
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
}

impl ListRow {
    /// The time at which the list is removed.
    pub fn expires_at(&self) -> UnixMs {
        self.created_at.saturating_add(LIST_KEEP_MS)
    }
}

const STATES: [ListState; 7] = [
    ListState::Uploading,
    ListState::Reading,
    ListState::Unfit,
    ListState::Ready,
    ListState::Running,
    ListState::Paused,
    ListState::Completed,
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
        })
    }
}
