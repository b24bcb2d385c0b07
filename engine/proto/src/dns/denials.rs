//! Detects resolvers that deny everything: a filter, a captive portal or an outage can make a resolver say "no such name" to every
//! question.
//!
//! A denial without proof ([`super::message::Doubt`]) usually concerns one domain, and makes only its addresses unverifiable. But
//! the resolvers count as down if one of these is denied without proof:
//! - the root;
//! - [`DNS_DENIALS_IN_A_ROW`] names in a row, in questions for MX records or in questions for A records;
//! - a top-level domain, if no name was answered with proof within [`DNS_PROVEN_WINDOW`].
//!
//! While they are down, addresses that depend on such a denial get no verdict. A single answer with proof does not end that state.
//! It ends after [`DNS_PROVEN_IN_A_ROW`] answers with proof in a row, counted separately for MX and A records, or after a
//! successful test ([`Denials::on_test`]). So a resolver that denies only some names does not keep switching between up and down.
//!
//! All shards (the threads of the engine) share the record, so it consists of atomics.

use super::RecordKind;
use crate::limits::{DNS_DENIAL_TEST_INTERVAL, DNS_DENIALS_IN_A_ROW, DNS_PROVEN_IN_A_ROW, DNS_PROVEN_WINDOW};
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize};
use std::time::Duration;

/// The record of denials by the resolvers. Times count from one fixed instant and are at least 1 ms after it, because 0 stands for
/// "never".
#[derive(Debug, Default)]
pub struct Denials {
    runs: [Run; 2],
    /// When a name was last answered with proof, in milliseconds; 0 if never.
    proven_at: AtomicU64,
    /// How many times a run has changed from down to up.
    ended: AtomicU32,
    /// When the resolvers may be tested again.
    test_at: AtomicU64,
}

/// The kind of a question. Denials of each kind are counted separately, because a filter may falsify addresses and nothing else.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Asked {
    /// A question for MX records.
    Exchanges,
    /// A question for A records.
    Addresses,
}

impl Asked {
    /// The kind of a question for these records; `None` if its denials do not count. Networks have reasons to deny IPv6 addresses
    /// and the names of private addresses, and TXT records are not needed to deliver mail.
    pub fn of(kind: RecordKind) -> Option<Asked> {
        match kind {
            RecordKind::Mx => Some(Asked::Exchanges),
            RecordKind::A => Some(Asked::Addresses),
            RecordKind::Aaaa | RecordKind::Txt | RecordKind::Ptr => None,
        }
    }
}

/// The denials of one kind in a row. Shards change the record without a lock, so one of two changes at the same moment may be lost.
/// That is harmless: the outage then begins or ends one name later.
#[derive(Debug, Default)]
struct Run {
    /// The hashes of the first names that were denied in this run.
    names: [AtomicU64; DNS_DENIALS_IN_A_ROW],
    count: AtomicUsize,
    /// The number of answers with proof in a row while this run is down.
    proven: AtomicU32,
    down: AtomicBool,
}

impl Run {
    fn on_denied(&self, name: u64) {
        self.proven.store(0, Relaxed);
        let count = self.count.load(Relaxed);
        let Some(next) = self.names.get(count) else { return };
        if self.names[..count].iter().any(|known| known.load(Relaxed) == name) {
            return;
        }
        next.store(name, Relaxed);
        self.count.store(count + 1, Relaxed);
        if count + 1 == DNS_DENIALS_IN_A_ROW {
            self.set_down();
        }
    }

    /// Returns whether this answer ended an outage.
    fn on_proven(&self) -> bool {
        if self.count.load(Relaxed) != 0 {
            self.count.store(0, Relaxed);
        }
        let ends = self.down.load(Relaxed) && self.proven.fetch_add(1, Relaxed) + 1 >= DNS_PROVEN_IN_A_ROW;
        ends && self.set_up()
    }

    fn set_down(&self) {
        self.proven.store(0, Relaxed);
        self.down.store(true, Relaxed);
    }

    /// Returns whether the run was down.
    fn set_up(&self) -> bool {
        self.count.store(0, Relaxed);
        self.down.swap(false, Relaxed)
    }
}

impl Denials {
    /// The name with this hash was denied without proof, and no resolver gave a credible answer. In a run of denials, each name
    /// counts once.
    pub fn on_denied(&self, asked: Asked, name: u64) {
        self.runs[asked as usize].on_denied(name);
    }

    /// A name was answered with records, or with a proven "no such name".
    pub fn on_proven(&self, asked: Asked, now: Duration) {
        let now = millis(now);
        if self.proven_at.load(Relaxed) != now {
            self.proven_at.store(now, Relaxed);
        }
        if self.runs[asked as usize].on_proven() {
            self.ended.fetch_add(1, Relaxed);
        }
    }

    /// Whether any name has been answered with proof since the start.
    pub fn has_proven(&self) -> bool {
        self.proven_at.load(Relaxed) != 0
    }

    /// The root was denied without proof, so the resolvers count as down.
    pub fn on_root_denied(&self) {
        self.runs.iter().for_each(Run::set_down);
    }

