//! Outages: no resolver answers, the resolvers deny everything, or no mail server can be reached. Then the cause is on our side,
//! and mailprobe gives no verdict about an address that depends on the failed lookups or connections.
//!
//! All shards (the threads of the engine) share [`Resolvers`] and [`Connections`], so each shard knows what the others have seen.
//! Both consist of atomics without a lock, because every lookup and every connection uses them. A race between two shards only
//! makes an outage begin or end a moment too early or too late.
//!
//! One dead host is never an outage, and neither are dead hosts among live ones. An outage of connections needs failures at
//! [`OUTAGE_SITES_MIN`] sites (a site: all mail hosts of one operator) within [`OUTAGE_WINDOW`], and no successful connection for
//! [`OUTAGE_SILENCE`] after the first failure. The outage ends when a mail server is reached, or when no connection has failed for
//! [`OUTAGE_WINDOW`]. Until then, mailprobe tries one address in each [`OUTAGE_TRY_INTERVAL`], and answers all others at once,
//! without a verdict.

use crate::dns::denials::Denials;
use crate::dns::window::Window;
use crate::limits::{
    DNS_SILENT_LOOKUPS_MAX, DNS_UPSTREAMS_MAX, OUTAGE_SILENCE, OUTAGE_SITE_PLACES, OUTAGE_SITES_MIN,
    OUTAGE_TRY_INTERVAL, OUTAGE_WINDOW,
};
use std::net::SocketAddr;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64};
use std::time::Duration;

/// A fault of the resolvers: they are silent or deny every name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Trouble {
    /// One line with the fault and the remedy.
    pub text: String,
    /// Whether it has lasted since the start.
    pub is_from_start: bool,
}

/// The state of all resolvers: whether any of them answers.
#[derive(Debug, Default)]
pub struct Resolvers {
    /// Whether any lookup has been answered since the start.
    ever_answered: AtomicBool,
    answered: AtomicU32,
    /// Lookups in a row that got no reply from any resolver, while no other lookup was answered either.
    silent: AtomicU32,
    /// Number of outages that have ended.
    ended: AtomicU32,
    /// The record of denials, which shows whether the resolvers deny everything.
    pub denials: Denials,
    /// For each resolver, the window of the questions under way.
    pub windows: [Window; DNS_UPSTREAMS_MAX],
}

impl Resolvers {
    /// How many lookups have been answered so far. A caller asks this whenever a lookup sends a message, for [`Resolvers::note`] at its
    /// end.
    pub fn answered(&self) -> u32 {
        self.answered.load(Relaxed)
    }

    /// A lookup has ended. `answered` says whether some resolver replied to it, and `before` how many lookups had been answered
    /// when it sent its last message. A lookup without a reply counts only if no other one was answered since. If another one was
    /// answered, the messages of this lookup were probably lost: in a burst of questions, the messages of several lookups can be lost,
    /// and these lookups then time out together.
    pub fn note(&self, answered: bool, before: u32) {
        if answered {
            let was_down = self.are_down();
            self.answered.fetch_add(1, Relaxed);
            self.ever_answered.store(true, Relaxed);
            self.silent.store(0, Relaxed);
            if was_down {
                self.ended.fetch_add(1, Relaxed);
            }
        } else if self.answered() == before && self.silent.load(Relaxed) < DNS_SILENT_LOOKUPS_MAX {
            self.silent.fetch_add(1, Relaxed);
        }
    }

    /// A lookup of a name that is known to have an answer has ended. If it got no reply, and no other one was answered since it sent
    /// its last message, the resolvers [are silent](Resolvers::are_silent).
    pub fn note_own_name(&self, answered: bool, before: u32) {
        let times = if answered { 1 } else { DNS_SILENT_LOOKUPS_MAX };
        (0..times).for_each(|_| self.note(answered, before));
    }

