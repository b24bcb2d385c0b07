//! The progress line on the terminal.

use super::summary::{Summary, addresses};
use indicatif::{HumanCount, HumanDuration, ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::io::IsTerminal;
use std::time::{Duration, Instant};

/// The progress line.
pub(super) struct Progress {
    bar: Option<ProgressBar>,
    started: Instant,
    shown: Instant,
}

/// The progress of a run.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Standing {
    /// Number of rows read.
    pub read: u64,
    /// Number of input bytes read.
    pub bytes: u64,
    /// Number of rows that are checked later.
    pub put_off: u64,
    /// Time until the last of the rows that wait for a time is due.
    pub until: Option<Duration>,
}

/// Interval between updates of the line.
const SHOW_INTERVAL: Duration = Duration::from_millis(200);
/// The time left is estimated from the rate so far. Before this time there is no estimate.
const GUESS_AFTER: Duration = Duration::from_secs(3);

impl Progress {
    /// The line is shown if it is `wanted` and standard error is a terminal. `size` is the length of the input in bytes. If it
    /// is known, the line shows the time left.
    pub fn new(wanted: bool, size: Option<u64>) -> Progress {
        let bar = (wanted && std::io::stderr().is_terminal()).then(|| {
            let bar = match size {
                Some(size) => ProgressBar::new(size).with_style(style("{bar:20} {percent:>3} % {msg}")),
                None => ProgressBar::no_length().with_style(style("{spinner} {msg}")),
            };
            bar.set_draw_target(ProgressDrawTarget::stderr());
            bar
        });
        let now = Instant::now();
        Progress { bar, started: now, shown: now }
    }

    /// Updates the line at intervals.
    pub fn show(&mut self, summary: &Summary, standing: impl FnOnce() -> Standing) {
        let Some(bar) = &self.bar else { return };
        if self.shown.elapsed() < SHOW_INTERVAL {
            return;
        }
        self.shown = Instant::now();
        let standing = standing();
        // Rows that are read but not finished do not count.
        let done = summary.total() as f64 / standing.read.max(1) as f64;
        let position = (standing.bytes as f64 * done) as u64;
        bar.set_message(line(summary, &standing, self.started.elapsed(), bar.length(), position));
        bar.set_position(position);
    }

    /// Removes the line from the terminal.
    pub fn end(&mut self) {
        if let Some(bar) = self.bar.take() {
            bar.finish_and_clear();
        }
    }
}

fn line(
    summary: &Summary,
    standing: &Standing,
    elapsed: Duration,
    size: Option<u64>,
    position: u64,
) -> String {
    let total = summary.total();
    let rate = total.saturating_sub(summary.resumed) as f64 / elapsed.as_secs_f64().max(0.001);
    let mut line = format!("{}, {rate:.0}/s", addresses(total));
    if let Some(size) = size.filter(|_| position > 0 && elapsed > GUESS_AFTER) {
        let part = size.saturating_sub(position) as f64 / position as f64;
        let left = Duration::from_secs_f64(elapsed.as_secs_f64() * part);
        line += &format!(", {} left", HumanDuration(left));
    }
    let unverifiable = summary.count_of("unverifiable");
    let (good, what) = match summary.is_fast {
        true => (summary.passed(), "passed"),
        false => (summary.deliverable, "deliverable"),
    };
    line += &format!("; {} {what}, {} unverifiable", HumanCount(good), HumanCount(unverifiable));
    if standing.put_off > 0 {
        line += &format!("; {} delayed", HumanCount(standing.put_off));
        if let Some(until) = standing.until {
            line += &format!(" for up to {}", HumanDuration(until));
        }
    }
    line
}

fn style(template: &str) -> ProgressStyle {
    ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar())
}

#[cfg(test)]
mod tests {
    use super::*;
    use engine::proto::verdict::Reason;
    use lists::Verdict;

    #[test]
    fn the_line_says_where_it_stands() {
        let mut summary = Summary::default();
        summary.resumed = 400;
        for reason in [Reason::MailboxExists, Reason::Unverifiable, Reason::CatchAll, Reason::MailboxExists] {
            let verdict = Verdict::from(reason);
            (0..250).for_each(|_| summary.count(verdict, verdict.code(), None));
        }
        let standing = Standing { put_off: 12, until: Some(Duration::from_secs(240)), ..Standing::default() };
        assert_eq!(
            line(&summary, &standing, Duration::from_secs(6), Some(3000), 1000),
            "1,000 addresses, 100/s, 12 seconds left; 500 deliverable, 250 unverifiable; \
             12 delayed for up to 4 minutes"
        );
        assert_eq!(
            line(&summary, &Standing::default(), Duration::from_secs(2), None, 0),
            "1,000 addresses, 300/s; 500 deliverable, 250 unverifiable"
        );
        summary.is_fast = true;
        let passed = line(&summary, &Standing::default(), Duration::from_secs(2), None, 0);
        assert_eq!(passed, "1,000 addresses, 300/s; 0 passed, 250 unverifiable");
    }
}