    /// A top-level domain was denied without proof. The resolvers count as down, unless some name was answered with proof within
    /// [`DNS_PROVEN_WINDOW`].
    pub fn on_top_level_denied(&self, now: Duration) {
        let proven_at = self.proven_at.load(Relaxed);
        if proven_at == 0 || millis(now).saturating_sub(proven_at) >= millis(DNS_PROVEN_WINDOW) {
            self.runs.iter().for_each(Run::set_down);
        }
    }

    /// The resolvers were tested: names that they had denied were looked up again, with their top-level domains and the root.
    /// `honest` of these questions were answered, and `denied` of them were denied without proof; the others got no usable answer.
    /// The outage ends if at least one was answered and `honest` is at least three times `denied`. It also ends if at least one was
    /// answered and all denials are of one name (`of_one_name`): resolvers may deny that name for good, and an engine with few
    /// checks may have no other name to test with.
    pub fn on_test(&self, honest: u32, denied: u32, of_one_name: bool) {
        if honest > 0 && (of_one_name || honest >= 3 * denied) {
            let closed = self.runs.iter().filter(|run| run.set_up()).count();
            self.ended.fetch_add(closed as u32, Relaxed);
        }
    }

    /// True while the resolvers count as denying everything.
    pub fn are_down(&self) -> bool {
        self.runs.iter().any(|run| run.down.load(Relaxed))
    }

    /// How many outages have ended. An outage of both kinds of questions counts twice.
    pub fn ended(&self) -> u32 {
        self.ended.load(Relaxed)
    }

    /// Whether a test of the resolvers may begin now. All shards together may begin one in each [`DNS_DENIAL_TEST_INTERVAL`].
    pub fn may_test(&self, now: Duration) -> bool {
        let (now, next) = (millis(now), self.test_at.load(Relaxed));
        let after = now + millis(DNS_DENIAL_TEST_INTERVAL);
        now >= next && self.test_at.compare_exchange(next, after, Relaxed, Relaxed).is_ok()
    }
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::{scenario_steps, scenarios};

    /// Checks a row of testdata/denials.txt.
    fn check(name: &str, steps: &str) {
        let denials = Denials::default();
        let mut next = 1;
        for (second, step, down) in scenario_steps(steps) {
            let now = Duration::from_secs(1000 + second);
            let number = |text: &str| text.parse::<u32>().expect("a number");
            let (asked, step) = match step.strip_prefix('A') {
                Some(step) => (Asked::Addresses, step),
                None => (Asked::Exchanges, step),
            };
            let (of_one_name, step) = match step.strip_prefix("one ") {
                Some(step) => (true, step),
                None => (false, step),
            };
            match (step.split_at(1), step) {
                (_, "root") => denials.on_root_denied(),
                (_, "top") => denials.on_top_level_denied(now),
                (("d", count), _) => (0..number(count)).for_each(|_| {
                    denials.on_denied(asked, next);
                    next += 1;
                }),
                (("h", count), _) => (0..number(count)).for_each(|_| denials.on_proven(asked, now)),
                (("p", counts), _) => {
                    let (honest, denied) = counts.split_once('/').expect("two numbers");
                    denials.on_test(number(honest), number(denied), of_one_name);
                }
                _ => denials.on_denied(asked, next - 1),
            }
            assert_eq!(denials.are_down(), down, "{name}: {step} at {second} s");
        }
    }

    #[test]
    fn resolvers_are_down_as_the_scenarios_say() {
        for (name, steps) in scenarios(include_str!("../../testdata/denials.txt")) {
            check(name, steps);
        }
    }

    #[test]
    fn mixed_answers_do_not_open_and_close_it_in_turn() {
        for honest_in_a_hundred in [5, 10, 30, 50, 70, 90] {
            let (denials, mut random, mut turns) = (Denials::default(), 1u64, 0);
            for name in 0..20_000 {
                random ^= random << 13;
                random ^= random >> 7;
                random ^= random << 17;
                let was = denials.are_down();
                match random % 100 < honest_in_a_hundred {
                    true => denials.on_proven(Asked::Exchanges, Duration::from_secs(1000)),
                    false => denials.on_denied(Asked::Exchanges, name),
                }
                turns += u32::from(denials.are_down() != was);
            }
            assert!(turns <= 1 || honest_in_a_hundred == 90, "{honest_in_a_hundred} %: {turns} turns");
            assert!(honest_in_a_hundred < 90 || turns == 0);
        }
    }

    #[test]
    fn it_is_looked_at_once_in_a_while() {
        let denials = Denials::default();
        let at = |millis: u64| Duration::from_millis(1_000_000 + millis);
        let tried = (0..10_000).step_by(10).filter(|&now| denials.may_test(at(now))).count();
        assert_eq!(tried, 10);
        denials.on_root_denied();
        assert_eq!(denials.ended(), 0);
        denials.on_test(2, 0, false);
        denials.on_test(2, 0, false);
        assert_eq!(denials.ended(), 2, "for both runs");
    }
}
