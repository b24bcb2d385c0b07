//! A cache of DNS outcomes, each kept for its lifetime.
//!
//! A cache is used by one thread, and bounded in bytes. If it is full, it evicts entries by the clock algorithm: a hand goes round
//! the slots, and evicts each entry that has expired or has not been read since the hand last passed it, until there is room.

use super::{Exchange, Mx, Name, Outcome, Question, Records};
use crate::limits::DNS_FAILURE_TTL;
use hashbrown::HashTable;
use std::hash::BuildHasher;
use std::sync::Arc;
use std::time::Instant;

/// Outcomes by question. `S` hashes questions with a secret key, so no peer can choose names that collide.
pub struct Cache<S> {
    /// The index of each question in `slots`.
    index: HashTable<u32>,
    keyed: S,
    slots: Vec<Slot>,
    /// The bytes that all entries take now.
    bytes: usize,
    /// The most bytes that the entries may take together.
    bytes_max: usize,
    /// The slot that the next eviction looks at first.
    hand: usize,
}

struct Slot {
    /// The hash of the question. With it, an entry can be removed or moved without hashing its name again.
    hash: u64,
    question: Question,
    outcome: Arc<Outcome>,
    expires: Instant,
    bytes: usize,
    /// Whether the entry has been read since the hand last passed it.
    read: bool,
}

impl<S: BuildHasher> Cache<S> {
    /// A cache that takes `bytes_max` bytes at most, as [`size_of_entry`] counts them. Memory is allocated only as the cache fills.
    pub fn new(bytes_max: usize, keyed: S) -> Cache<S> {
        Cache { index: HashTable::new(), keyed, slots: Vec::new(), bytes: 0, bytes_max, hand: 0 }
    }

    /// The outcome of the question, if one is kept that has not expired at `now`.
    pub fn get(&mut self, question: &Question, now: Instant) -> Option<Arc<Outcome>> {
        let at = self.place(self.keyed.hash_one(question), question)?;
        let slot = &mut self.slots[at];
        if slot.expires <= now {
            return None;
        }
        slot.read = true;
        Some(Arc::clone(&slot.outcome))
    }

    /// Keeps an outcome for its lifetime, and returns it. An outcome that is larger than the whole cache is not kept. A failure
    /// never replaces an outcome that has not expired. A failure that [may pass](super::Failure::may_pass) has a short lifetime.
    /// But if the previous outcome of the question was such a failure too, and expired less than [`DNS_FAILURE_TTL`] ago, the new
    /// one is kept for [`DNS_FAILURE_TTL`].
    pub fn insert(&mut self, question: Question, outcome: Outcome, now: Instant) -> Arc<Outcome> {
        let failed = matches!(outcome, Outcome::Failed { .. });
        let mut expires = now + outcome.ttl();
        let bytes = size_of_entry(&question, &outcome);
        let outcome = Arc::new(outcome);
        let hash = self.keyed.hash_one(&question);
        if let Some(at) = self.place(hash, &question) {
            let known = &self.slots[at];
            if failed && known.expires > now {
                return outcome;
            }
            if may_pass(&outcome) && may_pass(&known.outcome) && now < known.expires + DNS_FAILURE_TTL {
                expires = now + DNS_FAILURE_TTL;
            }
            self.remove(at);
        }
        if bytes > self.bytes_max {
            return outcome;
        }
        while self.bytes + bytes > self.bytes_max {
            self.evict(now);
        }
        self.bytes += bytes;
        let at = self.slots.len() as u32;
        self.slots.push(Slot { hash, question, outcome: Arc::clone(&outcome), expires, bytes, read: false });
        let slots = &self.slots;
        self.index.insert_unique(hash, at, |&at| slots[at as usize].hash);
        outcome
    }

    fn place(&self, hash: u64, question: &Question) -> Option<usize> {
        let at = self.index.find(hash, |&at| self.slots[at as usize].question == *question);
        at.map(|&at| at as usize)
    }

    /// Lets every failure that may pass expire now.
    pub fn forget_failures(&mut self, now: Instant) {
        for slot in self.slots.iter_mut().filter(|slot| may_pass(&slot.outcome)) {
            slot.expires = now;
        }
    }

