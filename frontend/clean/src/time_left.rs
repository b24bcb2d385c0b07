//! Estimates how long a run still takes, and names the domain that it waits for. Pure: its inputs are the times of events.
//!
//! The run takes as long as the slowest of these:
//! - all rows, at the rate of the replies of the last seconds. In the first seconds of a site the rate still grows, because the
//!   number of its sessions does;
//! - the rows of one domain, at the rate of its replies;
//! - rows that are checked again at a known time: until then, and as long as their last attempt took. If the budget of refused
//!   recipients is the cause, each budget is expected to take as many rows as the last one did, so further budgets may be needed;
//! - a domain whose servers say nothing: an attempt takes about a minute, and there is a last one at the end of `--max-wait`. The
//!   run gives such rows up a known time after its last progress (`stall.rs`), so they never take longer.
//!
//! Replies are counted, not results: a session holds its answers until later replies prove them. Rows that are not read yet are
//! expected to be like those that were read.

use super::budget::AskedRow;
use api::WaitCause;
use checks::convert::wait_cause;
use engine::proto::limits::{CONNECT_TIMEOUT, ROUTE_DOWN, STRIKES_MAX};
use engine::proto::retry::CLEAN_RETRIES;
use lists::left::Left;
use std::cmp::Reverse;
use std::collections::VecDeque;
use std::time::Duration;

/// The rate is that of so many milliseconds.
const WINDOW_MS: u64 = 6000;
/// Interval between two counts of the replies, in milliseconds.
const COUNT_INTERVAL_MS: u64 = 500;
/// How long the engine tries to connect to the hosts of a domain, in milliseconds.
const CONNECTING_MS: u64 = STRIKES_MAX as u64 * CONNECT_TIMEOUT.as_millis() as u64;
/// A domain without a reply for so long counts as silent.
const SILENT_MS: u64 = 10_000;
/// So does a domain that has never replied, if the other domains have made no progress for so long.
const STALLED_MS: u64 = 3_000;
/// A rate is not known before this number of replies, or this share of the rows.
const RATE_FROM: (f64, f64) = (30.0, 0.05);
/// Most domains that are named.
const NAMED_MAX: usize = 3;
/// A site gets further sessions for about so long.
const GROWING_MS: u64 = 20_000;

/// Why a row is checked later.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Cause {
    /// Its server has greylisted it.
    #[default]
    Greylisting,
    /// The budget of refused recipients of its site is used up.
    Budget,
    /// Its server has given no final answer.
    Later,
    /// Its server ended the session before an answer, or DNS did not answer.
    NoAnswer,
    /// No server could be reached.
    Connection,
}

impl Cause {
    /// Whether no server has replied.
    pub fn is_silence(self) -> bool {
        matches!(self, Cause::NoAnswer | Cause::Connection)
    }

    /// The cause of a rule that leaves a row unverifiable for now.
    pub fn of_rule(rule: &str) -> Cause {
        match rule {
            "no_connection" | "no_answer_in_time" | Left::SILENT => Cause::Connection,
            _ if rule.starts_with("greylisted") || rule == "retry-soon" => Cause::Greylisting,
            _ if wait_cause(rule) == WaitCause::NoAnswer => Cause::NoAnswer,
            _ => Cause::Later,
        }
    }

    /// The words that the dashboard has for the same cause.
    fn text(self) -> &'static str {
        let cause = match self {
            Cause::Greylisting | Cause::Later => WaitCause::RetryLater,
            Cause::Budget => WaitCause::RefusalBudget,
            Cause::NoAnswer | Cause::Connection => WaitCause::NoAnswer,
        };
        cause.words()
    }
}

/// The times of a run.
#[derive(Debug, Default)]
pub(super) struct TimeLeft {
    /// The domains by their number in the summary.
    domains: Vec<DomainTimes>,
    /// All domains without a number.
    others: DomainTimes,
    /// Number of replies and of results without a reply, now and at earlier times.
    replies: u64,
    earlier: VecDeque<(u64, u64)>,
    begun: Option<u64>,
    /// Nobody sees the estimate, so nothing is counted.
    is_off: bool,
}

/// The rows of a domain, and their times in milliseconds from the start of the run.
#[derive(Debug, Default, Clone, Copy)]
struct DomainTimes {
    /// Number of rows without a result.
    open: u32,
    /// Number of these that are checked later, and that have a reply.
    put_off: u32,
    held: u32,
    /// Number of rows with a result.
    done: u32,
    /// When the domain was first asked about, or again after all its rows waited; and the number of replies since.
    begun: u64,
    replies: u32,
    /// The last reply or result.
    last: u64,
    /// Whether the domain counted as silent since `begun`. Then it does until it replies, even if other domains make progress again.
    was_silent: bool,
    /// How long the last attempt took that ended with a delay.
    attempt: u64,
    /// When the last of its delayed rows is due, and when their wait ends.
    due: u64,
    until: u64,
    cause: Cause,
    /// The last budget of refused recipients: the number of replies until it was used up, and the time from the first row that used
    /// it until there is a new one.
    budget: (u32, u64),
}

