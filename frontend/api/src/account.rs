//! The answer of `GET /v1/account`.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;
#[cfg(test)]
use utoipa::ToSchema;

/// The account of the key: plan, status and balance.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(ToSchema))]
pub struct Account {
    /// The id of the plan.
    pub plan: String,
    /// The name of the plan for people.
    pub plan_name: String,
    /// Subscription status.
    pub status: SubscriptionStatus,
    /// All credits that can be spent now: the remaining plan credits of this period and `pack_credits`.
    pub credits_remaining: u64,
    /// The plan credits of the period.
    pub credits_total: u64,
    /// Credits from credit packs; they never expire.
    #[cfg_attr(test, schema(required = false, default = 0))]
    pub pack_credits: u64,
    /// The time at which plan credits are granted again, in RFC 3339 with an offset.
    #[cfg_attr(test, schema(format = DateTime))]
    pub period_end: Option<String>,
    /// Whether the subscription ends with this period.
    #[cfg_attr(test, schema(required = false, default = false))]
    pub cancel_at_period_end: bool,
}

/// The closed set of subscription states.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(test, derive(ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum SubscriptionStatus {
    /// The subscription is paid.
    Active,
    /// A payment is late; the account is usable.
    PastDue,
    /// Charged calls are refused, and no period grants credits.
    Paused,
    /// Ended: charged calls are refused, and no period grants credits.
    Canceled,
}

impl SubscriptionStatus {
    /// All statuses in the order of their definition.
    pub const ALL: [SubscriptionStatus; 4] = [Self::Active, Self::PastDue, Self::Paused, Self::Canceled];

    /// Whether charges are possible.
    pub fn is_usable(self) -> bool {
        matches!(self, SubscriptionStatus::Active | SubscriptionStatus::PastDue)
    }

    /// The name in the API and on the command line.
    pub fn as_str(self) -> &'static str {
        match self {
            SubscriptionStatus::Active => "active",
            SubscriptionStatus::PastDue => "past_due",
            SubscriptionStatus::Paused => "paused",
            SubscriptionStatus::Canceled => "canceled",
        }
    }
}

impl fmt::Display for SubscriptionStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl FromStr for SubscriptionStatus {
    type Err = String;

    fn from_str(text: &str) -> Result<SubscriptionStatus, String> {
        let known = SubscriptionStatus::ALL.into_iter().find(|status| status.as_str() == text);
        known.ok_or_else(|| "a status is active, past_due, paused or canceled".to_owned())
    }
}
