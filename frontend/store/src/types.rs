//! What the store's methods take and give.

mod batches;
mod connections;
mod lists;
mod results;
mod web;

pub use batches::*;
pub use connections::*;
pub use lists::*;
pub use results::*;
pub use web::*;

use super::id::{AccountId, EntryId, KeyId};
use crate::credits::Balance;
use crate::histogram::{COMMIT_US, GROUP, Histogram};
use crate::rate_limit::{Limits, Overrides};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

/// What the store is at, and what it did since it was opened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoreFigures {
    /// Writes that wait.
    pub waiting: usize,
    /// How long commits took, in microseconds.
    pub commit_us: Histogram,
    /// How many writes shared each.
    pub group: Histogram,
    /// Credits that were spent.
    pub credits_spent: u64,
    /// Credits that were granted.
    pub credits_granted: u64,
}

impl Default for StoreFigures {
    fn default() -> StoreFigures {
        let (commit_us, group) = (Histogram::new(COMMIT_US), Histogram::new(GROUP));
        StoreFigures { waiting: 0, commit_us, group, credits_spent: 0, credits_granted: 0 }
    }
}

/// Wall-clock time: milliseconds since 1970-01-01T00:00:00Z.
pub type UnixMs = u64;

/// The longest name of an account, label of a key or note of a grant.
pub const TEXT_CHARS_MAX: usize = 200;

/// Keys of an account that are in force at once: more than anybody needs.
pub const KEYS_MAX: usize = 100;

/// Keys of an account in all. Beyond, those that were revoked first are forgotten.
pub const KEYS_KEPT_MAX: usize = 1000;

/// The most credits in one grant or one plan. Small enough that no sum over an account's life overflows.
pub const CREDITS_MAX: u64 = 1 << 40;

/// The most credits in one hold: far beyond the largest batch.
pub const HOLD_CREDITS_MAX: u64 = 1_000_000;

/// What a plan gives. Plans are the operator's, from the configuration; the store holds their ids alone.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Plan {
    /// Its id, as accounts name it.
    pub id: String,
    /// Its name, as people see it.
    pub name: String,
    /// Credits at the start of each period.
    pub monthly_credits: u64,
    /// Whether batches may be submitted.
    pub batches_allowed: bool,
    /// Whether a new period brings new credits. If not, the credits are given once and last for ever.
    pub resets: bool,
    /// How much keys and accounts on it may ask.
    pub limits: Limits,
}

impl Plan {
    /// With batches and the usual limits; every period brings its credits.
    pub fn new(id: &str, name: &str, monthly_credits: u64) -> Plan {
        let (batches_allowed, resets, limits) = (true, true, Limits::default());
        Plan { id: id.into(), name: name.into(), monthly_credits, batches_allowed, resets, limits }
    }
}

/// Every plan there is.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PlanTable(BTreeMap<String, Plan>);

impl PlanTable {
    /// From the plans of the configuration.
    ///
    /// # Errors
    /// One line about the first plan that cannot be: a double or empty id, or more credits than [`CREDITS_MAX`].
    pub fn new(plans: impl IntoIterator<Item = Plan>) -> Result<PlanTable, String> {
        let mut table = BTreeMap::new();
        for plan in plans {
            if plan.id.is_empty() || plan.id.len() > TEXT_CHARS_MAX {
                return Err(format!("a plan's id must have 1 to {TEXT_CHARS_MAX} bytes"));
            }
            if plan.monthly_credits > CREDITS_MAX {
                return Err(format!("plan {:?}: monthly_credits is over {CREDITS_MAX}", plan.id));
            }
            let id = plan.id.clone();
            if table.insert(plan.id.clone(), plan).is_some() {
                return Err(format!("plan {id:?} is defined twice"));
            }
        }
        Ok(PlanTable(table))
    }

    /// The plans that hold when the configuration names none.
    pub fn standard() -> PlanTable {
        let plans = [
            Plan::new("free", "Free", 100),
            Plan::new("starter", "Starter", 5_000),
            Plan::new("growth", "Growth", 50_000),
            Plan::new("scale", "Scale", 500_000),
        ];
        PlanTable(plans.into_iter().map(|plan| (plan.id.clone(), plan)).collect())
    }

    /// The plan of this id.
    pub fn find(&self, id: &str) -> Option<&Plan> {
        self.0.get(id)
    }

    /// All of them, by id.
    pub fn iter(&self) -> impl Iterator<Item = &Plan> {
        self.0.values()
    }
}

/// Where a subscription stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SubscriptionStatus {
    /// In order.
    Active,
    /// A payment is late; still usable.
    PastDue,
    /// Stopped for a while; nothing can be charged and no period brings credits.
    Paused,
    /// Over; nothing can be charged and no period brings credits.
    Canceled,
}

impl SubscriptionStatus {
    /// All of them.
    pub const ALL: [SubscriptionStatus; 4] = [Self::Active, Self::PastDue, Self::Paused, Self::Canceled];

    /// Whether charges go through.
    pub fn is_usable(self) -> bool {
        matches!(self, SubscriptionStatus::Active | SubscriptionStatus::PastDue)
    }

