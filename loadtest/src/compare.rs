//! `compare`: two builds or settings of a server, from the results of `run --json` in pairs.
//!
//! The runs of a pair follow each other, so both see the same state of the machine. Each figure is compared within its pair,
//! and the pairs give an interval for the difference (compare/interval.rs). Many figures are compared at once, so a verdict
//! needs more than an interval without 0: Holm's procedure bounds the chance that any verdict of the comparison is wrong.

mod interval;
mod report;
mod saved;

use crate::origin::Origin;
use crate::{End, say};
use clap::Args;
use interval::{Difference, Unit, holm, median, pairs_needed};
use saved::{SavedRun, read};
use serde::Serialize;
use std::path::PathBuf;
use usage::values::decimal;

/// The largest chance that a comparison of equal builds has any verdict.
const FALSE_ALARM: f64 = 0.05;
/// The most results of a side: the interval needs the mean of all two pairs.
const RESULTS_MAX: usize = 500;

/// The exit codes in the help.
pub const EXIT_CODES: &str = "Exit code 0: no figure of B is worse. 1: a figure of B is worse, or a file is no result of \
    `run --json`. 2: the command line is invalid. Standard output is empty if a file is wrong";

/// The options of `compare`.
#[derive(Debug, Args)]
pub struct CompareArgs {
    /// Two results of `run --json`: A, then B. Several runs need --a and --b
    #[arg(value_name = "FILE", num_args = 1.., required_unless_present = "a", conflicts_with_all = ["a", "b"])]
    files: Vec<PathBuf>,
    /// Results of A, in the order of the runs. The first one makes a pair with the first one of B, and so on
    #[arg(long, value_name = "FILE", num_args = 1.., requires = "b")]
    a: Vec<PathBuf>,
    /// Results of B
    #[arg(long, value_name = "FILE", num_args = 1.., requires = "a")]
    b: Vec<PathBuf>,
    /// Smallest difference that counts, in percent
    #[arg(long, value_name = "PERCENT", default_value_t = 1.0, value_parser = decimal(0.0..=1000.0))]
    at_least: f64,
    /// Print the comparison as JSON
    #[arg(long)]
    json: bool,
}

/// A comparison with its figures and its result.
#[derive(Debug, Serialize)]
pub struct Comparison {
    /// The load of all runs in words.
    pub title: String,
    /// The origin of the first result of each side.
    pub a: Option<Origin>,
    pub b: Option<Origin>,
    pub pairs: usize,
    /// The smallest difference that counts, in percent.
    pub at_least: f64,
    /// One sentence that says what was found.
    pub summary: String,
    pub figures: Vec<ComparedFigure>,
    pub warnings: Vec<String>,
    /// Whether B is worse than A in a figure.
    #[serde(skip)]
    worse: bool,
}

/// A figure of both sides.
#[derive(Debug, Clone, Serialize)]
pub struct ComparedFigure {
    pub name: String,
    /// The medians of both sides.
    pub a: f64,
    pub b: f64,
    /// The pairs in which both runs have the figure.
    pub pairs: usize,
    /// The difference of B from A in percent of A; of errors, in percentage points.
    pub difference: Option<f64>,
    /// The 95 % interval of the difference, of this figure alone; `None` with fewer than six pairs.
    pub interval: Option<(f64, f64)>,
    /// The probability of such a difference between equal builds in any of the figures (Holm).
    pub p_of_all: Option<f64>,
    pub verdict: &'static str,
    #[serde(skip)]
    unit: Unit,
    #[serde(skip)]
    outcome: FigureOutcome,
}

/// The result of one figure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum FigureOutcome {
    Worse,
    Better,
    NoDifference,
    /// There are too few values for an interval.
    Unknown,
}

/// The quantity of a figure. It decides the words of the verdict, and whether a higher value is better.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Subject {
    Rate,
    Errors,
    Cpu,
    Memory,
    Latency,
}

impl Subject {
    /// The verdicts for a higher and for a lower value.
    fn words(self) -> (&'static str, &'static str) {
        match self {
            Subject::Rate => ("faster", "slower"),
            Subject::Latency => ("slower", "faster"),
            Subject::Cpu => ("slower: more CPU", "faster: less CPU"),
            Subject::Memory => ("more memory", "less memory"),
            Subject::Errors => ("more errors", "fewer errors"),
        }
    }

