//! The budgets of refused recipients of a shard's sites, and how they are kept over restarts. The rules are
//! [`engine_proto::refusals`].
//!
//! A budget is no part of the record of a host (`site/route.rs`): its key is a site and a source, it counts single recipients,
//! and it outlives the process.

use crate::config::EngineConfig;
use crate::faults::{Fault, planted};
use crate::seed::{HashMap, keyed_number};
use crate::shard::{ShardFace, Shared};
use engine_proto::limits::{REFUSALS_KEPT_FOR_PROOF, REFUSALS_SITES_MAX};
use engine_proto::refusals::{KeptRefusals, RefusalBudget, RefusalCounts, step_at};
use engine_proto::smtp::reply::Reply;
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant, SystemTime};

/// The counts of one site and source, and its budget.
pub(crate) struct SiteRefusals {
    counts: RefCell<RefusalCounts>,
    /// The budget of the site for one address.
    budget: Cell<RefusalBudget>,
    /// Number of nodes that ask from the same address, which divide the budget.
    nodes: Arc<AtomicU32>,
    changed: Cell<bool>,
}

/// The counts of a shard's sites, by the keys under which they are kept.
#[derive(Default)]
pub(crate) struct RefusalBook {
    sites: RefCell<HashMap<u64, Rc<SiteRefusals>>>,
    published: Cell<Option<Instant>>,
}

/// Recipients that are being asked about; those that got no answer are given back when it is dropped.
pub(crate) struct AskedRecipients {
    site: Option<Rc<SiteRefusals>>,
    left: Cell<u32>,
}

/// The bits of a key that name the node.
const NODE_BITS: u64 = 0xffff;
/// How often other threads are shown what was counted.
const PUBLISH: Duration = Duration::from_secs(1);

impl SiteRefusals {
    /// How many recipients may be asked about now, so that room is left for what proves their answers.
    pub(crate) fn room(&self, step: u64) -> usize {
        let room = self.room_for_proof(step);
        if room == usize::MAX { room } else { room.saturating_sub(REFUSALS_KEPT_FOR_PROOF) }
    }

    /// How many recipients may be asked about now to prove the answers that sessions hold.
    pub(crate) fn room_for_proof(&self, step: u64) -> usize {
        if planted(Fault::IgnoreBudget) {
            return usize::MAX;
        }
        let budget = self.budget.get().divided(self.nodes.load(Ordering::Relaxed));
        self.counts.borrow().left(budget, step) as usize
    }

    /// Whether the budget is used up, and no answer that is awaited can change that.
    pub(crate) fn is_used_up(&self, step: u64) -> bool {
        self.room(step) == 0 && !self.counts.borrow().awaits_answers()
    }

    /// How long it takes until recipients may be asked about again.
    pub(crate) fn wait(&self, since_epoch: Duration) -> Duration {
        let (step, into) = step_at(since_epoch);
        self.counts.borrow().wait(step, into)
    }

    /// Lowers the budget, because the site allows fewer refusals.
    pub(crate) fn lower(&self, budget: RefusalBudget) {
        self.budget.set(self.budget.get().min(budget));
    }
}

impl AskedRecipients {
    /// `count` recipients are being asked about.
    pub(crate) fn begin(site: Option<&Rc<SiteRefusals>>, count: usize) -> AskedRecipients {
        let count = u32::try_from(count).unwrap_or(u32::MAX);
        let site = site.map(Rc::clone);
        let site = site.filter(|_| !planted(Fault::ForgetReserved));
        if let Some(site) = &site {
            site.counts.borrow_mut().on_asked(count);
        }
        AskedRecipients { site, left: Cell::new(count) }
    }

    /// The session ended before this number of recipients got an answer. If the site refuses recipients, it may have refused these too, or
    /// may do so later.
    pub(crate) fn on_lost(&self, count: usize, step: u64) {
        let refuses = |site: &&Rc<SiteRefusals>| site.counts.borrow().totals(step).0 > 0;
        let Some(site) = self.site.as_ref().filter(refuses) else { return };
        let count = u32::try_from(count).unwrap_or(u32::MAX).min(self.left.get());
        self.left.set(self.left.get() - count);
        (0..count).for_each(|_| site.counts.borrow_mut().on_answer(false, step));
        site.changed.set(site.changed.get() || count > 0);
    }

    /// One was answered. A transient reply counts for nothing: greylisting is no refusal of a recipient.
    pub(crate) fn on_answer(&self, reply: &Reply, step: u64) {
        self.left.set(self.left.get().saturating_sub(1));
        let Some(site) = &self.site else { return };
        if reply.is_transient() {
            return site.counts.borrow_mut().on_unanswered(1);
        }
        site.counts.borrow_mut().on_answer(reply.is_positive(), step);
        site.changed.set(true);
    }
}

impl Drop for AskedRecipients {
    fn drop(&mut self) {
        if let Some(site) = &self.site {
            site.counts.borrow_mut().on_unanswered(self.left.get());
        }
    }
}

