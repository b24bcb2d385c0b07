//! The report of a plan: the needs, their composition, and the measurements.

use super::Plan;
use crate::digits::grouped;
use crate::html;
use crate::model::{Group, Way, Workload, address_us};
use crate::svg::escape;
use std::fmt::Write;

impl Plan {
    /// The needs, one line each.
    fn needs(&self) -> Vec<(&'static str, String)> {
        vec![
            ("cores", format!("{} ({:.0} % busy at the peak)", grouped(self.cores, 2), self.busy * 100.0)),
            ("memory", format!("{} MiB", grouped(self.memory_mib, 0))),
            ("open sessions", grouped(self.sessions.ceil(), 0)),
            ("source addresses", grouped(self.sources_needed, 0)),
            ("hours on this machine", grouped(self.hours_machine, 2)),
            (
                "hours at mail servers",
                format!("{} with --sources {}", grouped(self.hours_polite, 2), self.sources),
            ),
            ("limit", self.limit.clone()),
        ]
    }

    /// The formula with its values.
    fn formula(&self) -> Vec<String> {
        let (demand, cost, work) = (&self.demand, &self.figures.cpu_us, &self.workload);
        let name = match work.way {
            Way::Clean => "an address of a list",
            Way::Api => "a full check over the API at this rate",
            Way::Batch => "a row of a batch",
        };
        let seconds = work.seconds / self.peak;
        let address = address_us(&Workload { seconds, ..work.clone() }, cost, demand.recipients);
        let fast = cost.fast.at(demand.fast / seconds);
        let part = |name: &str, count: f64, us: f64, more: &str| {
            format!("{name:<14}{:>14} x {us:>8.1} us{more}", grouped(count, 0))
        };
        let mut lines = vec![
            part("fast checks", demand.fast, fast, ""),
            part("recipients", demand.recipients, address, &format!(" ({name})")),
            part("domains", demand.domains, cost.domain, ""),
            part("sessions", demand.sessions, cost.session, ""),
            part(
                "TLS",
                demand.sessions * work.tls,
                cost.tls_session,
                &format!(
                    ", {} recipients x {:.1} us",
                    grouped(demand.recipients * work.tls, 0),
                    cost.tls_address
                ),
            ),
        ];
        let parts: Vec<String> = demand
            .cpu_parts
            .iter()
            .map(|(name, seconds)| format!("{name} {}", grouped(*seconds, 1)))
            .collect();
        lines.push(format!("CPU s         {} = {}", grouped(demand.cpu_s, 1), parts.join(" + ")));
        lines.push(format!(
            "cores         {} = {} CPU s / {} s x {:.1} (peak) / {:.2} (busy)",
            grouped(self.cores, 2),
            grouped(demand.cpu_s, 1),
            grouped(work.seconds, 0),
            self.peak,
            self.busy
        ));
        let memory = &self.figures.memory;
        lines.push(format!(
            "memory        {} MiB = {} + {} sessions x {} B + {} domains x {} B + rows of batches",
            grouped(self.memory_mib, 0),
            grouped(memory.base / 1024.0 / 1024.0, 0),
            grouped(self.sessions, 0),
            grouped(memory.session + work.tls * memory.tls_session, 0),
            grouped(demand.remembered, 0),
            grouped(memory.domain, 0)
        ));
        lines
    }

    fn groups(&self) -> Vec<[String; 7]> {
        let row = |group: &Group| {
            [
                group.name.clone(),
                grouped(group.recipients, 0),
                grouped(group.sessions, 0),
                grouped(group.recipients_per_session, 1),
                grouped(group.session_life, 2),
                group
                    .polite_rate
                    .map_or("-".into(), |rate| format!("{} ({})", grouped(rate, 2), group.bound_by)),
                grouped(group.sources, 0),
            ]
        };
        self.demand.groups.iter().map(row).collect()
    }

    fn title(&self) -> String {
        let work = &self.workload;
        format!(
            "{} addresses per day in {:.1} h by {}, {:.0} % fast, {:.1} per domain, {:.0} ms round trip, {:.0} % TLS, \
             {:.0} % greylisted, {:.0} % exist; measured on {}",
            grouped(work.addresses, 0),
            work.seconds / 3600.0,
            match work.way {
                Way::Clean => "lists",
                Way::Api => "single checks",
                Way::Batch => "batches",
            },
            work.fast * 100.0,
            work.per_domain,
            work.round_trip_s * 1000.0,
            work.tls * 100.0,
            work.greylisted * 100.0,
            work.exists * 100.0,
            self.figures.machine
        )
    }

