//! How fast a site is asked: sessions, new sessions a minute, recipients a transaction and a session.
//!
//! What a profile and the table of providers allow is the ceiling. Below it the pace adapts: it grows slowly while
//! a site answers and is halved when the site pushes back (421, 4.7.x, a hang-up), with a pause that doubles.
//!
//! Sites count refused recipients per session. Postfix slows down after 10 (`smtpd_soft_error_limit`) and hangs up
//! after 20 (`smtpd_hard_error_limit`), under stress after 1; so a group is never larger than what is left of
//! the site's error budget, and the budget is learned from hang-ups.

use crate::limits::TRANSACTION_RECIPIENTS_MAX;
use std::time::{Duration, Instant};

/// How politely sites are asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Profile {
    /// Below what providers ask of senders.
    Polite,
    /// At what most servers bear.
    Fast,
    /// No caps beyond what keeps a session alive.
    Lab,
}

/// The ceiling for a site.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ceiling {
    /// Sessions open at once.
    pub sessions: u32,
    /// New sessions a minute.
    pub starts_a_minute: u32,
    /// Recipients in one session, over all its transactions.
    pub session_recipients: u32,
    /// Refused recipients in one session before the next is taken.
    pub session_errors: u32,
}

/// Ceilings for providers that publish or are known for stricter ones: connections and messages a connection, from
/// KumoMTA's shaping tables. A site is named as [`crate::dns`] names it.
const PROVIDERS: &[(&str, u32, u32)] = &[
    ("google", 5, 50),
    ("microsoft365", 5, 50),
    ("outlook", 5, 50),
    ("icloud", 10, 5),
    ("yahoo", 10, 20),
    ("mimecast", 10, 100),
    ("gmx", 4, 20),
    ("qq", 4, 8),
    ("netease", 4, 7),
    ("barracuda", 10, 15),
    ("orange", 2, 100),
];

impl Ceiling {
    /// The ceiling of `profile` for the site called `site`.
    pub fn of(profile: Profile, site: &str) -> Ceiling {
        let provider = PROVIDERS.iter().find(|(name, _, _)| *name == site);
        let (sessions, recipients) =
            provider.map_or((10, 100), |&(_, sessions, recipients)| (sessions, recipients));
        match profile {
            Profile::Polite => Ceiling {
                sessions,
                starts_a_minute: 100,
                session_recipients: recipients,
                session_errors: POLITE_ERRORS,
            },
            Profile::Fast => Ceiling {
                sessions: sessions * 3,
                starts_a_minute: 600,
                session_recipients: recipients * 10,
                session_errors: POLITE_ERRORS,
            },
            Profile::Lab => Ceiling {
                sessions: u32::MAX,
                starts_a_minute: u32::MAX,
                session_recipients: u32::MAX,
                session_errors: LAB_ERRORS,
            },
        }
    }
}

/// Postfix's soft limit: the last error that costs no delay.
const POLITE_ERRORS: u32 = 10;
/// A server that counts errors at all counts to fewer.
const LAB_ERRORS: u32 = 1000;
/// Where the error budget of a site begins when nothing is known of it.
const BUDGET_AT_FIRST: u32 = POLITE_ERRORS;

/// So many sessions that survive their budget double a limit that was learned.
const HOLDS_TO_FORGET: u32 = 8;

/// Shortest wait for a start.
const WAIT_MIN: Duration = Duration::from_millis(1);
const PAUSE_MIN: Duration = Duration::from_millis(500);
const PAUSE_MAX: Duration = Duration::from_secs(60);

/// When the next session with a site may begin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Start {
    /// Now.
    Now,
    /// Not before this instant.
    At(Instant),
    /// When one of the open ones has ended.
    WhenOneEnds,
}

/// The pace of one site.
#[derive(Debug)]
pub struct SitePace {
    ceiling: Ceiling,
    /// Sessions that may be open at once now; grows by fractions.
    window: f64,
    budget: u32,
    /// Errors that a session is known not to survive.
    budget_limit: u32,
    /// Sessions that survived the whole budget since one did not.
    holds: u32,
    /// Bucket of new sessions, and when it was last filled.
    starts: f64,
    filled: Instant,
    paused_until: Option<Instant>,
    pushes: u32,
}

