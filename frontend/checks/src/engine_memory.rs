//! The engine's knowledge that must survive the process: the counts of refused recipients, and the withdrawn evidence.
//!
//! A thread reads both each second and gives the changes to the store. So a kill loses at most the refusals and
//! withdrawals of the last seconds. The counts have neither names nor addresses.

use crate::engine_client::{Backend, RefusalsLook, WithdrawnLook};
use crate::keeper::Keeper;
use engine::proto::limits::REFUSALS_STEPS;
use engine::proto::refusals::{are_over, step_at};
use engine::{KeptRefusals, KeptStep, counts_are_of};
use std::collections::{BTreeSet, HashMap};
use std::io;
use std::sync::Arc;
use std::time::Duration;
use store::clock;
use store::{StoreError, UnixMs};
use store_rules::Store;

/// How often the engine is read.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// How many rows one write has: other writes must not wait long for it.
const ROWS_OF_WRITE_MAX: usize = 250;

/// For how many sites and sources counts are kept; those with the most refusals remain.
const KEPT_MAX: usize = 100_000;

/// The contents of the store, and the changes that are not written yet.
struct EngineMemory {
    store: Arc<Store>,
    refusals: RefusalsLook,
    withdrawn: WithdrawnLook,
    /// The counts in the store.
    kept: HashMap<u64, Vec<KeptStep>>,
    /// Evidence that is not in the store yet.
    unwritten: BTreeSet<u64>,
}

/// The stored counts of a node. Counts of other nodes are removed if they are over, because a node that has gone cannot do it.
///
/// # Errors
///
/// The store cannot do it.
pub fn counts_of_node(
    store: &Store,
    node: Option<i64>,
    now: UnixMs,
) -> Result<Vec<KeptRefusals>, StoreError> {
    let kept = store.kept_refusals().wait()?;
    let (own, others): (Vec<_>, Vec<_>) = kept.into_iter().partition(|kept| counts_are_of(node, kept));
    let step = step_at(Duration::from_millis(now)).0;
    let over = others.iter().filter(|kept| are_over(&kept.steps, step));
    let over: Vec<u64> = over.map(|kept| kept.key).collect();
    for keys in over.chunks(ROWS_OF_WRITE_MAX) {
        store.forget_refusals(keys.to_vec(), now).wait()?;
    }
    Ok(own)
}

/// Starts the thread for an engine; `kept` has the counts of this node in the store. Drop it after the engine was stopped.
///
/// # Errors
///
/// The operating system has no thread for it.
pub fn start(store: &Arc<Store>, engine: &dyn Backend, kept: Vec<KeptRefusals>) -> io::Result<Keeper> {
    let mut memory = EngineMemory {
        store: Arc::clone(store),
        refusals: engine.refusals(),
        withdrawn: engine.withdrawn(),
        kept: kept.into_iter().map(|kept| (kept.key, kept.steps)).collect(),
        unwritten: BTreeSet::new(),
    };
    let mut failing = false;
    Keeper::start("engine-memory", LOOK_EVERY, move || {
        let written = memory.write(clock::now());
        if let (Err(error), false) = (&written, failing) {
            tracing::warn!("counts of refusals and withdrawn verdicts are not kept: {error}");
        }
        failing = written.is_err();
    })
}

impl EngineMemory {
    /// Gives the changes to the store. Changes that it does not accept go with the next write.
    fn write(&mut self, now: UnixMs) -> Result<(), StoreError> {
        self.unwritten.extend((self.withdrawn)().into_iter().map(|withdrawn| withdrawn.evidence));
        while !self.unwritten.is_empty() {
            let rows: Vec<u64> = self.unwritten.iter().copied().take(ROWS_OF_WRITE_MAX).collect();
            // The time is that of the write, not of the withdrawal, so that it also covers a verdict that was being
            // stored meanwhile.
            self.store.withdraw(rows.clone(), now).wait()?;
            for row in rows {
                self.unwritten.remove(&row);
            }
        }
        let counts = most_refused((self.refusals)(), KEPT_MAX);
        let changed = changed(&self.kept, counts, Duration::from_millis(now));
        for rows in changed.chunks(ROWS_OF_WRITE_MAX) {
            self.store.keep_refusals(rows.to_vec()).wait()?;
            for KeptRefusals { key, steps } in rows {
                if steps.is_empty() {
                    self.kept.remove(key);
                } else {
                    self.kept.insert(*key, steps.clone());
                }
            }
        }
        Ok(())
    }
}

/// The `most` counts with the most refusals.
fn most_refused(mut counts: Vec<KeptRefusals>, most: usize) -> Vec<KeptRefusals> {
    if counts.len() > most {
        let refused =
            |kept: &KeptRefusals| kept.steps.iter().map(|step| u64::from(step.refused)).sum::<u64>();
        counts.sort_by_cached_key(|kept| std::cmp::Reverse(refused(kept)));
        counts.truncate(most);
    }
    counts
}

/// The rows to write so that the store has `counts`. Counts that are missing there remain as long as one of their steps
/// may count; then they are written without steps.
fn changed(
    kept: &HashMap<u64, Vec<KeptStep>>,
    counts: Vec<KeptRefusals>,
    since_epoch: Duration,
) -> Vec<KeptRefusals> {
    let (step, _) = step_at(since_epoch);
    let is_over = |steps: &[KeptStep]| kept.len() > KEPT_MAX || are_over(steps, step);
    let over = kept.iter().filter(|(_, steps)| is_over(steps));
    let mut gone: BTreeSet<u64> = over.map(|(&key, _)| key).collect();
    let mut changed = Vec::new();
    for mut count in counts {
        // The engine keeps no more steps, and a row with more could not be read.
        let surplus = count.steps.len().saturating_sub(REFUSALS_STEPS);
        count.steps.drain(..surplus);
        gone.remove(&count.key);
        let before = kept.get(&count.key).map_or(&[][..], Vec::as_slice);
        if before != count.steps {
            changed.push(count);
        }
    }
    changed.extend(gone.into_iter().map(|key| KeptRefusals { key, steps: Vec::new() }));
    changed
}

#[cfg(test)]
mod tests;
