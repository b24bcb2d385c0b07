//! The table of learned events: for each address, by a keyed hash, the times of its last bounce, failure and deliveries.
//!
//! | bytes | content of the file |
//! | --- | --- |
//! | 19 | `mailprobe learned 1` and a line break |
//! | 8 | number of rows, little-endian |
//! | 37 for each row | hash (16), last failure (4), last definite bounce (4), its kind (1), last delivery (4), two earlier deliveries (4 each) |
//! | 16 | keyed hash of all bytes before |
//!
//! Times are in seconds since 1970, and 0 is none. The rows are in the order of their hashes.

use crate::evidence::{BOUNCE_SECONDS_MAX, DELIVERY_SECONDS_MAX, Evidence, GIVE_UP_SECONDS};
use crate::meaning::Bounce;
use crate::reading::{Event, EventKind};
use engine_proto::address::Address;
use siphasher::sip128::{Hasher128, SipHasher24};
use std::collections::HashMap;
use std::fmt;
use std::hash::Hasher;

/// Maximum number of rows. If there are more, those with the oldest events are removed. The file then has 74 MB.
pub const TABLE_ROWS_MAX: usize = 2_000_000;

const MAGIC: &[u8] = b"mailprobe learned ";
const VERSION: &[u8] = b"1\n";
const HEAD_BYTES: usize = MAGIC.len() + VERSION.len() + 8;
const ROW_BYTES: usize = 37;
const CHECK_BYTES: usize = 16;
/// Servers have different clocks, and a provider may report the acceptance by a relay after the bounce. A failure up to this many
/// seconds before a delivery also counts against it.
pub(crate) const CLOCKS_DIFFER: u32 = 24 * 3600;

/// The key of the hashes in a table. Each installation has its own random key.
#[derive(Clone, PartialEq, Eq)]
pub struct TableKey(pub [u8; 16]);

/// Omits the key, which is secret.
impl fmt::Debug for TableKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TableKey(..)")
    }
}

impl TableKey {
    fn hash(&self, bytes: &[u8]) -> [u8; 16] {
        let mut hasher = SipHasher24::new_with_key(&self.0);
        hasher.write(bytes);
        hasher.finish128().as_bytes()
    }
}

/// The last events of mail to one address. Times are in seconds since 1970; 0 means that there was no such event.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct History {
    failed_at: u32,
    bounced_at: u32,
    bounce: Option<Bounce>,
    delivered_at: u32,
    /// Two deliveries at least [`GIVE_UP_SECONDS`] apart. One of them is old enough to be evidence, also if mail is sent every day.
    spaced: [u32; 2],
}

impl History {
    fn add(&mut self, kind: EventKind, at: u32) {
        match kind {
            EventKind::Failed(_) => self.failed_at = self.failed_at.max(at),
            EventKind::Bounced(bounce) => {
                self.failed_at = self.failed_at.max(at);
                if at >= self.bounced_at {
                    (self.bounced_at, self.bounce) = (at, Some(bounce));
                }
            }
            EventKind::Delivered => {
                self.delivered_at = self.delivered_at.max(at);
                self.space(at);
            }
        }
    }

    fn space(&mut self, at: u32) {
        let [later, earlier] = self.spaced;
        self.spaced =
            if at >= later.saturating_add(GIVE_UP_SECONDS as u32) || self.is_refuted(later) && at > later {
                [at, later]
            } else if at < later {
                [later, earlier.max(at)]
            } else {
                [later, earlier]
            };
    }

    /// Whether a failure about the time of the delivery, or after it, shows that the delivery is no evidence.
    fn is_refuted(&self, delivered_at: u32) -> bool {
        self.failed_at != 0 && self.failed_at.saturating_add(CLOCKS_DIFFER) >= delivered_at
    }

