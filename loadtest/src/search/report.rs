//! The report of a search: for each objective a plot of the steps and the limit, then the steps in words, and the run
//! that held the rate.

use super::{Found, Step, line};
use crate::html;
use crate::objective::{Bound, Objective};
use crate::svg::{At, Marks, Plot, Rule, Scale, Shape, escape};
use std::fmt::Write;

/// From this ratio of the values on, the axis is logarithmic.
const WIDE: f64 = 10.0;
/// The smallest value of a logarithmic axis: a microsecond, or an error in 100,000 requests.
const LEAST: f64 = 0.001;

/// The page of a search; `first` is its result in one line.
pub fn page(found: &Found, first: &str) -> String {
    let mut out = format!("<p><b>{}</b></p>\n<p>{}</p>\n", escape(first), escape(&found.limit));
    for (number, objective) in found.objectives.iter().enumerate() {
        out.push_str(&plot(found, number, objective).svg());
    }
    if !found.steps.is_empty() {
        out.push_str(
            "<p class=\"dim\">One mark per step, at the rate of its due requests. Horizontal line: the objective.",
        );
        out.push_str(if found.highest.is_some() {
            " Vertical line: the highest rate that met all objectives.</p>\n"
        } else {
            "</p>\n"
        });
    }
    out.push_str("<h2>Steps</h2>\n<pre>");
    for step in &found.steps {
        let _ = writeln!(out, "{}", escape(&line(step)));
    }
    out.push_str("</pre>\n");
    if let Some(held) = &found.held {
        out.push_str("<h2>Final run</h2>\n");
        html::content(&mut out, held);
    }
    if let Some(origin) = &found.origin {
        html::origin(&mut out, origin);
    }
    html::page("mailprobe load test: the highest rate", &out)
}

/// The steps for one objective. A step without a value has no mark.
fn plot(found: &Found, number: usize, objective: &Objective) -> Plot {
    let bound = objective.bound();
    let of =
        |step: &Step| step.objectives.get(number).and_then(|verdict| Some((verdict.found?, verdict.met)));
    let points = |wanted: &dyn Fn(&Step, bool) -> bool| -> Vec<(f64, f64)> {
        let seen = found.steps.iter().filter_map(|step| Some((step, of(step)?)));
        seen.filter(|(step, (_, met))| wanted(step, *met)).map(|(step, (at, _))| (step.asked, at)).collect()
    };
    let all = points(&|_, _| true);
    let marks = vec![
        Marks { name: "met all objectives", shape: Shape::Dot, points: points(&|step, _| step.kept) },
        Marks { name: "missed this objective", shape: Shape::Cross, points: points(&|_, met| !met) },
        Marks {
            name: "met this objective, missed another",
            shape: Shape::Diamond,
            points: points(&|step, met| met && !step.kept),
        },
    ];
    let mut rules = vec![Rule { name: objective.text.clone(), at: At::Y(bound.limit) }];
    if let Some(highest) = found.highest {
        rules.push(Rule { name: format!("highest rate: {highest:.1}/s"), at: At::X(highest) });
    }
    Plot {
        title: format!("{} ({}) by rate of due requests", objective.subject(), bound.unit),
        x_name: "due requests/s",
        y_name: if bound.unit.starts_with('%') { "%" } else { bound.unit },
        x: rates(&all, found.highest),
        y: values(&all, bound),
        marks,
        rules,
        ..Plot::default()
    }
}

/// A linear axis, since steps approach the limit, unless it would move the limit into a corner.
fn rates(points: &[(f64, f64)], highest: Option<f64>) -> Scale {
    let least = points.iter().map(|point| point.0).fold(f64::INFINITY, f64::min);
    let most = points.iter().map(|point| point.0).fold(0.0, f64::max);
    if most > highest.unwrap_or(least) * WIDE { Scale::Log(least) } else { Scale::Linear }
}

