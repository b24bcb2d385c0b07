//! The tables and rows of limits, and of the counters of requests.

use super::key_of;
use crate::row::{Codec, In, Out, row};
use crate::rows::{Table, TypedTable};
use store::rate_limit::{self, Bucket, Overrides, Row as LimitRow, Window, WindowId};
use store::{KeyId, UnixMs};

/// Limits that accounts have instead of their plans', by account.
pub const LIMITS: TypedTable<[u8; 16], Overrides> = TypedTable::new(Table::Limits);
/// Requests of the last minute, by key and row of the table of limits.
pub const WINDOWS: TypedTable<[u8; 17], Window> = TypedTable::new(Table::Windows);
/// How much of its fair use an account has used, by account.
pub const FAIR_USE: TypedTable<[u8; 16], Bucket> = TypedTable::new(Table::FairUse);

/// The number of limits that every row of [`LIMITS`] has.
const LIMITS_OF_FORMAT_6: usize = 7;

/// The key of [`WINDOWS`].
pub fn window_key(id: &WindowId) -> [u8; 17] {
    let row = match id.row {
        LimitRow::Fast => 0,
        LimitRow::Verify => 1,
        LimitRow::Batch => 2,
        LimitRow::Poll => 3,
        LimitRow::Account => 4,
        LimitRow::List => 5,
        LimitRow::FastAccount => 6,
    };
    key_of(&[&id.key.to_bytes(), &[row]])
}

/// The inverse of [`window_key`]; `None` for an unknown row of the table of limits.
pub fn split_window_key(key: &[u8; 17]) -> Option<WindowId> {
    let (id, row) = key.split_first_chunk()?;
    Some(WindowId { key: KeyId::from_bytes(*id), row: *LimitRow::ALL.get(usize::from(*row.first()?))? })
}

row!("windows", Window);

impl Codec for Window {
    fn write(&self, out: &mut Out) {
        out.number(self.steps().len() as u64);
        let mut before = 0;
        for step in self.steps() {
            out.number(step.last - before);
            out.number(step.last - step.began);
            out.number(u64::from(step.count));
            before = step.last;
        }
    }

    fn read(input: &mut In<'_>) -> Option<Window> {
        let mut before: UnixMs = 0;
        let mut steps = Vec::new();
        for _ in 0..input.number()? {
            let last = before.checked_add(input.number()?)?;
            let began = last.checked_sub(input.number()?)?;
            steps.push(rate_limit::Step { began, last, count: Codec::read(input)? });
            before = last;
        }
        Window::from_steps(steps)
    }
}

row!("fair_use", Bucket { level, at });

row!("limits", Overrides);

impl Codec for Overrides {
    /// 0 stands for the plan's limit, since no limit is 0. Limits that came later are left out at the end if they are the plan's:
    /// that for lists as in format 6, and that for the fast checks of an account as in format 9.
    fn write(&self, out: &mut Out) {
        let all = self.each();
        let last = all.iter().rposition(|(_, own)| own.is_some()).unwrap_or(0);
        for (_, own) in &all[..=last.max(LIMITS_OF_FORMAT_6 - 1)] {
            out.number(u64::from(own.unwrap_or(0)));
        }
    }

    fn read(input: &mut In<'_>) -> Option<Overrides> {
        let mut overrides = Overrides::default();
        for (name, own) in overrides.each_mut() {
            if input.is_empty()
                && [LimitRow::List, LimitRow::FastAccount].iter().any(|row| row.as_str() == name)
            {
                break;
            }
            *own = Some(Codec::read(input)?).filter(|&limit| limit != 0);
        }
        Some(overrides)
    }
}
