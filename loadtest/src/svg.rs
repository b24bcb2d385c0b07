//! Plots as SVG within a page: axes, lines, and colours from the page's style sheet.

mod marks;

pub use marks::{At, Marks, Rule, Shape};
use std::fmt::Write;

const WIDTH: f64 = 720.0;
const HEIGHT: f64 = 260.0;
const LEFT: f64 = 64.0;
const RIGHT: f64 = 16.0;
const TOP: f64 = 16.0;
const BOTTOM: f64 = 40.0;
/// How many points of a line are distinguishable.
const POINTS_MAX: usize = 720;

/// A line of a plot with its name.
pub struct PlotSeries {
    pub name: String,
    pub points: Vec<(f64, f64)>,
}

/// The scale of an axis.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub enum Scale {
    /// Linear from 0.
    #[default]
    Linear,
    /// Logarithmic; smaller values are shown at this one.
    Log(f64),
    /// Percentiles: each further nine has the same length.
    Nines,
}

/// A plot of lines, marks and rules.
#[derive(Default)]
pub struct Plot {
    pub title: String,
    pub x_name: &'static str,
    pub y_name: &'static str,
    pub x: Scale,
    pub y: Scale,
    /// The range that does not count yet.
    pub shaded: Option<(f64, f64)>,
    pub series: Vec<PlotSeries>,
    pub marks: Vec<Marks>,
    pub rules: Vec<Rule>,
}

/// An axis with its ends.
struct Axis {
    scale: Scale,
    low: f64,
    high: f64,
    /// Whether some values are below the low end, and are shown at it.
    cut: bool,
}

impl Plot {
    /// The plot as an SVG element; empty without data.
    pub fn svg(&self) -> String {
        let drawn = self.marks.iter().map(|marks| marks.points.len()).sum::<usize>();
        let values = |of: fn(&(f64, f64)) -> f64| -> Vec<f64> {
            let lines = self.series.iter().flat_map(|series| &series.points);
            let marks = self.marks.iter().flat_map(|marks| &marks.points);
            lines.chain(marks).map(of).filter(|v| v.is_finite()).collect()
        };
        let (mut xs, mut ys) = (values(|point| point.0), values(|point| point.1));
        // One mark is enough, but a line needs two points.
        if xs.len() < 2 && drawn == 0 {
            return String::new();
        }
        for rule in &self.rules {
            match rule.at {
                At::X(at) => xs.push(at),
                At::Y(at) => ys.push(at),
            }
        }
        let (x, y) = (Axis::over(self.x, &xs), Axis::over(self.y, &ys));
        let mut out = format!(
            "<figure><figcaption>{}</figcaption><svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" aria-label=\"{}\">\n",
            escape(&self.title),
            escape(&self.title)
        );
        if let Some((from, to)) = self.shaded.filter(|(from, to)| to > from) {
            let (from, to) = (across(x.place(from)), across(x.place(to)));
            let _ = writeln!(
                out,
                "<rect class=\"shade\" x=\"{from:.1}\" y=\"{TOP}\" width=\"{:.1}\" height=\"{}\"/>",
                to - from,
                HEIGHT - TOP - BOTTOM
            );
        }
        self.grid(&mut out, &x, &y);
        for (number, series) in self.series.iter().enumerate() {
            let class = number % 6;
            let points: Vec<String> = thinned(&series.points)
                .map(|(px, py)| format!("{:.1},{:.1}", across(x.place(px)), up(y.place(py))))
                .collect();
            let _ = writeln!(out, "<polyline class=\"s{class}\" points=\"{}\"/>", points.join(" "));
        }
        self.marks(&mut out, &x, &y);
        self.rules(&mut out, &x, &y);
        out.push_str("</svg>\n<p class=\"legend\">");
        for (number, series) in self.series.iter().enumerate() {
            let _ = write!(out, "<span class=\"k{}\">{}</span> ", number % 6, escape(&series.name));
        }
        for Marks { name, shape, .. } in self.marks.iter().filter(|marks| !marks.points.is_empty()) {
            let _ = write!(
                out,
                "<span><svg class=\"key\" viewBox=\"0 0 12 12\">{}</svg> {}</span> ",
                shape.drawn(6.0, 6.0, ""),
                escape(name)
            );
        }
        out.push_str("</p></figure>\n");
        out
    }

