//! Accounts.

use super::keys::NewKey;
use crate::UnixMs;
use crate::credits::Balance;
use crate::id::AccountId;
use crate::rate_limit::{Limits, Overrides};
use api::SubscriptionStatus;
use serde::{Deserialize, Serialize};

/// An account at a given time, with its period up to date.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Account {
    /// The id of the account.
    pub id: AccountId,
    /// The name, which is unique in the store.
    pub name: String,
    /// The id of the plan.
    pub plan: String,
    /// The status of the subscription.
    pub status: SubscriptionStatus,
    /// The subscription ends with the period.
    pub cancel_at_period_end: bool,
    /// The time of creation, from which periods are calendar months.
    pub created_at: UnixMs,
    /// The time at which plan credits are granted again; `None` for a plan that never resets.
    pub period_end: Option<UnixMs>,
    /// The sums of credits.
    pub balance: Balance,
}

/// A new account before its creation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewAccount {
    /// The id, which the caller creates.
    pub id: AccountId,
    /// 1 to [`TEXT_CHARS_MAX`](crate::TEXT_CHARS_MAX) characters without control characters, and not of the form of an id.
    pub name: String,
    /// The id of a plan in the table.
    pub plan: String,
}

/// The result of a step of a deletion.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DeletionStep {
    /// There may be more rows: the next step can follow at once.
    More,
    /// Checks of the account are under way. The next step must wait for them: at most two minutes.
    ChecksUnderWay,
    /// The account has no rows left.
    Complete,
}

/// A user of an API gateway who needs an account.
#[derive(Clone, PartialEq, Eq)]
pub struct GatewayUser {
    /// The id for a new account.
    pub id: AccountId,
    /// The name of the gateway, which has no colon.
    pub gateway: String,
    /// The name of the user at the gateway.
    pub user: String,
    /// The id of the plan that the account gets.
    pub plan: String,
    /// The largest number of accounts of this gateway.
    pub users_max: usize,
}

/// The rights of an account, from its plan and its own limits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Terms {
    /// Whether it may submit batches.
    pub batches_allowed: bool,
    /// The limits that apply.
    pub limits: Limits,
    /// The limits that belong to the account itself.
    pub overrides: Overrides,
}

/// The first account and its keys, which are created on an empty store.
#[derive(Clone, PartialEq, Eq)]
pub struct FirstRun {
    /// The first account.
    pub account: NewAccount,
    /// Its keys.
    pub keys: Vec<NewKey>,
}
