//! The rows of a group: those that were fetched, and above them what the jobs of the group have written.
//!
//! A job that reads a row which was not fetched gets an error, and the overlay notes the [`Lack`]. The caller undoes the job,
//! fetches what is lacking, and runs the job again. So a job sees either exactly what it would see in the database after the
//! jobs before it, or an error.
//!
//! Rules:
//!
//! - [`Rows::get`] needs a row that was fetched with a lock, or a write of the group.
//! - What a walk needs is known by the *spans* that were fetched completely. A fetch that was limited to some rows covers the
//!   keys up to its last row. If jobs have removed rows, a walk needs more rows than its limit; it then lacks the rest of the
//!   span only.
//! - A lock may guard rows that are read without one, so these are read after it, or again.
//! - A job that was undone has left nothing.

mod lack;
mod spans;
#[cfg(test)]
mod tests;

pub use lack::{End, Lack, PAGE_ROWS, RangeLack, Span};

use lack::successor;
use spans::Spans;
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::iter::Peekable;
use std::mem;
use store::StoreError;
use store_rules::backend::Want;
use store_rules::rows::{Each, KeyRange, Rows, RowsMut, Table, Walk};

/// How much larger each next fetch of a walk is.
const PAGE_GROWTH: usize = 4;

/// A row as the database has it.
#[derive(Debug, Clone, PartialEq, Eq)]
struct FetchedRow {
    /// `None` if there is no such row.
    value: Option<Vec<u8>>,
    /// Whether it was asked for with a lock.
    is_locked: bool,
}

/// One table of an overlay.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct TableRows {
    fetched: BTreeMap<Vec<u8>, FetchedRow>,
    /// Where a key that is not in `fetched` does not exist.
    spans: Spans,
    count: Option<u64>,
    /// What the group has written; `None` if it has removed the row.
    written: BTreeMap<Vec<u8>, Option<Vec<u8>>>,
}

/// A row in the order of a walk, or the lack of one.
type Entry<'a> = (&'a [u8], Option<&'a [u8]>);

impl TableRows {
    /// What the database has under a key: the row or its absence, and whether it was asked for with a lock. `None` if it was
    /// never asked.
    fn server_row(&self, key: &[u8]) -> Option<(Option<&[u8]>, bool)> {
        match self.fetched.get(key) {
            Some(row) => Some((row.value.as_deref(), row.is_locked)),
            None => self.spans.has(key).then_some((None, false)),
        }
    }

    fn forget_unlocked(&mut self) {
        self.fetched.retain(|_, row| row.is_locked);
        self.spans = Spans::default();
        self.count = None;
    }

    /// The entries of a span, each key once.
    fn entries(&self, span: &Span, backwards: bool) -> Box<dyn Iterator<Item = Entry<'_>> + '_> {
        let fetched = self.fetched.range::<[u8], _>(span.bounds());
        let fetched = fetched.map(|(key, row)| (key.as_slice(), row.value.as_deref()));
        let written = self.written.range::<[u8], _>(span.bounds());
        let written = written.map(|(key, value)| (key.as_slice(), value.as_deref()));
        if backwards {
            Box::new(Merge { below: fetched.rev().peekable(), above: written.rev().peekable(), backwards })
        } else {
            Box::new(Merge { below: fetched.peekable(), above: written.peekable(), backwards })
        }
    }

    /// The part of a span that can be walked from its beginning, and the rest.
    fn split(&self, span: Span, backwards: bool) -> (Option<Span>, Option<Span>) {
        let Span { from, end } = span.clone();
        let (known, rest) = if backwards {
            let Some(start) = self.spans.start_before(&end) else { return (None, Some(span)) };
            let start = from.as_slice().max(start).to_vec();
            (Span { from: start.clone(), end }, Span { from, end: End::Before(start) })
        } else {
            let Some(known) = self.spans.end_at(&from) else { return (None, Some(span)) };
            let known = Span { from, end: known.min(&end).clone() };
            let End::Before(middle) = known.end.clone() else { return (Some(known), None) };
            (known, Span { from: middle, end })
        };
        (Some(known), Some(rest).filter(|rest| !rest.is_empty()))
    }
}

/// Two sequences of entries as one. An entry of `above` replaces one of `below`.
struct Merge<B: Iterator, A: Iterator> {
    below: Peekable<B>,
    above: Peekable<A>,
    backwards: bool,
}