    fn grid(&self, out: &mut String, x: &Axis, y: &Axis) {
        let (bottom, right) = (HEIGHT - BOTTOM, WIDTH - RIGHT);
        for (at, label) in y.ticks() {
            let place = up(y.place(at));
            let _ = writeln!(
                out,
                "<line class=\"grid\" x1=\"{LEFT}\" y1=\"{place:.1}\" x2=\"{right}\" y2=\"{place:.1}\"/>\
                 <text class=\"y\" x=\"{}\" y=\"{:.1}\">{label}</text>",
                LEFT - 6.0,
                place + 4.0
            );
        }
        for (at, label) in x.ticks() {
            let place = across(x.place(at));
            let _ = writeln!(
                out,
                "<line class=\"grid\" x1=\"{place:.1}\" y1=\"{TOP}\" x2=\"{place:.1}\" y2=\"{bottom}\"/>\
                 <text class=\"x\" x=\"{place:.1}\" y=\"{}\">{label}</text>",
                bottom + 16.0
            );
        }
        let _ = writeln!(
            out,
            "<text class=\"x name\" x=\"{}\" y=\"{}\">{}</text><text class=\"name\" x=\"4\" y=\"11\">{}</text>",
            (LEFT + right) / 2.0,
            HEIGHT - 6.0,
            escape(self.x_name),
            escape(self.y_name)
        );
    }
}

impl Axis {
    fn over(scale: Scale, values: &[f64]) -> Axis {
        let low = values.iter().copied().fold(f64::INFINITY, f64::min);
        let high = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        match scale {
            Scale::Linear => {
                let high = if high > 0.0 { high * 1.05 } else { 1.0 };
                Axis { scale, low: low.min(0.0), high, cut: false }
            }
            Scale::Log(floor) => {
                let end = 10f64.powf(low.max(floor).log10().floor());
                Axis { scale, low: end, high: 10f64.powf(high.max(end * 2.0).log10().ceil()), cut: low < end }
            }
            Scale::Nines => Axis { scale, low: 0.0, high: high.clamp(0.9, 0.999_999_9), cut: false },
        }
    }

    /// The position on the axis, from 0 to 1.
    fn place(&self, value: f64) -> f64 {
        let of = |value: f64| match self.scale {
            Scale::Linear => value,
            Scale::Log(_) => value.max(self.low).log10(),
            Scale::Nines => -(1.0 - value.clamp(0.0, self.high)).log10(),
        };
        ((of(value) - of(self.low)) / (of(self.high) - of(self.low))).clamp(0.0, 1.0)
    }

    fn ticks(&self) -> Vec<(f64, String)> {
        match self.scale {
            Scale::Linear => {
                let step = step((self.high - self.low) / 5.0);
                let count = ((self.high - self.low) / step).floor() as i32;
                (0..=count).map(|n| self.low + f64::from(n) * step).map(|at| (at, short(at))).collect()
            }
            Scale::Log(_) => {
                let (from, to) = (self.low.log10().round() as i32, self.high.log10().round() as i32);
                let between: &[f64] = if to - from > 2 { &[1.0] } else { &[1.0, 2.0, 5.0] };
                let all =
                    (from..=to).flat_map(|power| between.iter().map(move |one| one * 10f64.powi(power)));
                all.filter(|at| *at <= self.high * 1.001)
                    .enumerate()
                    .map(|(n, at)| {
                        (at, format!("{}{}", if n == 0 && self.cut { "≤ " } else { "" }, short(at)))
                    })
                    .collect()
            }
            Scale::Nines => {
                [(0.0, "0"), (0.5, "50"), (0.9, "90"), (0.99, "99"), (0.999, "99.9"), (0.9999, "99.99")]
                    .into_iter()
                    .filter(|(at, _)| *at <= self.high)
                    .map(|(at, label)| (at, label.to_owned()))
                    .collect()
            }
        }
    }
}

/// The smallest number of 1, 2, 5, 10, 20 and so on that is not below `least`.
fn step(least: f64) -> f64 {
    let power = 10f64.powf(least.log10().floor());
    let factor = [1.0, 2.0, 5.0, 10.0].into_iter().find(|factor| factor * power >= least * 0.999_999);
    power * factor.unwrap_or(10.0)
}

