//! Lists whose turns have failed: when they are tried again, and which ones are given up.

use std::collections::HashMap;
use std::time::{Duration, Instant};
use store::ListId;

/// Pause after the first failure. It doubles with each further one, up to the maximum.
const PAUSE: Duration = Duration::from_secs(5);
const PAUSE_MAX: Duration = Duration::from_secs(300);
/// Pause after a panic, times the number of panics.
const PANIC_PAUSE: Duration = Duration::from_secs(60);
/// A list is given up at this number of panics in sequence, the first of which was minutes before.
const PANICS_MAX: u32 = 3;

/// The lists with failures since their last progress.
#[derive(Debug, Default)]
pub(super) struct Troubles(HashMap<ListId, Trouble>);

#[derive(Debug)]
struct Trouble {
    failures: u32,
    panics: u32,
    until: Instant,
}

impl Troubles {
    /// Whether a list is not to be tried yet.
    pub fn rests(&self, list: ListId, now: Instant) -> bool {
        self.0.get(&list).is_some_and(|trouble| now < trouble.until)
    }

    /// Notes that the turn of a list has failed for a cause that may pass.
    pub fn failed(&mut self, list: ListId, now: Instant) {
        let trouble = self.of(list, now);
        let pause = PAUSE.saturating_mul(2_u32.saturating_pow(trouble.failures)).min(PAUSE_MAX);
        trouble.failures = trouble.failures.saturating_add(1);
        trouble.until = now + pause;
    }

    /// Notes that the store did not do the turn of a list. It is the same for all lists, and is asked again soon.
    pub fn refused(&mut self, list: ListId, now: Instant) {
        self.of(list, now).until = now + PAUSE;
    }

    /// Notes that the turn of a list has panicked. Returns whether to give up the list.
    pub fn panicked(&mut self, list: ListId, now: Instant) -> bool {
        let trouble = self.of(list, now);
        trouble.panics += 1;
        trouble.until = now + PANIC_PAUSE * trouble.panics;
        trouble.panics >= PANICS_MAX
    }

    /// Notes that a list has made progress.
    pub fn went_on(&mut self, list: ListId) {
        self.0.remove(&list);
    }

    /// Forgets the lists for which this does not hold.
    pub fn retain(&mut self, mut keeps: impl FnMut(ListId) -> bool) {
        self.0.retain(|list, _| keeps(*list));
    }

    fn of(&mut self, list: ListId, now: Instant) -> &mut Trouble {
        self.0.entry(list).or_insert(Trouble { failures: 0, panics: 0, until: now })
    }
}

#[cfg(test)]
impl Troubles {
    /// Ends the pauses of all lists.
    pub fn wake(&mut self) {
        let now = Instant::now();
        self.0.values_mut().for_each(|trouble| trouble.until = now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_and_progress_ends_them() {
        let (mut troubles, list) = (Troubles::default(), ListId::new(0, 1));
        let mut now = Instant::now();
        for expected in [5, 10, 20, 40, 80, 160, 300, 300] {
            troubles.failed(list, now);
            now += Duration::from_secs(expected - 1);
            assert!(troubles.rests(list, now), "{expected}");
            now += Duration::from_secs(1);
            assert!(!troubles.rests(list, now), "{expected}");
        }
        troubles.went_on(list);
        troubles.failed(list, now);
        assert!(!troubles.rests(list, now + PAUSE));
        for _ in 0..9 {
            troubles.refused(list, now);
            assert!(troubles.rests(list, now) && !troubles.rests(list, now + PAUSE));
        }
        troubles.retain(|_| false);
        assert!(!troubles.rests(list, now));
    }

    #[test]
    fn the_third_panic_in_sequence_ends_a_list() {
        let (mut troubles, list, now) = (Troubles::default(), ListId::new(0, 1), Instant::now());
        assert!(!troubles.panicked(list, now) && !troubles.panicked(list, now));
        assert!(troubles.rests(list, now + PANIC_PAUSE));
        troubles.went_on(list);
        let ends: Vec<bool> = (0..3).map(|_| troubles.panicked(list, now)).collect();
        assert_eq!(ends, [false, false, true]);
    }
}
