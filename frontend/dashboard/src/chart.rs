//! Charts as SVG, each with a table of the same data. Colours come from the style. Words explain each bar too: in its title,
//! in the legend and in the table.

use crate::page::with_code;
use api::{AFTER_REPEATS, Reason, UnverifiableCause};
use lists::Class;
use lists::numbers::grouped;
use lists::words::{advice, sentence, title};
use maud::{Markup, html};
use store::credits::calendar::{DAY_MS, day_text};
use store::{DayCounts, UnixMs};

const HEIGHT: u64 = 150;
const BAR: u64 = 20;

/// The meaning of a verdict for a sender of mail.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tone {
    /// Deliverable: send.
    Good,
    /// Not known.
    Unsure,
    /// Not deliverable: do not send.
    Bad,
}

impl Tone {
    const ALL: [Tone; 3] = [Tone::Good, Tone::Unsure, Tone::Bad];

    /// The tone of a reason.
    pub fn of(reason: Reason) -> Tone {
        match Class::of(reason) {
            Class::Deliverable => Tone::Good,
            Class::Unknown => Tone::Unsure,
            Class::Undeliverable => Tone::Bad,
        }
    }

    /// The class in the style.
    pub fn class(self) -> &'static str {
        match self {
            Tone::Good => "good",
            Tone::Unsure => "warn",
            Tone::Bad => "bad",
        }
    }

    fn name(self) -> &'static str {
        match self {
            Tone::Good => Class::Deliverable.as_str(),
            Tone::Unsure => Class::Unknown.as_str(),
            Tone::Bad => Class::Undeliverable.as_str(),
        }
    }
}

fn sums(counts: &DayCounts) -> [(Tone, u64); 3] {
    Tone::ALL.map(|tone| {
        let of_tone = counts.reasons.iter().filter(|(reason, _)| Tone::of(*reason) == tone);
        (tone, of_tone.map(|(_, count)| count).sum())
    })
}

/// The first and the last day of a span that ends today.
pub fn ends(span: u32, now: UnixMs) -> (u32, u32) {
    let today = u32::try_from(now / DAY_MS).unwrap_or(u32::MAX);
    (today.saturating_add(1).saturating_sub(span), today)
}

/// Why addresses of checks under way are not in the chart.
const COUNTED: &str = "A batch is counted when it is complete, and a list in parts, each at its end.";

/// The chart of checks per day for the last `span` days, stacked by tone.
pub fn days(counts: &[DayCounts], span: u32, now: UnixMs) -> Markup {
    let (first, today) = ends(span, now);
    let of = |day: u32| counts.iter().find(|counts| counts.day == day);
    let total = |counts: &DayCounts| counts.singles + counts.rows;
    let shown: Vec<&DayCounts> = counts.iter().filter(|counts| counts.day >= first).collect();
    let most = shown.iter().map(|counts| total(counts)).max().unwrap_or(0);
    if most == 0 {
        return html! { p.empty { "No address was counted in the last " (span) " days. " (COUNTED) " " a href="/try" { "Check an address" } "." } };
    }
    let (top, width) = (axis_top(most), u64::from(span) * BAR);
    html! {
        p.soft { "Addresses per day (UTC). " (COUNTED) }
        div.plot {
            ol.y-axis aria-hidden="true" { li { (grouped(top)) } li { (grouped(top / 2)) } li { "0" } }
            svg.chart.days preserveAspectRatio="none" viewBox={ "0 0 " (width) " " (HEIGHT) } role="img" aria-label={ "Checks per day in the last " (span) " days; the table below shows the same data" } {
                @for y in [0, HEIGHT / 2, HEIGHT] { line.axis x1="0" x2=(width) y1=(y) y2=(y) {} }
                @for (at, day) in (first..=today).enumerate() {
                    @if let Some(counts) = of(day) { (bar(at as u64, counts, top)) }
                }
            }
            ol.x-axis aria-hidden="true" { @for day in [first, first + span / 2, today] { li { (day_text(day)) } } }
        }
        (legend())
        details {
            summary { "Show as table" }
            div.scroll tabindex="0" role="region" aria-label="Checks by day" {
                table.stack {
                    thead { tr { th scope="col" { "Day" } th.number scope="col" { "Single" } th.number scope="col" { "In batches and lists" }
                        @for tone in Tone::ALL { th.number scope="col" { (tone.name()) } } } }
                    tbody { @for counts in shown.iter().rev() {
                        tr {
                            td data-label="Day" { (day_text(counts.day)) }
                            td.number data-label="Single" { (grouped(counts.singles)) }
                            td.number data-label="In batches and lists" { (grouped(counts.rows)) }
                            @for (tone, count) in sums(counts) { td.number data-label=(tone.name()) { (grouped(count)) } }
                        }
                    } }
                }
            }
        }
    }
}

