//! `GET /v1/account`.

use serde::Serialize;
use utoipa::ToSchema;

/// The account of the key: plan, status and balance.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct Account {
    /// Plan identifier.
    pub plan: String,
    /// Display name of the plan.
    pub plan_name: String,
    /// Subscription status.
    pub status: SubscriptionStatus,
    /// All credits spendable now: what is left of this period's plan credits plus `pack_credits`.
    pub credits_remaining: u64,
    /// The plan's allowance for the period.
    pub credits_total: u64,
    /// Credits from credit packs; they never expire.
    #[schema(required = false, default = 0)]
    pub pack_credits: u64,
    /// When plan credits reset: RFC 3339 with offset.
    #[schema(format = DateTime)]
    pub period_end: Option<String>,
    /// Whether the subscription ends with this period.
    #[schema(required = false, default = false)]
    pub cancel_at_period_end: bool,
}

/// The closed set of subscription states.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum SubscriptionStatus {
    /// Usable.
    Active,
    /// Usable, with a payment owed.
    PastDue,
    /// Charged calls are refused.
    Paused,
    /// Charged calls are refused.
    Canceled,
}
