//! The budgets of refused recipients: how many recipients a site may refuse to one source (our address or proxy) in an hour, before
//! mailprobe stops asking the site. The rules are in [`engine_proto::refusals`].
//!
//! The counts are in a table (`table.rs`), which outlives the shards and may be shared with other processes. The budgets of a shard
//! are in its [`RefusalBook`], and each group (domains of a site with the same hosts) has the key of its budget.
//!
//! Before a session asks about recipients, it reserves room for them ([`AskedRecipients::reserve`]), as if all were refused. Each
//! reply then counts as a refusal or an accept, or gives the room back.

mod shared_file;
mod table;

use crate::config::EngineConfig;
use crate::faults::{Fault, planted};
use crate::invariants::Invariant;
use crate::seed::{HashMap, keyed_number};
use engine_proto::limits::{REFUSALS_KEPT_FOR_PROOF, REFUSALS_SITES_MAX, REFUSALS_STEP};
use engine_proto::refusals::{KeptRefusals, RefusalBudget, RefusalCounts, step_at};
use engine_proto::smtp::reply::Reply;
use slab::Slab;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;
pub use table::{RefusalTable, TableFault};

/// The budget of one site and source.
pub(crate) struct SiteRefusals {
    table: Arc<RefusalTable>,
    key: u64,
    /// The place of the counts in the table, from the last look-up. By now, the table may have given the place to another site.
    place: Option<usize>,
    /// The budget for the IP address of the source.
    budget: RefusalBudget,
    /// The number of nodes that share this IP address, and so divide the budget.
    nodes: Arc<AtomicU32>,
}

/// The budgets of a shard.
#[derive(Default)]
pub(crate) struct RefusalBook {
    budgets: Slab<SiteRefusals>,
    /// The keys of the budgets, by the keys of their counts in the table.
    keys: HashMap<u64, BudgetKey>,
}

/// The key of a budget in the book. The book keeps the budget at least as long as a group has this key.
#[derive(Clone)]
pub(crate) struct BudgetKey(Rc<usize>);

/// The room that a transaction has reserved for its recipients. If this is dropped before [`AskedRecipients::end`], for example
/// because the engine stops, the recipients without a reply count as refused, because their replies may be on the way.
pub(crate) struct AskedRecipients {
    /// The table, and the place of the site's counts in it. `None` if the site has no budget.
    counts: Option<(Arc<RefusalTable>, usize)>,
    /// Number of recipients without a reply.
    left: u32,
    /// The five-minute step of the last reply, or of the reservation.
    step: u64,
}

