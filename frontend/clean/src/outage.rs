//! Decides when an outage ends the run. Pure: its inputs are the times of events.

use api::Reason;
use engine::proto::retry::CLEAN_OUTAGE_PAUSE;
use std::time::Duration;

/// Further rows are read this much later, after the rows of the outage are submitted again.
const PAUSE_MORE: Duration = Duration::from_millis(200);
/// Reasons that need neither DNS nor a mail server. They occur during an outage too, and do not end it.
const KNOWN_WITHOUT_ASKING: [Reason; 4] =
    [Reason::InvalidSyntax, Reason::Spamtrap, Reason::Disposable, Reason::PossibleTypo];

/// Watches for outages. Times are from the start of the run.
#[derive(Debug, Clone, Copy)]
pub(super) struct OutageWatch {
    /// The value of `--max-outage`.
    max: Duration,
    /// The start of the current outage.
    since: Option<Duration>,
    /// The end of the pause in reading.
    paused: Option<Duration>,
    /// Whether the user was told about the current outage.
    told: bool,
    /// Whether an address got a verdict of DNS or of a mail server in this run.
    answered: bool,
}

impl OutageWatch {
    /// A watch that ends the run after an outage of this length.
    pub fn new(max: Duration) -> OutageWatch {
        OutageWatch { max, since: None, paused: None, told: false, answered: false }
    }

    /// Whether there is an outage.
    pub fn is_on(&self) -> bool {
        self.since.is_some()
    }

    /// Whether reading pauses: the rows of the outage are tried again first.
    pub fn is_paused(&self, now: Duration) -> bool {
        self.paused.is_some_and(|until| now < until)
    }

    /// A row met an outage, the cause of which may be known; true if the outage has lasted too long.
    pub fn on_outage(&mut self, now: Duration, is_known: bool) -> bool {
        self.paused = Some(now + CLEAN_OUTAGE_PAUSE + PAUSE_MORE);
        self.since.get_or_insert(now);
        self.gives_up_in(now, is_known) == Some(Duration::ZERO)
    }

    /// How long until the outage ends the run, if it lasts; `None` without an outage. If no address got a verdict before and the
    /// cause `is_known`, the run does not wait for the end of the outage.
    pub fn gives_up_in(&self, now: Duration, is_known: bool) -> Option<Duration> {
        let max = if is_known && !self.answered { self.max.min(CLEAN_OUTAGE_PAUSE) } else { self.max };
        self.since.map(|since| (since + max).saturating_sub(now))
    }

    /// Whether to tell the user about the outage now: once, after [`CLEAN_OUTAGE_PAUSE`].
    pub fn is_news(&mut self, now: Duration) -> bool {
        let lasts = self.since.is_some_and(|since| now.saturating_sub(since) >= CLEAN_OUTAGE_PAUSE);
        lasts && !std::mem::replace(&mut self.told, lasts)
    }

    /// A row got its verdict.
    pub fn on_verdict(&mut self, reason: Reason) {
        if !KNOWN_WITHOUT_ASKING.contains(&reason) {
            (self.since, self.told, self.answered) = (None, false, true);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_an_answer_of_somebody_ends_an_outage() {
        let at = Duration::from_secs;
        let mut watch = OutageWatch::new(at(120));
        assert!(!watch.is_on() && !watch.is_paused(at(0)));
        assert!(!watch.on_outage(at(10), false), "it has only begun");
        assert!(watch.is_on() && watch.is_paused(at(15)) && !watch.is_paused(at(16)));
        assert_eq!([false, true].map(|known| watch.gives_up_in(at(14), known)), [Some(at(116)), Some(at(1))]);
        assert!(watch.on_outage(at(15), true), "nothing was answered before");
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
            assert_eq!(watch.gives_up_in(at(210), true), Some(at(110)), "there was an answer before");
        }
        assert!(OutageWatch::new(at(0)).on_outage(at(0), false), "with 0 the first ends the run");
    }
}
