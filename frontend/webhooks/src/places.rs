//! Places for attempts: a limit of those at the same time that have something in common.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, Mutex, PoisonError};

/// A number of places for each key.
pub struct Places<K> {
    most: usize,
    taken: Mutex<HashMap<K, usize>>,
}

/// A place, until it is dropped.
pub struct Place<K: Eq + Hash> {
    places: Arc<Places<K>>,
    key: K,
}

impl<K: Eq + Hash + Clone> Places<K> {
    /// At most `most` places for each key.
    pub fn new(most: usize) -> Arc<Places<K>> {
        Arc::new(Places { most, taken: Mutex::default() })
    }

    /// Takes a place; `None` if all places of the key are taken.
    pub fn take(self: &Arc<Self>, key: K) -> Option<Place<K>> {
        let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        let count = taken.entry(key.clone()).or_default();
        if *count >= self.most {
            return None;
        }
        *count += 1;
        Some(Place { places: Arc::clone(self), key })
    }

    /// How many places are taken, for each key with one.
    pub fn taken(&self) -> HashMap<K, usize> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl<K: Eq + Hash> Drop for Place<K> {
    fn drop(&mut self) {
        let mut taken = self.places.taken.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = taken.get_mut(&self.key) {
            *count -= 1;
            if *count == 0 {
                taken.remove(&self.key);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_key_has_its_places() {
        let places = Places::new(2);
        let (one, two) = (places.take("a"), places.take("a"));
        assert!(one.is_some() && two.is_some() && places.take("a").is_none());
        let other = places.take("b");
        assert_eq!(places.taken(), HashMap::from([("a", 2), ("b", 1)]));
        drop((one, other));
        assert_eq!(places.taken(), HashMap::from([("a", 1)]));
        assert!(places.take("a").is_some());
        drop(two);
        assert!(places.taken().is_empty());
    }
}
