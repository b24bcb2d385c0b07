//! When a list has waited long enough for servers that do not answer. Pure: it takes the times of events and decides.
//!
//! A row at a server that puts off everyone stays in the engine for minutes. As long as other rows are answered that
//! holds up nobody. Once no row has been answered for [`STALL_MAX`] on top of what the user allows by `--max-wait`,
//! only such rows are left: the engine gives them back with what is known, and the list ends.

use engine::proto::verdict::Scope;
use engine::proto::verdict::classify::rules;
use std::time::Duration;

/// How long a list waits without an answer to any row. The user is promised 60 s: the rest is for what the engine needs
/// to give back its rows, and for writing them.
pub(super) const STALL_MAX: Duration = Duration::from_secs(55);
/// The engine answers a recall within a second or so. What is still there after this long is recalled again.
pub(super) const RECALL_INTERVAL: Duration = Duration::from_secs(5);

/// See the module. Times are milliseconds from the start of the run.
#[derive(Debug, Clone, Copy)]
pub(super) struct Stall {
    /// `--max-wait`.
    max_wait: u64,
    /// [`STALL_MAX`], but in tests.
    silence: u64,
    /// When a row was answered, or one was handed over for the first time.
    progress: u64,
    /// When a row was handed over again that had waited for its time.
    again: u64,
    /// When the engine was told last to give back what it has, if nothing was answered since.
    recalled: Option<u64>,
    /// The list was read to its end by then: what is left is not asked about any more.
    ending: bool,
}

/// What there is to wait for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Open {
    /// Rows that the engine has taken.
    pub under_way: usize,
    /// Rows that wait for room at their site.
    pub crowded: u64,
    /// The list has further rows.
    pub unread: bool,
    /// Nothing but outages is heard: `--max-outage` bounds that.
    pub outage: bool,
}

/// What is to be done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Decision {
    /// Nothing.
    Wait,
    /// The engine has to give back its rows.
    Recall,
    /// The same, and the rows that wait for room at their site are not asked about any more.
    End,
}

impl Stall {
    /// At the start of a run.
    pub fn new(max_wait: Duration, silence: Duration) -> Stall {
        Stall {
            max_wait: millis(max_wait),
            silence: millis(silence),
            progress: 0,
            again: 0,
            recalled: None,
            ending: false,
        }
    }

    /// When the list last went on.
    pub fn progress(&self) -> u64 {
        self.progress
    }

    /// A row was answered, or handed over for the first time.
    pub fn on_progress(&mut self, now: u64) {
        self.progress = now;
        self.recalled = None;
    }

    /// A row was handed over again, for its time had come.
    pub fn on_asked_again(&mut self, now: u64) {
        self.again = now;
        self.recalled = None;
    }

    /// Whether the engine is giving back its rows: nothing is handed over until it has.
    pub fn is_recalling(&self) -> bool {
        self.recalled.is_some()
    }

    /// The same, and the rows that wait for room at their site are not asked about any more.
    pub fn is_ending(&self) -> bool {
        self.recalled.is_some() && self.ending
    }

    /// All that the engine had is back.
    pub fn on_empty(&mut self) {
        self.recalled = None;
    }

    /// What is to be done now.
    pub fn decide(&mut self, now: u64, open: Open) -> Decision {
        let nothing = open.under_way == 0 && (open.crowded == 0 || open.unread);
        // A row that waited for its time is asked a last time when --max-wait is over: it needs its time too.
        let silent_since = (self.progress + self.max_wait).max(self.again);
        let due = match self.recalled {
            Some(before) => before + millis(RECALL_INTERVAL),
            None => silent_since + self.silence,
        };
        if nothing || open.outage || now < due {
            return Decision::Wait;
        }
        (self.recalled, self.ending) = (Some(now), !open.unread);
        if open.unread { Decision::Recall } else { Decision::End }
    }
}

/// Whether an answer that leaves a row unverifiable shows that the list goes on: its server, or DNS, has spoken about the
/// row, for good or about this recipient. A session that was ended, a connection that could not be made and the like say
/// nothing about it.
pub(super) fn is_progress(rule: &str, retry_after: Option<Duration>) -> bool {
    let about_recipient = || rules().any(|(name, _, scope, _)| name == rule && scope == Scope::Recipient);
    retry_after.is_none() || about_recipient()
}

/// How much longer a row may wait by `--max-wait` when its server said "later", or its site has no budget left. `since` is
/// when it began to wait.
pub(super) fn left(max_wait: Duration, since: u64, now: u64) -> Duration {
    max_wait.saturating_sub(Duration::from_millis(now.saturating_sub(since)))
}

