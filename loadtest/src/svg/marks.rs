//! The marks of a plot: single points, and straight lines with names. The names must not hide a mark.

use super::{Axis, BOTTOM, HEIGHT, LEFT, Plot, RIGHT, TOP, WIDTH, across, escape, trim, up};
use std::fmt::Write;

/// Half of the width and height of a mark.
const MARK: f64 = 4.0;
/// The width of a character in a plot, with a margin.
const CHAR_WIDTH: f64 = 6.5;
const CHAR_HEIGHT: f64 = 10.0;

/// Points of a plot without a line.
pub struct Marks {
    pub name: &'static str,
    pub shape: Shape,
    pub points: Vec<(f64, f64)>,
}

/// The shape of a mark, which is also distinguishable without colours.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Shape {
    /// Filled, in the colour of good results.
    Dot,
    /// In the colour of bad results.
    Cross,
    /// Hollow, in the colour of bad results.
    Diamond,
}

/// A straight line across a plot, with its name.
pub struct Rule {
    pub name: String,
    pub at: At,
}

/// The position of a rule.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum At {
    /// A vertical line.
    X(f64),
    /// A horizontal line.
    Y(f64),
}

impl Plot {
    /// Each mark shows its figures on hover.
    pub(super) fn marks(&self, out: &mut String, x: &Axis, y: &Axis) {
        for marks in &self.marks {
            for (px, py) in &marks.points {
                let says =
                    format!("{}, {} {}: {} {}", marks.name, trim(*px), self.x_name, trim(*py), self.y_name);
                let _ = writeln!(
                    out,
                    "{}",
                    marks.shape.drawn(across(x.place(*px)), up(y.place(*py)), &escape(&says))
                );
            }
        }
    }

    /// The names of vertical rules are above the plot, those of horizontal ones where no mark is.
    pub(super) fn rules(&self, out: &mut String, x: &Axis, y: &Axis) {
        let (bottom, right) = (HEIGHT - BOTTOM, WIDTH - RIGHT);
        for Rule { name, at } in &self.rules {
            let (chars, name) = (name.chars().count(), escape(name));
            let _ = match at {
                At::X(at) => {
                    let place = across(x.place(*at));
                    let side = if place > f64::midpoint(LEFT, right) { "end" } else { "start" };
                    writeln!(
                        out,
                        "<line class=\"rule\" x1=\"{place:.1}\" y1=\"{TOP}\" x2=\"{place:.1}\" y2=\"{bottom}\"/>\
                         <text class=\"rule {side}\" x=\"{place:.1}\" y=\"{}\">{name}</text>",
                        TOP - 5.0
                    )
                }
                At::Y(at) => {
                    let place = up(y.place(*at));
                    let (side, px, py) = self.free(x, y, place, chars);
                    writeln!(
                        out,
                        "<line class=\"rule\" x1=\"{LEFT}\" y1=\"{place:.1}\" x2=\"{right}\" y2=\"{place:.1}\"/>\
                         <text class=\"rule {side}\" x=\"{px}\" y=\"{py:.1}\">{name}</text>"
                    )
                }
            };
        }
    }

    /// The position of a text at a horizontal line: its side and its baseline. It is the first position without a mark
    /// or a vertical rule, starting above the line at the left end.
    fn free(&self, x: &Axis, y: &Axis, line: f64, chars: usize) -> (&'static str, f64, f64) {
        let width = chars as f64 * CHAR_WIDTH;
        let (left, right) = (LEFT + 5.0, WIDTH - RIGHT - 5.0);
        let taken: Vec<(f64, f64)> = self
            .marks
            .iter()
            .flat_map(|marks| &marks.points)
            .map(|(px, py)| (across(x.place(*px)), up(y.place(*py))))
            .collect();
        let uprights: Vec<f64> = self
            .rules
            .iter()
            .filter_map(|rule| if let At::X(at) = rule.at { Some(across(x.place(at))) } else { None })
            .collect();
        let places = [(false, true), (false, false), (true, false), (true, true)];
        let of = |(end, above): (bool, bool)| {
            let foot = if above { line - 5.0 } else { line + CHAR_HEIGHT + 3.0 };
            if end { ("end", right, foot) } else { ("start", left, foot) }
        };
        let clear = |place: &(bool, bool)| {
            let (_, _, foot) = of(*place);
            let from = if place.0 { right - width } else { left };
            let near = |px: f64| px > from - 2.0 * MARK && px < from + width + 2.0 * MARK;
            foot > TOP
                && foot < HEIGHT - BOTTOM
                && !uprights.iter().any(|px| near(*px))
                && !taken
                    .iter()
                    .any(|(px, py)| near(*px) && *py > foot - CHAR_HEIGHT - MARK && *py < foot + MARK)
        };
        of(places.into_iter().find(clear).unwrap_or(places[0]))
    }
}