impl<'a, B, A> Iterator for Merge<B, A>
where
    B: Iterator<Item = Entry<'a>>,
    A: Iterator<Item = Entry<'a>>,
{
    type Item = Entry<'a>;

    fn next(&mut self) -> Option<Entry<'a>> {
        let (Some((below, _)), Some((above, _))) = (self.below.peek(), self.above.peek()) else {
            return self.below.next().or_else(|| self.above.next());
        };
        if below == above {
            self.below.next();
            return self.above.next();
        }
        if (below < above) != self.backwards { self.below.next() } else { self.above.next() }
    }
}

/// What a write has replaced.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Replaced {
    table: Table,
    key: Vec<u8>,
    /// The earlier write of the group, if there was one.
    earlier: Option<Option<Vec<u8>>>,
}

/// A key and its value.
pub type KeyValue = (Vec<u8>, Vec<u8>);

/// Keys and values of rows of one table; both lists have the same length, in the order of the keys.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RowList {
    /// The column `k` of each row.
    pub keys: Vec<Vec<u8>>,
    /// The column `v` of each row.
    pub values: Vec<Vec<u8>>,
}

impl RowList {
    fn push(&mut self, key: Vec<u8>, value: Vec<u8>) {
        self.keys.push(key);
        self.values.push(value);
    }
}

/// What a group does to one table, in the order of the keys, so that all nodes lock in the same order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TableChanges {
    /// The table.
    pub table: Table,
    /// New rows, which were read as absent. If one exists by now, the group has read something that is no longer true.
    pub inserts: RowList,
    /// New values of rows that are locked.
    pub updates: RowList,
    /// Rows that were not read, or without a lock: they may exist or not.
    pub upserts: RowList,
    /// The keys of rows that are removed.
    pub removes: Vec<Vec<u8>>,
}

/// Fetched rows with the writes of a group.
#[derive(Debug)]
pub struct Overlay {
    /// By the number of the table.
    tables: Vec<TableRows>,
    journal: Vec<Replaced>,
    lacks: RefCell<BTreeSet<Lack>>,
    /// What was fetched without a lock.
    unlocked: BTreeSet<Lack>,
    has_missed: Cell<bool>,
    is_locking: bool,
}

impl Overlay {
    /// For writes: rows are locked.
    pub fn for_writes() -> Overlay {
        Overlay {
            tables: vec![TableRows::default(); Table::ALL.len()],
            journal: Vec::new(),
            lacks: RefCell::default(),
            unlocked: BTreeSet::new(),
            has_missed: Cell::new(false),
            is_locking: true,
        }
    }

    /// For reads of a snapshot, where no row is locked.
    pub fn for_reads() -> Overlay {
        Overlay { is_locking: false, ..Overlay::for_writes() }
    }

    /// Begins a job. Its writes can be undone until the next job begins.
    pub fn begin_job(&mut self) {
        self.journal.clear();
        self.has_missed.set(false);
    }

    /// Whether something was lacking since the job began. Its result means nothing then, whatever it is.
    pub fn has_missed(&self) -> bool {
        self.has_missed.get()
    }

    /// Takes back all writes of the job.
    pub fn undo_job(&mut self) {
        while let Some(Replaced { table, key, earlier }) = self.journal.pop() {
            let written = &mut self.tables[table as usize].written;
            match earlier {
                Some(earlier) => written.insert(key, earlier),
                None => written.remove(&key),
            };
        }
    }

    /// Keeps the writes of the job.
    pub fn keep_job(&mut self) {
        self.journal.clear();
    }

    /// Notes something that will be necessary.
    pub fn want(&self, lack: Lack) {
        let lack = match lack {
            Lack::Row(table, key) if !self.is_locking || is_guarded(table) => Lack::Peek(table, key),
            lack => lack,
        };
        self.lacks.borrow_mut().insert(lack);
    }

    /// What [`Overlay::take_lacks`] will return.
    pub fn lacks(&self) -> BTreeSet<Lack> {
        self.lacks.borrow().clone()
    }

    /// Everything that was lacking since the last call, in the order in which it must be fetched.
    ///
    /// If rows are to be locked, all that was read without a lock is forgotten and fetched again after them: a lock may guard
    /// it, and it may have changed before the row was locked.
    pub fn take_lacks(&mut self) -> BTreeSet<Lack> {
        let mut lacks = self.lacks.take();
        if matches!(lacks.first(), Some(Lack::Row(..))) {
            self.tables.iter_mut().for_each(TableRows::forget_unlocked);
            lacks.append(&mut self.unlocked);
        }
        self.unlocked.extend(lacks.iter().filter(|lack| !matches!(lack, Lack::Row(..))).cloned());
        lacks
    }