    /// Forgets the outcome of the question if it is [`Outcome::NoData`].
    pub fn forget_no_data(&mut self, question: &Question) {
        if let Some(at) = self.place(self.keyed.hash_one(question), question)
            && matches!(*self.slots[at].outcome, Outcome::NoData { .. })
        {
            self.remove(at);
        }
    }

    /// Number of outcomes, including those that have expired.
    pub fn len(&self) -> usize {
        self.slots.len()
    }

    /// True if the cache has no outcome.
    pub fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    /// Bytes that all entries take, as an estimate.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Evicts one entry. The hand marks all entries that it passes as unread, so it finds one to evict in its second round at the
    /// latest.
    fn evict(&mut self, now: Instant) {
        loop {
            self.hand = if self.hand >= self.slots.len() { 0 } else { self.hand };
            let Some(slot) = self.slots.get_mut(self.hand) else { return };
            let goes = !slot.read || slot.expires <= now;
            slot.read = false;
            if goes {
                self.remove(self.hand);
            }
            // If an entry was removed, the last entry, one of the newest, is now in its slot, and the hand goes past it.
            self.hand += 1;
            if goes {
                return;
            }
        }
    }

    /// Removes an entry, and moves the last entry to its slot.
    fn remove(&mut self, at: usize) {
        let last = self.slots.len() - 1;
        if let Ok(entry) = self.index.find_entry(self.slots[at].hash, |&other| other as usize == at) {
            entry.remove();
        }
        if at != last
            && let Some(moved) = self.index.find_mut(self.slots[last].hash, |&other| other as usize == last)
        {
            *moved = at as u32;
        }
        self.bytes -= self.slots.swap_remove(at).bytes;
    }
}

fn may_pass(outcome: &Outcome) -> bool {
    matches!(outcome, Outcome::Failed { why, .. } if why.may_pass())
}

/// Bytes that an allocation takes in addition to its content, including the reference counts of an `Arc`.
const ALLOCATION: usize = 24;
/// Bytes of an entry without its name and records: its slot, counted twice because up to half of the vector is empty after it
/// grows; its place in the index; and the outcome.
const ENTRY: usize = 2 * size_of::<Slot>() + 16 + size_of::<Outcome>() + ALLOCATION;

/// About how many bytes of memory an entry takes.
pub fn size_of_entry(question: &Question, outcome: &Outcome) -> usize {
    let records = match outcome {
        Outcome::Records { records, .. } => size_of_records(records),
        Outcome::NoData { .. } | Outcome::NxDomain { .. } | Outcome::Failed { .. } => 0,
    };
    ENTRY + size_of_name(&question.name) + records
}

fn size_of_name(name: &Name) -> usize {
    name.as_str().len() + ALLOCATION
}

fn size_of_records(records: &Records) -> usize {
    let exchange = |mx: &Mx| match &mx.exchange {
        Exchange::Host(name) => size_of_name(name),
        Exchange::Null | Exchange::Invalid => 0,
    };
    ALLOCATION
        + match records {
            Records::Mx(found) => {
                found.capacity() * size_of::<Mx>() + found.iter().map(exchange).sum::<usize>()
            }
            Records::A(found) => found.capacity() * 4,
            Records::Aaaa(found) => found.capacity() * 16,
            Records::Txt(found) => {
                found.capacity() * size_of::<Box<str>>()
                    + found.iter().map(|text| text.len() + ALLOCATION).sum::<usize>()
            }
            Records::Ptr(found) => {
                found.capacity() * size_of::<Name>() + found.iter().map(size_of_name).sum::<usize>()
            }
        }
}

#[cfg(test)]
mod tests {
    use super::super::{Failure, RecordKind};
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashMap;
    use std::hash::{BuildHasherDefault, DefaultHasher};
    use std::time::Duration;

    const S: Duration = Duration::from_secs(1);

    /// A cache with room for `capacity` of the entries below.
    fn cache(capacity: usize) -> Cache<BuildHasherDefault<DefaultHasher>> {
        let entry = size_of_entry(&question(10), &no_data(1));
        Cache::new(capacity * entry, BuildHasherDefault::default())
    }