impl Shape {
    /// The shape around a point, with its text.
    pub(super) fn drawn(self, x: f64, y: f64, says: &str) -> String {
        let (class, path) = match self {
            Shape::Dot => {
                let wide = 2.0 * MARK;
                let path = format!("m-{MARK},0a{MARK},{MARK} 0 1,0 {wide},0a{MARK},{MARK} 0 1,0 -{wide},0z");
                ("dot", path)
            }
            Shape::Cross => {
                let wide = 2.0 * MARK;
                ("cross", format!("m-{MARK},-{MARK}l{wide},{wide}m0,-{wide}l-{wide},{wide}"))
            }
            Shape::Diamond => ("cross", format!("m-{MARK},0l{MARK},-{MARK}l{MARK},{MARK}l-{MARK},{MARK}z")),
        };
        let title = if says.is_empty() { String::new() } else { format!("<title>{says}</title>") };
        format!("<path class=\"{class}\" d=\"M{x:.1},{y:.1}{path}\">{title}</path>")
    }
}

#[cfg(test)]
mod tests {
    use super::super::Scale;
    use super::*;

    fn marked(points: &[(f64, f64)]) -> Plot {
        Plot {
            title: "t".into(),
            x_name: "x",
            y_name: "y",
            marks: vec![Marks { name: "m", shape: Shape::Cross, points: points.to_vec() }],
            rules: vec![
                Rule { name: "level".into(), at: At::Y(50.0) },
                Rule { name: "upright".into(), at: At::X(100.0) },
            ],
            ..Plot::default()
        }
    }

    #[test]
    fn one_mark_and_its_rules_are_drawn() {
        let svg = marked(&[(40.0, 20.0)]).svg();
        for part in [
            "<title>m, 40 x: 20 y</title>",
            "<path class=\"cross\" d=\"M307.8,142.3m",
            "<text class=\"rule end\" x=\"673.5\" y=\"11\">upright</text>",
            "<text class=\"rule start\" x=\"69\" y=\"20.7\">level</text>",
            "<svg class=\"key\"",
        ] {
            assert!(svg.contains(part), "{part} in {svg}");
        }
        assert_eq!(marked(&[]).svg(), "", "rules alone are nothing");
    }

    #[test]
    fn a_level_rule_is_named_where_no_mark_is() {
        let place = |points: &[(f64, f64)]| {
            let mut plot = marked(points);
            plot.rules.pop();
            let (x, y) = (Axis::over(Scale::Linear, &[0.0, 100.0]), Axis::over(Scale::Linear, &[0.0, 100.0]));
            let line = up(y.place(50.0));
            let (side, _, foot) = plot.free(&x, &y, line, 8);
            (side, foot < line)
        };
        let (left_above, left_below, right_below) = ((5.0, 54.0), (5.0, 46.0), (98.0, 45.0));
        assert_eq!(place(&[(50.0, 50.0)]), ("start", true));
        assert_eq!(place(&[left_above]), ("start", false));
        assert_eq!(place(&[left_above, left_below]), ("end", false));
        assert_eq!(place(&[left_above, left_below, right_below]), ("end", true));
    }
}