impl DomainTimes {
    /// A row is asked about.
    fn begin(&mut self, now: u64) {
        if self.open == self.put_off {
            (self.begun, self.replies, self.was_silent) = (now, 0, false);
        }
    }

    /// A row has a result or a delay; true if its reply was not counted before. `is_silence`: there was no reply.
    fn end(&mut self, is_held: bool, is_silence: bool, now: u64) -> bool {
        if is_held {
            self.held = self.held.saturating_sub(1);
        } else if !is_silence {
            self.replies += 1;
            self.last = now;
        }
        !is_held
    }

    /// Whether rows are asked about in vain: no reply comes for long, or none came to the last attempt and none since.
    fn is_silent(&self, facts: &RunFacts, is_stalled: bool) -> bool {
        let failed = (self.was_silent || self.attempt > 0 && self.cause.is_silence()) && self.replies == 0;
        let after = if is_stalled && self.replies == 0 { STALLED_MS } else { SILENT_MS };
        self.open > self.put_off + self.held && (failed || self.silent_for(facts.now) >= after)
    }

    fn silent_for(&self, now: u64) -> u64 {
        now.saturating_sub(self.last.max(self.begun))
    }

    /// How long the rows of this domain, which is silent, still take: until the end of the present attempt, or with `--max-wait` until
    /// that of the last one. Other domains make progress for `live` ms. 0 if the time of the attempt is over.
    fn silent_until(&self, facts: &RunFacts, live: f64) -> f64 {
        let now = facts.now;
        // Attempts take about as long as the last one. The engine may make another one at once.
        let is_known = self.cause.is_silence() && self.attempt > 0;
        let (attempt, late) = if is_known { (self.attempt, SILENT_MS) } else { (CONNECTING_MS, 0) };
        let silent_for = self.silent_for(now);
        let ends = match CONNECTING_MS.checked_sub(silent_for) {
            Some(most @ 1..) => most.min(attempt - silent_for % attempt),
            _ => u64::from(silent_for < CONNECTING_MS + late),
        };
        let last_try = if self.until > 0 {
            self.until
        } else {
            let tried = time_of_tries(CLEAN_RETRIES, ROUTE_DOWN.as_millis() as u64, attempt);
            let since = facts.progress.max(now + ends.min(live as u64));
            (since + facts.max_wait).min(now + ends + tried - attempt)
        };
        let again = facts.max_wait > 0 && last_try > now + ends;
        (if again { last_try - now + attempt } else { ends }) as f64
    }

    /// When the last row has a budget of refused recipients, if more than the present budget is needed for this number of rows. A row
    /// that would wait for longer than `until` is given up.
    fn budgeted_until(&self, rows: f64) -> Option<u64> {
        let (replies, period) = self.budget;
        let rest = rows - f64::from(replies.saturating_sub(self.replies));
        if self.cause != Cause::Budget || replies == 0 || period == 0 || rest <= 0.0 {
            return None;
        }
        let needed = (rest / f64::from(replies)).ceil() as u64;
        let possible = self.until.saturating_sub(self.begun) / period;
        Some(self.begun + needed.min(possible) * period)
    }

    /// How long this number of rows takes at the mean rate of the domain, or at that of all if it is higher, in milliseconds.
    fn time_for(&self, rows: f64, now: u64, usual: f64) -> Option<f64> {
        let own = f64::from(self.replies) / now.saturating_sub(self.begun).max(1000) as f64;
        let rate = own.max(usual);
        (rate > 0.0).then(|| rows / rate)
    }
}

/// How long this number of tries takes, in milliseconds: each comes after the `delay` and lasts as long as the last `attempt`. The
/// number of tries of a row is bounded, so its wait may end before `--max-wait` does.
fn time_of_tries(tries: u8, delay: u64, attempt: u64) -> u64 {
    (delay + attempt) * u64::from(tries)
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

/// The domains that the run waits for.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Awaited {
    /// The numbers of those that are named, with the cause; `None` for domains without a number. They have the most rows.
    pub named: Vec<(Option<u32>, &'static str)>,
    /// Number of other domains that the run waits for.
    pub others: usize,
}

/// The time that a run still takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Remaining {
    pub time: Duration,
    /// Whether this is the time until rows are given up. If their servers answer earlier, the run ends earlier.
    pub is_most: bool,
}

