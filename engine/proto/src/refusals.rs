//! The budget of refused recipients: how many recipients a site may refuse in an hour before mailprobe stops asking it.
//!
//! A client that asks about one unknown recipient after another appears to be collecting addresses, so servers count such
//! recipients: Cisco's default allows each client 25 of them in an hour. For each site and source (an IP address of ours or a
//! proxy), recipients are counted in steps of five minutes of wall-clock time, so the counts survive a restart. A step counts until
//! an hour after its end, so no period of an hour has more refusals than the budget. The server may refuse all recipients under
//! way, so they count as refused until their answers come.

use crate::limits::{REFUSALS_ACCEPTS_SHARE, REFUSALS_CELLS, REFUSALS_LEAST, REFUSALS_STEP, REFUSALS_STEPS};
use std::cmp::Ordering;
use std::time::Duration;

/// How many recipients a site may refuse in an hour.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RefusalBudget {
    /// The budget while the site refuses more recipients than it accepts.
    pub mostly_refused: u32,
    /// The budget while the site accepts more recipients than it refuses, or a quarter of the recipients accepted in the hour if
    /// that is more. Either way, the budget is at most the number of accepted recipients, but at least `mostly_refused`. If this
    /// value is not above `mostly_refused`, accepts never enlarge the budget.
    pub mostly_accepted: u32,
}

impl RefusalBudget {
    /// No budget: any number of recipients may be refused.
    pub const UNLIMITED: RefusalBudget =
        RefusalBudget { mostly_refused: u32::MAX, mostly_accepted: u32::MAX };

    /// Whether there is no budget, so that nothing needs to be counted.
    pub fn is_unlimited(&self) -> bool {
        self.mostly_refused == u32::MAX
    }

    /// Whether accepts never enlarge the budget, because the site counts only refusals.
    pub fn is_fixed(&self) -> bool {
        self.mostly_accepted <= self.mostly_refused
    }

    /// The budget multiplied by a number.
    pub fn times(self, times: u32) -> RefusalBudget {
        RefusalBudget {
            mostly_refused: self.mostly_refused.saturating_mul(times),
            mostly_accepted: self.mostly_accepted.saturating_mul(times),
        }
    }

    /// The part of the budget for each node if `nodes` nodes ask from the same address. The part allows at least one recipient and
    /// the proof of its answer, if the whole budget does.
    pub fn divided(self, nodes: u32) -> RefusalBudget {
        if nodes <= 1 || self.is_unlimited() {
            return self;
        }
        let part = |whole: u32| (whole / nodes).max(REFUSALS_LEAST.min(whole));
        RefusalBudget {
            mostly_refused: part(self.mostly_refused),
            mostly_accepted: part(self.mostly_accepted),
        }
    }

    /// The lower budget: each of its two values is the lower of the corresponding values of the two budgets.
    pub fn min(self, other: RefusalBudget) -> RefusalBudget {
        RefusalBudget {
            mostly_refused: self.mostly_refused.min(other.mostly_refused),
            mostly_accepted: self.mostly_accepted.min(other.mostly_accepted),
        }
    }
}

/// The answers of a site to one source within one step of [`REFUSALS_STEP`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KeptStep {
    /// The number of the step since the Unix epoch.
    pub step: u64,
    /// Number of recipients that were refused in the step, including control recipients.
    pub refused: u32,
    /// Number of recipients that were accepted in the step.
    pub accepted: u32,
}

/// The counts of one site and source as they are kept across a restart, without any name or address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeptRefusals {
    /// A keyed hash of the site and the source.
    pub key: u64,
    /// The steps that count, the oldest first: at most [`REFUSALS_STEPS`].
    pub steps: Vec<KeptStep>,
}

/// A [`KeptStep`] in one number. Threads and processes change it by a single atomic operation, so the number remains valid if a
/// process is killed at any moment.
///
/// From the highest bit down, the number has the step (24 bits, enough until the year 2129), the refused recipients and the
/// accepted recipients (20 bits each). Zero means an empty cell.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct StepCell(pub u64);

