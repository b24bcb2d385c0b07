//! Budgets of refused recipients: how many recipients a site has refused in the last hour, and how many more it may be
//! asked about. The world counts at the servers. It counts an answer as known from the moment at which the client can
//! have it.

use super::plan::WorldPlan;
use super::premises::Premise;
use engine::config::Pace;
use std::collections::VecDeque;
use std::time::Duration;

/// The length of the rolling window.
const HOUR: Duration = Duration::from_secs(3600);
/// The window of [`Refusals::is_cause`] is longer by this: a client need not keep the time of each answer.
const LONGER: Duration = Duration::from_secs(310);
/// Refusals of an hour that are allowed while they outnumber the accepts.
const UNKNOWN: u32 = 100;
/// Refusals of an hour that are allowed while the accepts outnumber them.
const KNOWN: u32 = 600;
/// If the hour's accepts divided by this are more, so many refusals are allowed.
const PART: u32 = 4;
/// The default limit of Cisco gateways.
const CISCO: u32 = 25;
/// The factor of these limits under the pace `fast`.
const FAST: u32 = 5;

/// The limits on refusals of an hour at one site.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Allowance {
    times: u32,
    cisco: bool,
}

impl Allowance {
    /// The allowance of a site; `None` under the pace `lab`, which has no budget.
    pub fn of(plan: &WorldPlan, site: u32) -> Option<Allowance> {
        let times = match plan.pace {
            Pace::Polite => 1,
            Pace::Fast => FAST,
            Pace::Lab => return None,
        };
        let cisco = plan.hosts.iter().any(|host| host.site == site && host.manners.tricks.cisco);
        Some(Allowance { times, cisco })
    }

    /// The most refusals that an hour allows, if `refused` recipients are or may be refused and `accepted` are
    /// accepted.
    fn most(self, refused: u32, accepted: u32) -> u32 {
        let most = match (self.cisco, refused > accepted) {
            (true, _) => CISCO,
            (_, true) => UNKNOWN,
            (_, false) => KNOWN.max(accepted / PART),
        };
        most * self.times
    }

    /// The fewest refusals that any hour allows. A client may assume Cisco's default at any pace.
    fn least(self) -> u32 {
        if self.cisco { CISCO } else { UNKNOWN * self.times }
    }
}

/// The answers of a site's hosts within the window, in the order of sending.
#[derive(Debug, Default)]
pub struct Refusals {
    answers: VecDeque<BudgetReply>,
}

#[derive(Debug, Clone, Copy)]
struct BudgetReply {
    sent: Duration,
    /// The time at which the client has the answer.
    heard: Duration,
    refused: bool,
    /// The connection broke before the answer arrived, so the answer is unknown.
    lost: bool,
}

/// Counts of the answers of an hour.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct HourCounts {
    refused: u32,
    accepted: u32,
    /// Answers on their way to the client.
    under_way: u32,
}

impl Refusals {
    /// Counts the answer of a host for a recipient.
    ///
    /// # Errors
    ///
    /// The client asked too much: more refusals than an hour allows are possible. The refused recipients count, and
    /// those without an answer at the time of asking. The text has the figures.
    pub fn answered(
        &mut self,
        allowance: Allowance,
        now: Duration,
        heard: Duration,
        refused: bool,
    ) -> Result<(), String> {
        let before = self.counts(now, HOUR);
        self.answers.push_back(BudgetReply { sent: now, heard, refused, lost: false });
        let asked = before.refused + before.under_way + 1;
        let most = allowance.most(asked, before.accepted);
        Premise::BudgetFull.count(asked == most);
        if asked <= most {
            return Ok(());
        }
        Err(format!(
            "a recipient beyond the budget: {} refused, {} accepted and {} without an answer in the last hour, {most} may be refused",
            before.refused, before.accepted, before.under_way
        ))
    }

    /// Counts a recipient whose answer never arrives.
    pub fn lost(&mut self, now: Duration) {
        self.answers.push_back(BudgetReply { sent: now, heard: now, refused: true, lost: true });
    }

    /// Whether the client may answer that its budget is used up. At least half of the fewest allowed refusals must be
    /// refused, on their way, or lost.
    pub fn is_cause(&mut self, allowance: Option<Allowance>, now: Duration) -> bool {
        // The client may count a refusal for longer than an hour.
        let counts = self.counts(now, HOUR + LONGER);
        let lost = self.answers.iter().filter(|reply| reply.lost).count() as u32;
        allowance.is_some_and(|allowance| counts.refused + counts.under_way + lost >= allowance.least() / 2)
    }

    /// Counts the answers of the window; refusals count for the time `refused`.
    fn counts(&mut self, now: Duration, refused: Duration) -> HourCounts {
        while self.answers.front().is_some_and(|reply| reply.sent + HOUR + LONGER <= now) {
            self.answers.pop_front();
        }
        let mut counts = HourCounts::default();
        for reply in &self.answers {
            let count = match reply {
                BudgetReply { lost: true, .. } => continue,
                BudgetReply { heard, .. } if *heard > now => &mut counts.under_way,
                BudgetReply { refused: true, sent, .. } if *sent + refused <= now => continue,
                BudgetReply { refused: true, .. } => &mut counts.refused,
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

    /// Gives answers to a fresh site, one second apart and received at once. Returns how many were within the budget.
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