pub(super) fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What happens at a second of the run.
    #[derive(Debug, Clone, Copy)]
    enum Event {
        Progress,
        AskedAgain,
        Empty,
        /// Nothing more than a look, with so many under way.
        Look(usize),
        /// As many, and others that wait for room.
        SiteFull(usize),
        /// As `Look(1)` with further rows to read.
        Unread,
        /// As `Look(1)` while only outages are heard.
        Outage,
    }
    use Decision::{End, Recall, Wait};
    use Event::{AskedAgain, Empty, Look, Outage, Progress, SiteFull, Unread};

    #[track_caller]
    fn check(max_wait: u64, events: &[(u64, Event, Decision)]) {
        let mut stall = Stall::new(Duration::from_secs(max_wait), STALL_MAX);
        for &(second, event, expected) in events {
            let now = second * 1000;
            let open = Open { under_way: 1, ..Open::default() };
            let open = match event {
                Progress => {
                    stall.on_progress(now);
                    open
                }
                AskedAgain => {
                    stall.on_asked_again(now);
                    open
                }
                Empty => {
                    stall.on_empty();
                    Open::default()
                }
                Look(under_way) => Open { under_way, ..open },
                SiteFull(under_way) => Open { under_way, crowded: 5, ..open },
                Unread => Open { unread: true, ..open },
                Outage => Open { outage: true, ..open },
            };
            assert_eq!(stall.decide(now, open), expected, "{event:?} at {second} s");
        }
    }

    #[test]
    fn a_list_ends_once_nobody_answers() {
        check(0, &[(0, Look(8), Wait), (54, Look(8), Wait), (55, Look(8), End), (56, Look(8), Wait)]);
        // Each answer starts the wait anew, however slow they come.
        check(0, &[(50, Progress, Wait), (100, Progress, Wait), (154, Look(1), Wait), (155, Look(1), End)]);
        // Nothing to wait for, however long ago the last answer was.
        check(0, &[(500, Look(0), Wait), (500, SiteFull(0), End)]);
    }

    #[test]
    fn a_recall_is_repeated_until_all_is_back() {
        check(
            0,
            &[
                (55, Look(8), End),
                (59, Look(3), Wait),
                (60, Look(3), End),
                (61, Progress, Wait),
                (66, Look(2), Wait),
                (116, Look(2), End),
                (117, Empty, Wait),
            ],
        );
    }

    #[test]
    fn rows_that_were_not_read_yet_are_not_given_up() {
        check(0, &[(55, Unread, Recall), (56, Empty, Wait), (56, Progress, Wait), (111, Look(1), End)]);
    }

    #[test]
    fn an_outage_has_a_bound_of_its_own() {
        check(0, &[(110, Outage, Wait), (111, Progress, Wait), (165, Look(1), Wait), (166, Look(1), End)]);
    }

    #[test]
    fn the_user_says_how_long_rows_wait() {
        check(900, &[(10, Progress, Wait), (964, Look(8), Wait), (965, Look(8), End)]);
        // A last try that is due when the time is over gets the time that it takes.
        check(900, &[(910, AskedAgain, Wait), (964, Look(1), Wait), (965, Look(1), End)]);
        check(900, &[(0, AskedAgain, Wait), (954, Look(1), Wait), (955, Look(1), End)]);
    }

    #[test]
    fn it_is_known_whether_the_rest_is_given_up_for_good() {
        let mut stall = Stall::new(Duration::ZERO, STALL_MAX);
        let open = Open { under_way: 1, unread: true, ..Open::default() };
        assert!(!stall.is_recalling() && !stall.is_ending());
        assert_eq!(stall.decide(55_000, open), Recall);
        assert!(stall.is_recalling() && !stall.is_ending());
        assert_eq!(stall.decide(60_000, Open { unread: false, ..open }), End);
        assert!(stall.is_recalling() && stall.is_ending());
        stall.on_empty();
        assert!(!stall.is_recalling() && !stall.is_ending());
    }

    #[test]
    fn what_speaks_of_the_row_is_progress() {
        let minute = Some(Duration::from_secs(60));
        for (rule, retry_after, expected) in [
            ("greylisted", minute, true),
            ("blocklist", None, true),
            ("session-closing", minute, false),
            ("for-now", minute, false),
            ("hung_up", minute, false),
            ("no_connection", minute, false),
            ("", minute, false),
        ] {
            assert_eq!(is_progress(rule, retry_after), expected, "{rule}");
        }
    }

    #[test]
    fn what_is_left_of_the_wait_counts_from_its_beginning() {
        let seconds = Duration::from_secs;
        for (max_wait, since, now, expected) in
            [(0, 0, 0, 0), (900, 0, 0, 900), (900, 5, 65, 840), (900, 0, 1000, 0), (900, 70, 60, 900)]
        {
            assert_eq!(left(seconds(max_wait), since * 1000, now * 1000), seconds(expected));
        }
    }
}
