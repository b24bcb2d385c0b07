//! The arithmetic of credits. It is pure: plain numbers, with the time as an argument.
//!
//! Every granted credit is in one of four states at any time: available + held + spent + expired = granted.

pub mod calendar;

use crate::{Plan, SubscriptionStatus, UnixMs};
use calendar::{period_at, period_start, start_of};
use serde::{Deserialize, Serialize};

/// The sums of credits of one account.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Balance {
    /// Plan credits that this period granted.
    pub allowance: u64,
    /// Plan credits that can still be spent in this period.
    pub plan_left: u64,
    /// Plan credits of this period that were spent in this period.
    pub plan_spent: u64,
    /// Plan credits of this period that are held.
    pub plan_held: u64,
    /// Pack credits that can still be spent; they never expire.
    pub pack_left: u64,
    /// All held credits, of packs and of any period.
    pub held: u64,
    /// All credits that were ever granted.
    pub granted: u64,
    /// All credits that were ever spent.
    pub spent: u64,
    /// All credits that expired with a period, or because of a smaller plan.
    pub expired: u64,
}

/// The sources of the credits of a hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Portions {
    /// Plan credits of period `period`.
    pub plan: u64,
    /// Pack credits.
    pub pack: u64,
    /// The number of the period in which they were held.
    pub period: u32,
}

impl Portions {
    /// No credits, of no period.
    pub const NONE: Portions = Portions { plan: 0, pack: 0, period: 0 };

    /// The sum of plan and pack credits.
    pub fn credits(&self) -> u64 {
        self.plan + self.pack
    }

    /// Splits `refund` credits off, pack credits first because they never expire. Returns the remaining portions and
    /// the split ones.
    pub fn split(self, refund: u64) -> (Portions, Portions) {
        let pack = refund.min(self.pack);
        let plan = (refund - pack).min(self.plan);
        let rest = Portions { plan: self.plan - plan, pack: self.pack - pack, period: self.period };
        (rest, Portions { plan, pack, period: self.period })
    }
}

/// The changes of an account's sums by one step, which become a ledger entry.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PeriodStep {
    /// Credits granted by the step.
    pub granted: u64,
    /// Credits spent by the step.
    pub spent: u64,
    /// Credits that expired by the step.
    pub expired: u64,
}

impl Balance {
    /// The credits that can be spent now.
    pub fn available(&self) -> u64 {
        self.plan_left + self.pack_left
    }

    /// Whether available, held, spent and expired credits add up to the granted ones.
    pub fn is_balanced(&self) -> bool {
        self.available() + self.held + self.spent + self.expired == self.granted
    }
}

/// A clock that goes back by at most this was only adjusted.
const SKEW_MS: UnixMs = 24 * 60 * 60 * 1000;

/// The data that determines an account's credits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Subscription {
    /// The status of the subscription.
    pub status: SubscriptionStatus,
    /// The subscription ends with the period.
    pub cancel_at_period_end: bool,
    /// The time from which periods are calendar months.
    pub start: UnixMs,
    /// The number of the current period.
    pub period: u32,
    /// Whether this period has granted its plan credits.
    pub renewed: bool,
    /// The sums of credits.
    pub balance: Balance,
}

impl Subscription {
    /// Creates an active subscription. Its first period grants the plan's credits.
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

    /// The end of the current period; `None` for a plan that never resets.
    pub fn period_end(&self, plan: &Plan) -> Option<UnixMs> {
        plan.resets.then(|| period_start(self.start, self.period + 1))
    }

    /// Moves to the period of `now`. Returns the granted and expired credits if a period ended. The result depends only
    /// on `now`, not on the number of calls.
    ///
    /// A period that begins long after `now` comes from a clock that was ahead. It has granted its credits, and is made
    /// to begin at `now`: otherwise the next period would begin only when the right clock reaches that time.
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
            // Missed periods were granted and expired without use.
            let unseen = (ended - 1) * plan.monthly_credits;
            self.balance.granted += unseen;
            self.balance.expired += unseen;
            let renewal = self.renew(plan);
            step.granted = unseen + renewal.granted;
            step.expired += unseen;
        }
        Some(step)
    }

    /// Changes the plan, within the period to which [`Subscription::roll`] has moved. Spent and held plan credits of
    /// this period count against those of the new plan.
    pub fn change_plan(&mut self, plan: &Plan) -> PeriodStep {
        // Without further periods, an announced end takes effect at once.
        self.set_cancel_at_period_end(self.cancel_at_period_end, plan);
        if self.renewed { self.set_allowance(plan.monthly_credits) } else { PeriodStep::default() }
    }

    /// Sets the status. If the period has not granted its credits, it grants them once the subscription is usable.
    pub fn change_status(&mut self, status: SubscriptionStatus, plan: &Plan) -> PeriodStep {
        self.status = status;
        if status.is_usable() && !self.renewed { self.renew(plan) } else { PeriodStep::default() }
    }

    /// Sets whether the subscription ends with the period. Without periods it is canceled at once.
    pub fn set_cancel_at_period_end(&mut self, cancel: bool, plan: &Plan) {
        self.cancel_at_period_end = cancel && plan.resets;
        if cancel && !plan.resets {
            self.status = SubscriptionStatus::Canceled;
        }
    }

    /// Holds credits, plan credits first; `None` if there are not enough.
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

    /// Spends held credits, for good.
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

    /// Returns held credits: pack credits always, plan credits only within their period and up to the plan's amount.
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

    /// Adds pack credits; `false` without a change if the sum would become too large.
    pub fn grant(&mut self, credits: u64) -> bool {
        // Only a quarter of the range, since later periods grant more.
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