/// Number of bits of each of the two counts in a [`StepCell`].
const COUNT_BITS: u32 = 20;
const COUNT_MASK: u64 = (1 << COUNT_BITS) - 1;
const STEP_MASK: u64 = (1 << (64 - 2 * COUNT_BITS)) - 1;

impl StepCell {
    /// The index of the cell of a step among the [`REFUSALS_CELLS`] of a site and source.
    pub fn place(step: u64) -> usize {
        (step % REFUSALS_CELLS as u64) as usize
    }

    /// The cell after these further answers in this step. If the cell has the counts of another step, they no longer matter and are
    /// dropped.
    #[must_use]
    pub fn counted(self, step: u64, refused: u32, accepted: u32) -> StepCell {
        let now = if self.step() == step.min(STEP_MASK) { self } else { StepCell::default() };
        StepCell::new(step, now.refused() + u64::from(refused), now.accepted() + u64::from(accepted))
    }

    /// The cell with each count raised to that of `kept`, if that is higher. If the steps differ, only the later one remains.
    #[must_use]
    pub fn at_least(self, kept: KeptStep) -> StepCell {
        match self.step().cmp(&kept.step.min(STEP_MASK)) {
            Ordering::Greater => self,
            Ordering::Less => StepCell::new(kept.step, kept.refused.into(), kept.accepted.into()),
            Ordering::Equal => StepCell::new(
                kept.step,
                self.refused().max(kept.refused.into()),
                self.accepted().max(kept.accepted.into()),
            ),
        }
    }

    /// The counts of the cell; `None` if it has none, or if its step does not count at `now`.
    pub fn kept(self, now: u64) -> Option<KeptStep> {
        let kept =
            KeptStep { step: self.step(), refused: self.refused() as u32, accepted: self.accepted() as u32 };
        (kept.refused + kept.accepted > 0 && counts(kept.step, now)).then_some(kept)
    }

    fn new(step: u64, refused: u64, accepted: u64) -> StepCell {
        let counts = refused.min(COUNT_MASK) << COUNT_BITS | accepted.min(COUNT_MASK);
        StepCell(step.min(STEP_MASK) << (2 * COUNT_BITS) | counts)
    }

    fn step(self) -> u64 {
        self.0 >> (2 * COUNT_BITS)
    }

    fn refused(self) -> u64 {
        self.0 >> COUNT_BITS & COUNT_MASK
    }

    fn accepted(self) -> u64 {
        self.0 & COUNT_MASK
    }
}

/// The counts of one site and source at one moment, over all processes that share them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RefusalCounts {
    /// Refused recipients of the last hour.
    pub refused: u32,
    /// Accepted recipients of the last hour.
    pub accepted: u32,
    /// Recipients under way: their answers are awaited.
    pub asked: u32,
    /// The oldest step that counts and has refusals.
    pub oldest: Option<u64>,
}

impl RefusalCounts {
    /// Adds up the cells that count at `now`. `asked` is the number of recipients under way.
    pub fn of(cells: impl IntoIterator<Item = StepCell>, asked: u32, now: u64) -> RefusalCounts {
        let mut all = RefusalCounts { refused: 0, accepted: 0, asked, oldest: None };
        for cell in cells {
            if cell == StepCell::default() || !counts(cell.step(), now) {
                continue;
            }
            // The counts of a cell have 20 bits, so the sum of all cells fits.
            all.refused += cell.refused() as u32;
            all.accepted += cell.accepted() as u32;
            if cell.refused() > 0 {
                all.oldest = Some(all.oldest.map_or(cell.step(), |oldest| oldest.min(cell.step())));
            }
        }
        all
    }

