//! `[[plan]]`: the plans of accounts.

use super::keys::{Fault, canonical, integer, unknown};
use std::fmt::Write;
use store::rate_limit::Limits;
use store::rate_limit::limits::{LIMIT_MAX, LIMIT_MIN};
use store::{CREDITS_MAX, Plan, PlanTable};
use toml::Value;
use toml::de::{DeTable, DeValue};

pub(super) const KEYS: [&str; 7] =
    ["id", "name", "monthly_credits", "batches", "resets", "stored_mib", "limits"];

/// 1 TiB.
const STORED_MIB_MAX: u64 = 1 << 20;

/// The plans that apply if the file defines none.
pub fn standard() -> Vec<Plan> {
    let mut plans: Vec<Plan> = PlanTable::standard().iter().cloned().collect();
    plans.sort_by_key(|plan| plan.monthly_credits);
    plans
}

/// A plan as a table of the file.
pub fn to_toml(plan: &Plan) -> String {
    let Plan { id, name, monthly_credits, batches_allowed, resets, limits, stored_mib } = plan;
    let text = |text: &str| Value::String(text.to_owned()).to_string();
    let mut table = format!("[[plan]]\nid = {}\nname = {}\n", text(id), text(name));
    let _ = writeln!(table, "monthly_credits = {monthly_credits}");
    let _ = writeln!(table, "batches = {batches_allowed}\nresets = {resets}\nstored_mib = {stored_mib}");
    let _ = writeln!(table, "[plan.limits]");
    // 0 stands for a limit that follows from another.
    for (name, limit) in limits.each().into_iter().filter(|(_, limit)| *limit != 0) {
        let _ = writeln!(table, "{name} = {limit}");
    }
    table
}

/// Reads one table; `at` is its position.
pub fn read(at: usize, table: &DeTable<'_>) -> Result<Plan, Fault> {
    let mut plan = Plan::new("", "", 0);
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
            "stored_mib" => plan.stored_mib = integer(value, 1, STORED_MIB_MAX).map_err(fault)?,
            "limits" => plan.limits = read_limits(at, value)?,
            _ => return Err(unknown(at, key.get_ref(), KEYS.into_iter())),
        }
        seen.push(name);
    }
    match ["id", "name", "monthly_credits"].iter().find(|key| !seen.iter().any(|name| name == *key)) {
        Some(key) => Err(Fault { at, why: format!("plan: `{key}` is missing") }),
        None => Ok(plan),
    }
}

fn read_limits(at: usize, value: &DeValue<'_>) -> Result<Limits, Fault> {
    let mut limits = Limits::default();
    let table = value.as_table().ok_or_else(|| Fault { at, why: "plan: limits: must be a table".into() })?;
    for (key, value) in table.iter() {
        let at = key.span().start;
        let name = canonical(key.get_ref());
        let names = limits.each().map(|(name, _)| name);
        let Some((_, slot)) = limits.each_mut().into_iter().find(|(known, _)| *known == name) else {
            return Err(unknown(at, key.get_ref(), names.into_iter()));
        };
        *slot = integer(value.get_ref(), LIMIT_MIN, LIMIT_MAX)
            .map_err(|why| Fault { at, why: format!("plan: limits.{}: {why}", key.get_ref()) })?;
    }
    Ok(limits)
}

/// Parses an id or a name. Clients and lists show it.
fn text(value: &DeValue<'_>) -> Result<String, String> {
    match value.as_str() {
        Some(text) if (1..=64).contains(&text.chars().count()) && !text.chars().any(char::is_control) => {
            Ok(text.to_owned())
        }
        _ => Err("must be a string of 1 to 64 printable characters".into()),
    }
}

fn boolean(value: &DeValue<'_>) -> Result<bool, String> {
    value.as_bool().ok_or_else(|| "must be true or false".to_owned())
}
