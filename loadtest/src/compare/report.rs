//! The report of a comparison: a table of the figures, and one sentence.

use super::interval::Unit;
use super::{ComparedFigure, Comparison, FALSE_ALARM, FigureOutcome};
use std::fmt::Write;

impl Comparison {
    /// The report as text for a terminal.
    pub fn text(&self) -> String {
        let mut out = String::new();
        for (side, origin) in [("A", &self.a), ("B", &self.b)] {
            if let Some(origin) = origin {
                let [(_, date), _, (_, server), _, (_, command)] = origin.lines();
                let _ = writeln!(out, "{side}: {server}, from {date}: {command}");
            }
        }
        let pairs = if self.pairs == 1 { "one pair".into() } else { format!("{} pairs", self.pairs) };
        let _ = writeln!(out, "{}; {pairs}\n", self.title);
        let _ = writeln!(
            out,
            "{:<26}{:>11}{:>11}{:>15}  {:<34}verdict",
            "", "A", "B", "difference", "95 % interval"
        );
        for figure in &self.figures {
            let difference = figure.difference.map_or("-".into(), |value| percent(value, figure.unit));
            let interval = figure.interval.map_or("none".into(), |(low, high)| {
                format!("{} to {}", percent(low, figure.unit), percent(high, figure.unit))
            });
            let _ = write!(
                out,
                "{:<26}{:>11}{:>11}{difference:>15}  {interval:<34}{}",
                figure.name,
                number(figure.a),
                number(figure.b),
                figure.verdict
            );
            let _ = match figure.pairs {
                pairs if pairs == self.pairs => writeln!(out),
                1 => writeln!(out, " (1 pair has this figure)"),
                pairs => writeln!(out, " ({pairs} pairs have this figure)"),
            };
        }
        if self.pairs > 1 {
            let _ = writeln!(
                out,
                "\nThe difference is from the ratios of the pairs, and not from the medians in the columns A and B.\nA verdict needs a difference of at least {} % (of errors: any difference). If A and B are equal, the chance of \
                 a verdict in any figure is below {:.0} %.\nEach interval is for its figure alone.",
                self.at_least,
                FALSE_ALARM * 100.0
            );
        }
        for warning in &self.warnings {
            let _ = writeln!(out, "warning: {warning}");
        }
        let _ = writeln!(out, "\n{}", self.summary);
        out
    }
}

/// One sentence that says what was found.
pub fn summary(figures: &[ComparedFigure], pairs: usize) -> String {
    if figures.iter().all(|figure| figure.outcome == FigureOutcome::Unknown) {
        let few = if pairs == 1 { "One pair has".into() } else { format!("{pairs} pairs have") };
        return format!("{few} no interval, so no verdict is possible: run A and B in turn, 10 to 20 times.");
    }
    let of = |outcome: FigureOutcome| -> Vec<String> {
        figures.iter().filter(|figure| figure.outcome == outcome).map(found).collect()
    };
    let (worse, better) = (of(FigureOutcome::Worse), of(FigureOutcome::Better));
    let count = |outcome: FigureOutcome| figures.iter().filter(|figure| figure.outcome == outcome).count();
    let (others, unknown) = (count(FigureOutcome::NoDifference), count(FigureOutcome::Unknown));
    let without =
        if unknown == 0 { String::new() } else { format!(" Figures without a verdict: {unknown}.") };
    let mut parts = Vec::new();
    for (word, found) in [("worse", worse), ("better", better)] {
        if !found.is_empty() {
            parts.push(format!("B is {word} than A: {}", found.join("; ")));
        }
    }
    if parts.is_empty() {
        return format!("No difference between A and B was found: {others} figures, {pairs} pairs.{without}");
    }
    format!("{}. Other figures without a difference: {others}.{without}", parts.join(". "))
}

fn found(figure: &ComparedFigure) -> String {
    let interval = figure.interval.map_or(String::new(), |(low, high)| {
        format!(" ({} to {})", percent(low, figure.unit), percent(high, figure.unit))
    });
    let difference = figure.difference.map_or(String::new(), |value| percent(value, figure.unit));
    format!("{} {difference}{interval}", figure.name)
}

fn percent(value: f64, unit: Unit) -> String {
    match unit {
        Unit::Ratio => format!("{value:+.1} %"),
        Unit::Points => format!("{value:+.3} points"),
    }
}

/// A value with four significant digits.
fn number(value: f64) -> String {
    let digits = if value > 0.0 { 3 - value.log10().floor().clamp(-3.0, 3.0) as i32 } else { 0 };
    format!("{value:.*}", digits as usize)
}
