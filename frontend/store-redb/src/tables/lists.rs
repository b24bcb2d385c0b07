//! The tables and rows of lists: their data, their content, and their answers.

use super::super::reason;
use super::super::row::{In, Out, Row};
use super::{AccountId, join};
use ::redb::TableDefinition;
use api::Reason;
use store::ListId;
use store::{LIST_KEEP_MS, ListState, UnixMs};

/// Lists, by account and list.
pub(in super::super) const LISTS: TableDefinition<&[u8; 32], &[u8]> = TableDefinition::new("lists");
/// The sealed content of lists, by list and number of the part.
pub(in super::super) const LIST_PARTS: TableDefinition<&[u8; 20], &[u8]> = TableDefinition::new("list_parts");
/// The sealed answers of lists, by list and number of the batch.
pub(in super::super) const LIST_CODES: TableDefinition<&[u8; 20], &[u8]> = TableDefinition::new("list_codes");

/// The key of [`LISTS`].
pub(in super::super) fn list_key(account: AccountId, id: ListId) -> [u8; 32] {
    join(account.to_bytes(), id.to_bytes())
}

/// The key of [`LIST_PARTS`] and [`LIST_CODES`].
pub(in super::super) fn part_key(id: ListId, number: u32) -> [u8; 20] {
    let mut key = [0; 20];
    key[..16].copy_from_slice(&id.to_bytes());
    key[16..].copy_from_slice(&number.to_be_bytes());
    key
}

#[derive(Clone, PartialEq, Eq)]
pub(in super::super) struct ListRow {
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
