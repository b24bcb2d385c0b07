//! The plots of a report, as inline SVG. Colours come from the style of the page, by class names.

use maud::{Markup, html};

/// Width of a bar, in units of its picture.
const WIDTH: f64 = 1000.0;

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
    html! {
        ul.bars aria-label=(title) {
            @for bar in bars {
                li {
                    span.label title=(bar.label) { (bar.label) }
                    (drawn(placed(&bar.parts, WIDTH / most)))
                    span.value { (bar.text) }
                }
            }
        }
    }
}

/// One bar of the full width that is divided into parts.
pub(super) fn share_bar(parts: &[(&'static str, u64)]) -> Markup {
    let total: u64 = parts.iter().map(|(_, size)| size).sum();
    html! { div.shares { (drawn(placed(parts, WIDTH / total.max(1) as f64))) } }
}

/// A bar without text: the words beside it give the value.
fn drawn(parts: impl Iterator<Item = (&'static str, f64, f64)>) -> Markup {
    html! {
        svg aria-hidden="true" viewBox=(format!("0 0 {WIDTH} 10")) preserveAspectRatio="none" {
            @for (colour, from, width) in parts {
                rect.(colour) x=(from) y="0" width=(width) height="10" {}
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
