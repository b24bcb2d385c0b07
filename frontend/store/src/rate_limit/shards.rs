//! A map that is divided over several locks, to reduce contention between threads. It records changes.

use std::collections::hash_map::RandomState;
use std::collections::{BTreeMap, HashMap};
use std::hash::{BuildHasher, Hash};
use std::sync::{Mutex, MutexGuard, PoisonError};

const SHARDS: usize = 32;

pub(super) struct Shards<K, V> {
    shards: [Mutex<HashMap<K, Slot<V>>>; SHARDS],
    hasher: RandomState,
}

#[derive(Default)]
struct Slot<V> {
    value: V,
    /// Whether it changed since the last collection.
    changed: bool,
}

impl<K, V> Default for Shards<K, V> {
    fn default() -> Shards<K, V> {
        Shards { shards: std::array::from_fn(|_| Mutex::default()), hasher: RandomState::new() }
    }
}

impl<K: Copy + Ord + Hash, V: Clone + Default> Shards<K, V> {
    /// Adds values that do not count as changed.
    pub fn fill(&self, values: BTreeMap<K, V>) {
        for (key, value) in values {
            self.shard(&key).insert(key, Slot { value, changed: false });
        }
    }

    /// Changes a value, which is created if it is missing.
    pub fn change<R>(&self, key: K, change: impl FnOnce(&mut V) -> R) -> R {
        let mut shard = self.shard(&key);
        let slot = shard.entry(key).or_default();
        slot.changed = true;
        change(&mut slot.value)
    }

    /// Keeps the values for which `keep` is true.
    pub fn retain(&self, mut keep: impl FnMut(&mut V) -> bool) {
        for shard in &self.shards {
            lock(shard).retain(|_, slot| keep(&mut slot.value));
        }
    }

    /// Adds all changed values to `out`, removes the idle ones and adds them as empty.
    pub fn collect(&self, out: &mut BTreeMap<K, V>, mut is_idle: impl FnMut(&K, &mut V) -> bool) {
        for shard in &self.shards {
            lock(shard).retain(|key, slot| {
                let idle = is_idle(key, &mut slot.value);
                if idle {
                    out.insert(*key, V::default());
                } else if std::mem::take(&mut slot.changed) {
                    out.insert(*key, slot.value.clone());
                }
                !idle
            });
        }
    }

    /// The number of values.
    #[cfg(test)]
    pub fn len(&self) -> usize {
        self.shards.iter().map(|shard| lock(shard).len()).sum()
    }

    fn shard(&self, key: &K) -> MutexGuard<'_, HashMap<K, Slot<V>>> {
        lock(&self.shards[self.hasher.hash_one(key) as usize % SHARDS])
    }
}

/// A panic during a change leaves a consistent value: each change is only arithmetic.
fn lock<T>(shard: &Mutex<T>) -> MutexGuard<'_, T> {
    shard.lock().unwrap_or_else(PoisonError::into_inner)
}
