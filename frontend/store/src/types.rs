//! The arguments and results of the store's methods.

mod batches;
mod connections;
mod keys;
mod lists;
mod results;
mod web;

pub use batches::*;
pub use connections::*;
pub use keys::*;
pub use lists::*;
pub use results::*;
pub use web::*;

use super::id::{AccountId, BatchId, EntryId, ListId, NotAnId};
use crate::credits::Balance;
use crate::histogram::{COMMIT_US, GROUP, Histogram};
use crate::rate_limit::{Limits, Overrides};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::AtomicU32;

/// Figures of the store since it was opened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoreFigures {
    /// The number of waiting writes.
    pub waiting: usize,
    /// The times of commits in microseconds.
    pub commit_us: Histogram,
    /// The numbers of writes in each commit.
    pub group: Histogram,
    /// The number of spent credits.
    pub credits_spent: u64,
    /// The number of granted credits.
    pub credits_granted: u64,
}

impl Default for StoreFigures {
    fn default() -> StoreFigures {
        let (commit_us, group) = (Histogram::new(COMMIT_US), Histogram::new(GROUP));
        StoreFigures { waiting: 0, commit_us, group, credits_spent: 0, credits_granted: 0 }
    }
}

/// A wall-clock time in milliseconds since 1970-01-01T00:00:00Z.
pub type UnixMs = u64;

/// The longest name of an account, label of a key or note of a grant, in characters.
pub const TEXT_CHARS_MAX: usize = 200;

/// The largest number of keys of an account that are neither revoked nor expired.
pub const KEYS_MAX: usize = 100;

/// The largest number of keys of an account with the revoked and expired ones. Beyond it, those that ended first are removed.
pub const KEYS_KEPT_MAX: usize = 1000;

/// The most credits in one grant or one plan: so few that no sum over an account's life overflows.
pub const CREDITS_MAX: u64 = 1 << 40;

/// The most credits in one hold: far more than the largest batch costs.
pub const HOLD_CREDITS_MAX: u64 = 1_000_000;

/// The place of a process among the nodes that share a database.
#[derive(Debug, Clone)]
pub struct NodePlace {
    /// The number of the node; `None` for a store of one process.
    pub node: Option<i64>,
    /// The number of live nodes whose checks come from the same public address. It includes this node, and the store updates it.
    pub egress_nodes: Arc<AtomicU32>,
}

impl NodePlace {
    /// The place of a process that shares its store with no other.
    pub fn alone() -> NodePlace {
        NodePlace { node: None, egress_nodes: Arc::new(AtomicU32::new(1)) }
    }
}

/// The rights of a plan. Plans come from the operator's configuration; the store has only their ids.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Plan {
    /// The id to which accounts refer.
    pub id: String,
    /// The name for people.
    pub name: String,
    /// Credits at the start of each period.
    pub monthly_credits: u64,
    /// Whether the plan permits to submit batches.
    pub batches_allowed: bool,
    /// Whether a new period grants new credits. Otherwise the credits are granted once and never expire.
    pub resets: bool,
    /// The limits of keys and accounts with this plan.
    pub limits: Limits,
    /// The MiB that batches without a charge may take until they expire.
    #[serde(default = "stored_mib")]
    pub stored_mib: u64,
}

/// The default of [`Plan::stored_mib`]: a thousand batches of 200 of the longest addresses, or ten thousand usual ones.
pub const STORED_MIB: u64 = 64;

fn stored_mib() -> u64 {
    STORED_MIB
}

impl Plan {
    /// A plan with batches and the default limits, whose credits are granted in every period.
    pub fn new(id: &str, name: &str, monthly_credits: u64) -> Plan {
        let (batches_allowed, resets, limits) = (true, true, Limits::default());
        Plan {
            id: id.into(),
            name: name.into(),
            monthly_credits,
            batches_allowed,
            resets,
            limits,
            stored_mib: STORED_MIB,
        }
    }
}

/// All configured plans by id.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PlanTable(BTreeMap<String, Plan>);

impl PlanTable {
    /// The table of the configuration's plans.
    ///
    /// # Errors
    ///
    /// One line about the first invalid plan: a duplicate or empty id, or more credits than [`CREDITS_MAX`].
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

    /// The plans that apply if the configuration has none.
    pub fn standard() -> PlanTable {
        let plans = [
            Plan::new("free", "Free", 100),
            Plan::new("starter", "Starter", 5_000),
            Plan::new("growth", "Growth", 50_000),
            Plan::new("scale", "Scale", 500_000),
        ];
        PlanTable(plans.into_iter().map(|plan| (plan.id.clone(), plan)).collect())
    }

    /// The plan with this id.
    pub fn find(&self, id: &str) -> Option<&Plan> {
        self.0.get(id)
    }

    /// All plans in the order of their ids.
    pub fn iter(&self) -> impl Iterator<Item = &Plan> {
        self.0.values()
    }
}

