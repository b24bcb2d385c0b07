//! The budget of refused recipients: how many a site may refuse us in an hour before we ask it no more.
//!
//! A client that asks about one unknown recipient after the other looks like a directory harvest, and servers count them:
//! Cisco's default is 25 invalid recipients an hour and client. The counts of a site and source are kept in steps of five
//! minutes of wall-clock time, so that they survive a restart. A step counts until it is a whole hour old; so no rolling
//! hour ever has more refusals than the budget. Recipients that are being asked about may all be refused, and are
//! counted as if they were until their answers come.

use crate::limits::{REFUSALS_ACCEPTS_SHARE, REFUSALS_LEAST, REFUSALS_STEP, REFUSALS_STEPS};
use std::collections::VecDeque;
use std::time::Duration;

/// How many recipients a site may refuse in an hour.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RefusalBudget {
    /// Recipients in an hour while the site refuses more recipients than it accepts.
    pub mostly_refused: u32,
    /// Recipients in an hour while the site accepts more than it refuses; or a quarter of the accepts of that hour, if that is more. A value
    /// not above `mostly_refused` means that accepts make no room.
    pub mostly_accepted: u32,
}

impl RefusalBudget {
    /// No budget: any number of recipients may be refused.
    pub const UNLIMITED: RefusalBudget =
        RefusalBudget { mostly_refused: u32::MAX, mostly_accepted: u32::MAX };

    /// Whether nothing needs to be counted.
    pub fn is_unlimited(&self) -> bool {
        self.mostly_refused == u32::MAX
    }

    /// Whether accepts make no room: the site counts refusals alone.
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

    /// The part of one of `nodes` that ask from the same address. It is never so small that the site cannot be asked at all.
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

    /// The smaller of two budgets.
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
    /// Recipients that were refused, control recipients among them.
    pub refused: u32,
    /// Number of recipients that were accepted in the step.
    pub accepted: u32,
}

/// The counts of one site and source as they are kept over a restart. No name and no address is among them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeptRefusals {
    /// A keyed hash of the site and the source.
    pub key: u64,
    /// At most [`REFUSALS_STEPS`], the oldest first.
    pub steps: Vec<KeptStep>,
}

/// The counts of one site and source.
#[derive(Debug, Clone, Default)]
pub struct RefusalCounts {
    steps: VecDeque<KeptStep>,
    /// Recipients that are being asked about.
    asked: u32,
}

impl RefusalCounts {
    /// The counts of an earlier run; what no longer counts at `now`, or lies in the future, is left out.
    pub fn restore(mut steps: Vec<KeptStep>, now: u64) -> RefusalCounts {
        steps.retain(|kept| counts(kept.step, now));
        steps.sort_by_key(|kept| kept.step);
        steps.dedup_by(|later, earlier| {
            let same = later.step == earlier.step;
            if same {
                earlier.refused = earlier.refused.saturating_add(later.refused);
                earlier.accepted = earlier.accepted.saturating_add(later.accepted);
            }
            same
        });
        RefusalCounts { steps: steps.into(), asked: 0 }
    }

    /// The counts that are to be kept.
    pub fn kept(&self, now: u64) -> Vec<KeptStep> {
        self.steps.iter().filter(|kept| counts(kept.step, now)).copied().collect()
    }

    /// Whether nothing counts any more and nothing is being asked.
    pub fn is_empty(&self, now: u64) -> bool {
        self.asked == 0 && !self.steps.iter().any(|kept| counts(kept.step, now))
    }

    /// Refusals and accepts of the last hour.
    pub fn totals(&self, now: u64) -> (u32, u32) {
        let counted = self.steps.iter().filter(|kept| counts(kept.step, now));
        counted.fold((0, 0), |(refused, accepted), kept| {
            (u32::saturating_add(refused, kept.refused), u32::saturating_add(accepted, kept.accepted))
        })
    }

