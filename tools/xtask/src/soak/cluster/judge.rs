//! The judge: compares what clients were told with the ledger, and the answers with each other.
//!
//! - Money: every check that was answered and charged is in the ledger once; nothing else is, except calls whose outcome
//!   the client does not know.
//! - `credits_remaining`: between two bounds. A charge that was acknowledged before the call began must be in it. It has no
//!   charge that began after the call had ended. A hold of a call without an answer may be in it, until it is voided.
//! - Idempotency-Keys: one batch for each.
//! - Answers: only those that the API allows, with a connection error only at a node that a fault has hit.

use super::calls::{ClusterCall, NodeRequest};
use crate::soak::judge::{self, Claim};
use crate::soak::world::Ledger;
use std::collections::{BTreeMap, BTreeSet};

/// A hold of a call without an answer is voided after this time at the latest, in milliseconds.
const HOLD_MS: u64 = 200_000;
/// Faults that a rule prints.
const SHOWN: usize = 5;

/// When a fault hit something, in milliseconds since the start.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FaultWindow {
    pub name: String,
    /// The node that it hit, if it was one.
    pub node: Option<usize>,
    pub begin: u64,
    /// All is healed, and writes succeed again.
    pub end: u64,
}

/// What a rule has found: how much it has compared, and what is wrong.
#[derive(Debug, Default)]
pub struct Finding {
    pub rule: &'static str,
    pub compared: usize,
    pub wrong: Vec<String>,
}

impl Finding {
    fn new(rule: &'static str) -> Finding {
        Finding { rule, ..Finding::default() }
    }

    /// The outcome for a tally.
    pub fn outcome(&self) -> Result<String, String> {
        if self.wrong.is_empty() {
            return Ok(format!("{} compared", self.compared));
        }
        let shown: Vec<&str> = self.wrong.iter().take(SHOWN).map(String::as_str).collect();
        Err(format!("{} of {}\n      {}", self.wrong.len(), self.compared, shown.join("\n      ")))
    }
}

/// Judges a run: all calls, the accounts at its end, and when faults were.
pub fn judge(calls: &[ClusterCall], accounts: &[Ledger], windows: &[FaultWindow]) -> Vec<Finding> {
    vec![
        charged_once(calls),
        money(calls, accounts),
        balances(calls, accounts),
        batches(calls),
        answers(calls, windows),
    ]
}

/// The calls for each address of an account.
fn by_address(calls: &[ClusterCall]) -> BTreeMap<(usize, &str), Vec<&ClusterCall>> {
    let mut found: BTreeMap<(usize, &str), Vec<&ClusterCall>> = BTreeMap::new();
    for call in calls {
        if let NodeRequest::Check(address) = &call.kind {
            found.entry((call.account, address)).or_default().push(call);
        }
    }
    found
}

/// The calls for each Idempotency-Key of an account, with the number of rows.
fn by_key(calls: &[ClusterCall]) -> BTreeMap<(usize, &str), (u64, Vec<&ClusterCall>)> {
    let mut found: BTreeMap<(usize, &str), (u64, Vec<&ClusterCall>)> = BTreeMap::new();
    for call in calls {
        if let NodeRequest::Batch(once, rows) = &call.kind {
            found.entry((call.account, once)).or_insert((*rows, Vec::new())).1.push(call);
        }
    }
    found
}

fn show(calls: &[&ClusterCall]) -> String {
    let lines: Vec<String> = calls.iter().map(|call| call.to_json().to_string()).collect();
    lines.join("\n        ")
}

/// An address is charged once, and a repeat has an earlier charge.
fn charged_once(calls: &[ClusterCall]) -> Finding {
    let mut finding = Finding::new("an address is charged once, its repeats are free");
    for ((_, address), calls) in by_address(calls) {
        finding.compared += 1;
        let charged = calls.iter().filter(|call| call.is_charged_check()).count();
        let repeats = calls.iter().filter(|call| call.success().is_some_and(|answer| answer.cached)).count();
        let has_unknown = calls.iter().any(|call| call.is_unknown());
        if charged > 1 || (charged == 0 && repeats > 0 && !has_unknown) {
            finding.wrong.push(format!("{address} charged {charged} times:\n        {}", show(&calls)));
        }
    }
    finding
}

