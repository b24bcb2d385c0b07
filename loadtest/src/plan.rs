//! `plan`: the needs of a number of addresses per day, from figures that were measured on a machine.

mod curves;
mod report;

use crate::digits::grouped;
use crate::figures::Figures;
use crate::model::{Demand, Way, Workload};
use crate::objective::milliseconds;
use crate::providers::{self, Limits, OTHER, Pace};
use crate::{End, check, say};
use clap::Args;
use serde::Serialize;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// The options of `plan`.
#[derive(Debug, Args)]
pub struct PlanArgs {
    /// File with the figures of `calibrate`
    #[arg(long, value_name = "FILE", default_value = "figures.json")]
    figures: PathBuf,
    /// Number of addresses per day, such as 250k or 10M
    #[arg(long, value_name = "N", default_value = "1M", value_parser = amount)]
    per_day: f64,
    /// Kind of checks
    #[arg(long, value_enum, default_value = "clean")]
    way: Way,
    /// Percentage of fast checks
    #[arg(long, value_name = "PERCENT", default_value = "0", value_parser = percent)]
    fast: f64,
    /// Number of hours of the day for this work
    #[arg(long, value_name = "N", default_value_t = 24.0)]
    hours: f64,
    /// Load at the busiest time, divided by the average load
    #[arg(long, value_name = "FACTOR", default_value_t = 1.0)]
    peak: f64,
    /// Number of addresses per domain and day
    #[arg(long, value_name = "N", default_value_t = 10.0)]
    per_domain: f64,
    /// Time from a command to the reply of a mail server: the round trip and the time that the server needs
    #[arg(long, value_name = "TIME", default_value = "100ms", value_parser = milliseconds)]
    round_trip: f64,
    /// Percentage of addresses that a server greylists
    #[arg(long, value_name = "PERCENT", default_value = "5", value_parser = percent)]
    greylisted: f64,
    /// Percentage of addresses at servers that offer STARTTLS
    #[arg(long, value_name = "PERCENT", default_value = "95", value_parser = percent)]
    tls: f64,
    /// Percentage of addresses that exist. The others are refused, and refusals end sessions
    #[arg(long, value_name = "PERCENT", default_value = "80", value_parser = percent)]
    exists: f64,
    /// Percentages of addresses at big providers, such as google=30,microsoft365=20
    #[arg(long, value_name = "NAME=PERCENT,...", value_parser = share, value_delimiter = ',')]
    share: Vec<(String, f64)>,
    /// File with limits of providers. They replace the built-in limits of the same names
    #[arg(long, value_name = "FILE")]
    providers: Option<PathBuf>,
    /// Pace at each site: the same as --pace of mailprobe
    #[arg(long, value_enum, default_value = "polite")]
    pace: Pace,
    /// Number of source addresses
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    sources: u32,
    /// Highest load of a core, in percent
    #[arg(long, value_name = "PERCENT", default_value = "60", value_parser = percent)]
    busy: f64,
    /// Run two workloads on this machine, and compare the prediction with the measurement. The exit code is 1 if a
    /// prediction of CPU seconds is wrong by more than 20 percent
    #[arg(long)]
    check: bool,
    /// With --check: folder of the programs mailprobe and mailnet [default: the folder of this program]
    #[arg(long, value_name = "DIR")]
    pub bin_dir: Option<PathBuf>,
    /// Write the plan as JSON
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Write the plan as an HTML page
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// With --check: more flags for mailprobe
    #[arg(last = true)]
    pub flags: Vec<String>,
}

/// A plan with its inputs and results.
#[derive(Debug, Serialize)]
pub struct Plan {
    pub workload: Workload,
    pub peak: f64,
    pub busy: f64,
    pub figures: Figures,
    pub demand: Demand,
    pub cores: f64,
    pub memory_mib: f64,
    pub sessions: f64,
    pub sources_needed: f64,
    pub sources: u32,
    /// The hours that the workload takes with the given sources on this machine.
    pub hours_polite: f64,
    pub hours_machine: f64,
    pub limit: String,
}

/// Plans, prints and writes; or checks the model.
///
/// # Errors
///
/// One line: a file cannot be read or written, or a measurement failed.
pub fn plan(args: &PlanArgs, stop: &Arc<AtomicBool>) -> Result<End, String> {
    let figures = Figures::read(&args.figures)?;
    if args.check {
        return check::check(args, &figures, stop);
    }
    let plan = Plan::of(args, figures)?;
    say(&plan.text())?;
    if let Some(path) = &args.json {
        let text = serde_json::to_string_pretty(&plan).map_err(|error| error.to_string())?;
        crate::world::write(path, &(text + "\n"))?;
    }
    if let Some(path) = &args.html {
        crate::world::write(path, &plan.html())?;
    }
    Ok(End::Met)
}