    fn evidence(&self, now: u64) -> Option<Evidence> {
        let age = |at: u32| now.saturating_sub(u64::from(at));
        if let Some(bounce) = self.bounce
            && self.bounced_at >= self.delivered_at
            && age(self.bounced_at) <= BOUNCE_SECONDS_MAX
        {
            return Some(Evidence::Bounced { bounce, at: self.bounced_at.into() });
        }
        let is_evidence = |at: &u32| {
            *at != 0 && !self.is_refuted(*at) && (GIVE_UP_SECONDS..=DELIVERY_SECONDS_MAX).contains(&age(*at))
        };
        let at = [self.delivered_at, self.spaced[0], self.spaced[1]].into_iter().filter(is_evidence).max()?;
        Some(Evidence::Delivered { at: at.into() })
    }

    /// Whether all events are too old to be evidence, and too old to refute evidence.
    fn is_expired(&self, now: u64) -> bool {
        let is_old = |at: u32, most: u64| at == 0 || now.saturating_sub(u64::from(at)) > most;
        is_old(self.failed_at, BOUNCE_SECONDS_MAX) && is_old(self.delivered_at, DELIVERY_SECONDS_MAX)
    }

    fn newest(&self) -> u32 {
        self.failed_at.max(self.delivered_at)
    }

    fn write(&self, out: &mut Vec<u8>) {
        let kind = match self.bounce {
            None => 0,
            Some(Bounce::NotFound) => 1,
            Some(Bounce::Disabled) => 2,
            Some(Bounce::DomainDead) => 3,
        };
        out.extend_from_slice(&self.failed_at.to_le_bytes());
        out.extend_from_slice(&self.bounced_at.to_le_bytes());
        out.push(kind);
        for at in [self.delivered_at, self.spaced[0], self.spaced[1]] {
            out.extend_from_slice(&at.to_le_bytes());
        }
    }

    fn read(bytes: &[u8]) -> Option<History> {
        let time = |at: usize| Some(u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?));
        let bounce = match bytes.get(8)? {
            0 => None,
            1 => Some(Bounce::NotFound),
            2 => Some(Bounce::Disabled),
            3 => Some(Bounce::DomainDead),
            _ => return None,
        };
        Some(History {
            failed_at: time(0)?,
            bounced_at: time(4)?,
            bounce,
            delivered_at: time(9)?,
            spaced: [time(13)?, time(17)?],
        })
    }
}

/// Counts of a table, without any address.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TableCounts {
    /// Number of addresses.
    pub addresses: u64,
    /// Number of addresses with a bounce that counts now.
    pub bounced: u64,
    /// Number of addresses with a delivery that counts now.
    pub delivered: u64,
    /// The time of the newest event in seconds since 1970; `None` if the table is empty.
    pub newest: Option<u64>,
}

/// The learned events of all addresses.
pub struct Table {
    key: TableKey,
    rows: HashMap<[u8; 16], History>,
}

/// Without the hashes, which are data of persons.
impl fmt::Debug for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Table").field("rows", &self.rows.len()).finish_non_exhaustive()
    }
}

/// The reason why bytes are no table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TableFault {
    /// Another kind of file.
    Foreign,
    /// A version that this program does not know.
    Newer,
    /// The bytes are damaged, or the key is another one.
    Damaged,
}

impl Table {
    /// An empty table with this key.
    pub fn new(key: TableKey) -> Table {
        Table { key, rows: HashMap::new() }
    }

    /// Adds an event. Events may come in any order. Only of deliveries within five days, the order decides which one is kept.
    pub fn add(&mut self, event: &Event) {
        let hash = self.hash(&event.address);
        let at = u32::try_from(event.at).unwrap_or(u32::MAX);
        self.rows.entry(hash).or_default().add(event.kind, at);
        if self.rows.len() >= 2 * TABLE_ROWS_MAX {
            self.remove_oldest(TABLE_ROWS_MAX);
        }
    }

    /// What is known of an address now; `now` is in seconds since 1970.
    pub fn evidence(&self, address: &Address, now: u64) -> Option<Evidence> {
        self.rows.get(&self.hash(address))?.evidence(now)
    }

