//! The report as one page without scripts and external content, for light and dark displays.

use crate::origin::Origin;
use crate::run::Second;
use crate::stats::SHOWN;
use crate::summary::{EndpointShown, SampleShown, Summary};
use crate::svg::{Plot, PlotSeries, Scale, escape};
use std::fmt::Write;

const STYLE: &str = include_str!("page.css");

/// The end of a run is measured with this precision.
const TIMER_S: f64 = 0.05;

/// A page with this content.
pub fn page(title: &str, content: &str) -> String {
    format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>{title}</title>\n\
         <meta name=\"viewport\" content=\"width=device-width\"><style>\n{style}</style></head>\n\
         <body>\n<h1>{title}</h1>\n{content}</body></html>\n",
        title = escape(title),
        style = STYLE.trim_end()
    )
}

/// The report of a run.
pub fn report(summary: &Summary) -> String {
    let mut out = String::new();
    content(&mut out, summary);
    page("mailprobe load test", &out)
}

/// The content of a report, for pages that contain further parts.
pub fn content(out: &mut String, summary: &Summary) {
    let _ = writeln!(out, "<p class=\"dim\">{}<br>{}</p>", escape(&summary.title), escape(&summary.counts()));
    for verdict in &summary.objectives {
        let class = if verdict.met { "good" } else { "bad" };
        let _ = writeln!(out, "<p class=\"{class}\">{}</p>", escape(&verdict.line));
    }
    for warning in &summary.warnings {
        let _ = writeln!(out, "<p class=\"bad\">warning: {}</p>", escape(warning));
    }
    tiles(out, summary);
    table(out, &summary.endpoints);
    errors(out, &summary.endpoints);
    let lines: Vec<String> = summary.answers_and_costs().iter().map(|line| escape(line)).collect();
    let _ = writeln!(out, "<h2>Answers and costs</h2>\n<p>{}</p>", lines.join("<br>\n"));
    for plot in plots(summary) {
        out.push_str(&plot.svg());
    }
    out.push_str(
        "<p class=\"dim\">Latency counts from the due time of a request, so it includes all waits. Shaded: the warm-up, \
         which does not count.</p>\n",
    );
    if let Some(from) = &summary.origin {
        origin(out, from);
    }
}

/// The origin of the figures as a table.
pub fn origin(out: &mut String, origin: &Origin) {
    out.push_str("<h2>Origin</h2>\n<table class=\"pairs\">\n");
    for (name, value) in origin.lines() {
        let _ = writeln!(out, "<tr><td>{name}</td><td>{}</td></tr>", escape(&value));
    }
    out.push_str("</table>\n");
}

fn tiles(out: &mut String, summary: &Summary) {
    let mut tile = |value: String, name: &str| {
        let _ = writeln!(out, "<div class=\"tile\"><b>{value}</b>{name}</div>");
    };
    tile(format!("{:.1}/s", summary.rate), "good answers");
    let share = summary.errors as f64 * 100.0 / summary.requests.max(1) as f64;
    tile(format!("{share:.2} %"), "errors");
    if let Some(all) = summary.endpoints.last() {
        tile(format!("{:.1} ms", all.latency_ms.get("p99").copied().unwrap_or(0.0)), "p99");
    }
    if let Some(cpu) = summary.server.cpu_s_per_1000 {
        tile(format!("{cpu:.3} s"), "server CPU per 1,000 requests");
    }
    if let Some(cores) = summary.server.cores {
        tile(format!("{cores:.2}"), "busy cores of the server");
    }
    if let Some(rss) = summary.server.rss_peak_mib {
        tile(format!("{rss:.0} MiB"), "maximum resident memory");
    }
    tile(format!("{:.0} %", summary.client.busy * 100.0), "client busy");
    let first = out.find("<div class=\"tile\">").unwrap_or(out.len());
    out.insert_str(first, "<div class=\"tiles\">\n");
    out.push_str("</div>\n");
}

fn table(out: &mut String, endpoints: &[EndpointShown]) {
    out.push_str(
        "<h2>Latency in milliseconds</h2>\n<div class=\"scroll\"><table><tr><th></th><th>requests</th><th>errors</th>\
         <th class=\"wide\">429</th>",
    );
    for (name, _) in SHOWN {
        let _ = write!(out, "<th{}>{name}</th>", class_of(name));
    }
    out.push_str("</tr>\n");
    for one in endpoints {
        let _ = write!(
            out,
            "<tr><td>{}</td><td>{}</td><td>{}</td><td class=\"wide\">{}</td>",
            one.name, one.requests, one.errors, one.limited
        );
        for (name, _) in SHOWN {
            let value = one.latency_ms.get(name).copied().unwrap_or(0.0);
            let _ = write!(out, "<td{}>{value:.2}</td>", class_of(name));
        }
        out.push_str("</tr>\n");
    }
    out.push_str("</table></div>\n");
}

/// A narrow display has no room for all percentiles.
fn class_of(percentile: &str) -> &'static str {
    if matches!(percentile, "p90" | "p99.9") { " class=\"wide\"" } else { "" }
}

