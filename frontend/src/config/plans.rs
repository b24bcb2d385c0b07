//! `[[plan]]`: what accounts can be on.

use super::file::{Fault, canonical, unknown};
use super::settings::number;
use crate::store::{CREDITS_MAX, Plan, PlanTable};
use std::fmt::Write;
use toml::Value;
use toml::de::{DeTable, DeValue};

/// A plan with its limits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlanConfig {
    /// What the store needs of it.
    pub plan: Plan,
    /// Requests per minute and key.
    pub limits: Limits,
}

/// Most requests of one key in 60 seconds, for each row of the contract's table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// `/v1/verify` with `mode=fast`.
    pub fast: u32,
    /// `/v1/verify`, full.
    pub verify: u32,
    /// `POST /v1/verify/batch`.
    pub batch: u32,
    /// `GET /v1/verify/batch/{batch_id}`.
    pub poll: u32,
    /// `/v1/account`.
    pub account: u32,
}

/// The limits of the contract.
impl Default for Limits {
    fn default() -> Limits {
        Limits { fast: 600, verify: 600, batch: 30, poll: 600, account: 300 }
    }
}

const KEYS: [&str; 6] = ["id", "name", "monthly_credits", "batches", "resets", "limits"];
const LIMITS: [&str; 5] = ["fast", "verify", "batch", "poll", "account"];
const LIMIT_MAX: u32 = 1_000_000;

/// The plans that hold when the file names none.
pub fn standard() -> Vec<PlanConfig> {
    let with_limits = |plan: &Plan| PlanConfig { plan: plan.clone(), limits: Limits::default() };
    let mut plans: Vec<PlanConfig> = PlanTable::standard().iter().map(with_limits).collect();
    plans.sort_by_key(|plan| plan.plan.monthly_credits);
    plans
}

impl PlanConfig {
    /// The plan as a table of the file.
    pub fn to_toml(&self) -> String {
        let Plan { id, name, monthly_credits, batches_allowed, resets } = &self.plan;
        let text = |text: &str| Value::String(text.to_owned()).to_string();
        let mut table = format!("[[plan]]\nid = {}\nname = {}\n", text(id), text(name));
        let _ = writeln!(table, "monthly_credits = {monthly_credits}");
        let _ = writeln!(table, "batches = {batches_allowed}\nresets = {resets}");
        let Limits { fast, verify, batch, poll, account } = self.limits;
        let _ = writeln!(
            table,
            "limits = {{ fast = {fast}, verify = {verify}, batch = {batch}, poll = {poll}, account = {account} }}"
        );
        table
    }
}

/// Reads one table; `at` is where it begins.
pub fn read(at: usize, table: &DeTable<'_>) -> Result<PlanConfig, Fault> {
    let mut plan = Plan {
        id: String::new(),
        name: String::new(),
        monthly_credits: 0,
        batches_allowed: true,
        resets: true,
    };
    let mut limits = Limits::default();
    let mut seen = Vec::new();
    for (key, value) in table.iter() {
        let at = key.span().start;
        let name = canonical(key.get_ref());
        let fault = |why: String| Fault { at, why: format!("plan: {name}: {why}") };
        let value = value.get_ref();
        match name.as_str() {
            "id" => plan.id = text(value).map_err(fault)?,
            "name" => plan.name = text(value).map_err(fault)?,
            "monthly_credits" => plan.monthly_credits = integer(value, 0, CREDITS_MAX).map_err(fault)?,
            "batches" => plan.batches_allowed = boolean(value).map_err(fault)?,
            "resets" => plan.resets = boolean(value).map_err(fault)?,
            "limits" => limits = read_limits(at, value)?,
            _ => return Err(unknown(at, key.get_ref(), KEYS.into_iter())),
        }
        seen.push(name);
    }
    match ["id", "name", "monthly_credits"].iter().find(|key| !seen.iter().any(|name| name == *key)) {
        Some(key) => Err(Fault { at, why: format!("plan: `{key}` is missing") }),
        None => Ok(PlanConfig { plan, limits }),
    }
}

fn read_limits(at: usize, value: &DeValue<'_>) -> Result<Limits, Fault> {
    let mut limits = Limits::default();
    let table = value.as_table().ok_or_else(|| Fault { at, why: "plan: limits: must be a table".into() })?;
    for (key, value) in table.iter() {
        let at = key.span().start;
        let slot = match canonical(key.get_ref()).as_str() {
            "fast" => &mut limits.fast,
            "verify" => &mut limits.verify,
            "batch" => &mut limits.batch,
            "poll" => &mut limits.poll,
            "account" => &mut limits.account,
            _ => return Err(unknown(at, key.get_ref(), LIMITS.into_iter())),
        };
        *slot = integer(value.get_ref(), 1, LIMIT_MAX)
            .map_err(|why| Fault { at, why: format!("plan: limits.{}: {why}", key.get_ref()) })?;
    }
    Ok(limits)
}

/// Ids and names are shown to callers and in lists.
fn text(value: &DeValue<'_>) -> Result<String, String> {
    match value.as_str() {
        Some(text) if (1..=64).contains(&text.chars().count()) && !text.chars().any(char::is_control) => {
            Ok(text.to_owned())
        }
        _ => Err("must be a string of 1 to 64 printable characters".into()),
    }
}

fn integer<T>(value: &DeValue<'_>, min: T, max: T) -> Result<T, String>
where
    T: std::str::FromStr + PartialOrd + std::fmt::Display,
{
    match value.as_integer() {
        Some(digits) if digits.radix() == 10 => number(digits.as_str(), min, max),
        _ => Err(format!("must be a number from {min} to {max}")),
    }
}

fn boolean(value: &DeValue<'_>) -> Result<bool, String> {
    value.as_bool().ok_or_else(|| "must be true or false".to_owned())
}
