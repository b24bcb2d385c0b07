//! What was learned, for as long as it holds.
//!
//! Meant for one thread. The cache is bounded by count; when it is full, the entry that goes is one that
//! was not read since the hand of the clock last passed it.

use super::{Failure, Outcome, Question};
use hashbrown::HashTable;
use std::hash::BuildHasher;
use std::sync::Arc;
use std::time::Instant;

/// Outcomes by question. `S` hashes questions with a key that nobody outside can foresee.
pub struct Cache<S> {
    /// Where in `slots` a question is, by its hash.
    index: HashTable<u32>,
    keyed: S,
    slots: Vec<Slot>,
    capacity: usize,
    hand: usize,
}

struct Slot {
    /// Of the question, so that to forget it does not take reading its name.
    hash: u64,
    question: Question,
    outcome: Arc<Outcome>,
    expires: Instant,
    read: bool,
}

impl<S: BuildHasher> Cache<S> {
    /// A cache for `capacity` outcomes, one at least. Memory is taken as it fills.
    pub fn new(capacity: usize, keyed: S) -> Cache<S> {
        let capacity = capacity.clamp(1, u32::MAX as usize);
        Cache { index: HashTable::new(), keyed, slots: Vec::new(), capacity, hand: 0 }
    }

    /// What is known about the question at `now`.
    pub fn get(&mut self, question: &Question, now: Instant) -> Option<Arc<Outcome>> {
        let at = self.place(self.keyed.hash_one(question), question)?;
        let slot = &mut self.slots[at];
        if slot.expires <= now {
            return None;
        }
        slot.read = true;
        Some(Arc::clone(&slot.outcome))
    }

    /// Keeps an outcome for its lifetime and returns it. A failure never replaces an answer that still holds.
    pub fn insert(&mut self, question: Question, outcome: Outcome, now: Instant) -> Arc<Outcome> {
        let failed = matches!(outcome, Outcome::Failed { .. });
        let expires = now + outcome.ttl();
        let outcome = Arc::new(outcome);
        let hash = self.keyed.hash_one(&question);
        let slot = Slot { hash, question, outcome: Arc::clone(&outcome), expires, read: false };
        if let Some(at) = self.place(hash, &slot.question) {
            let known = &mut self.slots[at];
            if !failed || known.expires <= now {
                *known = slot;
            }
            return outcome;
        }
        let at = if self.slots.len() < self.capacity {
            self.slots.push(slot);
            self.slots.len() - 1
        } else {
            let at = self.evict(now);
            self.slots[at] = slot;
            at
        };
        let slots = &self.slots;
        self.index.insert_unique(hash, at as u32, |&at| slots[at as usize].hash);
        outcome
    }

    fn place(&self, hash: u64, question: &Question) -> Option<usize> {
        let at = self.index.find(hash, |&at| self.slots[at as usize].question == *question);
        at.map(|&at| at as usize)
    }

    /// Forgets every question that nobody answered.
    pub fn forget_silence(&mut self, now: Instant) {
        let silence = [Failure::Timeout, Failure::Unreachable];
        for slot in &mut self.slots {
            if matches!(&*slot.outcome, Outcome::Failed { why, .. } if silence.contains(why)) {
                slot.expires = now;
            }
        }
    }

    /// How many outcomes are held, those included whose time is over.
    pub fn len(&self) -> usize {
        self.slots.len()
    }

