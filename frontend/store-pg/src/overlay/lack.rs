//! What an overlay has not fetched, and spans of keys.

use std::ops::Bound;
use store_rules::backend::Want;
use store_rules::rows::{KeyRange, Table};

/// The largest number of rows that the first fetch of a walk asks for. A walk may stop early, so what it says itself is often
/// far too much.
pub const PAGE_ROWS: usize = 1024;

/// Rows that must be fetched. They are fetched in the order of the variants: locks come first, because the row of an account
/// guards the rows that are read without a lock.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Lack {
    /// A row, with a lock.
    Row(Table, Vec<u8>),
    /// A row without a lock.
    Peek(Table, Vec<u8>),
    /// Rows of a span, without a lock.
    Range(Table, RangeLack),
    /// The number of rows.
    Count(Table),
}

impl Lack {
    /// What a job named before its work.
    pub fn from_want(want: Want) -> Option<Lack> {
        Some(match want {
            Want::Row(table, key) => Lack::Row(table, key),
            Want::Peek(table, key) => Lack::Peek(table, key),
            Want::Range { table, from, to, backwards, most } => {
                let span = Span { from, end: End::Before(successor(&to)) };
                if span.is_empty() || most == 0 {
                    return None;
                }
                Lack::Range(table, RangeLack { backwards, span, most: most.min(PAGE_ROWS) })
            }
        })
    }
}

/// The first rows of a span that must be fetched.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct RangeLack {
    /// Whether the rows with the largest keys are the first.
    pub backwards: bool,
    /// The keys.
    pub span: Span,
    /// The largest number of rows.
    pub most: usize,
}

/// The end of a span.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum End {
    /// All keys are smaller than this one. An included last key has a successor, an excluded one has no predecessor, so
    /// ends are always excluded.
    Before(Vec<u8>),
    /// No key is too large.
    Never,
}

impl End {
    /// Whether a key is in front of it.
    pub fn is_after(&self, key: &[u8]) -> bool {
        match self {
            End::Before(end) => key < end.as_slice(),
            End::Never => true,
        }
    }

    /// As the upper bound of a range.
    pub fn bound(&self) -> Bound<&[u8]> {
        match self {
            End::Before(end) => Bound::Excluded(end),
            End::Never => Bound::Unbounded,
        }
    }
}

/// All keys from one on, up to an end.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Span {
    /// The smallest key.
    pub from: Vec<u8>,
    /// The end.
    pub end: End,
}

impl Span {
    /// The keys of a walk.
    pub fn of(range: &KeyRange<'_>) -> Span {
        let from = match range.from {
            Bound::Included(key) => key.to_vec(),
            Bound::Excluded(key) => successor(key),
            Bound::Unbounded => Vec::new(),
        };
        let end = match range.to {
            Bound::Included(key) => End::Before(successor(key)),
            Bound::Excluded(key) => End::Before(key.to_vec()),
            Bound::Unbounded => End::Never,
        };
        Span { from, end }
    }

    /// Whether no key is in it.
    pub fn is_empty(&self) -> bool {
        !self.end.is_after(&self.from)
    }

    /// As bounds of a range.
    pub fn bounds(&self) -> (Bound<&[u8]>, Bound<&[u8]>) {
        (Bound::Included(&self.from), self.end.bound())
    }
}

/// The smallest key that is larger.
pub fn successor(key: &[u8]) -> Vec<u8> {
    let mut next = Vec::with_capacity(key.len() + 1);
    next.extend_from_slice(key);
    next.push(0);
    next
}