/// The calls of an account for each thing that is paid once, with its price: an address, or the batch of an Idempotency-Key.
fn purchases(calls: &[ClusterCall], account: usize) -> Vec<(u64, Vec<&ClusterCall>)> {
    let of = |(of, _): &(usize, &str)| *of == account;
    let checks = by_address(calls).into_iter().filter(|(key, _)| of(key)).map(|(_, calls)| (1, calls));
    let batches = by_key(calls).into_iter().filter(|(key, _)| of(key)).map(|(_, batch)| batch);
    checks.chain(batches).collect()
}

/// The credits that are surely charged, and those that may be in addition.
fn bounds(calls: &[ClusterCall], account: usize) -> (u64, u64) {
    let (mut sure, mut open) = (0, 0);
    for (credits, calls) in purchases(calls, account) {
        if calls.iter().any(|call| call.success().is_some()) {
            sure += credits;
        } else if calls.iter().any(|call| call.is_unknown()) {
            open += credits;
        }
    }
    (sure, open)
}

fn money(calls: &[ClusterCall], accounts: &[Ledger]) -> Finding {
    let mut finding = Finding::new("the ledger has each acknowledged charge once, and no refused one");
    for (account, ledger) in accounts.iter().enumerate() {
        let (paid, open) = bounds(calls, account);
        finding.compared += usize::try_from(paid).unwrap_or(usize::MAX);
        let claim = Claim { paid, open, ..Claim::default() };
        finding.wrong.extend(judge::ledger(&format!("account {account}"), &claim, ledger).err());
    }
    finding
}

/// A charge of the client's side: when it can have begun, and when it was acknowledged.
struct Charge {
    begin: u64,
    /// `None`: never.
    acknowledged: Option<u64>,
    credits: u64,
}

/// The charges of an account, and the times of calls without an answer, with their credits.
fn charges(calls: &[ClusterCall], account: usize) -> (Vec<Charge>, Vec<(u64, u64, u64)>) {
    let (mut charges, mut unknown) = (Vec::new(), Vec::new());
    for (credits, calls) in purchases(calls, account) {
        let begin = calls.iter().map(|call| call.begin).min().unwrap_or_default();
        let acknowledged = calls.iter().filter(|call| call.success().is_some()).map(|call| call.end).min();
        if acknowledged.is_some() || calls.iter().any(|call| call.is_unknown()) {
            charges.push(Charge { begin, acknowledged, credits });
        }
        let lost = calls.iter().filter(|call| call.is_unknown());
        unknown.extend(lost.map(|call| (call.begin, call.end + HOLD_MS, credits)));
    }
    (charges, unknown)
}

/// A sum over all entries until a time, found by a binary search.
struct Sums(Vec<(u64, u64)>);

impl Sums {
    fn of(mut entries: Vec<(u64, u64)>) -> Sums {
        entries.sort_unstable();
        let mut sum = 0;
        for entry in &mut entries {
            sum += entry.1;
            entry.1 = sum;
        }
        Sums(entries)
    }

    /// The sum of entries whose time is less than this one.
    fn before(&self, time: u64) -> u64 {
        let count = self.0.partition_point(|(at, _)| *at < time);
        count.checked_sub(1).map_or(0, |last| self.0[last].1)
    }
}

fn balances(calls: &[ClusterCall], accounts: &[Ledger]) -> Finding {
    let mut finding = Finding::new("credits_remaining fits an order of the calls");
    for (account, end) in accounts.iter().enumerate() {
        let granted = end.credits.granted;
        let (charges, unknown) = charges(calls, account);
        let acknowledged = charges.iter().filter_map(|charge| Some((charge.acknowledged?, charge.credits)));
        let acknowledged = Sums::of(acknowledged.collect());
        let begun = Sums::of(charges.iter().map(|charge| (charge.begin, charge.credits)).collect());
        let lost = Sums::of(unknown.iter().map(|(begin, _, credits)| (*begin, *credits)).collect());
        let voided = Sums::of(unknown.iter().map(|(_, end, credits)| (*end, *credits)).collect());
        for call in calls.iter().filter(|call| call.account == account) {
            let Some(credits) = call.success().and_then(|answer| answer.credits) else { continue };
            // A replay has the balance of the first answer.
            if call.success().is_some_and(|answer| answer.replayed) {
                continue;
            }
            finding.compared += 1;
            // A call that is charged now shows the balance after its own charge.
            let own = match &call.kind {
                NodeRequest::Batch(_, rows) => *rows,
                NodeRequest::Check(_) => 1,
                _ => 0,
            };
            let most = granted.saturating_sub(acknowledged.before(call.begin) + own);
            let holds = lost.before(call.end + 1).saturating_sub(voided.before(call.begin));
            let least = granted.saturating_sub(begun.before(call.end + 1) + holds);
            if !(least..=most).contains(&credits) {
                let bounds = format!("{credits} is not within {least} to {most}");
                finding.wrong.push(format!("account {account}: {bounds}\n        {}", show(&[call])));
            }
        }
    }
    finding
}