    /// How many recipients may be asked about at `now`, going by the budget.
    pub fn left(&self, budget: RefusalBudget, now: u64) -> u32 {
        if budget.is_unlimited() {
            return u32::MAX;
        }
        let (refused, accepted) = self.totals(now);
        // All recipients under way may be refused.
        let used = refused.saturating_add(self.asked);
        let share = if budget.is_fixed() { 0 } else { accepted / REFUSALS_ACCEPTS_SHARE };
        let mostly_accepted = budget.mostly_accepted.max(share).min(accepted);
        budget.mostly_refused.max(mostly_accepted).saturating_sub(used)
    }

    /// Whether recipients are being asked about: their answers may make room.
    pub fn awaits_answers(&self) -> bool {
        self.asked > 0
    }

    /// This number of recipients are under way.
    pub fn on_asked(&mut self, recipients: u32) {
        self.asked = self.asked.saturating_add(recipients);
    }

    /// This number of recipients under way got no answer.
    pub fn on_unanswered(&mut self, recipients: u32) {
        self.asked = self.asked.saturating_sub(recipients);
    }

    /// One that was being asked about was answered at `now`.
    pub fn on_answer(&mut self, accepted: bool, now: u64) {
        self.asked = self.asked.saturating_sub(1);
        let step = self.step(now);
        let count = if accepted { &mut step.accepted } else { &mut step.refused };
        *count = count.saturating_add(1);
    }

    /// How long it takes until the oldest refusals no longer count, from `into_step` of the step `now`.
    pub fn wait(&self, now: u64, into_step: Duration) -> Duration {
        let oldest = self.steps.iter().find(|kept| counts(kept.step, now) && kept.refused > 0);
        let steps = oldest.map_or(1, |kept| kept.step + REFUSALS_STEPS as u64 - now);
        let steps = u32::try_from(steps).unwrap_or(u32::MAX);
        REFUSALS_STEP.saturating_mul(steps).saturating_sub(into_step).max(Duration::from_secs(1))
    }

    fn step(&mut self, now: u64) -> &mut KeptStep {
        // A clock that goes back counts into the newest step.
        if self.steps.back().is_none_or(|newest| newest.step < now) {
            self.steps.push_back(KeptStep { step: now, refused: 0, accepted: 0 });
            while self.steps.front().is_some_and(|oldest| !counts(oldest.step, now)) {
                self.steps.pop_front();
            }
        }
        let newest = self.steps.len() - 1;
        &mut self.steps[newest]
    }
}

/// The number of the step at `since_epoch`, and the time since its beginning.
pub fn step_at(since_epoch: Duration) -> (u64, Duration) {
    let step = since_epoch.as_secs() / REFUSALS_STEP.as_secs();
    (step, since_epoch.saturating_sub(Duration::from_secs(step * REFUSALS_STEP.as_secs())))
}

/// Whether none of these steps counts at `now` or later. A step that lies in the future may still count.
pub fn are_over(steps: &[KeptStep], now: u64) -> bool {
    steps.iter().all(|kept| kept.step.saturating_add(REFUSALS_STEPS as u64) <= now)
}

/// Whether a step still counts at `now`. The newest ones may be a little ahead: clocks are set.
fn counts(step: u64, now: u64) -> bool {
    step <= now + 1 && step + REFUSALS_STEPS as u64 > now
}

#[cfg(test)]
mod tests {
    use super::*;

    const UNKNOWN: RefusalBudget = RefusalBudget { mostly_refused: 100, mostly_accepted: 600 };

    /// Asks and has answered: refusals and accepts in the step.
    fn play(counts: &mut RefusalCounts, step: u64, refused: u32, accepted: u32) {
        counts.on_asked(refused + accepted);
        (0..refused).for_each(|_| counts.on_answer(false, step));
        (0..accepted).for_each(|_| counts.on_answer(true, step));
    }