/// The number at the top of the axis: an even number with one digit other than zero, or a power of ten, so that half of it is whole.
fn axis_top(most: u64) -> u64 {
    let mut step = 1;
    loop {
        if let Some(top) = [2, 4, 6, 8, 10].into_iter().map(|times| step * times).find(|&top| top >= most) {
            return top;
        }
        let Some(larger) = u64::checked_mul(step, 10).filter(|step| *step < u64::MAX / 100) else {
            return most;
        };
        step = larger;
    }
}

fn bar(at: u64, counts: &DayCounts, most: u64) -> Markup {
    let scale = |count: u64| (count * HEIGHT).div_ceil(most);
    let mut top = HEIGHT;
    let parts: Vec<(Tone, u64, u64, u64)> = sums(counts)
        .into_iter()
        .filter(|(_, count)| *count > 0)
        .map(|(tone, count)| {
            let height = scale(count).min(top);
            top -= height;
            (tone, count, top, height)
        })
        .collect();
    html! {
        g {
            title { (day_text(counts.day)) ": " (grouped(counts.singles + counts.rows)) @for (tone, count, ..) in &parts { ", " (grouped(*count)) " " (tone.name()) } }
            @for (tone, _, y, height) in &parts {
                rect class={ "bar-" (tone.class()) } x=(at * BAR + 2) y=(y) width=(BAR - 4) height=(height) {}
            }
        }
    }
}

/// The chart and the table of reasons, the most frequent first.
pub fn verdicts(counts: &[(Reason, u64)]) -> Markup {
    let mut counts: Vec<(Reason, u64)> = counts.iter().copied().filter(|(_, count)| *count > 0).collect();
    counts.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    let total: u64 = counts.iter().map(|(_, count)| count).sum();
    if total == 0 {
        return html! { p.empty { "There are no verdicts yet." } };
    }
    let share = |count: u64| format!("{:.1} %", count as f64 * 100.0 / total as f64);
    let mut x = 0;
    let parts: Vec<(Reason, u64, u64, u64)> = counts
        .iter()
        .map(|&(reason, count)| {
            let width = (count * 1000 / total).max(2).min(1000u64.saturating_sub(x));
            x += width;
            (reason, count, x - width, width)
        })
        .collect();
    html! {
        svg.chart viewBox="0 0 1000 40" preserveAspectRatio="none" height="28" role="img" aria-label="Verdicts by reason; the table below shows the same data" {
            @for (reason, count, x, width) in &parts {
                rect class={ "bar-" (Tone::of(*reason).class()) " edge" } x=(x) y="0" width=(width) height="40" {
                    title { (title(*reason)) ": " (grouped(*count)) " (" (share(*count)) ")" }
                }
            }
        }
        (legend())
        div.scroll tabindex="0" role="region" aria-label="Verdicts by reason" {
            table.stack {
                thead { tr { th scope="col" { "Verdict" } th scope="col" { "Reason" } th scope="col" { "What to do" } th.number scope="col" { "Addresses" } th.number scope="col" { "Share" } } }
                tbody { @for (reason, count) in &counts {
                    tr {
                        td { (tag(*reason)) }
                        td { (named(*reason)) }
                        td.wrap data-label="What to do" { (with_code(&sentence(advice(*reason)))) }
                        td.number data-label="Addresses" { (grouped(*count)) }
                        td.number data-label="Share" { (share(*count)) }
                    }
                }
                    tr { td { "All" } td {} td {} td.number data-label="Addresses" { (grouped(total)) } td.number data-label="Share" { (share(total)) } }
                }
            }
        }
    }
}

