//! The budgets of refused recipients of a shard's sites. The rules are [`engine_proto::refusals`]. The counts are in a table
//! (`table.rs`), which outlives the shards and may be shared with other processes.
//!
//! A budget is no part of the record of a host (`site/route.rs`): it belongs to a site and a source, it counts single recipients,
//! and its counts outlive the process. The budget itself is in the state of the shard ([`RefusalBook`]); the groups of the site
//! have its key.

mod shared_file;
mod table;

use crate::config::EngineConfig;
use crate::faults::{Fault, planted};
use crate::invariants::Invariant;
use crate::seed::{HashMap, keyed_number};
use engine_proto::limits::{REFUSALS_KEPT_FOR_PROOF, REFUSALS_SITES_MAX};
use engine_proto::refusals::{KeptRefusals, RefusalBudget, RefusalCounts, step_at};
use engine_proto::smtp::reply::Reply;
use slab::Slab;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;
pub use table::{RefusalTable, TableFault};

/// The budget of one site and source, and where its counts are.
pub(crate) struct SiteRefusals {
    table: Arc<RefusalTable>,
    key: u64,
    /// The place of the counts in the table when it was last looked for.
    place: Option<usize>,
    /// The budget of the site for one IP address of ours.
    budget: RefusalBudget,
    /// Number of nodes that ask from the same address, which divide the budget.
    nodes: Arc<AtomicU32>,
}

/// The budgets of a shard's sites.
#[derive(Default)]
pub(crate) struct RefusalBook {
    budgets: Slab<SiteRefusals>,
    /// By the keys of the counts.
    keys: HashMap<u64, BudgetKey>,
}

/// The key of a budget in the book, which keeps the budget as long as any group has the key.
#[derive(Clone)]
pub(crate) struct BudgetKey(Rc<usize>);

/// Recipients that are being asked about. If it is dropped before [`AskedRecipients::end`], because the process stops, those
/// without an answer count as refused: their replies may be on the way.
pub(crate) struct AskedRecipients {
    /// The table, and the place of the site's counts in it.
    counts: Option<(Arc<RefusalTable>, usize)>,
    left: u32,
    /// The step in which one was last asked about or answered.
    step: u64,
}

/// The bits of a key that name the node.
const NODE_BITS: u64 = 0xffff;

impl SiteRefusals {
    fn new(
        table: Arc<RefusalTable>,
        key: u64,
        budget: RefusalBudget,
        nodes: Arc<AtomicU32>,
        step: u64,
    ) -> SiteRefusals {
        SiteRefusals { place: table.place_of(key, step), table, key, budget, nodes }
    }

    /// How many recipients may be asked about now, so that room is left for what proves their answers.
    pub(crate) fn room(&mut self, step: u64) -> usize {
        let room = self.room_for_proof(step);
        if room == usize::MAX { room } else { room.saturating_sub(REFUSALS_KEPT_FOR_PROOF) }
    }

    /// How many recipients may be asked about now to prove the answers that sessions hold.
    pub(crate) fn room_for_proof(&mut self, step: u64) -> usize {
        if planted(Fault::IgnoreBudget) {
            return usize::MAX;
        }
        self.counts(step).map_or(0, |counts| counts.left(self.budget()) as usize)
    }

    /// Whether the budget is used up, and no answer that any run awaits can change that.
    pub(crate) fn is_used_up(&mut self, step: u64) -> bool {
        if planted(Fault::IgnoreBudget) {
            return false;
        }
        // This is called for every work that arrives. While answers are awaited, the counts need not be read.
        self.place(step).is_some_and(|place| {
            self.table.asked_by_all(place) == 0
                && self.table.counts(place, step).left(self.budget()) as usize <= REFUSALS_KEPT_FOR_PROOF
        })
    }

    /// How long it takes until recipients may be asked about again.
    pub(crate) fn wait(&mut self, since_epoch: Duration) -> Duration {
        let (step, into) = step_at(since_epoch);
        self.counts(step).map_or(into, |counts| counts.wait(step, into))
    }

