//! A plot of horizontal bars as an SVG, for pages that show pictures.

use std::fmt::Write;

/// Bars with a common heading.
pub struct BarGroup {
    pub heading: String,
    pub bars: Vec<Bar>,
}

/// A bar with the texts before and after it.
pub struct Bar {
    /// The name before the bar.
    pub name: String,
    /// The length of the bar; the longest one fills the plot.
    pub value: f64,
    /// The text after the bar.
    pub text: String,
}

/// The size of the plot and of its parts in pixels.
const WIDTH: f64 = 800.0;
const HEAD: f64 = 52.0;
const HEADING: f64 = 30.0;
const ROW: f64 = 30.0;
const BAR: f64 = 22.0;
const GAP: f64 = 12.0;
/// The place of the bars, with space for names before them and for texts after them.
const LEFT: f64 = 192.0;
const RIGHT: f64 = 720.0;

/// The plot. The first bar of each group has the colour of ours. Letters on the light ground are readable on dark pages too.
pub fn bars(title: &str, groups: &[BarGroup]) -> String {
    let values = groups.iter().flat_map(|group| &group.bars).map(|bar| bar.value);
    let most = values.fold(f64::MIN_POSITIVE, f64::max);
    let (mut body, mut top) = (String::new(), HEAD);
    for group in groups {
        body += &format!(
            "<text x=\"20\" y=\"{}\" fill=\"#5a6070\">{}</text>\n",
            top + 16.0,
            escaped(&group.heading)
        );
        top += HEADING;
        for (number, bar) in group.bars.iter().enumerate() {
            row(&mut body, bar, top, most, if number == 0 { "#1d5fd0" } else { "#a9b0be" });
            top += ROW;
        }
        top += GAP;
    }
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {top}\" width=\"{WIDTH}\" height=\"{top}\" \
         font-family=\"system-ui, -apple-system, 'Segoe UI', 'Liberation Sans', sans-serif\" font-size=\"15\" fill=\"#1b1d22\">\n\
         <rect x=\"0.5\" y=\"0.5\" width=\"{}\" height=\"{}\" rx=\"10\" fill=\"#ffffff\" stroke=\"#d9dce3\"/>\n\
         <text x=\"20\" y=\"34\" font-size=\"17\" font-weight=\"700\">{}</text>\n{body}</svg>\n",
        WIDTH - 1.0,
        top - 1.0,
        escaped(title)
    )
}

/// Adds a bar with its name and its text.
fn row(body: &mut String, bar: &Bar, top: f64, most: f64, colour: &str) {
    let (length, line) = ((RIGHT - LEFT) * bar.value / most, top + BAR / 2.0 + 5.0);
    // Writing to a string cannot fail.
    let _ = writeln!(
        body,
        "<text x=\"{}\" y=\"{line}\" text-anchor=\"end\">{}</text>\
         <rect x=\"{LEFT}\" y=\"{top}\" width=\"{length:.1}\" height=\"{BAR}\" rx=\"3\" fill=\"{colour}\"/>\
         <text x=\"{:.1}\" y=\"{line}\" font-weight=\"700\">{}</text>",
        LEFT - 12.0,
        escaped(&bar.name),
        LEFT + length + 10.0,
        escaped(&bar.text)
    );
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_bar_fills_the_plot() {
        let bar = |name: &str, value: f64| Bar { name: name.into(), value, text: format!("{value:.2}") };
        let group = |heading: &str, bars| BarGroup { heading: heading.into(), bars };
        let groups = [
            group("first", vec![bar("ours", 0.5), bar("theirs", 2.0)]),
            group("second & last", vec![bar("ours", 1.0)]),
        ];
        let svg = bars("A < B", &groups);
        for part in
            ["A &lt; B", ">ours<", ">2.00<", "second &amp; last", "width=\"132.0\"", "width=\"528.0\""]
        {
            assert!(svg.contains(part), "{part}: {svg}");
        }
        assert_eq!(svg.matches("#1d5fd0").count(), 2, "{svg}");
    }
}