    fn unit(self) -> Unit {
        if self == Subject::Errors { Unit::Points } else { Unit::Ratio }
    }
}

impl CompareArgs {
    /// Checks the number of files without options.
    ///
    /// # Errors
    ///
    /// One line: the files are not one pair.
    pub fn check(&self) -> Result<(), String> {
        match self.files.len() {
            0 | 2 => Ok(()),
            1 => Err("1 file is no pair: give two files, A and B".into()),
            count => Err(format!("{count} files are no pair: for several runs use --a FILES --b FILES")),
        }
    }
}

/// Compares, prints, and returns `Missed` if B is worse.
///
/// # Errors
///
/// One line: a file is no result of a run, or the results do not belong together.
pub fn compare(args: &CompareArgs) -> Result<End, String> {
    let (a, b) = match args.files.as_slice() {
        [a, b] => (std::slice::from_ref(a), std::slice::from_ref(b)),
        _ => (args.a.as_slice(), args.b.as_slice()),
    };
    if a.len() != b.len() || a.len() > RESULTS_MAX {
        return Err(format!(
            "A has {} results and B has {}: give the same number of each, at most {RESULTS_MAX}, in the order of the runs",
            a.len(),
            b.len()
        ));
    }
    let all = |paths: &[PathBuf]| paths.iter().map(|path| read(path)).collect::<Result<Vec<_>, _>>();
    let comparison = Comparison::of(&all(a)?, &all(b)?, args.at_least)?;
    if args.json {
        say(&serde_json::to_string_pretty(&comparison).map_err(|error| error.to_string())?)?;
    } else {
        say(comparison.text().trim_end())?;
    }
    Ok(if comparison.worse { End::Missed } else { End::Met })
}

impl Comparison {
    /// Compares the runs of each pair. Both sides have the same number of runs, and at least one.
    fn of(a: &[SavedRun], b: &[SavedRun], at_least: f64) -> Result<Comparison, String> {
        let first = a.first().ok_or("there is no result to compare")?;
        for run in a.iter().chain(b) {
            run.belongs_to(first)?;
        }
        let pairs: Vec<(&SavedRun, &SavedRun)> = a.iter().zip(b).collect();
        let figures = figures(&pairs, at_least);
        let worse = figures.iter().any(|figure| figure.outcome == FigureOutcome::Worse);
        Ok(Comparison {
            title: first.title.clone(),
            a: first.origin.clone(),
            b: b.first().and_then(|run| run.origin.clone()),
            pairs: pairs.len(),
            at_least,
            summary: report::summary(&figures, pairs.len()),
            warnings: warnings(&pairs, figures.len()),
            figures,
            worse,
        })
    }
}

/// All figures that both runs of a pair have, with their verdicts.
fn figures(pairs: &[(&SavedRun, &SavedRun)], at_least: f64) -> Vec<ComparedFigure> {
    let mut names: Vec<(String, Subject)> = Vec::new();
    for name in
        pairs.iter().flat_map(|(a, _)| a.figures().into_iter().map(|(name, subject, _)| (name, subject)))
    {
        if !names.contains(&name) {
            names.push(name);
        }
    }
    let mut found: Vec<(ComparedFigure, Subject, Option<f64>)> = Vec::new();
    for (name, subject) in names {
        let value = |run: &SavedRun| {
            run.figures().into_iter().find(|(own, _, _)| *own == name).map(|(_, _, value)| value)
        };
        let values: Vec<(f64, f64)> =
            pairs.iter().filter_map(|(a, b)| Some((value(a)?, value(b)?))).collect();
        if !values.is_empty() {
            found.push(of_values(name, subject, &values));
        }
    }
    let chances: Vec<Option<f64>> = found.iter().map(|(_, _, p)| *p).collect();
    let finish = |((mut figure, subject, _), p): ((ComparedFigure, Subject, _), Option<f64>)| {
        figure.p_of_all = p;
        (figure.outcome, figure.verdict) = verdict(&figure, subject, at_least);
        figure
    };
    found.into_iter().zip(holm(&chances)).map(finish).collect()
}