impl RefusalBook {
    /// The counts of a site that is asked from a source; `None` where it has no budget.
    pub(crate) fn of(
        &self,
        shared: &Shared,
        site: &str,
        source: usize,
        budget: RefusalBudget,
        step: u64,
    ) -> Option<Rc<SiteRefusals>> {
        if budget.is_unlimited() {
            return None;
        }
        let source = &shared.pool.sources[source].label;
        let key = counts_key(&shared.config, site, source);
        let mut sites = self.sites.borrow_mut();
        if !sites.contains_key(&key) {
            make_room(&mut sites, step);
        }
        let new = || {
            let kept = shared.kept.lock().unwrap_or_else(PoisonError::into_inner).remove(&key);
            let counts = RefusalCounts::restore(kept.unwrap_or_default(), step);
            let changed = Cell::new(!counts.is_empty(step));
            let nodes = Arc::clone(&shared.config.egress_nodes);
            Rc::new(SiteRefusals { counts: RefCell::new(counts), budget: Cell::new(budget), nodes, changed })
        };
        Some(Rc::clone(sites.entry(key).or_insert_with(new)))
    }

    /// Shows other threads what has changed, once in a while.
    pub(crate) fn publish(&self, face: &ShardFace, now: Instant, step: u64) {
        if self.published.get().is_some_and(|at| now.saturating_duration_since(at) < PUBLISH) {
            return;
        }
        self.published.set(Some(now));
        self.show(face, step);
    }

    /// Shows what was counted, whenever it was shown before: the last look of a shard that ends is one, too.
    pub(crate) fn show(&self, face: &ShardFace, step: u64) {
        let mut sites = self.sites.borrow_mut();
        let before = sites.len();
        sites.retain(|_, site| Rc::strong_count(site) > 1 || !site.counts.borrow().is_empty(step));
        let changed =
            sites.values().fold(before != sites.len(), |any, site| site.changed.replace(false) || any);
        if changed {
            let keep = |(&key, site): (&u64, &Rc<SiteRefusals>)| KeptRefusals {
                key,
                steps: site.counts.borrow().kept(step),
            };
            let kept = sites.iter().map(keep).filter(|kept| !kept.steps.is_empty()).collect();
            *face.refusals.lock().unwrap_or_else(PoisonError::into_inner) = kept;
        }
    }
}

/// The key of the counts of a site and a source. With a node, its low bits are those of all counts of that node.
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

/// Whether counts are those of this node, and not those of another one that shares the store. Two of 65,536 nodes may be
/// taken for one.
pub fn counts_are_of(node: Option<i64>, kept: &KeptRefusals) -> bool {
    node.is_none_or(|node| kept.key & NODE_BITS == node_bits(node))
}

/// Makes room for one more site: what no longer counts goes first, then the sites that refused the fewest.
fn make_room(sites: &mut HashMap<u64, Rc<SiteRefusals>>, step: u64) {
    if sites.len() < REFUSALS_SITES_MAX {
        return;
    }
    let in_use = |site: &Rc<SiteRefusals>| Rc::strong_count(site) > 1;
    sites.retain(|_, site| in_use(site) || !site.counts.borrow().is_empty(step));
    for most in [0, 1, 4, 16, 64] {
        if sites.len() >= REFUSALS_SITES_MAX / 2 {
            sites.retain(|_, site| in_use(site) || site.counts.borrow().totals(step).0 > most);
        }
    }
}

impl Shared {
    /// How long ago the Unix epoch was, by the wall clock of the start and the time since then.
    pub(crate) fn since_epoch(&self, now: Instant) -> Duration {
        let started = self.started_at.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        started + self.age(now)
    }

    /// The number of the step that counts refusals now.
    pub(crate) fn refusal_step(&self, now: Instant) -> u64 {
        step_at(self.since_epoch(now)).0
    }

    /// All counts: of sites that this run asked, and of those that an earlier run asked.
    pub(crate) fn kept_refusals(&self) -> Vec<KeptRefusals> {
        let step = self.refusal_step(Instant::now());
        let old = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let still = |(&key, steps): (&u64, &Vec<_>)| KeptRefusals {
            key,
            steps: RefusalCounts::restore(steps.clone(), step).kept(step),
        };
        let mut all: Vec<_> = old.iter().map(still).filter(|kept| !kept.steps.is_empty()).collect();
        drop(old);
        for face in &self.shards {
            all.extend(face.refusals.lock().unwrap_or_else(PoisonError::into_inner).iter().cloned());
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BUDGET: RefusalBudget = RefusalBudget { mostly_refused: 100, mostly_accepted: 600 };

    fn site() -> Rc<SiteRefusals> {
        let counts = RefCell::new(RefusalCounts::default());
        let nodes = Arc::new(AtomicU32::new(1));
        Rc::new(SiteRefusals { counts, budget: Cell::new(BUDGET), nodes, changed: Cell::new(false) })
    }

    #[test]
    fn nodes_at_one_address_divide_the_budget_while_it_is_used() {
        let (site, step) = (site(), 7);
        drop(AskedRecipients::begin(Some(&site), 50));
        let asked = AskedRecipients::begin(Some(&site), 40);
        (0..40).for_each(|_| asked.on_answer(&Reply::new(550, "5.1.1 no such user"), step));
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
        let (site, step) = (site(), 7);
        let asked = AskedRecipients::begin(Some(&site), 50);
        asked.on_lost(8, step);
        assert_eq!(site.room_for_proof(step), 50, "nobody was refused yet");
        asked.on_answer(&Reply::new(550, "5.1.1 no such user"), step);
        assert_eq!(site.room_for_proof(step), 50, "all of them may be refused");
        asked.on_lost(8, step);
        drop(asked);
        assert_eq!(site.room_for_proof(step), 100 - 9, "one was refused, and eight more may have been");
        let asked = AskedRecipients::begin(Some(&site), 2);
        asked.on_lost(8, step);
        assert_eq!(site.room_for_proof(step), 100 - 11, "no more than were asked about");
    }
}
