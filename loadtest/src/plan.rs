//! `plan`: the needs of a number of addresses per day, from figures that were measured on a machine.

mod curves;
mod report;

use crate::digits::grouped;
use crate::figures::Figures;
use crate::model::{Demand, Group, Way, Workload};
use crate::objective::milliseconds;
use crate::providers::{self, Limits, OTHER, Pace};
use crate::{End, check, say};
use clap::Args;
use serde::Serialize;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use usage::values::{Unit, decimal, duration, whole_number};

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
    /// Time of the day for this work, such as 8h; a number without a unit is in hours
    #[arg(long, value_name = "TIME", default_value = "24h", value_parser = hours)]
    hours: f64,
    /// Load at the busiest time, divided by the average load
    #[arg(long, value_name = "FACTOR", default_value_t = 1.0, value_parser = decimal(1.0..=1e6))]
    peak: f64,
    /// Number of addresses per domain and day
    #[arg(long, value_name = "N", default_value = "10", value_parser = amount)]
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
    /// File with limits of providers (docs/loadtest.md has the built-in ones). They replace the built-in limits of the same names
    #[arg(long, value_name = "FILE")]
    providers: Option<PathBuf>,
    /// Pace at each site: the same as --pace of mailprobe
    #[arg(long, value_enum, default_value = "polite")]
    pace: Pace,
    /// Number of source addresses, each in a program of its own (--part of `clean`, or a node of a cluster). Several
    /// sources of one program do not speed up a site
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = whole_number(1u32..=100_000))]
    sources: u32,
    /// Number of cores for the work [default: that of the machine in the file of figures]
    #[arg(long, value_name = "N", value_parser = whole_number(1u32..=100_000))]
    cores: Option<u32>,
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
    /// The number of cores that the hours are for, if it is not that of the machine in the figures.
    pub given_cores: Option<u32>,
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
        if !sound(self.per_domain) || self.per_domain < 1.0 || self.busy <= 0.0 {
            return Err("--per-domain must be at least 1, --busy above 0".into());
        }
        let known = |name: &str| name != OTHER && table.iter().any(|limits| limits.name == name);
        if let Some((name, _)) = self.share.iter().find(|(name, _)| !known(name)) {
            let names: Vec<&str> =
                table.iter().map(|limits| limits.name.as_str()).filter(|name| *name != OTHER).collect();
            let meant = providers::known_as(name).map_or(String::new(), |meant| format!(": write {meant}"));
            return Err(format!(
                "--share: `{name}` is not the name of a provider{meant}; the names are {}. Each serves all domains of the \
                 provider: gmail.com belongs to google, hotmail.com to outlook, domains at Microsoft to microsoft365",
                names.join(", ")
            ));
        }
        let sum: f64 = self.share.iter().map(|(_, share)| share).sum();
        if sum > 1.0 + 1e-9 {
            return Err(format!(
                "--share: the sum is {} percent, and at most 100 is possible",
                grouped(sum * 100.0, 1)
            ));
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
        let means = Means { peak: args.peak, busy: args.busy, sources: args.sources, cores: args.cores };
        Ok(Plan::make(args.workload(&table)?, figures, &table, means))
    }

    /// The plan is for the busiest time.
    fn make(workload: Workload, figures: Figures, table: &[Limits], means: Means) -> Plan {
        let Means { peak, busy, sources, cores: given_cores } = means;
        let at_peak = Workload { seconds: workload.seconds / peak, ..workload.clone() };
        let demand = Demand::of(&at_peak, &figures, table);
        let cores = demand.cpu_s / at_peak.seconds / busy;
        let own_cores = f64::from(given_cores.unwrap_or(figures.cores));
        let hours_machine = demand.cpu_s / (own_cores * busy) / 3600.0;
        let mut plan = Plan {
            cores,
            memory_mib: demand.memory_bytes / 1024.0 / 1024.0,
            sessions: demand.sessions_open,
            sources_needed: demand.groups.iter().map(|group| group.sources).fold(1.0, f64::max),
            sources,
            given_cores,
            hours_polite: 0.0,
            hours_machine,
            limit: String::new(),
            workload,
            peak,
            busy,
            figures,
            demand,
        };
        plan.hours_polite = plan.hours_at_sites(f64::from(sources));
        plan.limit = plan.limit();
        plan
    }

    /// The hours that the slowest site needs with this number of source addresses.
    fn hours_at_sites(&self, sources: f64) -> f64 {
        let seconds = self.demand.groups.iter().map(|group| group.seconds_with(sources));
        seconds.fold(0.0, f64::max) / 3600.0
    }

    /// The number of cores for the work.
    fn own_cores(&self) -> u32 {
        self.given_cores.unwrap_or(self.figures.cores)
    }

    /// The cores for the work, in words.
    fn own_cores_text(&self) -> String {
        match self.given_cores {
            Some(1) => "1 core".into(),
            Some(cores) => format!("{cores} cores"),
            None => "this machine".into(),
        }
    }

    /// The words for the load that the plan is for.
    fn at_the_peak(&self) -> String {
        if self.peak > 1.0 {
            format!(" at the peak ({} x the average load)", grouped(self.peak, 1))
        } else {
            String::new()
        }
    }

    /// One sentence that names the limiting resource.
    fn limit(&self) -> String {
        let sources = f64::from(self.sources);
        let slowest = self.demand.groups.iter().max_by(|one, other| {
            let by_sources = one.sources.max(sources).total_cmp(&other.sources.max(sources));
            by_sources.then(one.seconds_with(sources).total_cmp(&other.seconds_with(sources)))
        });
        let machine = self.own_cores_text();
        let at = |group: &Group| match group.name.as_str() {
            OTHER => "each of the other sites".to_owned(),
            name => name.to_owned(),
        };
        match slowest {
            Some(group) if self.sources_needed > sources => format!(
                "the sources' limits at {}: it accepts {} recipients/s per source (its limit: {}), so the work needs \
                 {} sources{}, {PROGRAMS}; or {} h with --sources {}",
                at(group),
                rate(group.polite_rate.unwrap_or(0.0)),
                group.bound_by,
                grouped(self.sources_needed, 0),
                self.at_the_peak(),
                grouped(self.hours_polite, 1),
                self.sources
            ),
            Some(group) if self.hours_polite > self.hours_machine => format!(
                "none is reached. The sources' limits at {} are closest (its limit: {}): it takes {} h with --sources {}, \
                 {machine} {} h",
                at(group),
                group.bound_by,
                grouped(self.hours_polite, 1),
                self.sources,
                grouped(self.hours_machine, 1)
            ),
            _ if self.cores > f64::from(self.own_cores()) => {
                let has = match self.given_cores {
                    Some(cores) => format!("--cores is {cores}"),
                    None => format!("this machine has {} cores", self.figures.cores),
                };
                let needed = grouped(self.cores, 1);
                format!("the CPU of the server: {has}, and the work needs {needed}{}", self.at_the_peak())
            }
            _ => format!(
                "none is reached. The CPU of the server is closest: {machine} takes {} h",
                grouped(self.hours_machine, 1)
            ),
        }
    }
}

