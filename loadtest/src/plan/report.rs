//! The report of a plan: the needs, their composition, and the measurements.

use super::Plan;
use crate::html;
use crate::model::{Group, Way, Workload, address_us};
use crate::svg::escape;
use std::fmt::Write;

impl Plan {
    /// The needs, one line each.
    fn needs(&self) -> Vec<(&'static str, String)> {
        vec![
            ("cores", format!("{:.2} ({:.0} % busy at the peak)", self.cores, self.busy * 100.0)),
            ("memory", format!("{:.0} MiB", self.memory_mib)),
            ("open sessions", format!("{:.0}", self.sessions.ceil())),
            ("source addresses", format!("{:.0}", self.sources_needed)),
            ("hours on this machine", format!("{:.2}", self.hours_machine)),
            ("hours at mail servers", format!("{:.2} with --sources {}", self.hours_polite, self.sources)),
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
        let mut lines = vec![
            format!("fast checks   {:>14.0} x {:>8.1} us", demand.fast, fast),
            format!("recipients    {:>14.0} x {address:>8.1} us ({name})", demand.recipients),
            format!("domains       {:>14.0} x {:>8.1} us", demand.domains, cost.domain),
            format!("sessions      {:>14.0} x {:>8.1} us", demand.sessions, cost.session),
            format!(
                "TLS           {:>14.0} x {:>8.1} us, {:.0} recipients x {:.1} us",
                demand.sessions * work.tls,
                cost.tls_session,
                demand.recipients * work.tls,
                cost.tls_address
            ),
        ];
        let parts: Vec<String> =
            demand.cpu_parts.iter().map(|(name, seconds)| format!("{name} {seconds:.1}")).collect();
        lines.push(format!("CPU s         {:.1} = {}", demand.cpu_s, parts.join(" + ")));
        lines.push(format!(
            "cores         {:.2} = {:.1} CPU s / {:.0} s x {:.1} (peak) / {:.2} (busy)",
            self.cores, demand.cpu_s, work.seconds, self.peak, self.busy
        ));
        let memory = &self.figures.memory;
        lines.push(format!(
            "memory        {:.0} MiB = {:.0} + {:.0} sessions x {:.0} B + {:.0} domains x {:.0} B + rows of batches",
            self.memory_mib,
            memory.base / 1024.0 / 1024.0,
            self.sessions,
            memory.session + work.tls * memory.tls_session,
            demand.remembered,
            memory.domain
        ));
        lines
    }

    fn groups(&self) -> Vec<[String; 7]> {
        let row = |group: &Group| {
            [
                group.name.clone(),
                format!("{:.0}", group.recipients),
                format!("{:.0}", group.sessions),
                format!("{:.1}", group.recipients_per_session),
                format!("{:.2}", group.session_life),
                group.polite_rate.map_or("-".into(), |rate| format!("{rate:.2} ({})", group.bound_by)),
                format!("{:.0}", group.sources),
            ]
        };
        self.demand.groups.iter().map(row).collect()
    }

    fn title(&self) -> String {
        let work = &self.workload;
        format!(
            "{:.0} addresses per day in {:.1} h by {}, {:.0} % fast, {:.1} per domain, {:.0} ms round trip, {:.0} % TLS, \
             {:.0} % greylisted, {:.0} % exist; measured on {}",
            work.addresses,
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
        let mut out = format!("<p class=\"dim\">{}</p>\n<table>", escape(&self.title()));
        for (name, value) in self.needs() {
            let _ = writeln!(out, "<tr><td>{name}</td><td>{}</td></tr>", escape(&value));
        }
        let _ = writeln!(
            out,
            "</table>\n<h2>Calculation</h2>\n<pre>{}</pre>",
            escape(&self.formula().join("\n"))
        );
        out.push_str("<h2>Sites</h2>\n<table><tr>");
        for head in ["", "recipients", "sessions", "each", "life s", "recipients/s per source", "sources"] {
            let _ = write!(out, "<th>{head}</th>");
        }
        out.push_str("</tr>\n");
        for row in self.groups() {
            let cells: Vec<String> = row.iter().map(|cell| format!("<td>{}</td>", escape(cell))).collect();
            let _ = writeln!(out, "<tr>{}</tr>", cells.concat());
        }
        out.push_str("</table>\n<h2>Measured costs</h2>\n<pre>");
        if let Ok(text) = serde_json::to_string_pretty(&self.figures) {
            out.push_str(&escape(&text));
        }
        out.push_str("</pre>\n");
        html::page("mailprobe capacity plan", &out)
    }
}
