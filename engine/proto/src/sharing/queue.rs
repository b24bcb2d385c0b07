//! A queue in which holders take turns, so that no holder has to wait until all items of another holder are served.

use super::{Bounds, ShareUse, UsedUp};
use std::collections::{HashMap, HashSet, VecDeque};
use std::hash::Hash;
use std::sync::Arc;

/// The order in which holders take turns. Each holder has at most one place in it.
#[derive(Debug)]
pub struct Turns<K> {
    order: VecDeque<K>,
    present: HashSet<K>,
}

impl<K: Eq + Hash + Clone> Default for Turns<K> {
    fn default() -> Turns<K> {
        Turns { order: VecDeque::new(), present: HashSet::new() }
    }
}

impl<K: Eq + Hash + Clone> Turns<K> {
    /// Puts a holder at the end, unless it already has a place.
    pub fn add(&mut self, holder: K) {
        if self.present.insert(holder.clone()) {
            self.order.push_back(holder);
        }
    }

    /// Removes and returns the first holder. For another turn, the holder has to be added again.
    pub fn take(&mut self) -> Option<K> {
        let holder = self.order.pop_front()?;
        self.present.remove(&holder);
        Some(holder)
    }

    /// Whether a holder has a place.
    pub fn has(&self, holder: &K) -> bool {
        self.present.contains(holder)
    }
}

/// A queue of waiting items. The holders take turns, and the items of each holder stay in their order.
#[derive(Debug)]
pub struct FairQueue<K, T> {
    figures: Arc<ShareUse>,
    waiting: HashMap<K, VecDeque<T>>,
    turns: Turns<K>,
    len: u64,
}

impl<K: Eq + Hash + Clone, T> FairQueue<K, T> {
    /// An empty queue. Its bounds are numbers of items.
    pub fn new(name: &'static str, bounds: Bounds) -> FairQueue<K, T> {
        FairQueue::with(Arc::new(ShareUse::new(name, bounds)))
    }

    /// An empty queue that keeps its counts in `figures`, which the caller may have given to the metrics already.
    pub fn with(figures: Arc<ShareUse>) -> FairQueue<K, T> {
        FairQueue { figures, waiting: HashMap::new(), turns: Turns::default(), len: 0 }
    }

    /// The counts of the queue, for metrics.
    pub fn figures(&self) -> Arc<ShareUse> {
        Arc::clone(&self.figures)
    }

    /// Adds an item after the other items of its holder. If the queue is full and another holder has at least two items more than
    /// this one, the newest item of the holder with the most items is removed and returned. So a holder with many items cannot keep
    /// out a holder with few.
    ///
    /// # Errors
    /// The bound that is used up, and the item that was not added.
    pub fn push(&mut self, holder: K, item: T) -> Result<Option<T>, (UsedUp, T)> {
        let own = self.len_of(&holder);
        let refuse = |by, item| {
            self.figures.count_refusal(by);
            Err((by, item))
        };
        if own >= self.figures.bounds.share {
            return refuse(UsedUp::Share, item);
        }
        let mut gave_way = None;
        if self.len >= self.figures.bounds.all {
            let most = self.waiting.iter().max_by_key(|(_, items)| items.len());
            match most.filter(|(_, items)| items.len() as u64 > own + 1).map(|(holder, _)| holder.clone()) {
                Some(most) => gave_way = self.pop_newest(&most),
                None => return refuse(UsedUp::All, item),
            }
            self.figures.count_refusal(UsedUp::All);
        }
        self.waiting.entry(holder.clone()).or_default().push_back(item);
        self.turns.add(holder);
        self.set_len(self.len + 1);
        Ok(gave_way)
    }

    /// Takes the oldest item of the holder with the next turn.
    pub fn pop(&mut self) -> Option<(K, T)> {
        self.pop_if(|_, _| true)
    }

    /// Takes the oldest item of the first holder, in the order of turns, for which `may` returns true. All other holders keep their
    /// places.
    pub fn pop_if(&mut self, mut may: impl FnMut(&K, &T) -> bool) -> Option<(K, T)> {
        let (at, holder) = self.turns.order.iter().enumerate().find_map(|(at, holder)| {
            let oldest = self.waiting.get(holder)?.front()?;
            may(holder, oldest).then(|| (at, holder.clone()))
        })?;
        self.turns.order.remove(at);
        self.turns.present.remove(&holder);
        let items = self.waiting.get_mut(&holder)?;
        let item = items.pop_front()?;
        match items.is_empty() {
            true => drop(self.waiting.remove(&holder)),
            false => self.turns.add(holder.clone()),
        }
        self.set_len(self.len - 1);
        Some((holder, item))
    }

