//! The arithmetic of credits: pure, on plain numbers, with the time given.
//!
//! Every credit that was ever granted is in one of four places, at every moment:
//! available + held + spent + expired = granted.

pub mod calendar;

use crate::{Plan, SubscriptionStatus, UnixMs};
use calendar::{period_at, period_start, start_of};
use serde::{Deserialize, Serialize};

/// The credits of one account.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Balance {
    /// Plan credits that this period brought.
    pub allowance: u64,
    /// Plan credits left to spend in this period.
    pub plan_left: u64,
    /// Plan credits of this period that were spent in it.
    pub plan_spent: u64,
    /// Plan credits of this period that holds have set aside.
    pub plan_held: u64,
    /// Pack credits left to spend; they never expire.
    pub pack_left: u64,
    /// Everything that holds have set aside, of any period and of packs.
    pub held: u64,
    /// Everything ever granted.
    pub granted: u64,
    /// Everything ever spent.
    pub spent: u64,
    /// Everything that expired with a period or by a smaller plan.
    pub expired: u64,
}

/// Where the credits of a hold came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Portions {
    /// Plan credits of period `period`.
    pub plan: u64,
    /// Pack credits.
    pub pack: u64,
    /// The period in which they were set aside.
    pub period: u32,
}

impl Portions {
    /// Nothing, of any period.
    pub const NONE: Portions = Portions { plan: 0, pack: 0, period: 0 };

    /// All of them.
    pub fn credits(&self) -> u64 {
        self.plan + self.pack
    }

    /// Takes `refund` out, pack credits first as they never expire; gives the rest and what was taken.
    pub fn split(self, refund: u64) -> (Portions, Portions) {
        let pack = refund.min(self.pack);
        let plan = (refund - pack).min(self.plan);
        let rest = Portions { plan: self.plan - plan, pack: self.pack - pack, period: self.period };
        (rest, Portions { plan, pack, period: self.period })
    }
}

/// What one step added to the sums of an account: the body of a ledger entry.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PeriodStep {
    /// Credits granted.
    pub granted: u64,
    /// Credits spent.
    pub spent: u64,
    /// Credits expired.
    pub expired: u64,
}

impl Balance {
    /// All credits that can be spent now.
    pub fn available(&self) -> u64 {
        self.plan_left + self.pack_left
    }

    /// Whether the sums agree.
    pub fn is_balanced(&self) -> bool {
        self.available() + self.held + self.spent + self.expired == self.granted
    }
}

/// A clock that goes back no further than this is only set right.
const SKEW_MS: UnixMs = 24 * 60 * 60 * 1000;

/// What decides over an account's credits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Subscription {
    /// Where it stands.
    pub status: SubscriptionStatus,
    /// It ends with the period.
    pub cancel_at_period_end: bool,
    /// Periods are calendar months from here.
    pub start: UnixMs,
    /// The number of the current period.
    pub period: u32,
    /// This period has brought its plan credits.
    pub renewed: bool,
    /// The credits.
    pub balance: Balance,
}

impl Subscription {
    /// A new, active one. Its first period brings the plan's credits.
    pub fn begin(plan: &Plan, now: UnixMs) -> (Subscription, PeriodStep) {
        let mut new = Subscription {
            status: SubscriptionStatus::Active,
            cancel_at_period_end: false,
            start: now,
            period: 0,
            renewed: false,
            balance: Balance::default(),
        };
        let step = new.renew(plan);
        (new, step)
    }

    /// When the current period ends; never on a plan that does not reset.
    pub fn period_end(&self, plan: &Plan) -> Option<UnixMs> {
        plan.resets.then(|| period_start(self.start, self.period + 1))
    }

    /// Brings the period up to `now`; says what that granted and let expire if a period ended. The result depends on
    /// `now` alone, not on how often this was called on the way.
    ///
    /// A period that begins long after `now` is that of a clock which stood ahead. It has brought its credits, and counts from
    /// `now`: the next one would not begin before that clock's time otherwise.
    pub fn roll(&mut self, plan: &Plan, now: UnixMs) -> Option<PeriodStep> {
        if plan.resets && now.saturating_add(SKEW_MS) < period_start(self.start, self.period) {
            self.start = start_of(self.period, now);
            self.period = period_at(self.start, now);
            return Some(PeriodStep::default());
        }
        let current = period_at(self.start, now);
        if !plan.resets || current <= self.period {
            return None;
        }
        let ended = u64::from(current - self.period);
        self.period = current;
        if self.cancel_at_period_end {
            self.status = SubscriptionStatus::Canceled;
        }
        self.cancel_at_period_end = false;
        let mut step = PeriodStep { expired: self.balance.plan_left, ..PeriodStep::default() };
        self.balance.expired += step.expired;
        self.balance = Balance { allowance: 0, plan_left: 0, plan_spent: 0, plan_held: 0, ..self.balance };
        self.renewed = false;
        if self.status.is_usable() {
            // Periods that passed unseen were granted and expired untouched.
            let unseen = (ended - 1) * plan.monthly_credits;
            self.balance.granted += unseen;
            self.balance.expired += unseen;
            let renewal = self.renew(plan);
            step.granted = unseen + renewal.granted;
            step.expired += unseen;
        }
        Some(step)
    }