/// A logarithmic axis if a value with an upper limit has grown far beyond it.
fn values(points: &[(f64, f64)], bound: Bound) -> Scale {
    let all = || points.iter().map(|point| point.1).chain([bound.limit]);
    let least = all().filter(|value| *value > 0.0).fold(f64::INFINITY, f64::min);
    let far = all().fold(0.0, f64::max) > least * WIDE;
    if far && bound.limit > 0.0 && !bound.at_least { Scale::Log(LEAST) } else { Scale::Linear }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::tests::outcome;
    use crate::summary::Summary;

    /// A result with these steps and the value of each objective.
    fn found(objectives: &[&str], highest: Option<f64>, steps: &[(f64, &[Option<f64>])]) -> Found {
        let objectives: Vec<Objective> = objectives.iter().map(|text| text.parse().unwrap()).collect();
        let step = |(asked, values): &(f64, &[Option<f64>])| {
            let mut verdicts = Summary::of(&outcome(), &objectives).objectives;
            for ((verdict, objective), value) in verdicts.iter_mut().zip(&objectives).zip(*values) {
                let bound = objective.bound();
                verdict.found = *value;
                verdict.met = value.is_some_and(|value| {
                    if bound.at_least { value >= bound.limit } else { value <= bound.limit }
                });
            }
            let kept = verdicts.iter().all(|verdict| verdict.met);
            Step { asked: *asked, kept, objectives: verdicts, ..Step::default() }
        };
        let steps = steps.iter().map(step).collect();
        Found { highest, limit: "limit: <none>".into(), objectives, steps, ..Found::default() }
    }

    fn marks(plot: &Plot) -> Vec<(Shape, Vec<f64>)> {
        plot.marks.iter().map(|marks| (marks.shape, marks.points.iter().map(|p| p.0).collect())).collect()
    }

    #[test]
    fn each_objective_has_a_plot_of_its_steps() {
        let found = found(
            &["full.p99=250ms", "rate=97%"],
            Some(200.0),
            &[
                (100.0, &[Some(9.0), Some(100.0)]),
                (200.0, &[Some(30.0), Some(99.0)]),
                (400.0, &[Some(3000.0), Some(6.0)]),
                (300.0, &[Some(200.0), Some(96.0)]),
                (250.0, &[Some(400.0), None]),
            ],
        );
        let latency = plot(&found, 0, &found.objectives[0]);
        assert_eq!(
            marks(&latency),
            [
                (Shape::Dot, vec![100.0, 200.0]),
                (Shape::Cross, vec![400.0, 250.0]),
                (Shape::Diamond, vec![300.0])
            ]
        );
        assert_eq!((latency.x, latency.y), (Scale::Linear, Scale::Log(LEAST)));
        assert_eq!(latency.title, "full.p99 (ms) by rate of due requests");
        let rules: Vec<(&str, At)> = latency.rules.iter().map(|rule| (rule.name.as_str(), rule.at)).collect();
        assert_eq!(rules, [("full.p99=250ms", At::Y(250.0)), ("highest rate: 200.0/s", At::X(200.0))]);
        let rate = plot(&found, 1, &found.objectives[1]);
        let steps: Vec<usize> = rate.marks.iter().map(|marks| marks.points.len()).collect();
        assert_eq!(steps, [2, 2, 0], "one step has no share of what was due");
        assert_eq!((rate.y, rate.y_name), (Scale::Linear, "%"));

        let page = page(&found, "found <it>");
        for part in [
            "found &lt;it&gt;",
            "rate (% of the due requests)",
            "met this objective, missed another",
            "/s due, ",
        ] {
            assert!(page.contains(part), "{part}");
        }
        assert_eq!(page.matches("<figure>").count(), 2);
        assert!(!page.contains("NaN") && !page.contains("inf"), "figures are numbers");
    }

    #[test]
    fn a_limit_far_from_where_it_began_is_seen() {
        let steps: Vec<(f64, &[Option<f64>])> =
            [1000.0, 500.0, 250.0, 125.0, 62.5].map(|asked| (asked, [Some(5.0)].as_slice())).to_vec();
        let of = |highest| {
            let found = found(&["p50=9ms"], highest, &steps);
            plot(&found, 0, &found.objectives[0]).x
        };
        assert_eq!(of(Some(62.5)), Scale::Log(62.5));
        assert_eq!(of(Some(125.0)), Scale::Linear);
        assert_eq!(of(None), Scale::Log(62.5), "where nothing was kept it is below the lowest");
    }

    #[test]
    fn nothing_found_draws_nothing() {
        let none = found(&["fast.p99=1ms"], None, &[(4.0, &[None])]);
        assert!(!page(&none, "").contains("<figure>"));
        let at_most_nothing = found(&["errors=0%"], None, &[(4.0, &[Some(50.0)]), (2.0, &[Some(0.1)])]);
        assert_eq!(plot(&at_most_nothing, 0, &at_most_nothing.objectives[0]).y, Scale::Linear);
    }
}