impl SitePace {
    /// The pace of a site that nothing is known of.
    pub fn new(ceiling: Ceiling, now: Instant) -> SitePace {
        SitePace {
            ceiling,
            window: f64::from(ceiling.sessions),
            budget: BUDGET_AT_FIRST.min(ceiling.session_errors),
            budget_limit: ceiling.session_errors,
            holds: 0,
            starts: f64::from(ceiling.starts_a_minute.min(ceiling.sessions)),
            filled: now,
            paused_until: None,
            pushes: 0,
        }
    }

    /// Whether a session may begin while `open` are open.
    pub fn may_start(&mut self, now: Instant, open: u32) -> Start {
        if let Some(until) = self.paused_until.filter(|&until| until > now) {
            return Start::At(until);
        }
        self.paused_until = None;
        if f64::from(open) >= self.window.max(1.0).floor() {
            return Start::WhenOneEnds;
        }
        self.fill(now);
        if self.starts < 1.0 {
            let wait = (1.0 - self.starts) * 60.0 / f64::from(self.ceiling.starts_a_minute);
            // What is left of a start may be too little for any clock to show.
            return Start::At(now + Duration::from_secs_f64(wait).max(WAIT_MIN));
        }
        Start::Now
    }

    /// How many sessions may be open at once now.
    pub fn sessions(&self) -> u32 {
        self.window.max(1.0) as u32
    }

    /// A session begins.
    pub fn started(&mut self) {
        self.starts -= 1.0;
    }

    /// A session gave answers: the window grows by one for each window of sessions that did.
    pub fn answered(&mut self) {
        self.pushes = 0;
        let ceiling = f64::from(self.ceiling.sessions);
        self.window = (self.window + 1.0 / self.window.max(1.0)).min(ceiling);
    }

    /// The site pushed back while `open` sessions were open. `entropy` spreads those who wait.
    pub fn pushed_back(&mut self, now: Instant, open: u32, entropy: u64) {
        if self.paused_until.is_some_and(|until| until > now) {
            // The sessions of one burst are refused together: that is one sign, not many.
            return;
        }
        self.window = (self.window.min(f64::from(open)) / 2.0).max(1.0);
        let pause = PAUSE_MIN.saturating_mul(1 << self.pushes.min(10)).min(PAUSE_MAX);
        self.pushes = self.pushes.saturating_add(1);
        let spread = 0.75 + (entropy % 1024) as f64 / 2048.0;
        self.paused_until = Some(now + pause.mul_f64(spread));
    }

    /// The site hung up on a session that had collected `errors` refusals, the last one included.
    pub fn hung_up(&mut self, errors: u32) {
        self.holds = 0;
        if errors > 0 {
            self.budget_limit = self.budget_limit.min(errors);
            self.budget = self.budget.min(self.budget_limit);
        }
    }

    /// A session ended with its budget used up and was not hung up on: the next may try more. A limit that was
    /// learned is forgotten in steps: the site may have been under stress, or one recipient was the cause.
    pub fn budget_held(&mut self) {
        self.holds += 1;
        if self.holds.is_multiple_of(HOLDS_TO_FORGET) {
            self.budget_limit = self.budget_limit.saturating_mul(2).min(self.ceiling.session_errors);
        }
        self.budget = self.budget.saturating_mul(2).min(self.budget_limit);
    }

    /// How many recipients the next transaction of a session may have, after `asked` recipients and `errors`
    /// refusals in it; 0: take a new session.
    pub fn group(&self, asked: u32, errors: u32) -> usize {
        let left =
            self.budget.saturating_sub(errors).min(self.ceiling.session_recipients.saturating_sub(asked));
        (left as usize).min(TRANSACTION_RECIPIENTS_MAX)
    }