fn errors(out: &mut String, endpoints: &[EndpointShown]) {
    let mut rows = String::new();
    for one in endpoints.iter().filter(|one| one.name != "all") {
        let bad = one.status.iter().filter(|(status, _)| !(200..300).contains(*status));
        for (what, count) in bad
            .map(|(status, count)| (status.to_string(), count))
            .chain(one.failures.iter().map(|(name, count)| ((*name).to_owned(), count)))
        {
            let _ = writeln!(rows, "<tr><td>{}</td><td>{what}</td><td>{count}</td></tr>", one.name);
        }
    }
    if !rows.is_empty() {
        let _ = writeln!(
            out,
            "<h2>Errors</h2>\n<table><tr><th></th><th>what</th><th>requests</th></tr>\n{rows}</table>"
        );
    }
}

fn plots(summary: &Summary) -> Vec<Plot> {
    let warm_up = Some((0.0, summary.load.warm_up_s));
    let time = |title: &str, y_name, y, series| {
        let title = title.to_owned();
        Plot { title, x_name: "seconds", y_name, y, shaded: warm_up, series, ..Plot::default() }
    };
    let line = |name: &str, points: Vec<(f64, f64)>| PlotSeries { name: name.to_owned(), points };
    let seconds = |of: fn(&Second) -> f64| -> Vec<(f64, f64)> {
        summary.timeline.iter().map(|second| (f64::from(second.second), of(second))).collect()
    };
    let distribution = Plot {
        title: "Latency by percentile".to_owned(),
        x_name: "percentile",
        y_name: "ms",
        x: Scale::Nines,
        y: Scale::Log(0.01),
        series: summary.endpoints.iter().map(|one| line(one.name, one.distribution.clone())).collect(),
        ..Plot::default()
    };
    let end = summary.load.warm_up_s + summary.seconds;
    // The number of requests in a part of a second is no rate.
    let whole = |mut points: Vec<(f64, f64)>| {
        points.retain(|point| point.0 + 1.0 <= end + TIMER_S);
        points
    };
    let mut rate = vec![
        line("answered", whole(seconds(|second| second.answered as f64))),
        line("errors", whole(seconds(|second| second.errors as f64))),
    ];
    rate.retain(|line| !line.points.is_empty());
    if let Some(asked) = summary.load.rate {
        rate.push(line("due", vec![(0.0, asked), (end, asked)]));
    }
    let latency =
        vec![line("p50", seconds(|second| second.p50_ms)), line("p99", seconds(|second| second.p99_ms))];
    let samples = |of: &dyn Fn(&SampleShown) -> Option<f64>| -> Vec<(f64, f64)> {
        summary.samples.iter().filter_map(|sample| Some((sample.at, of(sample)?))).collect()
    };
    let mut plots = vec![
        distribution,
        time("Requests over time", "per second", Scale::Linear, rate),
        time("Latency over time", "ms", Scale::Log(0.01), latency),
        time(
            "Cores of the server",
            "cores",
            Scale::Linear,
            vec![line("cores", samples(&|sample| sample.cores))],
        ),
        time(
            "Memory of the server",
            "MiB",
            Scale::Linear,
            vec![line("resident", samples(&|sample| sample.rss_mib))],
        ),
    ];
    let gauges = crate::sampler::GAUGES
        .iter()
        .map(|(_, name)| line(name, samples(&|sample| sample.gauges.get(name).copied())));
    plots.push(time(
        "Inside the server",
        "",
        Scale::Linear,
        gauges.filter(|line| !line.points.is_empty()).collect(),
    ));
    plots
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::tests::outcome;

    #[test]
    fn the_page_stands_alone() {
        let mut run = outcome();
        run.samples.iter_mut().for_each(|sample| sample.rss_kib = Some(10_240));
        let html = report(&Summary::of(&run, &["p50=1ms".parse().unwrap()]));
        for part in [
            "<svg",
            "Latency by percentile",
            "Memory of the server",
            "class=\"bad\">missed",
            "prefers-color-scheme",
        ] {
            assert!(html.contains(part), "{part}");
        }
        for asset in ["http://", "https://", "<script", "<link", "<img", "url("] {
            assert!(!html.contains(asset), "{asset}");
        }
        assert!(!html.contains("NaN") && !html.contains("inf"), "figures are numbers");
    }

    #[test]
    fn the_page_has_the_lines_of_the_text() {
        let mut run = outcome();
        run.stats.reason("unverifiable");
        run.stats.batch_rows = 300;
        run.samples.iter_mut().for_each(|sample| sample.rss_kib = Some(10_240));
        let summary = Summary::of(&run, &[]);
        let html = report(&summary);
        for line in [vec![summary.counts()], summary.answers_and_costs()].concat() {
            assert!(html.contains(&escape(&line)), "{line}");
        }
        assert!(
            html.contains("reasons: unverifiable 1; repeats: 0")
                && html.contains("rows of accepted batches: 300")
        );
        assert!(
            html.contains("<th class=\"wide\">p90</th><th>p99</th>"),
            "p99 is not hidden on a narrow display"
        );
        let hidden = |cell: &str| html.matches(&format!("<{cell} class=\"wide\">")).count();
        assert_eq!((hidden("th"), hidden("td")), (3, 3), "the columns of the head are those of the rows");
    }

    #[test]
    fn a_part_of_a_second_is_not_plotted_as_a_rate() {
        let mut run = outcome();
        let last = Second { second: 10, answered: 1, errors: 0, p50_ms: 1.0, p99_ms: 1.0 };
        run.timeline.push(last);
        let plots = plots(&Summary::of(&run, &[]));
        let last_of = |plot: &Plot| plot.series[0].points.last().map(|point| point.0);
        assert_eq!((last_of(&plots[1]), last_of(&plots[2])), (Some(9.0), Some(10.0)));
    }
}
