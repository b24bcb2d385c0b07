//! Plans.

use super::ledger::CREDITS_MAX;
use crate::TEXT_CHARS_MAX;
use crate::rate_limit::Limits;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use usage::values::grouped;

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
                let most = grouped(CREDITS_MAX);
                return Err(format!("plan {:?}: monthly_credits is over {most}", plan.id));
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
