//! The report of a plan: the needs, their composition, and the measurements.

use super::{PROGRAMS, Plan};
use crate::digits::grouped;
use crate::html;
use crate::model::{BUDGET, Group, MemoryPart, Unsorted, Way, Workload, address_us};
use crate::providers::{OTHER, WINDOW_S};
use crate::svg::escape;
use std::fmt::Write;

impl Plan {
    /// The needs, one line each.
    fn needs(&self) -> Vec<(&'static str, String)> {
        vec![
            ("cores", self.cores_text()),
            ("memory", format!("{} MiB", grouped(self.memory_mib, 1))),
            ("open sessions", self.sessions_text()),
            ("source addresses", self.sources_text()),
            self.machine_text(),
            (
                "hours at mail servers",
                format!("{} with --sources {}", grouped(self.hours_polite, 2), self.sources),
            ),
            ("limit", self.limit.clone()),
        ]
    }

    /// The whole number of cores that is enough, since nobody has a hundredth of a core.
    fn cores_text(&self) -> String {
        let whole = self.cores.ceil().max(1.0);
        let used = self.cores * self.busy / whole * 100.0;
        format!(
            "{} {} enough, {} % busy at the peak ({} cores at --busy {})",
            grouped(whole, 0),
            if whole > 1.0 { "are" } else { "is" },
            grouped(used, 1),
            grouped(self.cores, 2),
            grouped(self.busy * 100.0, 0)
        )
    }

    /// A list runs at full speed, so its sessions at one time may be many more than the average.
    fn sessions_text(&self) -> String {
        let number = grouped(self.sessions.ceil(), 0);
        match self.workload.way {
            Way::Clean => {
                format!("{number} on average; `clean` opens at most 1,000 at the same time (--sessions)")
            }
            Way::Api | Way::Batch => number,
        }
    }

    fn sources_text(&self) -> String {
        let number = grouped(self.sources_needed, 0);
        if self.sources_needed > 1.0 { format!("{number}, {PROGRAMS}") } else { number }
    }

    fn machine_text(&self) -> (&'static str, String) {
        let hours = grouped(self.hours_machine, 2);
        match self.given_cores {
            Some(cores) => ("hours of CPU", format!("{hours} with --cores {cores}")),
            None => ("hours on this machine", format!("{hours} (other machines: --cores)")),
        }
    }

    /// What the plan assumes, one line each.
    fn notes(&self) -> Vec<String> {
        let work = &self.workload;
        let mut notes: Vec<String> = self.demand.groups.iter().filter_map(budget_note).collect();
        if !notes.is_empty() {
            notes.push(match work.way {
                Way::Clean => format!(
                    "Rows above a budget wait only with `clean --max-wait {:.0}` (with --sources {}). Otherwise they are \
                     not checked.",
                    (self.hours_polite * 3600.0).ceil(),
                    self.sources
                ),
                Way::Api => "Single checks above a budget get 503.".into(),
                Way::Batch => {
                    "Rows above a budget wait until the end of `batch_wait`. Then they are `unverifiable`.".into()
                }
            });
        }
        if work.providers.is_empty() {
            let each = grouped(work.per_domain, 1);
            notes.push(format!(
                "No --share is given: the plan has no big provider, and each site has {each} addresses (--per-domain)."
            ));
        }
        if work.way == Way::Clean {
            notes.push(format!(
                "A session of a list takes {} recipients of its site after the first one, if the site allows it \
                 (measured by `calibrate`).",
                grouped(self.figures.recipients_per_session, 1)
            ));
        }
        notes.extend(self.demand.unsorted.as_ref().map(order_note));
        notes.extend(
            self.figures.doubts().into_iter().map(|doubt| format!("Doubt about the figures: {doubt}.")),
        );
        notes
    }

    /// The memory with all its parts, in MiB.
    fn memory_line(&self) -> String {
        let parts = self.demand.memory_parts.iter().filter(|part| part.bytes() > 0.0);
        let parts: Vec<String> = parts.map(|part| memory_part(part, self.demand.domains)).collect();
        format!("memory        {} MiB = {}", grouped(self.memory_mib, 1), parts.join(" + "))
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
        lines.push(self.memory_line());
        lines
    }

    fn groups(&self) -> Vec<[String; 7]> {
        let row = |group: &Group| {
            [
                site_name(group),
                grouped(group.recipients, 0),
                grouped(group.sessions, 0),
                grouped(group.recipients_per_session, 1),
                grouped(group.session_life, 2),
                group
                    .polite_rate
                    .map_or("-".into(), |rate| format!("{} ({})", super::rate(rate), group.bound_by)),
                grouped(group.sources, 0),
            ]
        };
        self.demand.groups.iter().map(row).collect()
    }

