//! The rows in progress. Each has a slot; the number of the slot is its ticket for the engine.

use super::CleanError;
use std::collections::VecDeque;

/// Maximum number of addresses in progress.
pub const UNDER_WAY_MAX: usize = 100_000;
/// Maximum size of all rows in progress, in bytes. It matters for lists with long rows.
const BYTES_MAX: usize = 64 * 1024 * 1024;
/// A slot with a larger buffer releases the excess memory.
const SLOT_BYTES_MAX: usize = 1024;

/// A row in progress.
#[derive(Debug, Default, PartialEq, Eq, Clone)]
pub(super) struct AskedRow {
    /// The number of the row in the list.
    pub row: u64,
    /// The number of its domain in the summary.
    pub domain: u32,
    /// The hash of the address.
    pub key: u128,
    /// Whether its server has replied, and its answer comes later.
    pub is_held: bool,
    /// Whether it has waited in a queue before.
    pub has_waited: bool,
    /// Number of retries because its server answered "later" or not at all.
    pub retries: u8,
    /// The beginning of its wait, in milliseconds from the start of the run.
    pub since: Option<u64>,
    /// The address. With `--unordered` the output row up to its verdict follows.
    pub bytes: Vec<u8>,
    /// Length of the address.
    pub address_bytes: u16,
}

/// Length of the header of a record.
const HEADER: usize = 8 + 4 + 1 + 8 + 2 + 16;

impl AskedRow {
    /// The text of the address.
    pub fn address(&self) -> &[u8] {
        &self.bytes[..usize::from(self.address_bytes).min(self.bytes.len())]
    }

    /// The text after the last at sign.
    pub fn domain(&self) -> &[u8] {
        let address = self.address();
        address.rsplit(|&byte| byte == b'@').next().unwrap_or(address)
    }

    /// The output row up to its verdict.
    pub fn prefix(&self) -> &[u8] {
        &self.bytes[usize::from(self.address_bytes).min(self.bytes.len())..]
    }

    /// The two parts of the record that [`AskedRow::read`] reads.
    pub fn record(&self) -> ([u8; HEADER], &[u8]) {
        let mut header = [0; HEADER];
        header[..8].copy_from_slice(&self.row.to_le_bytes());
        header[8..12].copy_from_slice(&self.domain.to_le_bytes());
        header[12] = self.retries;
        header[13..21].copy_from_slice(&self.since.map_or(0, |since| since + 1).to_le_bytes());
        header[21..23].copy_from_slice(&self.address_bytes.to_le_bytes());
        header[23..].copy_from_slice(&self.key.to_le_bytes());
        (header, &self.bytes)
    }

    /// Reads a record and replaces the contents.
    ///
    /// # Errors
    /// The record is too short.
    pub fn read(&mut self, record: &[u8]) -> Result<(), CleanError> {
        let Some((header, bytes)) = record.split_first_chunk::<HEADER>() else {
            return Err(CleanError::failed("a waiting row is damaged; report this bug"));
        };
        let number = |range: std::ops::Range<usize>| {
            header[range].iter().rev().fold(0, |number: u128, &byte| number << 8 | u128::from(byte))
        };
        self.row = number(0..8) as u64;
        self.domain = number(8..12) as u32;
        self.retries = header[12];
        self.is_held = false;
        self.has_waited = true;
        self.since = (number(13..21) as u64).checked_sub(1);
        self.address_bytes = number(21..23) as u16;
        self.key = number(23..39);
        self.bytes.clear();
        self.bytes.extend_from_slice(bytes);
        Ok(())
    }
}

/// The slots of the rows in progress.
pub(super) struct RowBudget {
    slots: Vec<AskedRow>,
    free: Vec<u32>,
    busy: Vec<bool>,
    bytes: usize,
    room: usize,
    /// Tickets that the engine refused because it was full.
    pub unsent: VecDeque<u64>,
}