    /// Lowers the budget, because the site allows fewer refusals.
    pub(crate) fn lower(&mut self, budget: RefusalBudget) {
        self.budget = self.budget.min(budget);
    }

    /// Recipients that this run is asking about.
    pub(crate) fn asked(&self) -> u64 {
        self.current_place().map_or(0, |place| self.table.asked_by_own(place))
    }

    fn budget(&self) -> RefusalBudget {
        self.budget.divided(self.nodes.load(Ordering::Relaxed))
    }

    /// The counts over all runs; `None` if they have no place in the table at this moment.
    fn counts(&mut self, step: u64) -> Option<RefusalCounts> {
        self.place(step).map(|place| self.table.counts(place, step))
    }

    /// The place of the counts. If they have none, they get one. They keep it while this run asks about recipients.
    fn place(&mut self, step: u64) -> Option<usize> {
        if self.current_place().is_none() {
            self.place = self.table.place_of(self.key, step);
        }
        self.place
    }

    /// The place of the counts, if they have one.
    fn current_place(&self) -> Option<usize> {
        self.place.filter(|&place| self.table.is_at(self.key, place))
    }

    /// Adds recipients to those that are being asked about, and returns the place and how many the budget allows.
    fn reserve(&mut self, count: u32, keep: u32, step: u64) -> Option<(usize, u32)> {
        let place = self.place(step)?;
        self.table.on_asked(place, count);
        if !self.table.is_at(self.key, place) {
            // Another run has given the place away meanwhile.
            self.table.on_unanswered(place, count);
            return None;
        }
        let excess = match planted(Fault::IgnoreBudget) {
            true => 0,
            false => {
                let mut counts = self.table.counts(place, step);
                counts.asked = counts.asked.saturating_add(keep);
                counts.excess(self.budget()).min(count)
            }
        };
        self.table.on_unanswered(place, excess);
        Some((place, count - excess))
    }
}

impl AskedRecipients {
    /// Reserves room in the budget for up to `count` recipients, and leaves room for `keep` more. The site gets no more questions
    /// than [`AskedRecipients::count`].
    pub(crate) fn reserve(
        site: Option<&mut SiteRefusals>,
        count: usize,
        keep: usize,
        step: u64,
    ) -> AskedRecipients {
        let count = u32::try_from(count).unwrap_or(u32::MAX);
        let Some(site) = site.filter(|_| !planted(Fault::ForgetReserved)) else {
            return AskedRecipients { counts: None, left: count, step };
        };
        let (place, count) = site.reserve(count, keep as u32, step).unwrap_or_default();
        AskedRecipients { counts: Some((Arc::clone(&site.table), place)), left: count, step }
    }

    /// Number of recipients without an answer.
    pub(crate) fn count(&self) -> usize {
        self.left as usize
    }

    /// Gives back the room of all but this number of recipients, which are not asked about.
    pub(crate) fn keep(&mut self, count: usize) {
        let unused = self.left.saturating_sub(u32::try_from(count).unwrap_or(u32::MAX));
        self.left -= unused;
        if let Some((table, place)) = &self.counts {
            table.on_unanswered(*place, unused);
        }
    }

    /// The session ended before this number of recipients got an answer. If the site refuses recipients, it may have refused these too, or
    /// may do so later.
    pub(crate) fn on_lost(&mut self, count: usize, step: u64) {
        let refuses = |(table, place): &&(Arc<RefusalTable>, usize)| table.counts(*place, step).refused > 0;
        let Some((table, place)) = self.counts.as_ref().filter(refuses) else { return };
        let count = u32::try_from(count).unwrap_or(u32::MAX).min(self.left);
        self.left -= count;
        table.on_answered(*place, step, count, 0);
    }

