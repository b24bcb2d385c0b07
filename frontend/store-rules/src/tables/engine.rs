//! The tables of the engine's knowledge, which survives the process.

use super::{key_of, part_of};
use crate::row::{Codec, Fixed, In, Out, fields, row};
use crate::rows::{Table, TypedTable};
use engine::KeptStep;
use engine::proto::limits::REFUSALS_STEPS;
use store::{RETENTION_MS, UnixMs};

/// The numbers of recipients that a site refused and accepted, by the keyed hash of the site and of our source.
pub const REFUSALS: TypedTable<[u8; 8], RefusalsRow> = TypedTable::new(Table::Refusals);
/// The times of withdrawal, by evidence.
pub const WITHDRAWN: TypedTable<[u8; 8], Fixed> = TypedTable::new(Table::Withdrawn);

/// The name in [`META`](super::META) of the time until which all evidence counts as withdrawn.
pub const META_WITHDRAWN: &str = "withdrawn";

/// A value of [`REFUSALS`]: the steps, oldest first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RefusalsRow(pub Vec<KeptStep>);

fields!(KeptStep { step, refused, accepted });

impl Codec for RefusalsRow {
    fn write(&self, out: &mut Out) {
        self.0.write(out);
    }

    fn read(input: &mut In<'_>) -> Option<RefusalsRow> {
        Vec::read(input).filter(|steps| steps.len() <= REFUSALS_STEPS).map(RefusalsRow)
    }
}

row!("refusals", RefusalsRow);

/// The 32 bytes that represent evidence in [`EXPIRIES`](super::EXPIRIES).
pub fn withdrawn_row(evidence: u64) -> [u8; 32] {
    key_of(&[&evidence.to_be_bytes(), &[0; 24]])
}

/// The inverse of [`withdrawn_row`].
pub fn evidence_of_row(row: &[u8; 32]) -> u64 {
    u64::from_be_bytes(part_of(row, 0))
}

/// The time after which no result can depend on evidence that was withdrawn at `at`.
pub fn withdrawn_until(at: UnixMs) -> UnixMs {
    at.saturating_add(RETENTION_MS)
}
