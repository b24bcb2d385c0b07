//! The plots of a report, as inline SVG. Colours come from the style of the page, by class names.

use maud::{Markup, html};

/// Width of a plot, of its labels and of its bars, in units of the picture.
const WIDTH: f64 = 760.0;
const LABEL_WIDTH: f64 = 220.0;
const BAR_WIDTH: f64 = 320.0;
const ROW_HEIGHT: f64 = 24.0;
const BAR_HEIGHT: f64 = 14.0;
/// Longest label, in characters.
const LABEL_CHARS_MAX: usize = 30;

/// A bar with its label and its text.
pub(super) struct Bar {
    pub label: String,
    /// The parts of the bar: the name of their colour, and their size.
    pub parts: Vec<(&'static str, u64)>,
    pub text: String,
}

/// Horizontal bars. The longest one has the full width.
pub(super) fn bars(title: &str, bars: &[Bar]) -> Markup {
    let total = |bar: &Bar| bar.parts.iter().map(|(_, size)| size).sum::<u64>();
    let most = bars.iter().map(total).max().unwrap_or_default().max(1) as f64;
    let height = ROW_HEIGHT * bars.len() as f64;
    html! {
        svg role="img" aria-label=(title) viewBox=(format!("0 0 {WIDTH} {height}")) {
            @for (n, bar) in bars.iter().enumerate() {
                @let top = ROW_HEIGHT * n as f64;
                @let base = top + 17.0;
                text x=(LABEL_WIDTH - 10.0) y=(base) text-anchor="end" { (shortened(&bar.label)) title { (bar.label) } }
                @for (colour, from, width) in placed(&bar.parts, BAR_WIDTH / most) {
                    rect.(colour) x=(LABEL_WIDTH + from) y=(top + 5.0) width=(width) height=(BAR_HEIGHT) {}
                }
                @let end = LABEL_WIDTH + total(bar) as f64 * BAR_WIDTH / most + 8.0;
                text.value x=(format!("{end:.1}")) y=(base) { (bar.text) }
            }
        }
    }
}

/// One bar of the full width that is divided into parts.
pub(super) fn share_bar(parts: &[(&'static str, u64)]) -> Markup {
    let total: u64 = parts.iter().map(|(_, size)| size).sum();
    html! {
        svg role="img" aria-label="Shares of the classes" viewBox=(format!("0 0 {WIDTH} 28")) {
            rect.empty x="0" y="2" width=(WIDTH) height="24" {}
            @for (colour, from, width) in placed(parts, WIDTH / total.max(1) as f64) {
                rect.(colour) x=(from) y="2" width=(width) height="24" {}
            }
        }
    }
}

/// The colour, the position and the width of each part that is not empty.
fn placed(parts: &[(&'static str, u64)], scale: f64) -> impl Iterator<Item = (&'static str, f64, f64)> {
    let mut from = 0;
    parts.iter().filter(|(_, size)| *size > 0).map(move |&(colour, size)| {
        let at = from;
        from += size;
        (colour, rounded(at as f64 * scale), rounded(size as f64 * scale))
    })
}

fn rounded(number: f64) -> f64 {
    (number * 10.0).round() / 10.0
}

fn shortened(label: &str) -> String {
    match label.chars().count() > LABEL_CHARS_MAX {
        true => label.chars().take(LABEL_CHARS_MAX - 1).chain(std::iter::once('…')).collect(),
        false => label.to_owned(),
    }
}
