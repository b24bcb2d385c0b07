//! Estimates how long a run still takes, and names the domain that it waits for. Pure: its inputs are the times of events.
//!
//! The run takes as long as the slowest of these:
//! - all rows, at the rate of the last seconds. The rate may still grow, because the number of sessions at a site does;
//! - the rows of one domain, at the rate of the domain;
//! - rows that are checked again at a known time: until then, and as long as their last attempt took;
//! - a domain whose servers say nothing: the engine tries to connect for about a minute, and then the run gives such rows up a
//!   known time after its last progress (`stall.rs`).
//!
//! Rows that are not read yet are expected to be like those that were read.

use std::time::Duration;

/// Length of the two windows in which answers are counted, in milliseconds.
const WINDOW_MS: u64 = 5000;
/// How long the engine tries to connect to the hosts of a domain: three times [`engine::proto::limits::CONNECT_TIMEOUT`].
const CONNECTING_MS: u64 = 60_000;
/// A domain without an answer for so long counts as silent.
const SILENT_MS: u64 = 2 * WINDOW_MS;
/// The rate grows at most by this factor.
const GROWTH_MAX: f64 = 2.0;
/// A window shows a growing rate after this time, in milliseconds.
const GROWTH_AFTER_MS: f64 = 1500.0;

/// Why a row is checked later.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Cause {
    /// Its server has greylisted it.
    #[default]
    Greylisting,
    /// The budget of refused recipients of its site is used up.
    Budget,
    /// Its server has replied "later", or ended the session.
    Later,
    /// No server could be reached.
    Connection,
}

impl Cause {
    /// Whether the next try is probably the last one. The other causes last until the end of the wait.
    fn passes(self) -> bool {
        matches!(self, Cause::Greylisting | Cause::Budget)
    }

    /// The cause of a rule that leaves a row unverifiable for now.
    pub fn of_rule(rule: &str) -> Cause {
        match rule {
            "no_connection" | "no_answer_in_time" | "source_rested" => Cause::Connection,
            _ if rule.starts_with("greylisted") || rule == "retry-soon" => Cause::Greylisting,
            _ => Cause::Later,
        }
    }

    fn text(self) -> &'static str {
        match self {
            Cause::Greylisting => "greylisting",
            Cause::Budget => "budget of refused recipients",
            Cause::Later => "the server asks for a later try",
            Cause::Connection => "no connection",
        }
    }
}

/// The times of a run.
#[derive(Debug, Default)]
pub(super) struct TimeLeft {
    /// The domains by their number in the summary; the last entry is of all domains without a number.
    domains: Vec<DomainTimes>,
    others: DomainTimes,
    all: Rate,
}

/// The rows of a domain, and their times in milliseconds from the start of the run.
#[derive(Debug, Default, Clone, Copy)]
struct DomainTimes {
    /// Number of rows without a result.
    open: u32,
    /// Number of these that are checked later.
    put_off: u32,
    /// Number of rows with a result.
    done: u32,
    /// When the domain was first asked about, or again after all its rows waited.
    begun: u64,
    /// How long the last attempt took that ended with a delay.
    attempt: u64,
    /// When the last of its delayed rows is due, and when their wait ends.
    due: u64,
    until: u64,
    cause: Cause,
    rate: Rate,
}

/// Answers in the last two windows.
#[derive(Debug, Default, Clone, Copy)]
struct Rate {
    /// The beginning of the current window.
    from: u64,
    now: u32,
    before: u32,
    /// The last answer.
    last: u64,
}

impl Rate {
    fn count(&mut self, now: u64) {
        self.turn(now);
        self.now += 1;
        self.last = now;
    }

    fn turn(&mut self, now: u64) {
        let passed = now.saturating_sub(self.from) / WINDOW_MS;
        match passed {
            0 => return,
            1 => self.before = self.now,
            _ => self.before = 0,
        }
        self.now = 0;
        self.from += passed * WINDOW_MS;
    }

