//! How many recipients a site has refused in the last hour, and how many it may be asked about. The world counts on the
//! servers' side, and knows of each answer when the client can have heard it.

use super::plan::Plan;
use engine::config::Pace;
use std::collections::VecDeque;
use std::time::Duration;

/// The window that rolls.
const HOUR: Duration = Duration::from_secs(3600);
/// Answers may count a little longer: a client need not keep the time of each.
const LONGER: Duration = Duration::from_secs(310);
/// Refusals of an hour while they outweigh the accepts.
const UNKNOWN: u32 = 100;
/// The same where they do not.
const KNOWN: u32 = 600;
/// The part of the hour's accepts that may be refusals, where that is more.
const PART: u32 = 4;
/// Cisco's default.
const CISCO: u32 = 25;
/// How much more the pace `fast` allows.
const FAST: u32 = 5;

/// What may be refused at a site in an hour.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Allowance {
    times: u32,
    cisco: bool,
}

impl Allowance {
    /// Of a site; `None` under the pace `lab`, which has no budget.
    pub fn of(plan: &Plan, site: u32) -> Option<Allowance> {
        let times = match plan.pace {
            Pace::Polite => 1,
            Pace::Fast => FAST,
            Pace::Lab => return None,
        };
        let cisco = plan.hosts.iter().any(|host| host.site == site && host.manners.tricks.cisco);
        Some(Allowance { times, cisco })
    }

    /// Refusals of an hour, if so many recipients are or may be refused and so many are accepted.
    fn most(self, refused: u32, accepted: u32) -> u32 {
        let most = match (self.cisco, refused > accepted) {
            (true, _) => CISCO,
            (_, true) => UNKNOWN,
            (_, false) => KNOWN.max(accepted / PART),
        };
        most * self.times
    }

    /// The least that any hour allows. A client may take Cisco's default for the same at any pace.
    fn least(self) -> u32 {
        if self.cisco { CISCO } else { UNKNOWN * self.times }
    }
}

/// The answers of a site's hosts.
#[derive(Debug, Default)]
pub struct Refusals {
    answers: VecDeque<Reply>,
}

#[derive(Debug, Clone, Copy)]
struct Reply {
    sent: Duration,
    /// When the client has it.
    heard: Duration,
    refused: bool,
    /// The connection broke before it was answered, and nobody can tell what the answer would have been.
    lost: bool,
}

/// The answers of an hour.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Counts {
    refused: u32,
    accepted: u32,
    /// On their way to the client, whatever they say.
    under_way: u32,
}

impl Refusals {
    /// A host answers for a recipient; `Err` where the client should not have asked: all that was refused, and all whose
    /// answers it did not have when it asked, may be more refusals than an hour allows.
    pub fn answered(
        &mut self,
        allowance: Allowance,
        now: Duration,
        heard: Duration,
        refused: bool,
    ) -> Result<(), String> {
        let before = self.counts(now, HOUR);
        self.answers.push_back(Reply { sent: now, heard, refused, lost: false });
        let asked = before.refused + before.under_way + 1;
        let most = allowance.most(asked, before.accepted);
        if asked <= most {
            return Ok(());
        }
        Err(format!(
            "a recipient beyond the budget: {} refused, {} accepted and {} without an answer in the last hour, {most} may be refused",
            before.refused, before.accepted, before.under_way
        ))
    }

    /// A recipient was asked about that no answer came for.
    pub fn lost(&mut self, now: Duration) {
        self.answers.push_back(Reply { sent: now, heard: now, refused: true, lost: true });
    }

    /// Whether the client may say that its budget is used up: half of the least that it has is refused, on its way, or lost.
    pub fn is_cause(&mut self, allowance: Option<Allowance>, now: Duration) -> bool {
        // It may count a refusal a little longer.
        let counts = self.counts(now, HOUR + LONGER);
        let lost = self.answers.iter().filter(|reply| reply.lost).count() as u32;
        allowance.is_some_and(|allowance| counts.refused + counts.under_way + lost >= allowance.least() / 2)
    }

    /// `refused`: how long refusals count.
    fn counts(&mut self, now: Duration, refused: Duration) -> Counts {
        while self.answers.front().is_some_and(|reply| reply.sent + HOUR + LONGER <= now) {
            self.answers.pop_front();
        }
        let mut counts = Counts::default();
        for reply in &self.answers {
            let count = match reply {
                Reply { lost: true, .. } => continue,
                Reply { heard, .. } if *heard > now => &mut counts.under_way,
                Reply { refused: true, sent, .. } if *sent + refused <= now => continue,
                Reply { refused: true, .. } => &mut counts.refused,
                _ => &mut counts.accepted,
            };
            *count += 1;
        }
        counts
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const POLITE: Allowance = Allowance { times: 1, cisco: false };

    /// Answers in turn, so many each, a second apart and heard at once: how many were within the budget.
    fn within(allowance: Allowance, answers: &[(u32, bool)]) -> u32 {
        let (mut refusals, mut now) = (Refusals::default(), Duration::ZERO);
        let mut within = 0;
        for refused in answers.iter().flat_map(|&(times, refused)| (0..times).map(move |_| refused)) {
            now += Duration::from_secs(1);
            within += u32::from(refusals.answered(allowance, now, now, refused).is_ok());
        }
        within
    }

    #[test]
    fn what_an_hour_allows_follows_from_its_answers() {
        let (cisco, fast) = (Allowance { times: 1, cisco: true }, Allowance { times: 5, cisco: false });
        for (allowance, answers, expected) in [
            (POLITE, &[(100, true)][..], 100),
            (POLITE, &[(150, true)], 100),
            (POLITE, &[(101, false), (101, true)], 202),
            (POLITE, &[(101, false), (110, true)], 202),
            (POLITE, &[(90, false), (110, true)], 190),
            (POLITE, &[(650, false), (640, true)], 650 + 600),
            (POLITE, &[(2800, false), (720, true)], 2800 + 700),
            (cisco, &[(30, true)], 25),
            (cisco, &[(100, false), (30, true)], 125),
            (fast, &[(600, true)], 500),
        ] {
            assert_eq!(within(allowance, answers), expected, "{allowance:?} {answers:?}");
        }
    }

    #[test]
    fn what_is_on_its_way_counts_and_the_hour_rolls() {
        let mut refusals = Refusals::default();
        let (now, later) = (Duration::from_secs(1), Duration::from_secs(2));
        for _ in 0..100 {
            assert_eq!(refusals.answered(POLITE, now, later, false), Ok(()));
        }
        assert!(refusals.answered(POLITE, now, later, true).is_err(), "a hundred have no answer yet");
        assert!(refusals.answered(POLITE, later, later, true).is_ok(), "they were accepted");
        assert!(refusals.is_cause(Some(POLITE), now) && !refusals.is_cause(None, now));
        assert!(!refusals.is_cause(Some(POLITE), later), "two refusals are no cause");
        let mut refusals = Refusals::default();
        for _ in 0..100 {
            assert!(refusals.answered(POLITE, now, now, true).is_ok());
        }
        let over = now + HOUR;
        assert!(refusals.answered(POLITE, over - Duration::from_nanos(1), over, true).is_err());
        assert!(refusals.answered(POLITE, over, over, true).is_ok());
    }
}