/// The table of why addresses are `unverifiable`, with the next step, the most frequent cause first; nothing if no address is.
/// `ended`: how many have no answer because their batch has ended before, and how it ended.
pub fn causes(causes: &[(UnverifiableCause, u64)], unverifiable: u64, (ended, how): (u64, &str)) -> Markup {
    if unverifiable == 0 {
        return html! {};
    }
    let unknown = unverifiable.saturating_sub(ended + causes.iter().map(|(_, count)| count).sum::<u64>());
    let without =
        [(ended, how, "Check again."), (unknown, "no cause is stored", "Check again after 24 hours.")];
    html! {
        h3 { "Unverifiable addresses by cause" }
        table.stack {
            thead { tr { th scope="col" { "Cause" } th scope="col" { "Next step" } th.number scope="col" { "Addresses" } } }
            tbody {
                @for (cause, count) in causes { tr {
                    td.wrap data-label="Cause" { (sentence(cause.words().meaning)) }
                    td.wrap data-label="Next step" { (with_code(&sentence(&cause.advice_of_server(AFTER_REPEATS)))) }
                    td.number data-label="Addresses" { (grouped(*count)) }
                } }
                @for (count, cause, advice) in without.iter().filter(|(count, ..)| *count > 0) { tr {
                    td.wrap data-label="Cause" { (sentence(cause)) }
                    td.wrap data-label="Next step" { (advice) }
                    td.number data-label="Addresses" { (grouped(*count)) }
                } }
            }
        }
        @if unknown > 0 || causes.iter().any(|(cause, _)| !cause.is_free()) {
            p.soft {
                "An unverifiable address costs as much as any other, also if it was not asked about because its mail server had refused \
                 others or had not answered. A new check asks again only 24 hours after the answer."
                @if unknown + ended > 0 || causes.iter().any(|(cause, _)| cause.is_free()) { " " (NO_REPEAT) }
            }
        }
        @if causes.iter().any(|(cause, _)| cause.words().is_for_operator()) { p.soft { (FOR_OPERATOR) } }
    }
}

/// The exception from the price and the 24 hours.
const NO_REPEAT: &str = "Neither holds for addresses that have no answer because of the budget of refused recipients, an outage or a \
    cancelled check: they are free, and a new check asks about them.";

/// The note beside an advice that names a command or an option.
pub const FOR_OPERATOR: &str = "Only the operator of this service can use mailprobe commands and options.";

/// A reason in words, with its code in answers and files.
pub fn named(reason: Reason) -> Markup {
    html! { (title(reason)) " " code { (reason.as_str()) } }
}

/// The tag with the tone of a reason.
pub fn tag(reason: Reason) -> Markup {
    let tone = Tone::of(reason);
    html! { span class={ "tag " (tone.class()) } { (tone.name()) } }
}

fn legend() -> Markup {
    html! {
        ul.legend { @for tone in Tone::ALL { li { span class={ "swatch swatch-" (tone.class()) } {} (tone.name()) } } }
    }
}

