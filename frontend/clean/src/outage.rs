//! Decides when an outage ends the run. Pure: its inputs are the times of events.

use api::Reason;
use engine::proto::retry::CLEAN_OUTAGE_PAUSE;
use std::time::Duration;

/// An outage of this length ends the run if `--max-outage` is not given.
const OUTAGE_MAX: Duration = Duration::from_secs(120);
/// Further rows are read this much later, after the rows of the outage are submitted again.
const PAUSE_MORE: Duration = Duration::from_millis(200);
/// Reasons that need neither DNS nor a mail server. They occur during an outage too, and do not end it.
const KNOWN_WITHOUT_ASKING: [Reason; 4] =
    [Reason::InvalidSyntax, Reason::Spamtrap, Reason::Disposable, Reason::PossibleTypo];

/// Watches for outages. Times are from the start of the run.
#[derive(Debug, Clone, Copy)]
pub(super) struct OutageWatch {
    /// The value of `--max-outage`, if it is given.
    given: Option<Duration>,
    /// The start of the current outage.
    since: Option<Duration>,
    /// The end of the pause in reading.
    paused: Option<Duration>,
    /// Whether the user was told about the current outage.
    told: bool,
}

impl OutageWatch {
    /// A watch with this value of `--max-outage`.
    pub fn new(given: Option<Duration>) -> OutageWatch {
        OutageWatch { given, since: None, paused: None, told: false }
    }

    /// An outage of this length ends the run. `is_from_start`: no resolver has given a credible answer in this run.
    pub fn max(&self, is_from_start: bool) -> Duration {
        self.given.unwrap_or(if is_from_start { CLEAN_OUTAGE_PAUSE } else { OUTAGE_MAX })
    }

    /// After this time, a row of the outage is checked again: at least once before the outage ends the run.
    pub fn pause(&self, is_from_start: bool) -> Duration {
        CLEAN_OUTAGE_PAUSE.min(self.max(is_from_start) / 2)
    }

    /// Whether there is an outage.
    pub fn is_on(&self) -> bool {
        self.since.is_some()
    }

    /// Whether reading pauses: the rows of the outage are tried again first.
    pub fn is_paused(&self, now: Duration) -> bool {
        self.paused.is_some_and(|until| now < until)
    }

    /// A row met an outage; true if the outage has lasted too long.
    pub fn on_outage(&mut self, now: Duration, is_from_start: bool) -> bool {
        self.paused = Some(now + self.pause(is_from_start) + PAUSE_MORE);
        self.since.get_or_insert(now);
        self.gives_up_in(now, is_from_start) == Some(Duration::ZERO)
    }

    /// How long until the outage ends the run, if it lasts; `None` without an outage.
    pub fn gives_up_in(&self, now: Duration, is_from_start: bool) -> Option<Duration> {
        self.since.map(|since| (since + self.max(is_from_start)).saturating_sub(now))
    }

    /// Whether to tell the user about the outage now: once, after [`CLEAN_OUTAGE_PAUSE`].
    pub fn is_news(&mut self, now: Duration) -> bool {
        let lasts = self.since.is_some_and(|since| now.saturating_sub(since) >= CLEAN_OUTAGE_PAUSE);
        lasts && !std::mem::replace(&mut self.told, lasts)
    }

    /// A row got its verdict.
    pub fn on_verdict(&mut self, reason: Reason) {
        if !KNOWN_WITHOUT_ASKING.contains(&reason) {
            (self.since, self.told) = (None, false);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_an_answer_of_somebody_ends_an_outage() {
        let at = Duration::from_secs;
        let mut watch = OutageWatch::new(None);
        assert!(!watch.is_on() && !watch.is_paused(at(0)));
        assert!(!watch.on_outage(at(10), false), "it has only begun");
        assert!(watch.is_on() && watch.is_paused(at(15)) && !watch.is_paused(at(16)));
        assert!(!watch.is_news(at(14)) && watch.is_news(at(15)) && !watch.is_news(at(16)), "it is told once");
        for reason in [Reason::Disposable, Reason::Spamtrap, Reason::InvalidSyntax] {
            watch.on_verdict(reason);
        }
        assert!(!watch.on_outage(at(129), false), "119 s");
        assert!(watch.on_outage(at(130), false), "only the lists of domains answered in between");
        for reason in [Reason::MailboxExists, Reason::MailboxNotFound, Reason::Unverifiable] {
            watch.on_verdict(reason);
            assert!(!watch.is_on(), "{}", reason.as_str());
            assert!(!watch.on_outage(at(200), false));
        }
    }

    #[test]
    fn only_the_default_is_short_if_no_resolver_has_answered() {
        let at = Duration::from_secs;
        for (given, is_from_start, max) in [
            (None, false, 120),
            (None, true, 5),
            (Some(0), true, 0),
            (Some(60), true, 60),
            (Some(3), false, 3),
        ] {
            let mut watch = OutageWatch::new(given.map(at));
            assert_eq!(watch.on_outage(at(10), is_from_start), max == 0, "{given:?}");
            assert_eq!(watch.gives_up_in(at(10), is_from_start), Some(at(max)), "{given:?}");
            assert!(watch.on_outage(at(10 + max), is_from_start), "{given:?}");
        }
    }
}