    /// Removes all events of an address. Returns whether there were any.
    pub fn forget(&mut self, address: &Address) -> bool {
        let hash = self.hash(address);
        self.rows.remove(&hash).is_some()
    }

    /// Removes rows that are too old, and the oldest ones if there are too many. Returns the number of rows.
    pub fn prune(&mut self, now: u64, rows_max: usize) -> usize {
        self.rows.retain(|_, history| !history.is_expired(now));
        self.remove_oldest(rows_max);
        self.rows.len()
    }

    /// Removes the rows with the oldest events until at most this many are left.
    pub(crate) fn remove_oldest(&mut self, rows_max: usize) {
        if self.rows.len() > rows_max {
            let mut times: Vec<u32> = self.rows.values().map(History::newest).collect();
            let surplus = times.len() - rows_max;
            let (_, bound, _) = times.select_nth_unstable(surplus - 1);
            let bound = *bound;
            let mut left = surplus;
            self.rows.retain(|_, history| {
                let is_removed = history.newest() <= bound && left > 0;
                left -= usize::from(is_removed);
                !is_removed
            });
        }
    }

    /// Counts of the table.
    pub fn counts(&self, now: u64) -> TableCounts {
        let mut counts = TableCounts { addresses: self.rows.len() as u64, ..TableCounts::default() };
        for history in self.rows.values() {
            match history.evidence(now) {
                Some(Evidence::Bounced { .. }) => counts.bounced += 1,
                Some(Evidence::Delivered { .. }) => counts.delivered += 1,
                None => {}
            }
        }
        counts.newest = self.rows.values().map(|history| history.newest().into()).max();
        counts
    }

    fn hash(&self, address: &Address) -> [u8; 16] {
        self.key.hash(address.canonical().as_bytes())
    }

    /// The bytes of the file.
    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        let mut rows: Vec<_> = self.rows.iter().collect();
        rows.sort_unstable_by_key(|(hash, _)| **hash);
        let mut out = Vec::with_capacity(HEAD_BYTES + rows.len() * ROW_BYTES + CHECK_BYTES);
        out.extend_from_slice(MAGIC);
        out.extend_from_slice(VERSION);
        out.extend_from_slice(&(rows.len() as u64).to_le_bytes());
        for (hash, history) in rows {
            out.extend_from_slice(hash);
            history.write(&mut out);
        }
        let check = self.key.hash(&out);
        out.extend_from_slice(&check);
        out
    }

    /// Reads the bytes of a file.
    pub(crate) fn from_bytes(key: TableKey, bytes: &[u8]) -> Result<Table, TableFault> {
        let rest = bytes.strip_prefix(MAGIC).ok_or(TableFault::Foreign)?;
        let rest = rest.strip_prefix(VERSION).ok_or(TableFault::Newer)?;
        let (count, rest) = rest.split_first_chunk::<8>().ok_or(TableFault::Damaged)?;
        let (body, check) = bytes.split_last_chunk::<CHECK_BYTES>().ok_or(TableFault::Damaged)?;
        let rows_end = rest.len().checked_sub(CHECK_BYTES).ok_or(TableFault::Damaged)?;
        let rows = rest[..rows_end].chunks(ROW_BYTES);
        let is_whole = rows_end % ROW_BYTES == 0 && rows.len() as u64 == u64::from_le_bytes(*count);
        if !is_whole || rows.len() > TABLE_ROWS_MAX || key.hash(body) != *check {
            return Err(TableFault::Damaged);
        }
        let mut table = Table::new(key);
        table.rows.reserve(rows.len());
        for row in rows {
            let (hash, history) = row.split_first_chunk::<16>().ok_or(TableFault::Damaged)?;
            table.rows.insert(*hash, History::read(history).ok_or(TableFault::Damaged)?);
        }
        Ok(table)
    }
}

#[cfg(test)]
mod tests;