    /// Whether no answer counts and no recipient is under way.
    pub fn is_empty(&self) -> bool {
        self.asked == 0 && self.refused == 0 && self.accepted == 0
    }

    /// How many further recipients the budget allows.
    pub fn left(&self, budget: RefusalBudget) -> u32 {
        self.allowed(budget).saturating_sub(self.used())
    }

    /// By how many recipients the budget is exceeded, if those under way count as refused.
    pub fn excess(&self, budget: RefusalBudget) -> u32 {
        self.used().saturating_sub(self.allowed(budget))
    }

    /// How many recipients count against the budget. Those under way may all be refused.
    fn used(&self) -> u32 {
        self.refused.saturating_add(self.asked)
    }

    fn allowed(&self, budget: RefusalBudget) -> u32 {
        if budget.is_unlimited() {
            return u32::MAX;
        }
        let share = if budget.is_fixed() { 0 } else { self.accepted / REFUSALS_ACCEPTS_SHARE };
        let mostly_accepted = budget.mostly_accepted.max(share).min(self.accepted);
        budget.mostly_refused.max(mostly_accepted)
    }

    /// How long it takes until the oldest refusals no longer count (without refusals, until the step ends), but at least a second.
    /// The present time is `into_step` after the beginning of the step `now`.
    pub fn wait(&self, now: u64, into_step: Duration) -> Duration {
        let steps = self.oldest.map_or(1, |oldest| oldest + REFUSALS_STEPS as u64 - now);
        let steps = u32::try_from(steps).unwrap_or(u32::MAX);
        REFUSALS_STEP.saturating_mul(steps).saturating_sub(into_step).max(Duration::from_secs(1))
    }
}

/// The number of the step at `since_epoch`, and the time since its beginning.
pub fn step_at(since_epoch: Duration) -> (u64, Duration) {
    let step = since_epoch.as_secs() / REFUSALS_STEP.as_secs();
    (step, since_epoch.saturating_sub(Duration::from_secs(step * REFUSALS_STEP.as_secs())))
}

/// Whether none of these steps counts at `now` or later. A step in the future may still come to count.
pub fn are_over(steps: &[KeptStep], now: u64) -> bool {
    steps.iter().all(|kept| kept.step.saturating_add(REFUSALS_STEPS as u64) <= now)
}

/// Whether a step counts at `now`. The step may be one ahead, because clocks differ and may be adjusted.
fn counts(step: u64, now: u64) -> bool {
    step <= now + 1 && step + REFUSALS_STEPS as u64 > now
}

#[cfg(test)]
mod tests {
    use super::*;

    const UNKNOWN: RefusalBudget = RefusalBudget { mostly_refused: 100, mostly_accepted: 600 };

    /// The cells of a site and source.
    #[derive(Default)]
    struct Cells([StepCell; REFUSALS_CELLS]);

    impl Cells {
        fn count(&mut self, step: u64, refused: u32, accepted: u32) {
            let cell = &mut self.0[StepCell::place(step)];
            *cell = cell.counted(step, refused, accepted);
        }

        fn at(&self, now: u64) -> RefusalCounts {
            RefusalCounts::of(self.0, 0, now)
        }

        fn totals(&self, now: u64) -> (u32, u32) {
            (self.at(now).refused, self.at(now).accepted)
        }
    }

    #[test]
    fn the_budget_follows_what_outweighs() {
        for (refused, accepted, asked, left, excess) in [
            (0, 0, 0, 100, 0),
            (1, 0, 0, 99, 0),
            (100, 0, 0, 0, 0),
            (100, 99, 0, 0, 0),
            (100, 100, 0, 0, 0),
            (100, 130, 0, 30, 0),
            (100, 2000, 0, 500, 0),
            (600, 600, 0, 0, 0),
            (600, 2400, 0, 0, 0),
            (600, 4000, 0, 400, 0),
            (1000, 4000, 0, 0, 0),
            (u32::MAX, 1, 0, 0, u32::MAX - 100),
            // All recipients under way may be refused.
            (0, 0, 60, 40, 0),
            (60, 0, 40, 0, 0),
            (60, 0, 47, 0, 7),
            (0, 60, 0, 100, 0),
        ] {
            let counts = RefusalCounts { refused, accepted, asked, oldest: None };
            assert_eq!((counts.left(UNKNOWN), counts.excess(UNKNOWN)), (left, excess), "{counts:?}");
            assert_eq!(counts.left(RefusalBudget::UNLIMITED), u32::MAX - refused.saturating_add(asked));
        }
    }