    /// The report as text for a terminal.
    pub fn text(&self) -> String {
        let mut out = format!("{}\n\n", self.title());
        for (name, value) in self.needs() {
            let _ = writeln!(out, "{name:<24}{value}");
        }
        out.push('\n');
        for line in self.formula() {
            let _ = writeln!(out, "{line}");
        }
        let _ = writeln!(
            out,
            "\n{:<14}{:>12}{:>12}{:>8}{:>8}{:>9}  recipients/s per source",
            "sites", "recipients", "sessions", "each", "life s", "sources"
        );
        for [name, recipients, sessions, each, life, rate, sources] in self.groups() {
            let _ = writeln!(
                out,
                "{name:<14}{recipients:>12}{sessions:>12}{each:>8}{life:>8}{sources:>9}  {rate}"
            );
        }
        out
    }

    /// The report as a page of HTML.
    pub fn html(&self) -> String {
        let mut out = format!("<p class=\"dim\">{}</p>\n<table class=\"pairs\">", escape(&self.title()));
        for (name, value) in self.needs() {
            let _ = writeln!(out, "<tr><td>{name}</td><td>{}</td></tr>", escape(&value));
        }
        out.push_str("</table>\n<h2>Hours and rate</h2>\n");
        for plot in self.curves() {
            out.push_str(&plot.svg());
        }
        out.push_str(
            "<p class=\"dim\">The slower one of the mail servers and the cores limits the work. Horizontal line: what the work \
             needs. Vertical line: what there is.</p>\n",
        );
        let _ = writeln!(out, "<h2>Calculation</h2>\n<pre>{}</pre>", escape(&self.formula().join("\n")));
        let heads = ["", "recipients", "sessions", "each", "life s", "recipients/s per source", "sources"];
        table(&mut out, "Sites", &heads, &self.groups());
        table(&mut out, "Measured costs", &["", "value"], &self.costs());
        if let Some(origin) = &self.figures.origin {
            html::origin(&mut out, origin);
        }
        html::page("mailprobe capacity plan", &out)
    }

    /// The measurements of the machine, one row each.
    fn costs(&self) -> Vec<[String; 2]> {
        let (cost, memory) = (&self.figures.cpu_us, &self.figures.memory);
        let mut rows: Vec<[String; 2]> = Vec::new();
        let mut add = |name: &str, value: f64, unit: &str| {
            let decimals = if value < 100.0 { 1 } else { 0 };
            rows.push([name.to_owned(), format!("{} {unit}", grouped(value, decimals))]);
        };
        add("start of a process", cost.start, "us");
        add("a second of an idle server", cost.idle_second, "us");
        for (rate, us) in &cost.fast.0 {
            add(&format!("a fast check at {}/s", grouped(*rate, 0)), *us, "us");
        }
        add("an address of a list", cost.list_address, "us");
        for (rate, us) in &cost.api_address.0 {
            add(&format!("a full check at {}/s", grouped(*rate, 0)), *us, "us");
        }
        add("a row of a batch", cost.batch_row, "us");
        add("a domain", cost.domain, "us");
        add("a session", cost.session, "us");
        add("TLS of a session", cost.tls_session, "us");
        add("TLS of an address", cost.tls_address, "us");
        add("an idle server", memory.base / 1024.0 / 1024.0, "MiB");
        add("an open session", memory.session, "bytes");
        add("TLS of an open session", memory.tls_session, "bytes");
        add("a domain in memory", memory.domain, "bytes");
        add("an unanswered row of a batch", memory.batch_row, "bytes");
        add("recipients of a site per session", self.figures.recipients_per_session, "");
        add("wait of a session for more work", self.figures.session_idle_s, "s");
        rows
    }
}

fn table<const N: usize>(out: &mut String, title: &str, heads: &[&str; N], rows: &[[String; N]]) {
    let _ = write!(out, "<h2>{title}</h2>\n<div class=\"scroll\"><table><tr>");
    for head in heads {
        let _ = write!(out, "<th>{head}</th>");
    }
    out.push_str("</tr>\n");
    for row in rows {
        let cells: Vec<String> = row.iter().map(|cell| format!("<td>{}</td>", escape(cell))).collect();
        let _ = writeln!(out, "<tr>{}</tr>", cells.concat());
    }
    out.push_str("</table></div>\n");
}