    /// As the API and the command line spell it.
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

/// An account as it stands at the moment asked for, its period rolled.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Account {
    /// Its id.
    pub id: AccountId,
    /// Its name, unique in the store.
    pub name: String,
    /// The id of its plan.
    pub plan: String,
    /// Where the subscription stands.
    pub status: SubscriptionStatus,
    /// The subscription ends with the period.
    pub cancel_at_period_end: bool,
    /// When it was made; periods are calendar months from here.
    pub created_at: UnixMs,
    /// When the plan credits are given anew; none on a plan that never resets.
    pub period_end: Option<UnixMs>,
    /// The credits.
    pub balance: Balance,
}

/// An account to make.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewAccount {
    /// Its id, made by the caller.
    pub id: AccountId,
    /// 1 to [`TEXT_CHARS_MAX`] characters, none of them a control character; not of the form of an id.
    pub name: String,
    /// The id of a plan of the table.
    pub plan: String,
}

/// A user of an API gateway, for whom there is to be an account.
#[derive(Clone, PartialEq, Eq)]
pub struct GatewayUser {
    /// The account's id if it has to be made.
    pub id: AccountId,
    /// The gateway's name: no colon is in it.
    pub gateway: String,
    /// Who it is, as the gateway says.
    pub user: String,
    /// The id of the plan of the table that the account has from now on.
    pub plan: String,
    /// No account is made beyond so many of this gateway.
    pub users_max: usize,
}

/// Whether a key spends credits and asks mail servers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum KeyMode {
    /// It does.
    Live,
    /// It gets made-up answers.
    Test,
}

/// SHA-256 of a key, the only form in which one is kept.
pub type KeyHash = [u8; 32];

/// A key to add. The key itself never comes near the store.
#[derive(Clone, PartialEq, Eq)]
pub struct NewKey {
    /// Its id, made by the caller.
    pub id: KeyId,
    /// The account it acts for.
    pub account: AccountId,
    /// Live or test.
    pub mode: KeyMode,
    /// SHA-256 of the key.
    pub hash: KeyHash,
    /// Its last four characters.
    pub last4: [u8; 4],
    /// At most [`TEXT_CHARS_MAX`] characters, none of them a control character; may be empty.
    pub label: String,
}

/// A key as lists show it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeyInfo {
    /// Its id.
    pub id: KeyId,
    /// The account it acts for.
    pub account: AccountId,
    /// Live or test.
    pub mode: KeyMode,
    /// The last four characters of the key.
    pub last4: String,
    /// What the operator called it.
    pub label: String,
    /// When it was made.
    pub created_at: UnixMs,
    /// When it was revoked, if it was.
    pub revoked_at: Option<UnixMs>,
    /// About when it was last used: right to a minute or so.
    pub last_used_at: Option<UnixMs>,
}

/// What a request needs to know of the key it came with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KeyLookup {
    /// The key's id.
    pub id: KeyId,
    /// The account it acts for.
    pub account: AccountId,
    /// Live or test.
    pub mode: KeyMode,
    /// It was revoked: refuse it.
    pub revoked: bool,
}

/// What an account may do by its plan and by its own limits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Terms {
    /// Whether batches may be submitted.
    pub batches_allowed: bool,
    /// The limits that hold.
    pub limits: Limits,
    /// Those of them that are the account's own.
    pub overrides: Overrides,
}

/// A hold to place: these credits are set aside until [`settle`](super::Store::settle) or
/// [`void`](super::Store::void).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HoldRequest {
    /// Whose credits.
    pub hold: HoldRef,
    /// How many: 1 to [`HOLD_CREDITS_MAX`].
    pub credits: u64,
}

/// Names a hold: by whose credits and by the id that the caller made for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct HoldRef {
    /// Whose credits.
    pub account: AccountId,
    /// The hold.
    pub id: EntryId,
}

/// Pack credits to add to an account.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Grant {
    /// Made by the caller: granting twice under one id gives the credits once.
    pub id: EntryId,
    /// To whom.
    pub account: AccountId,
    /// How many: 1 to [`CREDITS_MAX`].
    pub credits: u64,
    /// Why; kept with the ledger. At most [`TEXT_CHARS_MAX`] characters.
    pub note: String,
}

/// The first account and its keys, made on an empty store.
#[derive(Clone, PartialEq, Eq)]
pub struct FirstRun {
    /// The account.
    pub account: NewAccount,
    /// Its keys.
    pub keys: Vec<NewKey>,
}

/// What an entry of the ledger records.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EntryKind {
    /// A period began: what was left of its forerunner's plan credits expired, the plan's were granted.
    Period,
    /// The plan changed within the period, or a paused or canceled subscription went on.
    PlanChange,
    /// Pack credits were granted.
    Pack,
    /// A hold was settled: its credits are spent.
    Settled,
    /// A hold was voided: its credits went back, or expired with a period that had ended.
    Voided,
    /// Entries too old to keep, added up.
    Carried,
}

/// One entry of the ledger: how much it added to each sum of the account.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// Its id; of a hold or a grant, the one that the caller made.
    pub id: EntryId,
    /// What it records.
    pub kind: EntryKind,
    /// When it was written.
    pub at: UnixMs,
    /// Credits granted.
    pub granted: u64,
    /// Credits spent.
    pub spent: u64,
    /// Credits expired.
    pub expired: u64,
    /// Why, where somebody said.
    pub note: String,
}

/// What [`audit`](super::Store::audit) found.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Audit {
    /// Accounts looked at.
    pub accounts: u64,
    /// Ledger entries added up.
    pub entries: u64,
    /// Holds without an answer.
    pub open_holds: u64,
    /// Every account whose sums disagree, a line each. Empty when all is well.
    pub faults: Vec<String>,
}