fn short(value: f64) -> String {
    let size = value.abs();
    match size {
        _ if size >= 1e9 => format!("{}G", trim(value / 1e9)),
        _ if size >= 1e6 => format!("{}M", trim(value / 1e6)),
        _ if size >= 1e4 => format!("{}k", trim(value / 1e3)),
        _ => trim(value),
    }
}

fn trim(value: f64) -> String {
    let text = format!("{value:.3}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

fn across(share: f64) -> f64 {
    LEFT + share * (WIDTH - LEFT - RIGHT)
}

fn up(share: f64) -> f64 {
    HEIGHT - BOTTOM - share * (HEIGHT - TOP - BOTTOM)
}

/// The highest point of each section of a long line, so that no peak is lost.
fn thinned(points: &[(f64, f64)]) -> impl Iterator<Item = (f64, f64)> + '_ {
    let stretch = points.len().div_ceil(POINTS_MAX).max(1);
    points
        .chunks(stretch)
        .filter_map(|chunk| chunk.iter().copied().max_by(|one, other| one.1.total_cmp(&other.1)))
}

/// Escapes a text for HTML.
pub fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn axes_place_and_label() {
        let axis = Axis::over(Scale::Linear, &[0.0, 10.0]);
        assert_eq!(
            axis.ticks().iter().map(|(_, label)| label.as_str()).collect::<Vec<_>>(),
            ["0", "5", "10"]
        );
        assert!((axis.place(5.25) - 0.5).abs() < 1e-9);
        let axis = Axis::over(Scale::Log(0.01), &[0.0, 0.3, 40.0]);
        assert_eq!((axis.low, axis.high), (0.01, 100.0));
        assert!((axis.place(1.0) - 0.5).abs() < 1e-9);
        let axis = Axis::over(Scale::Nines, &[0.0, 0.99]);
        assert!((axis.place(0.9) - 0.5).abs() < 1e-9);
        assert_eq!(axis.ticks().len(), 4);
        for (least, wanted) in [(0.9, 1.0), (1.1, 2.0), (3.0, 5.0), (7.0, 10.0), (0.03, 0.05), (200.0, 200.0)]
        {
            assert!((step(least) - wanted).abs() < wanted * 1e-9, "{least}");
        }
        for (value, text) in [(0.05, "0.05"), (9_999.0, "9999"), (20_000.0, "20k"), (2.5e6, "2.5M")] {
            assert_eq!(short(value), text);
        }
    }

    #[test]
    fn peaks_survive_thinning() {
        let points: Vec<(f64, f64)> =
            (0..100_000).map(|n| (f64::from(n), if n == 77_777 { 9.0 } else { 1.0 })).collect();
        let kept: Vec<_> = thinned(&points).collect();
        assert!(kept.len() <= POINTS_MAX);
        assert!(kept.iter().any(|point| point.1 > 8.0));
    }

    #[test]
    fn names_are_escaped_and_nothing_is_drawn_of_nothing() {
        let mut plot = Plot {
            title: "<t>".into(),
            x_name: "x",
            y_name: "y",
            shaded: Some((0.0, 1.0)),
            series: vec![PlotSeries { name: "a&b".into(), points: vec![(0.0, 0.0), (2.0, 4.0)] }],
            rules: vec![Rule { name: "<r>".into(), at: At::Y(8.0) }],
            ..Plot::default()
        };
        let svg = plot.svg();
        assert!(svg.contains("&lt;t&gt;") && svg.contains("a&amp;b") && svg.contains("class=\"shade\""));
        assert!(svg.contains("points=\"64.0,220.0 "), "{svg}");
        plot.series.clear();
        assert_eq!(plot.svg(), "");
    }

    #[test]
    fn a_short_axis_has_more_labels_and_says_where_it_is_cut() {
        let labels = |values: &[f64]| -> Vec<String> {
            Axis::over(Scale::Log(0.01), values).ticks().into_iter().map(|(_, label)| label).collect()
        };
        assert_eq!(labels(&[3.0, 40.0]), ["1", "2", "5", "10", "20", "50", "100"]);
        assert_eq!(labels(&[0.0, 40.0]), ["≤ 0.01", "0.1", "1", "10", "100"]);
    }
}