    /// True when none is held.
    pub fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    /// Forgets one outcome; its slot is free then. One round of the hand marks all entries unread, so that the second
    /// ends.
    fn evict(&mut self, now: Instant) -> usize {
        loop {
            let at = self.hand;
            self.hand = (self.hand + 1) % self.slots.len();
            let slot = &mut self.slots[at];
            if !slot.read || slot.expires <= now {
                if let Ok(entry) = self.index.find_entry(slot.hash, |&other| other as usize == at) {
                    entry.remove();
                }
                return at;
            }
            slot.read = false;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Name, RecordKind};
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashMap;
    use std::hash::{BuildHasherDefault, DefaultHasher};
    use std::time::Duration;

    const S: Duration = Duration::from_secs(1);

    fn cache(capacity: usize) -> Cache<BuildHasherDefault<DefaultHasher>> {
        Cache::new(capacity, BuildHasherDefault::default())
    }

    fn question(n: usize) -> Question {
        Question { name: Name::parse(&format!("d{n}.example")).unwrap(), kind: RecordKind::Mx }
    }

    fn no_data(seconds: u32) -> Outcome {
        Outcome::NoData { ttl: S * seconds }
    }

    #[test]
    fn outcomes_live_as_long_as_they_may() {
        let (mut cache, now) = (cache(4), Instant::now());
        cache.insert(question(1), no_data(60), now);
        assert_eq!(cache.get(&question(1), now + S * 59).as_deref(), Some(&no_data(60)));
        assert_eq!(cache.get(&question(1), now + S * 60), None);
        assert_eq!(cache.get(&question(2), now), None);
        let other = Question { kind: RecordKind::A, ..question(1) };
        assert_eq!(cache.get(&other, now), None, "the kind is a part of the question");
        cache.insert(question(1), no_data(61), now + S * 60);
        assert_eq!(cache.get(&question(1), now + S * 120).as_deref(), Some(&no_data(61)));
        assert_eq!(cache.len(), 1);
    }

    #[test]
    fn a_failure_replaces_no_answer_that_holds() {
        let (mut cache, now) = (cache(4), Instant::now());
        let failed = Outcome::Failed { why: Failure::Timeout, ttl: S * 30 };
        cache.insert(question(1), no_data(60), now);
        assert_eq!(*cache.insert(question(1), failed.clone(), now + S), failed);
        assert_eq!(cache.get(&question(1), now + S).as_deref(), Some(&no_data(60)));
        cache.insert(question(1), failed.clone(), now + S * 60);
        assert_eq!(cache.get(&question(1), now + S * 61).as_deref(), Some(&failed));
    }

    #[test]
    fn silence_is_forgotten_and_nothing_else() {
        let (mut cache, now) = (cache(4), Instant::now());
        let failed = |why| Outcome::Failed { why, ttl: S * 30 };
        cache.insert(question(1), failed(Failure::Timeout), now);
        cache.insert(question(2), failed(Failure::ServFail), now);
        cache.insert(question(3), no_data(60), now);
        cache.forget_silence(now + S);
        let held: Vec<usize> = (1..4).filter(|&n| cache.get(&question(n), now + S).is_some()).collect();
        assert_eq!(held, [2, 3]);
    }

    #[test]
    fn what_is_read_stays() {
        let (mut cache, now) = (cache(3), Instant::now());
        for n in 0..3 {
            cache.insert(question(n), no_data(60), now);
        }
        for n in 3..40 {
            assert!(cache.get(&question(1), now).is_some(), "before {n}");
            cache.insert(question(n), no_data(60), now);
            assert!(cache.get(&question(n), now).is_some(), "{n} itself");
            assert_eq!(cache.len(), 3);
        }
        assert!(cache.get(&question(0), now).is_none());
    }

    proptest! {
        /// Against a map without bound: the cache never invents and never exceeds its bound.
        #[test]
        fn a_cache_tells_the_truth(steps in proptest::collection::vec((0..12usize, 0..3u8, 1..90u32), 1..200)) {
            let start = Instant::now();
            let (mut cache, mut model, mut now) = (cache(5), HashMap::new(), start);
            for (n, action, seconds) in steps {
                match action {
                    0 => {
                        cache.insert(question(n), no_data(seconds), now);
                        model.insert(n, (no_data(seconds), now + S * seconds));
                    }
                    1 => now += S * (seconds / 8),
                    _ => {
                        if let Some(found) = cache.get(&question(n), now) {
                            let (outcome, expires) = &model[&n];
                            prop_assert_eq!(&*found, outcome);
                            prop_assert!(now < *expires);
                        }
                    }
                }
                prop_assert!(cache.len() <= 5);
                prop_assert_eq!(cache.len(), cache.index.len());
            }
        }
    }
}
