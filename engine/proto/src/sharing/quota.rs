//! A shared resource with a bound on what all holders take together, and a bound (the share) on what each single holder takes.

use super::{Bounds, ShareUse, UsedUp};
use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Counts what each holder has. Holders without anything take no memory.
#[derive(Debug)]
pub struct Quota<K> {
    figures: Arc<ShareUse>,
    held: Mutex<HashMap<K, u64>>,
}

/// An amount that a holder has taken from a quota. Dropping the value gives the amount back.
#[derive(Debug)]
pub struct Taken<K: Eq + Hash + Clone> {
    quota: Arc<Quota<K>>,
    holder: K,
    amount: u64,
}

impl<K: Eq + Hash + Clone> Quota<K> {
    /// A quota from which nothing is taken yet.
    pub fn new(name: &'static str, bounds: Bounds) -> Arc<Quota<K>> {
        Arc::new(Quota { figures: Arc::new(ShareUse::new(name, bounds)), held: Mutex::default() })
    }

    /// The counts of the quota, for metrics.
    pub fn figures(&self) -> Arc<ShareUse> {
        Arc::clone(&self.figures)
    }

    /// Takes an amount for a holder. The amount may be 0, because [`Taken::grow`] can add to it later.
    ///
    /// # Errors
    /// The bound that the amount would exceed. Nothing is taken then.
    pub fn take(self: &Arc<Self>, holder: K, amount: u64) -> Result<Taken<K>, UsedUp> {
        let mut taken = Taken { quota: Arc::clone(self), holder, amount: 0 };
        taken.grow(amount)?;
        Ok(taken)
    }

    /// The amount that each holder has. Holders with nothing are left out.
    pub fn held(&self) -> HashMap<K, u64> {
        self.lock().clone()
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<K, u64>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<K: Eq + Hash + Clone> Taken<K> {
    /// The amount that is taken now.
    pub fn amount(&self) -> u64 {
        self.amount
    }

    /// Takes a further amount for the same holder.
    ///
    /// # Errors
    /// The bound that the further amount would exceed. The amount that is taken stays as it was.
    pub fn grow(&mut self, by: u64) -> Result<(), UsedUp> {
        if by == 0 {
            return Ok(());
        }
        let Quota { figures, .. } = &*self.quota;
        let mut held = self.quota.lock();
        let own = held.get(&self.holder).copied().unwrap_or_default();
        let (share, all) = (own.saturating_add(by), figures.used().saturating_add(by));
        let refusal = match () {
            () if share > figures.bounds.share => UsedUp::Share,
            () if all > figures.bounds.all => UsedUp::All,
            () => {
                held.insert(self.holder.clone(), share);
                figures.set_used(all);
                self.amount += by;
                return Ok(());
            }
        };
        drop(held);
        figures.count_refusal(refusal);
        Err(refusal)
    }

    /// Gives back `by`, but at most the whole amount.
    pub fn shrink(&mut self, by: u64) {
        let by = by.min(self.amount);
        if by == 0 {
            return;
        }
        self.amount -= by;
        let mut held = self.quota.lock();
        if let Some(own) = held.get_mut(&self.holder) {
            *own -= by;
            if *own == 0 {
                held.remove(&self.holder);
            }
        }
        self.quota.figures.set_used(self.quota.figures.used() - by);
    }
}

impl<K: Eq + Hash + Clone> Drop for Taken<K> {
    fn drop(&mut self) {
        self.shrink(self.amount);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_holder_has_a_share_and_all_have_a_bound() {
        let quota = Quota::new("places", Bounds { share: 2, all: 3 });
        let take = |holder: &'static str, amount| quota.take(holder, amount);
        let (one, two) = (take("a", 1), take("a", 1));
        assert!(one.is_ok() && two.is_ok());
        assert_eq!(take("a", 1).err(), Some(UsedUp::Share));
        let other = take("b", 1).unwrap();
        assert_eq!(take("c", 1).err(), Some(UsedUp::All));
        assert_eq!(quota.held(), HashMap::from([("a", 2), ("b", 1)]));
        let figures = quota.figures();
        assert!(figures.is_used_up());
        assert_eq!((figures.refused(UsedUp::Share), figures.refused(UsedUp::All)), (1, 1));
        drop(one);
        assert!(!figures.is_used_up() && take("c", 1).is_ok());
        drop((two, other));
        assert!(quota.held().is_empty() && figures.used() == 0, "holders without anything are forgotten");
    }

    #[test]
    fn what_is_taken_grows_and_shrinks() {
        let quota = Quota::new("bytes", Bounds { share: 100, all: 150 });
        let mut taken = quota.take("a", 0).unwrap();
        assert!(quota.held().is_empty());
        assert_eq!(taken.grow(100), Ok(()));
        assert_eq!((taken.grow(1), taken.amount()), (Err(UsedUp::Share), 100));
        let mut other = quota.take("b", 50).unwrap();
        assert_eq!(other.grow(1), Err(UsedUp::All));
        taken.shrink(60);
        assert_eq!((other.grow(50), quota.figures().used()), (Ok(()), 140));
        taken.shrink(u64::MAX);
        drop((taken, other));
        assert!(quota.held().is_empty() && quota.figures().used() == 0);
        assert_eq!(quota.take("a", u64::MAX).err(), Some(UsedUp::Share), "no overflow");
    }
}