    /// Goes over to a plan, in the period that [`Subscription::roll`] has brought up to date. What was spent or is
    /// held of this period's plan credits counts against the new plan's.
    pub fn change_plan(&mut self, plan: &Plan) -> PeriodStep {
        // An end that was announced comes at once where no period will ever end.
        self.set_cancel_at_period_end(self.cancel_at_period_end, plan);
        if self.renewed { self.set_allowance(plan.monthly_credits) } else { PeriodStep::default() }
    }

    /// Sets the status. A period that has brought no credits yet brings them once the subscription is usable.
    pub fn change_status(&mut self, status: SubscriptionStatus, plan: &Plan) -> PeriodStep {
        self.status = status;
        if status.is_usable() && !self.renewed { self.renew(plan) } else { PeriodStep::default() }
    }

    /// Says whether it ends with the period; where no period ever ends, it is canceled at once.
    pub fn set_cancel_at_period_end(&mut self, cancel: bool, plan: &Plan) {
        self.cancel_at_period_end = cancel && plan.resets;
        if cancel && !plan.resets {
            self.status = SubscriptionStatus::Canceled;
        }
    }

    /// Sets credits aside, plan credits first; nothing if there are not enough.
    pub fn hold(&mut self, credits: u64) -> Option<Portions> {
        let balance = &mut self.balance;
        if credits > balance.available() {
            return None;
        }
        let plan = credits.min(balance.plan_left);
        let pack = credits - plan;
        balance.plan_left -= plan;
        balance.plan_held += plan;
        balance.pack_left -= pack;
        balance.held += credits;
        Some(Portions { plan, pack, period: self.period })
    }

    /// Spends what was set aside.
    pub fn settle(&mut self, held: Portions) -> PeriodStep {
        let spent = held.plan + held.pack;
        self.balance.held -= spent;
        self.balance.spent += spent;
        if held.period == self.period {
            self.balance.plan_held -= held.plan;
            self.balance.plan_spent += held.plan;
        }
        PeriodStep { spent, ..PeriodStep::default() }
    }

    /// Gives back what was set aside: pack credits always, plan credits if their period goes on and the plan has not
    /// become too small for them meanwhile.
    pub fn void(&mut self, held: Portions) -> PeriodStep {
        let balance = &mut self.balance;
        balance.held -= held.plan + held.pack;
        balance.pack_left += held.pack;
        let mut back = 0;
        if held.period == self.period {
            balance.plan_held -= held.plan;
            let room =
                balance.allowance.saturating_sub(balance.plan_spent + balance.plan_held + balance.plan_left);
            back = held.plan.min(room);
        }
        balance.plan_left += back;
        let expired = held.plan - back;
        balance.expired += expired;
        PeriodStep { expired, ..PeriodStep::default() }
    }

    /// Adds pack credits; `false`, and nothing is changed, where the sum would be too much to count safely.
    pub fn grant(&mut self, credits: u64) -> bool {
        // A quarter of what fits: periods go on granting afterwards.
        if self.balance.granted.saturating_add(credits) > u64::MAX / 4 {
            return false;
        }
        self.balance.pack_left += credits;
        self.balance.granted += credits;
        true
    }

    fn renew(&mut self, plan: &Plan) -> PeriodStep {
        self.renewed = true;
        self.set_allowance(plan.monthly_credits)
    }

    fn set_allowance(&mut self, allowance: u64) -> PeriodStep {
        let balance = &mut self.balance;
        balance.allowance = allowance;
        let left = allowance.saturating_sub(balance.plan_spent + balance.plan_held);
        let granted = left.saturating_sub(balance.plan_left);
        let expired = balance.plan_left.saturating_sub(left);
        balance.plan_left = left;
        balance.granted += granted;
        balance.expired += expired;
        PeriodStep { granted, expired, spent: 0 }
    }
}