impl Awaited {
    /// Made of numbers of rows, each with its domain and why it waits. The entries of a domain come one after another.
    fn of(mut waits: Vec<(u32, Option<u32>, &'static str)>) -> Awaited {
        // A domain may have rows that wait, and others that are asked about in vain. The larger number gives the cause.
        waits.dedup_by(|next, kept| {
            let is_same = next.1 == kept.1;
            if is_same && next.0 > kept.0 {
                *kept = *next;
            }
            is_same
        });
        let count = waits.len();
        waits.sort_by_key(|(rows, ..)| Reverse(*rows));
        waits.truncate(NAMED_MAX);
        let others = count - waits.len();
        Awaited { named: waits.into_iter().map(|(_, domain, why)| (domain, why)).collect(), others }
    }
}

impl TimeLeft {
    /// Counts only if the estimate `is_shown`.
    pub fn new(is_shown: bool) -> TimeLeft {
        TimeLeft { is_off: !is_shown, ..TimeLeft::default() }
    }

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
        if self.is_off {
            return;
        }
        self.begun.get_or_insert(now);
        let times = self.domain(domain);
        times.begin(now);
        times.open += 1;
    }

    /// A delayed row is asked about again.
    pub fn on_again(&mut self, domain: u32, now: u64) {
        if self.is_off {
            return;
        }
        let times = self.domain(domain);
        times.begin(now);
        times.put_off = times.put_off.saturating_sub(1);
    }

    /// A server has replied about a row, and its answer comes later.
    pub fn on_reply(&mut self, domain: u32, now: u64) {
        self.replies += 1;
        let times = self.domain(domain);
        times.held += 1;
        times.replies += 1;
        times.last = now;
    }

    /// A row has its result. `is_silence`: no server has replied.
    pub fn on_result(&mut self, domain: u32, is_held: bool, is_silence: bool, now: u64) {
        if self.is_off {
            return;
        }
        let times = self.domain(domain);
        times.open = times.open.saturating_sub(1);
        times.done += 1;
        if times.open == 0 {
            (times.due, times.until) = (0, 0);
        }
        let is_new = times.end(is_held, is_silence, now);
        self.replies += u64::from(is_new);
    }

    /// A row is checked later: at `due`, and perhaps again until `until`.
    pub fn on_delay(&mut self, row: &AskedRow, cause: Cause, now: u64, due: u64, until: u64) {
        if self.is_off {
            return;
        }
        let times = self.domain(row.domain);
        times.put_off += 1;
        times.cause = cause;
        times.attempt = now.saturating_sub(times.begun);
        if cause.is_silence() {
            // A domain that was busy for long has begun long ago.
            times.attempt = times.attempt.min(CONNECTING_MS);
        }
        times.due = times.due.max(due);
        if cause == Cause::Budget {
            times.until = times.until.max(until);
            if times.replies > 0 {
                times.budget = (times.replies, due.saturating_sub(times.begun));
            }
        }
        let tries = CLEAN_RETRIES.saturating_sub(row.retries) + 1;
        let tried = time_of_tries(tries, due.saturating_sub(now), times.attempt);
        times.until = times.until.max(until.min(now + tried));
        // A row without a budget was not asked about.
        let is_reply = !cause.is_silence() && cause != Cause::Budget;
        let is_new = times.end(row.is_held, !is_reply, now);
        self.replies += u64::from(is_new && is_reply);
    }

    /// Counts the replies for the rate of the last seconds.
    fn count(&mut self, now: u64) {
        if self.earlier.back().is_none_or(|(at, _)| at + COUNT_INTERVAL_MS <= now) {
            self.earlier.push_back((now, self.replies));
        }
        while self.earlier.front().is_some_and(|(at, _)| at + 2 * WINDOW_MS + COUNT_INTERVAL_MS < now) {
            self.earlier.pop_front();
        }
    }

    /// The rate of replies per millisecond in the window that ends at this time.
    fn rate(&self, end: u64) -> Option<f64> {
        let from = end.saturating_sub(WINDOW_MS);
        let at = |time: u64| self.earlier.iter().rev().find(|(at, _)| *at <= time);
        let (last, first) = (at(end)?, at(from).or(self.earlier.front())?);
        let begun = first.0.max(self.begun?);
        (last.0 > begun).then(|| (last.1 - first.1) as f64 / (last.0 - begun) as f64)
    }