    /// True if the resolvers [are silent](Resolvers::are_silent), or would be after one more lookup without a reply. Then the
    /// caller should first ask about a name that is known to have an answer, and count the silent lookup only if this gets no reply
    /// either.
    pub fn is_suspect(&self) -> bool {
        self.silent.load(Relaxed) + 1 >= DNS_SILENT_LOOKUPS_MAX
    }

    /// Whether a lookup without a reply shows nothing about its domain, because the resolvers answer nobody. Also true from the
    /// start until the first answer. Only an answer ends this state, so lookups have to continue meanwhile.
    pub fn are_down(&self) -> bool {
        !self.has_answered() || self.are_silent()
    }

    /// Whether failures are the fault of the resolvers and not of the domains: they [answer nobody](Resolvers::are_down), or they
    /// deny everything.
    pub fn are_to_blame(&self) -> bool {
        self.are_down() || self.denials.are_down()
    }

    /// The fault of these resolvers; `None` if they answer and do not deny every name.
    pub fn trouble(&self, names: &[SocketAddr]) -> Option<Trouble> {
        let names: Vec<String> = names.iter().map(ToString::to_string).collect();
        let (who, deny, answer) = match names.len() {
            1 => ("the resolver", "denies", "does not answer"),
            _ => ("the resolvers", "deny", "do not answer"),
        };
        let names = names.join(", ");
        if self.denials.are_down() {
            let text = format!(
                "{who} {names} {deny} every name without proof, as filters and captive portals do; name another \
                 resolver with --resolver"
            );
            return Some(Trouble { text, is_from_start: !self.denials.has_proven() });
        }
        let text = || format!("{who} {names} {answer}; check the network and --resolver");
        self.are_down().then(|| Trouble { text: text(), is_from_start: !self.has_answered() })
    }

    /// Whether any lookup has been answered since the start.
    pub fn has_answered(&self) -> bool {
        self.ever_answered.load(Relaxed)
    }

    /// True if enough lookups in a row got no reply.
    pub fn are_silent(&self) -> bool {
        self.silent.load(Relaxed) >= DNS_SILENT_LOOKUPS_MAX
    }

    /// How many outages of the resolvers have ended, both those of silence and those of denials. The time from the start until the
    /// first answer counts as one. If the number changes, earlier silence and earlier denials without proof
    /// ([`crate::dns::message::Doubt`]) show nothing about a domain.
    pub fn ended(&self) -> u32 {
        self.ended.load(Relaxed).wrapping_add(self.denials.ended())
    }
}

/// Whether mail servers can be reached from a source (an IP address of ours or a proxy). Times count from one fixed instant, and
/// are at least 1 ms, because 0 stands for "never".
#[derive(Debug)]
pub struct Connections {
    /// For each place, when a connection to a site with this place last failed, in milliseconds; 0 if none has failed since a mail
    /// server was last reached. The hash of a site gives its place.
    failed_at: [AtomicU64; OUTAGE_SITE_PLACES],
    /// The time of the first failure since the last success, or since the last [`OUTAGE_WINDOW`] without a failure, in
    /// milliseconds; 0 if there was none.
    failing_since: AtomicU64,
    down: AtomicBool,
    /// Number of outages that have ended.
    ended: AtomicU32,
    /// When the next attempt to reach a mail server during an outage may be made, in milliseconds.
    try_at: AtomicU64,
}

impl Default for Connections {
    fn default() -> Connections {
        Connections {
            failed_at: [const { AtomicU64::new(0) }; OUTAGE_SITE_PLACES],
            failing_since: AtomicU64::new(0),
            down: AtomicBool::new(false),
            ended: AtomicU32::new(0),
            try_at: AtomicU64::new(0),
        }
    }
}

impl Connections {
    /// A mail server was reached: it accepted a connection, or replied.
    pub fn on_reached(&self) {
        // Nearly always the value is 0. Then nothing is written, so no cache line is taken from the other shards.
        if self.failing_since.load(Relaxed) != 0 {
            self.failing_since.store(0, Relaxed);
            self.end();
            self.failed_at.iter().for_each(|at| at.store(0, Relaxed));
        }
    }