/// The sums of each reason over some days.
pub fn added_up<'d>(days: impl Iterator<Item = &'d DayCounts>) -> Vec<(Reason, u64)> {
    let mut sums: Vec<(Reason, u64)> = Reason::ALL.into_iter().map(|reason| (reason, 0)).collect();
    for (reason, count) in days.flat_map(|day| &day.reasons) {
        if let Some((_, sum)) = sums.iter_mut().find(|(known, _)| known == reason) {
            *sum += count;
        }
    }
    sums
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: UnixMs = 20_000 * DAY_MS + 5;

    fn day(day: u32, reasons: &[(Reason, u64)]) -> DayCounts {
        let total = reasons.iter().map(|(_, count)| count).sum();
        DayCounts { day, singles: total, rows: 0, reasons: reasons.to_vec() }
    }

    #[test]
    fn a_chart_shows_its_days_and_says_so_in_a_table() {
        let counts = [
            day(19_999, &[(Reason::MailboxExists, 3), (Reason::CatchAll, 1)]),
            day(20_000, &[(Reason::NoMx, 2)]),
        ];
        let shown = days(&counts, 30, NOW).into_string();
        assert_eq!(shown.matches("<rect").count(), 3);
        assert!(shown.contains("2024-10-03: 4, 3 deliverable, 1 unknown"), "{shown}");
        for label in ["2024-09-05", "2024-09-20", "2024-10-04", "4", "2", "0"] {
            assert!(shown.contains(&format!("<li>{label}</li>")), "{label}: {shown}");
        }
        assert!(days(&counts, 1, NOW).into_string().contains("<li>2</li><li>1</li><li>0</li>"));
        assert!(
            days(&[], 30, NOW)
                .into_string()
                .contains("No address was counted in the last 30 days. A batch is counted")
        );
        assert!(days(&[day(1, &[(Reason::NoMx, 9)])], 30, NOW).into_string().contains("No address"));
    }

    #[test]
    fn an_axis_ends_at_a_number_whose_half_is_whole() {
        let table = [(1, 2), (2, 2), (3, 4), (9, 10), (10, 10), (11, 20), (61, 80), (999_999, 1_000_000)];
        for (most, top) in table {
            assert_eq!(axis_top(most), top, "{most}");
        }
        assert_eq!(axis_top(u64::MAX), u64::MAX);
    }

    #[test]
    fn the_24_hours_are_named_only_beside_causes_that_have_them() {
        use UnverifiableCause::{Greylisted, Outage, RefusalBudget};
        // Causes, `unverifiable` addresses, those of a batch that has ended before; whether the 24 hours and the exception are named.
        for (counts, unverifiable, unasked, hours, exception) in [
            (vec![(Greylisted, 2)], 2, 0, true, false),
            (vec![(Greylisted, 2), (RefusalBudget, 22)], 24, 0, true, true),
            (vec![(RefusalBudget, 22), (Outage, 1)], 23, 0, false, false),
            (vec![], 2, 2, false, false),
            (vec![(Greylisted, 1)], 3, 2, true, true),
            // An earlier version has stored no cause.
            (vec![], 3, 0, true, true),
        ] {
            let shown = causes(&counts, unverifiable, (unasked, "cancelled")).into_string();
            assert!(!shown.contains("15 minutes"), "{shown}");
            let said = (shown.contains("24 hours after"), shown.contains(NO_REPEAT));
            assert_eq!(said, (hours, exception), "{shown}");
        }
    }

    #[test]
    fn shares_add_up_and_nothing_leaves_the_chart() {
        let shown = verdicts(&[(Reason::MailboxExists, 999_999), (Reason::Spamtrap, 1), (Reason::NoMx, 0)]);
        let shown = shown.into_string();
        assert!(shown.contains("Mailbox exists: 999,999 (100.0 %)") && !shown.contains("accepts no mail"));
        assert_eq!(verdicts(&[(Reason::NoMx, 0)]).into_string().matches("<svg").count(), 0);
        let counts: Vec<_> = Reason::ALL.into_iter().map(|reason| (reason, 7)).collect();
        let widths = verdicts(&counts).into_string();
        let sum: u64 = widths
            .split(" width=\"")
            .skip(1)
            .map(|rest| rest.split('"').next().unwrap().parse::<u64>().unwrap())
            .sum();
        assert!((985..=1000).contains(&sum), "{sum}");
    }
}