impl PlanArgs {
    fn workload(&self, table: &[Limits]) -> Result<Workload, String> {
        let sound = |number: f64| number.is_finite() && number > 0.0;
        if !sound(self.hours) || self.hours > 24.0 {
            return Err("--hours must be above 0 and at most 24".into());
        }
        if !sound(self.per_domain)
            || self.per_domain < 1.0
            || !sound(self.peak)
            || self.peak < 1.0
            || self.busy <= 0.0
        {
            return Err("--per-domain and --peak must be at least 1, --busy above 0".into());
        }
        let known = |name: &str| name != OTHER && table.iter().any(|limits| limits.name == name);
        if let Some((name, _)) = self.share.iter().find(|(name, _)| !known(name)) {
            let names: Vec<&str> =
                table.iter().map(|limits| limits.name.as_str()).filter(|name| *name != OTHER).collect();
            return Err(format!(
                "--share: `{name}` is not a known provider; the known ones are {}",
                names.join(", ")
            ));
        }
        if self.share.iter().map(|(_, share)| share).sum::<f64>() > 1.0 + 1e-9 {
            return Err("--share: the sum is above 100 percent".into());
        }
        Ok(Workload {
            way: self.way,
            addresses: self.per_day,
            fast: self.fast,
            seconds: self.hours * 3600.0,
            per_domain: self.per_domain,
            round_trip_s: self.round_trip / 1000.0,
            greylisted: self.greylisted,
            tls: self.tls,
            exists: self.exists,
            providers: self.share.clone(),
        })
    }
}

impl Plan {
    fn of(args: &PlanArgs, figures: Figures) -> Result<Plan, String> {
        let table = providers::built_in(args.pace);
        let table = match &args.providers {
            Some(path) => providers::read(path, table)?,
            None => table,
        };
        Ok(Plan::make(args.workload(&table)?, figures, &table, args.peak, args.busy, args.sources))
    }

    /// The plan is for the busiest time.
    fn make(
        workload: Workload,
        figures: Figures,
        table: &[Limits],
        peak: f64,
        busy: f64,
        sources: u32,
    ) -> Plan {
        let at_peak = Workload { seconds: workload.seconds / peak, ..workload.clone() };
        let demand = Demand::of(&at_peak, &figures, table);
        let cores = demand.cpu_s / at_peak.seconds / busy;
        let slowest = demand.groups.iter().map(|group| group.seconds_with_one).fold(0.0, f64::max);
        let hours_polite = slowest / f64::from(sources) / 3600.0;
        let hours_machine = demand.cpu_s / (f64::from(figures.cores) * busy) / 3600.0;
        let mut plan = Plan {
            cores,
            memory_mib: demand.memory_bytes / 1024.0 / 1024.0,
            sessions: demand.sessions_open,
            sources_needed: demand.groups.iter().map(|group| group.sources).fold(1.0, f64::max),
            sources,
            hours_polite,
            hours_machine,
            limit: String::new(),
            workload,
            peak,
            busy,
            figures,
            demand,
        };
        plan.limit = plan.limit();
        plan
    }

    /// One sentence that names the limiting resource.
    fn limit(&self) -> String {
        let slowest = self
            .demand
            .groups
            .iter()
            .max_by(|one, other| one.seconds_with_one.total_cmp(&other.seconds_with_one));
        match slowest {
            Some(group) if self.sources_needed > f64::from(self.sources) => format!(
                "the sources' limits at {}: it accepts {} recipients/s per source (its limit: {}), so the work needs \
                 {} sources, or {} h with --sources {}",
                group.name,
                grouped(group.polite_rate.unwrap_or(0.0), 1),
                group.bound_by,
                grouped(self.sources_needed, 0),
                grouped(self.hours_polite, 1),
                self.sources
            ),
            Some(group) if self.hours_polite > self.hours_machine => format!(
                "none is reached. The sources' limits at {} are closest: it takes {} h with --sources {}, this machine {} h",
                group.name,
                grouped(self.hours_polite, 1),
                self.sources,
                grouped(self.hours_machine, 1)
            ),
            _ if self.cores > f64::from(self.figures.cores) => {
                format!(
                    "the CPU of the server: this machine has {} cores, and the work needs {}",
                    self.figures.cores,
                    grouped(self.cores, 1)
                )
            }
            _ => format!(
                "none is reached. The CPU of the server is closest: this machine takes {} h",
                grouped(self.hours_machine, 1)
            ),
        }
    }
}

