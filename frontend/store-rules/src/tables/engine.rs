//! The tables of the engine's knowledge, which survives the process.

use crate::row::{Fixed, In, Out, Row};
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

impl Row for RefusalsRow {
    const TABLE: &'static str = "refusals";

    fn write(&self, out: &mut Out) {
        out.number(self.0.len() as u64);
        for KeptStep { step, refused, accepted } in &self.0 {
            out.number(*step);
            out.number(u64::from(*refused));
            out.number(u64::from(*accepted));
        }
    }

    fn read(input: &mut In<'_>) -> Option<RefusalsRow> {
        let count = input.number().filter(|&count| count <= REFUSALS_STEPS as u64)?;
        let mut step =
            || Some(KeptStep { step: input.number()?, refused: input.small()?, accepted: input.small()? });
        (0..count).map(|_| step()).collect::<Option<_>>().map(RefusalsRow)
    }
}

/// The 32 bytes that represent evidence in [`EXPIRIES`](super::EXPIRIES).
pub fn withdrawn_row(evidence: u64) -> [u8; 32] {
    let mut row = [0; 32];
    row[..8].copy_from_slice(&evidence.to_be_bytes());
    row
}

/// The inverse of [`withdrawn_row`].
pub fn evidence_of_row(row: &[u8; 32]) -> u64 {
    let mut evidence = [0; 8];
    evidence.copy_from_slice(&row[..8]);
    u64::from_be_bytes(evidence)
}

/// The time after which no result can depend on evidence that was withdrawn at `at`.
pub fn withdrawn_until(at: UnixMs) -> UnixMs {
    at.saturating_add(RETENTION_MS)
}