fn batches(calls: &[ClusterCall]) -> Finding {
    let mut finding = Finding::new("an Idempotency-Key has one batch");
    let mut keys_of: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for ((_, once), (_, calls)) in by_key(calls) {
        finding.compared += 1;
        let successes: Vec<_> = calls.iter().filter_map(|call| call.success()).collect();
        let ids: BTreeSet<&str> = successes.iter().map(|answer| answer.batch.as_str()).collect();
        let originals = successes.iter().filter(|answer| !answer.replayed).count();
        if ids.len() > 1 || originals > 1 {
            let what = format!("{once} has {} batches, {originals} not replayed", ids.len());
            finding.wrong.push(format!("{what}:\n        {}", show(&calls)));
        }
        for id in ids {
            keys_of.entry(id).or_default().insert(once);
        }
    }
    let shared = keys_of.iter().filter(|(_, keys)| keys.len() > 1);
    finding.wrong.extend(shared.map(|(id, keys)| format!("batch {id} has the keys {keys:?}")));
    finding
}

/// The deadline of the store for a read or write, in milliseconds.
const CALL_TIME_MS: u64 = 15_000;

/// Whether the API allows an answer, apart from faults of a node.
fn is_allowed(call: &ClusterCall) -> bool {
    let Ok(answer) = &call.result else { return false };
    let is_always_served = matches!(call.kind, NodeRequest::Fast | NodeRequest::TestKey);
    match answer.status {
        200 | 202 => true,
        503 => answer.retry_after && !is_always_served,
        429 => answer.retry_after,
        409 => matches!(call.kind, NodeRequest::Batch(..)),
        _ => false,
    }
}

/// A connection may break while a fault hits its node. A node that was stopped for longer than a call may take answers 503 when it
/// runs again.
fn is_explained(call: &ClusterCall, windows: &[FaultWindow]) -> bool {
    let hits = |window: &&FaultWindow| {
        window.node == Some(call.node) && call.begin <= window.end && call.end >= window.begin
    };
    let mut hits = windows.iter().filter(hits);
    match &call.result {
        Ok(answer) => {
            let is_stopped = |window: &FaultWindow| {
                let stopped = window.end.min(call.end).saturating_sub(window.begin.max(call.begin));
                window.name.starts_with("pause-node") && stopped > CALL_TIME_MS
            };
            answer.status == 503 && answer.retry_after && hits.any(is_stopped)
        }
        _ => hits.next().is_some(),
    }
}

fn answers(calls: &[ClusterCall], windows: &[FaultWindow]) -> Finding {
    let mut finding = Finding::new("only answers that are allowed; fast checks and test keys have no error");
    for call in calls {
        finding.compared += 1;
        if !is_allowed(call) && !is_explained(call, windows) {
            finding.wrong.push(call.to_json().to_string());
        }
    }
    finding
}

/// The longest time without an acknowledged write in a window, in milliseconds.
pub fn longest_pause(writes: &[u64], window: &FaultWindow) -> u64 {
    // The last write before the window is the start of its first pause.
    let first = writes.partition_point(|at| *at < window.begin).saturating_sub(1);
    let end = writes.partition_point(|at| *at <= window.end);
    let within = writes.get(first..(end + 1).min(writes.len())).unwrap_or_default();
    within.windows(2).map(|pair| pair[1] - pair[0]).max().unwrap_or_default()
}

#[cfg(test)]
mod tests;
