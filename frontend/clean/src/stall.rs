//! Decides when a list has waited long enough for servers that do not answer. Pure: its inputs are the times of events.
//!
//! If a server defers every client, its rows stay in the engine for minutes. This delays nothing while other rows get
//! answers. If no row gets an answer for [`STALL_MAX`] plus the time of `--max-wait`, only such rows remain. Then the engine
//! returns them with the evidence so far, and the list ends.

use std::time::Duration;

/// How long a list waits without an answer to any row. The documented bound is 60 s: the engine needs the rest to return its
/// rows, and the sink to write them.
pub(super) const STALL_MAX: Duration = Duration::from_secs(55);
/// The engine answers a recall within about a second. After this time the remaining rows are recalled again.
pub(super) const RECALL_INTERVAL: Duration = Duration::from_secs(5);

/// The waiting times of a run.
#[derive(Debug, Clone, Copy)]
pub(super) struct Waits {
    /// How long a row may wait if its server answers "later" or does not answer, or if its site has no budget left.
    pub later: Duration,
    /// How long the list waits, in addition, without an answer to any row.
    pub silence: Duration,
    /// The value of `--max-outage`, if it is given.
    pub outage: Option<Duration>,
}

/// The waiting time of a list. Times are milliseconds from the start of the run.
#[derive(Debug, Clone, Copy)]
pub(super) struct Stall {
    /// The value of `--max-wait`, in milliseconds.
    max_wait: u64,
    /// [`STALL_MAX`]; tests use a shorter time.
    silence: u64,
    /// When a row last got an answer or was first submitted.
    progress: u64,
    /// When a row that waited for a time was last submitted again.
    again: u64,
    /// When the engine was last asked to return its rows, if there was no answer since.
    recalled: Option<u64>,
    /// Whether the list was read to its end by then: the remaining rows are not submitted again.
    ending: bool,
}

/// The open rows.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Open {
    /// Number of rows in the engine.
    pub under_way: usize,
    /// Number of rows that wait for room at their site.
    pub crowded: u64,
    /// Whether the list has further rows.
    pub unread: bool,
    /// Whether all recent answers are outages: `--max-outage` bounds that time.
    pub outage: bool,
}

/// The decision of [`Stall::decide`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Decision {
    /// Continue to wait.
    Wait,
    /// Recall the rows from the engine.
    Recall,
    /// Recall the rows, and end the rows that wait for room at their site.
    End,
}

impl Stall {
    /// The state at the start of a run.
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

    /// When the list last made progress.
    pub fn progress(&self) -> u64 {
        self.progress
    }

    /// When a row that waited for a time was last submitted again.
    pub fn asked_again(&self) -> u64 {
        self.again
    }

    /// A row got an answer, or was submitted for the first time.
    pub fn on_progress(&mut self, now: u64) {
        self.progress = now;
        self.recalled = None;
    }

    /// A row that waited for a time was submitted again.
    pub fn on_asked_again(&mut self, now: u64) {
        self.again = now;
        self.recalled = None;
    }

    /// Whether a recall is in progress: no row is submitted until its end.
    pub fn is_recalling(&self) -> bool {
        self.recalled.is_some()
    }

    /// Whether a recall is in progress that also ends the rows that wait for room at their site.
    pub fn is_ending(&self) -> bool {
        self.recalled.is_some() && self.ending
    }

    /// The engine has returned all rows.
    pub fn on_empty(&mut self) {
        self.recalled = None;
    }

    /// Decides what to do now.
    pub fn decide(&mut self, now: u64, open: Open) -> Decision {
        let nothing = open.under_way == 0 && (open.crowded == 0 || open.unread);
        // At the end of --max-wait, waiting rows are submitted a last time. They need time for their answers too.
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

pub(super) fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An event at a second of the run.
    #[derive(Debug, Clone, Copy)]
    enum Event {
        Progress,
        AskedAgain,
        Empty,
        /// A decision with this number of rows in the engine.
        Look(usize),
        /// The same, while other rows wait for room.
        SiteFull(usize),
        /// `Look(1)` with further rows to read.
        Unread,
        /// `Look(1)` while all answers are outages.
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
        // Each answer restarts the wait, even if answers are slow.
        check(0, &[(50, Progress, Wait), (100, Progress, Wait), (154, Look(1), Wait), (155, Look(1), End)]);
        // There is nothing to wait for, even long after the last answer.
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
        // A last try at the end of the time gets enough time for its answer.
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
}