    fn question(n: usize) -> Question {
        Question { name: Name::parse(&format!("d{n:04}.example")).unwrap(), kind: RecordKind::Mx }
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
        let failed = Outcome::Failed { why: Failure::ServFail, ttl: S * 30 };
        cache.insert(question(1), no_data(60), now);
        assert_eq!(*cache.insert(question(1), failed.clone(), now + S), failed);
        assert_eq!(cache.get(&question(1), now + S).as_deref(), Some(&no_data(60)));
        cache.insert(question(1), failed.clone(), now + S * 60);
        assert_eq!(cache.get(&question(1), now + S * 61).as_deref(), Some(&failed));
    }

    #[test]
    fn what_may_pass_is_forgotten_and_nothing_else() {
        let (mut cache, now) = (cache(4), Instant::now());
        let failed = |why| Outcome::Failed { why, ttl: S * 30 };
        cache.insert(question(1), failed(Failure::Timeout), now);
        cache.insert(question(2), failed(Failure::ServFail), now);
        cache.insert(question(3), no_data(60), now);
        cache.insert(question(4), failed(Failure::Unproven), now);
        cache.forget_failures(now + S);
        let held: Vec<usize> = (1..5).filter(|&n| cache.get(&question(n), now + S).is_some()).collect();
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

    #[test]
    fn a_no_can_be_forgotten() {
        let (mut cache, now) = (cache(4), Instant::now());
        for (n, outcome) in [no_data(60), Outcome::NxDomain { ttl: S * 60 }].into_iter().enumerate() {
            cache.insert(question(n), outcome, now);
        }
        (0..3).for_each(|n| cache.forget_no_data(&question(n)));
        assert!(cache.get(&question(0), now).is_none() && cache.get(&question(1), now).is_some());
        assert_eq!(cache.len(), 1);
    }

    #[test]
    fn a_failure_that_comes_again_is_kept() {
        let (mut cache, now) = (cache(4), Instant::now());
        let failed = |why| Outcome::Failed { why, ttl: S };
        let holds = |cache: &mut Cache<_>, at: u32| cache.get(&question(1), now + S * at).is_some();
        cache.insert(question(1), failed(Failure::Timeout), now);
        assert!(!holds(&mut cache, 1), "it may have been a loss");
        cache.insert(question(1), failed(Failure::Refused), now + S * 2);
        assert!(holds(&mut cache, 31) && !holds(&mut cache, 32));
        cache.insert(question(1), failed(Failure::Timeout), now + S * 62);
        assert!(!holds(&mut cache, 63), "that was long ago");
        cache.insert(question(1), no_data(60), now + S * 64);
        cache.insert(question(1), failed(Failure::Timeout), now + S * 124);
        assert!(!holds(&mut cache, 125), "there was an answer between");
    }

    #[test]
    fn large_answers_take_the_room_of_many() {
        let mx = |n: usize| {
            let host = |at: usize| Mx {
                preference: at as u16,
                exchange: Exchange::Host(Name::parse(&format!("mx{at}.mail-of-domain-{n}.example")).unwrap()),
            };
            Outcome::Records { records: Records::Mx((0..30).map(host).collect()), ttl: S * 60 }
        };
        let (mut cache, now) = (cache(1000), Instant::now());
        for n in 0..2000 {
            cache.insert(question(n), mx(n), now);
            assert!(cache.bytes() <= cache.bytes_max);
        }
        let large = cache.len();
        assert!((20..150).contains(&large), "{large} of 30 records each");
        for n in 2000..4000 {
            cache.insert(question(n), no_data(60), now);
        }
        assert_eq!(cache.len(), 1000, "the large ones are gone");
        let mut tiny = Cache::new(size_of_entry(&question(1), &no_data(1)), cache.keyed.clone());
        tiny.insert(question(1), no_data(60), now);
        tiny.insert(question(2), mx(2), now);
        assert!(tiny.get(&question(2), now).is_none(), "what is larger than all the room is not kept");
        assert!(tiny.get(&question(1), now).is_some());
    }

    proptest! {
        /// Compares the cache with a map without a bound: the cache invents no outcome, returns none that has expired, and stays
        /// within its bound.
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
                prop_assert_eq!(cache.bytes, cache.slots.iter().map(|slot| slot.bytes).sum::<usize>());
            }
        }
    }
}