    /// How long this number of rows takes at the rate of the windows, and if the rate goes on to grow, both in milliseconds; `None` if
    /// there were no answers.
    fn time_for(mut self, rows: f64, now: u64, begun: u64) -> Option<(f64, f64)> {
        self.turn(now);
        let into = (now - self.from.min(now)) as f64;
        let start = self.from.saturating_sub(WINDOW_MS).max(begun.min(self.from));
        let span = (now - start) as f64;
        let count = f64::from(self.now + self.before);
        if count == 0.0 || span <= 0.0 {
            return None;
        }
        let mean = count / span;
        let steady = rows / mean;
        let before_span = self.from.saturating_sub(start) as f64;
        if into < GROWTH_AFTER_MS || before_span < WINDOW_MS as f64 {
            return Some((steady, steady));
        }
        let (old, new) = (f64::from(self.before) / before_span, f64::from(self.now) / into);
        // Three standard deviations of the number of answers, if they come at random.
        let noise = 3.0 * (old * into + f64::from(self.now)).sqrt();
        if (new - old) * into <= noise {
            return Some((steady, steady));
        }
        // The rate grows: the time until its integral is the number of rows.
        let growth = (new - old) / ((before_span + into) / 2.0);
        let most = new * GROWTH_MAX;
        let growing = (most - new) / growth;
        let meanwhile = (new + most) / 2.0 * growing;
        let grown = if rows > meanwhile {
            growing + (rows - meanwhile) / most
        } else {
            ((new * new + 2.0 * growth * rows).sqrt() - new) / growth
        };
        Some((steady, grown))
    }
}

/// The facts of the run that the estimate depends on. Times are milliseconds from its start.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct RunFacts {
    pub now: u64,
    /// The last progress of the run, and the last time that a row was submitted again.
    pub progress: u64,
    pub again: u64,
    /// How long rows wait without progress, and `--max-wait`.
    pub silence: u64,
    pub max_wait: u64,
    /// Number of rows read, and how many the list has in all; `None` if it is not known.
    pub read: u64,
    pub rows: Option<f64>,
}

/// The domain that the run waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Awaited {
    /// Its number; `None` if it has none of its own.
    pub domain: Option<u32>,
    pub why: &'static str,
    /// Number of other domains that the run waits for.
    pub others: usize,
}

impl TimeLeft {
    fn domain(&mut self, number: u32) -> &mut DomainTimes {
        let at = number as usize;
        if number >= u32::MAX - 1 {
            return &mut self.others;
        }
        if at >= self.domains.len() {
            self.domains.resize(at + 1, DomainTimes::default());
        }
        &mut self.domains[at]
    }

    /// A row is asked about for the first time.
    pub fn on_new(&mut self, domain: u32, now: u64) {
        let times = self.domain(domain);
        if times.open == times.put_off {
            times.begun = now;
        }
        times.open += 1;
    }

    /// A delayed row is asked about again.
    pub fn on_again(&mut self, domain: u32, now: u64) {
        let times = self.domain(domain);
        if times.open == times.put_off {
            times.begun = now;
        }
        times.put_off = times.put_off.saturating_sub(1);
    }

    /// A row has its result.
    pub fn on_result(&mut self, domain: u32, now: u64) {
        let times = self.domain(domain);
        times.open = times.open.saturating_sub(1);
        times.done += 1;
        times.rate.count(now);
        self.all.count(now);
    }

    /// A row is checked later: at `due`, and perhaps again until `until`.
    pub fn on_delay(&mut self, domain: u32, cause: Cause, now: u64, due: u64, until: u64) {
        let times = self.domain(domain);
        times.put_off += 1;
        times.cause = cause;
        times.attempt = now.saturating_sub(times.begun);
        times.due = times.due.max(due);
        times.until = times.until.max(until);
        times.rate.count(now);
        self.all.count(now);
    }