/// The status of a subscription.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SubscriptionStatus {
    /// The subscription is paid.
    Active,
    /// A payment is late; the account is still usable.
    PastDue,
    /// Suspended: no charges are possible, and no period grants credits.
    Paused,
    /// Ended: no charges are possible, and no period grants credits.
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
    /// 1 to [`TEXT_CHARS_MAX`] characters without control characters, and not of the form of an id.
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

/// A request to hold credits until [`settle`](super::Store::settle) or [`void`](super::Store::void).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HoldRequest {
    /// The account and the id of the hold.
    pub hold: HoldRef,
    /// The amount: 1 to [`HOLD_CREDITS_MAX`].
    pub credits: u64,
}

/// The identity of a hold: its account, and the id that the caller created.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct HoldRef {
    /// The account of the credits.
    pub account: AccountId,
    /// The id of the hold.
    pub id: EntryId,
}

/// A grant of pack credits to an account.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Grant {
    /// The id, which the caller creates: a second grant with the id has no effect.
    pub id: EntryId,
    /// The account that gets them.
    pub account: AccountId,
    /// The amount: 1 to [`CREDITS_MAX`].
    pub credits: u64,
    /// A note for the ledger. At most [`TEXT_CHARS_MAX`] characters.
    pub note: String,
}

/// The first account and its keys, which are created on an empty store.
#[derive(Clone, PartialEq, Eq)]
pub struct FirstRun {
    /// The first account.
    pub account: NewAccount,
    /// Its keys.
    pub keys: Vec<NewKey>,
}

/// The kinds of ledger entries.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EntryKind {
    /// A period began: the remaining plan credits of the last period expired, and those of the plan were granted.
    Period,
    /// The plan changed within the period, or a paused or canceled subscription was resumed.
    PlanChange,
    /// Pack credits were granted.
    Pack,
    /// A hold was settled: its credits are spent.
    Settled,
    /// A hold was voided: its credits were returned, or expired with their period.
    Voided,
    /// The sum of entries that are too old to keep.
    Carried,
}

/// One entry of the ledger: its changes of the account's sums.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// The id of the entry; for a hold or a grant, the one that the caller created.
    pub id: EntryId,
    /// The kind of the entry.
    pub kind: EntryKind,
    /// The time at which it was written.
    pub at: UnixMs,
    /// Credits that it granted.
    pub granted: u64,
    /// Credits that it spent.
    pub spent: u64,
    /// Credits that expired by it.
    pub expired: u64,
    /// The note of a grant, or the text of [`ChargedFor`]; otherwise empty.
    pub note: String,
}

impl Entry {
    /// What it charged or returned credits for; `None` for a single check, a grant and a period, and for a batch that ended in an
    /// earlier version.
    pub fn charged_for(&self) -> Option<ChargedFor> {
        match self.kind {
            EntryKind::Settled | EntryKind::Voided => self.note.parse().ok(),
            EntryKind::Period | EntryKind::PlanChange | EntryKind::Pack | EntryKind::Carried => None,
        }
    }
}

/// What an entry of the ledger is for. Its text, `batch ID` or `list ID`, is the note of the entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChargedFor {
    /// A whole batch.
    Batch(BatchId),
    /// A batch of this list. A list has an entry for each of its batches.
    List(ListId),
}

impl fmt::Display for ChargedFor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ChargedFor::Batch(id) => write!(f, "batch {id}"),
            ChargedFor::List(id) => write!(f, "list {id}"),
        }
    }
}

impl FromStr for ChargedFor {
    type Err = NotAnId;

    fn from_str(text: &str) -> Result<ChargedFor, NotAnId> {
        match text.strip_prefix("list ") {
            Some(id) => id.parse().map(ChargedFor::List),
            None => text.strip_prefix("batch ").unwrap_or_default().parse().map(ChargedFor::Batch),
        }
    }
}

/// The result of [`audit`](super::Store::audit).
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Audit {
    /// The number of audited accounts.
    pub accounts: u64,
    /// The number of ledger entries that were added up.
    pub entries: u64,
    /// The number of holds without an answer.
    pub open_holds: u64,
    /// One line for each account with inconsistent sums. Empty if there is no fault.
    pub faults: Vec<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_note_names_a_batch_or_a_list_only_in_entries_of_charges() {
        let (batch, list) = (BatchId::new(7, 1), ListId::new(7, 2));
        for charge in [ChargedFor::Batch(batch), ChargedFor::List(list)] {
            assert_eq!(charge.to_string().parse(), Ok(charge));
        }
        for other in ["", "batch", "list ", &format!("list {batch}"), &format!("batch {list}"), "bonus"] {
            assert!(other.parse::<ChargedFor>().is_err(), "{other}");
        }
        let note = ChargedFor::Batch(batch).to_string();
        let id = EntryId::new(7, 3);
        let entry = |kind| Entry { id, kind, at: 7, granted: 0, spent: 1, expired: 0, note: note.clone() };
        assert_eq!(entry(EntryKind::Voided).charged_for(), Some(ChargedFor::Batch(batch)));
        assert_eq!(entry(EntryKind::Pack).charged_for(), None, "an operator wrote it");
    }
}