    #[test]
    fn nodes_at_one_address_divide_a_budget() {
        let cisco = RefusalBudget { mostly_refused: 25, mostly_accepted: 25 };
        for (budget, nodes, refused, accepted) in [
            (UNKNOWN, 0, 100, 600),
            (UNKNOWN, 1, 100, 600),
            (UNKNOWN, 3, 33, 200),
            (UNKNOWN, 1000, 3, 3),
            (cisco, 3, 8, 8),
            (cisco, u32::MAX, 3, 3),
            (RefusalBudget { mostly_refused: 2, mostly_accepted: 0 }, 5, 2, 0),
            (RefusalBudget::UNLIMITED, 5, u32::MAX, u32::MAX),
        ] {
            let expected = RefusalBudget { mostly_refused: refused, mostly_accepted: accepted };
            assert_eq!(budget.divided(nodes), expected, "{budget:?} among {nodes}");
        }
        assert!(cisco.divided(4).is_fixed(), "accepts still make no room");
    }

    #[test]
    fn a_site_that_counts_refusals_alone_has_a_fixed_budget() {
        let counts = RefusalCounts { refused: 25, accepted: 4000, asked: 0, oldest: Some(7) };
        assert_eq!(counts.left(RefusalBudget { mostly_refused: 25, mostly_accepted: 25 }), 0);
    }

    #[test]
    fn no_rolling_hour_has_more_refusals_than_the_budget() {
        let mut cells = Cells::default();
        cells.count(10, 60, 0);
        cells.count(15, 40, 0);
        for now in 15..=22 {
            assert_eq!(cells.at(now).left(UNKNOWN), 0, "step {now}");
        }
        assert_eq!(cells.at(23).left(UNKNOWN), 60, "a whole hour after the end of step 10");
        assert_eq!(cells.at(28).left(UNKNOWN), 100, "all are over");
        assert!(cells.at(28).is_empty());
    }

    #[test]
    fn the_wait_ends_when_the_oldest_refusals_are_over() {
        let mut cells = Cells::default();
        cells.count(9, 0, 7);
        cells.count(10, 100, 0);
        cells.count(12, 1, 0);
        let minute = Duration::from_secs(60);
        assert_eq!(cells.at(12).wait(12, minute), Duration::from_secs(11 * 300 - 60));
        assert_eq!(cells.at(22).wait(22, minute), Duration::from_secs(240));
        assert_eq!(Cells::default().at(3).wait(3, Duration::ZERO), REFUSALS_STEP);
    }

    #[test]
    fn steps_are_over_after_a_whole_hour_and_never_before_they_begin() {
        let at = |steps: &[u64]| -> Vec<KeptStep> {
            steps.iter().map(|&step| KeptStep { step, refused: 1, accepted: 0 }).collect()
        };
        for (steps, now, expected) in [
            (&[][..], 0, true),
            (&[10], 22, false),
            (&[10], 23, true),
            (&[10, 12], 23, false),
            (&[900], 23, false),
            (&[u64::MAX], u64::MAX - 1, false),
        ] {
            assert_eq!(are_over(&at(steps), now), expected, "{steps:?} at {now}");
        }
    }

