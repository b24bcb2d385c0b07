//! Counts of attempts in bounded memory. No count is forgotten within its window.
//!
//! A table holds the exact counts of one kind of subject. While it is full, further subjects are counted in buckets that several
//! subjects share. So a flood of subjects may cause an early refusal, but it allows no attempt beyond a limit.

use super::{Allowance, Subject, TooOften};
use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::mem::{Discriminant, discriminant};
use store::UnixMs;

/// The most exact counts of one kind: about a MiB. Those of passwords cannot become so many: a hash takes too long.
pub(super) const ENTRIES_MAX: usize = 16 * 1024;
/// The shared buckets of one kind, in each of two rows.
const BUCKETS: usize = 4 * 1024;
/// How often a full table is searched for counts out of their window.
const SWEEP_MS: UnixMs = 1000;

/// An attempt that was counted.
#[derive(Debug)]
pub(super) struct Counted {
    subject: Subject,
    place: Place,
}

impl Counted {
    pub(super) fn subject(&self) -> &Subject {
        &self.subject
    }
}

#[derive(Debug, Clone, Copy)]
enum Place {
    /// In an exact count that began then.
    Exact(UnixMs),
    /// In the buckets, in this period.
    Shared(u64),
}

/// The counts of all kinds of subjects.
#[derive(Default)]
pub(super) struct AttemptCounts(HashMap<Discriminant<Subject>, Table>);

impl AttemptCounts {
    /// Counts an attempt.
    pub(super) fn take(&mut self, subject: Subject, now: UnixMs) -> Result<Counted, TooOften> {
        let place = self.0.entry(discriminant(&subject)).or_default().take(&subject, now)?;
        Ok(Counted { subject, place })
    }

    /// Counts an attempt for each of these, or for none.
    pub(super) fn take_all(&mut self, subjects: Vec<Subject>, now: UnixMs) -> Result<Vec<Counted>, TooOften> {
        let mut all = Vec::with_capacity(subjects.len());
        for subject in subjects {
            match self.take(subject, now) {
                Ok(taken) => all.push(taken),
                Err(too_often) => {
                    all.into_iter().for_each(|taken| self.give_back(taken));
                    return Err(too_often);
                }
            }
        }
        Ok(all)
    }

    /// Counts an attempt no longer.
    pub(super) fn give_back(&mut self, Counted { subject, place }: Counted) {
        if let Some(table) = self.0.get_mut(&discriminant(&subject)) {
            table.give_back(&subject, place);
        }
    }

    /// Forgets the attempts of the subject of this attempt, unless they share their count with others: then only this one.
    pub(super) fn clear(&mut self, taken: Counted) {
        match (taken.place, self.0.get_mut(&discriminant(&taken.subject))) {
            (Place::Exact(_), Some(table)) => drop(table.exact.remove(&taken.subject)),
            _ => self.give_back(taken),
        }
    }

    #[cfg(test)]
    pub(super) fn lens(&self) -> Vec<usize> {
        self.0.values().map(|table| table.exact.len()).collect()
    }
}

struct Count {
    began: UnixMs,
    attempts: u32,
}

#[derive(Default)]
struct Table {
    exact: HashMap<Subject, Count>,
    swept_at: UnixMs,
    shared: Option<Shared>,
}

impl Table {
    fn take(&mut self, subject: &Subject, now: UnixMs) -> Result<Place, TooOften> {
        let Allowance { attempts, window_ms } = subject.allowance();
        if let Some(count) = self.exact.get_mut(subject) {
            // A clock that was set back must not lengthen the wait.
            if now.abs_diff(count.began) < window_ms {
                if count.attempts >= attempts {
                    return Err(TooOften::until(count.began + window_ms, now, window_ms));
                }
                count.attempts += 1;
                return Ok(Place::Exact(count.began));
            }
            self.exact.remove(subject);
        }
        let period = now / window_ms;
        // What was counted in the buckets while the table was full stays there for its window.
        let in_buckets = self.shared.as_mut().map_or(0, |shared| shared.count(subject, period));
        if in_buckets == 0 && self.has_room(now) {
            self.exact.insert(subject.clone(), Count { began: now, attempts: 1 });
            return Ok(Place::Exact(now));
        }
        if in_buckets >= attempts {
            return Err(TooOften::until((period + 1) * window_ms, now, window_ms));
        }
        self.shared.get_or_insert_with(Shared::new).add(subject, period);
        Ok(Place::Shared(period))
    }

    fn give_back(&mut self, subject: &Subject, place: Place) {
        match place {
            Place::Exact(began) => {
                let count = self.exact.get_mut(subject).filter(|count| count.began == began);
                let Some(count) = count else { return };
                count.attempts = count.attempts.saturating_sub(1);
                if count.attempts == 0 {
                    self.exact.remove(subject);
                }
            }
            Place::Shared(period) => {
                if let Some(shared) = &mut self.shared {
                    shared.give_back(subject, period);
                }
            }
        }
    }

    fn has_room(&mut self, now: UnixMs) -> bool {
        if self.exact.len() >= ENTRIES_MAX && now.abs_diff(self.swept_at) >= SWEEP_MS {
            self.swept_at = now;
            self.exact.retain(|subject, count| now.abs_diff(count.began) < subject.allowance().window_ms);
        }
        self.exact.len() < ENTRIES_MAX
    }
}

/// A count-min sketch: a subject has a bucket in each row, and the lower one counts. The hashes have random keys, so an attacker
/// cannot choose a subject that shares the buckets of another.
struct Shared {
    rows: [(RandomState, Vec<Bucket>); 2],
}

/// The attempts of this period and of the one before. Together they are at least those of the last window.
#[derive(Clone, Default)]
struct Bucket {
    period: u64,
    now: u32,
    before: u32,
}

impl Shared {
    fn new() -> Shared {
        Shared { rows: [(); 2].map(|()| (RandomState::new(), vec![Bucket::default(); BUCKETS])) }
    }

    fn buckets(&mut self, subject: &Subject) -> impl Iterator<Item = &mut Bucket> {
        let subject = subject.widened();
        self.rows.iter_mut().filter_map(move |(state, buckets)| {
            let at = state.hash_one(&subject) % BUCKETS as u64;
            buckets.get_mut(at as usize)
        })
    }

    fn count(&mut self, subject: &Subject, period: u64) -> u32 {
        let counts = self.buckets(subject).map(|bucket| {
            bucket.advance(period);
            bucket.now.saturating_add(bucket.before)
        });
        counts.min().unwrap_or_default()
    }

    fn add(&mut self, subject: &Subject, period: u64) {
        for bucket in self.buckets(subject) {
            bucket.advance(period);
            bucket.now = bucket.now.saturating_add(1);
        }
    }

    fn give_back(&mut self, subject: &Subject, period: u64) {
        for bucket in self.buckets(subject) {
            if bucket.period == period {
                bucket.now = bucket.now.saturating_sub(1);
            } else if bucket.period == period + 1 {
                bucket.before = bucket.before.saturating_sub(1);
            }
        }
    }
}

impl Bucket {
    fn advance(&mut self, period: u64) {
        match (period.checked_sub(self.period), self.period.checked_sub(period)) {
            // The clock may have been set back a little, from the beginning of a period.
            (Some(0), _) | (_, Some(1)) => {}
            (Some(1), _) => *self = Bucket { period, now: 0, before: self.now },
            _ => *self = Bucket { period, now: 0, before: 0 },
        }
    }
}
