//! The verdict about the times that a run stated, by the events that mailnet recorded and by the end of the run.

use mailnet::{Journal, What};
use std::collections::HashMap;
use std::time::Duration;

/// What a person read at one moment of a run.
pub struct Sample {
    /// The time since the start of the run.
    pub at: Duration,
    /// The time left that the line stated.
    pub stated: Option<Duration>,
    /// The whole line.
    pub line: String,
}

/// A delay that the program knew: an address waited from one time to another.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KnownDelay {
    /// When the program learned it.
    pub from: Duration,
    /// When the address was asked about again.
    pub until: Duration,
    /// The domain of the address.
    pub domain: String,
}

impl KnownDelay {
    fn is_known(&self, at: Duration) -> bool {
        (self.from + SLACK..self.until).contains(&at)
    }
}

/// The figures of a run.
#[derive(Debug, Default)]
pub struct Figures {
    /// The median of |stated - true| / max(true, 10 s).
    pub median: f64,
    /// The longest time without a statement.
    pub withheld: Duration,
    /// How far a statement was below a known delay, at most.
    pub below: Duration,
    /// The number of statements.
    pub statements: usize,
}

/// True times below this one count as this one.
const TRUE_MIN: Duration = Duration::from_secs(10);
/// Two attempts that are so far apart had a delay between them that the program knew. The engine itself asks again after at most
/// ten seconds.
const DELAY_MIN: Duration = Duration::from_secs(15);
/// The line is drawn each fifth of a second, and an address that is due may wait for a session.
const SLACK: Duration = Duration::from_secs(3);
/// From this share of the verdicts on, the statements count.
const FROM_SHARE: f64 = 0.1;

/// When each address of the list was asked about, since the start of the run, with the reply codes.
pub type Attempts = HashMap<String, Vec<(Duration, u16)>>;

/// Reads the attempts of a run from the journal. The run began at `began` of mailnet's time.
pub fn attempts(journal: &Journal, rows: &[String], began: Duration) -> Attempts {
    let mut attempts: Attempts = rows.iter().map(|row| (row.clone(), Vec::new())).collect();
    for event in &journal.events {
        if let What::Rcpt { address, code, .. } = &event.what
            && let Some(attempts) = attempts.get_mut(&address.to_ascii_lowercase())
        {
            attempts.push((Duration::from_millis(event.at_ms).saturating_sub(began), *code));
        }
    }
    attempts
}

/// The number of addresses that have had their last reply at a time.
pub fn replied(attempts: &Attempts, at: Duration) -> usize {
    attempts.values().filter(|replies| replies.last().is_some_and(|(last, _)| *last <= at)).count()
}

/// When this share of the addresses had their last reply. Addresses without a reply have theirs at the end.
pub fn counts_from(attempts: &Attempts, end: Duration) -> Duration {
    let last = |replies: &Vec<(Duration, u16)>| replies.last().map_or(end, |(at, _)| *at);
    let mut times: Vec<Duration> = attempts.values().map(last).collect();
    times.sort_unstable();
    times.get((times.len() as f64 * FROM_SHARE) as usize).copied().unwrap_or(end)
}

/// The delays between two attempts at one address, the first of which had a transient reply.
pub fn known_delays(attempts: &Attempts) -> Vec<KnownDelay> {
    let delays = attempts.iter().flat_map(|(address, replies)| {
        let domain = address.rsplit_once('@').map_or("", |(_, domain)| domain);
        replies.windows(2).filter_map(move |pair| match pair {
            &[(from, 400..500), (until, _)] if until - from >= DELAY_MIN => {
                Some(KnownDelay { from, until, domain: domain.to_owned() })
            }
            _ => None,
        })
    });
    delays.collect()
}