/// The bits of a key that depend only on the node.
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

    /// How many works may be asked about now. Some room is kept for the questions that prove the answers.
    pub(crate) fn room(&mut self, step: u64) -> usize {
        let room = self.room_for_proof(step);
        if room == usize::MAX { room } else { room.saturating_sub(REFUSALS_KEPT_FOR_PROOF) }
    }

    /// How many recipients may be asked about now to prove answers.
    pub(crate) fn room_for_proof(&mut self, step: u64) -> usize {
        if planted(Fault::IgnoreBudget) {
            return usize::MAX;
        }
        self.counts(step).map_or(0, |counts| counts.left(self.budget()) as usize)
    }

    /// Whether the budget is used up, except for the room that is kept to prove answers, and no process waits for a reply that
    /// could make room. False also if the table has no place for the counts.
    pub(crate) fn is_used_up(&mut self, step: u64) -> bool {
        if planted(Fault::IgnoreBudget) {
            return false;
        }
        // Most works that arrive cause this call, so the cheap test comes first.
        self.place(step).is_some_and(|place| {
            self.table.asked_by_all(place) == 0
                && self.table.counts(place, step).left(self.budget()) as usize <= REFUSALS_KEPT_FOR_PROOF
        })
    }

    /// The time until the oldest refusals no longer count, so that the budget may have room again. If there are none, or if the
    /// table has no place for the counts: the time until the present step ends.
    pub(crate) fn wait(&mut self, since_epoch: Duration) -> Duration {
        let (step, into) = step_at(since_epoch);
        self.counts(step).map_or(REFUSALS_STEP.saturating_sub(into), |counts| counts.wait(step, into))
    }

    /// Lowers the budget, because a server of the site has shown that it allows fewer refusals.
    pub(crate) fn lower(&mut self, budget: RefusalBudget) {
        self.budget = self.budget.min(budget);
    }

    /// The number of recipients about which this process is asking.
    pub(crate) fn asked(&self) -> u64 {
        self.current_place().map_or(0, |place| self.table.asked_by_own(place))
    }

    fn budget(&self) -> RefusalBudget {
        self.budget.divided(self.nodes.load(Ordering::Relaxed))
    }

    /// The counts of all processes. `None` if they cannot get a place in the table now.
    fn counts(&mut self, step: u64) -> Option<RefusalCounts> {
        self.place(step).map(|place| self.table.counts(place, step))
    }

    /// The place of the counts. If they have none now, gets one for them, if possible. The counts keep their place while any
    /// process waits for replies about recipients of the site.
    fn place(&mut self, step: u64) -> Option<usize> {
        if self.current_place().is_none() {
            self.place = self.table.place_of(self.key, step);
        }
        self.place
    }

    /// The place of the counts, if it is still theirs.
    fn current_place(&self) -> Option<usize> {
        self.place.filter(|&place| self.table.is_at(self.key, place))
    }

    /// Reserves room for up to `count` recipients, and leaves room for `keep` more. Returns the place of the counts and the number
    /// of recipients that have room. `None` if the counts have no place, so nothing may be asked.
    fn reserve(&mut self, count: u32, keep: u32, step: u64) -> Option<(usize, u32)> {
        let place = self.place(step)?;
        self.table.on_asked(place, count);
        if !self.table.is_at(self.key, place) {
            // The table is giving the place to another site, or has just done so.
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
    /// Reserves room in the budget for up to `count` recipients, and leaves room for `keep` more. The caller may ask about
    /// [`AskedRecipients::count`] recipients, which is all of them if the site has no budget.
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

    /// The number of reserved recipients without a reply.
    pub(crate) fn count(&self) -> usize {
        self.left as usize
    }

    /// Keeps the room of `count` recipients, and gives back the rest, because the caller asks about no more.
    pub(crate) fn keep(&mut self, count: usize) {
        let unused = self.left.saturating_sub(u32::try_from(count).unwrap_or(u32::MAX));
        self.left -= unused;
        if let Some((table, place)) = &self.counts {
            table.on_unanswered(*place, unused);
        }
    }

    /// The session ended while `count` recipients waited for a reply. If the site has refused any recipient within the last hour,
    /// these count as refused too.
    pub(crate) fn on_lost(&mut self, count: usize, step: u64) {
        let refuses = |(table, place): &&(Arc<RefusalTable>, usize)| table.counts(*place, step).refused > 0;
        let Some((table, place)) = self.counts.as_ref().filter(refuses) else { return };
        let count = u32::try_from(count).unwrap_or(u32::MAX).min(self.left);
        self.left -= count;
        table.on_answered(*place, step, count, 0);
    }

    /// A recipient got a reply. A transient reply gives the room back, because it is not a refusal for good: greylisting, for
    /// example. Any other reply counts as a refusal or an accept.
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

    /// The transaction has ended. Gives back the room of recipients without a reply.
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
    /// Finds or makes the budget of a site and a source (by their names), and returns its key. `None` if the budget is unlimited.
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

    pub(crate) fn budget(&mut self, key: &BudgetKey) -> &mut SiteRefusals {
        &mut self.budgets[*key.0]
    }

    /// Forgets budgets that no group has, and that have no counts of the last hour.
    pub(crate) fn forget(&mut self, step: u64) {
        self.retain(|site| {
            site.current_place().is_some_and(|place| !site.table.counts(place, step).is_empty())
        });
    }

    /// Keeps the budgets of groups, and those for which the condition holds.
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

/// The key of the counts of a site and a source in the table. If nodes share the store, the low 16 bits of the key are the same in
/// all keys of a node ([`node_bits`]).
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

/// Whether these counts belong to this node, and not to another one that shares the store. Always true without a node number. With
/// a probability of 1 in 65,536, two nodes have the same bits in their keys, and cannot be distinguished.
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