    /// A connection to the site with this hash could not be made.
    pub fn on_failed(&self, site: u64, now: Duration) {
        let now = millis(now);
        let sites = self.sites(now);
        self.failed_at[site as usize % OUTAGE_SITE_PLACES].store(now, Relaxed);
        if sites == 0 || self.failing_since.load(Relaxed) == 0 {
            // This is the first failure within the window, or since the last success.
            self.failing_since.store(now, Relaxed);
            self.end();
            return;
        }
        self.judge(now, now + millis(OUTAGE_TRY_INTERVAL));
    }

    /// Ends an outage, if there is one.
    fn end(&self) {
        if self.down.swap(false, Relaxed) {
            self.ended.fetch_add(1, Relaxed);
        }
    }

    /// No connection could be tried, and the cause is certainly on our side, such as a source address that is gone or a proxy that
    /// refuses us. This counts like failures at [`OUTAGE_SITES_MIN`] sites.
    pub fn on_failed_ourselves(&self, now: Duration) {
        (0..OUTAGE_SITES_MIN as u64).for_each(|site| self.on_failed(site, now));
    }

    /// Whether no mail server can be reached now.
    pub fn are_down(&self, now: Duration) -> bool {
        self.down.load(Relaxed) && self.sites(millis(now)) > 0
    }

    /// Whether an outage is the reason why an address gets no connection. This call can declare the outage, because enough time may
    /// have passed without a further failure: failed hosts are not asked for a while.
    pub fn are_to_blame(&self, now: Duration) -> bool {
        let time = millis(now);
        self.judge(time, time);
        self.are_down(now)
    }

    /// True from the first failed connection since a mail server was last reached, for [`OUTAGE_SILENCE`]. An outage that has just
    /// begun cannot be told from a dead host until then, so an address that gets no connection is not decided about meanwhile.
    pub fn are_in_doubt(&self, now: Duration) -> bool {
        let failing_since = self.failing_since.load(Relaxed);
        failing_since != 0 && millis(now).saturating_sub(failing_since) < millis(OUTAGE_SILENCE)
    }

    /// Declares an outage, if there is one now. The first attempt to reach a mail server during the outage may be made at `try_at`.
    fn judge(&self, now: u64, try_at: u64) {
        let failing_since = self.failing_since.load(Relaxed);
        let silent = failing_since != 0 && now.saturating_sub(failing_since) >= millis(OUTAGE_SILENCE);
        let new = silent && !self.down.load(Relaxed) && self.sites(now) >= OUTAGE_SITES_MIN;
        if new && !self.down.swap(true, Relaxed) {
            self.try_at.store(try_at, Relaxed);
        }
    }

    /// How many outages have ended. If this number changes, earlier failures of hosts may have been our fault.
    pub fn ended(&self) -> u32 {
        self.ended.load(Relaxed)
    }

    /// Whether an address may be asked about now. Without an outage this is always so. During one, it is so for one address in each
    /// [`OUTAGE_TRY_INTERVAL`].
    pub fn may_try(&self, now: Duration) -> bool {
        if !self.are_down(now) {
            return true;
        }
        let (now, next) = (millis(now), self.try_at.load(Relaxed));
        let after = now + millis(OUTAGE_TRY_INTERVAL);
        now >= next && self.try_at.compare_exchange(next, after, Relaxed, Relaxed).is_ok()
    }

    /// The number of sites that have failed within the window.
    fn sites(&self, now: u64) -> usize {
        let fresh = |at: &&AtomicU64| {
            let at = at.load(Relaxed);
            at != 0 && now.saturating_sub(at) < millis(OUTAGE_WINDOW)
        };
        self.failed_at.iter().filter(fresh).count()
    }
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::{scenario_steps, scenarios};