    /// Removes and returns all items for which `keeps` returns false.
    pub fn take_unless(&mut self, mut keeps: impl FnMut(&K, &T) -> bool) -> Vec<T> {
        let mut taken = Vec::new();
        for (holder, items) in &mut self.waiting {
            for _ in 0..items.len() {
                if let Some(item) = items.pop_front() {
                    match keeps(holder, &item) {
                        true => items.push_back(item),
                        false => taken.push(item),
                    }
                }
            }
        }
        self.forget_idle();
        self.set_len(self.len - taken.len() as u64);
        taken
    }

    /// All waiting items, in no particular order.
    pub fn iter(&self) -> impl Iterator<Item = &T> {
        self.waiting.values().flatten()
    }

    /// The number of waiting items of a holder.
    pub fn len_of(&self, holder: &K) -> u64 {
        self.waiting.get(holder).map_or(0, |items| items.len() as u64)
    }

    /// Whether no item is waiting.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    fn pop_newest(&mut self, holder: &K) -> Option<T> {
        let item = self.waiting.get_mut(holder)?.pop_back()?;
        self.forget_idle();
        self.set_len(self.len - 1);
        Some(item)
    }

    fn forget_idle(&mut self) {
        self.waiting.retain(|_, items| !items.is_empty());
        self.turns.order.retain(|holder| self.waiting.contains_key(holder));
        self.turns.present.retain(|holder| self.waiting.contains_key(holder));
    }

    fn set_len(&mut self, len: u64) {
        self.len = len;
        self.figures.set_used(len);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn queue(share: u64, all: u64) -> FairQueue<&'static str, u32> {
        FairQueue::new("test", Bounds { share, all })
    }

    #[test]
    fn holders_take_turns() {
        let mut queue = queue(10, 10);
        for (holder, item) in [("a", 1), ("a", 2), ("a", 3), ("b", 4), ("c", 5), ("b", 6)] {
            assert_eq!(queue.push(holder, item), Ok(None));
        }
        let order: Vec<u32> = std::iter::from_fn(|| queue.pop()).map(|(_, item)| item).collect();
        assert_eq!(order, [1, 4, 5, 2, 6, 3]);
        assert!(queue.is_empty() && queue.waiting.is_empty() && queue.turns.order.is_empty());
        assert_eq!(queue.figures().used(), 0);
    }

    #[test]
    fn a_full_queue_takes_from_who_has_the_most() {
        let mut queue = queue(3, 4);
        for item in 1..=3 {
            assert_eq!(queue.push("a", item), Ok(None));
        }
        assert_eq!(queue.push("a", 9), Err((UsedUp::Share, 9)));
        assert_eq!(queue.push("b", 4), Ok(None));
        assert_eq!(queue.push("c", 5), Ok(Some(3)), "the newest of the holder with the most gives way");
        assert_eq!(queue.push("b", 6), Err((UsedUp::All, 6)), "nobody would have more than this holder then");
        let figures = queue.figures();
        assert_eq!((figures.refused(UsedUp::Share), figures.refused(UsedUp::All)), (1, 2));
        let order: Vec<u32> = std::iter::from_fn(|| queue.pop()).map(|(_, item)| item).collect();
        assert_eq!(order, [1, 4, 5, 2]);
    }

    #[test]
    fn who_may_not_go_yet_keeps_its_turn() {
        let mut queue = queue(10, 10);
        for (holder, item) in [("a", 1), ("b", 2), ("a", 3), ("c", 4)] {
            queue.push(holder, item).unwrap();
        }
        assert_eq!(queue.pop_if(|holder, _| *holder != "a"), Some(("b", 2)));
        assert_eq!(queue.pop_if(|_, item| *item > 10), None);
        assert_eq!(queue.take_unless(|_, item| *item != 1), [1]);
        assert_eq!((queue.len_of(&"a"), queue.iter().count()), (1, 2));
        assert_eq!((queue.pop(), queue.pop(), queue.pop()), (Some(("a", 3)), Some(("c", 4)), None));
    }

    #[test]
    fn a_holder_is_in_the_turns_once() {
        let mut turns = Turns::default();
        (0..3).for_each(|_| turns.add("a"));
        turns.add("b");
        assert!(turns.has(&"a"));
        assert_eq!((turns.take(), turns.has(&"a")), (Some("a"), false));
        turns.add("a");
        assert_eq!((turns.take(), turns.take(), turns.take()), (Some("b"), Some("a"), None));
    }
}