    fn title(&self) -> String {
        let work = &self.workload;
        format!(
            "{} addresses per day in {:.1} h by {}, {:.0} % fast, {} per domain, {:.0} ms round trip, {:.0} % TLS, \
             {:.0} % greylisted, {:.0} % exist; measured on {}",
            grouped(work.addresses, 0),
            work.seconds / 3600.0,
            match work.way {
                Way::Clean => "lists",
                Way::Api => "single checks",
                Way::Batch => "batches",
            },
            work.fast * 100.0,
            grouped(work.per_domain, 1),
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
            "\n{:<24}{:>12}{:>12}{:>8}{:>8}{:>9}  recipients/s per source and site",
            "sites", "recipients", "sessions", "each", "life s", "sources"
        );
        for [name, recipients, sessions, each, life, rate, sources] in self.groups() {
            let _ = writeln!(
                out,
                "{name:<24}{recipients:>12}{sessions:>12}{each:>8}{life:>8}{sources:>9}  {rate}"
            );
        }
        out.push('\n');
        for note in self.notes() {
            let _ = writeln!(out, "{note}");
        }
        out
    }

    /// The report as a page of HTML.
    pub fn html(&self) -> String {
        let mut out = format!("<p class=\"dim\">{}</p>\n<table class=\"pairs\">", escape(&self.title()));
        for (name, value) in self.needs() {
            let _ = writeln!(out, "<tr><td>{name}</td><td>{}</td></tr>", escape(&value));
        }
        out.push_str("</table>\n");
        for note in self.notes() {
            let _ = writeln!(out, "<p class=\"dim\">{}</p>", escape(&note));
        }
        out.push_str("<h2>Hours and rate</h2>\n");
        for plot in self.curves() {
            out.push_str(&plot.svg());
        }
        out.push_str(
            "<p class=\"dim\">The slower one of the mail servers and the cores limits the work. Horizontal line: what the work \
             needs. Vertical line: what there is. Further source addresses speed up a site only in programs of their own.</p>\n",
        );
        let _ = writeln!(out, "<h2>Calculation</h2>\n<pre>{}</pre>", escape(&self.formula().join("\n")));
        let heads =
            ["", "recipients", "sessions", "each", "life s", "recipients/s per source and site", "sources"];
        table(&mut out, "Sites", &heads, &self.groups());
        table(&mut out, "Measured costs", &["", "value"], &self.figures.costs());
        if let Some(origin) = &self.figures.origin {
            html::origin(&mut out, origin);
        }
        html::page("mailprobe capacity plan", &out)
    }
}

/// The sentence about a budget of refused recipients that limits the sites.
fn budget_note(group: &Group) -> Option<String> {
    let budget = group.budget.filter(|_| group.bound_by == BUDGET)?;
    Some(format!(
        "Budget of refused recipients at {}: {} per source in {} minutes; this work has {}{}.",
        group.name,
        grouped(budget, 0),
        grouped(WINDOW_S / 60.0, 0),
        grouped(group.refused, 0),
        if group.name == OTHER { " at each site" } else { "" }
    ))
}

fn order_note(unsorted: &Unsorted) -> String {
    format!(
        "The list is sorted by domain, or has at most {} rows (`clean --queue`). In random order it needs up to {} \
         sessions and {} CPU s.",
        grouped(unsorted.queue, 0),
        grouped(unsorted.sessions, 0),
        grouped(unsorted.cpu_s, 1)
    )
}

/// A part of the memory in MiB, with its number of units.
fn memory_part(part: &MemoryPart, domains: f64) -> String {
    let bytes = grouped(part.bytes() / 1024.0 / 1024.0, 1);
    let (count, each) = (grouped(part.count.ceil(), 0), grouped(part.bytes_each, 0));
    match part.name {
        "clean" => format!("{bytes} (clean, a list of this length)"),
        "idle server" => format!("{bytes} (idle server)"),
        "filter" => format!("{bytes} (filter of {count} addresses x {} B)", grouped(part.bytes_each, 2)),
        "domains" => {
            format!("{bytes} ({count} of {} domains x {each} B, at most 16 MiB)", grouped(domains, 0))
        }
        name => format!("{bytes} ({count} {name} x {each} B)"),
    }
}

/// A provider is one site. The other sites are many, and each of them has its own limits.
fn site_name(group: &Group) -> String {
    if group.name == OTHER {
        format!("other ({} sites)", grouped(group.sites.ceil(), 0))
    } else {
        group.name.clone()
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