fn amount(text: &str) -> Result<f64, String> {
    let (digits, factor) = match text.strip_suffix(['k', 'M']) {
        Some(digits) => (digits, if text.ends_with('k') { 1e3 } else { 1e6 }),
        None => (text, 1.0),
    };
    let number = digits.parse().ok().map(|number: f64| number * factor);
    number
        .filter(|number| (1.0..=1e12).contains(number))
        .ok_or_else(|| "must be a number such as 250k or 10M".into())
}

fn percent(text: &str) -> Result<f64, String> {
    let number = text.trim_end_matches('%').parse().ok().filter(|number| (0.0..=100.0).contains(number));
    number.map(|number: f64| number / 100.0).ok_or_else(|| "must be a number from 0 to 100".into())
}

fn share(text: &str) -> Result<(String, f64), String> {
    let (name, share) = text.split_once('=').ok_or("must be NAME=PERCENT")?;
    Ok((name.to_owned(), percent(share)?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::tests::{figures, workload};
    use crate::providers::built_in;

    fn made(workload: Workload, pace: Pace, sources: u32) -> Plan {
        Plan::make(workload, figures(), &built_in(pace), 1.0, 0.5, sources)
    }

    #[test]
    fn what_binds_is_said() {
        let mut work = workload(Way::Clean);
        assert!(made(work.clone(), Pace::Lab, 1).limit.starts_with("none is reached. "));
        work.providers = vec![("icloud".into(), 0.5)];
        let plan = made(work.clone(), Pace::Polite, 1);
        assert!(plan.limit.starts_with("the sources' limits at icloud: it accepts 8.3 "), "{}", plan.limit);
        assert_eq!(plan.sources_needed, 6.0);
        assert!(!made(work.clone(), Pace::Polite, 6).limit.starts_with("the sources' limits"));
        work = Workload { addresses: 1e9, ..workload(Way::Clean) };
        assert!(
            made(work, Pace::Lab, 1).limit.starts_with("the CPU of the server: this machine has 2 cores")
        );
    }

    #[test]
    fn the_busiest_time_is_what_is_planned_for() {
        let table = built_in(Pace::Lab);
        let one = Plan::make(workload(Way::Clean), figures(), &table, 1.0, 0.5, 1);
        let three = Plan::make(workload(Way::Clean), figures(), &table, 3.0, 0.5, 1);
        assert!((three.cores / one.cores - 3.0).abs() < 1e-6);
        assert!((three.sessions / one.sessions - 3.0).abs() < 1e-6);
        let text = three.text();
        for part in ["an address of a list", "0 % fast", "(peak)", "none is reached. "] {
            assert!(text.contains(part), "{text}");
        }
    }

    #[test]
    fn the_page_has_curves_and_no_json() {
        let mut work = workload(Way::Clean);
        work.addresses = 12_345_678.0;
        work.providers = vec![("icloud".into(), 0.5)];
        for pace in [Pace::Polite, Pace::Lab] {
            let plan = made(work.clone(), pace, 3);
            assert!(plan.text().starts_with("12,345,678 addresses per day"), "{}", plan.text());
            let html = plan.html();
            assert_eq!(html.matches("<figure>").count(), 4);
            for part in
                ["Hours by source addresses", "Addresses per hour by cores", "--sources 3", "12,345,678"]
            {
                assert!(html.contains(part), "{part}");
            }
            assert!(!html.contains("&quot;") && !html.contains("NaN") && !html.contains("inf"), "{html}");
        }
    }

    #[test]
    fn amounts_and_shares_are_read() {
        assert_eq!(amount("250k"), Ok(250_000.0));
        assert_eq!(amount("1.5M"), Ok(1_500_000.0));
        assert_eq!(amount("7"), Ok(7.0));
        assert!(amount("0").is_err() && amount("k").is_err() && amount("inf").is_err());
        assert_eq!(percent("30%"), Ok(0.3));
        assert!(percent("101").is_err() && percent("NaN").is_err());
        assert_eq!(share("google=30"), Ok(("google".into(), 0.3)));
    }
}
