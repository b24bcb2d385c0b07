//! Generated mail internets for mailnet: a number of domains in which every second address exists.

use std::fmt::Write;

/// A scenario that is used without a given file.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Scenario {
    /// The number of domains: `d1.example` and on.
    pub domains: u64,
    /// The number of sites that they share; `None`: each domain has its own host and site.
    pub sites: Option<u64>,
    /// The delay before each reply of a mail server.
    pub latency_ms: u64,
    /// Whether the hosts offer STARTTLS.
    pub tls: bool,
    /// Whether RCPT is never answered, so that sessions stay open.
    pub hangs: bool,
}

impl Scenario {
    /// A scenario in which every domain has its own host, without latency and TLS.
    pub fn of(domains: u64) -> Scenario {
        Scenario { domains, sites: None, latency_ms: 0, tls: false, hangs: false }
    }

    /// The text of the scenario for mailnet.
    pub fn text(&self) -> String {
        let tls = if self.tls { "\"STARTTLS\", " } else { "" };
        let faults = if self.hangs { ", faults = [{ at = \"rcpt\", does = \"hang\" }]" } else { "" };
        let server = format!("{{ personality = \"plain\", latency_ms = {}{faults} }}", self.latency_ms);
        let mut text = format!(
            "seed = 42\n[listen]\naddresses = \"wildcard\"\n[[personality]]\nname = \"plain\"\nlike = \"generic\"\n\
             ehlo = [\"PIPELINING\", \"SIZE 10485760\", {tls}\"8BITMIME\", \"ENHANCEDSTATUSCODES\"]\n"
        );
        let sites = self.sites.map(|sites| sites.clamp(1, self.domains));
        for site in 1..=sites.unwrap_or(0) {
            let _ = writeln!(text, "[[host]]\nname = \"mx.s{site}.example\"\nserver = {server}");
        }
        let mut first = 1;
        for site in 1..=sites.unwrap_or(1) {
            let last = self.domains * site / sites.unwrap_or(1);
            let hosts = match sites {
                Some(_) => format!("mx = [\"10 mx.s{site}.example\"]"),
                None => format!("server = {server}"),
            };
            let _ = writeln!(
                text,
                "[[group]]\nname = \"d{{n}}.example\"\nfirst = {first}\ncount = {}\n{hosts}\n\
                 mailboxes.ok = [\"50% user-#\"]",
                last + 1 - first
            );
            first = last + 1;
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_domains_are_there_once() {
        for (domains, sites) in [(7, None), (7, Some(3)), (1000, Some(50)), (2, Some(9))] {
            let text = Scenario { sites, ..Scenario::of(domains) }.text();
            let counts = text.lines().filter_map(|line| line.strip_prefix("count = "));
            assert_eq!(counts.map(|count| count.parse::<u64>().unwrap()).sum::<u64>(), domains);
            let hosts = text.lines().filter(|line| *line == "[[host]]").count() as u64;
            assert_eq!(hosts, sites.unwrap_or(0).min(domains));
        }
    }

    #[test]
    fn what_is_asked_for_is_there() {
        let text = Scenario { latency_ms: 50, tls: true, hangs: true, ..Scenario::of(1) }.text();
        for part in ["latency_ms = 50", "STARTTLS", "does = \"hang\""] {
            assert!(text.contains(part), "{text}");
        }
        assert!(!Scenario::of(1).text().contains("STARTTLS"));
    }
}