/// Judges the samples of a run that took until `end`. Only those at `from` or later count.
pub fn judge(samples: &[Sample], from: Duration, end: Duration, delays: &[KnownDelay]) -> Figures {
    let mut figures = Figures::default();
    let mut errors = Vec::new();
    let mut spoke = from;
    for sample in samples.iter().filter(|sample| sample.at >= from && sample.at < end) {
        let Some(stated) = sample.stated else {
            figures.withheld = figures.withheld.max(sample.at - spoke);
            continue;
        };
        figures.withheld = figures.withheld.max(sample.at.saturating_sub(spoke));
        spoke = sample.at;
        let left = end - sample.at;
        errors.push(stated.abs_diff(left).as_secs_f64() / left.max(TRUE_MIN).as_secs_f64());
        let known = delays.iter().filter(|delay| delay.is_known(sample.at));
        let least = known.map(|delay| delay.until - sample.at).max().unwrap_or_default();
        figures.below = figures.below.max(least.saturating_sub(stated + SLACK));
    }
    errors.sort_unstable_by(f64::total_cmp);
    figures.statements = errors.len();
    figures.median = errors.get(errors.len() / 2).copied().unwrap_or(f64::INFINITY);
    figures.withheld = figures.withheld.max(end.saturating_sub(spoke.max(from)));
    figures
}

/// The share of the samples within known delays whose line names a domain of such a delay; `None` if there are none.
pub fn named(samples: &[Sample], delays: &[KnownDelay]) -> Option<f64> {
    let (mut waiting, mut named) = (0_u32, 0_u32);
    for sample in samples {
        let mut known = delays.iter().filter(|delay| delay.is_known(sample.at)).peekable();
        if known.peek().is_some() {
            waiting += 1;
            named += u32::from(known.any(|delay| sample.line.contains(&delay.domain)));
        }
    }
    (waiting > 0).then(|| f64::from(named) / f64::from(waiting))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn s(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    fn samples(stated: impl Fn(u64) -> Option<u64>, end: u64) -> Vec<Sample> {
        let sample = |at| Sample { at: s(at), stated: stated(at).map(s), line: String::new() };
        (0..end).map(sample).collect()
    }

    #[test]
    fn the_median_is_of_the_statements_that_count() {
        let exact = judge(&samples(|at| Some(100 - at), 100), s(10), s(100), &[]);
        assert_eq!((exact.median, exact.withheld, exact.statements), (0.0, s(1), 90));
        let half = judge(&samples(|at| Some((100 - at) / 2), 90), s(10), s(100), &[]);
        assert!((half.median - 0.5).abs() < 0.02, "{}", half.median);
        // Near the end an error of a few seconds is none of half.
        let late = judge(&samples(|at| (at > 96).then_some(5), 100), s(96), s(100), &[]);
        assert!(late.median <= 0.4, "{}", late.median);
        assert_eq!(judge(&[], s(10), s(100), &[]).median, f64::INFINITY);
    }

    #[test]
    fn silence_and_times_below_a_known_delay_are_found() {
        let silent =
            judge(&samples(|at| (!(40..50).contains(&at)).then_some(100 - at), 100), s(10), s(100), &[]);
        assert_eq!(silent.withheld, s(11));
        let delay = KnownDelay { from: s(20), until: s(80), domain: "a.example".into() };
        let low = judge(
            &samples(|at| Some(if at == 30 { 10 } else { 100 - at }), 100),
            s(10),
            s(100),
            std::slice::from_ref(&delay),
        );
        assert_eq!(low.below, s(37));
        let before =
            judge(&samples(|at| Some(if at < 22 { 1 } else { 100 - at }), 100), s(10), s(100), &[delay]);
        assert_eq!(before.below, Duration::ZERO);
    }

    #[test]
    fn lines_within_a_delay_name_its_domain() {
        let delay = KnownDelay { from: s(0), until: s(10), domain: "a.example".into() };
        let sample = |at, line: &str| Sample { at: s(at), stated: None, line: line.into() };
        let samples = [sample(1, ""), sample(4, "waiting for a.example"), sample(5, "12/s"), sample(12, "")];
        assert_eq!((named(&samples, &[delay]), named(&samples, &[])), (Some(0.5), None));
    }

    #[test]
    fn a_delay_is_between_two_attempts_after_a_transient_reply() {
        let attempts = Attempts::from([
            ("a@a.example".to_owned(), vec![(s(1), 450), (s(41), 250)]),
            ("b".to_owned(), vec![(s(1), 450), (s(11), 250)]),
            ("c".to_owned(), vec![(s(1), 250), (s(41), 250)]),
        ]);
        assert_eq!(
            known_delays(&attempts),
            [KnownDelay { from: s(1), until: s(41), domain: "a.example".into() }]
        );
        assert_eq!(counts_from(&attempts, s(50)), s(11));
    }
}