    /// One was answered. A transient reply counts for nothing: greylisting is no refusal of a recipient.
    pub(crate) fn on_answer(&mut self, reply: &Reply, step: u64) {
        let Some(left) = self.left.checked_sub(1) else { return };
        self.left = left;
        self.step = step;
        let Some((table, place)) = &self.counts else { return };
        if reply.is_transient() {
            let is_forgotten = planted(Fault::Break(Invariant::AskedBack));
            table.on_unanswered(*place, u32::from(!is_forgotten));
        } else {
            let accepted = u32::from(reply.is_positive() && !planted(Fault::CountAccepts));
            table.on_answered(*place, step, 1 - accepted, accepted);
        }
    }

    /// The transaction has ended. Those that are left count as not asked about.
    pub(crate) fn end(mut self) {
        self.keep(0);
    }
}

impl Drop for AskedRecipients {
    fn drop(&mut self) {
        if let (Some((table, place)), left @ 1..) = (&self.counts, self.left) {
            table.on_answered(*place, self.step, left, 0);
        }
    }
}

impl RefusalBook {
    /// The budget of a site that is asked from a source, by their names; `None` where it has none.
    pub(crate) fn of(
        &mut self,
        config: &EngineConfig,
        table: &Arc<RefusalTable>,
        (site, source): (&str, &str),
        budget: RefusalBudget,
        step: u64,
    ) -> Option<BudgetKey> {
        if budget.is_unlimited() {
            return None;
        }
        let key = counts_key(config, site, source);
        if self.keys.len() >= REFUSALS_SITES_MAX {
            self.retain(|_| false);
        }
        let new = || {
            let (table, nodes) = (Arc::clone(table), Arc::clone(&config.egress_nodes));
            BudgetKey(Rc::new(self.budgets.insert(SiteRefusals::new(table, key, budget, nodes, step))))
        };
        Some(self.keys.entry(key).or_insert_with(new).clone())
    }

    /// The budget with this key.
    pub(crate) fn budget(&mut self, key: &BudgetKey) -> &mut SiteRefusals {
        &mut self.budgets[*key.0]
    }

    /// Forgets the sites that nobody asks and that have no counts.
    pub(crate) fn forget(&mut self, step: u64) {
        self.retain(|site| {
            site.current_place().is_some_and(|place| !site.table.counts(place, step).is_empty())
        });
    }

    /// Keeps the budgets that a group has a key of, and those for which the condition holds.
    fn retain(&mut self, stays: impl Fn(&SiteRefusals) -> bool) {
        self.keys.retain(|_, BudgetKey(slot)| {
            let stays = Rc::strong_count(slot) > 1 || stays(&self.budgets[**slot]);
            if !stays {
                self.budgets.remove(**slot);
            }
            stays
        });
    }
}

/// The key of the counts of a site and a source. If there is a node, the low 16 bits name it: they are the same in all keys of that
/// node.
fn counts_key(config: &EngineConfig, site: &str, source: &str) -> u64 {
    match config.node {
        None => keyed_number(&config.installation, &["refusals", site, source]),
        Some(node) => {
            let text = node.to_string();
            let key = keyed_number(&config.installation, &["refusals", site, source, &text]);
            key & !NODE_BITS | node_bits(node)
        }
    }
}

fn node_bits(node: i64) -> u64 {
    keyed_number(&[0; 32], &["node", &node.to_string()]) & NODE_BITS
}

/// Whether counts are those of this node, and not those of another one that shares the store. Two nodes are taken for one with a
/// probability of 1 in 65,536.
pub fn counts_are_of(node: Option<i64>, kept: &KeptRefusals) -> bool {
    node.is_none_or(|node| kept.key & NODE_BITS == node_bits(node))
}

#[cfg(test)]
mod tests {
    use super::*;

    const BUDGET: RefusalBudget = RefusalBudget { mostly_refused: 100, mostly_accepted: 600 };

    fn site() -> SiteRefusals {
        let table = Arc::new(RefusalTable::in_memory(1).unwrap());
        SiteRefusals::new(table, 7, BUDGET, Arc::new(AtomicU32::new(1)), 7)
    }

