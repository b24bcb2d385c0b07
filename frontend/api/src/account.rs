//! The answer of `GET /v1/account`.

use serde::{Deserialize, Serialize};
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

crate::named! {
    /// The closed set of subscription states.
    #[derive(Serialize, Deserialize)]
    #[cfg_attr(test, derive(ToSchema))]
    #[serde(rename_all = "snake_case")]
    SubscriptionStatus {
        /// The subscription is paid.
        Active = "active",
        /// A payment is late; the account is usable.
        PastDue = "past_due",
        /// Charged calls are refused, and no period grants credits.
        Paused = "paused",
        /// Ended: charged calls are refused, and no period grants credits.
        Canceled = "canceled",
    }
}

impl SubscriptionStatus {
    /// Whether charges are possible.
    pub fn is_usable(self) -> bool {
        matches!(self, SubscriptionStatus::Active | SubscriptionStatus::PastDue)
    }

    /// What to say to an account that cannot be charged in this status: why, and who can change it.
    pub fn refusal(self) -> String {
        format!(
            "The subscription is {}: nothing can be charged until the operator of this service makes it active again, with \
             `mailprobe account set-status ACCOUNT active`.",
            self.as_str()
        )
    }
}

impl FromStr for SubscriptionStatus {
    type Err = String;

    fn from_str(text: &str) -> Result<SubscriptionStatus, String> {
        SubscriptionStatus::parse(text)
            .ok_or_else(|| "a status is active, past_due, paused or canceled".to_owned())
    }
}