    /// Checks a row of testdata/outage.txt.
    fn check(name: &str, steps: &str) {
        let connections = Connections::default();
        let mut next = 0;
        for (second, step, down) in scenario_steps(steps) {
            let now = Duration::from_secs(1000 + second);
            match step.split_at(1) {
                ("f", count) => {
                    for _ in 0..count.parse().expect("a number") {
                        connections.on_failed(next, now);
                        next += 1;
                    }
                }
                ("o", _) => connections.on_failed(0, now),
                ("k", _) => connections.on_reached(),
                ("b", _) => connections.on_failed_ourselves(now),
                ("d" | "n", _) => {
                    assert_eq!(connections.are_in_doubt(now), step == "d", "{name}: {step} at {second} s");
                }
                ("e", _) => assert_eq!(connections.are_to_blame(now), down, "{name}: {step} at {second} s"),
                _ => {}
            }
            assert_eq!(connections.are_down(now), down, "{name}: {step} at {second} s");
        }
    }

    #[test]
    fn outages_begin_and_end_as_the_scenarios_say() {
        for (name, steps) in scenarios(include_str!("../testdata/outage.txt")) {
            check(name, steps);
        }
        let many = |count: u64, step: fn(u64) -> String| (0..count).map(step).collect::<Vec<_>>().join(", ");
        check("one dead site, for ever", &many(600, |n| format!("{n} o")));
        check("dead sites now and then", &many(100, |n| format!("{} f1", n * 7)));
        check("nine of ten dead", &many(200, |n| format!("{n} {}", if n % 5 == 0 { "k" } else { "f30" })));
    }

    #[test]
    fn while_it_lasts_one_in_a_while_is_tried() {
        let connections = Connections::default();
        let at = |millis: u64| Duration::from_millis(1_000_000 + millis);
        assert!(connections.may_try(at(0)));
        (0..20).for_each(|site| connections.on_failed(site, at(0)));
        assert!(connections.may_try(at(5_000)), "not yet down");
        connections.on_failed(20, at(5_000));
        let tried = (5_000..15_000).step_by(10).filter(|&now| connections.may_try(at(now))).count();
        let interval = OUTAGE_TRY_INTERVAL.as_millis() as usize;
        assert_eq!(tried, (10_000 - 1) / interval);
        assert_eq!(connections.ended(), 0);
        connections.on_reached();
        connections.on_reached();
        assert_eq!(connections.ended(), 1);
        assert!((0..50).all(|_| connections.may_try(at(15_000))));
    }

    #[test]
    fn an_outage_without_a_failure_for_the_whole_window_has_ended() {
        let connections = Connections::default();
        let at = |millis: u64| Duration::from_millis(1_000_000 + millis);
        (0..20).for_each(|site| connections.on_failed(site, at(0)));
        connections.on_failed(20, at(5_000));
        assert!(connections.are_down(at(5_000)));
        let later = at(5_000) + OUTAGE_WINDOW;
        assert!(!connections.are_down(later));
        connections.on_failed(0, later);
        assert_eq!(connections.ended(), 1);
    }

    #[test]
    fn silent_resolvers_are_an_outage_and_one_answer_ends_it() {
        let resolvers = Resolvers::default();
        let is_from_start = || resolvers.trouble(&[]).map(|trouble| trouble.is_from_start);
        assert!(resolvers.are_down(), "until one has answered");
        assert_eq!(is_from_start(), Some(true));
        let before = resolvers.answered();
        resolvers.note(true, before);
        (0..100).for_each(|_| resolvers.note(false, before));
        assert!(!resolvers.are_down(), "they were lost while others were answered");
        for n in 0..DNS_SILENT_LOOKUPS_MAX {
            assert!(!resolvers.are_down(), "after {n}");
            resolvers.note(false, resolvers.answered());
        }
        assert!(resolvers.are_down());
        assert_eq!(is_from_start(), Some(false));
        let ended = resolvers.ended();
        resolvers.note(true, resolvers.answered());
        assert!(!resolvers.are_down());
        assert_eq!(resolvers.ended(), ended + 1);
        resolvers.note(false, resolvers.answered());
        resolvers.note(true, resolvers.answered());
        assert_eq!(resolvers.ended(), ended + 1, "one silent lookup is no outage");
    }
}