/// What there is for the work, and the load that it has to bear.
#[derive(Debug, Clone, Copy)]
struct Means {
    peak: f64,
    busy: f64,
    sources: u32,
    cores: Option<u32>,
}

/// How several sources speed up a site.
const PROGRAMS: &str = "each in a program of its own (--part, or a node of a cluster)";

/// A rate with enough digits, since a budget may allow much less than one recipient per second.
fn rate(per_second: f64) -> String {
    let decimals = match per_second {
        10.0.. => 1,
        0.1.. => 2,
        _ => 4,
    };
    grouped(per_second, decimals)
}

fn amount(text: &str) -> Result<f64, String> {
    let text = text.replace(',', "");
    let (digits, factor) = match text.strip_suffix(['k', 'M']) {
        Some(digits) => (digits, if text.ends_with('k') { 1e3 } else { 1e6 }),
        None => (text.as_str(), 1.0),
    };
    let number = digits.parse().ok().map(|number: f64| number * factor);
    number
        .filter(|number| (1.0..=1e12).contains(number))
        .ok_or_else(|| "must be a number such as 250k or 10M".into())
}

fn hours(text: &str) -> Result<f64, String> {
    duration(text, Some(Unit::Hours)).map(|time| time.as_secs_f64() / 3600.0)
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
        Plan::make(workload, figures(), &built_in(pace), means(1.0, sources))
    }

    fn means(peak: f64, sources: u32) -> Means {
        Means { peak, busy: 0.5, sources, cores: None }
    }

    #[test]
    fn what_binds_is_said() {
        let mut work = workload(Way::Clean);
        assert!(made(work.clone(), Pace::Lab, 1).limit.starts_with("none is reached. "));
        work.exists = 0.9;
        work.providers = vec![("icloud".into(), 0.5)];
        let plan = made(work.clone(), Pace::Polite, 1);
        assert!(plan.limit.starts_with("the sources' limits at icloud: it accepts 8.33 "), "{}", plan.limit);
        assert_eq!(plan.sources_needed, 6.0);
        assert!(!made(work.clone(), Pace::Polite, 6).limit.starts_with("the sources' limits"));
        work = Workload { addresses: 1e9, ..workload(Way::Clean) };
        assert!(
            made(work, Pace::Lab, 1).limit.starts_with("the CPU of the server: this machine has 2 cores")
        );
    }

    /// Runs the options of a command line.
    fn planned(words: &str) -> Result<Plan, String> {
        #[derive(clap::Parser)]
        struct Words {
            #[command(flatten)]
            args: PlanArgs,
        }
        let words = ["plan"].into_iter().chain(words.split_whitespace());
        Plan::of(&<Words as clap::Parser>::try_parse_from(words).unwrap().args, figures())
    }

    #[test]
    fn the_limit_names_what_the_work_needs() {
        for (words, parts) in [
            (
                "--per-day 10M --share google=60",
                &[
                    "at google: it accepts 8.08 recipients/s per source (its limit: budget of refused recipients)",
                    "needs 10 sources, each in a program of its own (--part, or a node of a cluster)",
                ][..],
            ),
            ("--per-day 10M --share google=60 --exists 90", &["(its limit: new sessions per minute)"]),
            (
                "--per-day 4M --share google=60 --peak 3",
                &["needs 11 sources at the peak (3.0 x the average load),"],
            ),
            ("--per-day 1M --per-domain 40k", &["closest", "at each of the other sites"]),
            ("--way api --per-day 1M --cores 1 --pace lab", &["none is reached. ", ": 1 core takes "]),
            ("--way api --per-day 1M --pace lab", &["none is reached. ", ": this machine takes "]),
            ("--way api --per-day 900M --cores 4 --pace lab", &["--cores is 4, and the work needs "]),
        ] {
            let plan = planned(words).unwrap();
            assert!(parts.iter().all(|part| plan.limit.contains(part)), "{words}: {}", plan.limit);
        }
    }

    #[test]
    fn the_report_says_what_it_assumes() {
        for (words, parts, absent) in [
            (
                "--per-day 10M",
                &[
                    "No --share is given: the plan has no big provider, and each site has 10.0 addresses",
                    "A session of a list takes 20.0 recipients of its site after the first one",
                    "The list is sorted by domain, or has at most 100,000 rows (`clean --queue`). In random order it needs up to",
                    "other (1,000,000 sites) ",
                    "recipients/s per source and site",
                    "MiB = 87.7 (clean, a list of this length) + 85.8 (100,000 rows in progress x 900 B) + 16.7 (filter of ",
                    " 10,000,000 addresses x 1.75 B) + 18.1 (950 sessions with TLS x 20,000 B) + ",
                    "1 is enough, 1.4 % busy at the peak (0.02 cores at --busy 60)",
                ][..],
                &["Budget of refused recipients at"][..],
            ),
            (
                "--per-day 10M --share google=60",
                &[
                    "Budget of refused recipients at google: 6,000 per source in 65 minutes; this work has 1,200,001.",
                    "wait only with `clean --max-wait 780001` (with --sources 1)",
                    "8.08 (budget of refused recipients)",
                ],
                &["No --share"],
            ),
            ("--per-day 50k", &["No --share"], &["In random order"]),
            (
                "--way api --per-day 10M --share google=60",
                &["get 503", "of 999,955 domains x 1,000 B, at most 16 MiB)"],
                &["sorted by domain", "A session of a list"],
            ),
            (
                "--way batch --per-day 10M --share google=60",
                &["`batch_wait`", "rows of batches x 300 B"],
                &[],
            ),
            ("--way api --per-day 900M", &[" are enough, "], &[]),
        ] {
            let plan = planned(words).unwrap();
            let (text, html) = (plan.text(), plan.html());
            for part in parts {
                assert!(text.contains(part), "{words}: no `{part}` in\n{text}");
            }
            assert!(parts[..1].iter().all(|part| html.contains(part.split(':').next().unwrap())), "{words}");
            assert!(!absent.iter().any(|part| text.contains(part)), "{words}:\n{text}");
        }
    }

    #[test]
    fn more_sources_shorten_the_hours_until_a_budget_is_enough() {
        for (sources, windows) in [(1, 2.5), (2, 1.25), (3, 0.0)] {
            let words = format!("--per-day 74995 --share google=100 --per-domain 74995 --sources {sources}");
            let hours = planned(&words).unwrap().hours_at_sites(f64::from(sources));
            let wanted: f64 = windows * 3900.0 / 3600.0;
            assert!((hours - wanted).abs() < 0.01 || (windows == 0.0 && hours < 0.5), "{sources}: {hours}");
        }
    }

    #[test]
    fn wrong_shares_have_a_remedy() {
        for (words, parts) in [
            ("--share google=60,yahoo=50", &["the sum is 110.0 percent"][..]),
            ("--share gmail=5", &["`gmail` is not the name of a provider: write google;", "gmx, qq"]),
            ("--share acme=5", &["`acme` is not the name of a provider; the names are google"]),
            ("--share other=5", &["`other` is not the name of a provider; "]),
        ] {
            let error = planned(words).map(|plan| plan.limit).unwrap_err();
            assert!(parts.iter().all(|part| error.contains(part)), "{words}: {error}");
        }
    }

    #[test]
    fn the_line_of_the_work_is_at_its_value() {
        for words in ["--per-day 10M", "--per-day 10k", "--per-day 10M --share google=60"] {
            let html = planned(words).unwrap().html();
            assert!(!html.contains('≤'), "{words}: an axis begins above a value");
        }
    }

    #[test]
    fn the_busiest_time_is_what_is_planned_for() {
        let table = built_in(Pace::Lab);
        let one = Plan::make(workload(Way::Clean), figures(), &table, means(1.0, 1));
        let three = Plan::make(workload(Way::Clean), figures(), &table, means(3.0, 1));
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
        assert_eq!(amount("10,000,000"), Ok(10_000_000.0));
        assert!(amount("0").is_err() && amount("k").is_err() && amount("inf").is_err());
        assert_eq!(percent("30%"), Ok(0.3));
        assert!(percent("101").is_err() && percent("NaN").is_err());
        assert_eq!(share("google=30"), Ok(("google".into(), 0.3)));
    }
}
