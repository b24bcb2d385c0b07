//! The progress line on the terminal.

use super::time_left::Remaining;
use api::{Reason, WaitCause};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use lists::numbers::{counted, grouped, rate_text, time_text, whole_percent};
use lists::{Class, ReasonCounts};
use std::ffi::OsStr;
use std::io::{self, IsTerminal, Write};
use std::time::{Duration, Instant};

/// The progress line.
pub(super) struct Progress {
    bar: Option<ProgressBar>,
    way: Way,
    started: Instant,
    shown: Instant,
}

/// The progress of a run.
#[derive(Debug, Clone, Default)]
pub(super) struct Standing {
    /// Number of rows with a result, and those of an earlier run among them.
    pub done: u64,
    pub resumed: u64,
    /// Number of rows of the list, if it can be estimated.
    pub rows: Option<u64>,
    /// Number of columns of addresses. With several, each number of rows is one of cells.
    pub columns: usize,
    /// Number of addresses with a result, by its reason.
    pub found: ReasonCounts,
    pub is_fast: bool,
    /// The time left, if it is known.
    pub left: Option<Remaining>,
    /// The names of domains that the run waits for, each with the cause.
    pub awaited: Vec<(String, &'static str)>,
    /// Number of other domains that the run waits for.
    pub others: usize,
    /// How long until the run gives up, if the last answers are outages: no domain is the cause then.
    pub gives_up: Option<Duration>,
    /// Number of input bytes read, and number of rows read.
    pub bytes: u64,
    pub read: u64,
}

/// How the progress is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    /// As one line that is drawn again and again.
    Redrawn,
    /// As plain lines, because the terminal cannot draw a line again, or does not say that it can.
    Plain,
}

impl Way {
    /// The way on a terminal whose variable `TERM` has this value.
    fn of(term: Option<&OsStr>) -> Way {
        match term {
            Some(term) if !term.is_empty() && term != "dumb" => Way::Redrawn,
            _ => Way::Plain,
        }
    }

    /// Interval between updates.
    fn interval(self) -> Duration {
        match self {
            Way::Redrawn => Duration::from_millis(200),
            Way::Plain => Duration::from_secs(10),
        }
    }
}

/// The time left is not shown earlier.
const GUESS_AFTER: Duration = Duration::from_secs(2);

impl Progress {
    /// The line is shown if it is `wanted` and standard error is a terminal. `size` is the length of the input in bytes. If it
    /// is known, the line shows the time left.
    pub fn new(wanted: bool, size: Option<u64>) -> Progress {
        let way = Way::of(std::env::var_os("TERM").as_deref());
        let bar = (wanted && io::stderr().is_terminal()).then(|| {
            let bar = match size {
                Some(size) => ProgressBar::new(size).with_style(style("{bar:20} {msg}")),
                None => ProgressBar::no_length().with_style(style("{spinner} {msg}")),
            };
            bar.set_draw_target(match way {
                Way::Redrawn => ProgressDrawTarget::stderr(),
                Way::Plain => ProgressDrawTarget::hidden(),
            });
            bar
        });
        let now = Instant::now();
        Progress { bar, way, started: now, shown: now }
    }

    /// Whether the line is shown.
    pub fn is_shown(&self) -> bool {
        self.bar.is_some()
    }

    /// Whether the line is shown, and its time has come.
    pub fn is_due(&self) -> bool {
        self.bar.is_some() && self.shown.elapsed() >= self.way.interval()
    }

    /// The time since the start of the run.
    pub fn elapsed(&self) -> Duration {
        self.started.elapsed()
    }

    /// The length of the input in bytes, if known.
    pub fn size(&self) -> Option<u64> {
        self.bar.as_ref().and_then(ProgressBar::length)
    }

    /// Draws the line with these figures, and moves the bar.
    pub fn show(&mut self, standing: &Standing) {
        let Some(bar) = &self.bar else { return };
        self.shown = Instant::now();
        // Rows that are read but not finished do not count.
        let done = standing.done as f64 / standing.read.max(1) as f64;
        let position = standing.bytes as f64 * done;
        let percent = bar.length().map(|size| whole_percent(position, size));
        let line = line(standing, self.started.elapsed());
        match self.way {
            Way::Redrawn => {
                bar.set_message(
                    percent.map_or_else(String::new, |percent| format!("{percent:>3} % ")) + &line,
                );
                bar.set_position(position as u64);
            }
            // A closed standard error is no failure.
            Way::Plain => {
                let percent = percent.map_or_else(String::new, |percent| format!("{percent} %: "));
                let _ = writeln!(io::stderr(), "{percent}{line}");
            }
        }
    }

    /// Removes the line from the terminal.
    pub fn end(&mut self) {
        if let Some(bar) = self.bar.take() {
            bar.finish_and_clear();
        }
    }
}