    /// The time left, and the domain that it is waited for, if any; `None` as long as nothing is known.
    pub fn estimate(&self, facts: &RunFacts) -> (Option<Duration>, Option<Awaited>) {
        let now = facts.now;
        let unread = facts.rows.map_or(0.0, |rows| (rows - facts.read as f64).max(0.0));
        let more = if facts.read > 0 { unread / facts.read as f64 } else { 0.0 };
        let (mut live_rows, mut live, mut delayed, mut lasting) = (0.0, 0.0_f64, 0.0_f64, 0.0_f64);
        let (mut connecting, mut is_silent) = (0.0_f64, false);
        let mut awaited = Waiting::default();
        let numbered = self.domains.iter().enumerate().map(|(at, times)| (Some(at as u32), times));
        for (number, times) in numbered.chain([(None, &self.others)]) {
            let asked = times.open - times.put_off.min(times.open);
            let rows = f64::from(asked) + f64::from(times.open + times.done) * more;
            if times.put_off > 0 && times.due + WINDOW_MS > now {
                let due = times.due.max(now) - now;
                let end = (due + times.attempt) as f64;
                awaited.add(number, times.put_off, times.cause.text());
                if times.cause.passes() {
                    delayed = delayed.max(end);
                } else {
                    let last = (times.until.max(times.due).max(now) - now + times.attempt) as f64;
                    lasting = lasting.max(last).max(end);
                }
            }
            if asked == 0 && rows == 0.0 {
                continue;
            }
            let silent_for = now - times.rate.last.max(times.begun).min(now);
            if asked == 0 || silent_for < SILENT_MS {
                live_rows += rows;
                let own = times.rate.time_for(rows, now, times.begun).filter(|_| times.done > 0);
                live = live.max(own.map_or(0.0, |(steady, _)| steady));
                continue;
            }
            awaited.add(number, asked, "no answer");
            if times.done == 0 && silent_for < CONNECTING_MS && facts.max_wait == 0 {
                connecting = connecting.max((CONNECTING_MS - silent_for) as f64);
            } else {
                is_silent = true;
            }
        }
        let first = self.domains.iter().map(|times| times.begun).min().unwrap_or_default();
        let of_all = self.all.time_for(live_rows, now, first);
        if let Some((steady, grown)) = of_all.filter(|_| live_rows > 0.0) {
            // One domain has too few answers to show how its rate grows, so it takes part in the growth of all.
            live = (live * grown / steady.max(1.0)).max(grown);
        }
        let progress = live.max(delayed);
        // If only silent servers are left, the run ends a known time after its last progress.
        let last_progress = if progress > 0.0 { now as f64 + progress } else { facts.progress as f64 };
        let given_up = (last_progress + facts.max_wait as f64).max(facts.again as f64) + facts.silence as f64;
        let silent = if is_silent { (given_up - now as f64).max(0.0) } else { 0.0 };
        let left = progress.max(lasting).max(connecting).max(silent);
        let is_known = left > 0.0 || of_all.is_some();
        (is_known.then(|| Duration::from_millis(left as u64)), awaited.most())
    }
}

/// The domains that the run waits for.
#[derive(Default)]
struct Waiting {
    most: Option<(u32, Option<u32>, &'static str)>,
    domains: usize,
}

impl Waiting {
    fn add(&mut self, domain: Option<u32>, rows: u32, why: &'static str) {
        self.domains += 1;
        if self.most.is_none_or(|(most, ..)| rows > most) {
            self.most = Some((rows, domain, why));
        }
    }