/// A figure without its verdict, and the probability of its difference alone.
fn of_values(
    name: String,
    subject: Subject,
    values: &[(f64, f64)],
) -> (ComparedFigure, Subject, Option<f64>) {
    let middle = |of: fn(&(f64, f64)) -> f64| {
        let mut side: Vec<f64> = values.iter().map(of).collect();
        side.sort_by(f64::total_cmp);
        median(&side)
    };
    let difference = Difference::of(values, subject.unit());
    let figure = ComparedFigure {
        name,
        a: middle(|pair| pair.0),
        b: middle(|pair| pair.1),
        pairs: values.len(),
        difference: difference.map(|one| one.middle),
        interval: difference.and_then(|one| one.interval),
        p_of_all: None,
        verdict: "",
        unit: subject.unit(),
        outcome: FigureOutcome::Unknown,
    };
    (figure, subject, difference.map(|one| one.p))
}

fn verdict(figure: &ComparedFigure, subject: Subject, at_least: f64) -> (FigureOutcome, &'static str) {
    let (Some(difference), Some(p)) = (figure.difference, figure.p_of_all) else {
        return (FigureOutcome::Unknown, "a value is 0");
    };
    if figure.interval.is_none() {
        return (FigureOutcome::Unknown, if figure.pairs == 1 { "one pair" } else { "too few pairs" });
    }
    let counts = subject == Subject::Errors || difference.abs() >= at_least;
    if p >= FALSE_ALARM || !counts {
        return (FigureOutcome::NoDifference, "no difference found");
    }
    let (higher, lower) = subject.words();
    let is_worse = (difference > 0.0) != (subject == Subject::Rate);
    (
        if is_worse { FigureOutcome::Worse } else { FigureOutcome::Better },
        if difference > 0.0 { higher } else { lower },
    )
}

fn warnings(pairs: &[(&SavedRun, &SavedRun)], figures: usize) -> Vec<String> {
    let mut warnings = Vec::new();
    let same = pairs.iter().filter(|(a, b)| a.is_same_run(b)).count();
    if same > 0 {
        let pairs =
            if pairs.len() == 1 { String::new() } else { format!(" in {same} of {} pairs", pairs.len()) };
        warnings.push(format!("A and B are the same run{pairs}: give the results of different runs"));
    }
    let needed = pairs_needed(figures, FALSE_ALARM);
    if pairs.len() < needed {
        warnings.push(format!("a verdict in {figures} figures needs at least {needed} pairs"));
    }
    let origins: Vec<(&Origin, &Origin)> =
        pairs.iter().filter_map(|(a, b)| Some((a.origin.as_ref()?, b.origin.as_ref()?))).collect();
    if origins.iter().any(|(a, b)| a.machine != b.machine) {
        warnings.push("the results come from different machines".into());
    }
    // Dates of one form are in the order of their texts.
    let (last_a, first_b) =
        (origins.iter().map(|one| &one.0.date).max(), origins.iter().map(|one| &one.1.date).min());
    let (last_b, first_a) =
        (origins.iter().map(|one| &one.1.date).max(), origins.iter().map(|one| &one.0.date).min());
    if origins.len() > 1 && (last_a < first_b || last_b < first_a) {
        warnings.push(
            "all runs of one side were before those of the other: a change of the machine in between looks like a difference, so \
             run A and B in turn"
                .into(),
        );
    }
    let seeds = pairs.iter().filter(|(a, b)| a.seed() != b.seed()).count();
    if seeds > 0 {
        let pairs = if seeds == 1 { "1 pair has".into() } else { format!("{seeds} pairs have") };
        warnings.push(format!(
            "{pairs} two seeds: the same --seed within a pair sends the same requests to both"
        ));
    }
    let limited = pairs.iter().flat_map(|(a, b)| [a, b]).filter(|run| run.client_limited()).count();
    if limited > 0 {
        let runs = if limited == 1 { "1 run".into() } else { format!("{limited} runs") };
        warnings.push(format!("in {runs} the client was more than 80 % busy: use more --threads"));
    }
    warnings
}

#[cfg(test)]
mod tests;