    /// Adds rows that were fetched by their keys. Those of `keys` that are not in `found` do not exist.
    pub fn add_rows(
        &mut self,
        table: Table,
        keys: Vec<Vec<u8>>,
        found: impl IntoIterator<Item = KeyValue>,
        is_locked: bool,
    ) {
        let fetched = &mut self.tables[table as usize].fetched;
        let found = found.into_iter().map(|(key, value)| (key, Some(value)));
        // A later entry for a key replaces the earlier one.
        for (key, value) in keys.into_iter().map(|key| (key, None)).chain(found) {
            let row = FetchedRow { value, is_locked };
            match fetched.get_mut(&key) {
                // It cannot have changed since it was locked.
                Some(old) if old.is_locked && !is_locked => {}
                Some(old) => *old = row,
                None => drop(fetched.insert(key, row)),
            }
        }
    }

    /// Adds the rows of a span, in the order in which they were asked for.
    pub fn add_range(&mut self, table: Table, asked: &RangeLack, found: Vec<KeyValue>) {
        let RangeLack { backwards, span, most } = asked;
        if span.is_empty() {
            return;
        }
        let rows = &mut self.tables[table as usize];
        let mut covered = span.clone();
        if let Some((last, _)) = found.last().filter(|_| found.len() >= *most) {
            if *backwards {
                covered.from.clone_from(last);
            } else {
                covered.end = End::Before(successor(last));
            }
        }
        // What was read earlier without a lock may be gone.
        let old = rows.fetched.range::<[u8], _>(covered.bounds()).filter(|(_, row)| !row.is_locked);
        let old: Vec<Vec<u8>> = old.map(|(key, _)| key.clone()).collect();
        for key in old {
            rows.fetched.remove(&key);
        }
        for (key, value) in found {
            rows.fetched.entry(key).or_insert(FetchedRow { value: Some(value), is_locked: false });
        }
        rows.spans.insert(covered);
    }

    /// Adds the number of rows of a table.
    pub fn add_count(&mut self, table: Table, count: u64) {
        self.tables[table as usize].count = Some(count);
    }

    /// What the group has changed, for each table that has changes.
    pub fn into_changes(mut self) -> Vec<TableChanges> {
        let tables = Table::ALL.into_iter().map(|table| {
            let rows = mem::take(&mut self.tables[table as usize]);
            changes_of(table, rows)
        });
        tables.flatten().collect()
    }

    fn miss(&self, lack: Lack) -> StoreError {
        self.want(lack);
        self.has_missed.set(true);
        StoreError::NotDone("a row is not fetched".into())
    }

    fn write(&mut self, table: Table, key: &[u8], value: Option<&[u8]>) {
        let earlier = self.tables[table as usize].written.insert(key.to_vec(), value.map(<[u8]>::to_vec));
        self.journal.push(Replaced { table, key: key.to_vec(), earlier });
    }
}

/// Whether the row of an account guards the rows of a table: a job locks the account before it reads them for a write. A lock of
/// their own would be a write of its own for the server. (What was read before a lock is fetched again after it.) A further table whose
/// rows are only read for a write after their account belongs here, too.
fn is_guarded(table: Table) -> bool {
    matches!(table, Table::Holds | Table::Ledger | Table::UnderWay | Table::Days | Table::FairUse)
}

fn changes_of(table: Table, mut rows: TableRows) -> Option<TableChanges> {
    let (inserts, updates, upserts) = (RowList::default(), RowList::default(), RowList::default());
    let mut changes = TableChanges { table, inserts, updates, upserts, removes: Vec::new() };
    let mut is_empty = true;
    for (key, value) in mem::take(&mut rows.written) {
        let known = rows.server_row(&key).map(|(old, is_locked)| (old, is_locked || is_guarded(table)));
        let list = match (known, value) {
            (Some((None, _)), None) => continue,
            (_, None) => {
                changes.removes.push(key);
                is_empty = false;
                continue;
            }
            (Some((Some(old), true)), Some(value)) if *old == *value => continue,
            (Some((Some(_), true)), Some(value)) => (&mut changes.updates, value),
            (Some((None, _)), Some(value)) => (&mut changes.inserts, value),
            // Without a lock, an UPDATE would write nothing if the row has been removed.
            (Some((Some(_), false)) | None, Some(value)) => (&mut changes.upserts, value),
        };
        list.0.push(key, list.1);
        is_empty = false;
    }
    (!is_empty).then_some(changes)
}