    fn most(self) -> Option<Awaited> {
        let (_, domain, why) = self.most?;
        Some(Awaited { domain, why, others: self.domains - 1 })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SILENCE: u64 = 55_000;

    fn facts(now: u64, progress: u64) -> RunFacts {
        RunFacts { now, progress, silence: SILENCE, ..RunFacts::default() }
    }

    /// The stated time in seconds.
    fn stated(times: &TimeLeft, facts: &RunFacts) -> f64 {
        times.estimate(facts).0.map_or(f64::NAN, |left| left.as_secs_f64())
    }

    #[track_caller]
    fn near(stated: f64, truth: f64) {
        assert!((stated - truth).abs() <= 0.2 * truth.max(10.0), "stated {stated} s, true {truth} s");
    }

    #[test]
    fn an_even_pace_goes_on() {
        let mut times = TimeLeft::default();
        (0..1000).for_each(|_| times.on_new(0, 0));
        assert_eq!(times.estimate(&facts(100, 0)).0, None, "nothing is known");
        for n in 1..=900_u64 {
            times.on_result(0, n * 100);
            if n > 100 && n % 10 == 0 {
                near(stated(&times, &facts(n * 100, n * 100)), (1000 - n) as f64 / 10.0);
            }
        }
        // A list of which a tenth is read.
        let all = RunFacts { read: 1000, rows: Some(10_000.0), ..facts(90_000, 90_000) };
        near(stated(&times, &all), 910.0);
    }

    #[test]
    fn the_largest_domain_lasts_longest() {
        let mut times = TimeLeft::default();
        for domain in 0..10 {
            (0..if domain == 0 { 1000 } else { 100 }).for_each(|_| times.on_new(domain, 0));
        }
        for n in 1..=95_u64 {
            (0..10).for_each(|domain| times.on_result(domain, n * 200));
        }
        near(stated(&times, &facts(19_000, 19_000)), 905.0 / 5.0);
    }

    #[test]
    fn a_rate_that_grows_is_seen() {
        let mut times = TimeLeft::default();
        for domain in 0..8 {
            (0..450).for_each(|_| times.on_new(domain, 0));
        }
        // In each second, each domain has one more answer than in the last: 450 rows in 30 seconds.
        for second in 0..13_u64 {
            for n in 0..second {
                (0..8).for_each(|domain| times.on_result(domain, second * 1000 + n * 1000 / second));
            }
        }
        near(stated(&times, &facts(13_000, 13_000)), 17.0);
    }

    #[test]
    fn a_known_delay_is_waited_for() {
        let mut times = TimeLeft::default();
        for (domain, cause) in [(0, Cause::Greylisting), (1, Cause::Budget)] {
            times.on_new(domain, 0);
            times.on_delay(domain, cause, 2000, 302_000, 900_000);
        }
        for now in [2000, 50_000, 300_000] {
            let left = stated(&times, &facts(now, 2000));
            assert!(left >= (302_000 - now) as f64 / 1000.0, "{left} at {now}");
            near(left, (304_000 - now) as f64 / 1000.0);
        }
        let (_, awaited) = times.estimate(&facts(2000, 2000));
        assert_eq!(awaited, Some(Awaited { domain: Some(0), why: "greylisting", others: 1 }));
        times.on_again(0, 302_000);
        times.on_result(0, 303_000);
        let (_, awaited) = times.estimate(&facts(303_000, 303_000));
        assert_eq!(awaited.map(|it| it.why), Some("budget of refused recipients"));
    }

    #[test]
    fn a_server_that_says_nothing_is_given_up() {
        let mut times = TimeLeft::default();
        times.on_new(0, 0);
        (0..100).for_each(|_| times.on_new(1, 0));
        (1..=100).for_each(|n| times.on_result(1, n * 100));
        // The first minute is that of connecting. Later the run waits for replies until it gives up.
        near(stated(&times, &facts(20_000, 10_000)), 40.0);
        near(stated(&times, &facts(61_000, 10_000)), 4.0);
        let patient = RunFacts { max_wait: 100_000, ..facts(61_000, 10_000) };
        near(stated(&times, &patient), 104.0);
        let (_, awaited) = times.estimate(&patient);
        assert_eq!(awaited, Some(Awaited { domain: Some(0), why: "no answer", others: 0 }));
    }

    #[test]
    fn hosts_that_cannot_be_reached_are_tried_until_the_end_of_the_wait() {
        let mut times = TimeLeft::default();
        times.on_new(0, 0);
        times.on_delay(0, Cause::Connection, 58_000, 118_000, 200_000);
        let patient = RunFacts { max_wait: 200_000, ..facts(60_000, 0) };
        near(stated(&times, &patient), 198.0);
    }
}
