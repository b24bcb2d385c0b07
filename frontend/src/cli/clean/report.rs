//! What is shown on the terminal: progress while it runs, a summary at the end.

use super::Verdict;
use indicatif::{HumanCount, HumanDuration, ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::collections::BTreeMap;
use std::fmt;
use std::io::IsTerminal;
use std::time::{Duration, Instant};

/// What came out, in numbers.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Summary {
    /// Rows by reason.
    pub reasons: BTreeMap<&'static str, u64>,
    /// Rows whose address is deliverable.
    pub deliverable: u64,
    /// Rows that an earlier run had done.
    pub resumed: u64,
    /// How long this run took.
    pub elapsed: Duration,
}

impl Summary {
    /// All rows.
    pub fn total(&self) -> u64 {
        self.reasons.values().sum()
    }

    pub(super) fn count(&mut self, verdict: Verdict) {
        *self.reasons.entry(verdict.reason).or_default() += 1;
        self.deliverable += u64::from(verdict.deliverable == Some(true));
    }
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let total = self.total();
        let share = |part: u64| 100.0 * part as f64 / total.max(1) as f64;
        let seconds = self.elapsed.as_secs_f64();
        let rate = (total - self.resumed) as f64 / seconds.max(0.001);
        write!(f, "{} in {seconds:.1} s ({rate:.0}/s)", addresses(total))?;
        if self.resumed > 0 {
            write!(f, ", {} of them done before", HumanCount(self.resumed))?;
        }
        writeln!(f, "; {} deliverable ({:.1} %)", HumanCount(self.deliverable), share(self.deliverable))?;
        let mut reasons: Vec<(&str, u64)> =
            self.reasons.iter().map(|(reason, count)| (*reason, *count)).collect();
        reasons.sort_by_key(|&(_, count)| std::cmp::Reverse(count));
        for (reason, count) in reasons {
            writeln!(f, "  {reason:<18}{:>12}{:>8.1} %", HumanCount(count).to_string(), share(count))?;
        }
        Ok(())
    }
}

fn addresses(count: u64) -> String {
    format!("{} {}", HumanCount(count), if count == 1 { "address" } else { "addresses" })
}

/// A line on the terminal that says how far it has got.
pub(super) struct Progress {
    bar: Option<ProgressBar>,
    rows: u64,
    started: Instant,
    shown: Instant,
}

/// How often the line's text is made anew.
const SHOW_INTERVAL: Duration = Duration::from_millis(100);
/// The time left is a guess from the rate so far, and before this no guess at all.
const GUESS_AFTER: Duration = Duration::from_secs(3);

impl Progress {
    /// Shown where it is `wanted` and standard error is a terminal. `size` is the input's length in octets: where it
    /// is known, the time left is told.
    pub fn new(wanted: bool, size: Option<u64>) -> Progress {
        let bar = (wanted && std::io::stderr().is_terminal()).then(|| {
            let bar = match size {
                Some(size) => ProgressBar::new(size).with_style(style("{bar:30} {percent:>3} % {msg}")),
                None => ProgressBar::no_length().with_style(style("{spinner} {msg}")),
            };
            bar.set_draw_target(ProgressDrawTarget::stderr());
            bar
        });
        let now = Instant::now();
        Progress { bar, rows: 0, started: now, shown: now }
    }

    /// Another row is done, which ends at this octet of the input.
    pub fn advance(&mut self, end: u64) {
        self.rows += 1;
        let Some(bar) = &self.bar else { return };
        if self.shown.elapsed() < SHOW_INTERVAL {
            return;
        }
        self.shown = Instant::now();
        let elapsed = self.started.elapsed();
        let rate = self.rows as f64 / elapsed.as_secs_f64().max(0.001);
        let left =
            bar.length().filter(|_| end > 0 && elapsed > GUESS_AFTER).map_or_else(String::new, |length| {
                let part = length.saturating_sub(end) as f64 / end as f64;
                format!(", {} left", HumanDuration(Duration::from_secs_f64(elapsed.as_secs_f64() * part)))
            });
        bar.set_message(format!("{}, {rate:.0}/s{left}", addresses(self.rows)));
        bar.set_position(end);
    }

    /// Takes the line away.
    pub fn end(&mut self) {
        if let Some(bar) = self.bar.take() {
            bar.finish_and_clear();
        }
    }
}

fn style(template: &str) -> ProgressStyle {
    ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar())
}

#[cfg(test)]
mod tests {
    use super::*;
    use engine::proto::verdict::Reason;

    #[test]
    fn a_summary_is_readable() {
        let mut summary = Summary { elapsed: Duration::from_millis(2500), ..Summary::default() };
        for _ in 0..1500 {
            summary.count(Reason::MailboxExists.into());
        }
        for _ in 0..500 {
            summary.count(Reason::CatchAll.into());
        }
        assert_eq!(
            summary.to_string(),
            "2,000 addresses in 2.5 s (800/s); 1,500 deliverable (75.0 %)\n  \
             mailbox_exists           1,500    75.0 %\n  \
             catch_all                  500    25.0 %\n"
        );
        summary.resumed = 1000;
        assert!(
            summary.to_string().starts_with("2,000 addresses in 2.5 s (400/s), 1,000 of them done before; ")
        );
        assert_eq!(Summary::default().to_string(), "0 addresses in 0.0 s (0/s); 0 deliverable (0.0 %)\n");
    }
}