impl RowBudget {
    /// A budget of `room` rows.
    pub fn new(room: usize) -> RowBudget {
        RowBudget {
            slots: Vec::new(),
            free: Vec::new(),
            busy: Vec::new(),
            bytes: 0,
            room,
            unsent: VecDeque::new(),
        }
    }

    /// Number of rows in progress.
    pub fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// Whether another row may be in progress.
    pub fn has_room(&self) -> bool {
        self.len() < self.room && self.bytes < BYTES_MAX
    }

    /// Adds a row: `fill` writes it into its slot. Returns its ticket.
    ///
    /// # Errors
    /// The error of `fill`.
    pub fn take(
        &mut self,
        fill: impl FnOnce(&mut AskedRow) -> Result<(), CleanError>,
    ) -> Result<u64, CleanError> {
        let slot = self.free.pop().unwrap_or_else(|| {
            self.slots.push(AskedRow::default());
            self.busy.push(false);
            self.slots.len() as u32 - 1
        });
        let asked = &mut self.slots[slot as usize];
        fill(asked)?;
        self.bytes += asked.bytes.len();
        self.busy[slot as usize] = true;
        Ok(u64::from(slot))
    }

    /// The row with this ticket, if it is in progress.
    pub fn row(&mut self, ticket: u64) -> Option<&mut AskedRow> {
        let slot = usize::try_from(ticket).ok()?;
        if *self.busy.get(slot)? { self.slots.get_mut(slot) } else { None }
    }

    /// Ends a row and frees its slot.
    pub fn release(&mut self, ticket: u64) {
        let Some(asked) = self.row(ticket) else { return };
        let length = asked.bytes.len();
        asked.bytes.clear();
        asked.bytes.shrink_to(SLOT_BYTES_MAX);
        self.bytes -= length;
        self.busy[ticket as usize] = false;
        self.free.push(ticket as u32);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(row: u64, address: &str, prefix: &str) -> AskedRow {
        let bytes = [address, prefix].concat().into_bytes();
        AskedRow {
            row,
            domain: 7,
            key: 1 << 127,
            is_held: false,
            has_waited: true,
            retries: 2,
            since: Some(0),
            bytes,
            address_bytes: address.len() as u16,
        }
    }

    #[test]
    fn a_row_is_what_its_record_says() {
        let row = asked(1 << 40, "\"a@b\"@example.com", "x,");
        assert_eq!((row.domain(), row.prefix()), (&b"example.com"[..], &b"x,"[..]));
        let (header, bytes) = row.record();
        let mut again = AskedRow::default();
        again.read(&[&header, bytes].concat()).unwrap();
        assert_eq!(again, row);
        assert!(again.read(&header[1..]).is_err());
    }

    #[test]
    fn slots_are_used_again() {
        let mut budget = RowBudget::new(2);
        let fill = |row| {
            move |asked: &mut AskedRow| {
                asked.row = row;
                asked.bytes.resize(100, b'x');
                Ok(())
            }
        };
        let tickets: Vec<u64> = (0..2).map(|row| budget.take(fill(row)).unwrap()).collect();
        assert!(!budget.has_room() && budget.len() == 2 && budget.bytes == 200);
        budget.release(tickets[0]);
        budget.release(tickets[0]);
        assert!(budget.has_room() && budget.len() == 1 && budget.row(tickets[0]).is_none());
        assert_eq!(budget.take(fill(9)).unwrap(), tickets[0]);
        assert_eq!(budget.row(tickets[0]).unwrap().row, 9);
        assert!(budget.row(77).is_none());
    }

    #[test]
    fn long_rows_fill_it_earlier() {
        let mut budget = RowBudget::new(1000);
        while budget.has_room() {
            budget
                .take(|asked| {
                    asked.bytes.resize(1 << 20, b'x');
                    Ok(())
                })
                .unwrap();
        }
        assert_eq!(budget.len(), 64);
    }
}