    fn fill(&mut self, now: Instant) {
        let rate = f64::from(self.ceiling.starts_a_minute) / 60.0;
        let most = f64::from(self.ceiling.starts_a_minute.min(self.ceiling.sessions));
        let elapsed = now.saturating_duration_since(self.filled).as_secs_f64();
        self.starts = (self.starts + elapsed * rate).min(most);
        self.filled = now;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn polite() -> (SitePace, Instant) {
        let now = Instant::now();
        (SitePace::new(Ceiling::of(Profile::Polite, "example.org"), now), now)
    }

    #[test]
    fn providers_override_the_profile() {
        let rows = [("google", 5, 50), ("gmx", 4, 20), ("example.org", 10, 100)];
        for (site, sessions, recipients) in rows {
            let ceiling = Ceiling::of(Profile::Polite, site);
            assert_eq!((ceiling.sessions, ceiling.session_recipients), (sessions, recipients), "{site}");
            assert!(Ceiling::of(Profile::Fast, site).sessions > sessions);
            assert_eq!(Ceiling::of(Profile::Lab, site).sessions, u32::MAX);
        }
    }

    #[test]
    fn sessions_are_bounded_at_once_and_a_minute() {
        let (mut pace, now) = polite();
        for open in 0..10 {
            assert_eq!(pace.may_start(now, open), Start::Now);
            pace.started();
        }
        assert_eq!(pace.may_start(now, 10), Start::WhenOneEnds);
        // The ten are gone at once; the bucket fills with 100 a minute.
        assert_eq!(pace.may_start(now, 0), Start::At(now + Duration::from_millis(600)));
        assert_eq!(pace.may_start(now + Duration::from_millis(601), 0), Start::Now);
        let mut started = 10;
        for tick in 0..6000 {
            if pace.may_start(now + Duration::from_millis(tick * 10), 0) == Start::Now {
                pace.started();
                started += 1;
            }
        }
        assert!((105..=110).contains(&started), "{started} in a minute");
    }

    #[test]
    fn a_push_halves_and_pauses_and_answers_let_it_grow() {
        let (mut pace, now) = polite();
        pace.pushed_back(now, 8, 512);
        let Start::At(until) = pace.may_start(now, 0) else { panic!("no pause") };
        assert_eq!(until - now, Duration::from_millis(500));
        pace.pushed_back(now, 8, 512);
        assert_eq!(pace.may_start(now, 0), Start::At(until), "one burst counts once");
        assert_eq!(pace.may_start(until, 4), Start::WhenOneEnds);
        assert_eq!(pace.may_start(until, 3), Start::Now);
        pace.pushed_back(until, 4, 512);
        let Start::At(second) = pace.may_start(until, 0) else { panic!("no pause") };
        assert_eq!(second - until, Duration::from_secs(1));
        for _ in 0..5 {
            pace.answered();
        }
        assert_eq!(pace.may_start(second, 2), Start::Now);
        assert_eq!(pace.may_start(second, 3), Start::WhenOneEnds);
        for _ in 0..1000 {
            pace.answered();
        }
        assert_eq!(pace.may_start(second, 10), Start::WhenOneEnds, "never over the ceiling");
        for n in 0..40 {
            pace.pushed_back(second + Duration::from_secs(n * 100), 1, 1023);
        }
        let last = second + Duration::from_secs(3900);
        let Start::At(until) = pace.may_start(last, 0) else { panic!("no pause") };
        assert!(until - last <= PAUSE_MAX.mul_f64(1.25));
        assert_eq!(pace.may_start(until, 0), Start::Now, "one session may always be tried");
    }

    #[test]
    fn a_group_fits_the_error_budget() {
        let (mut pace, _) = polite();
        assert_eq!(pace.group(0, 0), 10);
        assert_eq!(pace.group(7, 3), 7);
        assert_eq!(pace.group(10, 10), 0);
        assert_eq!(pace.group(95, 0), 5);
        pace.budget_held();
        assert_eq!(pace.group(0, 0), 10, "polite never asks for more");
        pace.hung_up(1);
        assert_eq!(pace.group(0, 0), 1);
        assert_eq!(pace.group(1, 1), 0);
        pace.hung_up(0);
        assert_eq!(pace.group(0, 0), 1, "a hang-up without errors says nothing of the budget");
    }

    #[test]
    fn in_the_lab_the_budget_grows_until_a_hang_up() {
        let now = Instant::now();
        let mut pace = SitePace::new(Ceiling::of(Profile::Lab, "example.org"), now);
        assert_eq!(pace.may_start(now, 1_000_000), Start::Now);
        assert_eq!(pace.group(0, 0), 10);
        pace.budget_held();
        pace.budget_held();
        assert_eq!(pace.group(0, 0), 40);
        pace.hung_up(20);
        assert_eq!(pace.group(0, 0), 20);
        pace.budget_held();
        assert_eq!(pace.group(0, 0), 20);
        for _ in 1..HOLDS_TO_FORGET {
            pace.budget_held();
        }
        assert_eq!(pace.group(0, 0), 40, "a limit is forgotten in steps");
    }
}
