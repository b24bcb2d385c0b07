//! What a process keeps for its next run, and shares with the other nodes: limits, counters, and the engine's knowledge.

use super::Store;
use crate::backend::{Class, Job, Want};
use crate::rows::Table;
use crate::tables::window_key;
use crate::{limits, refusals};
use engine::KeptRefusals;
use store::rate_limit::{Kept, Leased, WindowId};
use store::*;

impl Store {
    /// Takes permits from the window that all nodes share, at most `want`. If it fails, none was taken, or they are lost.
    pub fn lease_permits(
        &self,
        id: WindowId,
        limit: u32,
        want: u32,
        now: UnixMs,
    ) -> Pending<Leased, StoreError> {
        let job = Job::general(Class::New).with_wants(move |out| {
            out.push(Want::row(Table::Windows, &window_key(&id)));
        });
        self.write(job, move |txn| Ok(txn.lease_permits(id, limit, want, now)?))
    }

    /// Whether other nodes use the same database: then batches and lists are claimed, and limits are shared.
    pub fn has_nodes(&self) -> bool {
        self.shared().has_nodes
    }

    /// Whether this process may work on what it has claimed. A node without a lease must not: others take over its work.
    pub fn may_work(&self) -> bool {
        self.backend.may_work()
    }

    /// The number of live nodes that share the database, with this one.
    pub fn live_nodes(&self) -> u32 {
        self.backend.live_nodes()
    }

    /// The place of this process among the nodes.
    pub fn place(&self) -> NodePlace {
        self.backend.place()
    }

    /// Stores counters for the next start, and removes empty ones.
    pub fn keep_counters(&self, changed: Kept) -> Pending<(), StoreError> {
        self.write(Job::general(Class::New), move |txn| Ok(txn.keep_counters(&changed)?))
    }

    /// All counters that are stored.
    pub fn kept_counters(&self) -> Pending<Kept, StoreError> {
        self.scan(|_, rows| limits::read_counters(rows))
    }

    /// The secret of this installation, which is created with the data folder and never changes. It reads memory only.
    pub fn installation(&self) -> [u8; 32] {
        self.shared().vault.derive("installation")
    }

    /// Stores counts of refused recipients for the next start, replacing those with the same key. Counts without a step
    /// are removed.
    pub fn keep_refusals(&self, changed: Vec<KeptRefusals>) -> Pending<(), StoreError> {
        self.write(Job::general(Class::New), move |txn| Ok(txn.keep_refusals(&changed)?))
    }

    /// Removes stored counts of refused recipients with these keys, except those that another node has added to since, so that they
    /// count at `now`.
    pub fn forget_refusals(&self, keys: Vec<u64>, now: UnixMs) -> Pending<(), StoreError> {
        self.write(Job::general(Class::New), move |txn| Ok(txn.forget_refusals(&keys, now)?))
    }

    /// All stored counts of refused recipients, also those that no longer apply.
    pub fn kept_refusals(&self) -> Pending<Vec<KeptRefusals>, StoreError> {
        self.scan(|_, rows| refusals::read_refusals(rows))
    }

    /// Withdraws evidence. A verdict that depends on it and was found before `now` is not used again, neither as a
    /// repeat nor for another account. The results of batches are unchanged.
    pub fn withdraw(&self, evidence: Vec<u64>, now: UnixMs) -> Pending<(), StoreError> {
        self.write(Job::general(Class::New), move |txn| Ok(txn.withdraw(&evidence, now)?))
    }
}