    /// How long this number of rows takes at the present rate, and if it goes on to grow, in milliseconds.
    fn time_for_all(&self, rows: f64, now: u64) -> Option<(f64, f64)> {
        let rate = self.rate(now).filter(|rate| *rate > 0.0)?;
        let steady = rows / rate;
        let age = now.saturating_sub(self.begun?);
        let growing = GROWING_MS.saturating_sub(age) as f64;
        let Some(before) = self.rate(now.saturating_sub(WINDOW_MS / 2)).filter(|_| growing > 0.0) else {
            return Some((steady, steady));
        };
        // Both rates are means of their windows: the present rate is half a window ahead.
        let growth = ((rate - before) / (WINDOW_MS / 2) as f64).max(0.0);
        let present = rate + growth * (WINDOW_MS.min(age) / 2) as f64;
        let most = present + growth * growing;
        let meanwhile = (present + most) / 2.0 * growing;
        let grown = if growth == 0.0 {
            steady
        } else if rows > meanwhile {
            growing + (rows - meanwhile) / most
        } else {
            ((present * present + 2.0 * growth * rows).sqrt() - present) / growth
        };
        Some((steady, grown))
    }

    /// The time left, which is `None` as long as nothing is known, and the domains that are waited for.
    pub fn estimate(&mut self, facts: &RunFacts) -> (Option<Remaining>, Awaited) {
        self.count(facts.now);
        let now = facts.now;
        let unread = facts.rows.map_or(0.0, |rows| (rows - facts.read as f64).max(0.0));
        let more = if facts.read > 0 { unread / facts.read as f64 } else { 0.0 };
        let is_stalled = self.replies > 0 && now.saturating_sub(facts.progress) >= STALLED_MS;
        for times in self.domains.iter_mut().chain([&mut self.others]) {
            times.was_silent = times.is_silent(facts, is_stalled);
        }
        let numbered = self.domains.iter().enumerate().map(|(at, times)| (Some(at as u32), times));
        let all: Vec<(Option<u32>, &DomainTimes)> = numbered.chain([(None, &self.others)]).collect();
        let is_live = |times: &DomainTimes| !times.is_silent(facts, is_stalled);
        let live_domains =
            all.iter().filter(|(_, times)| times.open > times.put_off && is_live(times)).count();
        let usual = self.rate(now).unwrap_or_default() / live_domains.max(1) as f64;
        let (mut live_rows, mut live, mut delayed, mut later, mut vain) =
            (0.0, 0.0_f64, 0.0_f64, 0.0_f64, 0.0_f64);
        let (mut silent, mut awaited) = (Vec::new(), Vec::new());
        for (number, times) in all {
            let asked = times.open - times.put_off.min(times.open);
            let unread = f64::from(times.open + times.done) * more;
            let budgeted = times.budgeted_until(f64::from(times.open - times.held.min(times.open)) + unread);
            if let Some(until) = budgeted {
                delayed = delayed.max((until.saturating_sub(now) + times.attempt) as f64);
            }
            if times.put_off > 0 {
                let due = times.due.max(now) - now;
                let end = (due + times.attempt) as f64;
                awaited.push((times.put_off, number, times.cause.text()));
                let last = end.max((times.until.max(now) - now + times.attempt) as f64);
                match times.cause {
                    // The next try is probably the last one. The other causes last until the end of the wait.
                    Cause::Greylisting | Cause::Budget => delayed = delayed.max(end),
                    Cause::Later => later = later.max(last),
                    _ => vain = vain.max(last),
                }
            }
            if is_live(times) {
                let rows = f64::from(asked - times.held.min(asked)) + unread;
                live_rows += rows;
                live = live.max(times.time_for(rows, now, usual).filter(|_| rows > 0.0).unwrap_or_default());
                continue;
            }
            awaited.push((asked, number, WaitCause::NoAnswer.words()));
            silent.push(times);
        }
        let of_all = self.time_for_all(live_rows, now);
        if let Some((steady, grown)) = of_all.filter(|_| live_rows > 0.0) {
            // One domain has too few replies to show how its rate grows, so it takes part in the growth of all.
            live = (live * grown / steady.max(1.0)).max(grown);
        }
        let progress = live.max(delayed);
        // If only silent servers are left, the run ends a known time after its last progress.
        let last_progress = if progress > 0.0 { now as f64 + progress } else { facts.progress as f64 };
        let given_up = (last_progress + facts.max_wait as f64).max(facts.again as f64) + facts.silence as f64;
        let given_up = (given_up - now as f64).max(0.0);
        for times in silent {
            let until = times.silent_until(facts, progress);
            let is_known = until > 0.0 && (times.replies == 0 || facts.max_wait > 0);
            vain = vain.max(if is_known { until } else { given_up });
        }
        let left = progress.max(later).max(vain.min(given_up));
        let few = RATE_FROM.0.min(RATE_FROM.1 * facts.rows.unwrap_or(0.0));
        let is_known = (left > 0.0 || of_all.is_some()) && (live_rows == 0.0 || self.replies as f64 >= few);
        let remaining = Remaining { time: Duration::from_millis(left as u64), is_most: left > progress };
        (is_known.then_some(remaining), Awaited::of(awaited))
    }
}

#[cfg(test)]
mod tests;