    fn refused() -> Reply {
        Reply::new(550, "5.1.1 no such user")
    }

    #[test]
    fn nodes_at_one_address_divide_the_budget_while_it_is_used() {
        let (mut site, step) = (site(), 7);
        AskedRecipients::reserve(Some(&mut site), 50, 0, step).end();
        let mut asked = AskedRecipients::reserve(Some(&mut site), 40, 0, step);
        (0..40).for_each(|_| asked.on_answer(&refused(), step));
        assert_eq!(site.room_for_proof(step), 60);
        site.nodes.store(2, Ordering::Relaxed);
        assert_eq!(site.room_for_proof(step), 10);
        site.nodes.store(3, Ordering::Relaxed);
        assert!(site.is_used_up(step), "33 of 100 are less than it has used");
        site.nodes.store(1, Ordering::Relaxed);
        assert_eq!(site.room_for_proof(step), 60, "the others have left");
    }

    #[test]
    fn each_node_has_counts_of_its_own() {
        let key = |node| {
            counts_key(
                &EngineConfig { installation: [7; 32], node, ..EngineConfig::default() },
                "a.example",
                "default",
            )
        };
        let kept = |node| KeptRefusals { key: key(node), steps: Vec::new() };
        let nodes = [Some(1), Some(2), Some(i64::MAX)];
        for (number, node) in nodes.into_iter().enumerate() {
            for other in nodes.into_iter().skip(number + 1) {
                assert!(key(node) != key(other) && !counts_are_of(other, &kept(node)), "{node:?} {other:?}");
            }
            assert!(counts_are_of(node, &kept(node)) && counts_are_of(None, &kept(node)));
        }
        let before = keyed_number(&[7; 32], &["refusals", "a.example", "default"]);
        assert_eq!(key(None), before, "stored counts keep their keys");
    }

    #[test]
    fn recipients_without_an_answer_count_where_others_are_refused() {
        let (mut site, step) = (site(), 7);
        let mut asked = AskedRecipients::reserve(Some(&mut site), 50, 0, step);
        asked.on_lost(8, step);
        assert_eq!(site.room_for_proof(step), 50, "nobody was refused yet");
        asked.on_answer(&refused(), step);
        assert_eq!(site.room_for_proof(step), 50, "all of them may be refused");
        asked.on_lost(8, step);
        asked.end();
        assert_eq!(site.room_for_proof(step), 100 - 9, "one was refused, and eight more may have been");
        let mut asked = AskedRecipients::reserve(Some(&mut site), 2, 0, step);
        asked.on_lost(8, step);
        assert_eq!(site.room_for_proof(step), 100 - 11, "no more than were asked about");
        // The run ends in the middle of a transaction.
        drop(AskedRecipients::reserve(Some(&mut site), 5, 0, step));
        assert_eq!(site.room_for_proof(step), 100 - 16, "their replies may be on the way");
    }

    #[test]
    fn no_more_is_reserved_than_the_budget_has() {
        let (mut site, step) = (site(), 7);
        let first = AskedRecipients::reserve(Some(&mut site), 90, 2, step);
        assert_eq!(first.count(), 90);
        let mut second = AskedRecipients::reserve(Some(&mut site), 20, 2, step);
        assert_eq!((second.count(), site.room(step), site.room_for_proof(step)), (8, 0, 2));
        let proof = AskedRecipients::reserve(Some(&mut site), 3, 0, step);
        assert_eq!((proof.count(), site.room_for_proof(step)), (2, 0));
        second.keep(3);
        assert_eq!((second.count(), site.room_for_proof(step)), (3, 5));
        assert!(!site.is_used_up(step), "answers may make room");
        [first, second, proof].into_iter().for_each(AskedRecipients::end);
        assert_eq!(site.room_for_proof(step), 100);
        let without_budget = AskedRecipients::reserve(None, 20, 2, step);
        assert_eq!(without_budget.count(), 20);
    }
}