impl Rows for Overlay {
    fn get(&self, table: Table, key: &[u8], read: &mut dyn FnMut(&[u8])) -> Result<bool, StoreError> {
        let rows = &self.tables[table as usize];
        let value = match (rows.written.get(key), rows.server_row(key)) {
            (Some(value), _) => value.as_deref(),
            (None, Some((value, is_locked))) if is_locked || !self.is_locking || is_guarded(table) => value,
            (None, _) => return Err(self.miss(Lack::Row(table, key.to_vec()))),
        };
        Ok(value.map(read).is_some())
    }

    fn peek(&self, table: Table, key: &[u8], read: &mut dyn FnMut(&[u8])) -> Result<bool, StoreError> {
        let rows = &self.tables[table as usize];
        let value = match (rows.written.get(key), rows.server_row(key)) {
            (Some(value), _) => value.as_deref(),
            (None, Some((value, _))) => value,
            (None, None) => return Err(self.miss(Lack::Peek(table, key.to_vec()))),
        };
        Ok(value.map(read).is_some())
    }

    fn walk(&self, table: Table, range: KeyRange<'_>, each: &mut Each<'_>) -> Result<(), StoreError> {
        let (span, backwards, most) = (Span::of(&range), range.backwards, range.most);
        if span.is_empty() || most == 0 {
            return Ok(());
        }
        let rows = &self.tables[table as usize];
        let (known, rest) = rows.split(span, backwards);
        let known = known.iter().flat_map(|known| rows.entries(known, backwards));
        let mut passed = 0;
        for (key, value) in known.filter_map(|(key, value)| Some((key, value?))) {
            passed += 1;
            if each(key, value)? == Walk::Stop || passed == most {
                return Ok(());
            }
        }
        let Some(span) = rest else { return Ok(()) };
        let most = (most - passed).min(PAGE_ROWS.max(passed.saturating_mul(PAGE_GROWTH)));
        Err(self.miss(Lack::Range(table, RangeLack { backwards, span, most })))
    }

    fn count(&self, table: Table) -> Result<u64, StoreError> {
        let rows = &self.tables[table as usize];
        let (mut added, mut removed) = (0, 0);
        let mut lack = rows.count.is_none().then_some(Lack::Count(table));
        for (key, value) in &rows.written {
            match (rows.server_row(key), value) {
                (Some((None, _)), Some(_)) => added += 1,
                (Some((Some(_), _)), None) => removed += 1,
                (Some(_), _) => {}
                (None, _) => {
                    // All are noted at once.
                    let key = Lack::Peek(table, key.clone());
                    lack.replace(key).into_iter().for_each(|lack| self.want(lack));
                }
            }
        }
        match (rows.count, lack) {
            (Some(count), None) => Ok((count + added).saturating_sub(removed)),
            (_, lack) => Err(self.miss(lack.unwrap_or(Lack::Count(table)))),
        }
    }

    fn expect(&self, wants: &mut dyn Iterator<Item = Want>) {
        for lack in wants.filter_map(Lack::from_want) {
            let is_there = match &lack {
                Lack::Row(table, key) | Lack::Peek(table, key) => {
                    let rows = &self.tables[*table as usize];
                    let needs_lock = self.is_locking && matches!(lack, Lack::Row(..)) && !is_guarded(*table);
                    rows.written.contains_key(key)
                        || rows.server_row(key).is_some_and(|(_, is_locked)| is_locked || !needs_lock)
                }
                Lack::Range(table, range) => {
                    let (_, rest) = self.tables[*table as usize].split(range.span.clone(), range.backwards);
                    rest.is_none()
                }
                Lack::Count(_) => true,
            };
            if !is_there {
                self.want(lack);
            }
        }
    }
}

impl RowsMut for Overlay {
    fn put(&mut self, table: Table, key: &[u8], value: &[u8]) -> Result<(), StoreError> {
        self.write(table, key, Some(value));
        Ok(())
    }

    fn remove(&mut self, table: Table, key: &[u8]) -> Result<(), StoreError> {
        self.write(table, key, None);
        Ok(())
    }
}