    #[test]
    fn the_budget_follows_what_outweighs() {
        for (refused, accepted, left) in [
            (0, 0, 100),
            (1, 0, 99),
            (100, 0, 0),
            (100, 99, 0),
            (100, 100, 0),
            (100, 130, 30),
            (100, 2000, 500),
            (600, 600, 0),
            (600, 2400, 0),
            (600, 4000, 400),
            (1000, 4000, 0),
            (u32::MAX, 1, 0),
        ] {
            let mut counts = RefusalCounts::default();
            counts.steps.push_back(KeptStep { step: 7, refused, accepted });
            assert_eq!(counts.left(UNKNOWN, 7), left, "{refused} refused, {accepted} accepted");
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
        let mut counts = RefusalCounts::default();
        play(&mut counts, 7, 25, 4000);
        assert_eq!(counts.left(RefusalBudget { mostly_refused: 25, mostly_accepted: 25 }, 7), 0);
    }

    #[test]
    fn whoever_is_asked_about_may_be_refused() {
        let mut counts = RefusalCounts::default();
        counts.on_asked(60);
        assert_eq!(counts.left(UNKNOWN, 1), 40, "all of them may be refused");
        (0..60).for_each(|_| counts.on_answer(true, 1));
        assert_eq!(counts.left(UNKNOWN, 1), 100, "none was");
        counts.on_asked(50);
        counts.on_unanswered(50);
        assert!(!counts.awaits_answers());
    }

    #[test]
    fn no_rolling_hour_has_more_refusals_than_the_budget() {
        let mut counts = RefusalCounts::default();
        play(&mut counts, 10, 60, 0);
        play(&mut counts, 15, 40, 0);
        for now in 15..=22 {
            assert_eq!(counts.left(UNKNOWN, now), 0, "step {now}");
        }
        assert_eq!(counts.left(UNKNOWN, 23), 60, "a whole hour after the end of step 10");
        assert_eq!(counts.left(UNKNOWN, 28), 100, "all are over");
        assert!(counts.is_empty(28));
    }

    #[test]
    fn the_wait_ends_when_the_oldest_refusals_are_over() {
        let mut counts = RefusalCounts::default();
        play(&mut counts, 10, 100, 0);
        let minute = Duration::from_secs(60);
        assert_eq!(counts.wait(10, minute), Duration::from_secs(13 * 300 - 60));
        assert_eq!(counts.wait(22, minute), Duration::from_secs(240));
        assert_eq!(RefusalCounts::default().wait(3, Duration::ZERO), REFUSALS_STEP);
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
    fn counts_come_back_after_a_restart() {
        let mut counts = RefusalCounts::default();
        play(&mut counts, 10, 3, 1);
        play(&mut counts, 12, 70, 2);
        let kept = counts.kept(12);
        assert_eq!(RefusalCounts::restore(kept.clone(), 12).totals(12), (73, 3));
        assert_eq!(RefusalCounts::restore(kept.clone(), 23).totals(23), (70, 2));
        assert!(RefusalCounts::restore(kept, 25).is_empty(25));
        let twice = vec![KeptStep { step: 5, refused: 1, accepted: 0 }; 3];
        assert_eq!(RefusalCounts::restore(twice, 5).totals(5), (3, 0));
        let future = vec![KeptStep { step: 900, refused: 1, accepted: 0 }];
        assert!(RefusalCounts::restore(future, 5).is_empty(5), "a clock stood wrong");
    }

    #[test]
    fn steps_are_bounded_and_a_clock_may_go_back() {
        let mut counts = RefusalCounts::default();
        for step in 0..500 {
            play(&mut counts, step, 1, 1);
        }
        assert!(counts.steps.len() <= REFUSALS_STEPS);
        play(&mut counts, 300, 1, 0);
        assert_eq!(counts.totals(499).0, REFUSALS_STEPS as u32 + 1);
        assert_eq!(step_at(Duration::from_secs(601)), (2, Duration::from_secs(1)));
    }
}