    #[test]
    fn a_cell_counts_one_step() {
        let (empty, max) = (StepCell::default(), COUNT_MASK as u32);
        for (before, step, refused, accepted, expected) in [
            (empty, 7, 3, 1, Some((7, 3, 1))),
            (StepCell::new(7, 3, 1), 7, 1, 2, Some((7, 4, 3))),
            // The cell of a step that is over is used again for a later step.
            (StepCell::new(7, 3, 1), 7 + REFUSALS_CELLS as u64, 1, 0, Some((22, 1, 0))),
            (StepCell::new(7, COUNT_MASK - 1, COUNT_MASK), 7, 5, 5, Some((7, max, max))),
            (empty, 7, u32::MAX, 0, Some((7, max, 0))),
            (empty, 7, 0, 0, None),
            (StepCell(u64::MAX), STEP_MASK, 1, 1, Some((STEP_MASK, max, max))),
        ] {
            let kept = expected.map(|(step, refused, accepted)| KeptStep { step, refused, accepted });
            assert_eq!(before.counted(step, refused, accepted).kept(step), kept, "{before:?} at {step}");
        }
    }

    #[test]
    fn two_records_of_one_step_are_merged_by_their_maximum() {
        for (before, (step, refused, accepted), expected) in [
            (StepCell::default(), (7, 3, 1), StepCell::new(7, 3, 1)),
            (StepCell::new(7, 5, 0), (7, 3, 1), StepCell::new(7, 5, 1)),
            (StepCell::new(22, 5, 0), (7, 9, 9), StepCell::new(22, 5, 0)),
            (StepCell::new(7, 9, 9), (22, 1, 0), StepCell::new(22, 1, 0)),
            (StepCell::default(), (7, u32::MAX, u32::MAX), StepCell::new(7, COUNT_MASK, COUNT_MASK)),
        ] {
            assert_eq!(before.at_least(KeptStep { step, refused, accepted }), expected, "{before:?}");
        }
    }

    #[test]
    fn counts_come_back_after_a_restart() {
        let mut cells = Cells::default();
        cells.count(10, 3, 1);
        cells.count(12, 70, 2);
        let kept = |now| -> Vec<KeptStep> { cells.0.iter().filter_map(|cell| cell.kept(now)).collect() };
        let restored = |now| {
            let mut again = Cells::default();
            for kept in kept(now) {
                let cell = &mut again.0[StepCell::place(kept.step)];
                *cell = cell.at_least(kept);
            }
            again
        };
        assert_eq!(restored(12).totals(12), (73, 3));
        assert_eq!(restored(23).totals(23), (70, 2));
        assert!(restored(25).at(25).is_empty());
        let mut future = Cells::default();
        future.count(900, 1, 0);
        assert!(future.at(5).is_empty() && future.0[0].kept(5).is_none(), "a clock was wrong");
    }

    #[test]
    fn any_contents_of_the_cells_are_bounded() {
        for bits in [u64::MAX, 1, COUNT_MASK, u64::MAX << (2 * COUNT_BITS)] {
            for now in [0, 7, STEP_MASK] {
                let counts = RefusalCounts::of([StepCell(bits); REFUSALS_CELLS], u32::MAX, now);
                assert_eq!(counts.left(UNKNOWN), 0, "{bits:x} at {now}");
                let _ = counts.wait(now, Duration::ZERO);
            }
        }
    }

    #[test]
    fn every_step_that_may_count_has_a_cell_of_its_own() {
        let mut cells = Cells::default();
        for step in 0..500 {
            cells.count(step, 1, 1);
        }
        assert_eq!(cells.totals(499), (REFUSALS_STEPS as u32, REFUSALS_STEPS as u32));
        // The clock of another thread may be a step ahead or behind.
        assert_eq!(cells.totals(498), (REFUSALS_STEPS as u32 + 1, REFUSALS_STEPS as u32 + 1));
        assert_eq!(step_at(Duration::from_secs(601)), (2, Duration::from_secs(1)));
    }
}