fn line(standing: &Standing, elapsed: Duration) -> String {
    let Standing { done, resumed, rows, found, left, ref awaited, others, .. } = *standing;
    let new = done.saturating_sub(resumed);
    let rate = (new > 0).then(|| rate_text(new as f64 / elapsed.as_secs_f64().max(0.001)));
    let (one, many) = if standing.columns > 1 { ("cell", "cells") } else { ("row", "rows") };
    let count = match rows {
        Some(rows) if rows > done => format!("{} of {} {many}", grouped(done), grouped(rows)),
        _ => counted(done, one, many),
    };
    let left = left.filter(|_| elapsed > GUESS_AFTER && standing.gives_up.is_none());
    let left = left
        .map(|left| format!("{}{} left", if left.is_most { "at most " } else { "" }, time_text(left.time)));
    let mut line = [Some(count), rate, left].into_iter().flatten().collect::<Vec<_>>().join(", ");
    let (good, what) = match standing.is_fast {
        true => (found.of(Reason::FastCheckPassed), "passed"),
        false => (found.of_class(Class::Deliverable), "deliverable"),
    };
    let unverifiable = found.of(Reason::Unverifiable);
    let good = counted(good, "address", "addresses");
    line += &format!("; {good} {what}, {} unverifiable", grouped(unverifiable));
    if let Some(time) = standing.gives_up {
        let cause = WaitCause::Outage.words();
        line += &format!("; waiting, because {cause}; the run gives up in {}", time_text(time));
    } else if !awaited.is_empty() {
        line += &format!("; waiting for {}", awaited_text(awaited, others));
    }
    line
}

/// The domains that the run waits for, each with its cause.
fn awaited_text(awaited: &[(String, &str)], others: usize) -> String {
    let mut parts: Vec<String> = awaited.iter().map(|(name, why)| format!("{name} ({why})")).collect();
    if others > 0 {
        parts.push(counted(others as u64, "other domain", "other domains"));
    }
    match parts.split_last() {
        Some((last, before @ [_, ..])) => format!("{} and {last}", before.join(", ")),
        _ => parts.concat(),
    }
}

fn style(template: &str) -> ProgressStyle {
    ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_says_where_it_stands() {
        let mut found = ReasonCounts::default();
        for reason in [Reason::MailboxExists, Reason::Unverifiable, Reason::CatchAll, Reason::RoleAccount] {
            (0..250).for_each(|_| found.add(reason));
        }
        let standing = Standing {
            done: 1000,
            resumed: 400,
            rows: Some(3000),
            found,
            left: Some(Remaining { time: Duration::from_millis(99_100), is_most: false }),
            awaited: vec![("a.example".into(), "greylisting")],
            others: 4,
            ..Standing::default()
        };
        assert_eq!(
            line(&standing, Duration::from_secs(6)),
            "1,000 of 3,000 rows, 100/s, 1 min 40 s left; 500 addresses deliverable, 250 unverifiable; \
             waiting for a.example (greylisting) and 4 other domains"
        );
        let mut patient = standing.clone();
        patient.left = standing.left.map(|left| Remaining { is_most: true, ..left });
        let said = line(&patient, Duration::from_secs(6));
        assert!(said.contains("100/s, at most 1 min 40 s left; "), "{said}");
        let named = [("a.example", "silence"), ("b.example", "greylisting"), ("c.example", "silence")];
        let awaited: Vec<_> = named.map(|(name, why)| (name.to_owned(), why)).into();
        assert_eq!(
            awaited_text(&awaited, 0),
            "a.example (silence), b.example (greylisting) and c.example (silence)"
        );
        let cells = Standing { columns: 2, ..standing.clone() };
        assert!(line(&cells, Duration::from_secs(6)).starts_with("1,000 of 3,000 cells, 100/s, "));
        let outage = Standing { gives_up: Some(Duration::from_secs(61)), ..standing.clone() };
        let said = line(&outage, Duration::from_secs(6));
        let cause = WaitCause::Outage.words();
        assert!(
            said.ends_with(&format!("unverifiable; waiting, because {cause}; the run gives up in 1 min 1 s")),
            "{said}"
        );
        assert!(!said.contains(" left"), "{said}");
        let begun = Standing { rows: None, resumed: 0, awaited: Vec::new(), ..standing };
        assert_eq!(
            line(&begun, Duration::from_secs(2)),
            "1,000 rows, 500/s; 500 addresses deliverable, 250 unverifiable"
        );
        let mut found = ReasonCounts::default();
        found.add(Reason::FastCheckPassed);
        let fast = Standing { found, is_fast: true, ..begun };
        assert_eq!(
            line(&fast, Duration::from_millis(500)),
            "1,000 rows, 2,000/s; 1 address passed, 0 unverifiable"
        );
    }

    #[test]
    fn a_terminal_that_cannot_draw_a_line_again_gets_plain_lines() {
        for (term, way) in [
            (None, Way::Plain),
            (Some(""), Way::Plain),
            (Some("dumb"), Way::Plain),
            (Some("xterm-256color"), Way::Redrawn),
            (Some("linux"), Way::Redrawn),
        ] {
            assert_eq!(Way::of(term.map(OsStr::new)), way, "{term:?}");
        }
    }
}
